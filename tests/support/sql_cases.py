"""Chains of SQL statements on one table each, and a query after each statement; what Apache Hudi gives is stored.

`python -m support.sql_cases` runs them by Hudi and writes `tests/golden/sql.json`.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parents[1] / "golden" / "sql.json"

_COLUMNS = "(id INT, name STRING, price DOUBLE, ts BIGINT, dt STRING)"
_ROWS = "(1, 'a', 10.0, 1000, 'x'), (2, 'b', 20.0, 1000, 'y'), (3, 'c', 30.0, 1000, 'x'), (4, NULL, NULL, 1000, 'y')"
QUERY = "SELECT id, name, price, ts, dt FROM {t} ORDER BY id, dt, ts"


@dataclass(frozen=True)
class Chain:
    """Statements on one table.

    Attributes:
        name: its name.
        create: what creates it.
        statements: pairs of a statement and the query after it; `{t}` stands for the table, `{path}` for where it is,
            `{first}` and `{second}` for its oldest commits, `{first time}` for the first as a time. A query may end in
            the numbers of the columns that are compared: `-> 2,4`.
    """

    name: str
    create: str
    statements: tuple[tuple[str, str], ...]


def _created(properties: str, columns: str = _COLUMNS, partitioned: str = "PARTITIONED BY (dt)") -> str:
    return f"CREATE TABLE {{t}} {columns} USING hudi TBLPROPERTIES ({properties}) {partitioned} LOCATION '{{path}}'"


def _of(*statements: str, query: str = QUERY) -> tuple[tuple[str, str], ...]:
    return tuple((each, query) for each in statements)


_CHANGES = (
    f"INSERT INTO {{t}} VALUES {_ROWS}",
    "UPDATE {t} SET price = price * 2, ts = ts + 1 WHERE id = 1",
    "UPDATE {t} SET name = 'none', ts = ts + 1 WHERE name IS NULL",
    "UPDATE {t} SET price = coalesce(price, 0) + 1, ts = ts + 1",
    "UPDATE {t} SET name = CASE WHEN id % 2 = 0 THEN 'even' ELSE name END, ts = ts + 1 WHERE id < 4",
    "UPDATE {t} SET price = abs(price - 25), ts = ts + 1 WHERE dt = 'x'",
    "UPDATE {t} SET name = concat(name, '-', id), ts = ts + 1 WHERE id IN (1, 2)",
    "UPDATE {t} SET name = upper(name), price = NULL, ts = ts + 1 WHERE id BETWEEN 2 AND 3",
    "UPDATE {t} SET price = 5.5, ts = ts + 1 WHERE name LIKE 'E%' OR price IS NULL",
    "UPDATE {t} SET price = -price, ts = ts + 1 WHERE NOT (id = 1)",
    "UPDATE {t} SET ts = 2000 WHERE id = 99",
    "INSERT INTO {t} VALUES (5, 'e', 50, 1000, 'z')",
    "INSERT INTO {t} PARTITION (dt = 'w') SELECT 6, 'f', 60.5, 1000",
    "INSERT INTO {t} PARTITION (dt) SELECT 7, 'g', CAST(70 AS DOUBLE), CAST(1000 AS BIGINT), 'v'",
    "INSERT INTO {t} (id, name, price, ts, dt) VALUES (8, 'h', 80.0, 1000, 'v'), (9, 'i', 90.0, 1000, 'w')",
    "INSERT INTO {t} SELECT id + 100, name, price, ts, dt FROM {t} WHERE dt = 'v'",
    "DELETE FROM {t} WHERE id = 3",
    "DELETE FROM {t} WHERE price < 0",
    "DELETE FROM {t} WHERE id IN (5, 6)",
    "DELETE FROM {t} WHERE name IS NULL",
    "INSERT OVERWRITE {t} PARTITION (dt = 'v') SELECT 20, 'over', 1.0, 1000",
    f"INSERT OVERWRITE {{t}} VALUES {_ROWS}",
    "DELETE FROM {t} WHERE dt = 'x' AND price > 10",
    "DELETE FROM {t}",
)

_MATCHED = (
    "",
    "WHEN MATCHED THEN UPDATE SET *",
    "WHEN MATCHED THEN UPDATE SET {t}.price = s.price, {t}.ts = s.ts",
    "WHEN MATCHED THEN DELETE",
    "WHEN MATCHED AND s.name = 'gone' THEN DELETE WHEN MATCHED THEN UPDATE SET *",
    "WHEN MATCHED AND s.price > 15 THEN UPDATE SET name = s.name, price = s.price + {t}.price, ts = s.ts",
)
_NOT_MATCHED = (
    "",
    "WHEN NOT MATCHED THEN INSERT *",
    "WHEN NOT MATCHED AND s.name <> 'skip' THEN INSERT (id, name, price, ts, dt) "
    "VALUES (s.id, concat(s.name, '!'), s.price * 2, s.ts, s.dt)",
    "WHEN NOT MATCHED AND s.id > 11 THEN INSERT *",
)
_UNSOURCED = ("", "WHEN NOT MATCHED BY SOURCE AND {t}.dt = 'y' THEN DELETE",
              "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET {t}.price = 0, {t}.ts = {t}.ts + 1")  # fmt: skip
_SOURCE = (
    "(SELECT 1 AS id, 'new' AS name, 11.0D AS price, 1500L AS ts, 'x' AS dt UNION ALL "
    "SELECT 2, 'gone', 22.0D, 1500L, 'y' UNION ALL SELECT 10, 'in', 100.0D, 1500L, 'x' UNION ALL "
    "SELECT 11, 'skip', 110.0D, 1500L, 'y' UNION ALL SELECT 12, 'last', 120.0D, 1500L, 'z')"
)


def _merges(unsourced: str) -> Iterator[tuple[str, str]]:
    for matched, new in itertools.product(_MATCHED, _NOT_MATCHED):
        clauses = " ".join(filter(None, (matched, new, unsourced)))
        if clauses:
            yield f"INSERT OVERWRITE {{t}} VALUES {_ROWS}", ""
            yield f"MERGE INTO {{t}} USING {_SOURCE} AS s ON {{t}}.id = s.id {clauses}", QUERY


_QUERIES = (
    "SELECT count(*) FROM {t}",
    "SELECT dt, count(*) AS n, sum(price) AS s, max(ts) AS m FROM {t} GROUP BY dt ORDER BY dt",
    "SELECT a.id, b.name FROM {t} a JOIN {t} b ON a.id = b.id + 1 ORDER BY a.id",
    "SELECT id FROM {t} WHERE dt = 'x' AND price > 10 ORDER BY id",
    "SELECT id FROM {t} WHERE price IN (SELECT max(price) FROM {t}) ORDER BY id",
    "WITH big AS (SELECT * FROM {t} WHERE price >= 20) SELECT count(*) AS n, min(name) AS m FROM big",
    "SELECT id, row_number() OVER (PARTITION BY dt ORDER BY id) AS n FROM {t} ORDER BY id",
    "SELECT _hoodie_record_key, _hoodie_partition_path, id FROM {t} ORDER BY id",
    "SELECT id, coalesce(name, 'none') AS name FROM {t} WHERE NOT (price > 15) OR price IS NULL ORDER BY id",
    "SELECT id FROM {t} WHERE id BETWEEN 2 AND 3 UNION ALL SELECT 0 ORDER BY id",
    "SELECT x.id FROM (SELECT id, dt FROM {t}) x WHERE x.dt IN ('y') ORDER BY x.id",
    "SELECT DISTINCT dt FROM {t} ORDER BY dt DESC",
    "SELECT id, name FROM {t} ORDER BY price DESC LIMIT 2",
    "SELECT count(*) FROM hudi_table_changes('{t}', 'latest_state', 'earliest')",
    "SHOW PARTITIONS {t}",
    "SELECT id, CASE WHEN price > 15 THEN 'dear' ELSE 'cheap' END AS c FROM {t} ORDER BY id",
    "SELECT upper(name) AS u, length(name) AS n FROM {t} WHERE name IS NOT NULL ORDER BY id",
    "SELECT id FROM {t} WHERE name LIKE '%a%' OR dt = 'y' ORDER BY id",
)

_EVOLVING = (
    (f"INSERT INTO {{t}} VALUES {_ROWS}", QUERY),
    ("ALTER TABLE {t} ADD COLUMNS (tip INT)", "SELECT id, tip, dt FROM {t} ORDER BY id"),
    ("INSERT INTO {t} VALUES (5, 'e', 50.0, 1000, 5, 'x')", "SELECT id, tip, dt FROM {t} ORDER BY id"),
    ("UPDATE {t} SET tip = id + 1, ts = ts + 1 WHERE tip IS NULL", "SELECT id, tip, dt FROM {t} ORDER BY id"),
    ("ALTER TABLE {t} DROP PARTITION (dt = 'y')", QUERY),
    ("TRUNCATE TABLE {t}", QUERY),
)

_TRIPS = "(ts BIGINT, uuid STRING, rider STRING, fare DOUBLE, city STRING)"
_FARES = (
    "(SELECT 2L AS ts, 'b' AS uuid, 'rX' AS rider, 10.0D AS fare, 'sf' AS city UNION ALL "
    "SELECT 3L, 'c', 'rY', 20.0D, 'sp' UNION ALL SELECT 9L, 'z', 'rZ', 30.0D, 'ch')"
)
_KEYLESS = _of(
    "INSERT INTO {t} VALUES (1, 'a', 'rA', 1.0, 'sf'), (2, 'b', 'rB', 2.0, 'sf'), (3, 'c', 'rC', 3.0, 'sp'), "
    "(4, 'c', 'rD', 4.0, 'sp')",
    "UPDATE {t} SET fare = 25.0 WHERE rider = 'rB'",
    "UPDATE {t} SET fare = 26.0 WHERE fare = (SELECT max(fare) FROM {t})",
    f"MERGE INTO {{t}} t USING {_FARES} s ON t.uuid = s.uuid WHEN MATCHED THEN UPDATE SET rider = s.rider "
    "WHEN NOT MATCHED THEN INSERT *",
    f"MERGE INTO {{t}} t USING {_FARES} s ON t.uuid = s.uuid AND t.ts > s.ts "
    "WHEN MATCHED THEN UPDATE SET rider = 'more'",
    f"MERGE INTO {{t}} t USING {_FARES} s ON t.uuid = s.uuid AND abs(t.ts - s.ts) < 1 "
    "WHEN MATCHED AND s.uuid = 'c' THEN UPDATE SET *",
    f"MERGE INTO {{t}} t USING {_FARES} s ON t.ts = s.ts + 1000 OR t.uuid = s.uuid AND t.city = 'sf' "
    "WHEN MATCHED THEN UPDATE SET fare = s.fare",
    "DELETE FROM {t} WHERE uuid = 'z'",
    "DELETE FROM {t} WHERE fare >= (SELECT max(fare) FROM {t})",
    query="SELECT ts, uuid, rider, fare, city FROM {t} ORDER BY ts, rider",
)

_STORED = "(id INT, price DECIMAL(10,2), n BIGINT, s STRING, d DATE, dt STRING)"
_ASSIGNED = _of(
    "INSERT INTO {t} VALUES (1, 1.005, 7.6, 5, DATE'2026-01-01', 'x'), (2, -2.345, -7.6, 1.50, NULL, 'x')",
    "INSERT INTO {t} SELECT 3, CAST(2.345 AS DOUBLE), 10, DATE'2026-01-02', TIMESTAMP'2026-01-02 10:00:00', 'y'",
    "INSERT INTO {t} SELECT 4L, 1, CAST(3.99 AS DOUBLE), true, NULL, 'y'",
    "INSERT INTO {t} SELECT 5, '7.125', 1, 'a', NULL, 'y'",
    "INSERT INTO {t} SELECT 5, 123456789012.5, 1, 'a', NULL, 'y'",
    "INSERT INTO {t} SELECT 3000000000L, 1, 1, 'a', NULL, 'y'",
    "INSERT INTO {t} SELECT '6', 1, 1, 'a', NULL, 'y'",
    "INSERT INTO {t} SELECT 7, 1, 1, 'a', '2026-01-01', 'y'",
    "INSERT INTO {t} SELECT true, 1, 1, 'a', NULL, 'y'",
    "UPDATE {t} SET price = price * 1.155 WHERE id = 2",
    "UPDATE {t} SET price = 1.999D WHERE id = 1",
    "UPDATE {t} SET n = 7.7, s = 12 WHERE id = 1",
    "UPDATE {t} SET n = '77' WHERE id = 1",
    "UPDATE {t} SET price = 99999999999 WHERE id = 1",
    "UPDATE {t} SET n = 'x' WHERE id = 1",
    "MERGE INTO {t} t USING (SELECT 2 AS id, 5.555 AS price, 'x' AS dt) s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET price = s.price",
    "MERGE INTO {t} t USING (SELECT 3 AS id, 1.2345 AS price, 'y' AS dt) s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET price = t.price * s.price",
    "INSERT INTO {t} BY NAME SELECT 'z' AS dt, 30 AS id, 1.5 AS price, 2 AS n, 'by' AS s, NULL AS d",
    "INSERT INTO {t} BY NAME SELECT 31 AS id, 'z' AS dt",
    "INSERT INTO {t} (dt, id) VALUES ('z', 32)",
    "INSERT OVERWRITE {t} BY NAME SELECT 33 AS id, 'z' AS dt, 1 AS n, 2 AS price, 'ow' AS s, NULL AS d",
    query="SELECT id, CAST(price AS DOUBLE) AS price, n, s, CAST(d AS STRING) AS d, dt FROM {t} ORDER BY id",
)

_NESTED_COLUMNS = "(id INT, a STRUCT<b: STRING, c: STRUCT<d: INT>>, l ARRAY<INT>, m MAP<STRING, INT>, dt STRING)"
_NESTED_ROW = "named_struct('b', '{}', 'c', named_struct('d', {}))"
_LEAVES = "SELECT id, a.b AS b, a.c.d AS d, l[0] AS l0, size(l) AS n, m['k'] AS k, dt FROM {t} ORDER BY id"
_NESTED = (
    *_of(
        f"INSERT INTO {{t}} SELECT 1, {_NESTED_ROW.format('x', 1)}, array(1, 2), map('k', 1), 'p'",
        f"INSERT INTO {{t}} SELECT 2, {_NESTED_ROW.format('y', 2)}, array(3), map('j', 2), 'p' UNION ALL "
        f"SELECT 3, {_NESTED_ROW.format('z', 3)}, array(4, 5, 6), map('k', 3, 'j', 4), 'q'",
        f"UPDATE {{t}} SET a = {_NESTED_ROW.format('up', 9)} WHERE id = 1",
        "UPDATE {t} SET l = array(7, 8), m = map('k', 5) WHERE a.c.d > 2",
        f"MERGE INTO {{t}} t USING (SELECT 2 AS id, {_NESTED_ROW.format('mg', 5)} AS a, 'p' AS dt) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET a = s.a",
        "DELETE FROM {t} WHERE a.b = 'up'",
        query=_LEAVES,
    ),
    ("", "SELECT id FROM {t} WHERE a.c.d = 3 AND a.b LIKE 'z%' ORDER BY id"),
    ("", "SELECT a.c.d AS d, count(*) AS n FROM {t} GROUP BY a.c.d ORDER BY d"),
    ("", "SELECT id, e FROM {t} LATERAL VIEW explode(l) x AS e ORDER BY id, e"),
    ("", "SELECT t.id FROM {t} t WHERE array_contains(t.l, 7) ORDER BY t.id"),
)

_HISTORY = (
    (f"INSERT INTO {{t}} VALUES {_ROWS}", QUERY),
    ("UPDATE {t} SET price = 99.0, ts = ts + 1 WHERE id = 1", QUERY),
    ("DELETE FROM {t} WHERE id = 2", QUERY),
    *(
        ("", f"SELECT id, price, dt FROM {{t}} {moment} ORDER BY id")
        for moment in (
            "TIMESTAMP AS OF '{first}'",
            "TIMESTAMP AS OF '{first time}'",
            "TIMESTAMP AS OF '{second}'",
            "TIMESTAMP AS OF '2099-01-01'",
            "TIMESTAMP AS OF '2099-01-01 10:00:00'",
            "FOR TIMESTAMP AS OF '{first}'",
            "FOR SYSTEM_TIME AS OF '{first time}'",
            "TIMESTAMP AS OF '{first}' WHERE dt = 'x'",
        )
    ),
    ("", "SELECT a.id FROM {t} TIMESTAMP AS OF '{first}' a LEFT ANTI JOIN {t} b ON a.id = b.id ORDER BY a.id"),
    ("", "WITH old AS (SELECT * FROM {t} TIMESTAMP AS OF '{first}') SELECT count(*) AS n, sum(price) AS s FROM old"),
    ("", "SELECT id, price FROM hudi_table_changes('{t}', 'latest_state', 'earliest') ORDER BY id"),
    ("", "SELECT id, price FROM hudi_table_changes('{t}', 'latest_state', '{first}') ORDER BY id"),
    ("", "SELECT id, price FROM hudi_table_changes('{t}', 'latest_state', 'earliest', '{first}') ORDER BY id"),
    ("", "SELECT c.id FROM hudi_table_changes('{path}', 'latest_state', 'earliest') c WHERE c.dt = 'x' ORDER BY c.id"),
    ("", "SELECT Action, State FROM hudi_query_timeline('{t}') ORDER BY Timestamp"),
    ("", "CALL show_commits(table => '{t}', limit => 10) -> 2,4,5,6,7,8,9"),
    ("", "CALL show_commit_partitions(table => '{t}', instant_time => '{second}') -> 1,2,3,4,5"),
    ("", "CALL show_commit_write_stats(table => '{t}', instant_time => '{second}') -> 0"),
    ("", "CALL show_commit_files(table => '{t}', instant_time => '{second}') -> 0,1,5"),
    ("", "CALL show_rollbacks(table => '{t}')"),
    ("", "CALL show_savepoints(table => '{t}')"),
    ("", "CALL create_savepoint(table => '{t}', commit_time => '{first}', user => 'me', comments => 'kept')"),
    ("", "CALL show_savepoints(table => '{t}') -> "),
    ("", "CALL delete_savepoint(table => '{t}', instant_time => '{first}')"),
    ("", "CALL show_clustering(table => '{t}')"),
    ("", "CALL show_cleans(table => '{t}')"),
    ("", "CALL show_fsview_latest(table => '{t}', partition_path => 'dt=x') -> 0,6"),
    ("", "CALL nope(table => '{t}')"),
    ("", "CALL show_commits(tabel => '{t}')"),
)

_DEFINED = (
    (f"INSERT INTO {{t}} VALUES {_ROWS}", "DESCRIBE {t}"),
    ("", "SHOW COLUMNS IN {t}"),
    ("", "SHOW PARTITIONS {t} PARTITION (dt = 'x')"),
    ("ALTER TABLE {t} SET TBLPROPERTIES ('note' = 'a', owned = 'me')", "SHOW TBLPROPERTIES {t} ('note')"),
    ("ALTER TABLE {t} UNSET TBLPROPERTIES ('note')", QUERY),
    ("ALTER TABLE {t} ADD COLUMNS (tip INT COMMENT 'extra', more STRING)", "SHOW COLUMNS IN {t}"),
    ("ALTER TABLE {t} ADD COLUMN one DATE", "SELECT id, tip, more, one, dt FROM {t} ORDER BY id"),
    ("ALTER TABLE {t} ADD COLUMNS (tip INT)", "SHOW COLUMNS IN {t}"),
    ("TRUNCATE TABLE {t} PARTITION (dt = 'y')", QUERY),
    ("ALTER TABLE {t} DROP IF EXISTS PARTITION (dt = 'nowhere')", "SHOW PARTITIONS {t}"),
    ("CREATE TABLE {t}_copy USING hudi TBLPROPERTIES (primaryKey = 'id') LOCATION '{path}_copy' AS "
     "SELECT id, name, ts FROM {t}", "SELECT id, name, ts FROM {t}_copy ORDER BY id"),
    ("CREATE TABLE IF NOT EXISTS {t}_copy (id INT) USING hudi LOCATION '{path}_other'",
     "SELECT count(*) AS n FROM {t}_copy"),
    ("CREATE TABLE {t}_copy (id INT) USING hudi LOCATION '{path}_other'", "SELECT count(*) AS n FROM {t}_copy"),
    ("CREATE OR REPLACE TABLE {t}_copy (id INT) USING hudi LOCATION '{path}_copy'",
     "SELECT count(*) AS n FROM {t}_copy"),
    ("ALTER TABLE {t}_copy RENAME TO {t}_new", "SELECT count(*) AS n FROM {t}_new"),
    ("DROP TABLE {t}_new", "SELECT count(*) AS n FROM {t}_new"),
    ("DROP TABLE IF EXISTS {t}_new", QUERY),
)  # fmt: skip

_PLACED = (
    ("INSERT INTO {t} VALUES (1, 'a', 10.0, 1000, 'x')", QUERY),
    ("SET hoodie.schema.on.read.enable=true", QUERY),
    ("ALTER TABLE {t} ADD COLUMNS (b INT AFTER id, c STRING)", "SELECT * FROM {t} -> 5,6,7,8,9,10"),
    ("INSERT INTO {t} VALUES (2, 5, 'b', 20.0, 1000, 'c', 'x')", "SELECT id, b, name, c, dt FROM {t} ORDER BY id"),
    ("ALTER TABLE {t} ALTER COLUMN c AFTER b", "SELECT * FROM {t} ORDER BY id -> 5,6,7,8,9,10,11"),
    ("ALTER TABLE {t} ADD COLUMNS (z INT FIRST)", "SELECT count(*) AS n FROM {t}"),
    ("INSERT INTO {t} BY NAME SELECT 'n' AS name, 3 AS id, 1 AS b, 'r' AS c, 1L AS ts, 2D AS price, 'x' AS dt",
     "SELECT * FROM {t} ORDER BY id -> 5,6,7,8,9,10,11"),
    ("SET hoodie.schema.on.read.enable=false", "SELECT count(*) AS n FROM {t}"),
)  # fmt: skip

CHAINS: tuple[Chain, ...] = (
    Chain("cow", _created("type = 'cow', primaryKey = 'id'"), _of(*_CHANGES)),
    Chain("cow ordered", _created("primaryKey = 'id', preCombineField = 'ts'"), _of(*_CHANGES)),
    Chain("mor ordered", _created("type = 'mor', primaryKey = 'id', orderingFields = 'ts'"), _of(*_CHANGES)),
    Chain("no keys", _created("type = 'cow'"), _of(*_CHANGES[:6], *_CHANGES[8:12], _CHANGES[16], _CHANGES[17])),
    Chain("merge cow", _created("type = 'cow', primaryKey = 'id'"), tuple(_merges(""))),
    Chain("merge mor", _created("type = 'mor', primaryKey = 'id', orderingFields = 'ts'"), tuple(_merges(""))[::3]),
    Chain("merge by source", _created("primaryKey = 'id'"), tuple(_merges(_UNSOURCED[1]))[:6]),
    Chain(
        "queries", _created("primaryKey = 'id', preCombineField = 'ts'"),
        ((f"INSERT INTO {{t}} VALUES {_ROWS}", QUERY), *(("", query) for query in _QUERIES)),
    ),
    Chain("evolving", _created("primaryKey = 'id', preCombineField = 'ts'"), _EVOLVING),
    *(Chain(f"keyless {kind}", _created(f"type = '{kind}'", _TRIPS, "PARTITIONED BY (city)"), _KEYLESS)
      for kind in ("cow", "mor")),
    Chain("assigned", _created("primaryKey = 'id'", _STORED), _ASSIGNED),
    Chain("nested", _created("primaryKey = 'id'", _NESTED_COLUMNS), _NESTED),
    Chain("history", _created("primaryKey = 'id', orderingFields = 'ts'"), _HISTORY),
    Chain("defined", _created("primaryKey = 'id', orderingFields = 'ts'"), _DEFINED),
    Chain("placed", _created("primaryKey = 'id'"), _PLACED),
)  # fmt: skip


def is_wrong_in_hudi(chain: str, statement: str) -> bool:
    """Whether Hudi 1.2 doesn't do what a merge says, which pudi does.

    It ignores NOT MATCHED BY SOURCE, keeps rows that a clause deletes, inserts matched rows once more where a merge
    only inserts, and in merge-on-read tables mixes the columns up where an update sets some of them.
    """
    if not statement.startswith("MERGE") or chain.startswith("keyless"):
        return False
    partial = "UPDATE SET {t}.price" in statement or "UPDATE SET name" in statement
    unlike = "BY SOURCE" in statement or "THEN DELETE" in statement or "WHEN MATCHED" not in statement
    return unlike or (chain == "merge mor" and partial)


def run_chain(chain: Chain, path: Path, sql: Callable[[str], Any], name: str = "") -> list[dict[str, Any]]:
    """Run a chain: the rows of each query, or the error of the statement before it."""
    name = name or "sql_" + chain.name.replace(" ", "_")

    def filled(text: str) -> str:
        if "{first" in text or "{second" in text:
            second, first = [row[0] for row in sql(f"CALL show_commits(table => '{name}', limit => 100)")][-2:]
            when = datetime.strptime(first[:14], "%Y%m%d%H%M%S").isoformat(" ") + "." + first[14:]
            text = text.replace("{first}", first).replace("{second}", second).replace("{first time}", when)
        return text.replace("{t}", name).replace("{path}", str(path))

    def rows(text: str) -> list[list[Any]]:
        statement, arrow, kept = filled(text).partition(" -> ")
        found = [list(row) for row in sql(statement)]
        return [[row[int(n)] for n in kept.split(",") if n] for row in found] if arrow else found

    sql(filled(chain.create))
    found = []
    for statement, query in chain.statements:
        entry: dict[str, Any] = {"statement": statement, "query": query}
        try:
            if statement:
                sql(filled(statement))
            if query:
                entry["rows"] = rows(query)
        except Exception as error:  # noqa: BLE001 - of Spark, Py4J or pudi
            entry["error"] = str(error).splitlines()[0][:300]
        found.append(entry)
    return found


if __name__ == "__main__":
    import sys
    import tempfile

    from support import hudi
    from support import spark as spark_support

    folder = Path(tempfile.mkdtemp())
    session = spark_support.start(folder, hudi.SESSION)
    for key, value in hudi.SMALL.items():
        session.sql(f"SET {key}={value}")
    golden = json.loads(GOLDEN.read_text("utf-8")) if GOLDEN.exists() else {}
    for number, chain in enumerate(CHAINS):
        if sys.argv[1:] and chain.name not in sys.argv[1:]:
            continue
        rows = run_chain(chain, folder / f"t{number}", lambda text: [tuple(r) for r in session.sql(text).collect()])
        golden[chain.name] = rows
        GOLDEN.write_text(json.dumps(golden, indent=1, ensure_ascii=False) + "\n", "utf-8")
        print(
            chain.name, sum("rows" in each for each in rows), [e["error"] for e in rows if "error" in e][:3], flush=True
        )
