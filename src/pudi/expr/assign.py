"""Expressions as new column values: constants from Python, columns replaced by others, values of all rows together."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa

from pudi.errors import InvalidArgumentError, NotSupportedError, PudiError
from pudi.expr.arrow import values_of
from pudi.expr.literals import number_literal
from pudi.expr.tree import Column, Expr, Literal, rewritten, type_of
from pudi.schema.arrays import repeated

_TYPES = {
    bool: pa.bool_(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    datetime.date: pa.date32(),
}


def constant(value: object) -> Literal:
    """Return a Python value as a constant; a text is a STRING here, not an expression.

    Raises:
        InvalidArgumentError: the value has no SQL type.
    """
    if value is None:
        return Literal(None, pa.null())
    if isinstance(value, datetime.datetime):
        try:
            moment = value.astimezone(datetime.timezone.utc) if value.tzinfo else value
        except OverflowError as error:
            raise InvalidArgumentError(f"{value!r} lies beyond the years 1 to 9999 in UTC") from error
        return Literal(moment, pa.timestamp("us", tz="UTC" if value.tzinfo else None))
    for kind, type_ in _TYPES.items():
        if isinstance(value, kind):
            return Literal(value, type_)
    if isinstance(value, int) or (isinstance(value, Decimal) and value.is_finite()):
        return number_literal(f"{value:f}" if isinstance(value, Decimal) else str(value))
    raise InvalidArgumentError(
        f"{value!r} is no constant: give SQL text, a number, bool, date, datetime, bytes or None"
    )


def outside_where(error: PudiError) -> str:
    """Return the error message for an expression outside of `where`, whose messages name `where`."""
    message = re.sub(r"^where (?=is |must |has |can't )|(?: named)? in `?where`?(?![\w(])", "", error.message)
    return f"not supported: {message}" if isinstance(error, NotSupportedError) else message


def replace_columns(expr: Expr, change: Callable[[Column], Column]) -> Expr:
    """Return the tree with its columns replaced."""
    return rewritten(expr, lambda node: change(node) if isinstance(node, Column) else None)


def evaluate_all(expr: Expr, rows: pa.Table) -> pa.Array | pa.ChunkedArray:
    """Compute the value of a bound expression for each row; a plain column of any type is returned unchanged.

    Raises:
        InvalidArgumentError: overflow, division by zero, or a value that doesn't fit the type.
    """
    if isinstance(expr, Literal):
        return repeated(pa.scalar(expr.value, expr.type), rows.num_rows)
    if isinstance(expr, Column) and len(expr.path) == 1:
        return rows[expr.path[0]]
    if not rows.num_rows:
        return pa.nulls(0, type_of(expr))
    return pa.chunked_array(values_of(expr, rows))
