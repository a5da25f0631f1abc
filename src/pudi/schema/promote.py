"""Values of one type as another that Hudi lets a column turn into: an Arrow array and a type in, an array out."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from pudi.errors import SchemaError
from pudi.schema.java_text import java_float_text
from pudi.schema.types import TIMESTAMP


def promote(array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
    """Values as Hudi rewrites them when a column's type changes.

    float becomes double through its decimal text (0.1 stays 0.1), numbers become text as Java prints them, a long
    becomes a timestamp as microseconds, floats become decimals rounded half up. Besides the allowed changes of a column
    (`written_type`, `may_change`), timestamps of any unit become microseconds, and bytes and shorts, which Spark marks
    in Parquet, become int.
    Source: HoodieAvroUtils.rewritePrimaryType, rewritePrimaryTypeWithDiffSchemaType; verified against Hudi 1.2.

    Args:
        array: values of a plain type.
        target: a plain type of pudi's.
        path: dotted name of the column, for messages.

    Raises:
        SchemaError: the conversion does not exist, a text is not a date or number, or a number exceeds the decimal.
    """
    types = pa.types
    old = array.type
    if types.is_signed_integer(old) and types.is_integer(target) and old.bit_width < target.bit_width:
        return pc.cast(array, target)
    if types.is_signed_integer(old) and types.is_floating(target):
        return pc.cast(array, target, safe=False)  # rounds to the nearest, as Java does
    if types.is_float32(old) and types.is_float64(target):
        return pc.cast(pc.cast(array, pa.string()), target)
    if types.is_timestamp(old) and types.is_timestamp(target) and _same_clock(old, target):
        return pc.cast(pc.floor_temporal(array, unit="microsecond"), target)
    if types.is_int64(old) and target == TIMESTAMP:
        return pc.cast(array, target)
    if target == pa.string():
        return _text(array, path)
    if target == pa.binary() and (_is_bytes(old) or types.is_string(old)):
        return pc.cast(array, target)
    if types.is_decimal(target) and _decimal_like(old, target):
        return _checked(array, _decimal_source(array), target, path)
    if target == pa.date32() and types.is_string(old):
        return _checked(array, array, target, path)
    raise _refusal(path, old, target)


def _text(array: pa.Array, path: str) -> pa.Array:
    types = pa.types
    old = array.type
    if types.is_floating(old):
        return java_float_text(array)
    plain = types.is_signed_integer(old) or types.is_large_string(old) or types.is_decimal(old) or types.is_date(old)
    if plain or _is_bytes(old):
        return pc.cast(array, pa.string())
    raise _refusal(path, old, pa.string())


def _decimal_like(old: pa.DataType, target: pa.DataType) -> bool:
    types = pa.types
    if types.is_decimal(old):
        return bool(target.scale >= old.scale and target.precision - target.scale >= old.precision - old.scale)
    return bool(types.is_signed_integer(old) or types.is_floating(old) or types.is_string(old))


def _decimal_source(array: pa.Array) -> pa.Array:
    """Return floats as text, whose digits Hudi converts to decimals; integers as decimals that hold them all."""
    if pa.types.is_integer(array.type):
        return pc.cast(array, pa.decimal128(19, 0))
    return pc.cast(array, pa.string()) if pa.types.is_floating(array.type) else array


def _checked(array: pa.Array, source: pa.Array, target: pa.DataType, path: str) -> pa.Array:
    try:
        if pa.types.is_decimal(target) and pa.types.is_string(source.type):
            # parsed with all digits that a decimal can have, then rounded: a cast of text to a decimal never rounds
            wide = pc.cast(source, pa.decimal256(76, 38))
            return pc.cast(pc.round(wide, target.scale, "half_towards_infinity"), target)
        return pc.cast(source, target)
    except pa.ArrowInvalid as error:
        raise SchemaError(f"column {path!r} has {array.type} values that are no {target} ({error})") from error


def _same_clock(old: pa.DataType, target: pa.DataType) -> bool:
    # Nanoseconds without a zone are Parquet's INT96, which Spark used for instants.
    return bool((old.tz is None) == (target.tz is None) or old.unit == "ns")


def _is_bytes(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind))


def _refusal(path: str, old: pa.DataType, target: pa.DataType) -> SchemaError:
    return SchemaError(f"column {path!r} is {old} in the file and {target} in the table, which Hudi can't turn it into")
