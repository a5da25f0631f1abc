"""Translate a pyarrow filter, as DuckDB, DataFusion and others push it, to conditions of `where`.

pyarrow shows no tree of an expression, but serialises it, as it does to pickle it: a file of Arrow's IPC format with
the constants and options as columns, and the tree as key-value pairs of the schema's metadata (`compute::Serialize` in
arrow/compute/expression.cc). pyarrow's own view of metadata keeps each key once; all are read by Arrow's C interface.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pudi.expr.foreign import MOST_VALUES, Untranslatable, bound_conditions, column, constant_of, kind_of, like
from pudi.expr.tree import And, Column, Compare, Expr, In, IsNull, Literal, Not, Or

_COMPARISONS = {
    "equal": "=",
    "not_equal": "<>",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
_SWAPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_EXACT = 1 << 53
"""Smaller integers are exact as DOUBLE."""
_TEXTS = {"starts_with": (False, True), "ends_with": (True, False), "match_substring": (True, True)}
"""Whether anything may come before and after the text."""


_UNKNOWN = (Untranslatable, pa.ArrowException, ValueError, LookupError, TypeError, RuntimeError, StopIteration)
"""Errors of reading a tree that pyarrow can't serialise, or serialises in a form that isn't known."""


@dataclass(frozen=True, slots=True)
class _Call:
    name: str
    args: tuple[Any, ...]
    options: dict[str, Any]


def from_arrow(filter: pc.Expression, schema: pa.Schema) -> tuple[Expr, ...]:
    """Return bound conditions that are true for all rows for which a pyarrow filter is true.

    Args:
        filter: the filter.
        schema: the columns that it is about.
    """
    try:
        tree = _tree(filter)
    except _UNKNOWN:
        return ()
    return bound_conditions(_conjuncts(tree), lambda part: _condition(part, schema, sure=False), schema)


class _ArrowSchema(ctypes.Structure):
    """The beginning of Arrow's C structure of a schema."""

    _fields_ = (("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p))


def _pairs(schema: pa.Schema) -> Iterator[tuple[str, str]]:
    """Yield all keys and values of a schema's metadata, in order."""
    capsule = schema.__arrow_c_schema__()
    of_capsule = ctypes.pythonapi.PyCapsule_GetPointer
    of_capsule.restype, of_capsule.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    place = _ArrowSchema.from_address(of_capsule(capsule, b"arrow_schema")).metadata

    def text() -> str:
        nonlocal place
        (size,) = struct.unpack("=i", ctypes.string_at(place, 4))
        found = ctypes.string_at(place + 4, size).decode()
        place += 4 + size
        return found

    if place:
        (count,) = struct.unpack("=i", ctypes.string_at(place, 4))
        place += 4
        for _ in range(count):
            yield text(), text()


def _tree(filter: pc.Expression) -> Any:
    """Return a filter as calls, columns (their paths) and constants (scalars)."""
    _, (written, *_) = filter.__reduce__()
    with pa.ipc.open_file(written) as file:
        pairs, values = _pairs(file.schema), file.get_batch(0)

        def node(key: str, value: str) -> Any:
            if key == "literal":
                return values.column(int(value))[0]
            if key == "field_ref":
                return (value,)
            if key == "nested_field_ref":
                return tuple(node(*next(pairs))[0] for _ in range(int(value)))
            if key != "call":
                raise Untranslatable(key)
            args, options = [], {}
            while (following := next(pairs))[0] != "end":
                if following[0] == "options":
                    options = dict(values.column(int(following[1]))[0].items())
                else:
                    args.append(node(*following))
            return _Call(value, tuple(args), options)

        return node(*next(pairs))


def _conjuncts(tree: Any) -> Iterator[Any]:
    if isinstance(tree, _Call) and tree.name in ("and_kleene", "and"):
        for arg in tree.args:
            yield from _conjuncts(arg)
    else:
        yield tree


def _condition(tree: Any, schema: pa.Schema, *, sure: bool) -> Expr:
    """Return a condition of a part of a filter.

    Args:
        tree: the part.
        schema: the columns.
        sure: whether it has to be the same for each row, as below NOT; else it may be true where the part isn't.
    """
    if isinstance(tree, tuple):
        return column(tree, schema)
    if isinstance(tree, pa.Scalar):
        if not pt.is_boolean(tree.type):
            raise Untranslatable(tree)
        return Literal(tree.as_py(), tree.type)
    name, args = tree.name, tree.args
    match name:
        case "and_kleene":
            return And(tuple(_condition(arg, schema, sure=sure) for arg in args))
        case "or_kleene":
            return Or(tuple(_condition(arg, schema, sure=sure) for arg in args))
        case "invert":
            return Not(_condition(args[0], schema, sure=True))
        case "is_valid":
            return Not(IsNull(_column(args[0], schema)))
        case "is_null":
            return _is_null(tree, schema)
        case "is_nan":
            return _is_nan(_column(args[0], schema))
        case "is_in":
            return _is_in(tree, schema, sure=sure)
        case "if_else":
            return _null_with_column(args, schema, sure=sure)
    if name in _TEXTS:
        return _text(tree, schema)
    if name not in _COMPARISONS:
        raise Untranslatable(name)
    return _compared(_COMPARISONS[name], args, schema, sure=sure)


def _column(tree: Any, schema: pa.Schema) -> Column:
    if not isinstance(tree, tuple):
        raise Untranslatable(tree)
    return column(tree, schema)


def _is_null(tree: _Call, schema: pa.Schema) -> Expr:
    found = _column(tree.args[0], schema)
    nan = tree.options.get("nan_is_null")
    if nan is not None and nan.as_py() and found.type is not None and pt.is_floating(found.type):
        return Or((IsNull(found), _is_nan(found)))
    return IsNull(found)


def _is_nan(found: Column) -> Expr:
    if kind_of(found.type) != "float":
        raise Untranslatable(found)
    return Compare("=", found, Literal(math.nan, pa.float64()))


def _constant(scalar: Any, kind: str) -> Literal:
    """Return a constant of the kind of a column."""
    if not isinstance(scalar, pa.Scalar) or not scalar.is_valid:
        raise Untranslatable(scalar)
    type_ = scalar.type
    if pt.is_timestamp(type_) and type_.unit == "s":
        type_ = pa.timestamp("us", tz=type_.tz)
    try:
        value = scalar.as_py()
        if kind == "float" and kind_of(type_) == "integer" and abs(value) < _EXACT:
            return constant_of(float(value), kind)
        if kind_of(type_) != kind:
            raise Untranslatable(scalar)
        return constant_of(value, kind)
    except (ValueError, OverflowError) as error:  # a moment that Python doesn't have
        raise Untranslatable(scalar) from error


def _compared(op: str, args: tuple[Any, ...], schema: pa.Schema, *, sure: bool) -> Expr:
    left, right = args
    if isinstance(left, pa.Scalar):
        left, right, op = right, left, _SWAPPED.get(op, op)
    found = _column(left, schema)
    kind = kind_of(found.type)
    value = _constant(right, kind)
    if kind == "float" and (sure or value.value != value.value):
        raise Untranslatable(op)  # in Arrow NaN is neither greater than a number nor equal to itself
    return Compare(op, found, value)


def _is_in(tree: _Call, schema: pa.Schema, *, sure: bool) -> Expr:
    """Return IN; Arrow's is false for null, and knows NaN by its bits."""
    found = _column(tree.args[0], schema)
    kind, values = kind_of(found.type), tree.options["value_set"].values
    matching = tree.options.get("null_matching_behavior")
    skips = matching is not None and matching.as_py() == 1
    if sure or len(values) > MOST_VALUES or (values.null_count and not skips):
        raise Untranslatable(tree)
    constants = tuple(_constant(value, kind) for value in values if value.is_valid)
    return In(found, constants) if constants else Literal(False, pa.bool_())


def _null_with_column(args: tuple[Any, ...], schema: pa.Schema, *, sure: bool) -> Expr:
    """Return `if_else(is_valid(column), is_in(column, …), null)`, which is SQL's IN."""
    condition, chosen, other = args
    is_valid = isinstance(condition, _Call) and condition.name == "is_valid"
    if not is_valid or not isinstance(other, pa.Scalar) or other.is_valid:
        raise Untranslatable(args)
    if isinstance(chosen, _Call) and chosen.name == "is_in" and chosen.args == condition.args:
        floats = kind_of(_column(chosen.args[0], schema).type) == "float"
        return _is_in(chosen, schema, sure=sure and floats)
    if sure:
        raise Untranslatable(args)
    return _condition(chosen, schema, sure=False)


def _text(tree: _Call, schema: pa.Schema) -> Expr:
    found, folds = _column(tree.args[0], schema), tree.options.get("ignore_case")
    if kind_of(found.type) != "text" or folds is None or folds.as_py():
        raise Untranslatable(tree)
    pattern = tree.options["pattern"].as_py()
    before, after = _TEXTS[tree.name]
    return like(found, pattern.decode() if isinstance(pattern, bytes) else pattern, before=before, after=after)


def columns_of(expression: pc.Expression) -> frozenset[str] | None:
    """Return the columns that an expression of pyarrow uses; None if that isn't known."""
    try:
        return frozenset(_used(_tree(expression)))
    except _UNKNOWN:
        return None


def _used(tree: Any) -> Iterator[str]:
    if isinstance(tree, tuple):
        yield tree[0]
    elif isinstance(tree, _Call):
        for arg in tree.args:
            yield from _used(arg)
