"""Convert Arrow schemas to the types that a table's columns can have."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from pudi.errors import SchemaError
from pudi.schema.fields import check_names

MAX_DEPTH = 64
"""Maximum nesting depth of types, in a user's schema and in a stored one."""

MAX_DECIMAL_DIGITS = 38
"""Digits of the widest decimal that Spark, and so Hudi, can hold."""

TIMESTAMP = pa.timestamp("us", tz="UTC")
LOCAL_TIMESTAMP = pa.timestamp("us")

_SIMPLE: dict[pa.DataType, pa.DataType] = {
    pa.bool_(): pa.bool_(),
    # Spark has no smaller integer that Hudi's Avro schema could tell from an int.
    pa.int8(): pa.int32(),
    pa.int16(): pa.int32(),
    pa.int32(): pa.int32(),
    pa.int64(): pa.int64(),
    pa.uint8(): pa.int32(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.float16(): pa.float32(),
    pa.float32(): pa.float32(),
    pa.float64(): pa.float64(),
    pa.string(): pa.string(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.binary(): pa.binary(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date32(): pa.date32(),
    pa.date64(): pa.date32(),
}

_Test = Callable[[pa.DataType], bool]

_REFUSED: tuple[tuple[_Test, str], ...] = (
    (pa.types.is_uint64, "Hudi has no unsigned 64-bit integers; cast it to int64, or to decimal128(20, 0)"),
    (pa.types.is_null, "a column needs a type; cast it to the type its values will have"),
    (pa.types.is_time, "Spark can't read a time of day from Parquet; cast it to int64 or string"),
    (pa.types.is_duration, "Hudi has no durations; cast it to int64"),
    (pa.types.is_interval, "Hudi has no intervals; cast it to int64 or string"),
    (pa.types.is_union, "Hudi has no unions; use a struct"),
)


def normalise(schema: pa.Schema) -> pa.Schema:
    """The schema as a Hudi table holds it, with every type one of pudi's own and no metadata.

    Pudi's types are bool, int32, int64, float32, float64, decimal128, string, binary, date32, timestamp[us, UTC],
    timestamp[us], struct, list and map with string keys. Large, view, dictionary and run-end encoded types become their
    value types; int8, int16, uint8 and uint16 become int32, uint32 becomes int64, float16 becomes float32, any
    timestamp becomes microseconds (`conform` checks the values when it casts the data). Names and nullability stay.

    Raises:
        SchemaError: a name or a type can't be stored in a Hudi table; says which and what to do.
    """
    return pa.schema(_normalise_fields(list(schema), ""))


def _normalise_fields(fields: list[pa.Field], path: str) -> list[pa.Field]:
    check_names(fields, path)
    return [
        pa.field(field.name, normalise_type(field.type, f"{path}.{field.name}" if path else field.name), field.nullable)
        for field in fields
    ]


def normalise_type(kind: pa.DataType, path: str, depth: int = 0) -> pa.DataType:
    """One type as a Hudi table holds it; see `normalise`.

    Args:
        kind: any Arrow type.
        path: dotted name of the column, for messages.
        depth: how many types enclose this one.

    Raises:
        SchemaError: the type can't be stored in a Hudi table.
    """
    if depth > MAX_DEPTH:
        raise SchemaError(f"column {path!r}: types are nested deeper than {MAX_DEPTH} levels")
    simple = _SIMPLE.get(kind)
    if simple is not None:
        if not casts_views() and (pa.types.is_string_view(kind) or pa.types.is_binary_view(kind)):
            raise SchemaError(
                f"column {path!r} has type {kind}, which pyarrow {pa.__version__} can't read: install a later one, or "
                f"cast it to {simple} where it's made"
            )
        return simple
    if pa.types.is_dictionary(kind) or is_run_end_encoded(kind):
        return normalise_type(kind.value_type, path, depth + 1)
    if pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_timestamp(kind):
        return LOCAL_TIMESTAMP if kind.tz is None else TIMESTAMP
    if pa.types.is_decimal(kind):
        return _normalise_decimal(kind, path)
    if pa.types.is_struct(kind):
        return pa.struct(_normalise_struct(kind, path, depth))
    if pa.types.is_map(kind):
        return _normalise_map(kind, path, depth)
    if is_any_list(kind):
        item = kind.value_field
        return list_of(normalise_type(item.type, f"{path}.element", depth + 1), nullable=item.nullable)
    for test, advice in _REFUSED:
        if test(kind):
            raise SchemaError(f"column {path!r} has type {kind}: {advice}")
    raise SchemaError(f"column {path!r} has type {kind}, which a Hudi table can't hold; cast it to a plain type")


@cache
def casts_views() -> bool:
    """Return whether this release of pyarrow turns views of texts and bytes into other layouts; 17 doesn't."""
    try:
        pc.cast(pa.nulls(0, pa.string_view()), pa.large_binary())
    except pa.ArrowNotImplementedError:
        return False
    return True


def _normalise_decimal(kind: pa.DataType, path: str) -> pa.DataType:
    if kind.precision > MAX_DECIMAL_DIGITS or not 0 <= kind.scale <= kind.precision:
        raise SchemaError(
            f"column {path!r} has type {kind}: Hudi's decimals have 1 to {MAX_DECIMAL_DIGITS} digits, "
            "0 to all of them after the point; cast it"
        )
    return pa.decimal128(kind.precision, kind.scale)


def _normalise_struct(kind: pa.DataType, path: str, depth: int) -> list[pa.Field]:
    fields = list(kind)
    if not fields:
        raise SchemaError(f"column {path!r} is a struct without fields, which Parquet can't hold; drop it")
    check_names(fields, path)
    return [
        pa.field(field.name, normalise_type(field.type, f"{path}.{field.name}", depth + 1), field.nullable)
        for field in fields
    ]


def _normalise_map(kind: pa.DataType, path: str, depth: int) -> pa.DataType:
    key = normalise_type(kind.key_type, f"{path}.key", depth + 1)
    if key != pa.string():
        raise SchemaError(f"column {path!r} is a map with {key} keys: Hudi's maps have string keys; cast them")
    item = kind.item_field
    return map_of(normalise_type(item.type, f"{path}.value", depth + 1), nullable=item.nullable)


def list_of(item: pa.DataType, *, nullable: bool = True) -> pa.DataType:
    """A list as pudi spells it: the field inside is named `element`, as in Parquet's three-level lists."""
    return pa.list_(pa.field("element", item, nullable))


def map_of(value: pa.DataType, *, nullable: bool = True) -> pa.DataType:
    """A map as pudi spells it: string keys, fields named `key` and `value`."""
    return pa.map_(pa.field("key", pa.string(), nullable=False), pa.field("value", value, nullable))


def takes_as_is(target: pa.DataType, given: pa.DataType) -> bool:
    """Return whether a type is another one, or differs from it only in nulls that it takes and the other does not."""
    if target.equals(given):
        return True
    kinds = (pa.types.is_struct, pa.types.is_list, pa.types.is_map)
    if not any(is_kind(target) and is_kind(given) for is_kind in kinds) or target.num_fields != given.num_fields:
        return False
    pairs = [(target.field(number), given.field(number)) for number in range(target.num_fields)]
    return all(
        to.name == own.name and (to.nullable or not own.nullable) and takes_as_is(to.type, own.type)
        for to, own in pairs
    )


def is_java_integer(kind: pa.DataType) -> bool:
    """Return whether Hudi holds values of a type as Java's `Integer`.

    Its ordering value for a missing one is the `Integer` 0: it compares with these types, and is null in all others.
    """
    return bool(pa.types.is_int32(kind) or pa.types.is_date32(kind))


def is_any_list(kind: pa.DataType) -> bool:
    """Whether the type is a list in any of Arrow's layouts."""
    types = pa.types
    # list views came with pyarrow 16, their large form too; maps are lists only in C++.
    return bool(
        types.is_list(kind)
        or types.is_large_list(kind)
        or types.is_fixed_size_list(kind)
        or types.is_list_view(kind)
        or types.is_large_list_view(kind)
    )


def is_run_end_encoded(kind: pa.DataType) -> bool:
    """Whether the type is run-end encoded."""
    return bool(pa.types.is_run_end_encoded(kind))
