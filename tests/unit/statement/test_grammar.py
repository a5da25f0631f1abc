"""Statements as values, and errors that point to their place."""

from __future__ import annotations

import pytest

from pudi.errors import InvalidArgumentError, NotSupportedError, PudiError
from pudi.statement.parse.statement import parse_statement
from pudi.statement.table_uses import replaced, uses_of
from pudi.statement.tree import (
    Alter,
    Call,
    Change,
    CreateIndex,
    CreateTable,
    CreateView,
    Delete,
    Insert,
    Merge,
    Query,
    Refresh,
    SetOption,
    Show,
    Text,
    Update,
    When,
)


def test_a_merge_in_pieces() -> None:
    text = """MERGE INTO hudi.`/data/t` AS t USING (SELECT * FROM s WHERE x IN (1, 2)) AS s ON t.id = s.id AND t.d = s.d
    WHEN MATCHED AND CASE WHEN s.a > 1 THEN true ELSE false END THEN DELETE
    WHEN MATCHED THEN UPDATE SET t.a = coalesce(s.a, 0), b = 'WHEN MATCHED'
    WHEN NOT MATCHED BY TARGET THEN INSERT (id, a) VALUES (s.id, s.a + 1)
    WHEN NOT MATCHED BY SOURCE AND a = 1 THEN UPDATE SET a = 2;"""
    found = parse_statement(text)
    assert isinstance(found, Merge)
    assert found.table.path == "/data/t"
    assert (found.alias, found.source_alias) == ("t", "s")
    assert found.source.text == "(SELECT * FROM s WHERE x IN (1, 2))"
    assert found.on.text == "t.id = s.id AND t.d = s.d"
    assert [(c.when, c.action) for c in found.clauses] == [
        (When.MATCHED, "delete"),
        (When.MATCHED, "update"),
        (When.NOT_MATCHED, "insert"),
        (When.NOT_MATCHED_BY_SOURCE, "update"),
    ]
    assert str(found.clauses[0].condition) == "CASE WHEN s.a > 1 THEN true ELSE false END"
    assert [(name, value.text) for name, value in found.clauses[1].values or ()] == [
        ("t.a", "coalesce(s.a, 0)"),
        ("b", "'WHEN MATCHED'"),
    ]
    assert all(text[v.at :].startswith(v.text) for c in found.clauses for _, v in c.values or ())


def test_a_table_is_created() -> None:
    found = parse_statement(
        "create table if not exists db.t (id INT NOT NULL COMMENT 'the key', s STRUCT<a: ARRAY<DECIMAL(10,2)>>, "
        "d STRING)\nUSING Hudi TBLPROPERTIES (type = 'mor', 'primaryKey'='id', hoodie.index.type=BLOOM) "
        "PARTITIONED  BY (d) LOCATION '/lake/t' COMMENT 'all of it' AS SELECT 1"
    )
    assert isinstance(found, CreateTable)
    assert found.exists_ok
    assert [(c.name, c.type, c.nullable) for c in found.columns] == [
        ("id", "INT", False),
        ("s", "STRUCT<a: ARRAY<DECIMAL(10,2)>>", True),
        ("d", "STRING", True),
    ]
    assert found.properties == {"type": "mor", "primaryKey": "id", "hoodie.index.type": "BLOOM"}
    assert [c.name for c in found.partitioned_by] == ["d"]
    assert (found.location, str(found.query)) == ("/lake/t", "SELECT 1")


def test_the_other_statements() -> None:
    insert = parse_statement(
        "WITH a AS (SELECT 1) INSERT OVERWRITE TABLE t PARTITION (d = 'x', h) (b, c) SELECT * FROM a"
    )
    assert isinstance(insert, Insert)
    assert insert.overwrite
    assert [(n, v and v.text) for n, v in insert.partition] == [("d", "'x'"), ("h", None)]
    assert (insert.columns, insert.query.text) == (("b", "c"), "WITH a AS (SELECT 1) SELECT * FROM a")
    update = parse_statement("UPDATE t x SET a = 1, b.c = f(2, 3) WHERE a IN (1)")
    assert isinstance(update, Update)
    assert ([n for n, _ in update.values], update.alias, str(update.where)) == (["a", "b.c"], "x", "a IN (1)")
    assert isinstance(parse_statement("DELETE FROM t"), Delete)
    index = parse_statement("CREATE INDEX i ON t USING column_stats(ts) OPTIONS (expr='from_unixtime', format='yyyy')")
    assert isinstance(index, CreateIndex)
    assert (index.kind, index.columns, index.options["expr"]) == ("column_stats", ("ts",), "from_unixtime")
    call = parse_statement("CALL system.Show_Commits(table => 't', limit => 10)")
    assert isinstance(call, Call)
    assert (call.procedure, [(a.name, a.value) for a in call.arguments]) == (
        "show_commits",
        [("table", "t"), ("limit", 10)],
    )
    rename = parse_statement("ALTER TABLE t RENAME COLUMN a.b TO c")
    assert isinstance(rename, Alter)
    assert (rename.change, rename.names) == (Change.RENAME_COLUMN, ("a.b", "c"))
    assert parse_statement("SET hoodie.x.y = 'a b'") == SetOption("hoodie.x.y", "a b")
    assert isinstance(parse_statement("SHOW PARTITIONS t"), Show)
    view = parse_statement("CREATE OR REPLACE GLOBAL TEMP VIEW v AS SELECT * FROM t")
    assert view == CreateView("v", Text("SELECT * FROM t", 40), replaces=True, is_global=True)
    assert parse_statement("CACHE TABLE v AS SELECT 1") == CreateView("v", Text("SELECT 1", 17), cached=True)
    for text in ("REFRESH TABLE a.t", "ANALYZE TABLE a.t COMPUTE STATISTICS FOR COLUMNS x, y"):
        refresh = parse_statement(text)
        assert isinstance(refresh, Refresh)
        assert refresh.table.parts == ("a", "t")
    for other in (
        "SELECT 1",
        "CREATE TABLE t (a INT) USING parquet",
        "CREATE VIEW v AS SELECT 1",
        "REFRESH FUNCTION f",
        "CACHE TABLE t",
    ):
        assert isinstance(parse_statement(other), Query)


WRONG = [
    ("", "empty"),
    ("UPDATE t SET a 1", "line 1, column 16, near '1': = is expected"),
    ("UPDATE t\n  SET", "line 2, column 6, at the end"),
    ("DELETE t", "near 't': FROM"),
    ("INSERT t VALUES (1)", "INTO or OVERWRITE"),
    ("MERGE INTO t USING s ON a = b", "at the end: WHEN"),
    ("MERGE INTO t USING s ON a = b WHEN MATCHED THEN INSERT *", "near 'INSERT \\*': UPDATE or DELETE"),
    ("MERGE INTO t USING s ON a = b WHEN NOT MATCHED THEN INSERT (a, b) VALUES (1)", "2 columns, and 1 values"),
    ("MERGE INTO t USING s ON a = b WHEN NOT MATCHED BY SOURCE THEN UPDATE SET *", "lacks have no values"),
    ("CREATE TABLE t (a INT)\nUSING hudi FOO", "line 2, column 12, near 'FOO'"),
    ("CALL a(b => 1, 2)", "without a name"),
    ("CALL a(b => now())", "a whole number"),
    ("SELECT 'x", "no end"),
    ("DELETE FROM t WHERE a = 1) x", "near '\\) x': the end"),
    ("CREATE OR REPLACE TABLE t USING hudi AS SELECT 1", "OR REPLACE"),
    ("ALTER TABLE t ADD COLUMNS (a INT FIRST)", "use AFTER"),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_errors_point_to_their_place(text: str, message: str) -> None:
    with pytest.raises(PudiError, match=message) as caught:
        parse_statement(text)
    assert isinstance(caught.value, InvalidArgumentError | NotSupportedError)


def _shown(query: str) -> str:
    text = Text(query, 0)
    return replaced(text, uses_of(text, ["hudi_table_changes"]), lambda number: f"V{number}", lambda piece: piece)


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("SELECT t.a FROM t", "SELECT t.a FROM V0 AS `t`"),
        ("SELECT * FROM hudi.`/a b` x, u", "SELECT * FROM V0 x, V1 AS `u`"),
        ("WITH t AS (SELECT * FROM t) SELECT * FROM t", "WITH t AS (SELECT * FROM V0 AS `t`) SELECT * FROM t"),
        (
            "SELECT 't', a FROM db.t TIMESTAMP AS OF '2026-01-01' WHERE a = 't'",
            "SELECT 't', a FROM V0 AS `t` WHERE a = 't'",
        ),
        ("SELECT * FROM t VERSION AS OF 20260101000000000 AS v", "SELECT * FROM V0 AS v"),
        ("SELECT count(*) FROM hudi_table_changes('t', 'latest_state', 'earliest') c", "SELECT count(*) FROM V0 c"),
        ("SELECT a FROM t TABLESAMPLE (5 ROWS)", "SELECT a FROM V0 TABLESAMPLE (5 ROWS)"),
        ("EXPLAIN SELECT a FROM t", "EXPLAIN SELECT a FROM V0 AS `t`"),
        ("explain\n formatted SELECT a FROM t", "explain\n formatted SELECT a FROM V0 AS `t`"),
        (
            "SELECT a FROM `t` WHERE a IN (SELECT b FROM u)",
            "SELECT a FROM V0 AS `t` WHERE a IN (SELECT b FROM V1 AS `u`)",
        ),
    ],
)
def test_tables_of_a_query(query: str, shown: str) -> None:
    assert _shown(query) == shown


def test_what_a_query_needs_of_a_table() -> None:
    (use,) = uses_of(Text("SELECT sum(a) FROM t WHERE d = 'x' AND b > 1 AND f(c) = 2", 0), [])
    assert use.conditions == ("d = 'x'", "b > 1", "F(c) = 2")
    assert use.columns is not None
    assert {"a", "b", "c", "d"} <= use.columns
    (star,) = uses_of(Text("SELECT *, count(*) OVER () FROM t", 0), [])
    assert star.columns is None
    (pivot,) = uses_of(Text("SELECT x FROM t PIVOT (sum(v) FOR k IN ('a' AS x)) WHERE x > 1", 0), [])
    assert (pivot.columns, pivot.conditions) == (None, ())  # it groups by the columns that it doesn't name
    (renamed,) = uses_of(Text("SELECT a FROM t AS x(b, a) WHERE a = 1", 0), [])
    assert (renamed.columns, renamed.conditions) == (None, ())
    with pytest.raises(NotSupportedError, match="constant"):
        uses_of(Text("SELECT * FROM t TIMESTAMP AS OF current_date()", 0), [])


def test_double_quotes_hold_names_where_the_session_says_so() -> None:
    text = """UPDATE "my t" SET "s t" = 'q', b = "s" WHERE "s" = 'a'"""
    found = parse_statement(text, names_in_double_quotes=True)
    assert isinstance(found, Update)
    assert found.table.parts == ("my t",)
    assert [(name, value.text) for name, value in found.values] == [("s t", "'q'"), ("b", '"s"')]
    made = parse_statement('INSERT INTO t ("select", b) VALUES (1, 2)', names_in_double_quotes=True)
    assert isinstance(made, Insert)
    assert made.columns == ("select", "b")
    with pytest.raises(InvalidArgumentError, match="a text in quotes is expected"):
        parse_statement('CREATE TABLE t (id INT COMMENT "x") USING hudi', names_in_double_quotes=True)
    with pytest.raises(InvalidArgumentError, match="a table is expected"):
        parse_statement(text)
