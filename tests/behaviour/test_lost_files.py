"""A base file that is gone is an error, never fewer rows."""

from __future__ import annotations

from pathlib import Path

import pytest

import pudi
from support.trips import SCHEMA, table, trip


@pytest.fixture
def trips(tmp_path: Path) -> pudi.Table:
    made = pudi.create(tmp_path / "trips", SCHEMA, record_key="uuid", partition_by="city", ordering="ts")
    made.bulk_insert(table([trip(n, 10) for n in range(9)]))
    return made


def test_gone_before_the_scan(trips: pudi.Table) -> None:
    victim = trips.file_slices()[0].base.path
    (Path(trips.path) / victim).unlink()
    for scan in (trips.scan(), trips.changes()):
        with pytest.raises(pudi.NotFoundError, match="is gone"):
            scan.to_arrow()


def test_gone_after_planning(trips: pudi.Table) -> None:
    scan = trips.scan()
    scan.explain()
    (Path(trips.path) / trips.file_slices()[0].base.path).unlink()
    with pytest.raises(pudi.NotFoundError):
        scan.to_arrow()


def test_gone_before_an_upsert(trips: pudi.Table) -> None:
    """The record would come in twice once the file is restored."""
    (Path(trips.path) / trips.file_slices()[0].base.path).unlink()
    with pytest.raises(pudi.NotFoundError, match="is gone"):
        trips.upsert(table([trip(n, 20) for n in range(9)]))
