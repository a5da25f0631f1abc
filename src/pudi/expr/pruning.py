"""Prune files by the minimum, maximum and NULL count of their columns.

The result is "may match" unless the statistics prove otherwise: unknown or contradictory statistics keep the file.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pudi.expr import sqltypes
from pudi.expr.arrow import evaluate
from pudi.expr.like import prefix_range
from pudi.expr.sqltypes import CastKind, cast_kind
from pudi.expr.table import COMPARISONS, apply_call, keeps_order
from pudi.expr.tree import (
    And,
    Call,
    Cast,
    Column,
    Compare,
    Expr,
    In,
    IsNull,
    Like,
    Literal,
    Neg,
    Not,
    Or,
    leaf_columns,
    type_of,
)
from pudi.schema import convert_where_possible

_Mask = npt.NDArray[np.bool_]
_SLOT = "slot"


class ColumnBounds(NamedTuple):
    """The known statistics of one column in one file; None is unknown.

    Attributes:
        min: lower bound of the values. For texts a prefix of the minimum is enough.
        max: upper bound of the values except NaN. A truncated text must have been incremented, as Parquet requires;
            otherwise give None.
        null_count: number of NULL rows.
        row_count: number of all rows.
        has_nan: False only if certainly no value is NaN. Statistics ignore NaN, so otherwise a floating-point maximum
            proves nothing.
    """

    min: object = None
    max: object = None
    null_count: int | None = None
    row_count: int | None = None
    has_nan: bool | None = None


PlainBounds = ColumnBounds | tuple[object, object, int | None, int | None]


@dataclass(frozen=True, slots=True)
class BoundsArrays:
    """`ColumnBounds` of one column in many files: arrays of equal length, NULL if unknown; None if all are unknown.

    Attributes:
        min: of the column's type, or of the type that the column has in these files.
        max: like `min`.
        null_count: int64.
        row_count: int64.
        has_nan: boolean.
    """

    min: pa.Array | None = None
    max: pa.Array | None = None
    null_count: pa.Array | None = None
    row_count: pa.Array | None = None
    has_nan: pa.Array | None = None


@dataclass(frozen=True, slots=True)
class _Range:
    """Bounds of an expression per file: low and high (NULL if unknown), and whether all or some values may be NULL."""

    low: pa.Array
    high: pa.Array
    all_null: _Mask
    some_null: _Mask


def prune(expr: Expr, stats: Mapping[str, PlainBounds]) -> bool:
    """Return whether a file may contain a row for which `expr` is true.

    Args:
        expr: a bound expression.
        stats: bounds by column, spelled as in the schema; struct fields as "a.b". A plain tuple of the first four
            members of `ColumnBounds` works too.
    """
    arrays: dict[str, BoundsArrays] = {}
    for column in leaf_columns(expr):
        known = stats.get(_key(column) or "")
        if known is not None:
            arrays[".".join(column.path)] = _arrays(ColumnBounds(*known), column)
    return bool(prune_many(expr, arrays, 1)[0])


def prune_many(expr: Expr, stats: Mapping[str, BoundsArrays], files: int) -> _Mask:
    """Return for each of `files` files whether it may contain a row for which `expr` is true.

    Args:
        expr: a bound expression.
        stats: bounds by column as for `prune`; each array has one value per file.
        files: number of files.
    """
    return _Pruner(stats, files).may_match(expr)


def call_key(call: Call) -> str:
    """Return the key of a function's bounds among those of columns."""
    return f"\0{call}"


def _key(column: Column) -> str | None:
    # A dot inside a name would make "a.b" mean two things.
    return None if any("." in name for name in column.path) else ".".join(column.path)


def _arrays(known: ColumnBounds, column: Column) -> BoundsArrays:
    type_ = sqltypes.plain(column.type) if column.type is not None else None
    low, high = (None, None) if type_ is None else (_one(known.min, type_), _one(known.max, type_))
    nulls, rows = (pa.array([count], pa.int64()) for count in (known.null_count, known.row_count))
    return BoundsArrays(low, high, nulls, rows, pa.array([known.has_nan], pa.bool_()))


def _one(value: object, type_: pa.DataType) -> pa.Array | None:
    # Arrow would accept an int for a timestamp, or a date for text: the value must have the column's type.
    if value is None or not isinstance(value, _python_types(type_)):
        return None
    if isinstance(value, bool) != pt.is_boolean(type_):
        return None
    if isinstance(value, datetime.datetime) and not (
        sqltypes.is_timestamp(type_) and bool(value.tzinfo) == bool(type_.tz)
    ):
        return None
    try:
        return pa.array([value], type_)
    except (pa.ArrowException, OverflowError):
        return None


def _python_types(type_: pa.DataType) -> tuple[type, ...]:
    if sqltypes.is_decimal(type_):
        return (Decimal, int)
    if sqltypes.is_numeric(type_):
        return (float, int) if sqltypes.is_float(type_) else (int,)
    if sqltypes.is_timestamp(type_):
        return (datetime.datetime,)
    if pt.is_date32(type_):
        return (datetime.date,)
    return (bool,) if pt.is_boolean(type_) else (str,) if sqltypes.is_string(type_) else (bytes,)


class _Pruner:
    def __init__(self, stats: Mapping[str, BoundsArrays], files: int) -> None:
        self._stats = stats
        self._files = files

    def may_match(self, expr: Expr) -> _Mask:
        match expr:
            case And(args):
                return reduce(np.logical_and, (self.may_match(arg) for arg in args))
            case Or(args):
                return reduce(np.logical_or, (self.may_match(arg) for arg in args))
            case Literal(value):
                return np.full(self._files, bool(value))
            case Compare(op, left, right):
                return self._compare(op, self._range(left), self._range(right))
            case In(arg, values):
                return self._in(self._range(arg), values)
            case Like(arg, pattern, escape):
                return self._like(self._range(arg), pattern, escape)
            case IsNull(arg):
                return self._range(arg).some_null
            case Not(In(_, values)) if any(isinstance(value, Literal) and value.value is None for value in values):
                return np.full(self._files, False)
            case Not(IsNull(arg) | In(arg) | Like(arg)):
                return ~self._range(arg).all_null
            case Not(Column() as column):
                known = self._range(column)
                return ~_sure(known.low) & ~known.all_null
            case Column():
                known = self._range(expr)
                return ~_sure(pc.invert(known.high)) & ~known.all_null
        return np.full(self._files, True)

    def _compare(self, op: str, left: _Range, right: _Range) -> _Mask:
        never_null = ~left.all_null & ~right.all_null
        rule, may_hold = COMPARISONS[op], np.full(self._files, False)
        if rule.less:
            may_hold |= ~_sure(pc.greater_equal(left.low, right.high))
        if rule.greater:
            may_hold |= ~_sure(pc.greater_equal(right.low, left.high))
        if rule.equal:
            may_hold |= ~(_sure(pc.greater(left.low, right.high)) | _sure(pc.greater(right.low, left.high)))
        may_hold &= never_null
        return may_hold | (left.some_null & right.some_null) if rule.null else may_hold

    def _in(self, arg: _Range, values: tuple[Expr, ...]) -> _Mask:
        constants = [value.value for value in values if isinstance(value, Literal) and value.value is not None]
        hit = np.full(self._files, False)
        for constant in constants:
            scalar = pa.scalar(constant, arg.low.type)
            hit |= ~(_sure(pc.greater(arg.low, scalar)) | _sure(pc.less(arg.high, scalar)))
            if hit.all():
                break
        return hit & ~arg.all_null

    def _like(self, arg: _Range, pattern: str, escape: str) -> _Mask:
        low, high = prefix_range(pattern, escape)
        type_ = arg.low.type
        outside = _sure(pc.less(arg.high, pa.scalar(low, type_)))
        if high is not None:
            outside |= _sure(pc.greater_equal(arg.low, pa.scalar(high, type_)))
        return ~outside & ~arg.all_null

    def _range(self, expr: Expr) -> _Range:
        match expr:
            case Column():
                return self._column(expr)
            case Literal(value, type_):
                constant = pa.repeat(pa.scalar(value, type_), self._files)
                is_null = np.full(self._files, value is None)
                return _sound(constant, constant, is_null, is_null)
            case Cast(arg, target) if cast_kind(type_of(arg), target) is not CastKind.TEXT:
                inner = self._range(arg)
                low, high = (_moved(Cast(Literal(None, side.type), target), side) for side in (inner.low, inner.high))
                return _sound(low, high, inner.all_null, inner.some_null)
            case Neg(arg, type_):
                inner = self._range(arg)
                low, high = (_moved(Neg(Literal(None, side.type), type_), side) for side in (inner.high, inner.low))
                if sqltypes.is_float(type_):
                    # -NaN is NaN: it stays the greatest value, so negated bounds prove nothing.
                    low = high = pa.nulls(self._files, type_)
                return _sound(low, high, inner.all_null, inner.some_null)
            case Call(_, arg, _, type_):
                return self._call(expr, self._range(arg), type_)
        unknown = pa.nulls(self._files, type_of(expr))
        return _Range(unknown, unknown, np.full(self._files, False), np.full(self._files, True))

    def _call(self, call: Call, inner: _Range, type_: pa.DataType | None) -> _Range:
        """Return stored bounds of a call's results, or derive them from its argument if the function keeps order."""
        known = self._stats.get(call_key(call))
        if known is not None:
            return self._known(known, type_)
        low = high = pa.nulls(self._files, type_)
        if keeps_order(call):
            low, high = (
                convert_where_possible(lambda part: apply_call(call, part), side, type_)
                for side in (inner.low, inner.high)
            )
        return _sound(low, high, inner.all_null, inner.some_null)

    def _column(self, column: Column) -> _Range:
        key = _key(column)
        known = self._stats.get(key) if key is not None else None
        return self._known(BoundsArrays() if known is None else known, column.type)

    def _known(self, known: BoundsArrays, type_: pa.DataType | None) -> _Range:
        low, high = (self._side(side, type_) for side in (known.min, known.max))
        nulls, rows = (_counts(side, self._files) for side in (known.null_count, known.row_count))
        if sqltypes.is_float(type_):
            has_nan = known.has_nan if known.has_nan is not None else pa.nulls(self._files, pa.bool_())
            high = pc.if_else(pc.fill_null(has_nan, True), pa.scalar(None, type_), high)
        no_values = pc.and_(pc.is_null(low), pc.is_null(high))
        all_null = _sure(pc.and_(no_values, pc.greater_equal(nulls, rows)))
        return _sound(low, high, all_null, ~_sure(pc.equal(nulls, pa.scalar(0, pa.int64()))))

    def _side(self, side: pa.Array | None, type_: pa.DataType | None) -> pa.Array:
        if side is None or type_ is None:
            return pa.nulls(self._files, type_)
        if side.type == type_:
            return side
        kind = cast_kind(side.type, type_)
        if kind in (CastKind.SAME, CastKind.SAFE):
            return _moved(Cast(Literal(None, side.type), type_), side)
        return pa.nulls(self._files, type_)


def _moved(step: Cast | Neg, side: pa.Array) -> pa.Array:
    """Apply a cast or minus to bounds; unknown if a value doesn't fit."""
    column = Column((_SLOT,), side.type)
    moved = Cast(column, step.type) if isinstance(step, Cast) else Neg(column, step.type)
    return convert_where_possible(lambda part: evaluate(moved, pa.table({_SLOT: part})), side, type_of(moved))


def _sound(low: pa.Array, high: pa.Array, all_null: _Mask, some_null: _Mask) -> _Range:
    """Drop bounds that prove nothing: NaN, and a lower bound above the upper one. Nested types have no bounds."""
    if pa.types.is_nested(low.type):
        return _Range(low, high, all_null, some_null)
    bad = pc.greater(low, high)
    if sqltypes.is_float(low.type):
        bad = pc.or_kleene(bad, pc.or_kleene(pc.is_nan(low), pc.is_nan(high)))
    bad = pc.fill_null(bad, False)
    nothing = pa.scalar(None, low.type)
    return _Range(pc.if_else(bad, nothing, low), pc.if_else(bad, nothing, high), all_null, some_null)


def _counts(counts: pa.Array | None, files: int) -> pa.Array:
    if counts is None:
        return pa.nulls(files, pa.int64())
    counts = counts.cast(pa.int64())
    return pc.if_else(pc.less(counts, pa.scalar(0, pa.int64())), pa.scalar(None, pa.int64()), counts)


def _sure(condition: pa.Array) -> _Mask:
    """Return where a comparison of bounds is certainly true."""
    mask: _Mask = pc.fill_null(condition, False).to_numpy(zero_copy_only=False)
    return mask
