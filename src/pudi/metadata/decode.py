"""Decode the entries of HFiles and log blocks of the metadata table; what was decoded last is kept, by its bytes.

A commit adds a few small blocks to a file group, and every reader merges all of them. So one that reads again, such as
the next write, decodes only blocks that are new: the same bytes mean the same, whichever table or writer they come
from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.context import RecentValues
from pudi.errors import CorruptError, naming
from pudi.format.avro_rows import read_records
from pudi.format.avro_values import BadAvro, Records, Run
from pudi.format.hfile_read import HFileReader, open_bytes
from pudi.format.log_block import BlockKind, LogBlock
from pudi.format.log_data import block_schema
from pudi.format.log_deletes import decode_deletes
from pudi.metadata.merge import Block
from pudi.metadata.record_schema import RECORD_SCHEMA
from pudi.schema.arrays import joined_arrays, offsets_of, one_array

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
    offsets, data = offsets_of(values), values.buffers()[2]
    content = b"" if data is None else memoryview(data)[: int(offsets[-1])]
    records = Run(Records.of(content), offsets[:-1], offsets[1:])
    stored = read_records(schema_json, records, set(columns), unions=True)
    arrays = []
    for name in columns:
        field = RECORD_SCHEMA.field(name)
        if name == "key":
            arrays.append(pc.cast(batch.column("key"), pa.string()))
        elif name in stored.column_names:
            arrays.append(_conformed(one_array(stored.column(name)), field))
        else:
            arrays.append(pa.nulls(batch.num_rows, field.type))
    return pa.Table.from_arrays(arrays, schema=pa.schema([RECORD_SCHEMA.field(name) for name in columns]))


def _conformed(values: pa.Array, field: pa.Field) -> pa.Array:
    """Convert values to the current schema: struct fields by name, missing ones null or the default."""
    kind = field.type
    if isinstance(values, pa.ChunkedArray):  # for an empty column
        values = joined_arrays(values.chunks) if values.num_chunks else pa.nulls(0, values.type)
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


SMALL = 64 << 10
"""Bytes up to which a block or base file is decoded whole, whatever is wanted of it, and kept."""
_TOGETHER = 16 << 20
"""Maximum bytes of entries of several blocks to decode together."""
MOST_KEPT = 8 << 20
"""Maximum bytes of contents whose decoded entries are kept in this process."""


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """The wanted records of a file group: by keys, by key prefixes, or all."""

    keys: pa.Array | None = None
    prefixes: tuple[str, ...] | None = None

    def entries(self, file: HFileReader) -> pa.Table:
        """Return the wanted entries of an HFile."""
        if self.keys is not None:
            return file.seek(self.keys)
        if self.prefixes is not None:
            return file.seek_prefixes([prefix.encode() for prefix in self.prefixes])
        return file.scan()

    def among(self, keys: pa.Array) -> pa.Array:
        """Return the wanted keys."""
        return keys if self.keys is None and self.prefixes is None else keys.filter(self._wanted(keys))

    def rows(self, records: pa.Table) -> pa.Table:
        """Return the wanted records."""
        return records if self.keys is None and self.prefixes is None else records.filter(self._wanted(records["key"]))

    def _wanted(self, keys: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
        if self.keys is not None:
            return pc.is_in(keys, value_set=self.keys.cast(keys.type))
        chosen = pa.array(np.zeros(len(keys), dtype=bool))
        for prefix in self.prefixes or ():
            chosen = pc.or_(chosen, pc.starts_with(keys, prefix))
        return chosen


ALL = ReadRequest()
"""All records."""

_kept: RecentValues[tuple[Any, ...], pa.Table] = RecentValues(MOST_KEPT)
"""Decoded blocks, by their bytes, schema and columns."""


def decoded_base(content: bytes, columns: Sequence[str], *, path: str) -> pa.Table:
    """Return all records of a base file that has at most `SMALL` bytes.

    Args:
        content: the file's bytes.
        columns: the wanted columns of `RECORD_SCHEMA`.
        path: the file, for messages.

    Raises:
        CorruptError: it can't be decoded.
    """
    key = content, "", tuple(columns)
    found = _kept.get(key)
    if found is None:
        file = open_bytes(content, path=path)
        entries = file.scan()
        found = decode_entries(entries, file.avro_schema, columns, path=path) if entries.num_rows else empty(columns)
        _kept.keep(key, found, len(content))
    return found


def decoded_blocks(blocks: Sequence[LogBlock], columns: Sequence[str], wanted: ReadRequest = ALL) -> list[Block]:
    """Decode log blocks. Records of one schema are decoded together, since most blocks have few records.

    Args:
        blocks: blocks of HFiles and of deletes.
        columns: the wanted columns of `RECORD_SCHEMA`.
        wanted: the wanted records.

    Raises:
        CorruptError: a block can't be decoded, or is of another kind.
    """
    rows: dict[int, pa.Table] = {}
    stored: dict[int, pa.Table] = {}
    keys: dict[int, tuple[Any, ...]] = {}
    for number, block in enumerate(blocks):
        if block.kind is BlockKind.HFILE:
            if len(block.content) <= SMALL:
                keys[number] = bytes(block.content), block_schema(block), tuple(columns)
                known = _kept.get(keys[number])
                if known is not None:
                    rows[number] = wanted.rows(known)
                    continue
            request = ALL if number in keys else wanted
            stored[number] = request.entries(open_bytes(block.content, path=block.path or ""))
        elif block.kind is not BlockKind.DELETE:
            raise block.corrupt("is in the metadata table, whose blocks hold HFiles")
    for number, found in _decoded(stored, blocks, columns).items():
        if number in keys:
            _kept.keep(keys[number], found, len(keys[number][0]))
        rows[number] = wanted.rows(found) if number in keys else found
    return [
        Block(rows=rows[number]) if number in rows else Block(deleted=wanted.among(decode_deletes(block).keys))
        for number, block in enumerate(blocks)
    ]


def _decoded(stored: Mapping[int, pa.Table], blocks: Sequence[LogBlock], columns: Sequence[str]) -> dict[int, pa.Table]:
    """Decode the entries of blocks, by the numbers of these."""
    rows: dict[int, pa.Table] = {}
    for schema in dict.fromkeys(block_schema(blocks[number]) for number in stored):
        own = {number: entries for number, entries in stored.items() if block_schema(blocks[number]) == schema}
        parts = [own] if sum(each.nbytes for each in own.values()) <= _TOGETHER else [{n: own[n]} for n in own]
        for part in parts:
            rows.update(_of_schema(part, [blocks[number].path or "" for number in part], schema, columns))
    return rows


def _of_schema(
    stored: Mapping[int, pa.Table], paths: Sequence[str], schema: str, columns: Sequence[str]
) -> dict[int, pa.Table]:
    """Decode entries of one schema, split by the number of entries in each block."""
    try:
        whole = decode_entries(pa.concat_tables(stored.values()).combine_chunks(), schema, columns, path=paths[0])
    except CorruptError:
        if len(stored) > 1:  # then decoding each block by itself raises an error with its path
            for (number, entries), path in zip(stored.items(), paths, strict=True):
                _of_schema({number: entries}, [path], schema, columns)
        raise
    ends = np.cumsum([entries.num_rows for entries in stored.values()]).tolist()
    return {n: whole.slice(end - stored[n].num_rows, stored[n].num_rows) for n, end in zip(stored, ends, strict=True)}


def empty(columns: Sequence[str]) -> pa.Table:
    """Return no records, with some columns of `RECORD_SCHEMA`."""
    return pa.schema([RECORD_SCHEMA.field(name) for name in columns]).empty_table()
