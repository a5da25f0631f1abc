"""Resizings of consistent hashing beside real Hudi: each runs the other's plans, and both go on by the new rings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pudi
from behaviour.test_consistent_hashing import rings
from support.hudi import HudiTable, table_options
from support.rows import Row, assert_same
from support.trips import table, trip

pytestmark = [pytest.mark.interop, pytest.mark.spark]

BUCKETS = {
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.bucket.index.hash.field": "uuid",
}
BUCKETS_AT_FIRST = 3 * 2  # in three partitions
SMALL_FILES = {"hoodie.parquet.max.file.size": "1000000", "hoodie.metadata.enable": "true"}
SPLIT = {
    "hoodie.bucket.index.max.num.buckets": "8",
    "hoodie.bucket.index.split.threshold": "0.0001",
    "hoodie.bucket.index.merge.threshold": "0.0",
} | SMALL_FILES
MERGE = {
    "hoodie.bucket.index.min.num.buckets": "1",
    "hoodie.bucket.index.split.threshold": "1000.0",
    "hoodie.bucket.index.merge.threshold": "1.0",
} | SMALL_FILES


def _hudi(spark: Any, path: Path, version: int) -> HudiTable:
    options = table_options("trips", "uuid", "city", "ts", version=version)
    kind = {"hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.compact.inline": "false"}
    hudi = HudiTable(spark, path, options | BUCKETS | SMALL_FILES | kind)
    hudi.write("upsert", table(trip(number, 10) for number in range(60)))
    hudi.write("upsert", table([trip(number, 20, "two") for number in range(0, 60, 3)]))
    return hudi


def _call(hudi: HudiTable, operation: str, resize: dict[str, str]) -> None:
    version = {
        "hoodie.write.auto.upgrade": "false",
        "hoodie.write.table.version": hudi.options["hoodie.write.table.version"],
    }
    key = {"hoodie.datasource.write.recordkey.field": "uuid"}
    options = ",".join(f"{name}={value}" for name, value in (BUCKETS | resize | version | key).items())
    hudi.spark.sql(f"call run_clustering(path => '{hudi.path}', op => '{operation}', options => '{options}')").collect()


def _rows(rows: list[Row]) -> list[Row]:
    return [{name: value for name, value in row.items() if name != "_hoodie_file_name"} for row in rows]


def _check(hudi: HudiTable, before: list[Row], about: str) -> None:
    """Both read the resized table as before, and write by the new rings."""
    mine = pudi.Table(hudi.path, SMALL_FILES)
    # Hudi's default strategy gives records new commit times (SingleSparkJobConsistentHashingExecutionStrategy)
    renewed = ("_hoodie_commit_time", "_hoodie_commit_seqno") if about.startswith("Hudi") else ()
    assert_same(_rows(hudi.snapshot()), _rows(before), renewed, f"{about}, as read by Hudi")
    assert_same(mine.scan().to_arrow().to_pylist(), hudi.snapshot(), about=f"{about}, as read by pudi")
    found, ts = rings(hudi.path), 100 + len(mine.timeline.commits)
    for each in mine.file_slices():
        assert each.file_id.removesuffix("-0") in found[each.partition], about
    hudi.write("upsert", table([trip(number, ts, "Hudi") for number in range(70)]))
    mine.upsert(table([trip(number, ts + 1, "pudi") for number in range(0, 80, 2)]))
    assert_same(mine.scan().to_arrow().to_pylist(), hudi.snapshot(), about=f"{about}, both went on")
    rows = hudi.snapshot()
    assert len({row["uuid"] for row in rows}) == len(rows)
    assert {row["uuid"]: row["rider"] for row in rows if row["ts"] >= ts}.get("k0003") == "Hudi"
    for each in mine.file_slices():
        assert each.file_id.removesuffix("-0") in found[each.partition], f"{about}, both went on"
    assert mine.check().ok, mine.check()


BOTH = pytest.param((SPLIT, MERGE), marks=pytest.mark.slow, id="split, merge")


@pytest.mark.slow
@pytest.mark.parametrize("resizes", [pytest.param((SPLIT,), id="split"), BOTH])
def test_hudi_runs_plans_of_pudi(spark: Any, tmp_path: Path, resizes: tuple[dict[str, str], ...]) -> None:
    hudi = _hudi(spark, tmp_path / "trips", 9)
    sizes = [BUCKETS_AT_FIRST]
    for resize in resizes:
        before, mine = hudi.snapshot(), pudi.Table(hudi.path, SMALL_FILES)
        instant = mine.schedule("clustering", options=resize)
        assert instant is not None
        _call(hudi, "execute", resize)
        assert mine.timeline.commit(instant) is not None
        _check(hudi, before, "Hudi ran a plan of pudi")
        sizes.append(sum(map(len, rings(hudi.path).values())))
    for resize, before_it, after_it in zip(resizes, sizes, sizes[1:], strict=False):
        assert after_it > before_it if resize is SPLIT else after_it < before_it


@pytest.mark.slow
@pytest.mark.parametrize("resizes", [pytest.param((MERGE,), id="merge"), BOTH])
def test_pudi_runs_plans_of_hudi(spark: Any, tmp_path: Path, resizes: tuple[dict[str, str], ...]) -> None:
    hudi = _hudi(spark, tmp_path / "trips", 9)
    sizes = [BUCKETS_AT_FIRST]
    for resize in resizes:
        before, mine = hudi.snapshot(), pudi.Table(hudi.path, SMALL_FILES)
        _call(hudi, "schedule", resize)
        with pytest.raises(pudi.ConflictError, match="is pending on file group"):
            mine.upsert(table([trip(0, 900)]))
        [done] = mine.run_pending()
        assert done.operation == "CLUSTER"
        _check(hudi, before, "pudi ran a plan of Hudi")
        sizes.append(sum(map(len, rings(hudi.path).values())))
    for resize, before_it, after_it in zip(resizes, sizes, sizes[1:], strict=False):
        assert after_it > before_it if resize is SPLIT else after_it < before_it


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("version", [9])
def test_each_resizes_what_the_other_wrote(spark: Any, tmp_path: Path, version: int) -> None:
    hudi = _hudi(spark, tmp_path / "trips", version)
    before = hudi.snapshot()
    assert pudi.Table(hudi.path, SMALL_FILES).cluster(options=SPLIT) is not None
    _check(hudi, before, "pudi split")
    before = hudi.snapshot()
    _call(hudi, "scheduleAndExecute", MERGE)
    _check(hudi, before, "Hudi merged")
