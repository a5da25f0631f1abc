"""Short scripts of SQL as Hudi's users write it, on a table of their own; what Apache Hudi gives is stored.

`python -m support.sql_scripts` runs those that are new by Hudi and writes `tests/golden/sql_scripts.jsonl`, a script in
a line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parents[1] / "golden" / "sql_scripts.jsonl"

_PROPERTIES = "type = '{kind}', primaryKey = 'id', orderingFields = 'ts'"
_KEYED = "type = '{kind}', primaryKey = 'id'"
_COLUMNS = "id INT, name STRING, price DOUBLE, ts BIGINT"
_AT = "LOCATION '{path}'"
PLAIN = f"CREATE TABLE {{t}} ({_COLUMNS}) USING hudi TBLPROPERTIES ({_PROPERTIES}) {_AT}"
DAYS = f"CREATE TABLE {{t}} ({_COLUMNS}, dt STRING) USING hudi TBLPROPERTIES ({_PROPERTIES}) PARTITIONED BY (dt) {_AT}"
HOURS = (
    f"CREATE TABLE {{t}} ({_COLUMNS}, dt STRING, hh INT) USING hudi TBLPROPERTIES ({_PROPERTIES}) "
    f"PARTITIONED BY (dt, hh) {_AT}"
)
FILLED = "INSERT INTO {t} VALUES (1, 'a', 10.0, 100, 'd1'), (2, 'b', 20.0, 100, 'd2'), (3, 'c', 30.0, 100, 'd3')"
HOURLY = (
    "INSERT INTO {t} VALUES (1, 'a', 10.0, 100, 'd1', 1), (2, 'b', 20.0, 100, 'd1', 2), "
    "(3, 'c', 30.0, 100, 'd2', 1), (4, 'd', 40.0, 100, 'd2', 2)"
)
TWO = "INSERT INTO {t} VALUES (1, 'a', 10.0, 100), (2, 'b', 20.0, 100)"
ALL = "SELECT id, name, price, ts FROM {t} ORDER BY id, name"
DATED = "SELECT id, name, price, ts, dt FROM {t} ORDER BY id, dt, name"
TIMED = "SELECT id, name, dt, hh FROM {t} ORDER BY id, dt, hh"
PARTS = "SHOW PARTITIONS {t}"
FOLDERS = "SET hoodie.metadata.enable = false"


@dataclass(frozen=True)
class Script:
    """Statements on one table.

    Attributes:
        name: its name.
        statements: the statements; `{t}` stands for the table, `{path}` for its place, `{kind}` for its type, `{i0}`
            for the requested time of its first commit, `{c0}` for the completion time, and so on. A query may end in
            the numbers of the columns that are compared: `-> 2,4`.
        kinds: the types of the table.
    """

    name: str
    statements: tuple[str, ...]
    kinds: tuple[str, ...] = ("cow", "mor")


def _by_names() -> list[Script]:
    swapped = "SELECT 9 AS id, 900L AS ts, 'n' AS name, 9.5D AS price"
    return [
        Script("insert meets names", (PLAIN, f"INSERT INTO {{t}} {swapped}", ALL)),
        Script("insert meets names in any case", (PLAIN, "INSERT INTO {t} SELECT 900L AS TS, 'n' AS Name, 9.5D AS PRICE, 9 AS ID", ALL)),
        Script("insert meets places where a name is unknown", (PLAIN, "INSERT INTO {t} SELECT 9 AS id, 'n' AS label, 9.5D AS price, 900L AS ts", ALL)),
        Script("insert meets places where names are none", (PLAIN, "INSERT INTO {t} SELECT 9, 'n', 9.5D, 900L", ALL)),
        Script("insert of values meets places", (PLAIN, "INSERT INTO {t} VALUES (9, 'n', 9.5, 900)", ALL)),
        Script("insert of named values", (PLAIN, "INSERT INTO {t} SELECT * FROM VALUES (900L, 'n', 9.5D, 9) AS v(ts, name, price, id)", ALL)),
        Script("insert with a column too many", (PLAIN, f"INSERT INTO {{t}} {swapped}, 1 AS more", ALL)),
        Script("insert with a column too few", (PLAIN, "INSERT INTO {t} SELECT 9 AS id, 900L AS ts, 'n' AS name", ALL)),
        Script("insert with a name twice", (PLAIN, "INSERT INTO {t} SELECT 9 AS id, 'n' AS name, 'm' AS name, 900L AS ts", ALL)),
        Script("insert of texts and numbers by name", (PLAIN, "INSERT INTO {t} SELECT 9.5 AS price, 9L AS id, 5 AS name, 900 AS ts", ALL)),
        Script("insert of a wrong type by name", (PLAIN, "INSERT INTO {t} SELECT 9 AS id, 'n' AS price, 'x' AS name, 900L AS ts", ALL)),
        Script("insert from another table", (PLAIN, TWO, "INSERT INTO {t} SELECT ts, price * 2 AS price, name, id + 10 AS id FROM {t}", ALL)),
        Script("insert of all columns of the table", (PLAIN, TWO, "INSERT INTO {t} SELECT * FROM {t} WHERE id = 1", ALL)),
        Script("insert with columns listed", (PLAIN, "INSERT INTO {t} (id, ts, name, price) SELECT 9 AS ts, 900 AS id, 'n' AS name, 9.5D AS price", ALL)),
        Script("insert of a union", (PLAIN, f"INSERT INTO {{t}} {swapped} UNION ALL SELECT 10, 1000L, 'm', 10.5D", ALL)),
        Script("insert of a query in WITH", (PLAIN, f"WITH q AS ({swapped}) INSERT INTO {{t}} SELECT * FROM q", ALL)),
        Script("insert of a subquery", (PLAIN, f"INSERT INTO {{t}} SELECT price, q.* FROM ({swapped}) q", f"INSERT INTO {{t}} SELECT q.* FROM ({swapped}) q", ALL)),
        Script("insert into a partitioned table by name", (DAYS, "INSERT INTO {t} SELECT 'd9' AS dt, 9 AS id, 900L AS ts, 'n' AS name, 9.5D AS price", DATED)),
        Script("insert into a named partition by name", (DAYS, "INSERT INTO {t} PARTITION (dt = 'd9') SELECT 900L AS ts, 'n' AS name, 9.5D AS price, 9 AS id", DATED)),
        Script("insert into a named partition with its column", (DAYS, "INSERT INTO {t} PARTITION (dt = 'd9') SELECT 9 AS id, 'n' AS name, 9.5D AS price, 900L AS ts, 'x' AS dt", DATED)),
        Script("insert into an unnamed partition by name", (DAYS, "INSERT INTO {t} PARTITION (dt) SELECT 'd9' AS dt, 900L AS ts, 'n' AS name, 9.5D AS price, 9 AS id", DATED)),
        Script("insert into one of two partition columns", (HOURS, "INSERT INTO {t} PARTITION (dt = 'd9', hh) SELECT 5 AS hh, 900L AS ts, 'n' AS name, 9.5D AS price, 9 AS id", TIMED)),
        Script("overwrite by name", (PLAIN, TWO, f"INSERT OVERWRITE {{t}} {swapped}", ALL)),
        Script("overwrite of a partition by name", (DAYS, FILLED, "INSERT OVERWRITE {t} PARTITION (dt = 'd1') SELECT 900L AS ts, 'n' AS name, 9.5D AS price, 9 AS id", DATED)),
        Script("created as a query", ("CREATE TABLE {t} USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id') PARTITIONED BY (dt) LOCATION '{path}' AS SELECT 'd1' AS dt, 1 AS id, 'a' AS name", "SELECT id, name, dt FROM {t}")),
        Script("structs meet by names", (
            "CREATE TABLE {t} (id INT, s STRUCT<a: INT, b: STRING>) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id') LOCATION '{path}'",
            "INSERT INTO {t} SELECT named_struct('b', 'x', 'a', 1) AS s, 1 AS id",
            "INSERT INTO {t} SELECT 2, named_struct('p', 2, 'q', 'y')",
            "SELECT id, s.a, s.b FROM {t} ORDER BY id")),
    ]  # fmt: skip


def _overwrites() -> list[Script]:
    over = "INSERT OVERWRITE {t} VALUES (8, 'new', 80.0, 800, 'd1')"
    hourly = "INSERT OVERWRITE {t} {} SELECT 8, 'new', 80.0D, 800L, {}"
    found = [
        Script(
            f"overwrite with operation {operation}",
            (DAYS, FILLED, f"SET hoodie.datasource.write.operation = {operation}", over, DATED),
        )
        for operation in ("insert_overwrite", "insert_overwrite_table", "upsert", "insert", "bulk_insert")
    ]
    found += [
        Script(
            f"insert with operation {operation}",
            (
                DAYS,
                FILLED,
                f"SET hoodie.datasource.write.operation = {operation}",
                "INSERT INTO {t} VALUES (1, 'new', 80.0, 800, 'd1')",
                DATED,
            ),
        )
        for operation in (
            "insert_overwrite",
            "insert_overwrite_table",
            "upsert",
            "insert",
            "bulk_insert",
            "delete",
            "delete_partition",
        )
    ]
    found += [
        Script(
            f"insert with the statement's operation {operation}",
            (
                DAYS,
                FILLED,
                f"SET hoodie.spark.sql.insert.into.operation = {operation}",
                "INSERT INTO {t} VALUES (1, 'new', 80.0, 800, 'd1')",
                DATED,
            ),
        )
        for operation in ("upsert", "insert", "bulk_insert", "insert_overwrite", "insert_overwrite_table")
    ]
    found += [
        Script(
            f"insert in mode {mode}",
            (
                DAYS,
                FILLED,
                f"SET hoodie.sql.insert.mode = {mode}",
                "INSERT INTO {t} VALUES (1, 'new', 80.0, 800, 'd1')",
                DATED,
            ),
        )
        for mode in ("upsert", "strict", "non-strict")
    ]
    found += [
        Script(
            f"overwrite in mode {mode}", (DAYS, FILLED, f"SET hoodie.datasource.overwrite.mode = {mode}", over, DATED)
        )
        for mode in ("dynamic", "static")
    ]
    return [
        *found,
        Script("bulk insert by its option", (DAYS, FILLED, "SET hoodie.sql.bulk.insert.enable = true", "INSERT INTO {t} VALUES (1, 'new', 80.0, 800, 'd1')", DATED)),
        Script("insert drops duplicates", (DAYS, FILLED, "SET hoodie.datasource.insert.dup.policy = drop", "INSERT INTO {t} VALUES (1, 'new', 80.0, 800, 'd1'), (9, 'i', 1.0, 1, 'd1')", DATED)),
        Script("insert fails on duplicates", (DAYS, FILLED, "SET hoodie.datasource.insert.dup.policy = fail", "INSERT INTO {t} VALUES (1, 'new', 80.0, 800, 'd1'), (9, 'i', 1.0, 1, 'd1')", DATED)),
        Script("insert combines before", (DAYS, "SET hoodie.combine.before.insert = true", "INSERT INTO {t} VALUES (1, 'a', 1.0, 5, 'd1'), (1, 'b', 2.0, 4, 'd1')", DATED)),
        Script("operation of the table's properties", (DAYS, "INSERT INTO {t} VALUES (1, 'a', 1.0, 1, 'd1')", "ALTER TABLE {t} SET TBLPROPERTIES (hoodie.spark.sql.insert.into.operation = 'upsert')", "INSERT INTO {t} VALUES (1, 'b', 2.0, 2, 'd1')", DATED)),
        Script("overwrite of Spark's dynamic mode", (DAYS, FILLED, "SET spark.sql.sources.partitionOverwriteMode = dynamic", over, DATED)),
        Script("overwrite of all partition columns", (HOURS, HOURLY, hourly.replace("{}", "PARTITION (dt = 'd1', hh = 1)", 1).replace(", {}", ""), TIMED)),
        Script("overwrite of the first partition column", (HOURS, HOURLY, hourly.replace("{}", "PARTITION (dt = 'd1', hh)", 1).replace("{}", "1"), TIMED)),
        Script("overwrite of the second partition column", (HOURS, HOURLY, hourly.replace("{}", "PARTITION (hh = 1, dt)", 1).replace("{}", "'d1'"), TIMED)),
        Script("overwrite of partition columns without values", (HOURS, HOURLY, hourly.replace("{}", "PARTITION (dt, hh)", 1).replace("{}", "'d1', 1"), TIMED)),
        Script("overwrite of the first partition column, dynamic", (HOURS, HOURLY, "SET hoodie.datasource.overwrite.mode = dynamic", hourly.replace("{}", "PARTITION (dt = 'd1', hh)", 1).replace("{}", "1"), TIMED)),
        Script("overwrite of the first partition column alone", (HOURS, HOURLY, hourly.replace("{}", "PARTITION (dt = 'd1')", 1).replace("{}", "1"), TIMED)),
        Script("overwrite of partition columns without values, dynamic", (HOURS, HOURLY, "SET hoodie.datasource.overwrite.mode = dynamic", hourly.replace("{}", "PARTITION (dt, hh)", 1).replace("{}", "'d1', 1"), TIMED)),
        *(Script(f"overwrite of {what}{mode}", (HOURS, HOURLY, *setting, f"INSERT OVERWRITE {{t}} {values}", TIMED, PARTS), kinds)
          for mode, setting, kinds in ((" in part", (), ("cow", "mor")), (" in part, dynamic", ("SET hoodie.datasource.overwrite.mode = dynamic",), ("cow",)), (" in part, static", ("SET hoodie.datasource.overwrite.mode = static",), ("cow",)), (" in part, by Spark's mode", ("SET spark.sql.sources.partitionOverwriteMode = dynamic",), ("cow",)))
          for what, values in (("a day by a new hour", "PARTITION (dt = 'd1', hh) SELECT 8, 'new', 80.0D, 800L, 5"), ("an hour of all days", "PARTITION (dt, hh = 1) SELECT 8, 'new', 80.0D, 800L, 'd1'"), ("an hour without its day", "PARTITION (hh = 1) SELECT 8, 'new', 80.0D, 800L, 'd1'"), ("a day by nothing", "PARTITION (dt = 'd1', hh) SELECT id, name, price, ts, hh FROM {t} WHERE id > 99"))),
        Script("overwrite by nothing", (DAYS, FILLED, "INSERT OVERWRITE {t} SELECT * FROM {t} WHERE id > 99", DATED)),
        Script("overwrite of a partition by nothing", (DAYS, FILLED, "INSERT OVERWRITE {t} PARTITION (dt = 'd1') SELECT id, name, price, ts FROM {t} WHERE id > 99", DATED)),
        Script("overwrite of a partition that isn't there", (DAYS, FILLED, "INSERT OVERWRITE {t} PARTITION (dt = 'd7') SELECT 7, 'n', 7.0D, 7L", DATED)),
    ]  # fmt: skip


def _partitions() -> list[Script]:
    def drop(name: str, spec: str, filled: str = FILLED) -> Script:
        table, query = (HOURS, TIMED) if filled is HOURLY else (DAYS, DATED)
        return Script(f"drop {name}", (table, filled, f"ALTER TABLE {{t}} DROP {spec}", query, PARTS))

    stars = (
        "INSERT INTO {t} VALUES (1, 'a', 1.0, 1, '2023-08-01'), (2, 'b', 2.0, 1, '2023-08-02'), "
        "(3, 'c', 3.0, 1, '2023-09-01')"
    )
    return [
        drop("a partition", "PARTITION (dt = 'd1')"),
        drop("a partition named twice", "PARTITION (dt = 'd1', dt = 'd2')"),
        drop("two partitions", "PARTITION (dt = 'd1'), PARTITION (dt = 'd2')"),
        drop("a partition that isn't there", "PARTITION (dt = 'd9')"),
        drop("a partition that may not be there", "IF EXISTS PARTITION (dt = 'd9')"),
        drop("partitions of a pattern", "PARTITION (dt = '2023-08-*')", stars),
        drop("partitions of an inner pattern", "PARTITION (dt = '2023-*-01')", stars),
        drop("all partitions", "PARTITION (dt = '*')", stars),
        drop("partitions of a pattern that matches none", "PARTITION (dt = '2024-*')", stars),
        drop("an hour", "PARTITION (dt = 'd1', hh = 1)", HOURLY),
        drop("an hour, columns turned", "PARTITION (hh = 1, dt = 'd1')", HOURLY),
        drop("a day of hours", "PARTITION (dt = 'd1')", HOURLY),
        drop("an hour of days", "PARTITION (hh = 1)", HOURLY),
        drop("an unknown column", "PARTITION (day = 'd1')"),
        drop("all hours of a day by a pattern", "PARTITION (dt = 'd1', hh = '*')", HOURLY),
        drop("a partition with purge", "PARTITION (dt = 'd1') PURGE"),
        Script("drop a partition by a procedure", (DAYS, FILLED, "CALL drop_partition(table => '{t}', partition => 'dt=d1')", DATED)),
        Script("drop partitions by a procedure", (DAYS, FILLED, "CALL drop_partition(table => '{t}', partition => 'dt=d1,dt=d2')", DATED)),
        Script("drop partitions of a pattern by a procedure", (DAYS, FILLED, "CALL drop_partition(table => '{t}', partition => 'dt=d*')", DATED)),
        Script("truncate a partition", (DAYS, FILLED, "TRUNCATE TABLE {t} PARTITION (dt = 'd1')", DATED)),
        Script("truncate a part of the partition columns", (HOURS, HOURLY, "TRUNCATE TABLE {t} PARTITION (dt = 'd1')", TIMED)),
        Script("truncate a table", (DAYS, FILLED, "TRUNCATE TABLE {t}", DATED, "INSERT INTO {t} VALUES (9, 'i', 1.0, 1, 'd1')", DATED)),
        Script("show partitions of a part", (HOURS, HOURLY, PARTS, "SHOW PARTITIONS {t} PARTITION (dt = 'd1')", "SHOW PARTITIONS {t} PARTITION (hh = 1)", "SHOW PARTITIONS {t} PARTITION (dt = 'd1', hh = 2)", "SHOW PARTITIONS {t} PARTITION (hh = '2', dt = 'd1')", "SHOW PARTITIONS {t} PARTITION (dt = 'd1', hh)", "SHOW PARTITIONS {t} PARTITION (dt = 'd9')", "SHOW PARTITIONS {t} PARTITION (dt = 'd1', day = 'x')", "SHOW PARTITIONS {t} PARTITION (day = 'x')")),
        Script("add a partition", (FOLDERS, DAYS, FILLED, "ALTER TABLE {t} ADD PARTITION (dt = 'd9')", "ALTER TABLE {t} ADD IF NOT EXISTS PARTITION (dt = 'd9')", DATED, PARTS, "INSERT INTO {t} VALUES (9, 'i', 1.0, 1, 'd9')", DATED, PARTS)),
        Script("add partitions", (FOLDERS, DAYS, FILLED, "ALTER TABLE {t} ADD PARTITION (dt = 'd8') PARTITION (dt = 'd9')", PARTS, "ALTER TABLE {t} ADD PARTITION (dt = 'd7') PARTITION (dt = 'd9')", PARTS)),
        Script("add a partition and drop it", (FOLDERS, DAYS, FILLED, "ALTER TABLE {t} ADD PARTITION (dt = 'd9')", "ALTER TABLE {t} DROP PARTITION (dt = 'd9')", PARTS, "INSERT INTO {t} VALUES (9, 'i', 1.0, 1, 'd9')", PARTS, DATED)),
        Script("add a partition to an empty table", (DAYS, "ALTER TABLE {t} ADD PARTITION (dt = 'd9')", PARTS, "ALTER TABLE {t} ADD PARTITION (dt = 'd9')")),
        Script("add a partition to listed ones", ("SET hoodie.metadata.enable = true", DAYS, FILLED, "ALTER TABLE {t} ADD PARTITION (dt = 'd9')", PARTS, "INSERT INTO {t} VALUES (9, 'i', 1.0, 1, 'd9')", PARTS, DATED)),
        Script("add a partition before listed ones", ("SET hoodie.metadata.enable = true", DAYS, "ALTER TABLE {t} ADD PARTITION (dt = 'd9')", "ALTER TABLE {t} ADD PARTITION (dt = 'd8')", PARTS, FILLED, PARTS, "INSERT INTO {t} VALUES (9, 'i', 1.0, 1, 'd9')", PARTS, "ALTER TABLE {t} ADD PARTITION (dt = 'd7')", PARTS, "ALTER TABLE {t} DROP PARTITION (dt = 'd8')", PARTS, DATED)),
        Script("add a partition with a place", (DAYS, FILLED, "ALTER TABLE {t} ADD PARTITION (dt = 'd9') LOCATION '{path}/other'", PARTS)),
        Script("add a partition of two columns", (FOLDERS, HOURS, HOURLY, "ALTER TABLE {t} ADD PARTITION (dt = 'd9')", "ALTER TABLE {t} ADD PARTITION (hh = 5, dt = 'd9')", "ALTER TABLE {t} ADD PARTITION (dt = 'd9', hh = '6')", PARTS)),
        Script("add a partition of an unknown column", (DAYS, "ALTER TABLE {t} ADD PARTITION (day = 'd9')", "ALTER TABLE {t} ADD PARTITION (dt = 'd9', dt = 'd8')", "ALTER TABLE {t} ADD PARTITION (dt = 'd8'), PARTITION (dt = 'd9')", PARTS)),
        Script("add a partition without names in folders", (FOLDERS, DAYS.replace("primaryKey", "hoodie.datasource.write.hive_style_partitioning = 'false', primaryKey"), "ALTER TABLE {t} ADD PARTITION (dt = 'd9')", PARTS)),
        Script("add a partition of odd letters", (FOLDERS, DAYS.replace("primaryKey", "hoodie.datasource.write.partitionpath.urlencode = 'true', primaryKey"), "ALTER TABLE {t} ADD PARTITION (dt = 'url%a')", PARTS)),
        Script("show partitions after overwrites", (DAYS, FILLED, "INSERT OVERWRITE {t} VALUES (9, 'i', 1.0, 1, 'd9')", PARTS, "DELETE FROM {t}", PARTS)),
        Script("show partitions of odd values", (FOLDERS, DAYS, "INSERT INTO {t} VALUES (1, 'a', 10.0, 100, NULL), (2, 'b', 1.0, 1, '')", PARTS, "SHOW PARTITIONS {t} PARTITION (dt = '')", "SHOW PARTITIONS {t} PARTITION (dt = NULL)")),
        Script("show partitions of a table without", (PLAIN, TWO, PARTS, "SHOW PARTITIONS {t} PARTITION (dt = 'd1')")),
        Script("add a partition that is there", (DAYS, FILLED, "ALTER TABLE {t} ADD PARTITION (dt = 'd1')", DATED, PARTS)),
        Script("add a partition to a table without", (PLAIN, TWO, "ALTER TABLE {t} ADD PARTITION (dt = 'd1')", ALL)),
        Script("repair a table", (DAYS, FILLED, "MSCK REPAIR TABLE {t}", DATED, "MSCK REPAIR TABLE {t} SYNC PARTITIONS", "ALTER TABLE {t} RECOVER PARTITIONS", PARTS)),
    ]  # fmt: skip


def _kinds_of_partitions() -> list[Script]:
    def typed(name: str, kind: str, values: str, query: str) -> Script:
        table = f"CREATE TABLE {{t}} (id INT, p {kind}) USING hudi TBLPROPERTIES (type = '{{kind}}', primaryKey = 'id') PARTITIONED BY (p) LOCATION '{{path}}'"
        return Script(f"partition column of {name}", (table, f"INSERT INTO {{t}} VALUES {values}", query, PARTS))

    floats = "(1, 1.0), (2, 0.5), (3, 1e10), (4, 1.5e-5), (5, 123456789.0), (6, 0.001), (7, 100.0), (8, -2.25), (9, 9999999.0)"
    plain = "SELECT id, p FROM {t} ORDER BY id"
    return [
        typed("double", "DOUBLE", floats, plain),
        typed("float", "FLOAT", floats, plain),
        typed("timestamp", "TIMESTAMP", "(1, TIMESTAMP'2026-01-02 03:04:05'), (2, TIMESTAMP'1969-12-31 23:59:59'), (3, NULL), (4, TIMESTAMP'0999-05-06')", "SELECT id, date_format(p, 'yyyy-MM-dd HH:mm:ss') FROM {t} ORDER BY id"),
        typed("timestamp with fractions", "TIMESTAMP", "(1, TIMESTAMP'2026-01-02 03:04:05.12'), (2, TIMESTAMP'1969-12-31 23:59:59.999999')", "SELECT id, date_format(p, 'yyyy-MM-dd HH:mm:ss') FROM {t} ORDER BY id"),
        Script("conditions on partitions of doubles", (
            f"CREATE TABLE {{t}} (id INT, name STRING, p DOUBLE) USING hudi TBLPROPERTIES ({_KEYED}) PARTITIONED BY (p) {_AT}",
            f"INSERT INTO {{t}} SELECT id, 'a' AS name, p FROM VALUES {floats} AS v(id, p)",
            *(f"SELECT id FROM {{t}} WHERE {each} ORDER BY id" for each in ("p = 1e10", "p < 0.5", "p = 0.001", "p IN (0.5, 100)", "p BETWEEN 0 AND 1")),
            "UPDATE {t} SET name = 'b' WHERE p = 1.5e-5", "DELETE FROM {t} WHERE p > 1000", "SELECT id, name, p FROM {t} ORDER BY id", PARTS,
            "ALTER TABLE {t} DROP PARTITION (p = 0.5)", "INSERT OVERWRITE {t} PARTITION (p = 100) SELECT 17, 'c'", "INSERT INTO {t} PARTITION (p = 1e20) SELECT 18, 'd'", "SELECT id, name, p FROM {t} ORDER BY id", PARTS)),
        Script("conditions on partitions of timestamps", (
            f"CREATE TABLE {{t}} (id INT, name STRING, p TIMESTAMP) USING hudi TBLPROPERTIES ({_KEYED}) PARTITIONED BY (p) {_AT}",
            "INSERT INTO {t} VALUES (1, 'a', TIMESTAMP'2026-01-02 03:04:05'), (2, 'a', TIMESTAMP'2026-01-03 00:00:00'), (3, 'a', TIMESTAMP'2025-12-31 23:59:59')",
            *(f"SELECT id FROM {{t}} WHERE {each} ORDER BY id" for each in ("p = TIMESTAMP'2026-01-03'", "p < TIMESTAMP'2026-01-01'", "p >= '2026-01-02 03:04:05'", "year(p) = 2026", "CAST(p AS DATE) = DATE'2026-01-02'")),
            "UPDATE {t} SET name = 'b' WHERE p = TIMESTAMP'2026-01-03 00:00:00'", "DELETE FROM {t} WHERE p < TIMESTAMP'2026-01-01 00:00:00'", "SELECT id, name, date_format(p, 'yyyy-MM-dd HH:mm:ss') FROM {t} ORDER BY id", PARTS,
            "INSERT INTO {t} PARTITION (p = '2026-02-01 10:00:00') SELECT 4, 'c'", "INSERT OVERWRITE {t} PARTITION (p = '2026-01-03 00:00:00') SELECT 5, 'd'", "SELECT id, name, date_format(p, 'yyyy-MM-dd HH:mm:ss') FROM {t} ORDER BY id", PARTS)),
        typed("date", "DATE", "(1, DATE'2026-01-02'), (2, DATE'1969-12-31')", "SELECT id, date_format(p, 'yyyy-MM-dd HH:mm:ss') FROM {t} ORDER BY id"),
        typed("boolean", "BOOLEAN", "(1, true), (2, false)", plain),
        typed("bigint", "BIGINT", "(1, 7), (2, -7)", plain),
        typed("decimal", "DECIMAL(10, 2)", "(1, 7.5), (2, -7)", "SELECT id, CAST(p AS STRING) FROM {t} ORDER BY id"),
        typed("text with odd letters", "STRING", "(1, 'a b'), (2, 'a/b'), (3, 'ä=1'), (4, NULL), (5, '')", plain),
    ]  # fmt: skip


def _properties_of_tables() -> list[Script]:
    def made(name: str, properties: str, *statements: str, kinds: tuple[str, ...] = ("cow",)) -> Script:
        table = f"CREATE TABLE {{t}} ({_COLUMNS}, dt STRING) USING hudi TBLPROPERTIES ({properties}) PARTITIONED BY (dt) {_AT}"
        return Script(f"table property {name}", (table, *statements), kinds)

    ro = "CREATE TABLE {t}_ro USING hudi TBLPROPERTIES (hoodie.query.as.ro.table = '{}') LOCATION '{path}'"
    updated = (FILLED, "UPDATE {t} SET price = 99.0, ts = 200 WHERE id = 1")
    optimized = "SELECT id, price FROM hudi_query('{t}', 'read_optimized') ORDER BY id"
    return [
        made("table.type", "hoodie.table.type = 'MERGE_ON_READ', primaryKey = 'id', orderingFields = 'ts'", *updated, DATED, optimized),
        made("write.table.type", "hoodie.datasource.write.table.type = 'MERGE_ON_READ', primaryKey = 'id', orderingFields = 'ts'", *updated, DATED, optimized),
        made("table.name and database.name", "hoodie.table.name = 'other', hoodie.database.name = 'another', primaryKey = 'id'", FILLED, DATED),
        made("partition column with its kind", "hoodie.datasource.write.partitionpath.field = 'dt:simple', primaryKey = 'id', type = '{kind}', orderingFields = 'ts'", *updated, "DELETE FROM {t} WHERE dt = 'd2'", DATED, PARTS, kinds=("cow", "mor")),
        made("partition column with its kind and generator", "hoodie.datasource.write.partitionpath.field = 'dt:SIMPLE', hoodie.table.keygenerator.class = 'org.apache.hudi.keygen.CustomKeyGenerator', primaryKey = 'id'", FILLED, "ALTER TABLE {t} DROP PARTITION (dt = 'd1')", DATED, PARTS),
        made("recordkey.field", "hoodie.datasource.write.recordkey.field = 'id', hoodie.datasource.write.precombine.field = 'ts'", FILLED, "SET hoodie.spark.sql.insert.into.operation = upsert", "INSERT INTO {t} VALUES (1, 'late', 0.0, 1, 'd1'), (2, 'new', 0.0, 500, 'd2')", DATED),
        made("partial.update.unavailable.value", "hoodie.write.partial.update.unavailable.value = 'none', primaryKey = 'id'", FILLED, DATED),
        made("as.ro.table without a table", "hoodie.query.as.ro.table = 'true', primaryKey = 'id'"),
        made("as.ro.table", "type = '{kind}', primaryKey = 'id', orderingFields = 'ts'", *updated, ro.replace("{}", "true"), "SELECT id, price FROM {t}_ro ORDER BY id", "SELECT id, price FROM {t}_ro WHERE price = 99.0", "SELECT id, price FROM {t} ORDER BY id", "INSERT INTO {t}_ro VALUES (7, 'i', 7.0, 7, 'd7')", "DROP TABLE {t}_ro", ro.replace("{}", "false"), "SELECT id, price FROM {t}_ro ORDER BY id", "DROP TABLE {t}_ro", kinds=("cow", "mor")),
    ]  # fmt: skip


def _changes() -> list[Script]:
    steps = (DAYS, FILLED, "UPDATE {t} SET price = 11.0, ts = 101 WHERE id = 1", "DELETE FROM {t} WHERE id = 2")
    cdc = DAYS.replace("primaryKey", "hoodie.table.cdc.enabled = 'true', primaryKey")
    image = "SELECT op, regexp_extract(before, '\"id\": ?([0-9]+)', 1), regexp_extract(after, '\"id\": ?([0-9]+)', 1) FROM hudi_table_changes('{t}', 'cdc', {}) ORDER BY 1, 2, 3"
    listed = "SET hoodie.metadata.enable = true"
    files = "SELECT Partition_Path, Log_File_Count, Base_File_Size > 0, Base_File_Path LIKE '%.parquet' FROM"
    timeline = "SELECT Action, State, Total_Files_Updated, Total_Partitions_Written, Total_Records_Written, Total_Updated_Records_Written, Total_Write_Errors FROM"
    latest = "SELECT id, price FROM hudi_table_changes('{t}', 'latest_state', {}) ORDER BY id"
    return [
        Script("changes since", (*steps, *(latest.replace("{}", since) for since in (
            "'earliest'", "'{i0}'", "'{c0}'", "'{i1}'", "'{c1}'", "'{i2}'", "'earliest', '{i1}'", "'{i0}', '{i1}'", "'{i0}', '{c1}'", "'{c0}', '{c1}'"
        )))),
        Script("change data since", (cdc, *steps[1:], *(image.replace("{}", since) for since in (
            "'earliest'", "'{i0}'", "'{c0}'", "'{i1}'", "'{c1}'", "'{i2}'", "'earliest', '{i1}'", "'{i0}', '{i1}'", "'{i0}', '{c1}'", "'{c0}', '{c1}'"
        )))),
        Script("changes in other spellings", (*steps, "SELECT count(*) FROM hudi_table_changes('{path}', 'latest_state', 'earliest')", "SELECT count(*) FROM hudi_table_changes(table => '{t}', queryMode => 'latest_state', startInstantTime => 'earliest')", "SELECT count(*) FROM hudi_table_changes('{t}', 'LATEST_STATE', 'earliest')", "SELECT count(*) FROM hudi_table_changes('{t}', 'incremental', 'earliest')", "SELECT count(*) FROM hudi_table_changes('default.{t}', 'latest_state', '000')")),
        Script("functions of tables", (*steps, "SELECT count(*) FROM hudi_query('{t}', 'SELECT 1')", "SELECT id FROM hudi_query('{t}', 'snapshot') ORDER BY id", "SELECT id FROM hudi_query('{t}', 'read_optimized') ORDER BY id", "SELECT id FROM hudi_query('{t}', 'incremental', 'earliest', 'latest')")),
        Script("functions of the metadata table", (
            listed, DAYS, FILLED, "SELECT type, count(*) FROM hudi_metadata('{t}') GROUP BY type ORDER BY type",
            "SELECT key, filesystemMetadata['dt=d2'].size, filesystemMetadata['dt=d2'].isDeleted, filesystemMetadata['dt=d4'].size FROM hudi_metadata('{t}') WHERE type = 1 ORDER BY key",
            "SELECT key FROM hudi_metadata('{path}') WHERE type = 2 ORDER BY key",
            "SELECT ColumnStatsMetadata.columnName, ColumnStatsMetadata.minValue.member1.value AS a, ColumnStatsMetadata.maxValue.member4.value AS b, ColumnStatsMetadata.minValue.member6.value AS c, ColumnStatsMetadata.valueCount, ColumnStatsMetadata.nullCount FROM hudi_metadata('{t}') WHERE type = 3 AND ColumnStatsMetadata.columnName IN ('id', 'price', 'name') ORDER BY 1, 2, 3, 4",
            "SELECT ColumnStatsMetadata.fileName, ColumnStatsMetadata.minValue.member2.value AS a, ColumnStatsMetadata.maxValue.member2.value AS b FROM hudi_metadata('{t}') WHERE type = 6 AND ColumnStatsMetadata.columnName = 'ts' ORDER BY 1",
            "SELECT count(*) FROM hudi_metadata()", "SELECT count(*) FROM hudi_metadata('{t}', 'x')", "SELECT count(*) FROM hudi_metadata('no_table')")),
        Script("records in the metadata table", (
            listed, DAYS.replace("primaryKey", "hoodie.metadata.record.index.enable = 'true', primaryKey"), FILLED,
            "SELECT type, count(*) FROM hudi_metadata('{t}') WHERE type IN (1, 2, 5) GROUP BY type ORDER BY type",
            "SELECT key, recordIndexMetadata.partitionName, recordIndexMetadata.fileIndex FROM hudi_metadata('{t}') WHERE type = 5 ORDER BY key -> 0,1")),
        Script("a table without a metadata table", (FOLDERS, DAYS, FILLED, "SELECT count(*) FROM hudi_metadata('{t}')")),
        Script("files of a table", (*steps, f"{files} hudi_filesystem_view('{{t}}', 'dt=*') ORDER BY 1, 2", f"{files} hudi_filesystem_view('{{path}}', 'dt=d1')", f"{files} hudi_filesystem_view('{{t}}', 'd1')", f"{files} hudi_filesystem_view('{{t}}', 'a', 'b')"), ("cow",)),
        Script("files with logs", (FOLDERS, "SET hoodie.compact.inline = false", *steps[:3], f"{files} hudi_filesystem_view('{{t}}', 'dt=*') ORDER BY 1, 2", "SELECT Log_File_Size > 0, Log_File_Size = Log_File_Unscheduled, Log_File_Scheduled FROM hudi_filesystem_view('{t}', '*') ORDER BY 1"), ("mor",)),
        Script("files of hours", (HOURS, HOURLY, f"{files} hudi_filesystem_view('{{t}}', 'dt=d1/*') ORDER BY 1", f"{files} hudi_filesystem_view('{{t}}', '*')", f"{files} hudi_filesystem_view('{{t}}', '*/hh=1') ORDER BY 1")),
        Script("files of a table without partitions", (PLAIN, TWO, f"{files} hudi_filesystem_view('{{t}}')")),
        Script("the timeline of a table", (*steps, f"{timeline} hudi_query_timeline('{{t}}')", f"{timeline} hudi_query_timeline('{{t}}', 'true')", f"{timeline} hudi_query_timeline('{{path}}', 'false')", "SELECT * FROM hudi_query_timeline()"), ("cow",)),
        Script("changes that are asked for wrongly", (*steps, *(latest.replace("'{t}', 'latest_state', {}", text) for text in (
            "'{t}', 'LATEST_STATE', 'earliest'", "'{t}', 'Cdc', 'earliest'", "'{t}', 'snapshot', 'earliest'", "'{t}', 'latest_state'", "'{t}'", "'{t}', 'latest_state', 'earliest', '{i0}', 'x'", "'{t}', 'latest_state', 'latest'", "'{t}', 'latest_state', 'xx'", "'no_table', 'latest_state', 'earliest'", "'{t}', 'latest_state', '{i1}', '{i0}'", "'{t}', 'latest_state', '2020-01-01'", "'{t}', 'latest_state', 0",
        )))),
        Script("late update and delete", (DAYS, FILLED, "UPDATE {t} SET price = 0.5, ts = 50 WHERE id = 1", DATED, "DELETE FROM {t} WHERE id = 3", DATED, "INSERT INTO {t} VALUES (3, 'again', 1.0, 10, 'd3')", DATED)),
        Script("upsert of a lower value", (DAYS, FILLED, "SET hoodie.spark.sql.insert.into.operation = upsert", "INSERT INTO {t} VALUES (1, 'late', 0.5, 50, 'd1'), (2, 'same', 0.5, 100, 'd2')", DATED)),
        Script("a delete marker in upserts", (DAYS, FILLED, "ALTER TABLE {t} ADD COLUMNS (_hoodie_is_deleted BOOLEAN)", "SET hoodie.spark.sql.insert.into.operation = upsert", "INSERT INTO {t} SELECT 1, 'a', 1.0D, 200L, true, 'd1'", "SELECT id FROM {t} ORDER BY id")),
    ]  # fmt: skip


def _tables() -> list[Script]:
    commented = DAYS.replace("id INT", "id INT COMMENT 'the key'").replace("dt STRING", "dt STRING COMMENT 'day'")
    commented = commented.replace("USING hudi", "USING hudi COMMENT 'all of it'")
    like = "CREATE TABLE {t}_b LIKE {t} USING hudi LOCATION '{path}_b'"
    there, described = DATED.replace("{t}", "{t}_b"), "DESC {t}_b -> 0,1,2"
    filled = FILLED.replace("{t}", "{t}_b")
    late = "INSERT INTO {t}_b VALUES (1, 'late', 0.5, 50, 'd1'), (2, 'new', 0.5, 500, 'd2')"
    upsert, over = "SET hoodie.spark.sql.insert.into.operation = upsert", "USING hudi {} LOCATION '{path}'"
    all_columns = f"({_COLUMNS}, dt STRING)"
    inline = DAYS.replace("primaryKey", "hoodie.compact.inline = 'true', primaryKey")
    query = "AS SELECT 1 AS id, 'a' AS name"
    made = f"CREATE TABLE {{t}} USING hudi TBLPROPERTIES ({_KEYED}{{}}) {_AT} {query}"

    def over_it(name: str, text: str) -> tuple[str, str]:
        return f"CREATE TABLE {{t}}_{name} {text}", f"SELECT count(*) FROM {{t}}_{name}"

    return [
        Script("comments of columns", (commented, "DESC {t} -> 0,1,2", "DESC {t} id", "DESC {t} name", "ALTER TABLE {t} ADD COLUMNS (more INT COMMENT 'more')", "ALTER TABLE {t} ALTER COLUMN name COMMENT 'other'", "DESC {t} -> 0,1,2", "ALTER TABLE {t} ALTER COLUMN nope COMMENT 'other'")),
        Script("a table like another", (commented, FILLED, like, described, "SELECT count(*) FROM {t}_b", filled, upsert, late, there, PARTS.replace("{t}", "{t}_b"), like, like.replace("TABLE", "TABLE IF NOT EXISTS"))),
        Script("a table like another, by keys of its own", (commented, like + " TBLPROPERTIES (primaryKey = 'id,name', orderingFields = 'price', type = 'mor')", filled, upsert, late, "INSERT INTO {t}_b VALUES (1, 'a', 5.0, 500, 'd1'), (2, 'b', 50.0, 1, 'd2')", there)),
        Script("a table like another, with what isn't taken", (commented, like + " PARTITIONED BY (name)", like + " COMMENT 'x'", like.replace("LIKE {t}", "(LIKE {t})"), like.replace("LIKE {t}", "LIKE no_table"), f"{like} {query}")),
        Script("a table like another, over it", (commented, FILLED, "CREATE TABLE {t}_b LIKE {t} USING hudi LOCATION '{path}'", there)),
        Script("a second name by columns and partitions", (DAYS, FILLED, *over_it("a", f"{all_columns} {over.replace('{}', 'PARTITIONED BY (dt)')}"), *over_it("b", over.replace("{}", "PARTITIONED BY (dt)")), *over_it("c", over.replace("{}", "PARTITIONED BY (name)")), *over_it("d", over.replace("{}", "")), *over_it("e", f"{all_columns} {over.replace('{}', '')}"), *over_it("f", over.replace("{}", "TBLPROPERTIES (primaryKey = 'name')")), *over_it("g", over.replace("{}", "TBLPROPERTIES (primaryKey = 'id', orderingFields = 'price')")), *over_it("h", over.replace("{}", "TBLPROPERTIES (primaryKey = 'id', orderingFields = 'ts')")))),
        Script("buckets without their number", (DAYS.replace("primaryKey", "hoodie.index.type = 'BUCKET', primaryKey"), FILLED, "UPDATE {t} SET price = 11.0, ts = 101 WHERE id = 1", upsert, late.replace("_b", ""), DATED)),
        Script("index in memory", (DAYS.replace("primaryKey", "hoodie.index.type = 'INMEMORY', primaryKey"), FILLED, "UPDATE {t} SET price = 11.0, ts = 101 WHERE id = 1", "DELETE FROM {t} WHERE id = 3", upsert, late.replace("_b", ""), DATED)),
        Script("index of the record key by another name", (DAYS, FILLED, "CREATE INDEX idx ON {t} (id)", "CREATE INDEX idx ON {t} (nope)", "CREATE INDEX idx ON {t} (price, name)")),
        Script("compactions after writes, as a property", (inline, FILLED, DATED, f"INSERT OVERWRITE {filled[12:]}".replace("_b", ""), DATED)),
        Script("compactions after writes, by SET", (DAYS, "SET hoodie.compact.inline = true", FILLED, DATED)),
        Script("compactions after a table is made by a query", (made.replace("{}", ", hoodie.compact.inline = 'true'"), "SELECT id FROM {t}")),
        Script("compactions after a table is made by a query, by SET", ("SET hoodie.compact.inline = true", made.replace("{}", ""), "SELECT id FROM {t}")),
    ]  # fmt: skip


def _coerced() -> list[Script]:
    table = f"CREATE TABLE {{t}} (id INT, m STRING, name STRING, price DOUBLE, b BOOLEAN, yr STRING, n INT, d DATE, ts BIGINT) USING hudi TBLPROPERTIES ({_PROPERTIES}) {_AT}"
    rows = "INSERT INTO {t} VALUES (1, '', 'a', 1.0, true, '2021', 5, DATE'2021-01-01', 1), (2, '', 'b', 2.0, false, '2022', 6, DATE'2022-01-01', 1), (3, '', 'c', 3.0, NULL, 'x', 7, NULL, 1), (4, '', 'd', 10.0, true, '02021', 8, DATE'2023-05-05', 1)"
    conditions = (
        "yr = 2021", "price = '1.0'", "price = '1'", "b = 1", "b = 0", "n = '5'", "n > '5.5'", "yr > 2020", "yr IN (2021, 2022)",
        "yr IN (2021, 'x')", "n IN ('5', '6')", "d = '2021-01-01'", "d > '2021-06-01'", "b = 'true'", "yr BETWEEN 2021 AND 2022",
        "price IN ('1.0', 2)", "id = '1'", "n = 5.5", "name = 1", "yr <=> 2021", "NOT yr = 2021", "yr = 2021.0", "d = 2021",
        "n = 'x'", "n = 99999999999", "b AND yr = 2021", "name", "b > 0", "n = true", "id + yr > 2022", "price = 1",
    )  # fmt: skip
    updates = (f"UPDATE {{t}} SET m = concat(m, '{chr(65 + n)}') WHERE {each}" for n, each in enumerate(conditions))
    some = ("yr = 2022", "price = '3.0'", "b = 1")
    return [
        Script("conditions of other types", (table, rows, *(f"SELECT id FROM {{t}} WHERE {each} ORDER BY id" for each in conditions)), ("cow",)),
        Script("updates by conditions of other types", (table, rows, *updates, "SELECT id, m FROM {t} ORDER BY id"), ("cow",)),
        Script("deletes by conditions of other types", (table, rows, *(text for each in some for text in (f"DELETE FROM {{t}} WHERE {each}", "SELECT id FROM {t} ORDER BY id")))),
    ]  # fmt: skip


def _services() -> list[Script]:
    off = "SET hoodie.compact.inline = false"
    at_once = "SET hoodie.compact.inline.max.delta.commits = 1"
    update = "UPDATE {t} SET price = price + 1, ts = ts + 1 WHERE id = 1"
    kept = " -> 1,2"
    schedule, run, show = (f"{verb} COMPACTION ON {{t}}{kept}" for verb in ("SCHEDULE", "RUN", "SHOW"))
    places = [each.replace("{t}", "'{path}'") for each in (schedule, run, show)]
    cluster = "CALL run_clustering(table => '{t}'{}) -> 1,2,3"
    clusterings = "CALL show_clustering(table => '{t}') -> 1,2,3"
    savepoints = "CALL show_savepoints(table => '{t}') -> "

    def clustering(name: str, *calls: str, table: tuple[str, ...] = (DAYS, FILLED)) -> Script:
        query = DATED if table[0] is DAYS else ALL
        return Script(name, (*table, *(cluster.replace("{}", each) for each in calls), clusterings, query))

    return [
        Script("compact by the number of commits", (off, PLAIN, TWO, update, update, update, schedule, show, update, schedule, show, update, run, show, ALL, run), ("mor",)),
        Script("compact a table by its path", (off, PLAIN, TWO, update, at_once, *places, places[2], ALL), ("mor",)),
        Script("schedule a compaction twice", (off, at_once, PLAIN, TWO, update, schedule, schedule, show, update, schedule, show, run, ALL), ("mor",)),
        Script("compact at an instant", (off, at_once, PLAIN, TWO, update, schedule, "RUN COMPACTION ON {t} AT 20200101000000000", "SCHEDULE COMPACTION ON {t} AT 20200101000000000", "RUN COMPACTION ON {t} AT '20200101000000000'", show), ("mor",)),
        Script("show some compactions", (off, at_once, PLAIN, TWO, update, schedule, run, update, schedule, "SHOW COMPACTION ON {t} LIMIT 1 -> 1,2", "SHOW COMPACTION ON {t} LIMIT 0 -> 1,2", "SHOW COMPACTION ON default.{t} -> 1,2", "SHOW COMPACTION ON '{path}' LIMIT 1 -> 1,2"), ("mor",)),
        Script("compact without log files", (off, at_once, PLAIN, TWO, schedule, run, show)),
        Script("compact a table that isn't there", (PLAIN, "SCHEDULE COMPACTION ON no_table", "RUN COMPACTION ON no_table", "SHOW COMPACTION ON no_table", "SCHEDULE COMPACTION {t}", "SHOW COMPACTIONS ON {t}")),
        Script("compact by a procedure", (off, PLAIN, TWO, update, "CALL run_compaction(op => 'schedule', table => '{t}') -> 1,2", at_once, "CALL run_compaction(op => 'schedule', table => '{t}') -> 1,2", "CALL run_compaction(op => 'run', table => '{t}') -> 1,2", update, "CALL run_compaction(op => 'scheduleAndExecute', table => '{t}') -> 1,2", "CALL show_compaction(table => '{t}', limit => 1) -> 1,2", "CALL run_compaction(op => 'other', table => '{t}')", "CALL run_compaction(op => 'run', table => '{t}', instants => '20200101000000000')"), ("mor",)),
        clustering("cluster single files", "", "", ", op => 'execute'"),
        clustering("cluster a single file", "", ", op => 'schedule'", table=(PLAIN, TWO)),
        clustering("cluster in two steps", ", op => 'schedule'", ", op => 'execute'"),
        clustering("cluster with pending plans", ", op => 'schedule'", "", ", op => 'execute'"),
        clustering("cluster by a column", ", order => 'ts'"),
        clustering("cluster by an unknown column", ", order => 'nope'"),
        clustering("cluster partitions of a predicate", ", predicate => \"dt = 'd1'\"", ", predicate => \"dt >= 'd3'\"", ", predicate => \"dt = 'd9'\""),
        clustering("schedule a clustering of partitions", ", predicate => \"dt = 'd1'\", op => 'schedule'", ", op => 'execute'"),
        clustering("cluster named partitions", ", selected_partitions => 'dt=d1,dt=d3'"),
        clustering("cluster at an instant", ", op => 'schedule'", ", instants => '20200101000000000'", ", op => 'other'"),
        clustering("leave single files", ", options => 'hoodie.clustering.plan.strategy.single.group.clustering.enabled=false'"),
        Script("savepoints with comments", (DAYS, FILLED, FILLED, "CALL create_savepoint(table => '{t}', commit_time => '{i0}', comment => 'why')", "CALL create_savepoint(table => '{t}', commit_time => '{i0}', comments => 'why')", "CALL create_savepoint(table => '{t}', user => 'me', comments => 'why')", "CALL create_savepoint('{t}', '20200101000000000')", savepoints, "CALL delete_savepoint(table => '{t}', instant_time => '{i0},{i1}')", savepoints)),
        Script("savepoints that aren't there", (DAYS, FILLED, "CALL create_savepoint(table => '{t}')", "CALL delete_savepoint(table => '{t}', instant_time => '20200101000000000')", "CALL delete_savepoint(table => '{t}')", savepoints)),
        Script("calls without a table", (PLAIN, "CALL no_such_procedure", "CALL show_savepoints")),
    ]  # fmt: skip


OPEN = frozenset(
    {
        "partition column of timestamp with fractions",
    }
)
"""Scripts that pudi refuses, or answers in another way: `docs/limits.md`."""
SCRIPTS: tuple[Script, ...] = tuple(
    script
    for script in (
        *_by_names(),
        *_overwrites(),
        *_partitions(),
        *_kinds_of_partitions(),
        *_properties_of_tables(),
        *_changes(),
        *_tables(),
        *_coerced(),
        *_services(),
    )
    if script.name not in OPEN
)


def run_script(statements: tuple[str, ...], kind: str, name: str, path: Path, sql: Callable[[str], Any]) -> list[Any]:
    """Run a script: of each statement its rows, or `{"error": …}`."""
    found: list[Any] = []
    for text in statements:
        try:
            made = _filled(text, kind, name, path, sql)
            statement, arrow, kept = made.partition(" -> ")
            rows = [[_plain(value) for value in row] for row in sql(statement)]
            if re.match(r"\s*SHOW PARTITIONS", statement):
                rows.sort()  # they come in the order of a listing
            if not re.match(r"\s*(SELECT|SHOW|CALL|SCHEDULE|RUN|DESC|LS|CAT|WITH (?!.*INSERT))", statement):
                rows = []
            found.append([[row[int(n)] for n in kept.split(",") if n] for row in rows] if arrow else rows)
        except Exception as error:  # noqa: BLE001 - of Spark, Py4J or pudi
            found.append({"error": (str(error).splitlines() or [""])[0][:200].replace(str(path), "{path}")})
    return found


def _filled(text: str, kind: str, name: str, path: Path, sql: Callable[[str], Any]) -> str:
    if re.search(r"\{[ic]\d\}", text):
        commits = sorted([row[0], row[1]] for row in sql(f"CALL show_commits(table => '{name}', limit => 100)"))
        for number, (requested, completed) in enumerate(commits):
            text = text.replace(f"{{i{number}}}", requested).replace(f"{{c{number}}}", completed)
    return text.replace("{t}", name).replace("{path}", str(path)).replace("{kind}", kind)


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def read() -> dict[str, list[Any]]:
    """What Hudi gave, by name and type of table."""
    return dict(json.loads(line) for line in GOLDEN.read_text("utf-8").splitlines())


def keep(told: dict[str, list[Any]]) -> None:
    """Store what Hudi gave, a script in a line."""
    lines = (json.dumps([name, told[name]], ensure_ascii=False) + "\n" for name in sorted(told))
    GOLDEN.write_text("".join(lines), "utf-8")


def answers(found: list[Any]) -> list[Any]:
    """The results of a script without the words of errors, which are each engine's own."""
    return ["error" if isinstance(each, dict) else each for each in found]


if __name__ == "__main__":
    import sys
    import tempfile

    from support import hudi
    from support import spark as spark_support

    folder = Path(tempfile.mkdtemp())
    session = spark_support.start(folder, hudi.SESSION)
    for key, value in hudi.SMALL.items():
        session.conf.set(key, value)
    before = {row[0]: row[1] for row in session.sql("SET").collect()}
    known = read() if GOLDEN.exists() else {}
    pairs = [(each, kind) for each in SCRIPTS for kind in each.kinds]
    for number, (script, kind) in enumerate(pairs):
        title = f"{script.name}, {kind}"
        if (title in known and not sys.argv[1:]) or (sys.argv[1:] and script.name not in sys.argv[1:]):
            continue
        known[title] = run_script(
            script.statements, kind, f"t{number}", folder / f"t{number}",
            lambda text: [tuple(row) for row in session.sql(text).collect()],
        )  # fmt: skip
        for row in session.sql("SET").collect():
            if row[0] not in before:
                session.conf.unset(row[0])
            elif row[1] != before[row[0]]:
                session.conf.set(row[0], before[row[0]])
        keep(known)
        print(title, flush=True)
