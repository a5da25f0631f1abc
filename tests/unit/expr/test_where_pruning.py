"""Pruning may keep a file in vain; it must never give up one that holds a matching row."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from where_model import SCHEMA, Condition, FailureInRow, Row, conditions, rows

from pudi.expr import (
    BoundsArrays,
    ColumnBounds,
    bind,
    columns,
    parse,
    prune,
    prune_many,
    split_conjuncts,
)


def bounds_of(rows: list[Row], name: str, *, nan_known: bool) -> ColumnBounds:
    """What a Parquet footer says: NaN is left out of min and max."""
    values = [row[name] for row in rows if row[name] is not None]
    numbers = [value for value in values if not (isinstance(value, float) and math.isnan(value))]
    by = (lambda text: text.encode()) if name == "s" else None
    return ColumnBounds(
        min(numbers, key=by, default=None),
        max(numbers, key=by, default=None),
        sum(row[name] is None for row in rows),
        len(rows),
        len(numbers) < len(values) if nan_known else None,
    )


def matches(condition: Condition, row: Row) -> bool:
    try:
        return condition.of(row) is True
    except FailureInRow:
        return False


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(files=st.lists(rows, min_size=1, max_size=3), condition=conditions, nan_known=st.booleans())
def test_a_file_with_a_matching_row_is_kept(files: list[list[Row]], condition: Condition, nan_known: bool) -> None:
    where = bind(parse(condition.sql), SCHEMA)
    single = []
    for file in files:
        stats = {name: bounds_of(file, name, nan_known=nan_known) for name in SCHEMA.names}
        single.append(prune(where, stats))
        if any(matches(condition, row) for row in file):
            assert single[-1], (condition.sql, stats)
        without_counts = {name: (known.min, known.max, None, None) for name, known in stats.items()}
        assert prune(where, without_counts) or not single[-1]
    known = {name: [bounds_of(file, name, nan_known=nan_known) for file in files] for name in SCHEMA.names}
    arrays = {
        name: BoundsArrays(
            pa.array([b.min for b in each], SCHEMA.field(name).type),
            pa.array([b.max for b in each], SCHEMA.field(name).type),
            pa.array([b.null_count for b in each], pa.int64()),
            pa.array([b.row_count for b in each], pa.int64()),
            pa.array([b.has_nan for b in each], pa.bool_()),
        )
        for name, each in known.items()
    }
    assert prune_many(where, arrays, len(files)).tolist() == single


def may_match(sql: str, **stats: Any) -> bool:
    return prune(bind(parse(sql), SCHEMA), stats)


@pytest.mark.parametrize(
    ("sql", "stats"),
    [
        ("i > 10", {"i": (1, 10, 0, 5)}),
        ("i >= 11", {"i": (1, 10, None, None)}),
        ("NOT i <= 10", {"i": (1, 10, 0, 5)}),
        ("i = 11 OR i = 0", {"i": (1, 10, 0, 5)}),
        ("i IN (0, 11, NULL)", {"i": (1, 10, 0, 5)}),
        ("i NOT IN (3, NULL)", {}),
        ("i BETWEEN 11 AND 20", {"i": (1, 10, 0, 5)}),
        ("i <> 4", {"i": (4, 4, 0, 5)}),
        ("i > 10.5", {"i": (1, 10, 0, 5)}),
        ("CAST(i AS DOUBLE) > 10.5", {"i": (1, 10, 0, 5)}),
        ("i > l", {"i": (1, 10, 0, 5), "l": (10, 20, 0, 5)}),
        ("i IS NULL", {"i": (1, 10, 0, 5)}),
        ("i IS NOT NULL", {"i": (None, None, 5, 5)}),
        ("i = 3", {"i": (None, None, 5, 5)}),
        ("i <=> NULL", {"i": (1, 10, 0, 5)}),
        ("s LIKE 'b%'", {"s": ("c", "d", 0, 5)}),
        ("s LIKE 'b_c%'", {"s": ("a", "azz", 0, 5)}),
        ("s LIKE 'abc'", {"s": ("abd", "b", 0, 5)}),
        ("d < 1", {"d": (1.0, 2.0, 0, 5)}),
        ("d > 2", {"d": ColumnBounds(1.0, 2.0, 0, 5, has_nan=False)}),
        ("m > 5", {"m": (Decimal("1.00"), Decimal("4.99"), 0, 5)}),
        ("b", {"b": (False, False, 0, 5)}),
        ("NOT b", {"b": (True, True, 0, 5)}),
        ("day = '2020-01-01'", {"day": (dt.date(2020, 1, 2), dt.date(2020, 2, 1), 0, 5)}),
        ("-i > 0", {"i": (1, 10, 0, 5)}),
        ("FALSE", {}),
        ("i = NULL", {}),
        ("s = 'x' AND i > 10", {"i": (1, 10, 0, 5)}),
    ],
)
def test_a_file_that_cannot_match_is_given_up(sql: str, stats: dict[str, Any]) -> None:
    assert not may_match(sql, **stats)


@pytest.mark.parametrize(
    ("sql", "stats"),
    [
        ("i > 10", {}),
        ("d > 2", {"d": (1.0, 2.0, 0, 5)}),  # a NaN may be there, and is greater
        ("d <> 2", {"d": (2.0, 2.0, 0, 5)}),
        ("d = CAST('NaN' AS DOUBLE)", {"d": (1.0, 2.0, 0, 5)}),
        ("d < 1", {"d": (math.nan, 2.0, 0, 5)}),
        ("d = 0", {"d": (-0.0, -0.0, 0, 5)}),
        ("-d < 0", {"d": (math.nan, math.nan, 0, 5)}),
        ("i = 3", {"i": (10, 1, 0, 5)}),  # a minimum above the maximum proves nothing
        ("i = 3", {"i": ("4", "5", 0, 5)}),  # nor does one of another type
        ("ts = '2020-01-01'", {"ts": (5, 6, 0, 5)}),
        ("ts = '2020-01-01'", {"ts": (dt.datetime(2021, 1, 1), dt.datetime(2021, 1, 2), 0, 5)}),  # no zone
        ("s > 'b'", {"s": (b"a", b"a", 0, 5)}),
        ("CAST(i AS STRING) > '2'", {"i": (3, 10, 0, 5)}),
        ("i IS NULL", {"i": (1, 10, -1, 5)}),
        ("i = 3", {"i": (1, None, 0, 5)}),
        ("s LIKE 'abc%'", {"s": ("ab", "ac", 0, 5)}),  # the smallest text was cut
        ("s LIKE '\U0010ffff%'", {"s": ("\U0010ffff", "\U0010ffff", 0, 5)}),
        ("s LIKE '%z'", {"s": ("a", "b", 0, 5)}),
    ],
)
def test_what_proves_nothing_keeps_the_file(sql: str, stats: dict[str, Any]) -> None:
    assert may_match(sql, **stats)


def test_bounds_in_the_type_the_column_had_before_it_was_widened() -> None:
    where = bind(parse("x > 10"), pa.schema([("x", pa.int64())]))
    narrow = BoundsArrays(pa.array([1, 1], pa.int32()), pa.array([10, 11], pa.int32()))
    assert prune_many(where, {"x": narrow}, 2).tolist() == [False, True]
    as_text = bind(parse("x > '2'"), pa.schema([("x", pa.string())]))
    assert prune_many(as_text, {"x": narrow}, 2).tolist() == [True, True]  # as text, 10 comes before 2


def test_struct_fields_have_dotted_names_and_dots_in_names_are_left_alone() -> None:
    schema = pa.schema([("a", pa.struct([("b", pa.int32())])), ("a.b", pa.int32())])
    stats = {"a.b": ColumnBounds(1, 2, 0, 5)}
    assert not prune(bind(parse("a.b > 2"), schema), stats)
    assert prune(bind(parse("`a.b` > 2"), schema), stats)


def test_the_columns_and_parts_of_a_condition() -> None:
    where = bind(
        parse("city = 'nyc' AND (i > 1 OR city = 'x') AND Day > '2020-01-01' AND i < 3"),
        schema := pa.schema([("city", pa.string()), ("i", pa.int32()), ("day", pa.date32())]),
    )
    assert columns(where) == set(schema.names)
    assert len(split_conjuncts(where)) == 4
