"""ORC base files: one Arrow table in, one file with Hudi's notes out, and back.

Source: HoodieAvroOrcWriter, HoodieAvroOrcReader, AvroOrcUtils.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import chain
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from pyarrow import orc

from pudi.context import Storage
from pudi.context.cached import cached_property
from pudi.errors import CorruptError, NotSupportedError, PudiError
from pudi.filegroup.basefile import RecordFooter, corrupt_file
from pudi.filegroup.opening import open_whole
from pudi.filegroup.slices import BaseFile
from pudi.format import BloomFilter, BloomOptions, ColumnStatistics
from pudi.format.orc_tail import OrcTail, decode_tail, in_zone_gmt, tail_bytes, with_notes, zone_of_stripe
from pudi.format.parquet import BLOOM_FILTER, BLOOM_FILTER_TYPE, MAX_RECORD_KEY, MIN_RECORD_KEY, bloom_filter_in
from pudi.schema import avro_to_arrow
from pudi.schema.nested import cast_array
from pudi.schema.types import is_any_list
from pudi.storage import temporary_errors, temporary_file

ORC_EXTENSION = "orc"
"""Extension of ORC base files (HoodieFileFormat)."""
AVRO_SCHEMA = b"orc.avro.schema"
"""The note that holds the file's Avro schema (HoodieOrcConfig.AVRO_SCHEMA_METADATA_KEY)."""
ORC_CODECS = {"ZLIB": "zlib", "SNAPPY": "snappy", "ZSTD": "zstd", "NONE": "uncompressed"}
"""Codecs by Hudi's names, as pyarrow calls them."""
_NOTES = (MIN_RECORD_KEY, MAX_RECORD_KEY, BLOOM_FILTER, BLOOM_FILTER_TYPE)
_LAST_BYTES = 256
_EPOCH = datetime(2015, 1, 1)
"""Timestamps are stored as seconds since then, in their writer's time zone."""
_GMT = frozenset({"", "GMT", "UTC", "Etc/UTC", "Z"})


class OrcFileReader:
    """One ORC base file opened for reading, as `BaseFileReader` is for Parquet; its groups are stripes.

    Timestamps are stored by their writer's time zone, which pyarrow doesn't tell: files of another zone than GMT that
    hold some are read whole, with stripes that say GMT, and corrected by what the zones differ in.

    Args:
        storage: the table's files.
        base: the file.

    Raises:
        NotFoundError: the file is gone.
        CorruptError: it isn't an ORC file.
    """

    def __init__(self, storage: Storage, base: BaseFile) -> None:
        self._storage = storage
        self._base = base
        self._source = open_whole(storage, base)
        try:
            self._file = orc.ORCFile(self._source)
            stored: pa.Schema = self._file.schema
        except (pa.ArrowException, OSError) as error:
            raise self.corrupt(error) from error
        self._notes: dict[bytes, bytes] = dict(stored.metadata or {})
        self._stored = stored.remove_metadata()
        self._schema = self._declared(self._stored)

    @property
    def num_groups(self) -> int:
        """How many stripes the file has."""
        return int(self._file.nstripes)

    @property
    def schema(self) -> pa.Schema:
        """The file's columns, in its physical types."""
        return self._schema

    @property
    def num_rows(self) -> int:
        """How many rows the file has."""
        return int(self._file.nrows)

    def group_rows(self, group: int) -> int:
        """How many rows a stripe has."""
        return int(self._file.read_stripe(group, columns=self._schema.names[:1]).num_rows)

    def key_range(self) -> tuple[str, str] | None:
        """Return the least and greatest record key, by its writer's order; None if the file doesn't say."""
        found = [self._notes.get(name) for name in (MIN_RECORD_KEY, MAX_RECORD_KEY)]
        try:
            low, high = (text.decode() for text in found if text is not None)
        except (UnicodeDecodeError, ValueError):
            return None
        return low, high

    def bloom_filter(self) -> BloomFilter | None:
        """Return the bloom filter of the record keys; None without one. Raises as `read_bloom_filter`."""
        return bloom_filter_in(self._notes, path=self._base.path)

    def statistics(self, column: str) -> list[ColumnStatistics | None]:
        """Return no bounds: pyarrow exposes none of ORC stripes."""
        return [None] * self.num_groups

    def read(self, columns: Sequence[str] | None = None, groups: Sequence[int] | None = None) -> pa.Table:
        """Rows in their physical types.

        Args:
            columns: top-level columns that the file has; None for all.
            groups: stripes; None for all.

        Raises:
            CorruptError: the bytes are not what the footer says.
            NotSupportedError: the file has timestamps of a time zone that isn't known here, or of several.
        """
        names = self._schema.names if columns is None else list(columns)
        wanted = range(self.num_groups) if groups is None else groups
        timed = any(_holds_timestamps(self._stored.field(name).type) for name in names)
        try:
            file, shift = self._in_gmt if timed else (self._file, 0)
            batches = [file.read_stripe(number, columns=names).select(names) for number in wanted]
            rows = pa.Table.from_batches(batches, schema=pa.schema([self._stored.field(name) for name in names]))
        except (pa.ArrowException, OSError) as error:
            raise self.corrupt(error) from error
        made = [self._typed(rows[name], self._schema.field(name), shift) for name in names]
        return pa.Table.from_arrays(made, schema=pa.schema([self._schema.field(name) for name in names]))

    def corrupt(self, reason: object) -> CorruptError:
        """The error for a file that can't be read."""
        return corrupt_file(self._storage, self._base, reason)

    def _declared(self, stored: pa.Schema) -> pa.Schema:
        """The stored columns, with timestamps as the file's Avro schema has them: Hudi stores local ones as longs."""
        text = self._notes.get(AVRO_SCHEMA)
        try:
            said = None if text is None else avro_to_arrow(text.decode())
        except (PudiError, UnicodeDecodeError):  # a note of no use: columns are as they are stored
            said = None
        types = {} if said is None else {field.name: field.type for field in said}
        return pa.schema([field.with_type(_with_clocks(field.type, types.get(field.name))) for field in stored])

    def _typed(self, column: pa.ChunkedArray, field: pa.Field, shift: int) -> pa.ChunkedArray:
        if column.type == field.type:
            return column
        leaf = partial(_as_instants, shift=shift)
        chunks = [cast_array(chunk, field.type, field.name, leaf, fill=False) for chunk in column.chunks]
        return pa.chunked_array(chunks, type=field.type)

    @cached_property
    def _in_gmt(self) -> tuple[orc.ORCFile, int]:
        """The file as one of a writer in GMT, and the microseconds that its timestamps are then off by."""
        size = self._source.seek(0, os.SEEK_END)
        last = self._ranged(max(0, size - _LAST_BYTES), size)
        tail = decode_tail(self._ranged(max(0, size - tail_bytes(last)), size), size)
        zones = {self._zone(stripe.start + stripe.body, stripe.footer, tail) for stripe in tail.stripes}
        zones = {"" if zone in _GMT else zone for zone in zones}
        if zones <= {""}:
            return self._file, 0
        shift = _offset(zones.pop()) if len(zones) == 1 else None
        if shift is None:
            raise NotSupportedError(
                "an ORC file with timestamps of writers in several time zones, or in one that this system doesn't know",
                table=self._storage.root,
                path=self._base.path,
            )
        return orc.ORCFile(pa.BufferReader(in_zone_gmt(self._ranged(0, size), tail))), shift

    def _zone(self, start: int, length: int, tail: OrcTail) -> str:
        return zone_of_stripe(self._ranged(start, start + length), tail)

    def _ranged(self, start: int, end: int) -> bytes:
        self._source.seek(start)
        return bytes(self._source.read(end - start))


@dataclass(frozen=True, slots=True)
class OrcOptions:
    """How ORC base files are written.

    Attributes:
        codec: `zlib`, `snappy`, `zstd` or `uncompressed` (hoodie.orc.compression.codec).
        stripe_bytes: size at which a stripe is closed (hoodie.orc.stripe.size).
        bloom: bloom filter of record keys; None writes none.
    """

    codec: str = "zlib"
    stripe_bytes: int = 64 << 20
    bloom: BloomOptions | None = None


@dataclass(frozen=True, slots=True)
class OrcBaseWriter:
    """Writes ORC base files of one table, as `BaseFileWriter` does Parquet ones; timestamps are in GMT.

    Args:
        storage: the table's files.
        avro_schema: Avro schema with the meta fields, as JSON text.
        options: settings.
    """

    storage: Storage
    avro_schema: str
    options: OrcOptions

    def put(self, path: str, rows: pa.Table) -> pa.Buffer:
        """Create a base file from rows with their meta fields; return its content."""
        content = self.encode(rows)
        self.storage.create(path, content)
        return content

    def write_parts(self, path: str, parts: Iterable[pa.Table], folder: str | None = None) -> pa.Buffer:
        """Create a base file as `put` does, of rows that arrive in parts; several pass through a temporary file.

        Raises:
            RefusedError: there's no room for the temporary file.
        """
        coming = iter(parts)
        first = next(coming)
        second = next(coming, None)
        if second is None:
            return self.put(path, first)
        with temporary_file(folder) as file:
            footer = RecordFooter(self.options.bloom)
            with temporary_errors(folder):
                self._write(pa.PythonFile(file, "w"), chain([first, second], coming), footer)
                file.flush()
            size = os.fstat(file.fileno()).st_size
            content = self._noted(pa.py_buffer(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)), footer)
        self.storage.create(path, content)
        return content

    def encode(self, rows: pa.Table) -> pa.Buffer:
        """The content of a base file of rows with their meta fields."""
        sink, footer = pa.BufferOutputStream(), RecordFooter(self.options.bloom)
        self._write(sink, [rows], footer)
        return self._noted(sink.getvalue(), footer)

    def _write(self, sink: pa.NativeFile, parts: Iterable[pa.Table], footer: RecordFooter) -> None:
        options = self.options
        with orc.ORCWriter(sink, compression=options.codec, stripe_size=options.stripe_bytes) as writer:
            for rows in parts:
                footer.add(rows)
                writer.write(_as_stored(rows))

    def _noted(self, content: pa.Buffer, footer: RecordFooter) -> pa.Buffer:
        said = footer.metadata(self.avro_schema)
        notes = {name.decode(): said[name] for name in _NOTES if name in said}
        notes[AVRO_SCHEMA.decode()] = self.avro_schema.encode()
        return pa.py_buffer(b"".join(with_notes(content, notes)))


def _with_clocks(stored: pa.DataType, said: pa.DataType | None) -> pa.DataType:
    """Return a stored type whose points in time are instants, or local where the Avro type says so."""
    if pt.is_timestamp(stored):
        return pa.timestamp("us", "UTC")
    if said is not None and pt.is_int64(stored) and pt.is_timestamp(said) and said.tz is None:
        return said
    if pt.is_struct(stored):
        inner = {} if said is None or not pt.is_struct(said) else {field.name: field.type for field in said}
        return pa.struct([field.with_type(_with_clocks(field.type, inner.get(field.name))) for field in stored])
    if pt.is_map(stored):
        item = said.item_type if said is not None and pt.is_map(said) else None
        return pa.map_(stored.key_field, stored.item_field.with_type(_with_clocks(stored.item_type, item)))
    if is_any_list(stored):
        item = said.value_type if said is not None and is_any_list(said) else None
        return pa.list_(stored.value_field.with_type(_with_clocks(stored.value_type, item)))
    return stored


def _as_instants(array: pa.Array, target: pa.DataType, path: str, *, shift: int) -> pa.Array:
    if pt.is_timestamp(array.type) and array.type.tz is None and shift:
        array = pc.subtract(pc.cast(pc.cast(array, pa.timestamp("us")), pa.int64()), shift)
    return pc.cast(array, target)


def _holds_timestamps(kind: pa.DataType) -> bool:
    return pt.is_timestamp(kind) or any(_holds_timestamps(kind.field(n).type) for n in range(kind.num_fields))


def _offset(zone: str) -> int | None:
    """Return the microseconds that a time zone was ahead of GMT at the beginning of 2015; None for an unknown zone."""
    try:
        ahead = _EPOCH.replace(tzinfo=ZoneInfo(zone)).utcoffset()
    except (OSError, ValueError):
        return None
    return None if ahead is None else ahead // timedelta(microseconds=1)


def _as_stored(rows: pa.Table) -> pa.Table:
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
