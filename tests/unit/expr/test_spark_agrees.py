"""Spark and Arrow give the same answers, in and out of ANSI mode, whatever the session's time zone and quoting."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pudi.errors import InvalidArgumentError
from pudi.expr import ARITHMETIC_ERROR, bind, evaluate, parse, to_spark_sql
from pudi.expr.table import ARITHMETIC, COMPARISONS
from support.functions import every_call

pytestmark = pytest.mark.spark

UTC = dt.timezone.utc
SCHEMA = pa.schema(
    [
        ("y", pa.int8()),
        ("h", pa.int16()),
        ("i", pa.int32()),
        ("l", pa.int64()),
        ("f", pa.float32()),
        ("d", pa.float64()),
        ("m", pa.decimal128(10, 2)),
        ("q", pa.decimal128(20, 6)),
        ("s", pa.string()),
        ("x", pa.binary()),
        ("b", pa.bool_()),
        ("day", pa.date32()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("ms", pa.timestamp("ms", tz="UTC")),
        ("n", pa.timestamp("us")),
        ("st", pa.struct([("a", pa.int32()), ("t", pa.string())])),
        ("arr", pa.list_(pa.int32())),
        ("Mixed Case", pa.int32()),
    ]
)
NOON = dt.datetime(2020, 1, 1, 12, tzinfo=UTC)
ROWS: list[tuple[Any, ...]] = [
    (1, 1, 1, 1, 0.5, 0.5, "1.00", "1.000000", "a", b"a", True, "2020-01-01", 0, (1, "a"), [1], 1),
    (2, 2, 2, 2**53 + 1, 0.1, 0.1, "1.50", "1.500000", "ab", b"ab", False, "2020-01-02", 1, (None, "b"), [], 2),
    (-3, -3, -7, -7, -1.5, -1.5, "-2.25", "-2.250000", "a%b", b"\xff", True, "1969-12-31", -1, None, None, 3),
    (
        100,
        300,
        2**30,
        2**62,
        math.nan,
        math.nan,
        "99999999.99",
        "0.000001",
        "it's",
        b"",
        False,
        "0001-01-01",
        500,
        (3, None),
        [None],
        4,
    ),
    (5, 5, 5, 5, -0.0, -0.0, "0.00", "0.000000", "", b"\x00", None, "9999-12-31", 10**6, (4, "é"), [2], 5),
    (
        6,
        6,
        6,
        6,
        math.inf,
        math.inf,
        "0.30",
        "0.300000",
        "é\U0001f600",
        None,
        True,
        "2020-02-29",
        -(10**9),
        (5, ""),
        [3],
        6,
    ),
    (7, 7, 7, 7, -math.inf, -math.inf, "7.00", "7.000000", "a\nb", b"b", False, None, 999, (6, "x"), [4], 7),
    (
        8,
        8,
        8,
        8,
        16777216.0,
        16777217.0,
        "8.10",
        "8.100001",
        "back\\slash",
        b"c",
        True,
        "2019-03-10",
        7,
        (7, "y"),
        [5],
        8,
    ),
    (
        9,
        9,
        9,
        9,
        3.4e38,
        1e300,
        "9.99",
        "9.990000",
        "￿${HOME}",
        b"d",
        False,
        "2020-01-01",
        43_200_000_000,
        (8, "z"),
        [6],
        9,
    ),
    (None,) * 16,
]


def table() -> pa.Table:
    records = []
    for row in ROWS:
        *plain, shift, st, arr, mixed = row
        day = plain[11] and dt.date.fromisoformat(plain[11])
        at = None if shift is None else NOON + dt.timedelta(microseconds=shift)
        numbers = [*plain[:6], *(value and Decimal(value) for value in plain[6:8]), *plain[8:11], day]
        in_ms = at and at.replace(microsecond=at.microsecond // 1000 * 1000)
        inner = st and {"a": st[0], "t": st[1]}
        values = (*numbers, at, in_ms, at and at.replace(tzinfo=None), inner, arr, mixed)
        records.append(dict(zip(SCHEMA.names, values, strict=True)))
    return pa.Table.from_pylist(records, SCHEMA)


NUMBERS = ["y", "h", "i", "l", "f", "d", "m", "q"]
CONDITIONS = [
    *(f"{left} {op} {right}" for op in COMPARISONS for left, right in ("ih", "fd", "mq", "nn")),
    *(f"CAST(y AS INT) {op} 3 > 1" for op in ARITHMETIC),
    "length(s) + y > 3",
    "lower(s) = st.t",
    "year(day) = year(ts)",
    *(f"{name} {op} 5" for name in NUMBERS for op in ("=", "<", ">=", "<>")),
    *(f"{name} > 1.5" for name in NUMBERS),
    *(f"{name} <= 5e0" for name in NUMBERS),
    *(f"d {op} CAST('NaN' AS DOUBLE)" for op in ("=", "<", "<=", ">", ">=", "<>", "<=>")),
    *(f"f {op} 0.1" for op in ("=", "<", ">", "<=>")),
    *(f"{pair[0]} {op} {pair[1]}" for pair in ("il", "id", "fd", "mq", "md", "lf") for op in ("=", "<=", ">")),
    "f = 0.1F",
    "f = 0.5",
    "d = 0",
    "d = -0.0D",
    "d <=> 0.0D",
    "NOT d <=> 0.5",
    "NOT d <= 0.5",
    "d IN (0, 0.5, CAST('NaN' AS DOUBLE))",
    "d NOT IN (0, NULL)",
    "d NOT IN (0, 1)",
    "l = 9007199254740992",
    "l = 9007199254740992.0D",
    "l = 9007199254740993",
    "l = 4611686018427387904e0",
    "y < 1000",
    "y IN (1, 1000, NULL)",
    "y NOT IN (1, 2)",
    "i IN (1, 2.5, 5)",
    "l IN (1L, 5Y, 99999999999999999999)",
    "i <=> NULL",
    "i = NULL",
    "NULL",
    "m IN (1.5, 0.3)",
    "m = 1.500",
    "m > 1.499",
    "m = 0.3D",
    "q = 0.000001",
    "CAST(m AS DOUBLE) = 3e-1",
    "m = 123456789012345",
    "m + q > 2",
    "m - 1 > 0.5",
    "m * 1.1 > 1.65",
    "m * i > 10",
    "-m > 0",
    "i + 1 > 5",
    "i - l = 0",
    "h * y > 30",
    "h + y < 10",
    "i / 2 > 1",
    "i / 2 = 1.5",
    "i / l = 1",
    "i / 3.0D >= 2",
    "i % 3 = 1",
    "i % -1 = 0",
    "-9223372036854775808 % -h = 0",
    "l % i = 0",
    "-i > 0",
    "-d < 0",
    "d * 2 > 1",
    "d + f > 1",
    "f * f > 0.2",
    "f + f = 1",
    "d - d = 0",
    "d * 0e0 = 0",
    "d / 2 < 1",
    "60 * 60 * 24 < l",
    "CAST(i AS DOUBLE) = d",
    "CAST(d AS FLOAT) = f",
    "CAST(l AS FLOAT) > 9e15",
    "CAST(l AS DOUBLE) = 9007199254740992e0",
    "CAST(y AS INT) = i",
    "CAST(i AS DECIMAL(12, 2)) = m",
    "CAST(i AS DECIMAL(20, 0)) = l",
    "CAST(m AS DECIMAL(20, 1)) = 0.3",
    "CAST(m AS DECIMAL(20, 0)) > CAST(m AS BIGINT)",
    "CAST(m AS BIGINT) < 0",
    "CAST(CAST(i AS DOUBLE) / 2 AS BIGINT) = -1",
    "CAST(i AS STRING) LIKE '1%'",
    "CAST(l AS STRING) = '-7'",
    "CAST(h AS INT) = 300",
    "coalesce(i, h, 0) > 2",
    "coalesce(m, i) = 1",
    "coalesce(d, f, 0) >= 0.5",
    "nvl(s, 'none') = 'none'",
    "if(i > 1, s, 'x') LIKE 'a%'",
    "nullif(i, 1) IS NULL",
    "CASE WHEN i > 1 THEN l WHEN b THEN i END > 1",
    "CASE i WHEN 1 THEN 'one' WHEN 2 THEN 'two' ELSE s END <> 'two'",
    "CASE WHEN y <> 0 THEN l % y ELSE -1 END = 0",
    "y <> 0 AND CASE WHEN l % y = 0 THEN b ELSE TRUE END",
    "coalesce(i, 0) + coalesce(h, 0) > 1",
    "length(coalesce(s, '')) = 0",
    "abs(coalesce(i, -1)) = 1",
    "NOT CASE WHEN b THEN i > 1 ELSE NULL END",
    "CASE WHEN b THEN i END IS NULL",
    "CASE WHEN i = 1 THEN s END IN ('a', 'b')",
    "(i > 1) = b",
    "(i > 1) IS NULL",
    "(i > 1) <=> NULL",
    "b",
    "NOT b",
    "b = TRUE",
    "b > FALSE",
    "b <=> NULL",
    "b IN (TRUE, NULL)",
    "i IS NULL",
    "st IS NOT NULL",
    "arr IS NULL",
    "st.a IS NULL",
    "st.A > 2",
    "st.t = 'é'",
    "`mixed case` BETWEEN 2 AND 4",
    "i BETWEEN 2 AND 6",
    "i NOT BETWEEN 2 AND 6",
    "NOT (i > 2 AND (b OR s = 'a'))",
    "i > 2 AND b OR s IS NULL",
    "s = 'it''s'",
    r"s = 'it\'s'",
    's = "ab"',
    r"s = 'back\\slash'",
    r"s = 'a\nb'",
    "s = ''",
    "s > 'a'",
    "s >= 'é'",
    "s < '\U0001f600'",
    "s > '\uffff'",
    "s = '\uffff${HOME}'",
    "s LIKE '%${HOME}'",
    "s IN ('a', 'it''s', NULL)",
    "s NOT IN ('a', 'it''s')",
    "s LIKE 'a%'",
    "s LIKE 'a_b'",
    r"s LIKE 'a\\%b'",
    "s LIKE 'a!%b' ESCAPE '!'",
    "s NOT LIKE '%b'",
    "s LIKE '%b%'",
    "s LIKE '__'",
    r"s LIKE '%\\\\%'",
    "s LIKE ''",
    "s LIKE '%'",
    "s LIKE 'it''s'",
    "x = X'61'",
    "x > X''",
    "x < X'FF'",
    "x IN (X'00', X'6162')",
    "day = '2020-01-01'",
    "day < DATE '0001-01-02'",
    "day >= DATE '9999-12-31'",
    "day IN (DATE '2020-02-29', DATE '1969-12-31')",
    "day BETWEEN '2020-01-01' AND '2020-02-29'",
    "day = CAST('2020-1-2' AS DATE)",
    "ts = TIMESTAMP '2020-01-01 12:00:00'",
    "ts > '2020-01-01 12:00:00.0005'",
    "ts <= TIMESTAMP '2020-01-01 13:00:00+01:00'",
    "ts >= DATE '2020-01-01'",
    "ts < '2020-01-02'",
    "ts IN (TIMESTAMP '2020-01-01 12:00:01', TIMESTAMP '2020-01-01 12:00:00Z')",
    "ts > TIMESTAMP '0001-01-01 00:00:00'",
    "ms = TIMESTAMP '2020-01-01 12:00:00'",
    "ms > '2020-01-01 11:59:59.9995'",
    "ms = ts",
    "n = TIMESTAMP '2020-01-01 12:00:00'",
    "n > TIMESTAMP_NTZ '2020-01-01 12:00:00.000999'",
    "n < DATE '2020-01-02'",
    # Rows decided before the part that would fail, and NULL beside it.
    "i <> 5 AND 10 / (i - 5) > 0",
    "i = 5 OR 10 % (i - 5) = 0",
    "NOT (i = 5 OR 10 / (i - 5) <= 0)",
    "i <> 5 AND st.a + 1 / (i - 5) IS NULL OR i = 5",
    "l < 1000 AND CAST(l AS INT) = 5",
    "1 = 1",
    "'a' = 'b'",
    "FALSE OR b",
]  # fmt: skip
FAILING = [
    "10 / (i - 5) > 0",
    "10 % (i - 5) > 0",
    "d / d > 0",
    "y + y > 0",
    "h * h > 0",
    "i + i + i > 0",
    "l * 4 > 0",
    "l - -9223372036854775807 > 0",
    "-(i * 2) > 0",
    "CAST(l AS INT) > 0",
    "CAST(m AS DECIMAL(5, 2)) > 0",
    "CAST(d AS INT) > 0",
    "CAST(m AS TINYINT) > 0",
    "CAST(i AS DECIMAL(5, 2)) > 0",
    "10 / (i - 5) IS NULL",
    "st.a > 10 / (i - 5)",
]
# Files of Arrow leave NaN out of their statistics and keep -0.0 in their dictionaries.
PUSHED = [
    "d > 1e301",
    "d >= 1e301",
    "d <> 0.5",
    "NOT d <= 5",
    "d = 0",
    "d <=> 0",
    "NOT d <=> 0.5",
    "d IN (0, CAST('NaN' AS DOUBLE))",
    "f > 0.5",
    "d < 0.5 AND s LIKE 'a%' AND m > 1 AND ts > '2020-01-01' AND n < '2020-01-02' AND day > '2019-01-01'",
]
SETTINGS = [
    {"ansi.enabled": "true", "session.timeZone": "America/New_York", "parser.escapedStringLiterals": "true"},
    {"ansi.enabled": "false", "session.timeZone": "Asia/Kolkata", "parser.escapedStringLiterals": "false"},
]


@pytest.fixture(scope="module", params=SETTINGS, ids=["ansi", "not_ansi"])
def frame(request: pytest.FixtureRequest, spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    path = tmp_path_factory.mktemp("where") / "rows.parquet"
    pq.write_table(table(), path, row_group_size=1)  # so that push-down has something to skip
    before = {f"spark.sql.{key}": spark.conf.get(f"spark.sql.{key}") for key in request.param}
    for key, value in request.param.items():
        spark.conf.set(f"spark.sql.{key}", value)
    # The dates before 1582 are proleptic Gregorian, as Arrow and Hudi write them; Spark 3.5 wants to be told.
    yield spark.read.option("datetimeRebaseMode", "CORRECTED").parquet(str(path))
    for key, value in before.items():
        spark.conf.set(key, value)


def on_spark(sql: str) -> str:
    return to_spark_sql(bind(parse(sql), SCHEMA))


def on_arrow(sql: str) -> list[bool | None]:
    return evaluate(bind(parse(sql), SCHEMA), table()).to_pylist()


def test_every_condition_has_one_answer(frame: Any) -> None:
    from pyspark.sql import functions

    order = [functions.coalesce(functions.col("`Mixed Case`"), functions.lit(99))]
    for start in range(0, len(CONDITIONS), 40):
        part = CONDITIONS[start : start + 40]
        rows = (
            frame.orderBy(*order)
            .select(*(functions.expr(on_spark(sql)).alias(f"c{n}") for n, sql in enumerate(part)))
            .collect()
        )
        for position, sql in enumerate(part):
            assert [row[position] for row in rows] == on_arrow(sql), f"{sql}: {on_spark(sql)}"


def test_filters_pushed_down_to_parquet_lose_no_row(frame: Any) -> None:
    for sql in PUSHED:
        assert frame.filter(on_spark(sql)).count() == on_arrow(sql).count(True), f"{sql}: {on_spark(sql)}"


@pytest.mark.parametrize("sql", FAILING)
def test_what_fails_on_arrow_fails_on_spark(frame: Any, sql: str) -> None:
    with pytest.raises(InvalidArgumentError):
        on_arrow(sql)
    with pytest.raises(Exception, match=ARITHMETIC_ERROR.strip()):
        frame.filter(on_spark(sql)).collect()


def test_every_function_has_one_result(frame: Any) -> None:
    from pyspark.sql import functions

    rows, calls = table(), every_call(SCHEMA)
    failing = []
    results: dict[str, list[object]] = {}
    for sql, call in calls.items():
        try:
            results[sql] = evaluate(call, rows).to_pylist()
        except InvalidArgumentError:
            failing.append(sql)
    order = [functions.coalesce(functions.col("`Mixed Case`"), functions.lit(99))]
    columns = [functions.expr(to_spark_sql(calls[sql])).alias(f"c{n}") for n, sql in enumerate(results)]
    found = frame.orderBy(*order).select(*columns).collect()
    for position, (sql, expected) in enumerate(results.items()):
        # as text, since NaN is not equal to itself
        assert repr([row[position] for row in found]) == repr(expected), f"{sql}: {to_spark_sql(calls[sql])}"
    # Only integers are beyond the years that functions of points in time know.
    assert failing
    assert all(sql.startswith("from_unixtime(`l`") for sql in failing)
    for sql in failing[:2]:
        with pytest.raises(Exception, match=ARITHMETIC_ERROR.strip()):
            frame.select(functions.expr(to_spark_sql(calls[sql]))).collect()
    small = [row["l"] is None or abs(row["l"]) < 2**32 for row in rows.to_pylist()]
    near = frame.filter("l IS NULL OR abs(l) < 4294967296L").orderBy(*order)
    found = near.select(*(functions.expr(to_spark_sql(calls[sql])) for sql in failing)).collect()
    for position, sql in enumerate(failing):
        expected = evaluate(calls[sql], rows.filter(pa.array(small))).to_pylist()
        assert [row[position] for row in found] == expected, f"{sql}: {to_spark_sql(calls[sql])}"
