"""Keys made by Spark's SQL against keys made in Arrow, row by row."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pudi.errors import InvalidArgumentError, NotSupportedError, PudiError, SchemaError
from pudi.record import SPARK_ERROR_MARK, KeyGenerator, Moments, check_paths, spark_key_columns
from pudi.schema import arrow_to_spark_json

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("s", pa.string()),
        ("i", pa.int32()),
        ("l", pa.int64()),
        ("b", pa.bool_()),
        ("d", pa.date32()),
        ("żó_1", pa.string()),
        ("st", pa.struct([("x", pa.string()), ("n", pa.int32())])),
    ]
)
TEXTS = ["x", None, "", "zażółć ü 漢 😀", "a,b=c d/e", "__null__", " a ", "%41", 'q"\'`', "a/b", "..a", "x/a:b",
         "a\u2028"]  # fmt: skip
REFUSED = ["..", ".", "/a", "a/", "a//b", "a/../b", "a/..\u2028/..", ".Hoodie", "x/.hoodie", "a\\b", "a\tb", "a\0b",
           "a\n", "a/..\u2028", "\x7f", "a:b", "a:b/c", "a/.", "../a"]  # fmt: skip
DAYS = [dt.date(2026, 1, 2), None, dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1500, 3, 1)]
NUMBERS = [0, None, -1, 2**31 - 1, -(2**31)]


def rows() -> pa.Table:
    count = 65  # 13 texts, 5 numbers and days: each text meets each of them
    number = [NUMBERS[n % 5] for n in range(count)]
    columns = [
        [f"r{n}" for n in range(count)],
        [TEXTS[n % 13] for n in range(count)],
        number,
        [None if x is None else x * 2**32 for x in number],
        [(True, False, None)[n % 3] for n in range(count)],
        [DAYS[n // 13] for n in range(count)],
        [TEXTS[n // 5] for n in range(count)],
        [{"x": f"x{n}", "n": number[n]} for n in range(count)],
    ]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def frame(spark: Any, table: pa.Table) -> Any:
    types = pytest.importorskip("pyspark.sql.types")
    struct = types.StructType.fromJson(json.loads(arrow_to_spark_json(table.schema)))
    return spark.createDataFrame([tuple(row.values()) for row in table.to_pylist()], struct)


def by_spark(spark: Any, keys: KeyGenerator, table: pa.Table) -> list[tuple[str, str]]:
    expressions = spark_key_columns(keys, table.schema)
    assert expressions is not None
    return [tuple(row) for row in frame(spark, table).selectExpr(*expressions).collect()]


def in_arrow(keys: KeyGenerator, table: pa.Table) -> list[tuple[str, str]]:
    return list(zip(keys.record_keys(table).to_pylist(), keys.partition_paths(table).to_pylist(), strict=True))


@pytest.mark.spark
@pytest.mark.parametrize(
    "keys",
    [
        KeyGenerator("SIMPLE", ("id",), ("s",)),
        KeyGenerator("SIMPLE", ("id",), ("s",), hive_style=True),
        KeyGenerator("SIMPLE", ("id",), ("b",), hive_style=True),
        KeyGenerator("NON_PARTITION", ("id",)),
        KeyGenerator("NON_PARTITION", ("id", "s", "i", "l", "b", "d", "żó_1")),
        KeyGenerator("NON_PARTITION", ("id",), (), url_encode=True),
        KeyGenerator("COMPLEX", ("id",), ("i", "l", "b", "d")),
        KeyGenerator("COMPLEX", ("s", "id"), ("i", "żó_1", "d"), hive_style=True),
        KeyGenerator("COMPLEX", ("id",)),
        KeyGenerator("COMPLEX", ("id",), ("i",), names_single=False),
        KeyGenerator("COMPLEX", ("id", "st.x"), ("st.n", "s"), hive_style=True),
        KeyGenerator("SIMPLE", ("st.x",), ("st.n",)),
        KeyGenerator("SIMPLE", ("id",), ("s",), url_encode=True),
        KeyGenerator("COMPLEX", ("id",), ("s", "d", "żó_1"), hive_style=True, url_encode=True),
    ],
    ids=lambda keys: (
        f"{keys.kind}-{keys.record_key_fields}-{keys.partition_fields}-{keys.hive_style}-{keys.url_encode}"
    ),
)
def test_spark_answers_as_arrow(spark: Any, keys: KeyGenerator) -> None:
    answer = in_arrow(keys, rows())
    assert len(set(answer)) > 1
    assert by_spark(spark, keys, rows()) == answer


@pytest.mark.spark
@pytest.mark.parametrize("name", ["i", "l", "b", "d", "s"])
def test_each_type_alone_as_the_key(spark: Any, name: str) -> None:
    table = rows()
    table = table.filter(pc.and_(pc.is_valid(table[name]), pc.not_equal(pc.fill_null(table["s"], ""), "")))
    keys = KeyGenerator("NON_PARTITION", (name,))
    assert by_spark(spark, keys, table) == in_arrow(keys, table)


@pytest.mark.spark
@pytest.mark.parametrize("hive", [False, True])
def test_spark_refuses_what_arrow_refuses(spark: Any, hive: bool) -> None:
    keys = KeyGenerator("SIMPLE", ("id",), ("s",), hive_style=hive)
    table = pa.table({"id": ["k"] * len(REFUSED), "s": REFUSED})
    expected: list[str | None] = []
    for value in REFUSED:
        try:
            expected += keys.partition_paths(pa.table({"id": ["k"], "s": [value]})).to_pylist()
        except InvalidArgumentError:
            expected.append(None)
    assert None in expected
    expressions = spark_key_columns(keys, table.schema)
    assert expressions is not None
    if hive:
        with pytest.raises(Exception, match="not a folder of the table") as caught:
            by_spark(spark, keys, table)
        assert SPARK_ERROR_MARK in str(caught.value)
    # One query for all rows: the error's message instead of the error.
    harmless = expressions[1].replace("RAISE_ERROR(", "CONCAT('refused', ")
    answers = [row[0] for row in frame(spark, table).selectExpr(harmless).collect()]
    assert [None if answer.startswith("refused") or unsafe(answer) else answer for answer in answers] == expected


def unsafe(path: str) -> bool:
    """Whether `check_paths`, which follows on such an expression, refuses the path."""
    try:
        check_paths(pa.array([path]))
    except InvalidArgumentError:
        return True
    return False


@pytest.mark.spark
@pytest.mark.parametrize(
    ("keys", "row"),
    [
        (KeyGenerator("SIMPLE", ("s",), ("i",)), {"s": None}),
        (KeyGenerator("SIMPLE", ("s",), ("i",)), {"s": ""}),
        (KeyGenerator("COMPLEX", ("s", "i"), ("b",)), {"s": "", "i": None}),
        (KeyGenerator("COMPLEX", ("s",), ("b",)), {"s": ""}),
        (KeyGenerator("NON_PARTITION", ("d",)), {"d": None}),
    ],
)
def test_spark_refuses_keys_that_are_missing(spark: Any, keys: KeyGenerator, row: dict[str, object]) -> None:
    table = pa.Table.from_pylist([{**dict.fromkeys(SCHEMA.names), **row}], SCHEMA)
    with pytest.raises(PudiError):
        keys.record_keys(table)
    with pytest.raises(Exception, match="is null or empty") as caught:
        by_spark(spark, keys, table)
    assert SPARK_ERROR_MARK in str(caught.value)


def test_what_spark_can_not_say_is_left_to_arrow() -> None:
    schema = pa.schema(
        [("id", pa.string()), ("p", pa.string()), ("dec", pa.decimal128(9, 2)), ("n", pa.timestamp("us"))]
    )
    by_time = KeyGenerator(
        "TIMESTAMP", ("id",), ("n",), moments=Moments("EPOCHMICROSECONDS", "yyyy", output_zone="UTC")
    )
    assert spark_key_columns(by_time, schema) is None
    assert spark_key_columns(KeyGenerator("SIMPLE", ("id",), ("dec",)), schema) is None
    assert spark_key_columns(KeyGenerator("NON_PARTITION", ("n",)), schema) is None


def test_keys_that_can_not_be_made_are_refused_here_too() -> None:
    schema = pa.schema([("id", pa.string()), ("f", pa.float64())])
    with pytest.raises(NotSupportedError):
        spark_key_columns(KeyGenerator("NON_PARTITION", ("f",)), schema)
    with pytest.raises(NotSupportedError):
        spark_key_columns(KeyGenerator("GLOBAL_DELETE", ("id",), ("f",)), schema)
    with pytest.raises(SchemaError):
        spark_key_columns(KeyGenerator("NON_PARTITION", ("gone",)), schema)
