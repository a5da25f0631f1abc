"""Translate a predicate of polars, as it pushes one into a scan, to conditions of `where`.

polars shows an expression's operands (`meta.pop`) and compares expressions (`meta.eq`). So a node is recognised by
building it again from its operands, without reading polars' own forms of trees: a predicate that was recognised means
what its public function says.
"""

from __future__ import annotations

import datetime
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pudi.context.runtime import lazy_module
from pudi.expr.foreign import MOST_VALUES, Untranslatable, bound_conditions, column, constant_of, kind_of, like
from pudi.expr.tree import And, Cast, Column, Compare, Expr, In, IsNull, Literal, Not, Or

if TYPE_CHECKING:
    import polars as pl
else:
    pl = lazy_module("polars")

_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "<=>": lambda left, right: left.eq_missing(right),
}
_SWAPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_BETWEEN = {"both": (">=", "<="), "left": (">=", "<"), "right": (">", "<="), "none": (">", "<")}
"""Comparisons with the lower and the upper bound, by the bounds that belong to a range."""


def real_predicate(predicate: pl.Expr) -> pl.Expr | None:
    """Return a predicate without the hints of polars' optimizer, which can't be evaluated; None if it has nothing else.

    A slice or a sort above a scan may add a hint that changes while the query runs.
    """
    parts = list(_conjuncts(predicate))
    real = [part for part in parts if not _is_hint(part)]
    if len(real) == len(parts):
        return predicate
    made = None
    for part in real:
        made = part if made is None else made & part
    return made


def _is_hint(part: pl.Expr) -> bool:
    leaf = not part.meta.pop() and not part.meta.is_literal() and not part.meta.is_column()
    return leaf and "dynamic_pred" in str(part)


def from_polars(predicate: pl.Expr, schema: pa.Schema, types: Mapping[str, pl.DataType]) -> tuple[Expr, ...]:
    """Return bound conditions that are true for all rows for which a predicate of polars is true.

    Args:
        predicate: the predicate, with the types that polars' optimizer has given its constants.
        schema: the columns that it is about.
        types: their types in polars.
    """
    reader = _Predicate(schema, types)
    return bound_conditions(_conjuncts(predicate), reader.condition, schema)


def _operands(expr: pl.Expr) -> list[pl.Expr]:
    return list(reversed(expr.meta.pop()))


def _conjuncts(expr: pl.Expr) -> Iterator[pl.Expr]:
    operands = _operands(expr)
    if len(operands) == 2 and expr.meta.eq(operands[0] & operands[1]):
        for each in operands:
            yield from _conjuncts(each)
    else:
        yield expr


class _Predicate:
    """Reads the parts of a predicate.

    Args:
        schema: the columns.
        types: their types in polars.
    """

    def __init__(self, schema: pa.Schema, types: Mapping[str, pl.DataType]) -> None:
        self._schema = schema
        self._types = types

    def condition(self, expr: pl.Expr) -> Expr:
        """Return a condition that equals a part of a predicate, null where that is null."""
        if expr.meta.is_literal():
            value, _ = _constant(expr)
            if not isinstance(value, bool):
                raise Untranslatable(expr)
            return Literal(value, pa.bool_())
        operands = _operands(expr)
        same = expr.meta.eq
        match operands:
            case []:
                return self._column(expr)[0]
            case [arg]:
                if same(~arg):
                    return Not(self.condition(arg))
                if same(arg.is_null()):
                    return IsNull(self._column(arg)[0])
                if same(arg.is_not_null()):
                    return Not(IsNull(self._column(arg)[0]))
                if same(arg.is_nan()):
                    return self._is_nan(arg)
                if same(arg.is_not_nan()):
                    return Not(self._is_nan(arg))
                return self._column(expr)[0]
            case [left, right]:
                if same(left & right):
                    return And((self.condition(left), self.condition(right)))
                if same(left | right):
                    return Or((self.condition(left), self.condition(right)))
                return self._of_two(expr, left, right)
            case [arg, low, high]:
                for closed, (above, below) in _BETWEEN.items():
                    if same(arg.is_between(low, high, closed=closed)):
                        return And((self._compared(above, arg, low), self._compared(below, arg, high)))
        raise Untranslatable(expr)

    def _of_two(self, expr: pl.Expr, left: pl.Expr, right: pl.Expr) -> Expr:
        same = expr.meta.eq
        for op, make in _COMPARISONS.items():
            if same(make(left, right)):
                return self._compared(op, left, right)
        if same(left.ne_missing(right)):
            return Not(self._compared("<=>", left, right))
        if not right.meta.is_literal():
            raise Untranslatable(expr)
        if same(left.is_in(right)):
            return self._is_in(left, right)
        for made, before, after in (
            (left.str.starts_with(right), False, True),
            (left.str.ends_with(right), True, False),
            (left.str.contains(right, literal=True), True, True),
        ):
            if same(made):
                found, _ = self._column(left)
                value, _ = _constant(right)
                return like(found, value, before=before, after=after)
        raise Untranslatable(expr)

    def _column(self, expr: pl.Expr) -> tuple[Column, pl.DataType]:
        """Return a column, or a field of a struct, with its type in polars."""
        path: list[str] = []
        while operands := _operands(expr):
            name = expr.meta.output_name()
            if len(operands) != 1 or not expr.meta.eq(operands[0].struct.field(name)):
                raise Untranslatable(expr)
            path.insert(0, name)
            (expr,) = operands
        if not expr.meta.is_column():
            raise Untranslatable(expr)
        path.insert(0, expr.meta.output_name())
        found = column(tuple(path), self._schema)
        type_ = self._types[path[0]]
        for name in path[1:]:
            type_ = next(field.dtype for field in type_.fields if field.name == name)
        return found, type_

    def _is_nan(self, arg: pl.Expr) -> Expr:
        found, _ = self._column(arg)
        if kind_of(found.type) != "float":
            raise Untranslatable(arg)
        return Compare("=", found, Literal(math.nan, pa.float64()))

    def _compared(self, op: str, left: pl.Expr, right: pl.Expr) -> Expr:
        if left.meta.is_literal():
            left, right, op = right, left, _SWAPPED.get(op, op)
        if not right.meta.is_literal():
            raise Untranslatable(right)
        value, type_ = _constant(right)
        if value is None:
            raise Untranslatable(right)
        arg, cast = self._widened(left)
        found, own = self._column(arg)
        kind = kind_of(found.type)
        if cast is None:
            if own != type_ and not (own.is_decimal() and type_.is_decimal()):
                raise Untranslatable(right)
            return Compare(op, found, constant_of(value, kind))
        if cast != type_:
            raise Untranslatable(right)
        if kind == "integer" and cast == pl.Float64():
            return Compare(op, Cast(found, pa.float64()), constant_of(value, "float"))
        midnight = isinstance(value, datetime.datetime) and value.time() == datetime.time() and value.tzinfo is None
        if kind == "date" and midnight:
            return Compare(op, found, constant_of(value.date(), kind))
        if kind == "integer" and cast.is_signed_integer():
            return Compare(op, found, constant_of(value, kind))
        raise Untranslatable(left)

    @staticmethod
    def _widened(expr: pl.Expr) -> tuple[pl.Expr, pl.DataType | None]:
        """Return the operand of a cast that loses nothing, and the type; the expression itself if it is none."""
        operands = _operands(expr)
        if len(operands) == 1:
            for type_ in (pl.Float64(), pl.Int64(), pl.Datetime("us"), pl.Datetime("ms")):
                for cast in (operands[0].cast(type_), operands[0].cast(type_, strict=False)):
                    if expr.meta.eq(cast):
                        return operands[0], type_
        return expr, None

    def _is_in(self, arg: pl.Expr, values: pl.Expr) -> Expr:
        found, own = self._column(arg)
        kind, constants = kind_of(found.type), pl.select(values).to_series()
        if constants.dtype == pl.List:
            if len(constants) != 1:
                raise Untranslatable(values)
            constants = constants.explode()
        if len(constants) > MOST_VALUES or constants.null_count() or constants.dtype != own:
            raise Untranslatable(values)
        if not len(constants):
            raise Untranslatable(values)
        return In(found, tuple(constant_of(value, kind) for value in _python_values(constants)))


def _constant(literal: pl.Expr) -> tuple[Any, pl.DataType]:
    """Return the value of a literal, and its type."""
    values = pl.select(literal).to_series()
    if len(values) != 1:
        raise Untranslatable(literal)
    (value,) = _python_values(values)
    return value, values.dtype


def _python_values(values: pl.Series) -> list[Any]:
    """Return values as Python's, by Arrow: polars panics at moments that Python doesn't have."""
    try:
        return list(values.to_arrow().to_pylist())
    except (ValueError, OverflowError, LookupError) as error:
        raise Untranslatable(values) from error
