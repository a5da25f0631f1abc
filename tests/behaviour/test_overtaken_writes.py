"""A write that another action overtakes: requested or planned before it, and completed after it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pudi
from pudi.indexes.record_index.state import shards_for
from support.layouts import Layout
from support.trips import SCHEMA, table, trip

pytestmark = pytest.mark.metadata_by_default


@pytest.mark.parametrize("few", [1 << 20, 0], ids=["few", "many"])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_statistics_of_partitions_contain_its_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, few: int
) -> None:
    """It was requested first and completes last; in the metadata table, the other's record counts as the newer one."""
    monkeypatch.setattr("pudi.indexes.column_stats.statistics.FEW", few)
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


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_keys_that_a_clustering_moves_while_they_are_looked_up_are_no_new_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The record index says where they are now; the write's timeline doesn't show that file group."""
    pudi.create(tmp_path / "t", SCHEMA, **Layout(version=9, kind=kind).create_arguments())
    records = {"hoodie.index.type": "RECORD_INDEX", "hoodie.parquet.small.file.limit": "0"}
    mine = pudi.Table(tmp_path / "t", records)
    mine.insert(table([trip(0, 1), trip(3, 1)]))
    mine.insert(table([trip(6, 1), trip(9, 1)]))
    mine.create_index("record_index")
    moved = list[pudi.CommitResult | None]()

    def move_first(*given: Any) -> Any:
        if not moved:
            moved.append(pudi.Table(mine.path).cluster())
        return shards_for(*given)

    monkeypatch.setattr("pudi.writes.place_records.shards_for", move_first)
    mine.upsert(table([trip(0, 2), trip(12, 2)]))
    assert moved[0] is not None
    found = mine.scan(["uuid", "ts"]).to_arrow().to_pylist()
    assert sorted((row["uuid"], row["ts"]) for row in found) == [
        ("k0000", 2),
        ("k0003", 1),
        ("k0006", 1),
        ("k0009", 1),
        ("k0012", 2),
    ]
    assert mine.check().ok, str(mine.check())


@pytest.mark.parametrize(("version", "verb"), [(6, "insert_overwrite"), (9, "upsert")])
def test_a_savepoint_keeps_a_write_that_was_requested_before_and_completes_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, verb: str
) -> None:
    """The state of a commit goes by requested times; when the savepoint was made, this file wasn't there."""
    monkeypatch.setattr("pudi.hooks.validators._REGISTERED", {})
    pudi.create(tmp_path / "t", SCHEMA, **Layout(version=version).create_arguments())
    alone = {"hoodie.parquet.small.file.limit": "0", "hoodie.clean.automatic": "false"}
    mine = pudi.Table(tmp_path / "t", alone)
    mine.insert(table([trip(0, 1), trip(1, 1)]))
    saved = list[str]()

    def save(*_: object) -> None:
        if not saved:
            saved.append(pudi.Table(mine.path, alone).upsert(table([trip(1, 2)])).instant)
            pudi.Table(mine.path, alone).savepoint(saved[0])

    pudi.register_validator("save", save)
    slow = pudi.Table(mine.path, alone | {"hoodie.precommit.validators": "save"})
    own = getattr(slow, verb)(table([trip(0, 5), trip(3, 5)]))
    assert own.instant < saved[0]
    before = mine.scan(as_of=saved[0]).to_arrow().sort_by("uuid")
    assert before["ts"].to_pylist() == [5, 2, 5]
    for ts in range(6, 10):
        mine.insert_overwrite(table([trip(0, ts)]))
    assert mine.clean(options={"hoodie.clean.commits.retained": "1"})
    assert mine.scan(as_of=saved[0]).to_arrow().sort_by("uuid").equals(before)
    mine.delete_savepoint(saved[0])
    assert mine.clean(options={"hoodie.clean.commits.retained": "1"})
    with pytest.raises(pudi.NotFoundError):
        mine.scan(as_of=saved[0]).to_arrow()
