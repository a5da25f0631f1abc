"""Statements by pudi and by Apache Hudi in turns, on one table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pudi
from support.hudi import SMALL
from support.sql_cases import CHAINS, Chain, run_chain

pytestmark = [pytest.mark.interop, pytest.mark.spark]


def test_turns_on_a_table_that_pudi_creates(spark: Any, tmp_path: Path) -> None:
    def rows(found: Any) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in found.collect()]

    def by_pudi(text: str) -> list[tuple[Any, ...]]:
        return rows(pudi.spark.sql(spark, text.replace("{t}", "turns_pudi")))

    def by_hudi(text: str) -> list[tuple[Any, ...]]:
        return rows(spark.sql(text.replace("{t}", "turns_hudi")))

    by_pudi(
        "CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts BIGINT, dt STRING) USING hudi PARTITIONED BY (dt) "
        f"TBLPROPERTIES (type = 'cow', primaryKey = 'id', preCombineField = 'ts') LOCATION '{tmp_path}/t'"
    )
    by_pudi("INSERT INTO {t} VALUES (1, 'a', 1.5, 10, 'x'), (2, 'b', 2.5, 10, 'y')")
    by_hudi(f"CREATE TABLE {{t}} USING hudi LOCATION '{tmp_path}/t'")
    for key, value in SMALL.items():
        spark.sql(f"SET {key}={value}")
    try:
        by_hudi("UPDATE {t} SET price = 9.5, ts = 11 WHERE id = 1")
        by_pudi(
            "MERGE INTO {t} t USING (SELECT 2 AS id, 'y' AS dt, 12L AS ts UNION ALL SELECT 3, 'z', 12L) s "
            "ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET name = 'merged', ts = s.ts "
            "WHEN NOT MATCHED THEN INSERT (id, name, price, ts, dt) VALUES (s.id, upper('new'), 3.5, s.ts, s.dt)"
        )
        query = "SELECT id, name, price, ts, dt FROM {t} ORDER BY id"
        spark.sql("REFRESH TABLE turns_hudi")
        expected = [(1, "a", 9.5, 11, "x"), (2, "merged", 2.5, 12, "y"), (3, "NEW", 3.5, 12, "z")]
        assert by_hudi(query) == by_pudi(query) == expected
        assert by_hudi("SHOW PARTITIONS {t}") == by_pudi("SHOW PARTITIONS {t}")
        assert by_hudi("CALL show_savepoints(table => '{t}')") == by_pudi("CALL show_savepoints(table => '{t}')")
        shown = [[row[:3] + row[4:] for row in run("CALL show_commits(table => '{t}')")] for run in (by_hudi, by_pudi)]
        assert shown[0] == shown[1]
    finally:
        for key in SMALL:
            spark.sql(f"RESET {key}")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["mor", "cow"])
def test_turns_on_a_table_without_record_key(kind: str, spark: Any, tmp_path: Path) -> None:
    """Hudi's quick start: keys are generated, and statements find records by their condition."""

    def rows(found: Any) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in found.collect()]

    pudis, hudis = f"keyless_pudi_{kind}", f"keyless_hudi_{kind}"
    for key, value in SMALL.items():
        spark.sql(f"SET {key}={value}")
    try:
        spark.sql(
            f"CREATE TABLE {hudis} (uuid STRING, fare DOUBLE, city STRING) USING hudi TBLPROPERTIES (type = '{kind}') "
            f"PARTITIONED BY (city) LOCATION '{tmp_path}/t'"
        )
        spark.sql(f"INSERT INTO {hudis} VALUES ('a', 1.0, 'sf'), ('b', 2.0, 'sf'), ('b', 3.0, 'sp'), ('c', 4.0, 'sp')")
        query = "SELECT _hoodie_record_key, uuid, fare, city FROM {} ORDER BY uuid, fare"
        first = rows(spark.sql(query.format(hudis)))
        pudi.spark.sql(spark, f"CREATE TABLE {pudis} USING hudi LOCATION '{tmp_path}/t'")
        news = "(SELECT 'b' AS uuid, 10.0D AS fare, 'sf' AS city UNION ALL SELECT 'd', 20.0D, 'sf')"
        pudi.spark.sql(
            spark,
            f"MERGE INTO {pudis} t USING {news} s ON t.uuid = s.uuid "
            "WHEN MATCHED THEN UPDATE SET fare = t.fare + s.fare WHEN NOT MATCHED THEN INSERT *",
        )
        spark.sql(f"REFRESH TABLE {hudis}")
        merged = rows(spark.sql(query.format(hudis)))
        assert [row[1:] for row in merged] == [
            ("a", 1.0, "sf"), ("b", 12.0, "sf"), ("b", 13.0, "sp"), ("c", 4.0, "sp"), ("d", 20.0, "sf"),
        ]  # fmt: skip
        assert [row[0] for row in merged[:4]] == [row[0] for row in first]
        spark.sql(f"UPDATE {hudis} SET fare = 5.0 WHERE uuid = 'd'")
        pudi.spark.sql(spark, f"DELETE FROM {pudis} WHERE fare = (SELECT max(fare) FROM {pudis})")
        spark.sql(f"REFRESH TABLE {hudis}")
        last = rows(spark.sql(query.format(hudis)))
        assert last == rows(pudi.spark.sql(spark, query.format(pudis)))
        assert [row[1:3] for row in last] == [("a", 1.0), ("b", 12.0), ("c", 4.0), ("d", 5.0)]
    finally:
        for key in SMALL:
            spark.sql(f"RESET {key}")


@pytest.mark.slow
@pytest.mark.parametrize("chain", CHAINS, ids=lambda chain: chain.name)
def test_the_stored_rows_are_hudis(chain: Chain, spark: Any, tmp_path: Path) -> None:
    import json

    from support.sql_cases import GOLDEN

    told = json.loads(GOLDEN.read_text(encoding="utf-8"))[chain.name]
    found = run_chain(chain, tmp_path / "t", lambda text: [tuple(row) for row in spark.sql(text).collect()])
    assert [each.get("rows") for each in found] == [each.get("rows") for each in told]
