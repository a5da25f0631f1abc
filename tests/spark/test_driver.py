"""Small writes through Spark whose keys the driver finds: the same table as with Spark's tasks, in fewer jobs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.engine.spark import engine
from pudi.engine.spark.records import SparkRecords
from support.rows import assert_same, from_arrow
from support.spark import to_frame
from support.trips import SCHEMA, table, trip

pytestmark = pytest.mark.spark

INDEX = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.index.type": "RECORD_INDEX",
}
TYPED = pa.schema(
    [
        ("id", pa.int64()),
        ("flag", pa.bool_()),
        ("small", pa.int32()),
        ("single", pa.float32()),
        ("double", pa.float64()),
        ("money", pa.decimal128(20, 4)),
        ("day", pa.date32()),
        ("moment", pa.timestamp("us", "UTC")),
        ("raw", pa.binary()),
        ("list", pa.list_(pa.struct([("a", pa.int32()), ("b", pa.string())]))),
        ("map", pa.map_(pa.string(), pa.int64())),
    ]
)


def typed(number: int) -> dict[str, Any]:
    if number % 5 == 4:
        return {"id": number}
    return {
        "id": number,
        "flag": number % 2 == 0,
        "small": -number,
        "single": float("nan") if number == 1 else number / 4,
        "double": number / 3,
        "money": Decimal(number) / 16,
        "day": dt.date(2020, 1, 1 + number),
        "moment": dt.datetime(2024, 2, 29, 12, 0, number, 123456, tzinfo=dt.timezone.utc),
        "raw": bytes([number, 0, 255]),
        "list": [{"a": number, "b": None}, {"a": None, "b": "ü"}],
        "map": [("k", number)],
    }


def written(spark: Any, path: Path, kind: str) -> pudi.Table:
    pudi.create(path, SCHEMA, record_key="uuid", partition_by="city", ordering="ts", table_type=kind, options=INDEX)
    made = pudi.Table(path, options=INDEX)
    made.bulk_insert(to_frame(spark, table(trip(number, 10) for number in range(30))))
    return made


def small_writes(spark: Any, made: pudi.Table) -> None:
    twice = [trip(0, 21, "first"), trip(0, 21, "last"), trip(40, 20), trip(3, 5, "late")]
    made.upsert(to_frame(spark, table([*twice, trip(6, 30, city="sao_paulo")])))
    made.delete(to_frame(spark, table([trip(1, 0), trip(99, 0)])))
    made.upsert(to_frame(spark, table([trip(1, 40, "again")])))
    source = to_frame(spark, table([trip(2, 50, "merged"), trip(7, 50, "gone"), trip(60, 50, "new")]))
    merge = made.merge(source).when_matched_delete(condition="source.rider = 'gone'")
    merge.when_matched_update().when_not_matched_insert().execute()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_it_makes_the_same_table_without_a_query_for_keys(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    near, far = written(spark, tmp_path / "near", kind), written(spark, tmp_path / "far", kind)
    with monkeypatch.context() as patch:
        patch.setattr(engine, "tag", None)
        small_writes(spark, near)
    monkeypatch.setattr(engine, "_DRIVER_RECORDS", 0)
    small_writes(spark, far)
    mine, other = (
        [{k: v for k, v in row.items() if not k.startswith("_hoodie_") or "path" in k} for row in rows]
        for rows in (from_arrow(made.scan().to_arrow()) for made in (near, far))
    )
    assert_same(mine, other, about=kind)
    assert near.check().ok


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_small_partitions_and_services_need_no_task(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    options = {"hoodie.clean.commits.retained": "1", "hoodie.compact.inline": str(kind == "mor").lower()}
    options["hoodie.compact.inline.max.delta.commits"] = "2"
    made = {}
    for name in ("near", "far"):
        path = tmp_path / name
        pudi.create(path, SCHEMA, record_key="uuid", partition_by="city", ordering="ts", table_type=kind)
        made[name] = pudi.Table(path, options=options)
        made[name].bulk_insert(to_frame(spark, table(trip(number, 10) for number in range(30))))
    for name, patched in (("near", {"FileTasks": None, "JobTasks": None}), ("far", {"_DRIVER_RECORDS": 0})):
        with monkeypatch.context() as patch:
            for key, value in patched.items():
                patch.setattr(engine, key, value)
            for number in range(4):
                rows = [trip(0, 20 + number, "a"), trip(0, 20 + number, "b"), trip(40 + number, 1), trip(3, 5, "late")]
                made[name].upsert(to_frame(spark, table(rows)))
    mine, other = (
        [{k: v for k, v in row.items() if not k.startswith("_hoodie_") or "path" in k} for row in rows]
        for rows in (from_arrow(each.scan().to_arrow()) for each in made.values())
    )
    assert_same(mine, other, about=kind)
    assert made["near"].check().ok
    assert len(made["near"].timeline.instants) == len(made["far"].timeline.instants)


@pytest.mark.parametrize("before", [None, ":"], ids=["nothing", "what Hudi leaves"])
def test_jobs_say_what_they_are_for(spark: Any, tmp_path: Path, before: str | None) -> None:
    def descriptions() -> dict[int, str | None]:
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
        jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
        found = [jobs.apply(number) for number in range(jobs.size())]
        return {each.jobId(): each.description().get() if each.description().isDefined() else None for each in found}

    spark.sparkContext.setJobDescription(before)
    first = descriptions()
    made = written(spark, tmp_path / "trips", "cow")
    said = descriptions()
    assert "pudi: bulk_insert of trips, write: writing the files" in {said[each] for each in said.keys() - first}
    assert spark.sparkContext.getLocalProperty("spark.job.description") == before
    spark.sparkContext.setJobDescription("nightly load")
    made.upsert(to_frame(spark, table([trip(0, 20)])))
    spark.range(1).collect()
    spark.sparkContext.setJobDescription(None)
    new = descriptions()
    assert {new[each] for each in new.keys() - said} == {"nightly load"}


def test_large_files_are_rewritten_by_tasks(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = written(spark, tmp_path / "trips", "cow")
    monkeypatch.setattr(engine, "tag", None)
    monkeypatch.setattr(engine, "_DRIVER_BYTES", 20_000)
    monkeypatch.setattr(engine, "_DRIVER_JOBS", 0)
    done = made.upsert(to_frame(spark, table([trip(0, 20, "eve"), trip(1, 20, "eve")])))
    assert done is not None
    assert (done.records_updated, done.files_written) == (2, 2)
    assert made.scan(where="rider = 'eve'").to_arrow().num_rows == 2
    assert made.check().ok


def test_every_type_comes_through(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.Table.from_pylist([typed(number) for number in range(12)], TYPED)
    made = []
    for name in ("near", "far"):
        pudi.create(tmp_path / name, TYPED, record_key="id", options=INDEX)
        made.append(pudi.Table(tmp_path / name, options=INDEX))
        made[-1].insert(to_frame(spark, rows.slice(0, 6)))
        made[-1].upsert(to_frame(spark, rows))
        monkeypatch.setattr(engine, "_DRIVER_RECORDS", 0)
    near, far = (each.scan(columns=TYPED.names).to_arrow().sort_by("id") for each in made)
    assert near.schema == far.schema
    assert repr(near.to_pylist()) == repr(far.to_pylist())
    assert near.column("moment").equals(rows.column("moment").cast(near.schema.field("moment").type))


def test_null_keys_are_refused_before_anything_is_written(spark: Any, tmp_path: Path) -> None:
    made = written(spark, tmp_path / "trips", "cow")
    before = len(made.timeline.instants)
    with pytest.raises(pudi.InvalidArgumentError, match="uuid"):
        made.upsert(to_frame(spark, table([trip(0, 20) | {"uuid": None}])))
    assert len(made.timeline.instants) == before


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_an_input_that_gives_other_keys_when_it_is_evaluated_again_is_refused(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    made = written(spark, tmp_path / "trips", kind)
    before = from_arrow(made.scan().to_arrow())
    monkeypatch.setattr(SparkRecords, "keep", lambda records, frame: frame)  # the executor that kept them was lost
    log = str(tmp_path / "evaluations")
    rows = table([trip(number, 20) for number in range(4)])

    def others(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            with Path(log).open("a+") as seen:
                seen.write("x")
                seen.flush()
                number = seen.tell()
            keys = pa.array([f"k{number:04}-{place}" for place in range(batch.num_rows)])
            yield batch.set_column(batch.schema.get_field_index("uuid"), "uuid", keys)

    frame = to_frame(spark, rows).coalesce(1)
    with pytest.raises(pudi.UnavailableError, match="gave other records"):
        made.upsert(frame.mapInArrow(others, frame.schema))
    assert_same(from_arrow(made.scan().to_arrow()), before)
    assert made.check().ok
