"""Overwrites, deletes of partitions, changes by predicate and merges: real Hudi reads each result and goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.disk import base_files
from support.engines import Engine, LocalEngine
from support.hudi import HudiTable, hudi_rs_snapshot
from support.layouts import FEW, Layout
from support.model import Model
from support.pudi_table import PudiTable
from support.rows import PLACE_FIELDS, assert_same, from_arrow
from support.trips import REPLACING, SCHEMA, steps, table, trip

pytestmark = [pytest.mark.interop, pytest.mark.spark]

NINE = [trip(number, 10) for number in range(9)]


class Three:
    """One table as pudi, Hudi and the model see it."""

    def __init__(self, spark: Any, engine: Engine, path: Path, layout: Layout) -> None:
        self.pudi = PudiTable.create(engine, path, SCHEMA, layout)
        self.hudi = HudiTable(spark, path, layout.hudi_options("trips"))
        self.model: Model = layout.model()

    def write(self, writer: str, verb: str, rows: list[dict[str, Any]]) -> None:
        data = table(rows)
        chosen: PudiTable | HudiTable = self.pudi if writer == "pudi" else self.hudi
        self.model.by_hudi = writer == "Hudi"
        getattr(self.model, verb)(from_arrow(data), *chosen.write(verb, data))
        self.check(f"after {verb} by {writer}")

    def check(self, about: str) -> None:
        rows = self.pudi.snapshot()
        assert_same(rows, self.model.snapshot(), PLACE_FIELDS, f"{about}, read by pudi")
        assert_same(self.hudi.snapshot(), rows, about=f"{about}, read by Hudi")

    def check_history(self) -> None:
        for commit in self.model.commits:
            assert_same(self.pudi.as_of(commit.instant), self.model.as_of(commit.instant), PLACE_FIELDS, "as of")
            assert_same(self.hudi.as_of(commit.instant), self.pudi.as_of(commit.instant), about="as of, Hudi")
            mine = self.pudi.changes(commit.completion)
            assert_same(mine, self.model.changes(commit.completion), PLACE_FIELDS, "changes")
            if mine:
                assert_same(self.hudi.changes(commit.completion), mine, about="changes, Hudi")


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", FEW[:2], ids=str)
def test_each_replacing_verb(spark: Any, engine: Engine, tmp_path: Path, layout: Layout) -> None:
    three = Three(spark, engine, tmp_path / "trips", layout)
    three.write("pudi", "bulk_insert", NINE)
    three.write("pudi", "insert_overwrite", [trip(0, 20, "over"), trip(100, 20, "over", "nyc")])
    three.write("Hudi", "upsert", [trip(0, 30, "Hudi"), trip(1, 30, "Hudi"), trip(103, 30, "Hudi", "nyc")])
    three.write("pudi", "delete_partitions", [trip(1, 0)])
    three.write("Hudi", "insert", [trip(1, 5, "back")])
    three.write("pudi", "insert_overwrite_table", [trip(2, 1, "all"), trip(3, 1, "all")])
    three.write("Hudi", "upsert", [trip(2, 50, "Hudi"), trip(5, 50, "Hudi")])
    three.write("Hudi", "insert_overwrite", [trip(3, 60, "over again")])
    three.write("pudi", "upsert", [trip(3, 70, "pudi"), trip(5, 70, "pudi")])
    three.check_history()
    assert_same(hudi_rs_snapshot(three.pudi.path), three.pudi.snapshot(), about="hudi-rs")


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("pudi_first", [True, False], ids=["pudi-begins", "hudi-begins"])
def test_ten_rounds_with_overwrites(
    spark: Any, engine: Engine, tmp_path: Path, rounds: Callable[[int], int], pudi_first: bool
) -> None:
    three = Three(spark, engine, tmp_path / "trips", FEW[0] if pudi_first else FEW[1])
    verbs = ("insert", "upsert", "upsert", "delete", "insert_overwrite", "insert_overwrite", *REPLACING)
    for number, step in enumerate(steps(31 + pudi_first, rounds(11), verbs)):
        if not three.model.is_idle(step.verb, from_arrow(step.data)):
            three.write("pudi" if (number % 2 == 0) == pudi_first else "Hudi", step.verb, step.data.to_pylist())
    three.check_history()


@pytest.mark.sampled(1)
def test_changes_by_predicate_and_merges(spark: Any, engine: Engine, tmp_path: Path) -> None:
    three = Three(spark, engine, tmp_path / "trips", FEW[0])
    three.write("pudi", "bulk_insert", NINE)
    on_spark = {"spark": spark} if engine.name == "spark" else {}

    def after(result: Any, new: Any) -> None:
        assert result is not None
        three.model.change(result.instant, result.completion_time, new)
        three.check(result.operation)

    result = three.pudi.table.update({"rider": "'cy'", "fare": "fare * 2"}, "city = 'nyc' AND fare > 1", **on_spark)
    after(
        result,
        lambda r: r | {"rider": "cy", "fare": r["fare"] * 2} if r["city"] == "nyc" and r["fare"] > 1 else r,
    )
    three.write("Hudi", "upsert", [trip(0, 30, "Hudi"), trip(3, 30, "Hudi"), trip(50, 30, "Hudi")])
    result = three.pudi.table.delete(where="uuid IN ('k0003', 'k0004')", **on_spark)
    after(result, lambda r: None if r["uuid"] in {"k0003", "k0004"} else r)
    three.write("Hudi", "upsert", [trip(4, 1, "back")])
    source = engine.frame(table([trip(0, 99, "gone"), trip(5, 99, "merged")]))
    result = three.pudi.table.merge(source).when_matched_delete("source.rider = 'gone'").when_matched_update().execute()
    after(
        result,
        lambda r: None if r["uuid"] == "k0000" else r | trip(5, 99, "merged") if r["uuid"] == "k0005" else r,
    )
    three.write("Hudi", "upsert", [trip(5, 100, "Hudi"), trip(60, 100, "Hudi")])
    three.check_history()


@pytest.mark.slow
def test_an_update_to_a_lower_ordering_value_is_late_for_hudi_too(spark: Any, tmp_path: Path) -> None:
    three = Three(spark, LocalEngine(), tmp_path / "trips", FEW[0])
    three.write("pudi", "bulk_insert", NINE)
    assert three.pudi.table.update({"ts": "ts - 5", "rider": "'late'"}, "uuid = 'k0001'") is None
    spark.sql(f"CREATE TABLE IF NOT EXISTS late_trips USING hudi LOCATION '{three.pudi.path}'")
    spark.sql("UPDATE late_trips SET ts = ts - 5, rider = 'late' WHERE uuid = 'k0001'")
    assert {row["rider"] for row in three.hudi.snapshot() if row["uuid"] == "k0001"} == {"ann"}
    spark.sql("DROP TABLE late_trips")


@pytest.mark.slow
def test_replaced_file_groups_stay_out_after_cleaning_and_archiving(spark: Any, tmp_path: Path) -> None:
    """Hudi cleans what pudi replaced and archives pudi's replacecommits; nothing comes back."""
    three = Three(spark, LocalEngine(), tmp_path / "trips", Layout())
    three.write("pudi", "bulk_insert", NINE)
    three.write("pudi", "insert_overwrite", [trip(0, 20, "over"), trip(3, 20, "over")])
    three.write("pudi", "delete_partitions", [trip(1, 0)])
    before = {file.name for file in base_files(three.pudi.path)}
    services = {
        "hoodie.clean.automatic": "true",
        "hoodie.clean.commits.retained": "1",
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
        "hoodie.archive.automatic": "true",
    }
    three.hudi.options = {**three.hudi.options, **services}
    for number in range(6):
        three.write("Hudi", "upsert", [trip(0, 30 + number, f"round {number}"), trip(2, 30 + number)])
    assert {file.name for file in base_files(three.pudi.path)} & before < before
    timeline = three.pudi.path / ".hoodie" / "timeline"
    assert not list(timeline.glob(f"{three.model.commits[1].instant}*")), "the overwrite is archived"
    three.write("pudi", "upsert", [trip(0, 90, "pudi")])


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("mode", ["GLOBAL_SORT", "PARTITION_SORT", "PARTITION_PATH_REPARTITION"])
def test_hudi_reads_sorted_bulk_inserts(spark: Any, engine: Engine, tmp_path: Path, mode: str) -> None:
    three = Three(spark, engine, tmp_path / "trips", Layout())
    three.pudi.options = {"hoodie.bulkinsert.sort.mode": mode}
    three.write("pudi", "bulk_insert", NINE[::-1])
    three.write("Hudi", "upsert", [trip(3, 20, "Hudi")])
