"""Conversions of Arrow arrays: to types that Hudi lets a column turn into, to Java's text, value by value."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from pudi.errors import SchemaError
from pudi.schema.arrays import joined_arrays
from pudi.schema.types import TIMESTAMP

_MOST_TRIES = 1000
"""Maximum number of conversion calls; values that remain after it become NULL."""


def convert_where_possible(
    convert: Callable[[pa.Array], pa.Array], values: pa.Array, type_: pa.DataType | None
) -> pa.Array:
    """Convert the values of an array one by one in effect, but in few calls.

    An array with values that fail is halved until these are isolated.

    Args:
        convert: an elementwise conversion; it raises `pa.ArrowException` or `ValueError` if it refuses a value.
        values: what to convert.
        type_: the type of the results.

    Returns:
        The results, NULL where `convert` refused the value, or where too many others were refused to try it.
    """
    converted: list[pa.Array] = []
    waiting = [values]
    for _ in range(_MOST_TRIES):
        if not waiting:
            break
        part = waiting.pop()
        try:
            converted.append(convert(part))
        except pa.ArrowNotImplementedError:  # no value of this type can be converted
            return pa.nulls(len(values), type_)
        except (pa.ArrowException, ValueError):
            if len(part) <= 1:
                converted.append(pa.nulls(len(part), type_))
            else:
                half = len(part) // 2
                waiting += [part[half:], part[:half]]
    converted += [pa.nulls(len(part), type_) for part in reversed(waiting)]
    return converted[0] if len(converted) == 1 else joined_arrays(converted)


_PARTS = r"^(?P<sign>-?)(?P<whole>\d+)(?:\.(?P<part>\d+))?(?:e(?P<exp>[+-]?\d+))?$"


def java_float_text(array: pa.Array) -> pa.Array:
    """The text of `Float.toString` or `Double.toString`: 0.1, 1.0E7, -0.0, NaN, Infinity.

    Digits are the fewest that tell the number from its neighbours, as in Java 19 and later. Older
    Javas print more of them for some numbers (1.9999999999999998E23 for 2e23), and every Java for
    the very smallest (4.9E-324, here 5.0E-324).
    """
    plain = pc.cast(array, pa.string())
    # flatten, unlike field, keeps the nulls of the struct.
    sign, whole, part, exp = pc.extract_regex(plain, _PARTS).flatten()
    every = pc.binary_join_element_wise(whole, part, "")
    kept = pc.utf8_ltrim(every, "0")
    zeros = pc.subtract(pc.utf8_length(every), pc.utf8_length(kept))
    given = pc.cast(pc.if_else(pc.equal(exp, ""), "0", pc.utf8_ltrim(exp, "+")), pa.int32())
    exponent = pc.subtract(pc.subtract(pc.add(given, pc.utf8_length(whole)), 1), zeros)
    digits = pc.utf8_rtrim(kept, "0")
    rest = pc.utf8_slice_codeunits(digits, 1)
    scientific = pc.binary_join_element_wise(
        sign,
        pc.utf8_slice_codeunits(digits, 0, 1),
        ".",
        pc.if_else(pc.equal(rest, ""), "0", rest),
        "E",
        pc.cast(exponent, pa.string()),
        "",
    )
    size = pc.abs(array)
    simple = pc.or_(pc.equal(size, 0), pc.and_(pc.greater_equal(size, 1e-3), pc.less(size, 1e7)))
    decimal = pc.binary_join_element_wise(sign, whole, ".", pc.if_else(pc.equal(part, ""), "0", part), "")
    infinite = pc.if_else(pc.greater(array, 0), "Infinity", "-Infinity")
    text = pc.case_when(
        pc.make_struct(pc.is_nan(array), pc.is_inf(array), simple), "NaN", infinite, decimal, scientific
    )
    return pc.cast(text, pa.string())


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
