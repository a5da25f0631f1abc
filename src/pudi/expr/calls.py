"""Calls of the functions in `pudi.expr.table`: binding, results in Arrow, SQL, order, and expression indexes."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from pudi.errors import NotSupportedError
from pudi.expr import sqltypes
from pudi.expr.table import FUNCTIONS
from pudi.expr.tree import Call, Column, Expr, type_of
from pudi.schema.arrays import one_array


def bound_call(name: str, arg: Expr, options: tuple[object, ...]) -> Call:
    """Return a typed function call on a bound value.

    Args:
        name: the function's name in lower case.
        arg: the value.
        options: the constants after the value.

    Raises:
        NotSupportedError: an unknown function, or unsupported argument types or constants.
    """
    kind, function = type_of(arg), FUNCTIONS.get(name)
    given = options or function.defaults if function else options
    result = function.result(kind, given) if function else None
    if result is None:
        shown = Call(name, arg, options)
        raise NotSupportedError(f"{shown} of a value of type {sqltypes.sql_name(kind)} in where")
    return Call(name, arg, given, result)


def index_call(function: str, options: Mapping[str, str], column: Column) -> Call | Column | None:
    """Return the expression of an expression index; None if pudi doesn't support it.

    Args:
        function: the index's function.
        options: its settings by Hudi's keys (HoodieExpressionIndex).
        column: the bound column.
    """
    if function == "identity":
        return column
    known = FUNCTIONS.get(function)
    if known is None or known.index is None or column.type is None or sqltypes.plain(column.type) != column.type:
        return None
    try:
        return None if "trimString" in options else bound_call(function, column, known.index(options))
    except (KeyError, ValueError, NotSupportedError):
        return None


def keeps_order(call: Call) -> bool:
    """Return whether a greater argument never gives a smaller result."""
    return FUNCTIONS[call.name].keeps_order(call.options)


def depends_on_zone(call: Call) -> bool:
    """Return whether the result in Spark depends on the session time zone."""
    return FUNCTIONS[call.name].zoned(type_of(call.arg))


def apply_call(call: Call, values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Compute a function's results.

    Args:
        call: the bound function.
        values: the values of its argument, in its type.

    Raises:
        InvalidArgumentError: a point in time is outside the years 1 to 9999.
    """
    values = one_array(values)
    return FUNCTIONS[call.name].arrow(values, call.options)


def widened(call: Call, least: pa.Array, greatest: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Widen bounds computed in an unknown time zone so that they hold in UTC; null if unknown.

    Args:
        call: a function that keeps the order of values.
        least: the minimum results.
        greatest: the maximum results.
    """
    widen = FUNCTIONS[call.name].widen
    assert widen is not None, f"{call.name} depends on no time zone"
    return widen(least, greatest, call.options)
