"""Functions of arrays, maps and structs, and those that take values of any type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.types as pt

from pudi.expr.sqltypes import is_integer
from pudi.statement.translate.casts import cast
from pudi.statement.translate.signatures import Function, Rule, argument, function, given
from pudi.statement.translate.typed_values import (
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INT,
    NULL,
    TEXT,
    Value,
    compared,
    duckdb_name,
    misfit,
    refused,
    spark_name,
    text,
    widest,
)


def one_of(name: str, args: Sequence[Value]) -> tuple[pa.DataType, list[Value]]:
    """Return the type of a value that is one of several, and those as values of this type.

    Raises:
        InvalidArgumentError: they have no common type.
    """
    kind = widest(each.kind for each in args)
    if kind is None:
        raise misfit(name, *(each.kind for each in args))
    return kind, [cast(each, kind) for each in args]


def equal(left: Value, right: Value, operator: str = "=") -> Value:
    """Translate a comparison: NaN equals NaN and is the greatest number.

    Args:
        left: a side.
        right: the other side.
        operator: DuckDB's, `IS NOT DISTINCT FROM` too.

    Raises:
        InvalidArgumentError: Spark compares no such values, or pudi on one machine doesn't.
    """
    kind = compared(left.kind, right.kind, equal=operator not in {"<", "<=", ">", ">="})
    if kind is None:
        raise misfit(operator, left.kind, right.kind)
    return Value(f"({cast(left, kind).sql} {operator} {cast(right, kind).sql})", BOOLEAN)


def coalesce(name: str, args: Sequence[Value]) -> Value:
    """Translate COALESCE."""
    kind, values = one_of(name, args)
    return Value(f"coalesce({', '.join(each.sql for each in values)})", kind)


def _nullif(name: str, args: Sequence[Value]) -> Value:
    first = args[0]
    made = f"CASE WHEN {equal(first, args[1]).sql} THEN NULL ELSE {first.sql} END"
    return Value(made, first.kind) if first.kind != NULL else first


def condition(name: str, value: Value) -> str:
    """Return a condition.

    Raises:
        InvalidArgumentError: the value is no boolean.
    """
    if value.kind == NULL:
        return "CAST(NULL AS BOOLEAN)"
    if value.kind != BOOLEAN:
        raise misfit(name, value.kind)
    return value.sql


def if_else(name: str, args: Sequence[Value]) -> Value:
    """Translate IF."""
    kind, (yes, no) = one_of(name, args[1:])
    return Value(f"CASE WHEN {condition(name, args[0])} THEN {yes.sql} ELSE {no.sql} END", kind)


def _if_there(name: str, args: Sequence[Value]) -> Value:
    kind, (yes, no) = one_of(name, args[1:])
    return Value(f"CASE WHEN {args[0].sql} IS NOT NULL THEN {yes.sql} ELSE {no.sql} END", kind)


def _decode(name: str, args: Sequence[Value]) -> Value:
    if len(args) < 3:
        raise refused("decode of bytes", "CAST them AS STRING")
    pairs, rest = list(zip(args[1::2], args[2::2], strict=False)), args[1:][-1:] if len(args) % 2 == 0 else []
    kind, values = one_of(name, [*(each for _, each in pairs), *rest])
    whens = [
        f"WHEN {equal(args[0], key, 'IS NOT DISTINCT FROM').sql} THEN {value.sql}"
        for (key, _), value in zip(pairs, values, strict=False)
    ]
    other = f" ELSE {values[-1].sql}" if rest else ""
    return Value(f"CASE {' '.join(whens)}{other} END", kind)


def _size(missing: str) -> Rule:
    def rule(name: str, args: Sequence[Value]) -> Value:
        kind, sql = args[0].kind, args[0].sql
        if not (pt.is_list(kind) or pt.is_map(kind)):
            raise misfit(name, kind)
        count = f"len({sql})" if pt.is_list(kind) else f"cardinality({sql})"
        return Value(f"CAST(CASE WHEN {sql} IS NULL THEN {missing} ELSE {count} END AS INTEGER)", INT)

    return rule


def item(value: Value, key: Value) -> Value:
    """Translate `array[0]` and `map['key']`: null where there is none."""
    kind = value.kind
    if pt.is_list(kind) and is_integer(key.kind):
        return Value(f"CASE WHEN {key.sql} >= 0 THEN {value.sql}[{key.sql} + 1] END", kind.value_type)
    return _of_map(value, key)


def _of_map(value: Value, key: Value) -> Value:
    kind = value.kind
    if not pt.is_map(kind):
        raise misfit("[ ]", kind, key.kind)
    if kind.key_type != key.kind and not (is_integer(kind.key_type) and is_integer(key.kind)):
        raise misfit("[ ]", kind, key.kind)
    return Value(f"{value.sql}[{cast(key, kind.key_type).sql}]", kind.item_type)


def _element_at(name: str, args: Sequence[Value]) -> Value:
    value, key = args
    if not pt.is_list(value.kind):
        return _of_map(value, key)
    if not is_integer(key.kind):
        raise misfit(name, value.kind, key.kind)
    found = f"CASE WHEN {key.sql} = 0 THEN error('{name}: elements are counted from 1') ELSE {value.sql}[{key.sql}] END"
    return Value(found, value.kind.value_type)


def _contains(name: str, args: Sequence[Value]) -> Value:
    value, wanted = args
    if not pt.is_list(value.kind) or wanted.kind == NULL:
        raise misfit(name, value.kind, wanted.kind)
    kind = compared(value.kind.value_type, wanted.kind, equal=True)
    if kind != value.kind.value_type and not (is_integer(kind) and is_integer(wanted.kind)):
        raise misfit(name, value.kind, wanted.kind)
    sql, part = value.sql, cast(wanted, kind).sql
    return Value(
        f"CASE WHEN {sql} IS NULL OR {part} IS NULL THEN NULL WHEN list_contains({sql}, {part}) THEN TRUE "
        f"WHEN len({sql}) > list_count({sql}) THEN NULL ELSE FALSE END",
        BOOLEAN,
    )


def _array(name: str, args: Sequence[Value]) -> Value:
    kind, values = one_of(name, args)
    made = pa.list_(kind)
    return Value(f"CAST([{', '.join(each.sql for each in values)}] AS {duckdb_name(made)})", made)


def _map(name: str, args: Sequence[Value]) -> Value:
    if len(args) % 2 or not args:
        raise misfit(name, *(each.kind for each in args))
    key, keys = one_of(name, args[::2])
    kind, values = one_of(name, args[1::2])
    made = pa.map_(key, kind)
    pairs = ", ".join(f"{a.sql}: {b.sql}" for a, b in zip(keys, values, strict=True))
    return Value(f"CAST(MAP {{{pairs}}} AS {duckdb_name(made)})", made)


def struct(names: Sequence[str], values: Sequence[Value]) -> Value:
    """Translate `struct` and `named_struct`."""
    kind = pa.struct([(name, value.kind) for name, value in zip(names, values, strict=True)])
    parts = ", ".join(f"{text(name)}: {value.sql}" for name, value in zip(names, values, strict=True))
    return Value(f"CAST({{{parts}}} AS {duckdb_name(kind)})", kind)


def _named_struct(name: str, args: Sequence[Value]) -> Value:
    names = [each.literal for each in args[::2]]
    if len(args) % 2 or not args or not all(isinstance(each, str) for each in names):
        raise misfit(name, *(each.kind for each in args))
    return struct([str(each) for each in names], args[1::2])


def field(value: Value, name: str) -> Value:
    """Translate `struct.field`, and `map.key` of maps by texts."""
    if pt.is_map(value.kind) and value.kind.key_type == TEXT:
        return _of_map(value, Value(text(name), TEXT, name))
    if not pt.is_struct(value.kind):
        raise misfit(f".{name}", value.kind)
    for each in value.kind:
        if each.name.lower() == name.lower():
            return Value(f"struct_extract({value.sql}, {text(each.name)})", each.type)
    there = ", ".join(each.name for each in value.kind)
    raise misfit(f".{name} (the fields are {there})", value.kind)


def _of_keys(called: str) -> Rule:
    def rule(name: str, args: Sequence[Value]) -> Value:
        kind = args[0].kind
        if not pt.is_map(kind):
            raise misfit(name, kind)
        return Value(f"{called}({args[0].sql})", pa.list_(kind.key_type if called == "map_keys" else kind.item_type))

    return rule


def _has_key(name: str, args: Sequence[Value]) -> Value:
    kind = args[0].kind
    if not pt.is_map(kind) or kind.key_type != args[1].kind:
        raise misfit(name, kind, args[1].kind)
    made = f"CASE WHEN {args[0].sql} IS NOT NULL THEN list_contains(map_keys({args[0].sql}), {args[1].sql}) END"
    return Value(made, BOOLEAN)


def _sorted(name: str, args: Sequence[Value]) -> Value:
    rising = args[1].literal if len(args) > 1 else True
    kind = args[0].kind
    if not pt.is_list(kind) or not isinstance(rising, bool) or (name == "array_sort" and len(args) > 1):
        raise refused(f"{name} by a function or a condition")
    if pt.is_nested(kind.value_type):
        raise refused(f"{name} of {spark_name(kind)}")
    order = "'ASC', 'NULLS LAST'" if name == "array_sort" else "'ASC', 'NULLS FIRST'"
    order = order if rising else "'DESC', 'NULLS LAST'"
    return Value(f"list_sort({args[0].sql}, {order})", kind)


def _extreme(called: str) -> Rule:
    def rule(name: str, args: Sequence[Value]) -> Value:
        kind = args[0].kind
        if not pt.is_list(kind) or pt.is_nested(kind.value_type) or kind.value_type in {FLOAT, DOUBLE}:
            raise refused(f"{name} of {spark_name(kind)}")
        return Value(f"{called}({args[0].sql})", kind.value_type)

    return rule


def _joined(name: str, args: Sequence[Value]) -> Value:
    if args[0].kind != pa.list_(TEXT):
        raise misfit(name, args[0].kind)
    by = argument(name, args[1], "text").sql
    return Value(
        f"CASE WHEN {args[0].sql} IS NOT NULL THEN coalesce(array_to_string({args[0].sql}, {by}), '') END", TEXT
    )


def conversion(kind: pa.DataType) -> Function:
    """Return the function of a type's name: `int(x)` is a CAST."""
    return function(of_1=lambda _, args: cast(args[0], kind))


_SIZE = function(of_1=_size("-1"))
_COALESCE = function(of_any=coalesce)
_IF_NULL = function(of_2=coalesce)

ANY: Mapping[str, Function] = {
    "coalesce": _COALESCE,
    "ifnull": _IF_NULL,
    "nvl": _IF_NULL,
    "nvl2": function(of_3=_if_there),
    "nullif": function(of_2=_nullif),
    "if": function(of_3=if_else),
    "decode": function(of_any=_decode),
    "isnull": function(given("any", BOOLEAN, "({0} IS NULL)")),
    "isnotnull": function(given("any", BOOLEAN, "({0} IS NOT NULL)")),
    "equal_null": function(of_2=lambda _, args: equal(args[0], args[1], "IS NOT DISTINCT FROM")),
    "size": _SIZE,
    "cardinality": _SIZE,
    "array_size": function(of_1=_size("NULL")),
    "element_at": function(of_2=_element_at),
    "array_contains": function(of_2=_contains),
    "array": function(of_any=_array),
    "map": function(of_any=_map),
    "named_struct": function(of_any=_named_struct),
    "map_keys": function(of_1=_of_keys("map_keys")),
    "map_values": function(of_1=_of_keys("map_values")),
    "map_contains_key": function(of_2=_has_key),
    "sort_array": function(of_1=_sorted, of_2=_sorted),
    "array_sort": function(of_1=_sorted),
    "array_max": function(of_1=_extreme("list_max")),
    "array_min": function(of_1=_extreme("list_min")),
    "array_join": function(of_2=_joined),
}
"""Functions of nested values, and of values of any type, by name."""
