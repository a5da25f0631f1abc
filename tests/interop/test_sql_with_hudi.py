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


@pytest.mark.slow
@pytest.mark.parametrize("chain", CHAINS, ids=lambda chain: chain.name)
def test_the_stored_rows_are_hudis(chain: Chain, spark: Any, tmp_path: Path) -> None:
    import json

    from support.sql_cases import GOLDEN

    told = json.loads(GOLDEN.read_text(encoding="utf-8"))[chain.name]
    found = run_chain(chain, tmp_path / "t", lambda text: [tuple(row) for row in spark.sql(text).collect()])
    assert [each.get("rows") for each in found] == [each.get("rows") for each in told]
