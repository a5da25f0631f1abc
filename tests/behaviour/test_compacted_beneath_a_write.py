"""Merge-on-read: a write brings a deleted record back while a compaction drops it; no later write doubles its key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pudi
from pudi.writes.pending_clusterings import UpdateStrategy
from support.engines import Engine, per_engine
from support.layouts import Layout
from support.pudi_table import PudiTable
from support.trips import SCHEMA, table, trip

pytestmark = pytest.mark.metadata_by_default

KEYS = [0, 3, 6]
"""Of one partition."""
INDEXES = ["SIMPLE", "BLOOM", "GLOBAL_SIMPLE", "GLOBAL_BLOOM"]
CASES = [(version, index) for version in (9, 8, 6) for index in INDEXES]


def brought_back(path: Path, version: int) -> pudi.Table:
    """A table of which one record is in a log file alone: k0003."""
    pudi.create(path, SCHEMA, **Layout(version=version, kind="mor").create_arguments())
    mine = pudi.Table(path, {"hoodie.parquet.small.file.limit": "0"})
    mine.insert(table(trip(key, 1) for key in KEYS))
    mine.delete(table([trip(3, 2)]))
    assert mine.schedule("compaction") is not None
    mine.upsert(table([trip(3, 3)]))
    assert len(mine.run_pending()) == 1
    assert keys(mine) == {"k0000": 1, "k0003": 3, "k0006": 1}
    return mine


def keys(mine: pudi.Table) -> dict[str, int]:
    rows = [(row["uuid"], row["ts"]) for row in pudi.Table(mine.path).scan(["uuid", "ts"]).to_arrow().to_pylist()]
    assert len(dict(rows)) == len(rows), "a key is there twice"
    return dict(rows)


@pytest.mark.parametrize(("engine", "version", "index"), per_engine(CASES, CASES[:2]), indirect=["engine"])
def test_it_is_found(engine: Engine, tmp_path: Path, version: int, index: str) -> None:
    mine = brought_back(tmp_path / "t", version)
    options = {"hoodie.index.type": index, "hoodie.parquet.small.file.limit": "0"}
    PudiTable(engine, tmp_path / "t", options).write("upsert", table([trip(3, 4), trip(6, 4)]))
    assert keys(mine) == {"k0000": 1, "k0003": 4, "k0006": 4}
    PudiTable(engine, tmp_path / "t", options).write("delete", table([trip(3, 5)]))
    assert keys(mine) == {"k0000": 1, "k0006": 4}
    assert mine.check().ok


@pytest.mark.parametrize("version", [8, 9])
def test_no_log_compaction_hides_it(tmp_path: Path, version: int) -> None:
    mine = brought_back(tmp_path / "t", version)
    mine.upsert(table([trip(0, 4)]))
    mine.compact(log_compaction=True, options={"hoodie.log.compaction.blocks.threshold": "2"})
    mine.upsert(table([trip(3, 5)]))
    assert keys(mine) == {"k0000": 4, "k0003": 5, "k0006": 1}


def test_it_is_found_after_the_compaction_was_archived(tmp_path: Path) -> None:
    mine = brought_back(tmp_path / "t", 9)
    options = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "hoodie.clean.commits.retained": "1"}
    for ts in range(4, 12):
        pudi.Table(mine.path, options).upsert(table([trip(1, ts)]))
    assert mine.timeline.start is not None
    compacted = next(each for each in mine.history(100) if each.operation == "COMPACT")
    assert compacted.archived
    mine.upsert(table([trip(3, 20)]))
    assert keys(mine)["k0003"] == 20


@pytest.mark.parametrize("verb", ["upsert", "update"])
@pytest.mark.parametrize("version", [8, 9])
def test_a_write_that_was_planned_before_it_completed_and_requested_after_it_plans_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, verb: str
) -> None:
    pudi.create(tmp_path / "t", SCHEMA, **Layout(version=version, kind="mor").create_arguments())
    mine = pudi.Table(tmp_path / "t", {"hoodie.parquet.small.file.limit": "0"})
    mine.insert(table(trip(key, 1) for key in KEYS))
    mine.delete(table([trip(3, 2)]))
    assert mine.schedule("compaction") is not None
    refuse, compacted = UpdateStrategy.refuse, list[pudi.CommitResult]()

    def compact_first(strategy: UpdateStrategy, *given: Any) -> None:
        if not compacted:
            compacted.extend(pudi.Table(mine.path).run_pending())
        refuse(strategy, *given)

    monkeypatch.setattr(UpdateStrategy, "refuse", compact_first)
    if verb == "upsert":
        done = mine.upsert(table([trip(3, 3), trip(6, 3)]))
    else:
        done = mine.update({"ts": "ts + 2"}, where="uuid = 'k0006'")
    assert len(compacted) == 1
    assert done is not None
    mine.upsert(table([trip(3, 4)]))
    assert keys(mine) == {"k0000": 1, "k0003": 4, "k0006": 3}
    assert mine.timeline.pending == ()
    assert mine.check().ok
