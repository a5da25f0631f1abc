"""Tables partitioned by doubles, floats, timestamps and odd texts: pudi and Apache Hudi write one in turns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from support import hudi
from support.rows import from_arrow, from_spark

pytestmark = [pytest.mark.interop, pytest.mark.spark]

LOGICAL = "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled"
NUMBERS = "1.0, 1e10, 1.5e-5, 123456789, 2e23, 0.001, -2.25, -0.0, double('Infinity'), NULL"
VALUES = {
    "DOUBLE": NUMBERS,
    "FLOAT": NUMBERS,
    "TIMESTAMP": "'2026-01-02 03:04:05', '1969-12-31 23:59:59', '0999-05-06', '9999-12-31 23:59:59', NULL",
    "STRING": "'a b', 'ä=1', '', 'a/b', '__HIVE_DEFAULT_PARTITION__', NULL",
}


def _by_hudi(spark: Any, name: str) -> list[dict[str, Any]]:
    spark.sql(f"REFRESH TABLE {name}")
    return from_spark(spark.sql(f"SELECT id, v, p, _hoodie_partition_path FROM {name} ORDER BY id"))


def _by_pudi(path: Path) -> list[dict[str, Any]]:
    rows = pudi.Table(str(path)).scan(columns=["id", "v", "p", "_hoodie_partition_path"]).to_arrow()
    return from_arrow(rows.sort_by("id"))


@pytest.mark.slow
@pytest.mark.sampled(3)
@pytest.mark.parametrize("version", [9, 8, 6])
@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("column", list(VALUES))
def test_turns(spark: Any, tmp_path: Path, column: str, kind: str, version: int) -> None:
    name, path = f"java_text_{column}_{kind}_{version}".lower(), tmp_path / "t"
    values = f"SELECT posexplode(array({VALUES[column]}))"
    rows = spark.sql(f"SELECT pos AS id, 'a' AS v, CAST(col AS {column}) AS p FROM ({values})")
    rows.createOrReplaceTempView("source")
    for key, value in {**hudi.SMALL, "hoodie.write.auto.upgrade": "false"}.items():
        spark.conf.set(key, value)
    try:
        spark.sql(
            f"CREATE TABLE {name} (id INT, v STRING, p {column}) USING hudi PARTITIONED BY (p) LOCATION '{path}' "
            f"TBLPROPERTIES (type = '{kind}', primaryKey = 'id', hoodie.write.table.version = '{version}')"
        )
        spark.sql(f"INSERT INTO {name} SELECT id, v, p FROM source")
        first = _by_hudi(spark, name)
        assert _folders(_by_pudi(path)) == _folders(first)
        table = pudi.Table(str(path))
        table.upsert(rows.selectExpr("id", "'b' AS v", "p").where("id % 2 = 0"))
        table.upsert(rows.where("id % 3 = 0").selectExpr("id + 100 AS id", "'c' AS v", "p"))
        assert _by_hudi(spark, name) == [
            *({**row, "v": "b"} if row["id"] % 2 == 0 else row for row in first),
            *({**row, "id": row["id"] + 100, "v": "c"} for row in first if row["id"] % 3 == 0),
        ]
        spark.sql(f"UPDATE {name} SET v = 'd' WHERE id < 3")
        spark.sql(f"DELETE FROM {name} WHERE id = 3")
        spark.sql(f"INSERT INTO {name} SELECT id + 200, v, p FROM source")
        shown = _by_hudi(spark, name)
        assert _folders(_by_pudi(path)) == _folders(shown)
        for row in shown:
            if row["p"] not in {None, "inf"}:
                constant = repr(row["p"])  # of a number or a text
                if column == "TIMESTAMP":
                    constant = "TIMESTAMP " + constant.replace("T", " ")
                where = f"p = {constant}"
                found = table.scan(where=where, columns=["id"]).to_arrow()["id"].to_pylist()
                assert row["id"] in found, where
    finally:
        for key in (*hudi.SMALL, "hoodie.write.auto.upgrade"):
            spark.conf.unset(key)


def _folders(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["id"], row["v"], row["_hoodie_partition_path"]) for row in rows]


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_timestamps_with_fractions(spark: Any, tmp_path: Path, kind: str) -> None:
    """Hudi's DataFrame writer follows the option that pudi has stored."""
    path = tmp_path / "t"
    table = pudi.create(
        str(path), {"id": "int", "p": "timestamp"}, record_key=["id"], partition_by=["p"], table_type=kind,
        options={LOGICAL: "true", "hoodie.datasource.write.partitionpath.urlencode": "true"},
    )  # fmt: skip
    times = "'2026-01-02 03:04:05', '2026-01-02 03:04:05.12', '1969-12-31 23:59:58.999', NULL"
    values = f"SELECT posexplode(array({times}))"
    rows = spark.sql(f"SELECT pos AS id, CAST(col AS TIMESTAMP) AS p FROM ({values})")
    table.insert(rows)
    options = {**hudi.SMALL, "hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id",
               "hoodie.datasource.write.partitionpath.field": "p"}  # fmt: skip
    for operation in ("upsert", "bulk_insert"):
        more = rows.selectExpr("id + 10 AS id" if operation == "bulk_insert" else "id", "p")
        more.write.format("hudi").options(
            **options, **{"hoodie.datasource.write.operation": operation}
        ).mode("append").save(str(path))  # fmt: skip
    read = spark.read.format("hudi").load(str(path))
    shown = from_spark(read.select("id", "p", "_hoodie_partition_path").orderBy("id"))
    own = table.scan(columns=["id", "p", "_hoodie_partition_path"]).to_arrow().sort_by("id")
    assert from_arrow(own) == shown
    assert len(shown) == 8
    assert len({row["_hoodie_partition_path"] for row in shown}) == 4
    assert own.schema.field("p").type == pa.timestamp("us", "UTC")
