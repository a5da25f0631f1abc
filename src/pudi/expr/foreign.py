"""Filters of other libraries as conditions of `where`: what their translations share.

A translated condition is true for all rows for which the library's is true, so that a read may leave out the others.
What has no certain counterpart is left out, and whoever pushed the filter applies it again to the rows that come.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import TypeVar

import pyarrow as pa
import pyarrow.types as pt

from pudi.errors import PudiError
from pudi.expr.binder import bind
from pudi.expr.sqltypes import is_binary, is_decimal, is_float, is_integer, is_string, is_timestamp
from pudi.expr.tree import Column, Expr, Like, Literal

Node = TypeVar("Node")

MOST_VALUES = 10_000
"""Values of a set that a filter is translated with; files are pruned by each of them."""


class Untranslatable(Exception):
    """A filter, or a part of it, has no certain counterpart."""


def bound_conditions(parts: Iterable[Node], translate: Callable[[Node], Expr], schema: pa.Schema) -> tuple[Expr, ...]:
    """Return those parts of a conjunction that can be translated, bound to the columns.

    Args:
        parts: the operands of AND, in the library's form.
        translate: makes a condition from one of them; raises `Untranslatable`.
        schema: the columns that they are about.
    """
    conditions: dict[Expr, None] = {}
    for part in parts:
        try:
            conditions[bind(translate(part), schema)] = None  # once, however often it was pushed
        except (Untranslatable, PudiError, RecursionError):
            continue
    return tuple(conditions)


def column(path: tuple[str, ...], schema: pa.Schema) -> Column:
    """Return a column, or the field inside a struct, of exactly these names."""
    if not path or schema.get_field_index(path[0]) < 0:  # missing, or there several times
        raise Untranslatable(path)
    kind = schema.field(path[0]).type
    for name in path[1:]:
        if not pt.is_struct(kind) or kind.get_field_index(name) < 0:
            raise Untranslatable(path)
        kind = kind.field(name).type
    return Column(path, kind)


def kind_of(type_: pa.DataType | None) -> str:
    """Return the kind of type within which libraries compare values as `where` does."""
    if type_ is None:
        raise Untranslatable(type_)
    for name, belongs in _KINDS.items():
        if belongs(type_):
            return name
    raise Untranslatable(type_)


_KINDS: dict[str, Callable[[pa.DataType], bool]] = {
    "boolean": pt.is_boolean,
    "integer": is_integer,
    "float": is_float,
    "decimal": is_decimal,
    "text": is_string,
    "binary": is_binary,
    "date": pt.is_date32,
    "moment": lambda type_: is_timestamp(type_) and type_.tz is not None,
    "local time": lambda type_: is_timestamp(type_) and type_.tz is None,
}


def constant_of(value: object, kind: str) -> Literal:
    """Return a Python value as a constant of a kind of types.

    Args:
        value: the value; not None.
        kind: see `kind_of`.
    """
    match kind, value:
        case "boolean", bool():
            return Literal(value, pa.bool_())
        case "integer", int():
            return Literal(value, pa.int64())
        case "float", float():
            return Literal(value, pa.float64())
        case "decimal", Decimal() if value.is_finite():
            digits, exponent = value.as_tuple().digits, int(value.as_tuple().exponent)
            scale = max(0, -exponent)
            if max(len(digits) + max(0, exponent), scale) <= 38:
                return Literal(value, pa.decimal128(38, scale))
        case "text", str():
            return Literal(value, pa.string())
        case "binary", bytes():
            return Literal(value, pa.binary())
        case "date", datetime.date() if not isinstance(value, datetime.datetime):
            return Literal(value, pa.date32())
        case "moment", datetime.datetime() if value.tzinfo is not None:
            return Literal(value.astimezone(datetime.timezone.utc), pa.timestamp("us", tz="UTC"))
        case "local time", datetime.datetime() if value.tzinfo is None:
            return Literal(value, pa.timestamp("us"))
    raise Untranslatable(value)


def like(arg: Expr, text: object, *, before: bool, after: bool) -> Like:
    """Return the condition that a text begins with, ends with or contains another.

    Args:
        arg: the text.
        text: the other one.
        before: whether anything may precede it.
        after: whether anything may follow it.
    """
    if not isinstance(text, str):
        raise Untranslatable(text)
    quoted = "".join(f"\\{character}" if character in "\\%_" else character for character in text)
    return Like(arg, f"{'%' if before else ''}{quoted}{'%' if after else ''}")
