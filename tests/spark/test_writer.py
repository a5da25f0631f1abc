"""`pudi.spark.write` takes a Hudi job's option map and modes; `batch_writer` writes each batch of a stream once."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.errors import InvalidArgumentError, NotSupportedError, SchemaError, TableExistsError, TableNotFoundError
from pudi.format import Action

pytestmark = pytest.mark.spark

HUDI = {
    "hoodie.table.name": "trips",
    "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "place",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
    "hoodie.upsert.shuffle.parallelism": "2",
}


def _frame(spark: Any, ids: range, ts: int = 1) -> Any:
    return spark.range(ids.start, ids.stop).selectExpr("id", "concat('p', id % 2) as place", f"{ts}L as ts")


def _save(frame: Any, path: Path, mode: str = "append", **more: str) -> pudi.CommitResult | None:
    return pudi.spark.write(frame).format("hudi").options(**(HUDI | more)).mode(mode).save(path)


def _ids(path: Path) -> list[int]:
    return sorted(pudi.Table(path).scan(["id"]).to_arrow()["id"].to_pylist())


def test_a_hudi_job_makes_its_table_and_upserts(tmp_path: Path, spark: Any) -> None:
    path = tmp_path / "t"
    assert _save(_frame(spark, range(10)), path).operation == "UPSERT"
    result = _save(_frame(spark, range(5, 12), ts=2), path)
    assert (result.records_updated, result.records_inserted) == (5, 2)
    table = pudi.Table(path)
    assert table.config.name == "trips"
    assert table.config.ordering_fields == ("ts",)
    assert table.partitions() == ["place=p0", "place=p1"]
    assert _ids(path) == list(range(12))


def test_a_job_with_a_merge_on_read_table(tmp_path: Path, spark: Any) -> None:
    path, kind = tmp_path / "t", {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
    _save(_frame(spark, range(10)), path, **kind)
    result = _save(_frame(spark, range(5), ts=2), path, **kind)
    assert (result.records_updated, result.records_inserted) == (5, 0)
    assert sum(len(s.logs) for s in pudi.Table(path).file_slices()) == 2
    _save(_frame(spark, range(2), ts=3), path, **kind, **{"hoodie.datasource.write.operation": "delete"})
    found = pudi.Table(path).scan(["id", "ts"]).to_spark(spark).collect()
    assert sorted((row["id"], row["ts"]) for row in found) == [(n, 2 if n < 5 else 1) for n in range(2, 10)]
    inline = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
    _save(_frame(spark, range(8, 12), ts=4), path, **kind, **inline)
    assert not any(s.logs for s in pudi.Table(path).file_slices())
    assert _ids(path) == list(range(2, 12))


def test_batches_of_a_stream_go_to_log_files_once(tmp_path: Path, spark: Any) -> None:
    path = tmp_path / "t"
    kind = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
    _save(_frame(spark, range(10)), path, **kind)
    write = pudi.spark.batch_writer(path, **(HUDI | kind))
    for batch in (7, 7, 8):  # a batch that Spark gives again isn't written again
        write(_frame(spark, range(4), ts=batch), batch)
    assert len(pudi.Table(path).timeline.commits) == 3
    assert sum(len(s.logs) for s in pudi.Table(path).file_slices()) == 4
    times = pudi.Table(path).scan(["id", "ts"]).to_arrow()
    assert sorted(zip(*times.to_pydict().values(), strict=True)) == [(n, 8 if n < 4 else 1) for n in range(10)]


@pytest.mark.parametrize(
    ("options", "compacted"),
    [
        ({}, True),
        ({"hoodie.datasource.compaction.async.enable": "false"}, False),
        ({"hoodie.datasource.write.streaming.disable.compaction": "true"}, False),
        ({"hoodie.table.services.enabled": "false"}, False),
    ],
)
def test_streams_compact_beside_their_batches(
    tmp_path: Path, spark: Any, options: dict[str, str], compacted: bool
) -> None:
    path = tmp_path / "t"
    kind = {"hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.compact.inline.max.delta.commits": "2"}
    write = pudi.spark.batch_writer(path, **(HUDI | kind | options))
    for batch in range(3):
        write(_frame(spark, range(4), ts=batch), batch)
    assert pudi.Table(path).wait_for_services().ok
    assert bool(pudi.Table(path).timeline.of(Action.COMMIT)) is compacted
    assert pudi.Table(path).timeline.pending == ()
    assert set(pudi.Table(path).scan(["ts"]).to_arrow()["ts"].to_pylist()) == {2}


def test_overwrites_and_deletes_of_partitions(tmp_path: Path, spark: Any) -> None:
    path = tmp_path / "t"
    operation = "hoodie.datasource.write.operation"
    _save(_frame(spark, range(10)), path)
    result = _save(_frame(spark, range(20, 21)), path, **{operation: "insert_overwrite"})
    assert result.operation == "INSERT_OVERWRITE"
    assert _ids(path) == [1, 3, 5, 7, 9, 20]
    which = {"hoodie.datasource.write.partitions.to.delete": "place=*1,place=nowhere"}
    assert (
        _save(_frame(spark, range(1)), path, **{operation: "delete_partition"}, **which).operation == "DELETE_PARTITION"
    )
    assert _ids(path) == [20]
    _save(_frame(spark, range(4)), path, "overwrite", **{operation: "insert_overwrite_table"})
    assert _ids(path) == [0, 1, 2, 3]
    assert len(pudi.Table(path).timeline.commits) == 4  # the table was not made anew
    _save(_frame(spark, range(1)), path, **{operation: "delete_partition"})  # where the records fall
    assert _ids(path) == [1, 3]


@pytest.mark.parametrize("operation", ["insert", "bulk_insert"])
def test_the_operation_is_an_option(tmp_path: Path, spark: Any, operation: str) -> None:
    path = tmp_path / "t"
    for _ in range(2):
        result = _save(_frame(spark, range(3)), path, **{"hoodie.datasource.write.operation": operation})
        assert result.operation == operation.upper()
    assert _ids(path) == [0, 0, 1, 1, 2, 2]


def test_deletes(tmp_path: Path, spark: Any) -> None:
    path = tmp_path / "t"
    delete = {"hoodie.datasource.write.operation": "delete"}
    with pytest.raises(TableNotFoundError):
        _save(_frame(spark, range(3)), path, **delete)
    assert not path.exists()
    _save(_frame(spark, range(5)), path)
    with pytest.raises(InvalidArgumentError, match="append"):
        _save(_frame(spark, range(3)), path, "overwrite", **delete)
    assert _save(_frame(spark, range(3)), path, **delete).records_deleted == 3
    assert _ids(path) == [3, 4]


def test_modes(tmp_path: Path, spark: Any) -> None:
    path = tmp_path / "t"
    _save(_frame(spark, range(3)), path, "error")
    for mode in ("error", "errorifexists"):
        with pytest.raises(TableExistsError):
            _save(_frame(spark, range(9)), path, mode)
    assert _save(_frame(spark, range(9)), path, "ignore") is None
    assert _ids(path) == [0, 1, 2]
    _save(_frame(spark, range(7, 9)), path, "overwrite")
    assert _ids(path) == [7, 8]
    assert len(pudi.Table(path).timeline.commits) == 1
    with pytest.raises(InvalidArgumentError, match="mode"):
        pudi.spark.write(_frame(spark, range(1))).mode("upsert")


def test_overwrite_spares_what_is_not_a_table_and_what_is_read(tmp_path: Path, spark: Any) -> None:
    path = tmp_path / "t"
    path.mkdir()
    (path / "letter.txt").write_text("dear")
    _save(_frame(spark, range(3)), path, "overwrite")
    assert (path / "letter.txt").exists()
    with pytest.raises(InvalidArgumentError, match="read from"):
        _save(pudi.Table(path).scan(meta_fields=False).to_spark(spark), path, "overwrite")
    assert _ids(path) == [0, 1, 2]


def test_partition_by_stands_in_for_the_option(tmp_path: Path, spark: Any) -> None:
    path = tmp_path / "t"
    writer = pudi.spark.write(_frame(spark, range(4))).option("hoodie.datasource.write.recordkey.field", "id")
    writer.partitionBy("place").mode("append").save(path)
    table = pudi.Table(path)
    assert (table.config.name, table.partitions()) == ("t", ["p0", "p1"])


def test_rows_read_from_a_table_can_be_written_to_another(tmp_path: Path, spark: Any) -> None:
    _save(_frame(spark, range(4)), tmp_path / "one")
    _save(pudi.Table(tmp_path / "one").scan().to_spark(spark), tmp_path / "two")
    assert _ids(tmp_path / "two") == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"hoodie.datasource.write.recordkey.fields": "id"}, InvalidArgumentError, "recordkey.field"),
        ({"hoodie.datasource.write.operation": "cluster"}, NotSupportedError, "cluster"),
        ({"hoodie.datasource.write.recordkey.field": "ts"}, InvalidArgumentError, "recordkey"),
        ({"hoodie.table.name": "other"}, InvalidArgumentError, "other"),
    ],
)
def test_options_that_are_wrong_or_contradict_the_table(
    tmp_path: Path, spark: Any, options: dict[str, str], error: type[Exception], message: str
) -> None:
    path = tmp_path / "t"
    _save(_frame(spark, range(3)), path)
    with pytest.raises(error, match=message):
        pudi.spark.write(_frame(spark, range(9))).options(**{**HUDI, **options}).mode("append").save(path)
    assert _ids(path) == [0, 1, 2]


def test_only_spark_frames_and_hudi_tables(spark: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="format"):
        pudi.spark.write(_frame(spark, range(1))).format("parquet")
    with pytest.raises(InvalidArgumentError, match="path"):
        pudi.spark.write(_frame(spark, range(1))).save()
    with pytest.raises(InvalidArgumentError, match="Spark DataFrame"):
        pudi.spark.write(pa.table({"id": [1]})).save("nowhere")


def test_a_batch_that_comes_again_is_skipped(tmp_path: Path, spark: Any) -> None:
    path = tmp_path / "t"
    insert = {**HUDI, "hoodie.datasource.write.operation": "insert"}
    write = pudi.spark.batch_writer(path, **insert)
    assert write(_frame(spark, range(3)), 0) is not None
    assert write(_frame(spark, range(3)), 0) is None
    assert write(_frame(spark, range(3, 5)), 1) is not None
    again = pudi.spark.batch_writer(path, **insert)  # after a restart
    assert [again(_frame(spark, range(9)), batch) for batch in (0, 1)] == [None, None]
    other = {"hoodie.datasource.write.streaming.checkpoint.identifier": "other"}
    assert pudi.spark.batch_writer(path, **insert, **other)(_frame(spark, range(5, 6)), 0) is not None
    assert again(_frame(spark, range(9)), 1) is None
    assert _ids(path) == [0, 1, 2, 3, 4, 5]


def test_the_batch_is_named_in_the_commit_as_hudi_names_it(tmp_path: Path, spark: Any) -> None:
    path = tmp_path / "t"
    pudi.spark.batch_writer(path, **HUDI)(_frame(spark, range(3)), 7)
    (commit,) = (path / ".hoodie" / "timeline").glob("*.commit")
    assert json.dumps({"default_single_writer": "7"}, separators=(",", ":")).encode() in commit.read_bytes()


def test_a_stream_started_twice_writes_each_record_once(tmp_path: Path, spark: Any) -> None:
    path, source = tmp_path / "t", tmp_path / "in"
    stream = spark.readStream.schema("id long, place string, ts long").option("maxFilesPerTrigger", 1)
    options = {**HUDI, "hoodie.datasource.write.operation": "insert"}

    def run(checkpoint: str, **more: str) -> None:
        writer = pudi.spark.stream_writer(stream.parquet(str(source))).format("hudi").options(**options, **more)
        writer = writer.option("checkpointLocation", str(tmp_path / checkpoint)).trigger(availableNow=True)
        writer.outputMode("append").queryName("trips").start(path).awaitTermination()

    for number in range(2):
        _frame(spark, range(number * 10, number * 10 + 10)).coalesce(1).write.mode("append").parquet(str(source))
        run("one")
    assert _ids(path) == list(range(20))
    assert len(pudi.Table(path).timeline.commits) == 2
    with pytest.raises(Exception, match="new checkpoint"):  # has lost what the first knew of its progress
        run("two")
    run("three", **{"hoodie.datasource.write.streaming.checkpoint.identifier": "other"})
    assert _ids(path) == sorted([*range(20), *range(20)])
    shutil.rmtree(path)
    _frame(spark, range(20, 30)).coalesce(1).write.mode("append").parquet(str(source))
    with pytest.raises(Exception, match="there is no table, and this is batch 2 of query"):
        run("one")
    assert not path.exists()
    run("four")
    assert _ids(path) == list(range(30))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, InvalidArgumentError, "checkpointLocation"),
        ({"checkpointLocation": "c", "hoodie.tabel.name": "t"}, InvalidArgumentError, "did you mean"),
        ({"checkpointLocation": "c", "hoodie.datasource.write.operation": "cluster"}, NotSupportedError, "cluster"),
        ({"checkpointLocation": "c", "hoodie.datasource.write.recordkey.field": "id"}, SchemaError, "among timestamp"),
    ],
)
def test_stream_writers_refuse_what_is_wrong_before_they_start(
    tmp_path: Path, spark: Any, options: dict[str, str], error: type[Exception], message: str
) -> None:
    stream = spark.readStream.format("rate").load()
    with pytest.raises(error, match=message):
        pudi.spark.stream_writer(stream).options(**options).start(tmp_path / "t")
    with pytest.raises(InvalidArgumentError, match=r"pudi\.spark\.write"):
        pudi.spark.stream_writer(spark.range(1)).option("checkpointLocation", "c").start(tmp_path / "t")
    with pytest.raises(NotSupportedError, match="insert_overwrite_table"):
        writer = pudi.spark.stream_writer(stream).option("checkpointLocation", "c").outputMode("complete")
        writer.start(tmp_path / "t")
    with pytest.raises(NotSupportedError, match="continuous"):
        pudi.spark.stream_writer(stream).trigger(continuous="1 second")
