"""Chains of SQL statements on one table each, and a query after each statement; what Apache Hudi gives is stored.

`python -m support.sql_cases` runs them by Hudi and writes `tests/golden/sql.json`.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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
        statements: pairs of a statement and the query after it; `{t}` stands for the table.
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
)  # fmt: skip


def is_wrong_in_hudi(chain: str, statement: str) -> bool:
    """Whether Hudi 1.2 doesn't do what a merge says, which pudi does.

    It ignores NOT MATCHED BY SOURCE, keeps rows that a clause deletes, inserts matched rows once more where a merge
    only inserts, and in merge-on-read tables mixes the columns up where an update sets some of them.
    """
    if not statement.startswith("MERGE"):
        return False
    partial = "UPDATE SET {t}.price" in statement or "UPDATE SET name" in statement
    unlike = "BY SOURCE" in statement or "THEN DELETE" in statement or "WHEN MATCHED" not in statement
    return unlike or (chain == "merge mor" and partial)


def run_chain(chain: Chain, path: Path, sql: Callable[[str], Any], name: str = "") -> list[dict[str, Any]]:
    """Run a chain: the rows of each query, or the error of the statement before it."""
    name = name or "sql_" + chain.name.replace(" ", "_")

    def filled(text: str) -> str:
        return text.replace("{t}", name).replace("{path}", str(path))

    sql(filled(chain.create))
    found = []
    for statement, query in chain.statements:
        entry: dict[str, Any] = {"statement": statement, "query": query}
        try:
            if statement:
                sql(filled(statement))
            if query:
                entry["rows"] = [list(row) for row in sql(filled(query))]
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
    golden = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    for number, chain in enumerate(CHAINS):
        if sys.argv[1:] and chain.name not in sys.argv[1:]:
            continue
        rows = run_chain(chain, folder / f"t{number}", lambda text: [tuple(r) for r in session.sql(text).collect()])
        golden[chain.name] = rows
        GOLDEN.write_text(json.dumps(golden, indent=1, ensure_ascii=False) + "\n")
        print(
            chain.name, sum("rows" in each for each in rows), [e["error"] for e in rows if "error" in e][:3], flush=True
        )
