"""Change the types inside nested columns: one Arrow array and a target type in, an array of that type out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.errors import SchemaError
from pudi.schema.types import is_any_list, is_run_end_encoded

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


def cast_array(
    array: pa.Array, target: pa.DataType, path: str, leaf: Leaf, *, fill: bool, names: FieldNames | None = None
) -> pa.Array:
    """Cast an array to a type: structs by field name, lists and maps recursively, other types by `leaf`.

    An array that has the type already is returned as it is. Dictionaries, views and the like are
    decoded on the way.

    Args:
        array: any Arrow array.
        target: one of pudi's types.
        path: dotted name of the column, for messages.
        leaf: how a plain type becomes another one.
        fill: whether struct fields that the array lacks are filled with null, and those that the
            target lacks are left out; else both are errors.
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
        return _cast_struct(array, target, path, leaf, fill=fill, names=names)
    if pa.types.is_map(target) and pa.types.is_map(array.type):
        low, offsets, high = _offsets(array)
        keys = cast_array(array.keys[low:high], target.key_type, f"{path}.key", leaf, fill=fill)
        inner = _inside(names, VALUE)
        items = cast_array(array.items[low:high], target.item_type, f"{path}.value", leaf, fill=fill, names=inner)
        _check_nulls(items, target.item_field, f"{path}.value")
        entries = pa.StructArray.from_arrays([keys, items], fields=[target.key_field, target.item_field])
        return _with_offsets(array, target, offsets, entries)
    if pa.types.is_list(target) and pa.types.is_list(array.type):
        low, offsets, high = _offsets(array)
        inner = _inside(names, ELEMENT)
        values = cast_array(array.values[low:high], target.value_type, f"{path}.element", leaf, fill=fill, names=inner)
        _check_nulls(values, target.value_field, f"{path}.element")
        return _with_offsets(array, target, offsets, values)
    return leaf(array, target, path)


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


def _cast_struct(
    array: pa.Array, target: pa.DataType, path: str, leaf: Leaf, *, fill: bool, names: FieldNames | None
) -> pa.Array:
    have = {field.name: index for index, field in enumerate(array.type)}
    wanted = [field.name for field in target]
    extra = [name for name in have if name not in wanted]
    if extra and not fill:
        raise SchemaError(f"column {path!r} has fields that the table's struct lacks: {', '.join(extra)}")
    children = []
    for field in target:
        inner = f"{path}.{field.name}"
        stored, within = (field.name, None) if names is None else names.of(field.name)
        if stored in have:
            child = cast_array(array.field(have[stored]), field.type, inner, leaf, fill=fill, names=within)
        elif fill and field.nullable:
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
