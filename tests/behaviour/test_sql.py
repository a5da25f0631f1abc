"""Statements of Hudi's Spark SQL by pudi: the rows that Hudi gave for them, on both engines; what is refused."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.statement import local
from pudi.statement.procedures.call import PROCEDURES, WITHOUT
from support.sql_cases import CHAINS, GOLDEN, Chain, is_wrong_in_hudi, run_chain

Sql = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture(autouse=True)
def _own_settings(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "spark" not in request.keywords:
        pytest.importorskip("duckdb")
    monkeypatch.setattr(local, "_SETTINGS", local._Settings())


def run_local(text: str, **tables: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in pudi.sql(text, **tables).to_pylist()]


def _compare(chain: Chain, path: Path, sql: Sql, name: str = "") -> None:
    told = json.loads(GOLDEN.read_text(encoding="utf-8"))[chain.name][: len(chain.statements)]
    for expected, found in zip(told, run_chain(chain, path, sql, name), strict=True):
        about = f"{expected['statement']}\n{expected['query']}\n"
        assert (expected["statement"], expected["query"]) == (found["statement"], found["query"])
        if "rows" in expected and not is_wrong_in_hudi(chain.name, expected["statement"]):
            assert "error" not in found, about + str(found.get("error"))
            assert [list(row) for row in found["rows"]] == expected["rows"], about
        elif "error" in expected and not expected["statement"].startswith("MERGE"):
            assert "error" in found, about


@pytest.mark.parametrize("chain", CHAINS, ids=lambda chain: chain.name)
def test_hudis_rows_on_this_machine(chain: Chain, tmp_path: Path) -> None:
    _compare(chain, tmp_path / "t", run_local)


@pytest.mark.spark
@pytest.mark.sampled(1)
@pytest.mark.parametrize("chain", CHAINS, ids=lambda chain: chain.name)
def test_hudis_rows_on_spark(chain: Chain, tmp_path: Path, spark: Any) -> None:
    """The first statements of a chain: each costs jobs."""
    some, name = replace(chain, statements=chain.statements[:14]), f"spark_{chain.name.replace(' ', '_')}"
    _compare(some, tmp_path / "t", lambda text: list(map(tuple, pudi.spark.sql(spark, text).collect())), name)


@pytest.mark.spark
def test_statements_of_a_spark_user_around_a_table(tmp_path: Path, spark: Any) -> None:
    def sql(text: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in pudi.spark.sql(spark, text).collect()]

    sql(f"CREATE TABLE around (id INT, v STRING) USING hudi TBLPROPERTIES (primaryKey = 'id') LOCATION '{tmp_path}/t'")
    sql("INSERT INTO around VALUES (1, 'a'), (2, 'b')")
    sql("CREATE OR REPLACE TEMPORARY VIEW around_view AS SELECT id, v FROM around WHERE id > 1")
    assert sql("SELECT * FROM around_view") == [(2, "b")]
    sql("CREATE OR REPLACE TEMPORARY VIEW around_view (k, w COMMENT 'x') AS SELECT id, v FROM around")
    assert sql("SELECT w FROM around_view WHERE k = 2") == [("b",)]
    with pytest.raises(pudi.InvalidArgumentError, match="1 columns, the query 2"):
        sql("CREATE OR REPLACE TEMPORARY VIEW around_view (k) AS SELECT id, v FROM around")
    pivoted = "SELECT x, y FROM around PIVOT (count(v) FOR v IN ('a' AS x, 'b' AS y)) ORDER BY id"
    assert sql(pivoted) == [(1, None), (None, 1)]  # a group for each id
    spark.sql(f"CREATE TABLE around_parquet USING parquet LOCATION '{tmp_path}/p' AS SELECT 9 AS id, 'p' AS v")
    sql("INSERT INTO around_parquet SELECT id, v FROM around")  # the engine's own table
    assert sql("SELECT sum(id) FROM around_parquet") == [(12,)]
    sql("ALTER TABLE around_parquet ADD COLUMNS (w INT)")
    assert [row[0] for row in sql("DESCRIBE around_parquet")] == ["id", "v", "w"]
    assert sql("SHOW COLUMNS IN around_parquet") == [("id",), ("v",), ("w",)]
    with pytest.raises(Exception, match=r"(?i)UPDATE") as refused:  # by Spark
        sql("UPDATE around_parquet SET v = 'x'")
    assert not isinstance(refused.value, pudi.PudiError)
    with pytest.raises(pudi.TableNotFoundError, match="no table around_nothing"):
        sql("DELETE FROM around_nothing")
    sql(
        "CREATE TABLE around_two USING hudi TBLPROPERTIES (primaryKey = 'id') "
        f"LOCATION '{tmp_path}/u' AS SELECT * FROM around TABLESAMPLE (100 PERCENT)"
    )
    sql("INSERT INTO around_two SELECT * FROM around")  # with its meta fields
    assert sql("SELECT id, v FROM around_two ORDER BY id") == [(1, "a"), (1, "a"), (2, "b"), (2, "b")]
    assert pudi.Table(tmp_path / "u").schema.names == ["id", "v"]
    assert "PhysicalPlan" in sql("EXPLAIN SELECT * FROM around")[0][0].replace(" ", "")
    assert "not found" not in sql("EXPLAIN SELECT * FROM around")[0][0]
    sql("DROP TABLE IF EXISTS around_parquet")
    assert not spark.catalog.tableExists("around_parquet")
    assert sql("REFRESH TABLE around") == sql("ANALYZE TABLE around COMPUTE STATISTICS") == []
    sql("ALTER TABLE around_two ADD COLUMNS (n DOUBLE)")
    merge = "MERGE INTO around t USING (SELECT 3 AS id, v FROM around) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT "
    for text, value in (
        (f"{merge} (id, v) VALUES (s.v, s.v)", "SQL, line 1, column 7.*of the statement is none of type INT.*: a"),
        ("UPDATE around_two SET n = upper(v)", "of column n is none of type DOUBLE.*: A"),
    ):
        with pytest.raises(pudi.SchemaError, match=value):
            sql(text)


ROWS = {1: ("a", 10.0, "x"), 2: ("b", 20.0, "y"), 3: ("c", 30.0, "x")}
SOURCE = {1: ("new", 11.0, "x"), 2: ("gone", 22.0, "y"), 9: ("in", 90.0, "z")}
Row = tuple[str, float, str]

MATCHED: dict[str, Callable[[Row, Row], Row | None]] = {
    "": lambda old, new: old,
    "WHEN MATCHED THEN UPDATE SET *": lambda old, new: new,
    "WHEN MATCHED THEN UPDATE SET price = s.price + t.price": lambda old, new: (old[0], old[1] + new[1], old[2]),
    "WHEN MATCHED THEN DELETE": lambda old, new: None,
    "WHEN MATCHED AND s.name = 'gone' THEN DELETE WHEN MATCHED THEN UPDATE SET name = upper(s.name)": (
        lambda old, new: None if new[0] == "gone" else (new[0].upper(), *old[1:])
    ),
}
NEW: dict[str, Callable[[Row], Row | None]] = {
    "": lambda new: None,
    "WHEN NOT MATCHED THEN INSERT *": lambda new: new,
    "WHEN NOT MATCHED AND s.price < 50 THEN INSERT *": lambda new: new if new[1] < 50 else None,
}
UNSOURCED: dict[str, Callable[[Row], Row | None]] = {
    "": lambda old: old,
    "WHEN NOT MATCHED BY SOURCE THEN DELETE": lambda old: None,
    "WHEN NOT MATCHED BY SOURCE AND t.dt = 'x' THEN UPDATE SET t.price = t.price / 2": (
        lambda old: (old[0], old[1] / 2, old[2]) if old[2] == "x" else old
    ),
    "WHEN NOT MATCHED BY SOURCE AND t.price > 100 THEN DELETE": lambda old: old,
}


def _values(rows: dict[int, Row]) -> str:
    return ", ".join(f"({key}, '{name}', {price}, '{dt}')" for key, (name, price, dt) in rows.items())


def _merged(matched: str, new: str, unsourced: str) -> list[tuple[Any, ...]]:
    found: dict[int, Row | None] = {}
    for key, old in ROWS.items():
        found[key] = MATCHED[matched](old, SOURCE[key]) if key in SOURCE else UNSOURCED[unsourced](old)
    found |= {key: NEW[new](row) for key, row in SOURCE.items() if key not in ROWS}
    return sorted((key, *row) for key, row in found.items() if row is not None)


PAIRS = [clauses for clauses in itertools.product(MATCHED, NEW, UNSOURCED) if any(clauses)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_pairs_of_merge_clauses(kind: str, tmp_path: Path) -> None:
    """All combinations of matched, not matched and not matched by source, against a model of plain dicts."""
    assert len(PAIRS) == 59
    for number, (matched, new, unsourced) in enumerate(PAIRS[:: 1 if kind == "cow" else 4]):
        run_local(
            f"CREATE TABLE t{number} (id INT, name STRING, price DOUBLE, dt STRING) USING hudi PARTITIONED BY (dt) "
            f"TBLPROPERTIES (type = '{kind}', primaryKey = 'id') LOCATION '{tmp_path}/{number}'"
        )
        run_local(f"INSERT INTO t{number} VALUES {_values(ROWS)}")
        columns = "a AS id, b AS name, CAST(c AS DOUBLE) AS price, d AS dt"
        source = f"(SELECT {columns} FROM VALUES {_values(SOURCE)} AS v(a, b, c, d))"
        run_local(f"MERGE INTO t{number} AS t USING {source} AS s ON t.id = s.id {matched} {new} {unsourced}")
        found = run_local(f"SELECT id, name, price, dt FROM t{number} ORDER BY id")
        assert found == _merged(matched, new, unsourced), (matched, new, unsourced)


def test_reset_takes_settings_back_and_keeps_names(trips: str) -> None:
    key = "hoodie.spark.sql.insert.into.operation"
    run_local(f"SET {key} = upsert")
    run_local("SET hoodie.metadata.enable = true")
    run_local(f"RESET {key}")
    assert run_local(f"SET {key}") == [(key, "<undefined>")]
    assert run_local("SET hoodie.metadata.enable") == [("hoodie.metadata.enable", "true")]
    assert run_local("RESET") == []
    assert run_local("SET hoodie.metadata.enable") == [("hoodie.metadata.enable", "<undefined>")]
    assert run_local("SELECT count(*) FROM trips") == [(2,)]


def _in_a_database(sql: Sql, folder: Path, name: str) -> None:
    """Statements of a script that chooses its database."""
    sql(f"SET pudi.sql.warehouse = {folder}")
    sql(f"CREATE DATABASE IF NOT EXISTS {name}")
    try:
        sql(f"CREATE TABLE {name}_t (id INT) USING hudi")
        sql(f"USE {name}")
        sql(f"CREATE TABLE {name}_t (id INT) USING hudi")
        sql(f"INSERT INTO {name}_t VALUES (7)")
        assert sql(f"SELECT id FROM {name}_t") == sql(f"SELECT id FROM {name}.{name}_t") == [(7,)]
        assert sql(f"SELECT id FROM default.{name}_t") == []
        assert (name, f"{name}_t", False) in sql("SHOW TABLES")
        assert all(row[0] == name for row in sql("SHOW TABLES") if not row[2])  # views of the session are shown too
        assert (folder / f"{name}.db" / f"{name}_t" / ".hoodie").is_dir()
    finally:
        sql("USE default")
        sql("RESET pudi.sql.warehouse")


def test_names_are_of_the_database_that_use_chose(tmp_path: Path) -> None:
    _in_a_database(run_local, tmp_path, "rides")


@pytest.mark.spark
def test_names_are_of_the_database_that_use_chose_on_spark(tmp_path: Path, spark: Any) -> None:
    _in_a_database(lambda text: [tuple(row) for row in pudi.spark.sql(spark, text).collect()], tmp_path, "rides_of_use")


@pytest.fixture
def trips(tmp_path: Path) -> Iterator[str]:
    run_local(
        "CREATE TABLE trips (id INT, name STRING, fare DOUBLE, city STRING) USING hudi PARTITIONED BY (city) "
        f"TBLPROPERTIES (primaryKey = 'id') LOCATION '{tmp_path}/trips'"
    )
    run_local("INSERT INTO trips VALUES (1, 'ann', 10.0, 'rome'), (2, 'bob', 20.0, 'oslo')")
    return f"{tmp_path}/trips"


WRONG = [
    ("SELECT * FRM trips", "line 1"),
    ("SELECT nope FROM trips WHERE city = 'rome'", "no column nope; trips has id, name, fare, city"),
    ("SELECT * FROM nowhere", r"there is no table nowhere: .* pudi\.sql\(text, nowhere=…\)"),
    ("DELETE FROM trips; SELECT 1", "column 18, near '; SELECT 1': .* one by one"),
    ("SELECT 1; DELETE FROM trips", "column 9.* one by one"),
    ("CREATE TEMPORARY VIEW v AS SELECT id FROM trips", r"give the query's result by name: pudi\.sql\(text, v="),
    ("CREATE OR REPLACE VIEW v AS SELECT id FROM trips", "views aren't kept on this machine"),
    ("CALL show_metadata_table_stats(table => 'trips')", "Hudi has this procedure, pudi doesn't"),
    ("UPDATE trips SET city = 'bonn'", "city is a partition column, which UPDATE can't set"),
    ("UPDATE trips SET nope = 1", "column 25, near '1': the table has no column nope"),
    ("UPDATE trips SET id = 2", "id is part of the record key, which UPDATE can't set"),
    ("UPDATE trips SET fare = 1 WHERE nope = 2", "column 33, near 'nope = 2'.*no column 'nope'"),
    ("DELETE FROM nowhere", "column 13, near 'nowhere': there is no table nowhere"),
    ("INSERT INTO trips VALUES (1, 'x')", "takes 4 columns.*the query has 2"),
    ("INSERT INTO trips VALUES ('x', 'x', 1, 'x')", "column id"),
    ("INSERT INTO trips PARTITION (town = 'x') SELECT 1", "town is no partition column: these are city"),
    ("INSERT INTO trips (id, nope) VALUES (1, 2)", "no column nope"),
    ("UPDATE trips SET name.first = 'x'", r"name.first is a field of column name: SET gives whole columns, name ="),
    (
        "MERGE INTO trips t USING (SELECT '1' AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET fare = 1",
        "the record key column id is int, the source's column id is string: CAST it in the source",
    ),
    ("INSERT INTO trips BY NAME SELECT 1 AS id, 'x' AS name, 1 AS fare, 'x' AS town", "no column town"),
    ("INSERT INTO trips BY NAME SELECT 1 AS id, 'x' AS name, 'x' AS city", "query has no column fare"),
    ("INSERT INTO trips VALUES (1, 'x', '1.5', 'x')", "column fare: string isn't stored as double: CAST it"),
    ("INSERT INTO trips VALUES (true, 'x', 1.5, 'x')", "column id: boolean isn't stored as int:"),
    ("INSERT INTO trips VALUES (3000000000, 'x', 1.5, 'x')", "column id"),
    ("ALTER TABLE trips ADD COLUMNS (x INT FIRST)", "FIRST"),
    ("ALTER TABLE trips ADD COLUMNS (x INT AFTER nope)", "no column 'nope' to stand behind"),
    ("ALTER TABLE trips ALTER COLUMN fare AFTER fare", "no column 'fare' to stand behind"),
    ("CREATE OR REPLACE TABLE trips (id INT) USING hudi", "CREATE OR REPLACE"),
    ("MERGE INTO trips USING (SELECT 1 AS id) s ON trips.id > nope WHEN MATCHED THEN DELETE", "nope"),
    ("MERGE INTO trips t USING (SELECT 1 AS id) s ON rand() > t.id WHEN MATCHED THEN DELETE", "column 48.*RAND"),
    ("MERGE INTO trips t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET x = 1", "no column x"),
    ("MERGE INTO trips t USING (SELECT 1 AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *", "has no column name"),
    ("MERGE INTO trips t USING (SELECT 1 AS id) fare ON t.id = f.id WHEN MATCHED THEN DELETE", r"source \(fare\) nor"),
    ("MERGE INTO trips t USING (SELECT 1 AS id) fare ON t.id = x.id WHEN MATCHED THEN DELETE", r"the table \(t\)"),
    ("MERGE INTO trips t USING (SELECT 1 AS id) s ON t.id = fare.id WHEN MATCHED THEN DELETE", "fare is neither"),
    (
        "MERGE INTO trips t USING (SELECT 1 AS id) s ON t.id = s.x WHEN MATCHED THEN DELETE",
        r"s.x; the source \(s\) has id",
    ),
    (
        "MERGE INTO trips t USING (SELECT 1 AS id) s ON t.x = s.id WHEN MATCHED THEN DELETE",
        r"t.x; the table \(t\) has id",
    ),
    (
        "MERGE INTO trips t USING (SELECT 1 AS id) s ON t.id = s.id AND s.x = 1 WHEN MATCHED THEN DELETE",
        "no column s.x",
    ),
    (
        "MERGE INTO trips t USING (SELECT 1 AS id) s ON t.x = s.id WHEN MATCHED THEN DELETE",
        "column 48, near 't.x = s.id .*': there is no column t.x",
    ),
    (
        "MERGE INTO trips t USING (SELECT 1 AS id) s ON t.id = s.id AND t.fare = 'x' WHEN MATCHED THEN DELETE",
        r"column 48, near .*can't compare target.fare \(DOUBLE\) and 'x'",
    ),
    ("MERGE INTO trips t USING (SELECT 1 AS id) T ON t.id = t.id WHEN MATCHED THEN DELETE", "both called T"),
    ("DESCRIBE HISTORY trips", r"DESCRIBE HISTORY isn't .* CALL show_commits\(table => 'trips'\)"),
    ("DESC DETAIL trips", "SHOW TBLPROPERTIES trips"),
    ("OPTIMIZE trips ZORDER BY (id)", "column 10, near 'trips ZORDER.*run_clustering"),
    ("CREATE TABLE c SHALLOW CLONE trips", "column 30, near 'trips': SHALLOW CLONE isn't .*AS SELECT \\* FROM trips"),
    ("CREATE TABLE IF NOT EXISTS c CLONE trips VERSION AS OF 1", r"near 'trips.* CLONE isn't .*CREATE TABLE c USING"),
    ("CREATE OR REPLACE TABLE c DEEP CLONE trips", "DEEP CLONE isn't"),
    ("VACUUM trips RETAIN 168 HOURS", "run_clean"),
    ("RESTORE TABLE trips TO VERSION AS OF 1", "rollback_to_savepoint"),
    ("COMMENT ON TABLE trips IS 'x'", "no comments"),
    ("INSERT INTO trips REPLACE WHERE id = 1 SELECT 1, 'r', 5, 'rome'", "REPLACE WHERE isn't"),
    ("MERGE WITH SCHEMA EVOLUTION INTO trips USING trips s ON s.id = trips.id WHEN MATCHED THEN DELETE", "ADD COLUMNS"),
    ("WITH a AS (SELECT 1 AS id) DELETE FROM trips WHERE id IN (SELECT id FROM a)", "WITH … DELETE"),
    ("ALTER TABLE trips ADD COLUMNS (x uuid)", "'uuid' is no type"),
    ("ALTER TABLE trips DROP COLUMN nope", "nope"),
    ("ALTER TABLE trips SET TBLPROPERTIES (type = 'mor')", "can't be set later"),
    ("ALTER TABLE trips SET TBLPROPERTIES ('hoodie.nope' = '1')", r"unknown option.*\[table .*trips\]"),
    ("SET hoodie.nope = 1", "unknown option"),
    ("CREATE TABLE t (id INT) USING hudi", "add LOCATION"),
    ("CREATE TABLE trips (id INT) USING hudi LOCATION '/lake/x'", "already"),
    ("CREATE TABLE u (id INT) USING hudi TBLPROPERTIES (primaryKey = 'nope') LOCATION '/lake/none'", "nope"),
    ("CREATE TABLE u (id INT) USING hudi TBLPROPERTIES (primaryKeys = 'id') LOCATION '/lake/none'", "mean primaryKey"),
    ("CREATE TABLE u (id INT) USING hudi TBLPROPERTIES (primary_key = 'id') LOCATION '/lake/none'", "mean primaryKey"),
    ("CREATE TABLE u (id INT) USING hudi TBLPROPERTIES (tipe = 'mor') LOCATION '/lake/none'", "column 14.*mean type"),
    ("CALL show_commits()", "needs table"),
    ("CALL show_commits(tabel => 'trips')", "no parameter tabel; there are table, limit"),
    ("CALL nope(table => 'trips')", "no procedure nope"),
    ("CALL show_timeline(table => 'trips', filter => 'x')", "with filter"),
    ("CALL run_clean(table => 'trips', schedule_in_line => false)", "with schedule_in_line"),
    ("CALL archive_commits(table => 'trips', enable_metadata => false)", "with enable_metadata"),
    ("CALL run_compaction(op => 'run', table => 'trips', limit => 1)", "with limit"),
    ("CALL run_compaction(op => 'run', table => 'trips')", r"nothing to compact \[table"),
    ("CALL show_compaction(table => 'trips')", "copy-on-write"),
    ("CALL run_clustering(table => 'trips', limit => 1)", "with limit"),
    ("CALL show_cleans(table => 'trips', showArchived => true)", "with showArchived"),
    ("SELECT * FROM hudi_table_changes('trips', 'latest_state')", "takes a table"),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_what_is_wrong_is_said_with_its_place(trips: str, text: str, message: str) -> None:
    before = run_local("SELECT * FROM trips ORDER BY id")
    with pytest.raises(pudi.PudiError, match=message):
        run_local(text)
    assert run_local("SELECT * FROM trips ORDER BY id") == before


@pytest.mark.parametrize("name", sorted(WITHOUT))
def test_procedures_without_a_verb_are_refused_by_name(name: str) -> None:
    with pytest.raises(pudi.NotSupportedError, match=name):
        run_local(f"CALL {name}(table => 'trips')")


def test_every_procedure_is_hudis(trips: str) -> None:
    told = json.loads((GOLDEN.parent / "procedures.json").read_text(encoding="utf-8"))
    assert set(told) == set(PROCEDURES) | WITHOUT
    for name, procedure in PROCEDURES.items():
        parameters, columns = told[name]
        assert [(p.name, p.type, p.required) for p in procedure.parameters] == [(n, t, r) for n, t, r in parameters]
        assert [list(column) for column in procedure.columns] == columns
        text = run_local(f"CALL help(cmd => '{name}')")[0][0]
        assert all(p.name in text for p in procedure.parameters)


def test_tables_of_any_kind_by_name(trips: str, tmp_path: Path) -> None:
    other = pa.table({"city": ["rome"], "country": ["it"]})
    query = "SELECT t.id, o.country FROM t JOIN o ON t.city = o.city"
    assert run_local(query, t=pudi.Table(trips), o=other) == [(1, "it")]
    assert run_local(query, t=trips, o=other) == [(1, "it")]
    assert run_local(f"SELECT count(*) FROM hudi.`{trips}`") == [(2,)]
    run_local("MERGE INTO t USING new ON t.id = new.id WHEN MATCHED THEN UPDATE SET fare = new.fare",
              t=trips, new=pa.table({"id": pa.array([2], pa.int32()), "fare": [99.0]}))  # fmt: skip
    assert run_local("SELECT fare FROM trips WHERE id = 2") == [(99.0,)]


def test_time_travel_and_changes(trips: str) -> None:
    first = pudi.Table(trips).scan().instant
    run_local("UPDATE trips SET fare = 0")
    assert run_local(f"SELECT sum(fare) FROM trips TIMESTAMP AS OF '{first}'") == [(30.0,)]
    assert run_local(f"SELECT sum(a.fare) FROM trips VERSION AS OF {first} a JOIN trips b ON a.id = b.id") == [(30.0,)]
    assert run_local("SELECT sum(fare) FROM trips") == [(0.0,)]
    assert run_local(f"SELECT id FROM hudi_table_changes('{trips}', 'latest_state', 'earliest') ORDER BY id") == [
        (1,),
        (2,),
    ]
    timeline = run_local("SELECT Action, State FROM hudi_query_timeline('trips')")
    assert timeline == [("commit", "COMPLETED")] * 2
    assert run_local("SELECT count(*) FROM hudi_filesystem_view('trips')") == [(4,)]


def test_options_of_a_session_and_of_a_table(trips: str) -> None:
    run_local("SET hoodie.spark.sql.insert.into.operation = upsert")
    run_local("INSERT INTO trips VALUES (1, 'ann', 11.0, 'rome')")
    assert run_local("SELECT id, fare FROM trips ORDER BY id") == [(1, 11.0), (2, 20.0)]
    run_local("ALTER TABLE trips SET TBLPROPERTIES ('hoodie.spark.sql.insert.into.operation' = 'bulk_insert')")
    run_local("SET hoodie.spark.sql.insert.into.operation = bulk_insert")
    assert run_local("INSERT INTO trips VALUES (1, 'ann', 12.0, 'rome')")[0][1] == "BULK_INSERT"


def test_a_column_changes(trips: str) -> None:
    run_local("ALTER TABLE trips ADD COLUMNS (tip INT COMMENT 'extra', note STRING)")
    run_local("ALTER TABLE trips ALTER COLUMN tip TYPE bigint")
    run_local("ALTER TABLE trips RENAME COLUMN note TO remark")
    run_local("ALTER TABLE trips DROP COLUMN name")
    assert run_local("DESCRIBE trips")[5:10] == [
        ("id", "int", None), ("fare", "double", None), ("tip", "bigint", "extra"), ("remark", "string", None),
        ("city", "string", None),
    ]  # fmt: skip
    run_local("ALTER TABLE trips RENAME TO rides")
    assert run_local("SHOW TABLES LIKE 'r*'") == [("default", "rides", False)]
    run_local("DROP TABLE rides")
    assert run_local(f"SELECT count(*) FROM hudi.`{trips}`") == [(2,)]


def test_one_column_and_the_properties_of_a_table_are_shown(tmp_path: Path) -> None:
    columns, key = "id INT, v STRING", "primaryKey = 'id'"
    run_local(f"CREATE TABLE shown ({columns}) USING hudi TBLPROPERTIES ({key}) LOCATION '{tmp_path}/t'")
    run_local("ALTER TABLE shown SET TBLPROPERTIES ('hoodie.keep.max.commits' = '30')")
    assert run_local("DESCRIBE TABLE shown V") == [("col_name", "v"), ("data_type", "string"), ("comment", "NULL")]
    assert "hoodie.keep.max.commits = '30'" in run_local("SHOW CREATE TABLE shown")[0][0]
    with pytest.raises(pudi.InvalidArgumentError, match="no column nope; it has id, v"):
        run_local("DESC shown nope")


def test_a_warehouse_holds_tables_without_location(tmp_path: Path) -> None:
    run_local(f"SET pudi.sql.warehouse = {tmp_path}/wh")
    run_local("CREATE TABLE sales.orders USING hudi TBLPROPERTIES (primaryKey = 'id') AS SELECT 1 AS id, 'x' AS v")
    assert (tmp_path / "wh" / "sales.db" / "orders" / ".hoodie").exists()
    run_local("INSERT INTO sales.orders VALUES (2, 'y')")
    assert run_local("SELECT id, v FROM sales.orders ORDER BY id") == [(1, "x"), (2, "y")]
    run_local("DROP TABLE sales.orders")
    assert not (tmp_path / "wh" / "sales.db" / "orders" / ".hoodie").exists()


def test_indexes(trips: str) -> None:
    run_local("CREATE INDEX record_index ON trips USING record_index(id)")
    run_local("CREATE INDEX by_name ON trips (name)")
    assert ("secondary_index_by_name", "secondary_index", "name") in run_local("SHOW INDEXES FROM trips")
    run_local("CREATE INDEX IF NOT EXISTS by_name ON trips (name)")
    run_local("DROP INDEX by_name ON trips")
    run_local("DROP INDEX IF EXISTS by_name ON trips")
    assert "secondary_index_by_name" not in {row[0] for row in run_local("SHOW INDEXES FROM trips")}


def test_procedures_of_services_and_recovery(tmp_path: Path) -> None:
    run_local(
        "CREATE TABLE m (id INT, v STRING, ts BIGINT) USING hudi TBLPROPERTIES (type = 'mor', primaryKey = 'id', "
        f"orderingFields = 'ts') LOCATION '{tmp_path}/m'"
    )
    run_local("INSERT INTO m VALUES (1, 'a', 1), (2, 'b', 1)")
    run_local("UPDATE m SET v = 'c', ts = 2 WHERE id = 1")
    commits = run_local("CALL show_commits('m', 5)")
    assert [(row[2], row[4], row[5], row[7], row[8]) for row in commits] == [
        ("deltacommit", 0, 1, 1, 1),
        ("deltacommit", 1, 0, 2, 0),
    ]
    assert run_local("CALL create_savepoint(table => 'm', comments => 'before')") == [(True,)]
    assert run_local("CALL show_savepoints(table => 'm')") == [(commits[0][0],)]
    assert run_local("CALL run_compaction(op => 'schedule', table => 'm')") == []
    run_local("SET hoodie.compact.inline.max.delta.commits = 1")
    (planned,) = run_local("CALL run_compaction(op => 'schedule', table => 'm')")
    assert planned[1:] == (1, "REQUESTED")
    assert run_local("CALL run_compaction(op => 'run', table => 'm')") == [(planned[0], 1, "COMPLETED")]
    assert run_local("CALL show_compaction(table => 'm')") == [(planned[0], 1, "COMPLETED")]
    (clustered,) = run_local("CALL run_clustering(table => 'm', order => 'id')")
    assert clustered[1:] == (1, "COMPLETED", "*")
    run_local("DELETE FROM m")
    assert run_local("CALL rollback_to_savepoint(table => 'm')") == [(True,)]
    assert run_local("SELECT id, v FROM m ORDER BY id") == [(1, "c"), (2, "b")]
    assert run_local("CALL delete_savepoint(table => 'm')") == [(True,)]
    run_local("DELETE FROM m WHERE id = 2")
    newest = run_local("CALL show_commits(table => 'm', limit => 1)")[0][0]
    assert run_local(f"CALL rollback_to_instant(table => 'm', instant_time => '{newest}')") == [(True,)]
    assert run_local("SELECT count(*) FROM m") == [(2,)]
    assert run_local("CALL downgrade_table(table => 'm', to_version => 'EIGHT')") == [(True,)]
    assert dict(run_local("CALL show_table_properties(table => 'm', limit => 99)"))["hoodie.table.version"] == "8"
    assert run_local("CALL truncate_table(table => 'm')")[0][0] == "SUCCESS"
    assert run_local("SELECT count(*) FROM m") == [(0,)]


def test_a_name_imports_no_code(tmp_path: Path) -> None:
    with pytest.raises(pudi.PudiError, match=r"os\.system is not known here"):
        run_local(
            "CREATE TABLE x (id INT) USING hudi TBLPROPERTIES (primaryKey = 'id', "
            f"'hoodie.datasource.write.payload.class' = 'os.system') LOCATION '{tmp_path}/x'"
        )
    with pytest.raises(pudi.PudiError, match="no procedure system"):
        run_local("CALL os.system('x')")


def test_a_name_of_what_is_no_data_is_refused() -> None:
    with pytest.raises(pudi.InvalidArgumentError, match="tables= is a dict"):
        pudi.sql("SELECT 1", tables={"x": pa.table({"id": [1]})})
