"""Store values in columns of another type, by the rules of Spark's Cast.canANSIStoreAssign.

INSERT takes numbers for numbers, anything for text, days for points in time and the other way round. SET casts: it
takes texts for numbers too, and whole numbers for points in time, as seconds since 1970, and the other way round.
Decimals are rounded, away from zero at the half; numbers lose their fraction in integers; a value beyond the column's
range is an error.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.expr.sqltypes import is_binary, is_string
from pudi.schema.arrays import joined_arrays, list_offsets
from pudi.statement.translate.typed_values import spark_name

_WIDE = pa.decimal256(76, 38)
_DIGITS = 38


def check_count(columns: Sequence[pa.Field], count: int) -> None:
    """Refuse a query with more or fewer columns than those that it is to fill.

    Raises:
        InvalidArgumentError: it has others.
    """
    if count != len(columns):
        names = ", ".join(each.name for each in columns)
        raise InvalidArgumentError(f"the table takes {len(columns)} columns ({names}), the query has {count}")


def check_storable(given: pa.DataType, field: pa.Field, *, by_name: bool = False) -> None:
    """Refuse a type whose values an insert doesn't store in a column.

    Args:
        given: the type of the values.
        field: the column.
        by_name: whether fields of structs meet by name; see `stored`.

    Raises:
        InvalidArgumentError: a CAST is needed; the message names the column and both types.
    """
    if not _is_storable(given, field.type, by_name):
        kind, wanted = spark_name(given).lower(), spark_name(field.type).lower()
        raise InvalidArgumentError(f"column {field.name}: {kind} isn't stored as {wanted}: CAST it in the query")


def _is_storable(given: pa.DataType, wanted: pa.DataType, by_name: bool) -> bool:
    if given == wanted or pt.is_null(given):
        return True
    if pt.is_dictionary(given):
        return _is_storable(given.value_type, wanted, by_name)
    if pt.is_struct(given) or pt.is_map(given) or _is_list(given):
        same = given.num_fields == wanted.num_fields and (type(given) is type(wanted) or _is_list(given, wanted))
        order = places(given, wanted, by_name=by_name and pt.is_struct(given)) if same else []
        return same and all(
            _is_storable(given.field(place).type, wanted.field(number).type, by_name)
            for number, place in enumerate(order)
        )
    if is_string(wanted):
        return not pt.is_nested(given)
    return any(kind(given) and kind(wanted) for kind in (_is_number, _is_time, is_binary))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind))


def _is_time(kind: pa.DataType) -> bool:
    return bool(pt.is_timestamp(kind) or pt.is_date(kind))


def _is_list(*kinds: pa.DataType) -> bool:
    return all(pt.is_list(kind) or pt.is_large_list(kind) for kind in kinds)


def stored(column: pa.ChunkedArray, field: pa.Field, *, by_name: bool = False) -> pa.ChunkedArray:
    """The values of a column as those of a table's column.

    Args:
        column: the values.
        field: the table's column.
        by_name: whether the fields of structs meet by name, where a struct has all names; they meet by place otherwise.

    Raises:
        InvalidArgumentError: a value is none of the column's type.
        NotSupportedError: a text that engines print differently.
    """
    if column.type == field.type:
        return column
    if pt.is_integer(column.type) and column.null_count == len(column):  # DuckDB's nulls are integers
        return pa.chunked_array([pa.nulls(len(column), field.type)])
    try:
        if pt.is_nested(field.type) and not pt.is_null(column.type):
            chunks = [_arranged(chunk, field.type, by_name) for chunk in column.chunks]
            column = pa.chunked_array(chunks, None if chunks else field.type)
        return _converted(column, field.type)
    except pa.ArrowException as error:
        raise InvalidArgumentError(
            f"column {field.name}: {column.type} does not become {field.type}: {error}"
        ) from error


def places(given: pa.DataType, wanted: pa.DataType, *, by_name: bool) -> list[int]:
    """Return the number of the field of one struct that goes into each field of another."""
    names = [given.field(number).name.lower() for number in range(given.num_fields)]
    order = [wanted.field(number).name.lower() for number in range(wanted.num_fields)]
    return [names.index(name) for name in order] if by_name and sorted(names) == sorted(order) else [*range(len(order))]


def _arranged(array: pa.Array, wanted: pa.DataType, by_name: bool) -> pa.Array:
    """Nested values with the names of a type: a cast of Arrow makes nulls of fields with other names."""
    if not pt.is_nested(array.type) or array.type.num_fields != wanted.num_fields:
        return array
    if pt.is_struct(array.type):
        order = places(array.type, wanted, by_name=by_name)
        children = [_arranged(array.field(k), wanted.field(n).type, by_name) for n, k in enumerate(order)]
        names = [wanted.field(number).name for number in range(wanted.num_fields)]
        return pa.StructArray.from_arrays(children, names, mask=array.is_null())
    array = joined_arrays([array])  # offsets of a part of an array don't begin at 0
    if pt.is_map(array.type):
        items = _arranged(array.items, wanted.item_type, by_name)
        return pa.MapArray.from_arrays(list_offsets(array), array.keys, items)
    if pt.is_list(array.type):
        return pa.ListArray.from_arrays(list_offsets(array), _arranged(array.values, wanted.value_type, by_name))
    return array


def _converted(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    given = column.type
    if is_string(given) and not is_string(wanted):
        column = pc.utf8_trim_whitespace(column)
        if pt.is_integer(wanted) and pc.any(pc.match_substring(column, "x", ignore_case=True)).as_py():
            raise pa.ArrowInvalid("a CAST reads no hexadecimal numbers")
    elif pt.is_integer(given) and pt.is_timestamp(wanted) and wanted.tz:
        column = column.cast(pa.int64()).cast(pa.timestamp("s", wanted.tz))
    elif pt.is_timestamp(given) and given.tz and pt.is_integer(wanted):
        column = pc.floor_temporal(column, unit="second").cast(pa.timestamp("s", given.tz)).cast(pa.int64())
    elif _is_time(given) != _is_time(wanted) and (pt.is_integer(given) or pt.is_integer(wanted)):
        raise pa.ArrowInvalid("CAST it in the statement")
    elif is_string(wanted) and (pt.is_floating(given) or pt.is_timestamp(given)):
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
