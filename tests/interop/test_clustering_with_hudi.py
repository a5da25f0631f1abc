"""Clusterings beside real Hudi: each runs the other's plans, reads what the other clustered, and goes on."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import pudi
from pudi.format import RequestedReplaceMetadata, decode_requested_replace_metadata
from support.engines import Engine
from support.hudi import HudiTable, table_options
from support.rows import Row, assert_same
from support.trips import table, trip

pytestmark = [pytest.mark.interop, pytest.mark.spark]

INDEXED = {"hoodie.metadata.enable": "true", "hoodie.metadata.record.index.enable": "true"}
SORTED = {"hoodie.clustering.plan.strategy.sort.columns": "fare,ts"}
TABLES = [(version, kind) for version in (9, 8, 6) for kind in ("COPY_ON_WRITE", "MERGE_ON_READ")]


def _hudi(spark: Any, path: Path, version: int, kind: str) -> HudiTable:
    """A table of Hudi with several file groups in each partition; on merge on read some have log files."""
    hudi = HudiTable(
        spark,
        path,
        table_options("trips", "uuid", "city", "ts", version=version)
        | INDEXED
        | {"hoodie.datasource.write.table.type": kind, "hoodie.parquet.small.file.limit": "0"},
    )
    hudi.write("bulk_insert", table(trip(number, 10) for number in range(30)))
    mine = pudi.Table(hudi.path, INDEXED | {"hoodie.parquet.small.file.limit": "0"})
    mine.insert(table(trip(number, 10) for number in range(30, 50)))
    hudi.write("upsert", table([trip(number, 20, "two") for number in range(0, 40, 3)]))
    mine.delete(table([trip(number, 0) for number in (3, 4)]))
    return hudi


def _call(hudi: HudiTable, operation: str, **more: str) -> None:
    version = hudi.options["hoodie.write.table.version"]
    told = INDEXED | {"hoodie.write.auto.upgrade": "false", "hoodie.write.table.version": version}
    options = ",".join(f"{key}={value}" for key, value in told.items())
    said = "".join(f", {name} => '{value}'" for name, value in more.items())
    call = f"call run_clustering(path => '{hudi.path}', op => '{operation}', options => '{options}'{said})"
    hudi.spark.sql(call).collect()


def _without_place(rows: list[Row]) -> list[Row]:
    return [{name: value for name, value in row.items() if name != "_hoodie_file_name"} for row in rows]


def _goes_on(hudi: HudiTable, engine: Engine, before: list[Row], ran: str) -> None:
    """Both read the clustered table as before, and write to it."""
    mine = pudi.Table(hudi.path, INDEXED)
    assert_same(_without_place(hudi.snapshot()), _without_place(before), about=f"{ran} clustered it")
    assert_same(engine.read(mine.scan()), hudi.snapshot(), about="as read by pudi")
    assert mine.check().ok, mine.check()
    hudi.write("upsert", table([trip(number, 30, "Hudi") for number in range(0, 60, 4)]))
    mine.upsert(table([trip(number, 40, "pudi") for number in range(0, 60, 5)]))
    assert_same(engine.read(mine.scan()), hudi.snapshot(), about="both went on")
    assert mine.check().ok, mine.check()


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize(("version", "kind"), TABLES)
def test_hudi_runs_a_plan_of_pudi(spark: Any, engine: Engine, tmp_path: Path, version: int, kind: str) -> None:
    hudi = _hudi(spark, tmp_path / "trips", version, kind)
    before = hudi.snapshot()
    mine = pudi.Table(hudi.path, INDEXED)
    instant = mine.schedule("clustering", options=SORTED)
    assert instant is not None
    assert_same(hudi.snapshot(), before, about="pending")
    _call(hudi, "execute", instants=instant)
    assert mine.timeline.commit(instant) is not None
    assert all(each.base is not None and each.base.instant == instant for each in mine.file_slices())
    _goes_on(hudi, engine, before, "Hudi")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("version", "kind"), TABLES)
def test_pudi_runs_a_plan_of_hudi(spark: Any, engine: Engine, tmp_path: Path, version: int, kind: str) -> None:
    hudi = _hudi(spark, tmp_path / "trips", version, kind)
    before = hudi.snapshot()
    _call(hudi, "schedule", order="fare,ts")
    mine = pudi.Table(hudi.path, INDEXED)
    with pytest.raises(pudi.ConflictError, match="is pending on file group"):
        mine.upsert(table([trip(0, 50)]))
    [done] = mine.run_pending(spark=getattr(engine, "spark", None))
    assert done.operation == "CLUSTER"
    assert all(not each.logs for each in mine.file_slices())
    _goes_on(hudi, engine, before, "pudi")


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", ["linear", "zorder", "hilbert"])
@pytest.mark.parametrize(("version", "kind"), TABLES)
def test_hudi_reads_what_pudi_clustered(
    spark: Any, engine: Engine, tmp_path: Path, version: int, kind: str, layout: str
) -> None:
    hudi = _hudi(spark, tmp_path / "trips", version, kind)
    before = hudi.snapshot()
    mine = pudi.Table(hudi.path, INDEXED)
    done = mine.cluster(order_by=["fare", "ts"], layout=layout, spark=getattr(engine, "spark", None))
    assert done is not None
    _goes_on(hudi, engine, before, "pudi")


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize(("version", "kind"), TABLES)
def test_plans_are_alike(spark: Any, tmp_path: Path, version: int, kind: str) -> None:
    hudi = _hudi(spark, tmp_path / "trips", version, kind)
    copy = shutil.copytree(hudi.path, tmp_path / "copy" / "trips")
    assert pudi.Table(copy, INDEXED).schedule("clustering", options=SORTED) is not None
    _call(hudi, "schedule", order="fare,ts")
    ours, theirs = (_plan(path) for path in (copy, hudi.path))
    assert ours.operation_type == theirs.operation_type
    assert _comparable(ours, copy) == _comparable(theirs, hudi.path)


def _plan(path: Path) -> RequestedReplaceMetadata:
    folder = path / ".hoodie" / "timeline"
    [file] = [*folder.glob("*.clustering.requested"), *folder.parent.glob("*.replacecommit.requested")]
    return decode_requested_replace_metadata(file.read_bytes())


def _comparable(plan: RequestedReplaceMetadata, path: Path) -> dict[str, Any]:
    """A plan without the table's location, and without the order of slices of equal size."""
    assert plan.clustering_plan is not None
    found = dict(plan.clustering_plan)
    for group in found["inputGroups"]:
        for each in group["slices"]:
            each["dataFilePath"] = each["dataFilePath"].removeprefix(str(path)).removeprefix(f"file:{path}")
            each["deltaFilePaths"] = [name.rpartition("/")[2] for name in each["deltaFilePaths"]]
        group["slices"].sort(key=lambda each: each["fileId"])
    found["missingSchedulePartitions"] = found["missingSchedulePartitions"] or []
    return found
