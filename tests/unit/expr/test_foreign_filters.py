"""Filters of pyarrow and polars as conditions: they keep every row that the library keeps."""

from __future__ import annotations

import datetime as dt
import importlib.util
import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pudi.expr import columns_of, conjunction, evaluate, from_arrow, from_polars, real_predicate

UTC = dt.timezone.utc
POLARS = importlib.util.find_spec("polars") is not None
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i": (pa.int32(), [-(2**31), -1, 0, 1, 2, 7, 2**31 - 1]),
    "l": (pa.int64(), [-(2**63), -1, 0, 1, 2**53, 2**53 + 1, 2**63 - 1]),
    "f": (pa.float64(), [-math.inf, -1.5, -0.0, 0.0, 1.0, 0.1, math.inf, math.nan]),
    "g": (pa.float32(), [-math.inf, -1.5, -0.0, 0.0, 1.0, 0.10000000149011612, math.inf, math.nan]),
    "s": (
        pa.string(),
        ["", "a", "A", "ab", "é", "É", "e\u0301", "ß", "İ", "\uffff", "😀", "a%b", "a_b", "\\", "'", "\n"],
    ),
    "x": (pa.binary(), [b"", b"\x00", b"a", b"ab", b"\xff"]),
    "b": (pa.bool_(), [True, False]),
    "d": (pa.date32(), [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(9999, 12, 31)]),
    "t": (
        pa.timestamp("us", "UTC"),
        [dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), dt.datetime(2024, 3, 31, 1, 30, tzinfo=UTC)],
    ),
    "n": (pa.timestamp("us"), [dt.datetime(1969, 12, 31), dt.datetime(2024, 2, 29, 12, 0, 0, 1)]),
    "m": (pa.timestamp("ms"), [dt.datetime(1969, 12, 31), dt.datetime(2024, 2, 29, 12, 0, 0, 1000)]),
    "c": (pa.decimal128(10, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("1.50"), Decimal("99999999.99")]),
}
LENGTH = 40
SCHEMA = pa.schema([*((name, type_) for name, (type_, _) in VALUES.items()), ("p", pa.struct([("q", pa.int64())]))])


def made() -> pa.Table:
    columns = []
    for position, (type_, values) in enumerate(VALUES.values()):
        cycle = [*values, None]
        columns.append(
            pa.array([cycle[(row * (position + 3) + row // 7) % len(cycle)] for row in range(LENGTH)], type_)
        )
    inner = [None if row % 5 == 0 else {"q": None if row % 7 == 0 else row % 4} for row in range(LENGTH)]
    return pa.table([*columns, pa.array(inner, SCHEMA.field("p").type)], schema=SCHEMA)


ROWS = made().append_column("row", pa.array(range(LENGTH)))


def kept(conditions: tuple[Any, ...]) -> set[int]:
    where = conjunction(conditions)
    if where is None:
        return set(range(LENGTH))
    return set(ROWS.filter(evaluate(where, ROWS))["row"].to_pylist())


def constants(name: str) -> st.SearchStrategy[pa.Scalar]:
    type_, values = VALUES[name]
    return st.sampled_from([pa.scalar(value, type_) for value in values])


COMPARISONS = ["__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"]
NAMES = st.sampled_from(list(VALUES))


@st.composite
def arrow_leaf(draw: st.DrawFn) -> pc.Expression:
    name = draw(NAMES)
    field, shape = pc.field(name), draw(st.integers(0, 9))
    if shape == 0:
        return field.is_null()
    if shape == 1:
        return field.is_valid()
    if shape == 2:
        chosen = draw(st.lists(constants(name), max_size=3))
        values = pa.array([each.as_py() for each in chosen], VALUES[name][0])
        is_in = field.isin(values)
        return draw(st.sampled_from([is_in, pc.if_else(field.is_valid(), is_in, pa.scalar(None, pa.bool_()))]))
    if shape == 3:
        return draw(st.sampled_from([pc.field("b"), pc.field("f").is_nan(), pc.field("g").is_null(nan_is_null=True)]))
    if shape == 4:
        text = draw(constants("s")).as_py()
        make = draw(st.sampled_from([pc.starts_with, pc.ends_with, pc.match_substring]))
        return make(pc.field("s"), text)
    if shape == 5:
        return pc.field("p", "q") == draw(st.integers(0, 4))
    if shape == 6:
        wide, folded = pc.field("l").cast("float64", safe=False), pc.utf8_lower(pc.field("s"))
        return draw(st.sampled_from([pc.field("b") == pc.field("b"), wide > 1.5, folded == "é"]))
    compared = getattr(field, draw(st.sampled_from(COMPARISONS)))
    return compared(draw(constants(name)))


def combined(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def more(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.one_of(
            st.tuples(inner, inner).map(lambda both: both[0] & both[1]),
            st.tuples(inner, inner).map(lambda both: both[0] | both[1]),
            inner.map(lambda one: ~one),
        )

    return st.recursive(leaves, more, max_leaves=5)


@given(combined(arrow_leaf()))
def test_a_filter_of_arrow_keeps_no_row_that_is_left_out(filter: pc.Expression) -> None:
    expected = set(ROWS.filter(filter)["row"].to_pylist())
    assert expected <= kept(from_arrow(filter, SCHEMA))


@pytest.mark.parametrize(
    ("filter", "conditions"),
    [
        (pc.field("i") > 5, ["i > 5"]),
        (pc.field("i") > 5, ["i > 5"]),
        ((pc.field("i") == 1) & (pc.field("s") == "é'\n"), ["i = 1", "s = 'é''\n'"]),
        ((pc.field("i") == 1) & (pc.utf8_upper(pc.field("s")) == "A"), ["i = 1"]),
        ((pc.field("i") == 1) | (pc.utf8_upper(pc.field("s")) == "A"), []),
        (pc.field("i").isin([1, 2]), ["i IN (1, 2)"]),
        (~pc.field("i").isin([1, 2]), []),
        (pc.field("p", "q") == 3, ["p.q = 3"]),
        (pc.field("f") > 1, ["f > 1.0"]),
        (~(pc.field("f") > 1.0), []),
        (pc.field("f") != pa.scalar(math.nan), []),
        (pc.starts_with(pc.field("s"), "a%b"), ["s LIKE 'a\\%b%'"]),
        (
            pc.field("t") >= pa.scalar(dt.datetime(2024, 1, 1, tzinfo=UTC)),
            ["t >= TIMESTAMP '2024-01-01 00:00:00+00:00'"],
        ),
        (pc.field("none") == 3, []),
        (pc.field(0) == 3, []),
        (pc.field("i").cast("int8") == 3, []),
    ],
    ids=str,
)
def test_filters_of_arrow_as_conditions(filter: pc.Expression, conditions: list[str]) -> None:
    assert [str(each) for each in from_arrow(filter, SCHEMA)] == conditions


def test_columns_of_expressions_of_arrow() -> None:
    assert columns_of((pc.field("i") == 1) | (pc.field("p", "q") + pc.field("l") > 0)) == {"i", "p", "l"}
    assert columns_of(pc.field(0) == 1) is None


def test_columns_whose_names_are_alike_take_no_condition() -> None:
    schema = pa.schema([("id", pa.int64()), ("ID", pa.int64())])
    assert from_arrow(pc.field("id") == 1, schema) == ()


@pytest.mark.skipif(not POLARS, reason="polars isn't installed")
class TestPolars:
    @staticmethod
    def pushed(predicate: Any) -> tuple[set[int], list[str]]:
        """Rows that the pushed conditions keep, and the conditions."""
        import polars as pl
        from polars.io.plugins import register_io_source

        frame = pl.from_arrow(ROWS)
        assert isinstance(frame, pl.DataFrame)
        found: list[tuple[Any, ...]] = []

        def read(columns: Any, given: Any, rows: Any, size: Any) -> Iterator[pl.DataFrame]:
            found.append(() if given is None else from_polars(given, ROWS.schema, frame.schema))
            chosen = frame if given is None else frame.filter(given)
            yield chosen if columns is None else chosen.select(columns)

        rows = register_io_source(read, schema=frame.schema).filter(predicate).collect()
        expected = frame.filter(predicate)["row"].to_list()
        assert rows["row"].to_list() == expected
        conditions = found[0] if found else ()
        assert set(expected) <= kept(conditions)
        return set(expected), [str(each) for each in conditions]

    @given(st.data())
    def test_a_predicate_keeps_no_row_that_is_left_out(self, data: st.DataObject) -> None:
        import polars as pl

        @st.composite
        def leaf(draw: st.DrawFn) -> pl.Expr:
            name = draw(NAMES)
            column, shape = pl.col(name), draw(st.integers(0, 10))
            type_ = pl.from_arrow(ROWS.select([name])).schema[name]
            value = draw(constants(name)).as_py()
            constant = draw(st.sampled_from([value, pl.lit(value, dtype=type_)]))
            if shape == 0:
                return draw(
                    st.sampled_from([column.is_null(), column.is_not_null(), pl.col("b"), pl.col("f").is_nan()])
                )
            if shape == 1:
                values = [each.as_py() for each in draw(st.lists(constants(name), max_size=3))]
                values += draw(st.sampled_from([[], [None]]))
                return column.is_in(pl.Series(values, dtype=type_).implode() if values else [])
            if shape == 2:
                texts = draw(constants("s")).as_py()
                return draw(
                    st.sampled_from(
                        [
                            pl.col("s").str.starts_with(texts),
                            pl.col("s").str.ends_with(texts),
                            pl.col("s").str.contains(texts, literal=True),
                            pl.col("s").str.to_lowercase() == texts,
                        ]
                    )
                )
            if shape == 3:
                return pl.col("p").struct.field("q") == draw(st.integers(0, 4))
            if shape == 4:
                number = draw(st.sampled_from([1.5, 0.1, float(2**53), math.nan]))
                return pl.col(draw(st.sampled_from(["i", "l", "c", "g"]))) >= number
            if shape == 5:
                return draw(st.sampled_from([column.eq_missing(constant), column.ne_missing(constant)]))
            if shape == 6:
                moment = draw(st.sampled_from([dt.datetime(2024, 2, 29), dt.datetime(2024, 2, 29, 12)]))
                return draw(st.sampled_from([pl.col("d") > moment, pl.col("d") == moment, pl.col("m") <= moment]))
            if shape == 7:
                low, high = (pl.lit(draw(constants(name)).as_py(), dtype=type_) for _ in range(2))
                return column.is_between(low, high, closed=draw(st.sampled_from(["both", "left", "right", "none"])))
            return getattr(column, draw(st.sampled_from(COMPARISONS)))(constant)

        self.pushed(data.draw(combined(leaf())))

    def test_predicates_as_conditions(self) -> None:
        import polars as pl

        c = pl.col
        for predicate, conditions in [
            (c("i") > 5, ["i > 5"]),
            (c("i") > 2.5, ["CAST(i AS DOUBLE) > 2.5"]),
            (c("g") == 0.1, ["g = 0.10000000149011612"]),
            (c("s").is_in(["a", "é"]), ["s IN ('a', 'é')"]),
            (c("s").str.starts_with("a%"), ["s LIKE 'a\\%%'"]),
            (c("p").struct.field("q") == 3, ["p.q = 3"]),
            ((c("i") == 1) & (c("s").str.to_lowercase() == "é"), ["i = 1"]),
            ((c("i") == 1) | (c("s").str.to_lowercase() == "é"), []),
            (c("d") > dt.datetime(2024, 2, 29), ["d > DATE '2024-02-29'"]),
            (c("d") > dt.datetime(2024, 2, 29, 12), []),
            (c("c") > 1.5, []),
            (c("i") + 1 > c("l"), []),
        ]:
            assert self.pushed(predicate)[1] == conditions, str(predicate)

    def test_a_predicate_without_hints_is_itself(self) -> None:
        import polars as pl

        predicate = (pl.col("s") == "dynamic_pred") & pl.lit("dynamic_pred").is_not_null() & (pl.col("i") == 1)
        assert real_predicate(predicate) is predicate
