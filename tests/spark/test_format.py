"""The named format: batches, tables of the catalog and streams on Spark 4; `pudi.spark.read` on every Spark."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.errors import InvalidArgumentError, NotSupportedError, TableNotFoundError

pytestmark = pytest.mark.spark

KEYS = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.datasource.write.precombine.field": "ts"}
QUERY = "hoodie.datasource.query.type"
FORMAT = "hoodie.datasource.query.incremental.format"
BEGIN, END = "hoodie.datasource.read.begin.instanttime", "hoodie.datasource.read.end.instanttime"


@pytest.fixture
def four(spark: Any) -> Any:
    """A session of Spark 4."""
    if spark.version.startswith("3."):
        pytest.skip("Spark 3.5 has no data sources in Python")
    return spark


@pytest.fixture
def catalog(four: Any) -> Iterator[Any]:
    """A session of Spark 4 without tables in its catalog before and after."""
    yield four
    for table in four.catalog.listTables():
        four.sql(f"DROP TABLE {table.name}")


def _rows(ids: range, ts: int) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "note": pa.array([f"n{ts}"] * len(ids), pa.string()),
            "ts": pa.array([ts] * len(ids), pa.int64()),
        }
    )


def _table(path: Path, table_type: str = "mor") -> pudi.Table:
    return pudi.create(path, _rows(range(0), 0).schema, record_key="id", ordering="ts", table_type=table_type)


def _found(path: Path) -> dict[int, int]:
    rows = pudi.Table(path).scan(["id", "ts"]).to_arrow()
    return dict(zip(rows["id"].to_pylist(), rows["ts"].to_pylist(), strict=True))


def test_reads_take_hudis_options_on_every_spark(tmp_path: Path, spark: Any) -> None:
    table = _table(tmp_path / "t")
    first = table.upsert(_rows(range(4), 1))
    assert first is not None
    table.upsert(_rows(range(3, 6), 2))

    def read(**options: str) -> list[Any]:
        rows = pudi.spark.read(spark).format("hudi").options(columns="id", **options).load(table.path).collect()
        return sorted(row[0] for row in rows)

    assert read() == [0, 1, 2, 3, 4, 5]
    assert read(where="id > 4") == [5]
    assert read(**{"as.of.instant": first.instant}) == [0, 1, 2, 3]
    assert read(**{QUERY: "incremental", BEGIN: str(first.completion_time)}) == [3, 4, 5]
    assert read(**{QUERY: "incremental", BEGIN: "earliest", END: first.instant}) == []
    assert read(**{QUERY: "read_optimized"}) == [0, 1, 2, 3, 4, 5]
    for options, error, message in [
        ({QUERY: "incremental"}, InvalidArgumentError, "begin.instanttime"),
        ({BEGIN: "0"}, InvalidArgumentError, "query.type=incremental"),
        ({QUERY: "sideways"}, InvalidArgumentError, "one of snapshot"),
        ({"hoodie.datasource.query.tipe": "snapshot"}, InvalidArgumentError, "did you mean"),
    ]:
        with pytest.raises(error, match=message):
            read(**options)
    with pytest.raises(TableNotFoundError):
        pudi.spark.read(spark).load(tmp_path / "other")
    with pytest.raises(InvalidArgumentError, match="format"):
        pudi.spark.read(spark).format("parquet")
    with pytest.raises(NotSupportedError, match="scan"):
        pudi.Table(table.path, options={QUERY: "incremental"})


def test_spark_3_is_told_what_to_use(spark: Any) -> None:
    if not spark.version.startswith("3."):
        pudi.spark.register(spark)
        return
    with pytest.raises(NotSupportedError, match=r"pudi\.spark\.read"):
        pudi.spark.register(spark)


def test_what_makes_the_format_known_loads_nothing_of_pudi() -> None:
    code = "import sys, pyspark_pudi; assert not [n for n in sys.modules if n == 'pudi' or n.startswith('pudi.')]"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100)


def test_batch_reads_and_writes_by_name(tmp_path: Path, four: Any) -> None:
    path = str(tmp_path / "t")
    frame = four.range(4).selectExpr("id", "'a' AS note", "1L AS ts")
    writer = frame.write.format("pudi").options(**KEYS)
    writer.mode("append").save(path)
    writer.option("hoodie.datasource.write.operation", "insert").mode("append").save(path)
    frame.filter("id < 2").write.format("pudi").option("hoodie.datasource.write.operation", "delete").mode(
        "append"
    ).save(path)
    assert sorted(pudi.Table(path).scan(["id"]).to_arrow()["id"].to_pylist()) == [2, 2, 3, 3]
    frame.filter("id > 2").write.format("pudi").mode("overwrite").save(path)
    assert len(pudi.Table(path).timeline.commits) == 4  # the table and its history are still there
    reader = four.read.format("pudi").option("columns", "id, note").option("where", "id > 2")
    assert [tuple(row) for row in reader.load(path).collect()] == [(3, "a")]
    assert four.read.format("pudi").load(path).columns[:1] == ["_hoodie_commit_time"]
    assert not list((tmp_path / "t" / ".hoodie" / ".temp").glob("*"))
    for options, message in [
        ({"hoodie.tabel": "x"}, "unknown option"),
        ({"pudi.format.write.max.bytes": "8"}, r"pudi\.spark\.write"),
        ({"where": "id > 1"}, "option of reads"),
    ]:
        with pytest.raises(Exception, match=message):
            frame.write.format("pudi").options(**options).mode("append").save(path)
    with pytest.raises(Exception, match="TableNotFoundError"):
        four.read.format("pudi").load(str(tmp_path / "other"))


def test_tables_of_the_catalog_keep_path_and_options(tmp_path: Path, catalog: Any) -> None:
    table = _table(tmp_path / "t")
    catalog.sql(f"CREATE TABLE trips USING pudi LOCATION '{table.path}'")
    assert catalog.sql("SELECT * FROM trips").count() == 0
    table.upsert(_rows(range(2), 1))
    catalog.sql("INSERT INTO trips VALUES (2L, 'b', 1L)")
    catalog.sql("INSERT INTO trips SELECT * FROM VALUES (3L, 'b', 1L) AS v (id, note, ts)")  # the table's very types
    catalog.range(4, 5).selectExpr("id", "'b' AS note", "1L AS ts").write.insertInto("trips")
    assert sorted(row[0] for row in catalog.table("trips").select("id").collect()) == [0, 1, 2, 3, 4]
    catalog.sql("INSERT OVERWRITE trips VALUES (9L, 'c', 1L)")
    assert [tuple(row) for row in catalog.sql("SELECT * FROM trips WHERE id = 9").collect()] == [(9, "c", 1)]
    assert len(table.timeline.commits) == 5
    catalog.sql(f"CREATE TABLE nine USING pudi OPTIONS (path '{table.path}', where 'id = 9', columns 'id')")
    assert [tuple(row) for row in catalog.table("nine").collect()] == [(9,)]
    table.add_column("fare", "double")
    assert catalog.table("trips").columns == ["id", "note", "ts"]
    assert catalog.sql("SELECT * FROM trips").count() == 1
    with pytest.raises(Exception, match="without columns"):
        catalog.sql(f"CREATE TABLE other USING pudi LOCATION '{tmp_path / 'o'}' AS SELECT 1L AS id").collect()


def test_streams_by_name_write_each_change_once(tmp_path: Path, four: Any) -> None:
    table, out = _table(tmp_path / "t"), tmp_path / "out"

    def run(checkpoint: str = "one", source: Any = table.path, **options: str) -> list[int]:
        stream = four.readStream.format("pudi").options(**options).load(str(source)).select("id", "note", "ts")
        writer = stream.writeStream.format("pudi").options(**KEYS)
        query = (
            writer.option("checkpointLocation", str(tmp_path / checkpoint)).trigger(availableNow=True).start(str(out))
        )
        query.awaitTermination()
        return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]

    table.upsert(_rows(range(4), 1))
    table.upsert(_rows(range(2, 6), 2))
    assert run() == [6]
    assert run() == []
    for ts in range(3, 5):
        table.upsert(_rows(range(ts), ts))
    table.compact()
    assert run(maxRowsPerTrigger="1") == [3, 4]
    assert _found(out) == _found(Path(table.path))
    with pytest.raises(Exception, match="new checkpoint"):
        run("two")
    with pytest.raises(Exception, match="checkpoint has an offset of table"):
        run(source=out)
    changes = four.readStream.format("pudi").option(QUERY, "incremental").option(FORMAT, "cdc").load(table.path)
    query = changes.writeStream.format("memory").queryName("changes").trigger(availableNow=True)
    query.option("checkpointLocation", str(tmp_path / "changes")).start().awaitTermination()
    told = {row["op"]: row["count"] for row in four.table("changes").groupBy("op").count().collect()}
    assert told == {"i": 6, "u": 9}
    shutil.rmtree(out)
    table.upsert(_rows(range(1), 9))
    with pytest.raises(Exception, match="there is no table, and this is batch 3 of query"):
        run()
    with pytest.raises(TableNotFoundError):
        pudi.Table(out)
    run("three")
    assert _found(out) == _found(Path(table.path))
    shutil.rmtree(table.path)
    _table(tmp_path / "t").upsert(_rows(range(7, 9), 1))
    with pytest.raises(Exception, match="the table was created again since"):
        run("three")


def test_the_examples_of_the_page_run(tmp_path: Path, catalog: Any) -> None:
    page = (Path(__file__).parents[2] / "docs" / "named-format.md").read_text(encoding="utf-8")
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(block, {"pudi": pudi, "spark": catalog, "folder": str(tmp_path)})
    assert len(_found(tmp_path / "trips")) == 110
    assert _found(tmp_path / "copy") == _found(tmp_path / "trips")
