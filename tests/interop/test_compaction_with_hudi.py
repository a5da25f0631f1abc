"""Compactions beside real Hudi: each runs the other's plans, reads what the other compacted, and goes on."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import pudi
from pudi.commit.lease import ServiceLease
from pudi.format import State, decode_compaction_plan
from pudi.testing import SimulatedCrash
from support.engines import Engine
from support.engines import LocalEngine as Arrow
from support.hudi import HudiTable, table_options
from support.layouts import pairwise
from support.rows import Row, assert_same
from support.trips import table, trip

pytestmark = [pytest.mark.interop, pytest.mark.spark]

NO_METADATA = {"hoodie.metadata.enable": "false"}


def _hudi(spark: Any, path: Path, version: int, block: str = "avro", merging: str | None = "ts") -> HudiTable:
    options = table_options("trips", "uuid", "city", merging, version=version)
    return HudiTable(
        spark,
        path,
        options
        | {
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.logfile.data.block.format": block,
            "hoodie.compact.inline": "false",
            "hoodie.parquet.small.file.limit": "0",
        },
    )


def _written(hudi: HudiTable) -> HudiTable:
    """A table with log files that update, delete and bring late versions."""
    hudi.write("bulk_insert", table(trip(number, 10) for number in range(30)))
    hudi.write("upsert", table([trip(number, 20, "two") for number in range(0, 30, 2)]))
    hudi.write("upsert", table([trip(number, 5, "late") for number in range(0, 30, 5)] + [trip(40, 20, "new")]))
    hudi.write("delete", table([trip(number, 0) for number in (3, 4, 7)]))
    return hudi


def _call(hudi: HudiTable, operation: str, more: str = "") -> None:
    """Have Hudi do it (the procedure schedules after one delta commit; it would switch the metadata table on)."""
    options = "hoodie.metadata.enable=false,hoodie.write.auto.upgrade=false"
    version = hudi.options["hoodie.write.table.version"]
    options += f",hoodie.write.table.version={version},hoodie.compact.inline.max.delta.commits=1"
    hudi.spark.sql(
        f"call run_compaction(op => '{operation}', path => '{hudi.path}', options => '{options}'{more})"
    ).collect()


def _logs(mine: pudi.Table) -> int:
    return sum(len(file_slice.logs) for file_slice in mine.file_slices())


def _rows(engine: Engine, mine: pudi.Table) -> list[Row]:
    return engine.read(mine.scan())


def _without_place(rows: list[Row]) -> list[Row]:
    return [{name: value for name, value in row.items() if name != "_hoodie_file_name"} for row in rows]


def _session(engine: Engine, spark: Any) -> Any:
    return spark if engine.name == "spark" else None


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize(("version", "block", "merging"), pairwise([6, 8, 9], ["avro", "parquet"], ["ts", None]))
def test_pudi_compacts_what_hudi_wrote(
    spark: Any, engine: Engine, tmp_path: Path, version: int, block: str, merging: str | None
) -> None:
    hudi = _written(_hudi(spark, tmp_path / "trips", version, block, merging))
    before = hudi.snapshot()
    mine = pudi.Table(hudi.path, options=NO_METADATA | {"pudi.compaction.verify": "true"})
    assert _logs(mine) > 0
    done = mine.compact(spark=_session(engine, spark))
    assert done is not None
    assert _logs(mine) == 0
    after = hudi.snapshot()
    assert_same(_without_place(after), _without_place(before), about="Hudi reads what pudi compacted")
    assert_same(_rows(engine, mine), after, about="pudi reads it")
    hudi.write("upsert", table([trip(number, 30, "after") for number in range(0, 30, 3)]))
    hudi.write("delete", table([trip(9, 0)]))
    assert _logs(mine) > 0
    assert_same(_rows(engine, mine), hudi.snapshot(), about="Hudi went on")
    _call(hudi, "scheduleAndExecute")
    assert _logs(mine) == 0
    assert_same(_rows(engine, mine), hudi.snapshot(), about="Hudi compacts what pudi compacted")
    assert mine.compact() is None


@pytest.mark.sampled(1)
@pytest.mark.parametrize("version", [6, 8, 9])
def test_hudi_runs_a_plan_of_pudi(spark: Any, engine: Engine, tmp_path: Path, version: int) -> None:
    hudi = _written(_hudi(spark, tmp_path / "trips", version))
    mine = pudi.Table(hudi.path, options=NO_METADATA)
    instant = mine.schedule("compaction")
    assert instant is not None
    hudi.write("upsert", table([trip(number, 30, "meanwhile") for number in range(0, 30, 3)]))
    pending = hudi.snapshot()
    assert_same(_rows(engine, mine), pending, about="pending")
    _call(hudi, "run", f", timestamp => {instant}")
    assert mine.timeline.commit(instant) is not None
    assert_same(_without_place(hudi.snapshot()), _without_place(pending), about="Hudi ran it")
    assert_same(_rows(engine, mine), hudi.snapshot(), about="as read by pudi")
    assert _logs(mine) > 0


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("version", [9, 8, 6])
def test_pudi_runs_a_plan_of_hudi(spark: Any, engine: Engine, tmp_path: Path, version: int) -> None:
    hudi = _written(_hudi(spark, tmp_path / "trips", version))
    mine = pudi.Table(hudi.path, options=NO_METADATA)
    _call(hudi, "schedule")
    hudi.write("upsert", table([trip(number, 30, "meanwhile") for number in range(0, 30, 3)]))
    pending = hudi.snapshot()
    assert_same(_rows(engine, mine), pending, about="pending")
    assert mine.schedule("compaction") is None, "every file group is under compaction"
    [done] = mine.run_pending(spark=_session(engine, spark))
    assert done.operation == "COMPACT"
    assert_same(_without_place(hudi.snapshot()), _without_place(pending), about="pudi ran it")
    assert_same(_rows(engine, mine), hudi.snapshot(), about="as read by pudi")
    hudi.write("upsert", table([trip(number, 40, "then") for number in range(0, 30, 4)]))
    assert_same(_rows(engine, mine), hudi.snapshot(), about="Hudi went on")
    assert mine.compact() is not None
    assert_same(_rows(engine, mine), hudi.snapshot(), about="all compacted")


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("block", ["avro", "parquet"])
def test_hudi_reads_logs_that_pudi_compacted(
    spark: Any, engine: Engine, tmp_path: Path, version: int, block: str
) -> None:
    hudi = _written(_hudi(spark, tmp_path / "trips", version, block))
    before = hudi.snapshot()
    mine = pudi.Table(hudi.path, options=NO_METADATA | {"hoodie.log.compaction.blocks.threshold": "2"})
    done = mine.compact(log_compaction=True, spark=_session(engine, spark))
    assert done is not None
    assert done.operation == "LOG_COMPACT"
    assert_same(_without_place(hudi.snapshot()), _without_place(before), about="Hudi reads logs that pudi compacted")
    assert_same(_rows(engine, mine), hudi.snapshot(), about="pudi reads them")
    hudi.write("upsert", table([trip(number, 30, "after") for number in range(0, 30, 3)]))
    hudi.write("delete", table([trip(9, 0)]))
    assert_same(_rows(engine, mine), hudi.snapshot(), about="Hudi went on")
    again = mine.compact(log_compaction=True, spark=_session(engine, spark))
    assert again is not None
    after = hudi.snapshot()
    assert_same(_rows(engine, mine), after, about="compacted logs among compacted ones")
    _call(hudi, "scheduleAndExecute")
    assert _logs(mine) == 0
    assert_same(_without_place(hudi.snapshot()), _without_place(after), about="Hudi compacts all")
    assert_same(_rows(engine, mine), hudi.snapshot(), about="as read by pudi")


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("version", [6, 9])
def test_plans_are_alike(spark: Any, tmp_path: Path, version: int) -> None:
    hudi = _written(_hudi(spark, tmp_path / "trips", version))
    mine = pudi.Table(shutil.copytree(hudi.path, tmp_path / "copy" / "trips"), options=NO_METADATA)
    assert mine.schedule("compaction") is not None
    _call(hudi, "schedule")
    plans = [
        decode_compaction_plan(file.read_bytes())
        for path in (hudi.path, tmp_path / "copy" / "trips")
        for file in (path / ".hoodie").rglob("*.compaction.requested")
        if "metadata" not in file.parts
    ]
    theirs, ours = ({op.group: op for op in plan.operations} for plan in plans)
    assert ours == theirs
    assert plans[0].missing_partitions == plans[1].missing_partitions


@pytest.mark.sampled(1)
@pytest.mark.parametrize("version", [6, 9])
def test_hudi_takes_up_a_run_of_pudi_that_died(spark: Any, tmp_path: Path, version: int) -> None:
    hudi = _written(_hudi(spark, tmp_path / "trips", version))
    before = hudi.snapshot()
    mine = pudi.Table(hudi.path, options=NO_METADATA)
    assert mine.schedule("compaction") is not None
    with patch.object(ServiceLease, "check", side_effect=SimulatedCrash), pytest.raises(SimulatedCrash):
        mine.run_pending()  # files written, not completed
    [pending] = mine.timeline.pending
    assert pending.state is State.INFLIGHT
    assert len(list(hudi.path.glob(f"*/*_{pending.requested}.parquet"))) > 0
    assert_same(hudi.snapshot(), before, about="after the crash")
    _call(hudi, "run", f", timestamp => {pending.requested}")
    assert _logs(mine) == 0
    assert_same(_without_place(hudi.snapshot()), _without_place(before), about="Hudi ran it")
    assert_same(_rows(Arrow(), mine), hudi.snapshot(), about="as read by pudi")
    made = {file_slice.base_file.name.name for file_slice in mine.file_slices()}
    assert {file.name for file in hudi.path.glob(f"*/*_{pending.requested}.parquet")} <= made, "none of the dead run's"
