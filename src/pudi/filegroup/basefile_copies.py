"""Write base files from existing Parquet files: unchanged parts are copied as bytes, the rest is encoded.

Hudi rewrites a file group's base file for any changed record, and stores the new file's name in each row. Row groups
without a changed record, and in other row groups columns without a changed value (usually the record keys), are copied
as bytes (`MovableFile`). Imported files of other writers give their rows or column chunks (`ForeignFile`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pudi.context import Storage
from pudi.errors import CorruptError
from pudi.filegroup.basefile import BaseFileReader, read_chunk_footer, read_ranges
from pudi.filegroup.basefile_encode import (
    ParquetOptions,
    encode_parquet,
    encoded_groups,
    has_above_ffff,
    model_footer,
    nan_free,
)
from pudi.format import BloomFilter, footer_metadata
from pudi.format.parquet import PARQUET_ERRORS, damaged_columns, open_parquet, read_groups, read_nan_free
from pudi.format.parquet_chunks import (
    CODECS,
    ColumnChunk,
    MovedChunk,
    NotMovableError,
    ParquetFooter,
    assemble,
    check_pages,
    has_column_orders,
    is_stored_alike,
    moved_groups,
    renamed,
    schema_columns,
    with_columns,
    with_known_bounds,
    without_field_ids,
)
from pudi.schema import RECORD_KEY
from pudi.storage import open_input

_WRITER = re.compile(r"parquet-cpp-arrow version (\d{1,4})\.")
_LEAST_VERSION = 2
"""Files of other writers, and of older versions, are read and rewritten: the meaning of statistics and of pages depends
on the writer in the footer (Arrow reads pages of version 2 of releases before 2.0 in another way)."""


@dataclass(frozen=True, slots=True)
class GroupPart:
    """Some rows of a file that is made from another one.

    Attributes:
        rows: the columns to encode: all, or some with as many rows as the row group.
        copied: the row group with the chunks of the other columns; None if `rows` has all columns.
        encoded: in place of `rows`, columns that are encoded already.
    """

    rows: pa.Table
    copied: int | None = None
    encoded: Mapping[tuple[str, ...], MovedChunk] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MovedGroups:
    """Row groups for a new file, and what its footer says of them.

    Attributes:
        groups: for each its number of rows and its chunks.
        span: least and greatest record key; None if unknown.
        nan_free: floating-point columns without NaN.
    """

    groups: tuple[tuple[int, list[MovedChunk]], ...]
    span: tuple[str, str] | None
    nan_free: frozenset[str]


class MovableFile:
    """A base file whose column chunks are copied into its next version.

    Args:
        reader: the file.
        schema: columns of the new file in its stored types, meta fields first.
        options: how the new file is written.

    Raises:
        NotMovableError: pudi wouldn't write the file this way with these columns and options.
        CorruptError: its footer is damaged.
    """

    def __init__(self, reader: BaseFileReader, schema: pa.Schema, options: ParquetOptions) -> None:
        self.reader = reader
        self.schema = schema
        self.options = options
        self._contents: dict[tuple[int, int], bytes] = {}
        path, writer = reader.path, reader.metadata.created_by or ""
        version = _WRITER.match(writer)  # first: other writers' footers may look impossible, and be right
        if version is None or int(version[1]) < _LEAST_VERSION:
            raise NotMovableError(f"a file of {writer[:100]!r}", path=path)
        self._footer = reader.chunk_footer()
        self._model = model_footer(schema, options)
        if not self._footer.has_schema_of(self._model):
            raise NotMovableError("the file's columns are stored in other types", path=path)
        codec = CODECS.get(self.options.codec)
        if any(chunk.codec != codec for group in self._footer.groups for chunk in group.chunks):
            raise NotMovableError(f"the file isn't compressed by {self.options.codec}", path=path)

    def bloom_filter(self) -> BloomFilter | None:
        """Return the bloom filter for a new file with the same keys in the same order.

        Raises:
            NotMovableError: this file's filter differs from one that would be made now.
        """
        wanted = self.options.bloom
        if wanted is None:
            return None
        found = self.reader.bloom_filter()
        made = (wanted.kind, wanted.hashes, wanted.bits)
        if (
            found is None
            or (found.kind, found.hashes, found.bits) != made
            or found.row_entries
            not in {
                0,
                wanted.num_entries,
            }
        ):
            raise NotMovableError("the file's bloom filter is another one", path=self.reader.path)
        return found

    def repeats_key(self, group: int, column: str) -> bool:
        """Return whether a row group stores the same bytes in a column as in the record key."""
        key, other = self._chunks(group, RECORD_KEY)[0], self._chunks(group, column)
        if len(other) != 1 or other[0].length != key.length or self.schema.field(column).type != pa.string():
            return False
        return self._content(key) == self._content(other[0])

    def few_valued(self) -> list[str]:
        """Return text columns with a dictionary in all row groups."""
        names = [f.name for f in self.schema if f.type == pa.string() and f.name != RECORD_KEY]
        groups = range(len(self._footer.groups))
        return [name for name in names if all(self._chunks(group, name)[0].only_dictionary for group in groups)]

    def rewritten(self, parts: Sequence[GroupPart], avro_schema: str, bloom: BloomFilter | None) -> pa.Buffer:
        """Return the new file.

        Args:
            parts: its rows, at least one part.
            avro_schema: Avro schema with the meta fields, as JSON text, for the footer.
            bloom: bloom filter for the footer.

        Raises:
            CorruptError: a chunk to copy is damaged.
        """
        return joined([self], [self.moved(parts)], avro_schema, bloom)

    def moved(self, parts: Sequence[GroupPart]) -> MovedGroups:
        """Return row groups for a new file.

        Raises:
            CorruptError: a chunk to copy is damaged.
        """
        self._fetch(parts)
        groups = tuple(group for part in parts for group in self._groups(part))
        return MovedGroups(groups, self._key_range(parts), frozenset(self._nan_free(parts)))

    def forget(self) -> None:
        """Drop the chunks kept in memory for a later file."""
        self._contents.clear()

    @property
    def model(self) -> ParquetFooter:
        """The footer of a file with these columns and no row groups."""
        return self._model

    @property
    def group_sizes(self) -> list[int]:
        """The stored bytes of each row group."""
        return [sum(chunk.length for chunk in group.chunks) for group in self._footer.groups]

    def _groups(self, part: GroupPart) -> Iterable[tuple[int, list[MovedChunk]]]:
        if part.copied is None and RECORD_KEY not in part.rows.column_names:
            return moved_groups(encode_parquet(part.rows, self.options))
        if part.copied is None:
            return encoded_groups(part.rows, self.options)
        made = part.encoded
        if part.rows.column_names:
            made = encoded_columns(part.rows, self.options)
        kept = self._footer.groups[part.copied]
        chunks = [made.get(chunk.path) or MovedChunk(chunk, self._content(chunk)) for chunk in kept.chunks]
        return [(kept.num_rows, chunks)]

    def _chunks(self, group: int, column: str) -> list[ColumnChunk]:
        return [chunk for chunk in self._footer.groups[group].chunks if chunk.path[0] == column]

    def _fetch(self, parts: Sequence[GroupPart]) -> None:
        """Fetch the bytes to copy; adjacent ranges are combined."""
        chunks = []
        for part in parts:
            if part.copied is not None:
                encoded = {*part.rows.column_names, *(path[0] for path in part.encoded)}
                chunks += [c for c in self._footer.groups[part.copied].chunks if c.path[0] not in encoded]
        self._load(chunks)

    def _load(self, chunks: Iterable[ColumnChunk]) -> None:
        missing = [chunk for chunk in chunks if (chunk.start, chunk.length) not in self._contents]
        ranges = [(chunk.start, chunk.length) for chunk in missing]
        for chunk, content in zip(missing, self.reader.read_bytes(ranges), strict=True):
            check_pages(chunk, content, path=self.reader.path)
            self._contents[chunk.start, chunk.length] = content

    def _content(self, chunk: ColumnChunk) -> bytes:
        self._load([chunk])
        return self._contents[chunk.start, chunk.length]

    def _key_range(self, parts: Sequence[GroupPart]) -> tuple[str, str] | None:
        """Return the new file's least and greatest key; None if a key is above U+FFFF, see `RecordFooter`."""
        whole = self.reader.key_range()
        if whole is None:
            return None
        known, spans = self.reader.statistics(RECORD_KEY), []
        for part in parts:
            if RECORD_KEY in part.rows.column_names:
                keys = part.rows[RECORD_KEY]
                if has_above_ffff(keys):
                    return None
                span = pc.min_max(keys).as_py()
                spans.append((span["min"], span["max"]))
            elif part.copied is not None:
                stated = known[part.copied]
                spans.append(whole if stated is None or stated.minimum is None else (stated.minimum, stated.maximum))
        return min(low for low, _ in spans), max(high for _, high in spans)

    def _nan_free(self, parts: Sequence[GroupPart]) -> list[str]:
        """Return floating-point columns without NaN."""
        known = read_nan_free(self.reader.metadata)
        names = [f.name for f in self.schema if pa.types.is_floating(f.type)]
        for part in parts:
            free = nan_free(part.rows)
            names = [n for n in names if (n in free if n in part.rows.column_names else n in known)]
        return names


def encoded_columns(rows: pa.Table, options: ParquetOptions) -> dict[tuple[str, ...], MovedChunk]:
    """Return the chunks of some columns of one row group, by path."""
    content = encode_parquet(rows, options, most_rows=max(rows.num_rows, 1))
    return {moved.chunk.path: moved for _, chunks in moved_groups(content) for moved in chunks}


def joined(
    files: Sequence[MovableFile], moved: Sequence[MovedGroups], avro_schema: str, bloom: BloomFilter | None
) -> pa.Buffer:
    """Return a base file made of row groups of others.

    Args:
        files: the files that the row groups come from, at least one; they have the same columns.
        moved: the row groups of each.
        avro_schema: Avro schema with the meta fields, as JSON text, for the footer.
        bloom: bloom filter for the footer.
    """
    schema = files[0].schema
    spans = [each.span for each in moved if each.span is not None]
    low, high = (None, None)
    if len(spans) == len(moved):
        low, high = min(span[0] for span in spans), max(span[1] for span in spans)
    free = frozenset.intersection(*(each.nan_free for each in moved))
    names = [field.name for field in schema if field.name in free]
    groups = [group for each in moved for group in each.groups]
    return assemble(files[0].model, groups, footer_metadata(avro_schema, low, high, bloom, names))


_READABLE: Final = {CODECS[name] for name in ("uncompressed", "snappy", "gzip", "zstd")}
"""Codecs that every reader of Hudi tables has."""


class ForeignFile:
    """An open Parquet file.

    Args:
        storage: where it is.
        path: its path there.
        size: its size in bytes when it was listed.

    Raises:
        NotFoundError: it is gone.
        CorruptError: it isn't a Parquet file, or has another size.
    """

    def __init__(self, storage: Storage, path: str, size: int) -> None:
        self.path = path
        self._root = storage.root
        self._source = open_input(storage, path, size)
        try:
            found = self._source.seek(0, 2)
            if found != size:
                raise CorruptError(
                    f"the file changed meanwhile: it has {found} bytes, and had {size}", table=self._root, path=path
                )
            self._file = open_parquet(self._source)
        except PARQUET_ERRORS as error:
            raise self.corrupt(error) from error

    @property
    def schema(self) -> pa.Schema:
        """Its columns."""
        return self._file.schema_arrow

    @property
    def metadata(self) -> pq.FileMetaData:
        """Its footer."""
        return self._file.metadata

    @property
    def groups(self) -> tuple[tuple[int, int], ...]:
        """Number of rows and stored bytes of each row group."""
        metadata = self.metadata
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        sizes = [sum(each.column(n).total_compressed_size for n in range(each.num_columns)) for each in groups]
        return tuple((each.num_rows, size) for each, size in zip(groups, sizes, strict=True))

    def movable(self, schema: pa.Schema, options: ParquetOptions) -> MovableColumns:
        """Return the file as one whose column chunks are copied.

        Args:
            schema: the table's columns; the file may lack some.
            options: how base files are written.

        Raises:
            NotMovableError: a column is stored in another type than base files have, or by a codec that some readers
                don't have, or lies at an unusual place.
            CorruptError: the footer is damaged.
        """
        footer = self.chunk_footer()
        own = schema_columns(footer, path=self.path)
        unknown = [name for name in own if name not in schema.names]
        if unknown:
            raise NotMovableError(f"column {unknown[0]!r} isn't in the table", path=self.path)
        wanted = schema_columns(model_footer(schema, options))
        differing = [name for name, elements in own.items() if not is_stored_alike(elements, wanted[name])]
        if differing:
            raise NotMovableError(f"column {differing[0]!r} is stored in another type", path=self.path)
        if any(chunk.codec not in _READABLE for group in footer.groups for chunk in group.chunks):
            raise NotMovableError("a column is compressed by a codec that some readers don't have", path=self.path)
        return MovableColumns(self, footer)

    def chunk_footer(self) -> ParquetFooter:
        """The footer, for column chunks to be copied; raises as `decode_footer`."""
        try:
            return read_chunk_footer(self._source, self.path, self._root)
        except OSError as error:
            raise self.corrupt(error) from error

    def read(self, columns: Sequence[str], group: int) -> pa.Table:
        """Return columns of a row group; raises `CorruptError`."""
        try:
            return read_groups(self._file, [group], list(columns))
        except PARQUET_ERRORS as error:
            raise self._damaged(error, columns, group) from error

    def batches(self, group: int, rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a row group, some at a time; raises `CorruptError`.

        Args:
            group: number of the row group.
            rows: number of rows at a time.
        """
        try:
            yield from self._file.iter_batches(rows, row_groups=[group])
        except PARQUET_ERRORS as error:
            raise self._damaged(error, None, group) from error

    def read_bytes(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return byte ranges `(start, length)`; raises `CorruptError`."""
        try:
            return read_ranges(self._source, ranges)
        except OSError as error:
            raise self.corrupt(error) from error

    def close(self) -> None:
        """Close it."""
        self._source.close()

    def corrupt(self, reason: object) -> CorruptError:
        """Return the error for a file that can't be read."""
        return CorruptError(f"the Parquet file can't be read: {reason}", table=self._root, path=self.path)

    def _damaged(self, error: object, columns: Sequence[str] | None, group: int) -> CorruptError:
        damaged = ", ".join(damaged_columns(self._file, columns, [group]))
        return self.corrupt(f"column {damaged}: {error}" if damaged else error)


class MovableColumns:
    """A file whose column chunks go into base files.

    Args:
        file: the file.
        footer: its footer.
    """

    def __init__(self, file: ForeignFile, footer: ParquetFooter) -> None:
        self.file = file
        self._footer = footer
        self._elements = schema_columns(footer, path=file.path)
        self._ordered = has_column_orders(footer)
        self._key: str | None = None

    def with_keys(self, column: str | None) -> MovableColumns:
        """Return the file with a text column whose chunks are copied as record keys too; None for none."""
        other = copy(self)
        other._key = column
        return other

    def lacking(self, meta: pa.Table) -> pa.Table:
        """Return the meta fields that must be encoded."""
        return meta if self._key is None else meta.drop_columns([RECORD_KEY])

    @property
    def layout(self) -> str:
        """Return the properties that chunks in one base file must share: the writer, and the storage of columns."""
        stored = repr([without_field_ids(elements) for elements in self._elements.values()])
        return f"{self._footer.created_by} {hashlib.sha256(f'{self._ordered}{stored}'.encode()).hexdigest()}"

    def model(self, schema: pa.Schema, options: ParquetOptions) -> ParquetFooter:
        """Return the footer, without row groups, of a base file with this file's chunks.

        Args:
            schema: the table's columns, meta fields first.
            options: how base files are written.
        """
        made = model_footer(schema, options)
        own = dict(self._elements)
        if self._key is not None:
            own[RECORD_KEY] = renamed(own[self._key], RECORD_KEY)
        columns = [own.get(name) or elements for name, elements in schema_columns(made).items()]
        return with_columns(made, columns, self._footer.created_by)

    def group(self, number: int, made: pa.Table, schema: pa.Schema, options: ParquetOptions) -> list[MovedChunk]:
        """Return the chunks of a row group for a base file.

        Args:
            number: number of the row group.
            made: the columns that this file lacks; they are encoded.
            schema: the table's columns, meta fields first.
            options: how base files are written.

        Raises:
            CorruptError: a chunk to copy is damaged.
        """
        content = encode_parquet(made, options, most_rows=max(made.num_rows, 1))
        by_column: dict[str, list[MovedChunk]] = {}
        for _, chunks in moved_groups(content):
            for moved in chunks:
                by_column.setdefault(moved.chunk.path[0], []).append(moved)
        kept = self._footer.groups[number].chunks
        contents = self.file.read_bytes([(chunk.start, chunk.length) for chunk in kept])
        for chunk, pages in zip(kept, contents, strict=True):
            check_pages(chunk, pages, path=self.file.path)
            copied = MovedChunk(with_known_bounds(chunk, ordered=self._ordered), pages)
            by_column.setdefault(chunk.path[0], []).append(copied)
            if chunk.path[0] == self._key:
                by_column[RECORD_KEY] = [MovedChunk(copied.chunk.named(RECORD_KEY), pages)]
        return [moved for name in schema.names for moved in by_column[name]]
