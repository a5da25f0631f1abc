"""ORC base files: one Arrow table in, one file with Hudi's notes out, and back.

Source: HoodieAvroOrcWriter, HoodieAvroOrcReader, AvroOrcUtils.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import chain
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from pyarrow import orc

from pudi.context import Storage
from pudi.context.runtime import cached_property
from pudi.errors import CorruptError, NotSupportedError, PudiError
from pudi.filegroup.basefile import RecordFooter, corrupt_file, open_whole, stored_columns
from pudi.filegroup.slices import BaseFile
from pudi.format import BloomFilter, BloomOptions, ColumnStatistics
from pudi.format.orc_tail import (
    OrcTail,
    decode_tail,
    has_null_keys,
    in_zone_gmt,
    tail_bytes,
    with_notes,
    zone_of_stripe,
)
from pudi.format.parquet import BLOOM_FILTER, BLOOM_FILTER_TYPE, MAX_RECORD_KEY, MIN_RECORD_KEY, bloom_filter_in
from pudi.record.timestamp_keys import Zone
from pudi.schema import avro_to_arrow
from pudi.schema.conversions import Cast, cast_array
from pudi.schema.types import is_any_list
from pudi.storage import temporary_errors, temporary_file

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
            chunks = [cast_array(chunk, target, field.name, Cast(_plain_cast)) for chunk in column.chunks]
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


ORC_EXTENSION = "orc"
"""Extension of ORC base files (HoodieFileFormat)."""
AVRO_SCHEMA = b"orc.avro.schema"
"""The note that holds the file's Avro schema (HoodieOrcConfig.AVRO_SCHEMA_METADATA_KEY)."""
ORC_CODECS = {"ZLIB": "zlib", "SNAPPY": "snappy", "LZ4": "lz4", "ZSTD": "zstd", "NONE": "uncompressed"}
"""Codecs by Hudi's names, as pyarrow calls them."""
_NOTES = (MIN_RECORD_KEY, MAX_RECORD_KEY, BLOOM_FILTER, BLOOM_FILTER_TYPE)
_LAST_BYTES = 256
_EPOCH = datetime(2015, 1, 1)
"""Timestamps are stored as seconds since then, in their writer's time zone."""
_EPOCH_MILLIS = 1_420_070_400_000
_OUT_OF_RANGE = "out of range for nanosecond"
_GMT = frozenset({"GMT", "UTC", "Etc/UTC"})
_SHORT_GMT = frozenset({"", "Z"})
"""Other names of GMT: a stripe that names no zone is one of a writer that knew none, or of no timestamps."""


class OrcFileReader:
    """One ORC base file opened for reading, as `BaseFileReader` is for Parquet; its groups are stripes.

    Timestamps are stored by the time zone of each stripe's writer, which pyarrow doesn't tell: files with stripes of
    other zones than GMT that hold some are read whole, with stripes that say GMT, and corrected stripe by stripe by
    what the zones differ in.

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
            self._notes: dict[bytes, bytes] = dict(stored.metadata or {})
            self._stored = stored.remove_metadata()
            self._schema = self._declared(self._stored)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:  # names needn't be text
            raise self.corrupt(error) from error

    @property
    def num_groups(self) -> int:
        """Number of stripes in the file."""
        return int(self._file.nstripes)

    @property
    def schema(self) -> pa.Schema:
        """The file's columns, in its physical types."""
        return self._schema

    @property
    def num_rows(self) -> int:
        """Number of rows in the file."""
        return int(self._file.nrows)

    def group_rows(self, group: int) -> int:
        """Number of rows in a stripe."""
        return self._tail.stripes[group].rows

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
            NotSupportedError: the file has timestamps of a time zone that isn't known here, or of other centuries.
        """
        names = self._schema.names if columns is None else list(columns)
        wanted = range(self.num_groups) if groups is None else groups
        timed = any(holds_type(self._stored.field(name).type, pt.is_timestamp) for name in names)
        stored, schema = (pa.schema([kind.field(name) for name in names]) for kind in (self._stored, self._schema))
        if any(holds_type(self._stored.field(name).type, pt.is_map) for name in names):
            self._check_map_keys()
        file, shifts = self._in_gmt if timed else (self._file, ())
        made = []
        for number in wanted:
            try:
                batch = file.read_stripe(number, columns=names).select(names)
                rows = pa.Table.from_batches([batch], schema=stored)
            except (pa.ArrowException, OSError) as error:
                raise self._unreadable(error) from error
            shift = shifts[number] if shifts else 0
            columns = [self._typed(rows[name], schema.field(name), shift) for name in names]
            made.append(pa.Table.from_arrays(columns, schema=schema))
        return pa.concat_tables([schema.empty_table(), *made])

    def corrupt(self, reason: object) -> CorruptError:
        """The error for a file that can't be read."""
        return corrupt_file(self._storage, self._base, reason)

    def _unreadable(self, error: Exception) -> PudiError:
        if _OUT_OF_RANGE not in str(error):
            return self.corrupt(error)
        return NotSupportedError(
            f"an ORC file with timestamps before 1678 or after 2261, which Arrow's reader can't hold ({error}): leave "
            "such columns out, or read them with Apache Hudi",
            table=self._storage.root,
            path=self._base.path,
        )

    def _declared(self, stored: pa.Schema) -> pa.Schema:
        """The stored columns, with timestamps as the file's Avro schema has them: Hudi stores local ones as longs."""
        text = self._notes.get(AVRO_SCHEMA)
        try:
            said = None if text is None else avro_to_arrow(text.decode())
        except (PudiError, UnicodeDecodeError):  # a note of no use: columns are as they are stored
            said = None
        types = {} if said is None else {field.name: field.type for field in said}
        return pa.schema([field.with_type(with_clocks(field.type, types.get(field.name))) for field in stored])

    def _typed(self, column: pa.ChunkedArray, field: pa.Field, shift: int) -> pa.ChunkedArray:
        if column.type == field.type:
            return column
        cast = Cast(partial(as_instants, shift=shift))
        chunks = [cast_array(chunk, field.type, field.name, cast) for chunk in column.chunks]
        return pa.chunked_array(chunks, type=field.type)

    @cached_property
    def _in_gmt(self) -> tuple[orc.ORCFile, tuple[int, ...]]:
        """The file as one of a writer in GMT, and by stripe the microseconds that its timestamps are then off by.

        Raises:
            CorruptError: its end is damaged.
            NotSupportedError: a stripe's time zone isn't known here.
        """
        tail = self._tail
        try:
            zones = [zone_of_stripe(each, tail) for each in self._stripe_footers()]
            if _GMT.issuperset(zones):
                return self._file, ()
            known = {zone: self._ahead(zone) for zone in set(zones)}
            moved = orc.ORCFile(pa.BufferReader(in_zone_gmt(self._ranged(0, tail.size), tail)))
        except (CorruptError, pa.ArrowException, OSError) as error:
            raise self.corrupt(error) from error
        return moved, tuple(known[zone] for zone in zones)

    def _ahead(self, zone: str) -> int:
        """Microseconds that a time zone was ahead of GMT at the beginning of 2015."""
        if zone in _GMT | _SHORT_GMT:
            return 0
        try:
            try:
                moment = _EPOCH.replace(tzinfo=ZoneInfo(zone)).timestamp()
            except (KeyError, OSError, ValueError):  # Java's names of fixed offsets, such as GMT+05:30
                moment = float(Zone.of(zone).utc(np.array([_EPOCH_MILLIS]))[0]) / 1000
        except NotSupportedError as error:
            raise NotSupportedError(
                f"an ORC file with timestamps of a writer in the time zone {zone[:100]!r}, which isn't known here: "
                "leave its timestamp columns out, or read them with Apache Hudi",
                table=self._storage.root,
                path=self._base.path,
            ) from error
        return _EPOCH_MILLIS * 1000 - round(moment * 1_000_000)

    @cached_property
    def _tail(self) -> OrcTail:
        size = self._source.seek(0, os.SEEK_END)
        try:
            last = self._ranged(max(0, size - _LAST_BYTES), size)
            return decode_tail(self._ranged(max(0, size - tail_bytes(last)), size), size)
        except (CorruptError, OSError) as error:
            raise self.corrupt(error) from error

    def _stripe_footers(self) -> Iterator[bytes]:
        for stripe in self._tail.stripes:
            start = stripe.start + stripe.body
            yield self._ranged(start, start + stripe.footer)

    def _check_map_keys(self) -> None:
        try:
            damaged = any(has_null_keys(each, self._tail) for each in self._stripe_footers())
        except (CorruptError, OSError) as error:
            raise self.corrupt(error) from error
        if damaged:
            raise self.corrupt("it has maps with keys that are null")

    def _ranged(self, start: int, end: int) -> bytes:
        self._source.seek(start)
        return bytes(self._source.read(end - start))


@dataclass(frozen=True, slots=True)
class OrcOptions:
    """Options of ORC base files.

    Attributes:
        codec: `zlib`, `snappy`, `lz4`, `zstd` or `uncompressed` (hoodie.orc.compression.codec).
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
        avro_schema: Avro schema of the columns that files store, as JSON text.
        options: settings.
        left_out: columns of the rows that come which files leave out: meta fields, or partition columns.
    """

    storage: Storage
    avro_schema: str
    options: OrcOptions
    left_out: Collection[str] = ()

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
                own = stored_columns(rows, self.left_out)
                footer.add(own)
                writer.write(as_stored(own))

    def _noted(self, content: pa.Buffer, footer: RecordFooter) -> pa.Buffer:
        said = footer.metadata(self.avro_schema)
        notes = {name.decode(): said[name] for name in _NOTES if name in said}
        notes[AVRO_SCHEMA.decode()] = self.avro_schema.encode()
        return pa.py_buffer(b"".join(with_notes(content, notes)))
