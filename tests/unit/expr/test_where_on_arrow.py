"""Arrow's answers against a plain-Python telling of the language, over random rows and conditions."""

from __future__ import annotations

import decimal
import math
import pickle

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import HealthCheck, given, settings
from where_model import SCHEMA, Condition, FailureInRow, Row, conditions, rows, to_table

from pudi.errors import InvalidArgumentError
from pudi.expr import bind, evaluate, parse, to_arrow

DIVISORS = pa.table({"x": pa.array([0, 5, None], pa.int32()), "n": pa.array([None] * 3, pa.int32())})
"""The last x is NULL and harmless; the first would divide by zero."""
slow_to_draw = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def answers(sql: str, data: pa.Table) -> list[bool | None]:
    return evaluate(bind(parse(sql), data.schema), data).to_pylist()


@slow_to_draw
@given(rows=rows, condition=conditions)
def test_every_row_gets_the_answer_that_sql_gives(rows: list[Row], condition: Condition) -> None:
    table = to_table(rows)
    try:
        expected = [condition.of(row) for row in rows]
    except FailureInRow:
        with pytest.raises(InvalidArgumentError):
            answers(condition.sql, table)
        return
    assert answers(condition.sql, table) == expected, condition.sql
    bound = pickle.loads(pickle.dumps(bind(parse(condition.sql), SCHEMA)))
    assert table.filter(to_arrow(bound)).num_rows == expected.count(True)
    assert ds.dataset(table).to_table(filter=to_arrow(bound)).num_rows == expected.count(True)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("x <> 0 AND 10 / x > 1", [False, True, None]),
        ("NOT (x = 0 OR 10 / x <= 1)", [False, True, None]),
        ("x = 0 OR 10 / x > 1", [True, True, None]),
        ("n > 10 / x", [None, None, None]),
        ("n + 10 / x > 1", [None, None, None]),
    ],
)
def test_a_row_that_is_decided_already_does_not_fail(sql: str, expected: list[bool | None]) -> None:
    assert answers(sql, DIVISORS) == expected


def test_the_left_side_is_computed_first() -> None:
    with pytest.raises(InvalidArgumentError, match="divide by zero"):
        answers("10 / x > n", DIVISORS)


@pytest.mark.parametrize(
    "sql",
    [
        "10 / x = 1",
        "10 % x = 1",
        "l + 1 > 0",
        "-l > 0",
        "l * 2 > 0",
        "CAST(l AS INT) = 1",
        "CAST(l AS DECIMAL(5,2)) > 0",
    ],
)
def test_overflow_and_division_by_zero_are_errors(sql: str) -> None:
    data = pa.table({"x": pa.array([0], pa.int32()), "l": pa.array([2**63 - 1 if "-" not in sql else -(2**63)])})
    with pytest.raises(InvalidArgumentError, match="can't be computed for every row"):
        answers(sql, data)


def test_the_smallest_integer_leaves_no_remainder() -> None:
    data = pa.table({"l": [-(2**63), 7], "x": [-1, -4]})
    assert answers("l % x = 0 AND l % -1 = 0", data) == [True, False]
    assert answers("l % x = 3", data) == [False, True]  # the sign is the dividend's


def test_decimals_meet_doubles_at_the_nearest_double() -> None:
    # 3 * 10^-1 in binary is 0.30000000000000004; SQL's DOUBLE of 0.3 is 0.3.
    data = pa.table({"m": pa.array([decimal.Decimal("0.3")], pa.decimal128(3, 1)), "d": [0.3]})
    assert answers("m = d AND m = 0.3D AND CAST(m AS DOUBLE) = 3e-1", data) == [True]


def test_a_constant_is_compared_as_written() -> None:
    data = pa.table({"f": pa.array([0.1], pa.float32()), "i": pa.array([2], pa.int32()), "l": [2**53 + 1]})
    assert answers("f = 0.1", data) == [False]  # as in Spark: 0.1 is no FLOAT
    assert answers("f = 0.1F", data) == [True]
    assert answers("i < 2.5 AND i > 1.5", data) == [True]
    assert answers("l = 9007199254740992", data) == [False]


def test_struct_fields_and_nulls_above_them() -> None:
    inner = pa.StructArray.from_arrays([pa.array([1, 2, 3])], ["a"], mask=pa.array([False, True, False]))
    data = pa.table({"st": inner})
    assert answers("st.A > 1", data) == [False, None, True]
    assert answers("st.a IS NULL", data) == [False, True, False]
    assert answers("st IS NULL", data) == [False, True, False]


def test_columns_in_other_layouts() -> None:
    data = pa.table(
        {
            "dictionary": pa.array(["a", None, "b"]).dictionary_encode(),
            "large": pa.array(["a", "b", None], pa.large_string()),
            "fixed": pa.array([b"ab", b"cd", None], pa.binary(2)),
        }
    )
    assert answers("dictionary = 'a'", data) == [True, None, False]
    assert answers("dictionary = large", data) == [True, None, None]
    assert answers("large IN ('b')", data) == [False, True, None]
    assert answers("fixed > X'6162'", data) == [False, True, None]


def test_milliseconds_against_a_finer_constant() -> None:
    data = pa.table({"ts": pa.array([0, 1, None], pa.timestamp("ms", "UTC"))})
    assert answers("ts > '1970-01-01 00:00:00.0005'", data) == [False, True, None]
    assert answers("ts IN (TIMESTAMP '1970-01-01 00:00:00.0005', TIMESTAMP '1970-01-01 01:00:00+01:00')", data) == [
        True,
        False,
        None,
    ]


def test_no_rows_and_no_columns_needed() -> None:
    data = pa.table({"a": pa.array([], pa.int32())})
    assert answers("a = 1", data) == []
    assert answers("1 = 1", pa.table({"a": [1, 2]})) == [True, True]
    assert evaluate(
        bind(parse("a > 1"), data.schema), pa.record_batch({"a": pa.array([1, 2], pa.int32())})
    ).to_pylist() == [
        False,
        True,
    ]


def test_a_long_chain_is_not_too_deep() -> None:
    data = pa.table({"a": [7, 5000, None]})
    chain = " OR ".join(f"a = {n}" for n in range(3000))
    assert answers(chain, data) == [True, False, None]
    assert answers(f"a IN ({', '.join(map(str, range(3000)))})", data) == [True, False, None]


def test_nan_rows_of_a_parquet_dataset(tmp_path: object) -> None:
    path = f"{tmp_path}/nan.parquet"
    table = pa.table({"d": [1.0, math.nan, 5.0]})
    import pyarrow.parquet as pq

    pq.write_table(table, path)
    for sql, rows_found in {"d > 4": 2, "d >= 5": 2, "d < 6": 2, "d = 1": 1, "NOT d <= 5": 1}.items():
        where = to_arrow(bind(parse(sql), table.schema))
        assert ds.dataset(path).to_table(filter=where).num_rows == rows_found, sql
