"""Expressions as new values of columns: typed for the column, or refused."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.expr import bind_value, constant, evaluate_all, parse, replace_columns
from pudi.expr.tree import Column

ROWS = pa.table(
    {
        "n": pa.array([1, None, 3], pa.int32()),
        "big": pa.array([5_000_000_000, 2, None], pa.int64()),
        "price": pa.array([Decimal("1.50"), None, Decimal("2.25")], pa.decimal128(10, 2)),
        "name": ["a", "b", None],
        "tags": [["x"], None, []],
        "place": [{"lat": 1.0}, {"lat": None}, None],
    }
)


def value(text: object, target: pa.DataType, rows: pa.Table = ROWS) -> list[Any]:
    expr = parse(text) if isinstance(text, str) else constant(text)
    found = evaluate_all(bind_value(expr, rows.schema, target), rows)
    assert found.type == target
    assert len(found) == rows.num_rows
    return found.to_pylist()


@pytest.mark.parametrize(
    ("text", "target", "expected"),
    [
        ("n + 1", pa.int64(), [2, None, 4]),
        ("n", pa.int64(), [1, None, 3]),
        ("n * 1.5", pa.float64(), [1.5, None, 4.5]),
        ("n", pa.string(), ["1", None, "3"]),
        ("n > 1", pa.bool_(), [False, None, True]),
        ("n IS NULL OR name = 'a'", pa.bool_(), [True, True, None]),
        ("price", pa.decimal128(20, 4), [Decimal("1.5000"), None, Decimal("2.2500")]),
        ("price", pa.float64(), [1.5, None, 2.25]),
        ("price", pa.decimal128(3, 1), [Decimal("1.5"), None, Decimal("2.3")]),
        ("-price", pa.decimal128(3, 1), [Decimal("-1.5"), None, Decimal("-2.3")]),
        ("price * 4.44 - 0.0025", pa.decimal128(2, 0), [Decimal(7), None, Decimal(10)]),
        ("price * 2.5", pa.int32(), [3, None, 5]),
        ("CAST(price AS DOUBLE) * -2.5", pa.int64(), [-3, None, -5]),
        ("'2026-01-02'", pa.date32(), [dt.date(2026, 1, 2)] * 3),
        ("0.1", pa.float64(), [0.1] * 3),
        ("NULL", pa.list_(pa.string()), [None] * 3),
        ("tags", pa.list_(pa.string()), [["x"], None, []]),
        ("place.lat", pa.float64(), [1.0, None, None]),
        ("NAME", pa.string(), ["a", "b", None]),
        (7, pa.float64(), [7.0] * 3),
        (True, pa.bool_(), [True] * 3),
        (Decimal("1.5"), pa.decimal128(10, 2), [Decimal("1.50")] * 3),
        (dt.date(2026, 1, 2), pa.date32(), [dt.date(2026, 1, 2)] * 3),
        (b"x", pa.binary(), [b"x"] * 3),
        (None, pa.int32(), [None] * 3),
    ],
    ids=str,
)
def test_values(text: object, target: pa.DataType, expected: list[Any]) -> None:
    assert value(text, target) == expected
    assert value(text, target, ROWS.slice(0, 0)) == []


def test_a_constant_of_a_narrow_float_is_rounded() -> None:
    assert value("0.1", pa.float32()) == pa.array([0.1] * 3, pa.float32()).to_pylist()


@pytest.mark.parametrize(
    ("text", "target", "error"),
    [
        ("big", pa.int32(), InvalidArgumentError),  # one of them doesn't fit
        ("CAST(price AS DOUBLE)", pa.decimal128(10, 2), NotSupportedError),
        ("name", pa.int32(), NotSupportedError),
        ("'x'", pa.date32(), InvalidArgumentError),
        ("3000000000", pa.int32(), InvalidArgumentError),
        ("nope", pa.int32(), InvalidArgumentError),
        ("tags", pa.list_(pa.int32()), NotSupportedError),
        ("reverse(name)", pa.string(), NotSupportedError),
        (..., pa.string(), InvalidArgumentError),
    ],
    ids=str,
)
def test_refused(text: object, target: pa.DataType, error: type[Exception]) -> None:
    with pytest.raises(error):
        value(text, target)


def test_columns_are_replaced_wherever_they_stand() -> None:
    expr = parse("a.b + 1 > CAST(c AS INT) AND NOT (d IN (1, 2) OR e LIKE 'x%') AND f IS NULL")
    moved = replace_columns(expr, lambda column: Column(("t", *column.path)))
    assert (
        str(moved) == "((t.a.b + 1) > CAST(t.c AS INT)) AND "
        "(NOT ((t.d IN (1, 2)) OR (t.e LIKE 'x%'))) AND (t.f IS NULL)"
    )
