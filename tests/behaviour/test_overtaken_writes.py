"""A write that another one overtakes: requested before it, and completed after it."""

from __future__ import annotations

from pathlib import Path

import pytest

import pudi
from support.layouts import Layout
from support.trips import SCHEMA, table, trip

pytestmark = pytest.mark.metadata_by_default


@pytest.mark.parametrize("few", [1 << 20, 0], ids=["few", "many"])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_statistics_of_partitions_contain_its_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, few: int
) -> None:
    """It was requested first and completes last; in the metadata table, the other's record counts as the newer one."""
    monkeypatch.setattr("pudi.action.kinds.column_stats.statistics.FEW", few)
    arguments = Layout(version=9, kind=kind).create_arguments()
    arguments["options"] |= {"hoodie.metadata.index.column.stats.enable": "true"}
    pudi.create(tmp_path / "t", SCHEMA, **arguments)
    small = {"hoodie.parquet.small.file.limit": "0"}
    mine = pudi.Table(tmp_path / "t", small)
    mine.insert(table([trip(0, 1), trip(3, 1)]))
    mine.insert(table([trip(6, 1), trip(9, 1)]))
    name, others = f"overtake_{kind}_{few}", list[pudi.CommitResult]()

    def overtake(*_: object) -> None:
        if not others:
            others.append(pudi.Table(mine.path, small).upsert(table([trip(6, 7)])))

    pudi.register_validator(name, overtake)
    own = pudi.Table(mine.path, small | {"hoodie.precommit.validators": name}).upsert(table([trip(0, 99)]))
    assert own.instant < others[0].instant
    assert own.completion_time > others[0].completion_time
    assert mine.check().ok, str(mine.check())
