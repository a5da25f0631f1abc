"""Decode entries of HFiles: keys and Avro values in, columns of `RECORD_SCHEMA` out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.errors import CorruptError, naming
from pudi.format.avro_rows import read_records
from pudi.format.avro_values import BadAvro, Records
from pudi.metadata.records import RECORD_SCHEMA

_DEFAULTS: dict[str, object] = {"isTightBound": False, "fileIdEncoding": 0}
"""Non-null fields that older versions of the schema lack (HoodieMetadata.avsc)."""


def decode_entries(entries: pa.Table, schema_json: str, columns: Sequence[str], *, path: str) -> pa.Table:
    """Decode the records of one HFile.

    Args:
        entries: columns `key` and `value`.
        schema_json: Avro schema of the values, as in the file; it may be an older version.
        columns: the wanted columns of `RECORD_SCHEMA`, including `key`.
        path: the file, for messages.

    Raises:
        CorruptError: a key is not UTF-8, or a value doesn't fit the schema.
    """
    try:
        with naming(path):
            parts = [_decode(batch, schema_json, columns) for batch in entries.to_batches()]
    except (BadAvro, pa.ArrowInvalid) as error:
        raise undecodable(error, path) from error
    schema = pa.schema([RECORD_SCHEMA.field(name) for name in columns])
    return pa.concat_tables(parts) if parts else schema.empty_table()


def undecodable(error: Exception, path: str) -> CorruptError:
    """The error for a record that can't be decoded, in a file."""
    return CorruptError(
        f"the metadata table has a record that can't be decoded: {error}; delete the metadata table, Hudi and pudi "
        "rebuild it",
        path=path,
    )


def _decode(batch: pa.RecordBatch, schema_json: str, columns: Sequence[str]) -> pa.Table:
    values = batch.column("value")
    _, ends, data = values.buffers()
    if pa.types.is_large_binary(values.type):
        offsets = np.frombuffer(ends, np.int64)
    else:
        offsets = np.frombuffer(ends, np.int32).astype(np.int64)
    offsets = offsets[values.offset : values.offset + len(values) + 1]
    content = b"" if data is None else memoryview(data)[: int(offsets[-1])]
    stored = read_records(schema_json, Records.of(content), offsets[:-1], offsets[1:], set(columns), unions=True)
    arrays = []
    for name in columns:
        field = RECORD_SCHEMA.field(name)
        if name == "key":
            arrays.append(pc.cast(batch.column("key"), pa.string()))
        elif name in stored.column_names:
            arrays.append(_conformed(stored.column(name).combine_chunks(), field))
        else:
            arrays.append(pa.nulls(batch.num_rows, field.type))
    return pa.Table.from_arrays(arrays, schema=pa.schema([RECORD_SCHEMA.field(name) for name in columns]))


def _conformed(values: pa.Array, field: pa.Field) -> pa.Array:
    """Convert values to the current schema: struct fields by name, missing ones null or the default."""
    kind = field.type
    if isinstance(values, pa.ChunkedArray):  # for an empty column
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.nulls(0, values.type)
    if values.type.equals(kind):
        return values
    if not (pa.types.is_struct(kind) and pa.types.is_struct(values.type)):
        return pc.cast(values, kind)
    known = {each.name: part for each, part in zip(values.type, values.flatten(), strict=True)}
    parts = []
    for inner in kind:
        if inner.name in known:
            parts.append(_conformed(known[inner.name], inner))
        elif inner.nullable:
            parts.append(pa.nulls(len(values), inner.type))
        else:
            default = pa.scalar(_DEFAULTS.get(inner.name), inner.type)
            parts.append(pa.repeat(default, len(values)))
    return pa.StructArray.from_arrays(parts, fields=list(kind), mask=pc.is_null(values))
