"""Imported tables: Hudi reads them and goes on, also those whose column chunks Spark wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pudi
from support.disk import base_files, tree
from support.engines import LocalEngine
from support.hudi import HudiTable, hudi_rs_snapshot
from support.pudi_table import PudiTable
from support.rows import assert_same

pytestmark = [pytest.mark.interop, pytest.mark.spark]

ROW = (
    "concat('k', id) AS uuid, id AS ts, CAST(id AS INT) AS small, CAST(id / 3 AS DOUBLE) AS fare, id % 2 = 0 AS even, "
    "CAST(id / 4 AS FLOAT) AS part, array(concat('t', id)) AS tags, struct(id AS x, 'a' AS y) AS place, "
    "date_add(DATE '2024-01-01', CAST(id AS INT)) AS day, CAST(id AS BINARY) AS raw, "
    "CASE WHEN id % 3 = 0 THEN 'nyc' ELSE 'sf' END AS city"
)
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "uuid",
    "hoodie.datasource.write.partitionpath.field": "city",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.hive_style_partitioning": "true",
}


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_hudi_continues_a_table_of_files_that_spark_wrote(spark: Any, tmp_path: Path, table_type: str) -> None:
    source = tmp_path / "src"
    frame = spark.sql(f"SELECT {ROW} FROM range(1, 200)").coalesce(1)
    frame.write.partitionBy("city").parquet(str(source))
    before = tree(source)
    table = pudi.import_table(
        source, tmp_path / "t", record_key="uuid", ordering="ts", table_type=table_type, spark=spark
    )
    assert tree(source) == before
    footers = [pq.read_metadata(file) for file in base_files(tmp_path / "t")]
    codecs = {footer.row_group(0).column(8).compression for footer in footers}
    assert codecs == {"SNAPPY"}, "chunks were rewritten"
    assert all(footer.created_by.startswith("parquet-mr") for footer in footers)
    mine, hudi = PudiTable(LocalEngine(), tmp_path / "t"), HudiTable(spark, tmp_path / "t", OPTIONS)
    rows = mine.snapshot()
    assert {row["uuid"]: row["fare"] for row in rows} == {f"k{n}": n / 3 for n in range(1, 200)}
    assert_same(hudi.snapshot(), rows, about="Hudi")
    assert_same(hudi_rs_snapshot(tmp_path / "t"), rows, about="hudi-rs")
    assert table.check().ok
    changed = table.scan(where="ts < 9", meta_fields=False).to_arrow()
    small = pa.array([-7] * changed.num_rows, pa.int32())
    fresh = changed.set_column(changed.column_names.index("small"), "small", small)
    hudi.write("upsert", fresh)
    assert_same(hudi.snapshot(), mine.snapshot(), about="after Hudi's upsert")
    assert {row["small"] for row in mine.snapshot() if row["ts"] < 9} == {-7}
    table.upsert(changed)
    assert_same(hudi.snapshot(), mine.snapshot(), about="after pudi's upsert")
    assert {row["small"] for row in mine.snapshot() if row["ts"] < 9} == set(range(1, 9))
    assert table.check().ok
