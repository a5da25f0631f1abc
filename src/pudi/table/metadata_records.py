"""The records of a table's metadata table, as Hudi's SQL shows them."""

from __future__ import annotations

import pyarrow as pa

from pudi.client import TableSnapshot
from pudi.errors import NotFoundError
from pudi.metadata import RECORD_SCHEMA, all_columns
from pudi.schema.arrays import joined_arrays, list_offsets


def read_records(snapshot: TableSnapshot) -> pa.Table:
    """Return the merged records of all partitions of the metadata table.

    Raises:
        NotFoundError: the table has no metadata table.
        CorruptError: it can't be read, or is behind the table.
    """
    if not snapshot.config.metadata_partitions:
        raise NotFoundError("the table has no metadata table", table=snapshot.table)
    table = snapshot.metadata_table()
    found = [all_columns(table.read(partition)) for partition in table.partitions]
    rows = pa.concat_tables(found) if found else RECORD_SCHEMA.empty_table()
    shown = [pa.field(field.name, _shown(field.type)) for field in RECORD_SCHEMA]
    arrays = [
        pa.chunked_array([_as(chunk, field.type) for chunk in column.chunks], field.type)
        for column, field in zip(rows.columns, shown, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=pa.schema(shown))


def _shown(kind: pa.DataType) -> pa.DataType:
    """Return a type as Spark has it: the branches of a union are named by their places, times are numbers."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(_name(kind, n), _shown(field.type)) for n, field in enumerate(kind)])
    if pa.types.is_map(kind):
        return pa.map_(_shown(kind.key_type), _shown(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(_shown(kind.value_type))
    return pa.int64() if pa.types.is_time(kind) else kind


def _name(kind: pa.StructType, number: int) -> str:
    is_union = all(field.name.endswith("Wrapper") for field in kind)
    return f"member{number}" if is_union else kind.field(number).name


def _as(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return values with a type of `_shown`; the layout stays."""
    if pa.types.is_struct(kind):
        parts = [_as(part, field.type) for part, field in zip(values.flatten(), kind, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=values.is_null())
    values = joined_arrays([values]) if values.offset else values
    if pa.types.is_map(kind):
        entries = _as(values.keys, kind.key_type), _as(values.items, kind.item_type)
        return pa.MapArray.from_arrays(list_offsets(values), *entries, type=kind)
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(list_offsets(values), _as(values.values, kind.value_type), type=kind)
    return values.cast(kind)
