"""Types of ORC files, which have neither zones nor local timestamps: Arrow columns in, what files store out, and back.

Source: AvroOrcUtils.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pudi.errors import NotSupportedError
from pudi.schema.nested import cast_array
from pudi.schema.types import is_any_list

_MOST_MICROS = ((1 << 63) - 1) // 1000 - 14 * 3_600_000_000
"""Microseconds since 1970 up to which pyarrow, which counts nanoseconds, reads timestamps in any time zone."""


def with_clocks(stored: pa.DataType, said: pa.DataType | None) -> pa.DataType:
    """Return a stored type with timestamps as instants, or as local times if the Avro type is local."""
    if pt.is_timestamp(stored):
        return pa.timestamp("us", "UTC")
    if said is not None and pt.is_int64(stored) and pt.is_timestamp(said) and said.tz is None:
        return said
    if pt.is_struct(stored):
        inner = {} if said is None or not pt.is_struct(said) else {field.name: field.type for field in said}
        return pa.struct([field.with_type(with_clocks(field.type, inner.get(field.name))) for field in stored])
    if pt.is_map(stored):
        item = said.item_type if said is not None and pt.is_map(said) else None
        return pa.map_(stored.key_field, stored.item_field.with_type(with_clocks(stored.item_type, item)))
    if is_any_list(stored):
        item = said.value_type if said is not None and is_any_list(said) else None
        return pa.list_(stored.value_field.with_type(with_clocks(stored.value_type, item)))
    return stored


def as_instants(array: pa.Array, target: pa.DataType, path: str, *, shift: int) -> pa.Array:
    """Return stored values in the type that they stand for, for `cast_array`.

    Args:
        array: values as pyarrow reads them.
        target: their type, see `with_clocks`.
        path: the column.
        shift: microseconds that timestamps without a zone are too late.
    """
    if pt.is_timestamp(array.type):
        try:
            micros = pc.cast(array, pa.timestamp("us", array.type.tz))
        except pa.ArrowInvalid:  # of other writers, with nanoseconds, which Hudi leaves out (AvroOrcUtils)
            micros = pc.cast(pc.floor_temporal(array, unit="microsecond"), pa.timestamp("us", array.type.tz))
        array = pc.subtract(pc.cast(micros, pa.int64()), shift) if array.type.tz is None and shift else micros
    return pc.cast(array, target)


def holds_type(kind: pa.DataType, is_one: Callable[[pa.DataType], bool]) -> bool:
    """Return whether a type is one that `is_one` is true for, or has one in it."""
    return is_one(kind) or any(holds_type(kind.field(n).type, is_one) for n in range(kind.num_fields))


def as_stored(rows: pa.Table) -> pa.Table:
    """Return rows in types that ORC has: timestamps without a zone, in GMT; local ones as longs (AvroOrcUtils)."""
    columns = []
    for field in rows.schema:
        target = _stored_type(field.type)
        column = rows[field.name]
        if target != column.type:
            chunks = [cast_array(chunk, target, field.name, _plain_cast, fill=False) for chunk in column.chunks]
            column = pa.chunked_array(chunks, type=target)
        columns.append(column)
    return pa.table(columns, names=rows.column_names)


def _plain_cast(array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
    if pt.is_timestamp(target):
        least, most = (value.as_py() for value in pc.min_max(pc.cast(array, pa.int64())).values())
        if least is not None and not -_MOST_MICROS <= least <= most <= _MOST_MICROS:
            raise NotSupportedError(
                f"column {path!r} has timestamps before 1678 or after 2261, which readers of ORC files in Arrow can't "
                "hold: write the table's base files in Parquet"
            )
    return pc.cast(array, target)


def _stored_type(kind: pa.DataType) -> pa.DataType:
    if pt.is_dictionary(kind):
        return _stored_type(kind.value_type)
    if pt.is_timestamp(kind):
        return pa.int64() if kind.tz is None else pa.timestamp("us")
    if pt.is_fixed_size_binary(kind):
        return pa.binary()
    return _rebuilt(kind, _stored_type)


def _rebuilt(kind: pa.DataType, change: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """Return a nested type with its inner types changed; others as they are."""
    if pt.is_struct(kind):
        return pa.struct([field.with_type(change(field.type)) for field in kind])
    if pt.is_map(kind):
        key, item = kind.key_field, kind.item_field
        return pa.map_(key.with_type(change(key.type)), item.with_type(change(item.type)))
    if is_any_list(kind):
        return pa.list_(kind.value_field.with_type(change(kind.value_type)))
    return kind
