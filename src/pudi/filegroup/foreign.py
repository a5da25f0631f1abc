"""A Parquet file of any writer, whose rows or column chunks go into base files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from copy import copy
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from pudi.context import Storage
from pudi.errors import CorruptError
from pudi.filegroup.basefile_encode import ParquetOptions, encode_parquet, model_footer
from pudi.filegroup.opening import read_chunk_footer, read_ranges
from pudi.format.parquet import PARQUET_ERRORS, damaged_columns, open_parquet, read_groups
from pudi.format.parquet_chunks import (
    CODECS,
    MovedChunk,
    NotMovableError,
    ParquetFooter,
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
