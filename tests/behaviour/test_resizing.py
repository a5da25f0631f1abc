"""Clusterings split and merge the buckets of consistent hashing: no record changes, each stays in one bucket."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import pudi
from behaviour.test_consistent_hashing import CONSISTENT, RINGS, rings
from support.engines import Engine, LocalEngine, per_engine
from support.layouts import Layout
from support.pudi_table import PudiTable
from support.rows import PLACE_FIELDS, Row, assert_same, from_arrow
from support.trips import SCHEMA, steps, table, trip

pytestmark = pytest.mark.metadata_by_default

SPLIT = {
    "hoodie.bucket.index.max.num.buckets": "64",
    "hoodie.parquet.max.file.size": "1000",
    "hoodie.bucket.index.split.threshold": "0.1",
    "hoodie.bucket.index.merge.threshold": "0.0",
}
MERGE = {"hoodie.bucket.index.min.num.buckets": "1", "hoodie.bucket.index.merge.threshold": "1.0"}
INDEXED = {"hoodie.metadata.record.index.enable": "true"}
LAYOUTS = [Layout(version=version, kind="mor") for version in (6, 8, 9)]
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
FLAT = Layout("simple", "flat", "event", 9, "mor")


def made(engine: Engine, path: Path, layout: Layout) -> PudiTable:
    return PudiTable.create(engine, path / "trips", SCHEMA, layout, CONSISTENT | INDEXED)


def rows(made: PudiTable) -> list[Row]:
    found = from_arrow(pudi.Table(made.path).scan().to_arrow())
    return sorted(({k: v for k, v in row.items() if k != "_hoodie_file_name"} for row in found), key=str)


def cluster(made: PudiTable, engine: Engine | None = None, **options: Any) -> pudi.CommitResult | None:
    return pudi.Table(made.path).cluster(spark=getattr(engine, "spark", None), **options)


def check(made: PudiTable, about: str) -> dict[str, list[str]]:
    """Every file group is a bucket of its partition's ring, each key is in one; return the rings."""
    mine, found = pudi.Table(made.path), rings(made.path)
    for each in mine.file_slices():
        assert each.file_id.removesuffix("-0") in found[each.partition], about
    keys = mine.scan(columns=["_hoodie_partition_path", "_hoodie_record_key"]).to_arrow().to_pylist()
    assert max(Counter(tuple(row.values()) for row in keys).values(), default=1) == 1, about
    assert mine.check().ok, f"{about}: {mine.check()}"
    return found


@pytest.mark.parametrize(("engine", "layout"), per_engine(LAYOUTS, LAYOUTS[-1:]), indirect=["engine"])
def test_buckets_are_split_and_merged(engine: Engine, tmp_path: Path, layout: Layout) -> None:
    made_table = made(engine, tmp_path, layout)
    made_table.write("upsert", table([trip(number, 1) for number in range(60)]))
    made_table.write("upsert", table([trip(number, 2, "two") for number in range(0, 60, 3)]))
    made_table.write("delete", table([trip(number, 0) for number in (4, 5)]))
    before, old = rows(made_table), check(made_table, "at first")
    done = cluster(made_table, engine, options=SPLIT)
    assert done is not None
    assert done.operation == "CLUSTER"
    assert_same(rows(made_table), before, about="split")
    split = check(made_table, "split")
    assert all(len(split[partition]) == 8 for partition in old)
    assert all(not each.logs for each in made_table.table.file_slices())
    made_table.write("upsert", table([trip(number, 3, "three") for number in range(0, 70, 2)]))
    check(made_table, "written after a split")
    before = rows(made_table)
    assert cluster(made_table, engine, options=MERGE) is not None
    assert_same(rows(made_table), before, about="merged")
    merged = check(made_table, "merged")
    assert all(len(found) < len(split[partition]) for partition, found in merged.items())
    made_table.write("upsert", table([trip(number, 4, "four") for number in range(70)]))
    assert {row["rider"] for row in rows(made_table)} == {"four"}
    assert len(rows(made_table)) == 70
    check(made_table, "written after a merge")


def test_random_writes_and_resizings(tmp_path: Path) -> None:
    layout = LAYOUTS[-1]
    made_table = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, layout, CONSISTENT)
    model = layout.model(logs_first=True)
    for number, step in enumerate(steps(7, 12, ("upsert", "upsert", "delete", "insert_overwrite"))):
        getattr(model, step.verb)(from_arrow(step.data), *made_table.write(step.verb, step.data))
        if number % 2:
            cluster(made_table, options=SPLIT if number % 4 == 1 else MERGE)
        assert_same(made_table.snapshot(), model.snapshot(), PLACE_FIELDS, f"{number}: {step.verb}")
    check(made_table, "at last")


def test_by_default_nothing_is_resized(tmp_path: Path) -> None:
    made_table = made(LocalEngine(), tmp_path, FLAT)
    made_table.write("upsert", table([trip(number, 1) for number in range(9)]))
    assert cluster(made_table) is None
    assert cluster(made_table, options={"hoodie.bucket.index.split.threshold": "0"}) is None
    done = cluster(made_table, order_by="fare")
    assert done is not None, "columns to order by give each bucket a new file group"
    assert len(rings(made_table.path)[""]) == 4


def test_what_does_not_fit_the_index_is_refused(tmp_path: Path) -> None:
    made_table = made(LocalEngine(), tmp_path, FLAT)
    made_table.write("upsert", table([trip(number, 1) for number in range(9)]))
    strategy = "org.apache.hudi.client.clustering.{}"
    for key, name in (
        ("plan.strategy", "plan.strategy.SparkSizeBasedClusteringPlanStrategy"),
        ("execution.strategy", "run.strategy.SparkSortAndSizeExecutionStrategy"),
    ):
        with pytest.raises(pudi.InvalidArgumentError, match="with consistent hashing takes"):
            cluster(made_table, options={f"hoodie.clustering.{key}.class": strategy.format(name)})
    other = PudiTable.create(LocalEngine(), tmp_path / "other", SCHEMA, FLAT)
    other.write("upsert", table([trip(number, 1) for number in range(9)]))
    name = strategy.format("plan.strategy.SparkConsistentBucketClusteringPlanStrategy")
    with pytest.raises(pudi.InvalidArgumentError, match="for tables with consistent hashing"):
        cluster(other, options={"hoodie.clustering.plan.strategy.class": name})
    fixed = PudiTable.create(LocalEngine(), tmp_path / "fixed", SCHEMA, FLAT, BUCKETS)
    fixed.write("upsert", table([trip(number, 1) for number in range(9)]))
    with pytest.raises(pudi.NotSupportedError, match="fixed number of buckets"):
        cluster(fixed)


def test_writes_during_a_resizing(tmp_path: Path) -> None:
    made_table = made(LocalEngine(), tmp_path, LAYOUTS[-1])
    cities = ("nyc", "rome")
    made_table.write("upsert", table([trip(number, 1, city=cities[number % 2]) for number in range(60)]))
    mine = pudi.Table(made_table.path)
    in_one = SPLIT | {"hoodie.clustering.plan.strategy.partition.selected": "nyc"}
    instant = mine.schedule("clustering", options=in_one)
    assert instant is not None
    assert mine.schedule("clustering", options=in_one) is None
    before = rows(made_table)
    with pytest.raises(pudi.ConflictError, match="is pending on file group"):
        mine.upsert(table([trip(2, 2, city="nyc")]))
    assert_same(rows(made_table), before, about="nothing of the refused write is there")
    mine.upsert(table([trip(1, 2, "two", city="rome")]))
    [done] = mine.run_pending()
    assert done.instant == instant
    mine.upsert(table([trip(2, 3, "three", city="nyc")]))
    found = {row["uuid"]: row["rider"] for row in rows(made_table)}
    assert (found["k0001"], found["k0002"], len(found)) == ("two", "three", 60)
    check(made_table, "at last")


@pytest.mark.parametrize("version", [6, 9])
def test_a_resizing_is_rolled_back(tmp_path: Path, version: int) -> None:
    made_table = made(LocalEngine(), tmp_path, Layout("simple", "flat", "event", version, "mor"))
    made_table.write("upsert", table([trip(number, 1) for number in range(40)]))
    mine = pudi.Table(made_table.path)
    before, ring, last = rows(made_table), rings(made_table.path), mine.timeline.commits[-1].requested
    mine.savepoint()
    cluster(made_table, options=SPLIT)
    assert rings(made_table.path) != ring
    mine.restore(last)
    assert_same(rows(made_table), before, about="restored")
    assert check(made_table, "restored") == ring
    mine.upsert(table([trip(number, 2, "two") for number in range(50)]))
    assert {row["rider"] for row in rows(made_table)} == {"two"}
    cluster(made_table, options=SPLIT)
    assert len(check(made_table, "split again")[""]) == 8


def test_a_ring_outlives_its_instant(tmp_path: Path) -> None:
    made_table = made(LocalEngine(), tmp_path, FLAT)
    made_table.write("upsert", table([trip(number, 1) for number in range(40)]))
    cluster(made_table, options=SPLIT)
    keep = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "hoodie.clean.commits.retained": "1"}
    for ts in range(2, 9):
        pudi.Table(made_table.path, options=keep).upsert(table([trip(number, ts, f"r{ts}") for number in range(40)]))
    folder = made_table.path / RINGS
    [marker] = folder.glob("*.commit")
    instant = marker.name.removesuffix(".commit")
    assert pudi.Table(made_table.path).timeline.commit(instant) is None, "it is archived"
    stale = json.loads((folder / f"{instant}.hashing_meta").read_text())
    stale["nodes"] = stale["nodes"][:-2]
    stale["nodes"].append(stale["nodes"].pop() | {"fileIdPrefix": "11111111-2222-3333-4444-555555555555"})
    stale_path = folder / f"{int(instant) + 1}.hashing_meta"  # of a rollback by Hudi, which leaves it
    stale_path.write_text(json.dumps(stale))
    for lost in (False, True):
        if lost:
            marker.unlink()
        pudi.Table(made_table.path).upsert(table([trip(number, 20, f"lost {lost}") for number in range(50)]))
        assert {row["rider"] for row in rows(made_table)} == {f"lost {lost}"}
        assert len(rows(made_table)) == 50


@pytest.mark.parametrize("memory", ["1073741824", "1048576"])
def test_buckets_that_do_not_fit_in_memory(tmp_path: Path, memory: str) -> None:
    made_table = made(LocalEngine(), tmp_path, FLAT)
    made_table.write("upsert", table([trip(number, 1, f"r{number % 7}") for number in range(400)]))
    before = rows(made_table)
    assert (
        cluster(made_table, order_by="fare", options=SPLIT | {"hoodie.memory.compaction.max.size": memory}) is not None
    )
    assert_same(rows(made_table), before, about=f"split in {memory} bytes")
    assert len(check(made_table, "split")[""]) == 8
