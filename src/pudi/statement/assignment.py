"""What becomes of a value that is stored in a column of another type (Spark's Cast.canANSIStoreAssign).

INSERT takes numbers for numbers, anything for text, days for points in time and the other way round. SET casts: it
takes texts for numbers too. Decimals are rounded, away from zero at the half; numbers lose their fraction in integers;
a value beyond the column's range is an error.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from pudi.errors import InvalidArgumentError, NotSupportedError

_WIDE = pa.decimal256(76, 38)
_DIGITS = 38


def check_storable(given: pa.DataType, field: pa.Field) -> None:
    """Refuse a type whose values an insert doesn't store in a column.

    Args:
        given: the type of the values.
        field: the column.

    Raises:
        InvalidArgumentError: a CAST is needed; the message names the column and both types.
    """
    if not _is_storable(given, field.type):
        raise InvalidArgumentError(f"column {field.name}: {given} isn't stored as {field.type}: CAST it in the query")


def _is_storable(given: pa.DataType, wanted: pa.DataType) -> bool:
    if given == wanted or pt.is_null(given):
        return True
    if pt.is_dictionary(given):
        return _is_storable(given.value_type, wanted)
    if pt.is_struct(given) or pt.is_map(given) or _is_list(given):
        same = given.num_fields == wanted.num_fields and (type(given) is type(wanted) or _is_list(given, wanted))
        return same and all(
            _is_storable(given.field(number).type, wanted.field(number).type) for number in range(given.num_fields)
        )
    if _is_text(wanted):
        return not pt.is_nested(given)
    return any(kind(given) and kind(wanted) for kind in (_is_number, _is_time, _is_binary))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind))


def _is_time(kind: pa.DataType) -> bool:
    return bool(pt.is_timestamp(kind) or pt.is_date(kind))


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_fixed_size_binary(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_large_string(kind))


def _is_list(*kinds: pa.DataType) -> bool:
    return all(pt.is_list(kind) or pt.is_large_list(kind) for kind in kinds)


def stored(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    """The values of a column as those of a table's column.

    Raises:
        InvalidArgumentError: a value is none of the column's type.
        NotSupportedError: a text that engines print differently.
    """
    if column.type == field.type:
        return column
    try:
        return _converted(column, field.type)
    except pa.ArrowException as error:
        raise InvalidArgumentError(
            f"column {field.name}: {column.type} does not become {field.type}: {error}"
        ) from error


def _converted(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    given = column.type
    if _is_text(given) and not _is_text(wanted):
        column = pc.utf8_trim_whitespace(column)
    elif _is_text(wanted) and (pt.is_floating(given) or pt.is_timestamp(given)):
        raise NotSupportedError(f"{given} as text: CAST it in the query, since engines print such values differently")
    elif pt.is_decimal(wanted) and (pt.is_decimal(given) or pt.is_floating(given)):
        column = pc.round(_wide(column, wanted.scale), wanted.scale, "half_towards_infinity")
    elif pt.is_integer(wanted) and (pt.is_decimal(given) or pt.is_floating(given)):
        column = pc.trunc(column)
    elif pt.is_integer(given) and pt.is_decimal(wanted):
        column = column.cast(pa.decimal256(_DIGITS + wanted.scale, wanted.scale))  # Arrow looks at types before values
    elif pt.is_floating(wanted) and pt.is_decimal(given):
        column = column.cast(pa.string())  # rounded once
    elif pt.is_date(wanted) and pt.is_timestamp(given):
        column = pc.floor_temporal(column, unit="day")
    return column.cast(wanted)


def _wide(column: pa.ChunkedArray, scale: int) -> pa.ChunkedArray:
    """Numbers as decimals with all the digits that rounding looks at; of a float those that are printed."""
    if pt.is_decimal(column.type):
        return column.cast(pa.decimal256(column.type.precision + 1, column.type.scale))
    tiny = pc.less(pc.abs(column), 10.0 ** -min(scale + 2, _DIGITS))
    return pc.if_else(tiny, 0.0, column).cast(pa.string()).cast(_WIDE)
