"""Compaction and log compaction change no record, on both engines, whoever wrote the table."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pudi
from pudi.client import MetaClient, TableSnapshot
from pudi.commit.transaction import begin_report
from pudi.concurrency import Heartbeat
from pudi.config import resolve
from pudi.context import Context
from pudi.engine.local import LocalEngine
from pudi.filegroup import BaseFileWriter
from pudi.format import Action, CompactionOperation, CompactionPlan, State, encode_compaction_plan
from pudi.services.runner import run_after_commit
from support.engines import Engine
from support.engines import LocalEngine as Arrow
from support.golden import Golden
from support.rows import Row, assert_same
from support.trips import SCHEMA

QUIET = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
OPTIONS = {"hoodie.metadata.enable": "false", "pudi.compaction.verify": "true"}
ARROW = Arrow()
LOGS = {"hoodie.log.compaction.blocks.threshold": "1"}
TABLES = [
    "mor_v9_services", "mor_v6_services", "mor_v9_pending_compaction", "mor_v9_logcompact", "mor_v9_bucket",
    "mor_v9_delete_marker", "mor_v9_multi_ordering", "mor_v9_types_parquetlog", "mor_v9_evolved", "mor_v8_basic",
    "mor_v6_basic", "mor_v6_types_avrolog", "mor_v9_nonpart", "mor_v9_unicode_bucket", "mor_v9_commit_time",
]  # fmt: skip


@pytest.fixture
def copy(golden_folder: Path, tmp_path: Path) -> Callable[[str], pudi.Table]:
    def make(name: str) -> pudi.Table:
        shutil.copytree(Golden(name).unpack(golden_folder), tmp_path / name)
        return pudi.Table(tmp_path / name, OPTIONS)

    return make


def _rows(engine: Engine, mine: pudi.Table, **scan: Any) -> list[Row]:
    found = engine.read(mine.scan(**scan))
    return [{name: value for name, value in row.items() if name != "_hoodie_file_name"} for row in found]


def _session(engine: Engine) -> Any:
    return getattr(engine, "spark", None)


def _meta(mine: pudi.Table) -> MetaClient:
    return MetaClient.open(mine.path, None, OPTIONS, Context())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", TABLES)
def test_compaction_keeps_every_record(engine: Engine, copy: Callable[[str], pudi.Table], name: str) -> None:
    mine = copy(name)
    before = _rows(engine, mine)
    done = mine.compact(spark=_session(engine))
    assert done is not None
    assert done.operation == "COMPACT"
    assert all(not file_slice.logs for file_slice in mine.file_slices())
    assert_same(_rows(engine, mine), before, about="compacted")
    assert_same(_rows(engine, mine, read_optimized=True), before, about="read-optimized")
    names = engine.read(mine.scan(columns=["_hoodie_file_name"]))
    assert {row["_hoodie_file_name"] for row in names} <= {s.base_file.name.name for s in mine.file_slices()}
    assert engine.read(mine.changes(since=done.instant)) == [], "a compaction brings no changes"
    assert mine.compact(spark=_session(engine)) is None
    assert mine.schedule("compaction") is None


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["mor_v9_delete_marker", "mor_v9_types_parquetlog", "mor_v9_logcompact",
                                  "mor_v8_basic", "mor_v9_multi_ordering", "mor_v9_commit_time"])  # fmt: skip
def test_log_compaction_keeps_every_record(engine: Engine, copy: Callable[[str], pudi.Table], name: str) -> None:
    mine = copy(name)
    before, bases = _rows(engine, mine), [s.base for s in mine.file_slices()]
    done = mine.compact(log_compaction=True, spark=_session(engine), options=LOGS)
    assert done is not None
    assert done.operation == "LOG_COMPACT"
    assert [s.base for s in mine.file_slices()] == bases
    assert mine.timeline.find(done.instant, Action.DELTACOMMIT) is not None
    assert_same(_rows(engine, mine), before, about="log compacted")
    assert mine.compact(spark=_session(engine)) is not None
    assert_same(_rows(engine, mine), before, about="compacted then")


def test_a_plan_waits_for_whoever_comes(engine: Engine, copy: Callable[[str], pudi.Table]) -> None:
    mine = copy("mor_v9_services")
    before = _rows(engine, mine)
    instant = mine.schedule("compaction")
    assert instant is not None
    assert mine.schedule("compaction") is None, "every file group is in the plan"
    assert_same(_rows(engine, mine), before, about="pending")
    [done] = mine.run_pending(spark=_session(engine))
    assert (done.instant, done.operation) == (instant, "COMPACT")
    assert done.completion_time > instant
    assert_same(_rows(engine, mine), before, about="done")
    assert mine.run_pending() == []


def test_a_run_that_is_alive_is_left_alone(copy: Callable[[str], pudi.Table]) -> None:
    mine = copy("mor_v9_pending_compaction")
    meta = _meta(mine)
    [pending] = meta.store.load().of(Action.COMPACTION, State.REQUESTED)
    other = Heartbeat(meta.storage, pending.requested, meta.context, 60_000)
    other.start()
    try:
        assert mine.run_pending() == []
        assert mine.compact() is None, "what isn't in the pending plan is nothing"
    finally:
        other.stop(delete=False)
    assert len(mine.run_pending()) == 1


def test_a_file_that_is_not_the_merged_slice_is_not_published(
    copy: Callable[[str], pudi.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = copy("mor_v9_services")
    before = _rows(ARROW, mine)
    write = BaseFileWriter.write_parts

    def lose_one(self: BaseFileWriter, path: str, parts: Any, folder: str | None = None) -> Any:
        return write(self, path, (rows.slice(1) for rows in parts), folder)

    monkeypatch.setattr(BaseFileWriter, "write_parts", lose_one)
    with pytest.raises(pudi.CorruptError, match="merged slice"):
        mine.compact()
    monkeypatch.undo()
    assert_same(_rows(ARROW, mine), before)
    assert [i.action for i in mine.timeline.pending] == [Action.COMPACTION]
    assert len(mine.run_pending()) == 1
    assert_same(_rows(ARROW, mine), before)


def test_after_a_write_when_the_trigger_says_so(copy: Callable[[str], pudi.Table]) -> None:
    mine = copy("mor_v9_services")
    meta = _meta(mine)

    def after(**given: str) -> list[Any]:
        keys = {"inline": "hoodie.compact.inline", "plan": "hoodie.compact.schedule.inline",
                "commits": "hoodie.compact.inline.max.delta.commits",
                "services": "hoodie.table.services.enabled"}  # fmt: skip
        before, report = set(mine.timeline.commits), begin_report(meta, "upsert")
        options = resolve({keys[k]: v for k, v in given.items()} | QUIET | OPTIONS)
        run_after_commit(TableSnapshot.load(meta, options), LocalEngine(), report)
        assert report.failed == {}
        return sorted(set(mine.timeline.commits) - before)

    assert after() == []
    assert after(inline="true") == [], "one delta commit since the last compaction"
    assert after(plan="true", commits="1") == []
    assert len(mine.timeline.pending) == 1
    assert after(plan="true", commits="1") == []
    assert len(mine.timeline.pending) == 1, "one is pending"
    assert after(inline="true", services="false") == []
    [done] = after(inline="true")
    assert meta.store.read_commit_metadata(done).operation_type == "COMPACT"
    assert mine.timeline.pending == ()


def test_what_cannot_be_compacted(tmp_path: Path, copy: Callable[[str], pudi.Table]) -> None:
    cow = pudi.create(tmp_path / "cow", SCHEMA, record_key="uuid")
    for call in (cow.compact, lambda: cow.schedule("compaction")):
        with pytest.raises(pudi.InvalidArgumentError, match="copy-on-write"):
            call()
    assert cow.run_pending() == []
    mine = copy("mor_v6_services")
    with pytest.raises(pudi.NotSupportedError, match="partition_ttl"):
        mine.schedule("partition_ttl")
    with pytest.raises(pudi.NotSupportedError, match="version 6"):
        mine.compact(log_compaction=True)
    with pytest.raises(pudi.NotSupportedError, match="never loaded"):
        mine.compact(options={"hoodie.compaction.strategy": "com.example.Mine"})
    assert mine.compact(options={"hoodie.compact.inline.max.delta.commits": "9"}) is None
    assert mine.timeline.pending == ()


def test_a_plan_that_points_elsewhere_is_refused(copy: Callable[[str], pudi.Table]) -> None:
    mine = copy("mor_v9_services")
    for partition, log in (("../..", ".f-0_20261121080143200.log.1_0-0-0"), ("nyc", "../../secret"), ("nyc", "x")):
        operation = CompactionOperation(partition, "f-0", "20261121080143200", None, (log,))
        meta = _meta(mine)
        instant = meta.store.request(Action.COMPACTION, encode_compaction_plan(CompactionPlan((operation,))))
        with pytest.raises(pudi.CorruptError, match="where it can't be"):
            mine.run_pending()
        meta.store.discard(instant)
