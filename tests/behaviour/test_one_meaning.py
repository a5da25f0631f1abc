"""A statement has one meaning: UPDATE and DELETE take the rows that SELECT shows with the same condition.

On Spark this holds under the session's time zone, case, quotes and ANSI mode.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi

SCHEMA = pa.schema([
    ("id", pa.int32()), ("s", pa.string()), ("m", pa.decimal128(10, 2)), ("g", pa.float32()), ("d", pa.float64()),
    ("day", pa.date32()), ("t", pa.timestamp("us", tz="UTC")), ("b", pa.bool_()), ("n", pa.int64()),
    ("l", pa.list_(pa.int32())), ("st", pa.struct([("x", pa.int32())])), ("v", pa.string()),
])  # fmt: skip
TEXTS = ["A_b", "Axb", "ß", "SS", "", None, "10", "a'b", "x\\y", "Straße", "10.0", "2024-01-05"]


def rows() -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "id": k, "s": text, "m": None if k == 5 else Decimal(f"{k - 3}.50"), "g": k / 10 if k else None,
                "d": float("nan") if k == 3 else k / 4, "day": dt.date(2024, 1, k + 1),
                "t": dt.datetime(2024, 1, 1, 2 * k, tzinfo=dt.timezone.utc), "b": None if k == 4 else k % 2 == 0,
                "n": k * 10**9, "l": [k] if k % 3 else None, "st": {"x": k} if k % 2 else None, "v": "",
            }
            for k, text in enumerate(TEXTS)
        ],
        SCHEMA,
    )  # fmt: skip


EVERYWHERE = [
    "id = 3",
    "id <> 3",
    "id = '3'",
    "id IN (1, 2)",
    "id NOT IN (1, 2)",
    "id BETWEEN 2 AND 4",
    "id + 1 = 4",
    "id % 2 = 0",
    "s = 'Axb'",
    "s < 'B'",
    "s LIKE 'A%'",
    "s LIKE 'A_b'",
    "s NOT LIKE 'A%'",
    "s IS NULL",
    "s IS NOT NULL",
    "s IN ('SS', '')",
    "upper(s) = 'SS'",
    "lower(s) = 'axb'",
    "length(s) = 3",
    "trim(s) = ''",
    "substring(s, 0, 1) = 'A'",
    "substring(s, 2) = 'xb'",
    "concat(s, '!') = 'SS!'",
    "coalesce(s, 'none') = 'none'",
    "s || 'x' = 'SSx'",
    "nullif(s, 'SS') IS NULL",
    "m = 2.50",
    "m > 1",
    "m = 2.5",
    "CAST(m AS INT) = 2",
    "round(m) = 3",
    "abs(m) > 2",
    "m * 2 = 5",
    "-m < 0",
    "m + 0.005 > 2.5",
    "g > 0.1",
    "g = 0.1",
    "g >= CAST(0.3 AS FLOAT)",
    "g < 0.5",
    "d > 1",
    "d = 0.25",
    "floor(d) = 1",
    "d IS NOT NULL",
    "d <> d",
    "day = DATE '2024-01-03'",
    "day < '2024-01-03'",
    "day > DATE '2024-01-05'",
    "year(day) = 2024",
    "month(day) = 1",
    "day BETWEEN '2024-01-02' AND '2024-01-04'",
    "t = TIMESTAMP '2024-01-01 06:00:00'",
    "t < TIMESTAMP '2024-01-01 12:00:00'",
    "t >= TIMESTAMP '2024-01-01 08:00:00' AND id < 9",
    "hour(t) = 6",
    "CAST(t AS DATE) = DATE '2024-01-01'",
    "b",
    "NOT b",
    "b = true",
    "b IS NULL",
    "b IS TRUE",
    "n > 5000000000",
    "n / 1000000000 = 3",
    "n = 3000000000",
    "CASE WHEN id > 5 THEN b ELSE NOT b END",
    "l IS NULL",
    "l IS NOT NULL",
    "st IS NULL",
    "st.x = 3",
    "st.x IS NULL",
    "id = 1 OR s = 'SS'",
    "NOT (id = 1 OR s = 'SS')",
    "id = 1 AND (s = 'Axb' OR s IS NULL)",
    "(id > 2) = b",
    "id = (SELECT 3)",
    "id IN (SELECT 4 UNION ALL SELECT 5)",
]
"""Conditions that both engines take."""
ON_SPARK = [
    "t < TIMESTAMP '2024-01-01 12:00:00'",
    "t = '2024-01-01 10:00:00'",
    "hour(t) = 10",
    "CAST(t AS STRING) LIKE '%00:00'",
    "to_date(t) = '2024-01-01'",
    r"s LIKE 'A\\_%'",
    "s = 10",
    "b = 1",
    "date_format(t, 'HH') = '06'",
    "dayofweek(day) = 1",
    "S = 'SS'",
]
SETTINGS = {
    "Shanghai": {"spark.sql.session.timeZone": "Asia/Shanghai", "spark.sql.caseSensitive": "true"},
    "raw texts": {"spark.sql.parser.escapedStringLiterals": "true", "spark.sql.storeAssignmentPolicy": "LEGACY"},
    "ANSI": {
        "spark.sql.ansi.enabled": "true",
        "spark.sql.ansi.doubleQuotedIdentifiers": "true",
        "spark.sql.session.timeZone": "America/New_York",
    },
}


def check(path: Path, conditions: list[str], sql: Callable[[str, pudi.Table], list[Any]]) -> None:
    """Compare the rows that SELECT, UPDATE and, for each fourth condition, DELETE take."""
    table = pudi.create(path / "t", SCHEMA, record_key="id")
    table.bulk_insert(rows())
    for number, condition in enumerate(conditions):
        shown = sorted(sql(f"SELECT id FROM {{t}} WHERE {condition}", table))
        sql(f"UPDATE {{t}} SET v = '{number}' WHERE {condition}", table)
        changed = table.scan(["id"], f"v = '{number}'").to_arrow()["id"].to_pylist()
        assert sorted(changed) == shown, condition
        if number % 4 == 0 and shown:
            sql(f"DELETE FROM {{t}} WHERE {condition}", table)
            left = table.scan(["id"]).to_arrow()["id"].to_pylist()
            assert sorted({*range(len(TEXTS))} - {*left}) == shown, condition
            table.upsert(rows())


def test_on_this_machine(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")

    def sql(text: str, table: pudi.Table) -> list[Any]:
        found = pudi.sql(text.format(t="t"), t=table)
        return [] if "id" not in found.column_names else found["id"].to_pylist()

    check(tmp_path, EVERYWHERE, sql)


@pytest.fixture
def settings(spark: Any, request: pytest.FixtureRequest) -> Iterator[None]:
    before = {key: spark.conf.get(key, None) for key in SETTINGS[request.param]}
    for key, value in SETTINGS[request.param].items():
        spark.conf.set(key, value)
    yield
    for key, value in before.items():
        if value is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, value)


@pytest.mark.spark
@pytest.mark.parametrize("settings", SETTINGS, indirect=True)
def test_on_spark(tmp_path: Path, spark: Any, settings: None, request: pytest.FixtureRequest) -> None:
    def sql(text: str, table: pudi.Table) -> list[Any]:
        found = pudi.spark.sql(spark, text.format(t=f"hudi.`{table.path}`"))
        return [row.id for row in found.select("id").collect()] if "id" in found.columns else found.collect()

    conditions = list(ON_SPARK)
    if "ANSI" in request.node.name:
        conditions = [each for each in conditions if each not in {"s = 10", "b = 1"}]
        conditions += ["\"s\" = 'SS'", '"id" > 7 AND "s" IS NOT NULL']
    if "Shanghai" in request.node.name:
        conditions.remove("S = 'SS'")
        for verb in ("SELECT id FROM {t}", "DELETE FROM {t}", "UPDATE {t} SET v = 'x'"):
            with pytest.raises(Exception, match=r"(?i)cannot be resolved|no column"):
                sql(f"{verb} WHERE S = 'SS'", pudi.create(tmp_path / verb[:6], SCHEMA, record_key="id"))
    check(tmp_path, conditions, sql)


@pytest.mark.spark
@pytest.mark.parametrize("settings", ["ANSI"], indirect=True)
def test_names_in_double_quotes(tmp_path: Path, spark: Any, settings: None) -> None:
    table = pudi.create(tmp_path / "t", {"id": "int", "s": "string"}, record_key="id")
    for text in ("""INSERT INTO {t} ("s", "id") VALUES ('a', 1), ('b', 2)""", """UPDATE {t} SET "s" = "s" || 'x'"""):
        pudi.spark.sql(spark, text.format(t=f"hudi.`{table.path}`")).collect()
    assert table.scan(["id", "s"]).to_arrow().sort_by("id")["s"].to_pylist() == ["ax", "bx"]


@pytest.mark.spark
@pytest.mark.parametrize("settings", ["raw texts"], indirect=True)
def test_an_insert_stores_by_the_rules_of_ansi_alone(tmp_path: Path, spark: Any, settings: None) -> None:
    table = pudi.create(tmp_path / "t", {"id": "int", "n": "int"}, record_key="id")
    with pytest.raises(pudi.InvalidArgumentError, match="CAST it in the query"):
        pudi.spark.sql(spark, f"INSERT INTO hudi.`{table.path}` VALUES (1, '7')").collect()
    assert table.scan(["id"]).to_arrow().num_rows == 0


@pytest.mark.spark
def test_a_point_in_time_that_is_set_is_the_session_s(tmp_path: Path, spark: Any) -> None:
    table = pudi.create(tmp_path / "t", {"id": "int", "t": "timestamp"}, record_key="id")
    name, zone = f"hudi.`{table.path}`", spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Shanghai")
    try:
        pudi.spark.sql(spark, f"INSERT INTO {name} VALUES (1, TIMESTAMP '2024-01-01 12:00:00')").collect()
        pudi.spark.sql(spark, f"INSERT INTO {name} VALUES (2, NULL)").collect()
        pudi.spark.sql(spark, f"UPDATE {name} SET t = TIMESTAMP '2024-01-01 12:00:00' WHERE id = 2").collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    noon = dt.datetime(2024, 1, 1, 4, tzinfo=dt.timezone.utc)
    assert table.scan(["id", "t"]).to_arrow().sort_by("id").to_pylist() == [{"id": 1, "t": noon}, {"id": 2, "t": noon}]


@pytest.mark.spark
@pytest.mark.parametrize("value", ["TIMESTAMP '2024-01-01 12:00:00'", "'2024-01-01 12:00:00'"])
def test_a_partition_s_moment_is_the_session_s(tmp_path: Path, spark: Any, value: str) -> None:
    table = pudi.create(tmp_path / "t", {"id": "int", "t": "timestamp"}, record_key="id", partition_by="t")
    name, zone = f"hudi.`{table.path}`", spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Shanghai")
    try:
        pudi.spark.sql(spark, f"INSERT INTO {name} PARTITION (t = {value}) SELECT 1").collect()
        noon = dt.datetime(2024, 1, 1, 4, tzinfo=dt.timezone.utc)
        assert table.scan(["id", "t"]).to_arrow().to_pylist() == [{"id": 1, "t": noon}]
        pudi.spark.sql(spark, f"ALTER TABLE {name} DROP PARTITION (t = {value})").collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert table.scan(["id"]).to_arrow().num_rows == 0


@pytest.mark.spark
def test_a_merge_computes_times_in_the_session_s_zone(tmp_path: Path, spark: Any) -> None:
    table = pudi.create(tmp_path / "t", {"id": "int", "t": "timestamp"}, record_key="id")
    name, zone = f"hudi.`{table.path}`", spark.conf.get("spark.sql.session.timeZone")
    merge = f"MERGE INTO {name} t USING (SELECT 1 AS id, '2024-01-01 12:00:00' AS at) s ON t.id = s.id "
    insert = "WHEN NOT MATCHED THEN INSERT (id, t) VALUES (s.id, {})"
    spark.conf.set("spark.sql.session.timeZone", "Asia/Shanghai")
    try:
        for value in ("TIMESTAMP '2024-01-01 12:00:00'", "CAST(s.at AS TIMESTAMP)"):
            pudi.spark.sql(spark, merge + insert.format(value)).collect()
            noon = dt.datetime(2024, 1, 1, 4, tzinfo=dt.timezone.utc)
            assert table.scan(["t"]).to_arrow().to_pylist() == [{"t": noon}], value
            table.delete(where="id = 1")
        table.insert(pa.table({"id": pa.array([1], pa.int32()), "t": [noon]}))
        later = "UPDATE SET t = CAST(concat(substring(s.at, 1, 11), hour(t.t) + 1, ':00:00') AS TIMESTAMP)"
        pudi.spark.sql(spark, f"{merge} WHEN MATCHED AND hour(t.t) = 12 THEN {later}").collect()
        assert table.scan(["t"]).to_arrow().to_pylist() == [{"t": noon + dt.timedelta(hours=1)}]
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
