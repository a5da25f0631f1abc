"""Data blocks of log files: a block in, its records as an Arrow table out, and back (HoodieDataBlock).

A block's positions in the base file are a header: base64 of a 64-bit Roaring bitmap in its portable form
(LogReaderUtils.encodePositions).
"""

from __future__ import annotations

import base64
import binascii
import struct
from array import array
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from struct import Struct

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap64

from pudi.errors import CorruptError, InvalidArgumentError, NotSupportedError, naming
from pudi.format.avro_encode import encode_records, join
from pudi.format.avro_rows import read_records
from pudi.format.avro_values import BadAvro, Records, Run
from pudi.format.hfile_read import open_bytes
from pudi.format.hfile_rows import read_rows
from pudi.format.log_block import BlockKind, Header, LogBlock
from pudi.format.parquet import PARQUET_ERRORS, damaged_columns, open_parquet, parquet_writer, read_groups
from pudi.schema.arrays import content_of


def encode_positions(positions: np.ndarray) -> str:
    """The header's text.

    Args:
        positions: row numbers, ascending, each once.

    Raises:
        InvalidArgumentError: they are not ascending, or negative.
    """
    if len(positions) and (positions[0] < 0 or np.any(np.diff(positions) <= 0)):
        raise InvalidArgumentError("positions of records must ascend, each once")
    bitmap = BitMap64(array("Q", positions.astype(np.uint64).tobytes()))
    return base64.b64encode(bitmap.serialize()).decode("ascii")


def decode_positions(text: str, count: int, *, path: str | None = None) -> np.ndarray:
    """The row numbers, ascending, as int64.

    Args:
        text: the header.
        count: how many records the block has: a few bytes could claim any number of rows.
        path: the log file, for messages.

    Raises:
        CorruptError: the text is invalid, or has another number of rows.
    """
    try:
        data = base64.b64decode(text, validate=True)
        bitmap = BitMap64.deserialize(data)  # which checks every container
    except (binascii.Error, ValueError, IndexError) as error:
        raise CorruptError(f"the positions of a log block's records can't be read: {error}", path=path) from error
    if len(bitmap) != count or len(bitmap.serialize()) != len(data):
        raise CorruptError(f"a log block says {len(bitmap)} positions for {count} records", path=path)
    found = np.frombuffer(bitmap.to_array(), dtype=np.uint64).astype(np.int64)
    if np.any(found < 0):
        raise CorruptError("the positions of a log block's records are beyond any file", path=path)
    return found


CONTENT_VERSION = 3
"""Version of the content of Avro and delete blocks (HoodieLogBlock.version)."""

_RECORD_KEY = "_hoodie_record_key"
_INT = Struct(">i")
_PREFIX = 8
"""Bytes before an Avro block's first record: version and count."""
_SWELLS = 4
"""Estimated ratio between the size of Arrow columns and of their encoded bytes."""


def decode_share(block: LogBlock, share: tuple[float, float], most: int) -> Iterator[pa.Table]:
    """The records of an Avro or CDC block that one of several readers takes, at least one table; see `decode_data`.

    Args:
        block: the block.
        share: the first and the last of the records that it takes, as fractions of their number.
        most: the number of records that a table has at most.
    """
    begin, end = _spans(block)
    first, last = (int(len(begin) * each) for each in share)
    for at in range(first, max(last, first + 1), most):
        part = slice(at, min(at + most, last))
        yield _decode_avro(block, begin[part], end[part], None)


def decode_data(block: LogBlock, columns: Collection[str] | None = None) -> pa.Table:
    """The records of a data block, by the block's own schema.

    Args:
        block: an Avro, a Parquet or an HFile block.
        columns: the top-level fields that are wanted, others are passed over; None for all.

    Returns:
        The wanted columns that the block has, in its order and types (pudi's, in Avro and HFile blocks; physical ones
        in Parquet blocks, to be conformed as a base file's).

    Raises:
        CorruptError: the content is not what the schema says.
        NotSupportedError: a block with types that pudi's tables don't have.
    """
    stored = _stored(block, columns)
    if block.kind is BlockKind.PARQUET:
        rows = _decode_parquet(block, stored)
    elif block.kind is BlockKind.HFILE:
        rows = _decode_hfile(block, stored)
    else:
        rows = _decode_avro(block, *_spans(block), stored)
    return _whole(block, rows, columns)


def decode_in_parts(block: LogBlock, columns: Collection[str] | None, most: int) -> Iterator[pa.Table]:
    """The records of a data block some after the others, at least one table; see `decode_data`.

    Args:
        block: an Avro or a Parquet block.
        columns: the top-level fields that are wanted; None for all.
        most: bytes of Arrow data that a part has, about; a block that hasn't more comes as it is.
    """
    for rows in _in_parts(block, _stored(block, columns), most):
        yield _whole(block, rows, columns)


def _stored(block: LogBlock, columns: Collection[str] | None) -> Collection[str] | None:
    """Return the columns to decode for the wanted ones: the rows of a block count if it has none of these."""
    if columns is None or not block.path_columns:
        return columns
    return {name for name in columns if name not in block.path_columns} | {_RECORD_KEY}


def _whole(block: LogBlock, rows: pa.Table, columns: Collection[str] | None) -> pa.Table:
    """Return decoded rows with the partition columns of their path."""
    values = block.path_columns
    if not values:
        return rows
    kept = [name for name in rows.column_names if name not in values and (columns is None or name in columns)]
    whole = rows.select(kept)
    for name, value in values.items():
        if columns is None or name in columns:
            whole = whole.append_column(name, pa.repeat(pa.scalar(value, pa.string()), rows.num_rows))
    return whole


def _in_parts(block: LogBlock, columns: Collection[str] | None, most: int) -> Iterator[pa.Table]:
    if block.kind is BlockKind.PARQUET:
        yield from _parquet_in_parts(block, columns, most)
        return
    if block.kind is BlockKind.HFILE:  # compressed in small blocks, and records are in the order of their keys
        yield _decode_hfile(block, columns)
        return
    begin, end = _spans(block)
    step = max(1, most // _SWELLS)
    if len(block.content) <= step:
        yield _decode_avro(block, begin, end, columns)
        return
    bounds = np.searchsorted(end, np.arange(step, len(block.content), step))
    bounds = np.unique(np.concatenate([[0], bounds, [len(end)]]))
    for first, last in pairwise(bounds):
        yield _decode_avro(block, begin[first:last], end[first:last], columns)


def _spans(block: LogBlock) -> tuple[np.ndarray, np.ndarray]:
    if block.kind not in {BlockKind.AVRO, BlockKind.CDC}:
        raise NotSupportedError(
            f"{block.kind.name} blocks in a table's log files are not supported yet",
            path=block.path,
            offset=block.offset,
        )
    return record_spans(block)


def _decode_avro(block: LogBlock, begin: np.ndarray, end: np.ndarray, columns: Collection[str] | None) -> pa.Table:
    try:
        with naming(block.path):
            return read_records(block_schema(block), Run(Records.of(block.content, block.padded), begin, end), columns)
    except BadAvro as error:
        raise block.corrupt(f"can't be decoded: {error}") from error


def block_schema(block: LogBlock) -> str:
    """The Avro schema of a data block's records, as JSON text."""
    schema = block.headers.get(Header.SCHEMA)
    if schema is None:
        raise block.corrupt("doesn't say its schema")
    return schema


def record_spans(block: LogBlock) -> tuple[np.ndarray, np.ndarray]:
    """Return the start and end of each record in the content of an Avro block.

    Raises:
        CorruptError: the records don't fill the content, or are longer: a changed count would otherwise lose records.
    """
    content = block.content
    if len(content) < _PREFIX:
        raise block.corrupt("is shorter than its own head")
    version, count = _INT.unpack_from(content, 0)[0], _INT.unpack_from(content, 4)[0]
    if version not in {1, 2, CONTENT_VERSION}:
        raise block.corrupt(f"has a content of version {version}, which is not known")
    if not 0 <= count <= (len(content) - _PREFIX) // _INT.size:
        raise block.corrupt(f"can't hold {count} records")
    places = _starts(content, count)
    if places is None:
        raise block.corrupt("ends within a record")
    if places[-1] - _INT.size != len(content):
        raise block.corrupt(f"has bytes behind the {count} records that it states")
    return places[:-1], places[1:] - _INT.size


def _starts(content: memoryview, count: int) -> np.ndarray | None:
    """Begin of each record and of the one that would follow the last; None where the content ends before.

    Each says only where the next one begins: this is the one step that goes from record to record, a tenth of a
    microsecond for each.
    """
    unpack, size, at = _INT.unpack_from, _INT.size, _PREFIX
    begin = [at + size]
    add = begin.append
    try:
        for _ in range(count):
            at += unpack(content, at)[0] + size
            add(at + size)
    except struct.error:
        return None
    places = np.array(begin, dtype=np.int64)
    # a length below 0 would lead back, and from before the content on from its end
    return places if at <= len(content) and np.all(np.diff(places) >= size) else None


def _decode_parquet(block: LogBlock, columns: Collection[str] | None) -> pa.Table:
    with _parquet_errors(block, columns):
        file = _open_parquet(block)
        return read_groups(file, None, _present(file, columns), use_threads=False)


def _parquet_in_parts(block: LogBlock, columns: Collection[str] | None, most: int) -> Iterator[pa.Table]:
    with _parquet_errors(block, columns):
        file = _open_parquet(block)
        groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
        size, rows = sum(group.total_byte_size for group in groups), max(1, file.metadata.num_rows)
        wanted = _present(file, columns)
        if size <= most // _SWELLS:
            yield read_groups(file, None, wanted, use_threads=False)
            return
        schema = file.schema_arrow if wanted is None else pa.schema([file.schema_arrow.field(n) for n in wanted])
        per_part = min(rows, max(1, most // _SWELLS * rows // size))
        for batch in file.iter_batches(per_part, columns=wanted, use_threads=False):
            yield pa.Table.from_batches([batch], schema=schema)


def _open_parquet(block: LogBlock) -> pq.ParquetFile:
    return open_parquet(pa.BufferReader(pa.py_buffer(block.content)), pre_buffer=False)


def _present(file: pq.ParquetFile, columns: Collection[str] | None) -> list[str] | None:
    return None if columns is None else [name for name in file.schema_arrow.names if name in columns]


@contextmanager
def _parquet_errors(block: LogBlock, columns: Collection[str] | None) -> Iterator[None]:
    # Content decodes in this thread alone: after an error in one column, Arrow's threads would continue with
    # others in memory that was freed. Slices are read in parallel anyway.
    try:
        yield
    except PARQUET_ERRORS as error:
        damaged: list[str] = []
        with suppress(*PARQUET_ERRORS):
            damaged = damaged_columns(_open_parquet(block), columns)
        where = f" in column {', '.join(damaged)}" if damaged else ""
        raise block.corrupt(f"can't be decoded{where}: {error}") from error


def _decode_hfile(block: LogBlock, columns: Collection[str] | None) -> pa.Table:
    try:
        path = block.path or "a log file"
        return read_rows(open_bytes(block.content, path=path), block_schema(block), columns, path=path)
    except CorruptError as error:
        raise block.corrupt(f"can't be decoded: {error.message}") from error


def encode_avro(rows: pa.Table, schema_json: str) -> bytes:
    """The content of an Avro block.

    Args:
        rows: columns in the types that `avro_to_arrow` makes of the schema.
        schema_json: Avro schema of the records, meta fields included; the block's SCHEMA header.

    Raises:
        SchemaError: a column is missing, of another type, or has nulls where the schema has none.
    """
    records = encode_records(schema_json, rows)
    lengths = np.asarray(pc.binary_length(records)).astype(">i4")
    prefixes = pa.FixedSizeBinaryArray.from_buffers(pa.binary(4), len(lengths), [None, pa.py_buffer(lengths.tobytes())])
    joined = join([prefixes.cast(pa.binary()), records], rows.num_rows)
    return _INT.pack(CONTENT_VERSION) + _INT.pack(rows.num_rows) + bytes(content_of(joined))


def encode_parquet(rows: pa.Table, *, codec: str = "zstd") -> bytes:
    """The content of a Parquet block: a whole Parquet file.

    Args:
        rows: the records.
        codec: compression codec by Hudi's name.
    """
    sink = pa.BufferOutputStream()
    with parquet_writer(sink, rows.schema, codec, coerce_timestamps="us") as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())
