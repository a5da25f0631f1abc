"""What isn't there, or stands in the wrong place, is refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

import pudi
from support.trips import SCHEMA, table, trip


@pytest.fixture
def trips(tmp_path: Path) -> pudi.Table:
    made = pudi.create(tmp_path / "trips", SCHEMA, record_key="uuid")
    made.insert(table([trip(1, 10)]))
    return made


def test_a_predicate_in_the_wrong_place(trips: pudi.Table) -> None:
    with pytest.raises(pudi.InvalidArgumentError, match="where="):
        trips.delete("ts > 1")


def test_what_never_was_is_an_attribute_error(trips: pudi.Table) -> None:
    with pytest.raises(AttributeError, match="upsret"):
        trips.upsret  # noqa: B018
