"""The Arrow types of the `where` language, their common types, and the casts that agree on both engines.

Common types follow Spark's ANSI type coercion (`AnsiTypeCoercion`).
"""

from __future__ import annotations

from enum import Enum

import pyarrow as pa
import pyarrow.types as pt

MAX_DECIMAL_DIGITS = 38
_INTEGERS = {
    pa.int8(): ("TINYINT", 3, "Y"),
    pa.int16(): ("SMALLINT", 5, "S"),
    pa.int32(): ("INT", 10, ""),
    pa.int64(): ("BIGINT", 19, "L"),
}
"""Spark's name, the digits of the greatest value, and the suffix of constants."""
_PLAIN_NAMES = {type_: name for type_, (name, _, _) in _INTEGERS.items()} | {
    pa.bool_(): "BOOLEAN",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.date32(): "DATE",
    pa.null(): "VOID",
}
NAMED_TYPES = {name: type_ for type_, name in _PLAIN_NAMES.items() if name != "VOID"}
"""The types without parameters and layouts, by Spark's name."""


class CastKind(Enum):
    """The properties of a cast.

    SAME needs no work in Spark (two Arrow types of one Spark type). SAFE can't fail. CHECKED raises an error for values
    that don't fit. TEXT prints an integer and can't fail. All but TEXT keep the order of values.
    """

    SAME = "same"
    SAFE = "safe"
    CHECKED = "checked"
    TEXT = "text"


def is_integer(type_: pa.DataType) -> bool:
    """Return whether a type is a signed integer; Spark has no unsigned ones."""
    return type_ in _INTEGERS


def is_float(type_: pa.DataType) -> bool:
    """Return whether a type is FLOAT or DOUBLE."""
    return bool(pt.is_float32(type_) or pt.is_float64(type_))


def is_decimal(type_: pa.DataType) -> bool:
    """Return whether a type is DECIMAL of up to 38 digits and non-negative scale."""
    return bool(pt.is_decimal128(type_)) and 0 <= type_.scale <= type_.precision


def is_numeric(type_: pa.DataType) -> bool:
    """Return whether arithmetic works on a type."""
    return is_integer(type_) or is_float(type_) or is_decimal(type_)


def is_string(type_: pa.DataType) -> bool:
    """Return whether a type is STRING, in any of Arrow's layouts."""
    return bool(pt.is_string(type_) or pt.is_large_string(type_) or pt.is_string_view(type_))


def is_binary(type_: pa.DataType) -> bool:
    """Return whether a type is BINARY, in any of Arrow's layouts."""
    return bool(
        pt.is_binary(type_) or pt.is_large_binary(type_) or pt.is_binary_view(type_) or pt.is_fixed_size_binary(type_)
    )


def is_timestamp(type_: pa.DataType) -> bool:
    """Return whether a type is TIMESTAMP or TIMESTAMP_NTZ in milliseconds or microseconds, Hudi's units."""
    return bool(pt.is_timestamp(type_)) and type_.unit in ("ms", "us")


def sql_name(type_: pa.DataType) -> str | None:
    """Return Spark's name of the type; None if `where` supports only IS NULL on it."""
    name = _PLAIN_NAMES.get(type_)
    if name is None and is_string(type_):
        name = "STRING"
    elif name is None and is_binary(type_):
        name = "BINARY"
    elif name is None and is_timestamp(type_):
        name = "TIMESTAMP" if type_.tz else "TIMESTAMP_NTZ"
    elif name is None and is_decimal(type_):
        name = f"DECIMAL({type_.precision},{type_.scale})"
    return name


def holds_integer(type_: pa.DataType, value: int) -> bool:
    """Return whether an integer is in the range of an integer type."""
    return bool(-1 << (type_.bit_width - 1) <= value < 1 << (type_.bit_width - 1))


def integer_suffix(type_: pa.DataType) -> str:
    """Return the suffix of constants of an integer type in Spark SQL."""
    return _INTEGERS[type_][2]


def as_decimal(type_: pa.DataType) -> pa.DataType:
    """Return the decimal type that holds every value of an integer or decimal type."""
    return type_ if is_decimal(type_) else pa.decimal128(_INTEGERS[type_][1], 0)


def plain(type_: pa.DataType) -> pa.DataType | None:
    """Return the layout in which columns of a type are processed; None if the type is not supported.

    Dictionaries and views are unpacked; fixed-size binary becomes binary, as Spark reads it.
    """
    if pt.is_dictionary(type_):
        return plain(type_.value_type)
    if pt.is_string_view(type_):
        return pa.string()
    if pt.is_binary_view(type_) or pt.is_fixed_size_binary(type_):
        return pa.binary()
    return type_ if sql_name(type_) and not pt.is_null(type_) else None


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Return the common type of both sides of a comparison; None if there is none."""
    if left == right:
        return left
    if is_numeric(left) and is_numeric(right):
        return _common_number(left, right)
    if is_string(left) and is_string(right):
        return pa.large_string()
    if is_binary(left) and is_binary(right):
        return pa.large_binary()
    if is_timestamp(left) and is_timestamp(right) and bool(left.tz) == bool(right.tz):
        return pa.timestamp("us", tz="UTC" if left.tz else None)
    return None


def _common_number(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if is_integer(left) and is_integer(right):
        return left if left.bit_width > right.bit_width else right
    if is_float(left) or is_float(right):
        return pa.float64()
    return wider_decimal(as_decimal(left), as_decimal(right))


def wider_decimal(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Return the decimal type that holds the values of two; None if it has more digits than there are."""
    scale = max(left.scale, right.scale)
    return decimal(max(left.precision - left.scale, right.precision - right.scale) + scale, scale)


def decimal_product(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Return the type of a product of decimals, the same in Arrow and Spark up to 38 digits; None beyond."""
    return decimal(left.precision + right.precision + 1, left.scale + right.scale)


def decimal_sum(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Return the type of a sum or difference of decimals, as of `decimal_product`."""
    scale = max(left.scale, right.scale)
    return decimal(max(left.precision - left.scale, right.precision - right.scale) + scale + 1, scale)


def decimal(precision: int, scale: int) -> pa.DataType | None:
    """Return a decimal type; None if it has more digits than there are."""
    return pa.decimal128(precision, scale) if precision <= MAX_DECIMAL_DIGITS else None


def cast_kind(source: pa.DataType, target: pa.DataType) -> CastKind | None:
    """Return the kind of a cast; None if the engines (or two session settings) would disagree on it."""
    kind: CastKind | None = None
    if (
        source == target
        or plain(source) == target
        or any(is_(source) and is_(target) for is_ in (is_string, is_binary))
    ):
        kind = CastKind.SAME
    elif is_timestamp(source) and is_timestamp(target) and bool(source.tz) == bool(target.tz):
        kind = CastKind.SAME if (source.unit, target.unit) != ("us", "ms") else None
    elif is_integer(source) and is_integer(target):
        kind = CastKind.SAFE if target.bit_width >= source.bit_width else CastKind.CHECKED
    elif is_integer(source) and is_decimal(target):
        if _INTEGERS[source][1] + target.scale <= MAX_DECIMAL_DIGITS:
            fits = target.precision - target.scale >= _INTEGERS[source][1]
            kind = CastKind.SAFE if fits else CastKind.CHECKED
    elif is_integer(source) and is_string(target):
        kind = CastKind.TEXT
    elif is_decimal(source) and is_decimal(target):
        rounds = target.scale < source.scale  # away from zero at the half, so that 9.9 may need a digit more
        fits = target.precision - target.scale >= source.precision - source.scale + rounds
        kind = CastKind.SAFE if fits else CastKind.CHECKED
    elif (is_decimal(source) or is_float(source)) and is_integer(target):
        kind = CastKind.CHECKED
    elif is_numeric(source) and is_float(target) and not (is_decimal(source) and pt.is_float32(target)):
        kind = CastKind.SAFE
    return kind
