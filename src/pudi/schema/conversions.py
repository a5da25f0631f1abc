"""Convert Arrow arrays: nested columns field by field, to types that Hudi lets a column turn into, value by value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.errors import SchemaError
from pudi.schema.arrays import joined_arrays
from pudi.schema.java_numbers import java_float_text
from pudi.schema.types import TIMESTAMP, is_any_list, is_run_end_encoded

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


Leaf = Callable[[pa.Array, pa.DataType, str], pa.Array]
"""Cast of a column of a plain type: `(array, target type, dotted path) -> array`."""

_MAX_OFFSET = 2**31 - 1

ELEMENT, VALUE = "element", "value"
"""Names of list elements and map values in paths and `FieldNames`."""


@dataclass(frozen=True, slots=True)
class FieldNames:
    """Names under which requested fields are stored.

    Attributes:
        stored: maps requested names to the stored name (None for a field that is not stored, even if a stored field has
            its name) and to the names of nested fields (None if unchanged). Other names are unchanged.
    """

    stored: Mapping[str, tuple[str | None, FieldNames | None]]

    def of(self, name: str) -> tuple[str | None, FieldNames | None]:
        """Stored name of a field, and the names inside of it."""
        return self.stored.get(name, (name, None))


def _inside(names: FieldNames | None, name: str) -> FieldNames | None:
    return None if names is None else names.of(name)[1]


@dataclass(frozen=True, slots=True)
class Cast:
    """Rules by which the types inside nested columns become others.

    Attributes:
        leaf: casts a plain type to another one.
        fill: whether struct fields that the array lacks are filled with null, and those that the
            target lacks are left out; else both are errors.
    """

    leaf: Leaf
    fill: bool = False


def cast_array(
    array: pa.Array, target: pa.DataType, path: str, cast: Cast, names: FieldNames | None = None
) -> pa.Array:
    """Cast an array to a type: structs by field name, lists and maps recursively, other types by `cast.leaf`.

    An array that has the type already is returned as it is. Dictionaries, views and the like are
    decoded on the way.

    Args:
        array: any Arrow array.
        target: one of pudi's types.
        path: dotted name of the column, for messages.
        cast: the rules.
        names: what the fields inside are called in the array; None where they are called the same.

    Raises:
        SchemaError: the array can't become that type, or holds nulls where the target has none.
    """
    if names is None and array.type.equals(target):
        return array
    array = decode(array)
    if names is None and array.type.equals(target):
        return array
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), target)
    if pa.types.is_struct(target) and pa.types.is_struct(array.type):
        return _cast_struct(array, target, path, cast, names)
    if pa.types.is_map(target) and pa.types.is_map(array.type):
        low, offsets, high = _offsets(array)
        keys = cast_array(array.keys[low:high], target.key_type, f"{path}.key", cast)
        inner = _inside(names, VALUE)
        items = cast_array(array.items[low:high], target.item_type, f"{path}.value", cast, inner)
        _check_nulls(items, target.item_field, f"{path}.value")
        entries = pa.StructArray.from_arrays([keys, items], fields=[target.key_field, target.item_field])
        return _with_offsets(array, target, offsets, entries)
    if pa.types.is_list(target) and pa.types.is_list(array.type):
        low, offsets, high = _offsets(array)
        inner = _inside(names, ELEMENT)
        values = cast_array(array.values[low:high], target.value_type, f"{path}.element", cast, inner)
        _check_nulls(values, target.value_field, f"{path}.element")
        return _with_offsets(array, target, offsets, values)
    return cast.leaf(array, target, path)


def is_view(kind: pa.DataType) -> bool:
    """Return whether values of a type are views of texts or bytes."""
    return bool(pa.types.is_string_view(kind) or pa.types.is_binary_view(kind))


def decode(array: pa.Array) -> pa.Array:
    """The array in a plain layout: no dictionary, no runs, lists with 32 bit offsets.

    Raises:
        SchemaError: a list array holds more elements than 32 bits can count.
    """
    kind = array.type
    if pa.types.is_dictionary(kind):
        if is_view(kind.value_type):  # polars' Categorical and Enum; Arrow can't decode such dictionaries
            plain = array.dictionary.cast(pa.string() if pa.types.is_string_view(kind.value_type) else pa.binary())
            array = pa.DictionaryArray.from_arrays(array.indices, plain)
        return array.dictionary_decode()
    if is_run_end_encoded(kind):
        return pc.run_end_decode(array)
    if is_any_list(kind) and not pa.types.is_list(kind):
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
        offsets = np.zeros(len(array) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        if offsets[-1] > _MAX_OFFSET:
            raise SchemaError(
                f"a list column holds {offsets[-1]} elements in one chunk; pass the data in smaller chunks"
            )
        # flatten leaves out what null lists hide, and so do these lengths.
        return _with_offsets(array, pa.list_(kind.value_field), offsets, array.flatten())
    return array


def _cast_struct(array: pa.Array, target: pa.DataType, path: str, cast: Cast, names: FieldNames | None) -> pa.Array:
    have = {field.name: index for index, field in enumerate(array.type)}
    wanted = [field.name for field in target]
    extra = [name for name in have if name not in wanted]
    if extra and not cast.fill:
        raise SchemaError(f"column {path!r} has fields that the table's struct lacks: {', '.join(extra)}")
    children = []
    for field in target:
        inner = f"{path}.{field.name}"
        stored, within = (field.name, None) if names is None else names.of(field.name)
        if stored in have:
            child = cast_array(array.field(have[stored]), field.type, inner, cast, within)
        elif cast.fill and field.nullable:
            child = pa.nulls(len(array), field.type)
        else:
            raise SchemaError(f"column {inner!r} is missing from the data")
        _check_nulls(child, field, inner, array)
        children.append(child)
    return pa.StructArray.from_arrays(children, fields=list(target), mask=array.is_null())


def _check_nulls(child: pa.Array, field: pa.Field, path: str, parent: pa.Array | None = None) -> None:
    if field.nullable or child.null_count == 0:
        return
    nulls = child.is_null()
    if parent is not None:
        nulls = pc.and_(nulls, parent.is_valid())
    count = pc.sum(nulls).as_py() or 0
    if count:
        raise SchemaError(f"column {path!r} must not be null, and is in {count} rows")


def _offsets(array: pa.Array) -> tuple[int, np.ndarray[tuple[int], np.dtype[np.int32]], int]:
    """First element, offsets counted from it, and end of the elements that a (sliced) list array covers."""
    raw = array.offsets.to_numpy(zero_copy_only=False)
    return int(raw[0]), (raw - raw[0]).astype(np.int32), int(raw[-1])


def _with_offsets(array: pa.Array, target: pa.DataType, offsets: object, child: pa.Array) -> pa.Array:
    # from_buffers, since from_arrays takes no offsets of null lists that hide elements.
    validity = pc.invert(array.is_null()).buffers()[1] if array.null_count else None
    buffer = pa.py_buffer(np.ascontiguousarray(offsets, np.int32))
    return pa.Array.from_buffers(target, len(array), [validity, buffer], array.null_count, 0, [child])
