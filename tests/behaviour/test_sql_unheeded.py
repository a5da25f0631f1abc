"""No part of a statement goes unheeded: it has its meaning, or is refused by name and place."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.statement import local

pytest.importorskip("duckdb")

Sql = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def sql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sql:
    """Statements with a table `t`, and one without meta fields, `plain`, in a folder `{}`."""
    monkeypatch.setattr(local, "_SETTINGS", local._Settings())

    def run(text: str, **tables: Any) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in pudi.sql(text.replace("{}", str(tmp_path)), **tables).to_pylist()]

    run(
        "CREATE TABLE t (id INT, name STRING, n BIGINT, ts TIMESTAMP, d DATE) USING hudi "
        "TBLPROPERTIES (primaryKey = 'id') LOCATION '{}/t'"
    )
    run(
        "INSERT INTO t VALUES (1, '0x1F', 10, TIMESTAMP '2024-01-01 00:00:00.9', DATE '2024-01-01'), "
        "(2, 'b', 20, NULL, NULL)"
    )
    run(
        "CREATE TABLE plain (a INT, b INT) USING hudi "
        "TBLPROPERTIES (primaryKey = 'a', 'hoodie.populate.meta.fields' = 'false') LOCATION '{}/plain'"
    )
    run("INSERT INTO plain VALUES (1, 2), (3, 4), (2, 1)")
    return run


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT x.a, x.b FROM plain AS x(b, a) WHERE a = 1", [(1, 2)]),
        ("SELECT x.a, x.b FROM plain x(b, a) WHERE x.b = 3", [(4, 3)]),
        ("SELECT k FROM plain AS x(k, v) WHERE v = 4", [(3,)]),
        ("WITH x(b, a) AS (SELECT a, b FROM plain) SELECT a, b FROM x WHERE a = 1", [(1, 2)]),
    ],
)
def test_names_given_to_a_tables_columns_are_those_of_the_query(sql: Sql, query: str, rows: list[Any]) -> None:
    assert sql(query) == rows


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        (
            "SELECT count(*) FROM hudi_query('t', 'snapshot') UNION ALL "
            "SELECT count(*) FROM hudi_query('plain', 'snapshot')",
            [(2,), (3,)],
        ),
        ("SELECT 'hudi_query' AS s, id FROM HUDI_QUERY ('t', 'snapshot') q WHERE id = 1", [("hudi_query", 1)]),
        (
            "SELECT a.n AS a, b.n AS b FROM (SELECT count(*) n FROM hudi_query_timeline('t')) a, "
            "(SELECT count(*) n FROM `hudi_query`('plain', 'snapshot')) b",
            [(1, 3)],
        ),
    ],
)
def test_a_table_function_stands_where_the_query_calls_it(sql: Sql, query: str, rows: list[Any]) -> None:
    assert sql(query) == rows


@pytest.mark.parametrize(
    ("change", "value"),
    [
        ("SET n = ts", 1704067200),
        ("SET ts = 1700000000", datetime(2023, 11, 14, 22, 13, 20, tzinfo=timezone.utc)),
        ("SET ts = n", datetime(1970, 1, 1, 0, 0, 10, tzinfo=timezone.utc)),
        ("SET d = nullif(d, d)", None),
        ("SET ts = CASE WHEN id = 5 THEN NULL END", None),
    ],
)
def test_set_casts_as_spark_casts(sql: Sql, change: str, value: Any) -> None:
    sql(f"UPDATE t {change} WHERE id = 1")
    column = change.split()[1]
    (found,) = sql(f"SELECT {column} FROM t WHERE id = 1")
    assert found == (value,)


@pytest.mark.parametrize("change", ["SET d = 5", "SET n = d", "SET n = name"])
def test_set_refuses_what_is_no_cast_of_spark(sql: Sql, change: str) -> None:
    before = sql("SELECT * FROM t ORDER BY id")
    with pytest.raises(pudi.InvalidArgumentError, match=f"column {change.split()[1]}: .* does not become"):
        sql(f"UPDATE t {change} WHERE id = 1")
    assert sql("SELECT * FROM t ORDER BY id") == before


UNHEEDED = [
    ("UPDATE t SET n = 1, N = 2", "column n is set twice"),
    ("CREATE TABLE x (a INT) USING hudi LOCATION '{}/x' LOCATION '{}/y'", "LOCATION is given twice"),
    ("CREATE TABLE x (a INT) USING hudi COMMENT 'a' COMMENT 'b' LOCATION '{}/x'", "COMMENT is given twice"),
    ("CREATE TABLE x (a INT) USING hudi PARTITIONED BY (a) PARTITIONED BY (a)", "PARTITIONED is given twice"),
    (
        "CREATE TABLE x (a INT) USING hudi TBLPROPERTIES (type = 'cow', type = 'mor') LOCATION '{}/x'",
        "type is given twice",
    ),
    (
        "CREATE TABLE x (a INT, b INT) USING hudi TBLPROPERTIES (preCombineField = 'a', orderingFields = 'b') "
        "LOCATION '{}/x'",
        "orderingFields=b contradicts a",
    ),
    ("CREATE TABLE x (a INT, p STRING) USING hudi PARTITIONED BY (p STRING) LOCATION '{}/x'", "there is a column p"),
    ("ALTER TABLE t CHANGE COLUMN n n BIGINT NOT NULL", "not whether it takes nulls"),
    ("CREATE INDEX record_index ON t USING record_index (name)", "record_index is of the record key: name id"),
    ("SET hoodie.metadata.enable = true; SET hoodie.metadata.enable = false", "the end of the statement is expected"),
    ("SET pudi.sql.warehose = '/x'", "unknown option 'pudi.sql.warehose'"),
    ("CALL show_commits(table => 't', limit => NULL)", "limit is NULL"),
    ("CALL show_commits(table => 't', limit => -1)", "limit is -1"),
    ("CALL show_commits(table => 't', limit => 1_0)", "an argument is"),
    ("CALL show_timeline(table => 't', showArchived => NULL)", "showarchived is NULL"),
    ("CALL show_fsview_all(table => 't', include_in_flight => true)", "show_fsview_all with include_in_flight"),
    ("CALL show_fsview_latest(table => 't', exclude_compaction => true)", "with exclude_compaction"),
    ("CALL show_fsview_latest(table => 't', merge => false)", "with merge"),
    ("SELECT x.b FROM plain AS x(b)", "there are 1 names for 2 columns"),
]


@pytest.mark.parametrize(("statement", "message"), UNHEEDED)
def test_what_would_go_unheeded_is_refused(sql: Sql, statement: str, message: str) -> None:
    with pytest.raises((pudi.InvalidArgumentError, pudi.NotSupportedError), match=message):
        sql(statement)


def test_change_column_moves_too(sql: Sql) -> None:
    sql("ALTER TABLE t CHANGE COLUMN n n BIGINT AFTER id")
    assert [row[0] for row in sql("SHOW COLUMNS IN t")][5:] == ["id", "n", "name", "ts", "d"]
    assert sql("SELECT id, n FROM t ORDER BY id") == [(1, 10), (2, 20)]


@pytest.mark.parametrize(
    "expression", ["1 | 1 & 0", "6 ^ 3 & 1", "6 | 3 ^ 1", "'x' || 1 + 1", "6 & 3 || 'x'", "true = 1 < 2"]
)
def test_operators_that_spark_binds_in_another_order_need_parentheses(sql: Sql, expression: str) -> None:
    with pytest.raises(pudi.NotSupportedError, match="parentheses"):
        sql(f"SELECT {expression}")


def test_operators_with_parentheses_or_in_sparks_order(sql: Sql) -> None:
    query = "SELECT 1 | (1 & 0) AS a, (1 | 1) & 0 AS b, 1 & 3 | 4 AS c, 1 + 1 || 'x' AS d, 'x' || (1 + 1) AS e"
    assert sql(query) == [(1, 0, 5, "2x", "x2")]
    assert sql("SELECT 1 < 2 = true AS f") == [(True,)]


@pytest.mark.parametrize("kind", ["TABLE", "VIEW"])
def test_a_table_of_duckdb_is_made_of_a_query_with_sparks_meaning(sql: Sql, kind: str) -> None:
    name = f"made_of_query_{kind.lower()}"
    query = "SELECT CAST(2.5 AS INT) AS x, dayofweek(DATE '2024-01-07') AS w, upper('ß') AS u"
    sql(f"CREATE OR REPLACE {kind} {name} AS {query}")
    assert sql(f"SELECT * FROM {name}") == [(2, 1, "SS")]


def test_data_given_for_a_statement_comes_before_the_sessions_table(sql: Sql) -> None:
    assert sql("SELECT * FROM t", t=pa.table({"v": [5]})) == [(5,)]
    with pytest.raises(pudi.TableNotFoundError, match="no table t"):
        sql("DELETE FROM t", t=pa.table({"v": [5]}))
    assert sql("SELECT count(*) FROM t") == [(2,)]


@pytest.mark.parametrize("location", ["{}/wh/away/outside", "{}/wh/inside"])
def test_drop_leaves_the_files_of_a_table_with_a_location(sql: Sql, tmp_path: Path, location: str) -> None:
    """A location below the warehouse is one too, also that of another table there."""
    sql("SET pudi.sql.warehouse = '{}/wh'")
    sql("CREATE TABLE inside (id INT) USING hudi")
    sql(f"CREATE TABLE located {'(id INT)' if 'outside' in location else ''} USING hudi LOCATION '{location}'")
    sql("DROP TABLE located")
    assert Path(location.replace("{}", str(tmp_path)), ".hoodie").exists()
    sql("DROP TABLE inside")
    assert not (tmp_path / "wh" / "inside").exists()


@pytest.mark.parametrize("name", ["`my-table`", "t2"])
def test_show_create_table_is_a_statement(sql: Sql, name: str, tmp_path: Path) -> None:
    (tmp_path / "it's").mkdir()
    sql(f"CREATE TABLE {name} (id INT, v STRING COMMENT 'it\\'s') USING hudi LOCATION '{{}}/it\\'s/x'")
    (made,) = sql(f"SHOW CREATE TABLE {name}")
    sql(f"DROP TABLE {name} PURGE")
    sql(made[0])
    assert sql(f"SHOW CREATE TABLE {name}") == [made]


def test_a_table_of_another_provider_is_none_of_hudi(sql: Sql) -> None:
    with pytest.raises(pudi.InvalidArgumentError):  # by DuckDB
        sql("CREATE TABLE other_provider (a INT) USING org.apache.spark.sql.parquet LOCATION '{}/o'")
    with pytest.raises(pudi.TableNotFoundError):
        sql("SELECT * FROM hudi.`{}/o`")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("ADD COLUMNS (x INT, X INT)", "column X is named twice"),
        ("ADD COLUMNS (x INT, y INT NOT NULL)", "column y is null"),
        ("ADD COLUMNS (x INT, N INT)", "there is a column N already"),
        ("ADD COLUMNS (x INT, y NOTHING)", "NOTHING"),
        ("DROP COLUMNS (n, nope)", "no column nope"),
    ],
)
def test_columns_are_changed_all_or_none(sql: Sql, change: str, message: str) -> None:
    with pytest.raises(pudi.PudiError, match=message):
        sql(f"ALTER TABLE t {change}")
    assert [row[0] for row in sql("SHOW COLUMNS IN t")][5:] == ["id", "name", "n", "ts", "d"]


def test_a_value_of_a_merge_that_fits_no_column_is_named(sql: Sql) -> None:
    with pytest.raises(pudi.InvalidArgumentError, match=r"SQL, line 1, .*: s\.v: string does not become int64"):
        sql(
            "MERGE INTO t USING (SELECT 9 AS id, '0x1F' AS v) s ON t.id = s.id "
            "WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id, s.v)"
        )


def test_columns_may_have_the_names_of_words(sql: Sql) -> None:
    assert sql("WITH x AS (SELECT 1 AS update) SELECT update FROM x") == [(1,)]
    sql("CREATE TABLE w (id INT, end INT) USING hudi TBLPROPERTIES (primaryKey = 'id') LOCATION '{}/w'")
    sql("INSERT INTO w VALUES (1, 5)")
    sql(
        "MERGE INTO w t USING (SELECT 1 AS id, 7 AS end) s ON t.id = s.id "
        "WHEN MATCHED AND CASE WHEN s.end > 1 THEN true ELSE false END THEN UPDATE SET end = s.end"
    )
    assert sql("SELECT id, end FROM w") == [(1, 7)]
