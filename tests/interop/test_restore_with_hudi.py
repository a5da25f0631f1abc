"""Savepoints and restores beside real Hudi: each restores to the other's savepoint, and goes on with what is left."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import pudi
from pudi.client import MetaClient
from pudi.context import Context
from pudi.format import Action, State
from pudi.storage import open_storage
from pudi.testing import FaultStorage, SimulatedCrash
from support.hudi import HudiTable, table_options
from support.rows import assert_same, from_arrow
from support.trips import table, trip

pytestmark = [pytest.mark.interop, pytest.mark.spark]

TABLES = [(version, kind) for version in (6, 8, 9) for kind in ("cow", "mor")]
OPTIONS = {
    "hoodie.metadata.enable": "true",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.compact.inline": "false",
    "hoodie.parquet.small.file.limit": "0",
}


def _hudi(spark: Any, path: Path, version: int, kind: str) -> HudiTable:
    options = table_options("trips", "uuid", "city", "ts", version=version)
    named = "MERGE_ON_READ" if kind == "mor" else "COPY_ON_WRITE"
    return HudiTable(spark, path, options | OPTIONS | {"hoodie.datasource.write.table.type": named})


def _call(spark: Any, text: str) -> Any:
    return spark.sql(text).collect()


def _more(hudi: HudiTable, mine: pudi.Table, kind: str, ts: int) -> None:
    """Writes by both, a compaction, and a replaced partition."""
    hudi.write("upsert", table(trip(number, ts) for number in range(0, 8)))
    mine.upsert(table(trip(number, ts + 1) for number in range(4, 12)))
    if kind == "mor":
        assert mine.compact() is not None
    mine.upsert(table(trip(number, ts + 2) for number in range(0, 12, 3)))
    hudi.write("insert_overwrite", table([trip(0, ts + 3)]))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("by", ["pudi", "hudi"])
@pytest.mark.parametrize(("version", "kind"), TABLES)
def test_one_restores_to_the_savepoint_of_the_other(
    spark: Any, tmp_path: Path, version: int, kind: str, by: str
) -> None:
    hudi = _hudi(spark, tmp_path / "trips", version, kind)
    hudi.write("bulk_insert", table(trip(number, 10) for number in range(9)), "overwrite")
    mine = pudi.Table(hudi.path, options=OPTIONS)
    mine.upsert(table(trip(number, 11) for number in range(6)))
    instant = mine.timeline.commits[-1].requested
    if by == "hudi":
        mine.savepoint(instant, user="pudi")
    else:
        _call(spark, f"CALL create_savepoint(path => '{hudi.path}', commit_time => '{instant}')")
    assert [each.instant for each in mine.savepoints()] == [instant]
    expected = from_arrow(mine.scan().to_arrow())
    assert_same(hudi.snapshot(), expected, about="at the savepoint")
    _more(hudi, mine, kind, 20)
    if by == "hudi":
        _call(spark, f"CALL rollback_to_savepoint(path => '{hudi.path}', instant_time => '{instant}')")
    else:
        mine.restore(instant)
    mine = pudi.Table(hudi.path, options=OPTIONS)  # Hudi's procedure upgrades tables of version 6
    assert mine.timeline.of(Action.RESTORE)
    assert_same(from_arrow(mine.scan().to_arrow()), expected, about=f"restored by {by}, read by pudi")
    assert_same(hudi.snapshot(), expected, about=f"restored by {by}, read by Hudi")
    listed = from_arrow(pudi.Table(hudi.path).scan().to_arrow())
    assert len(listed) == hudi.frame(**{"hoodie.metadata.enable": "true"}).count()
    if by == "pudi":
        assert mine.check().ok, mine.check()
    if (version, by) == (6, "hudi"):
        return
    hudi.write("upsert", table(trip(number, 90) for number in range(0, 10, 2)))
    mine.upsert(table(trip(number, 91) for number in range(0, 10, 3)))
    if kind == "mor":
        mine.compact()
    assert_same(from_arrow(mine.scan().to_arrow()), hudi.snapshot(), about="both go on")
    if by == "pudi":
        assert mine.check().ok, mine.check()


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize(("version", "kind"), TABLES)
def test_hudi_goes_on_after_a_rollback(spark: Any, tmp_path: Path, version: int, kind: str) -> None:
    hudi = _hudi(spark, tmp_path / "trips", version, kind)
    hudi.write("bulk_insert", table(trip(number, 10) for number in range(9)), "overwrite")
    mine = pudi.Table(hudi.path, options=OPTIONS)
    expected = from_arrow(mine.scan().to_arrow())
    hudi.write("upsert", table(trip(number, 11) for number in range(6)))
    mine.rollback(mine.timeline.commits[-1].requested)
    assert_same(hudi.snapshot(), expected)
    hudi.write("upsert", table(trip(number, 12) for number in range(3, 12)))
    assert_same(from_arrow(mine.scan().to_arrow()), hudi.snapshot())
    assert mine.check().ok, mine.check()


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("version", "kind", "by"),
    [(8, "cow", "hudi"), (9, "cow", "hudi"), (8, "mor", "pudi"), (9, "cow", "pudi"), (9, "mor", "pudi")],
)
def test_one_completes_the_restore_of_the_other(spark: Any, tmp_path: Path, version: int, kind: str, by: str) -> None:
    """Hudi's has only been planned; pudi's died when it had rolled back some commits.

    Not Hudi's completion on merge-on-read: it passes over a compaction that is half rolled back, since the plan says
    `commit`, and then refuses the result.
    """
    hudi = _hudi(spark, tmp_path / "trips", version, kind)
    hudi.write("bulk_insert", table(trip(number, 10) for number in range(9)), "overwrite")
    mine = pudi.Table(hudi.path, options=OPTIONS)
    instant = mine.savepoint().instant
    expected = from_arrow(mine.scan().to_arrow())
    _more(hudi, mine, kind, 20)
    copy = tmp_path / "copy"
    shutil.copytree(hudi.path, copy)
    if by == "pudi":
        _call(spark, f"CALL rollback_to_savepoint(path => '{copy}', instant_time => '{instant}')")
        for name in ("restore.requested", "restore.inflight"):
            [planned] = (copy / ".hoodie/timeline").glob(f"*.{name}")
            shutil.copy(planned, hudi.path / ".hoodie/timeline")
        mine.restore()
    else:
        calls = _restore(copy, instant, None)
        with pytest.raises(SimulatedCrash):
            _restore(hudi.path, instant, calls * 3 // 5)
        [pending] = pudi.Table(hudi.path).timeline.of(Action.RESTORE, State.INFLIGHT)
        _call(spark, f"CALL rollback_to_savepoint(path => '{hudi.path}', instant_time => '{instant}')")
        assert [each.requested for each in pudi.Table(hudi.path).timeline.of(Action.RESTORE)] == [pending.requested]
    mine = pudi.Table(hudi.path, options=OPTIONS)
    assert mine.timeline.pending == ()
    assert_same(from_arrow(mine.scan().to_arrow()), expected, about=f"completed by {by}, read by pudi")
    assert_same(hudi.snapshot(), expected, about=f"completed by {by}, read by Hudi")
    mine.upsert(table(trip(number, 90) for number in range(0, 10, 2)))
    hudi.write("upsert", table(trip(number, 91) for number in range(0, 10, 3)))
    assert_same(from_arrow(mine.scan().to_arrow()), hudi.snapshot(), about="both go on")


def _restore(path: Path, to: str, fail_at: int | None) -> int:
    """Restore by pudi, which dies at a storage call; return the number of calls."""
    storage = FaultStorage(open_storage(str(path)), fail_at=fail_at, mode="crash")
    pudi.Table.of(MetaClient.open(str(path), None, OPTIONS, Context(), storage), OPTIONS).restore(to)
    return storage.calls
