"""Parquet base files: open them, read their rows and footers, write one from an Arrow table.

Files of every format are opened by `open_whole`: it compares the file's size with the stated one, which shows most
replaced files.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Collection, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pudi.context import Storage
from pudi.errors import CorruptError, naming
from pudi.filegroup.basefile_encode import (
    ParquetOptions,
    encode_base_file,
    group_rows,
    has_above_ffff,
    nan_free,
    parquet_writer,
)
from pudi.filegroup.slices import BaseFile
from pudi.format import (
    BloomBuilder,
    BloomFilter,
    BloomOptions,
    ColumnStatistics,
    column_statistics,
    footer_metadata,
    read_bloom_filter,
    read_key_range,
)
from pudi.format.parquet import PARQUET_ERRORS, column_places, damaged_columns, open_parquet, read_groups
from pudi.format.parquet_chunks import FOOTER_TAIL, ParquetFooter, decode_footer, footer_length
from pudi.schema import RECORD_KEY
from pudi.storage import InputFile, open_input, prefetch, temporary_errors, temporary_file


def open_whole(storage: Storage, base: BaseFile) -> InputFile:
    """Open a base file and compare its size with the stated one.

    Args:
        storage: the table's files.
        base: the file, with the size that the metadata table or a listing gives it; 0 for an unknown one.

    Raises:
        NotFoundError: the file is gone.
        CorruptError: it has another size.
    """
    source = open_input(storage, base.path, base.size)
    size = getattr(source, "size", None)
    if size is not None:
        try:
            check_size_of(storage, base, size())
        except CorruptError:
            source.close()
            raise
    return source


def check_size_of(storage: Storage, base: BaseFile, found: int) -> None:
    """Compare the size of a base file with its stated sizes.

    Args:
        storage: the table's files.
        base: the file, as of `open_whole`.
        found: its bytes.

    Raises:
        CorruptError: it has another size.
    """
    if base.size and found != base.size:
        raise CorruptError(
            f"the base file isn't the one that was written: it has {found} bytes, but {base.size} are stated; "
            "restore the file from a copy, or roll back its commit and all later ones",
            table=storage.root,
            path=base.path,
            instant=base.instant,
        )


def read_ranges(source: InputFile, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
    """Return byte ranges `(start, length)` of a file, near ones fetched together.

    Raises:
        OSError: the file can't be read.
    """
    prefetch(source, ranges)
    found = []
    for start, length in ranges:
        source.seek(start)
        found.append(bytes(source.read(length)))
    return found


def read_chunk_footer(source: InputFile, path: str, root: str) -> ParquetFooter:
    """Return the footer of a file; raises as `decode_footer`, and OSError.

    Args:
        source: the file.
        path: its path, for errors.
        root: where it is, for errors.
    """
    size = source.seek(0, os.SEEK_END)
    with naming(path, root):
        length = footer_length(read_ranges(source, [(size - FOOTER_TAIL, FOOTER_TAIL)])[0])
        start = size - FOOTER_TAIL - length
        if start < 0:
            raise CorruptError(f"a footer of {length} bytes in a file of {size}")
        return decode_footer(read_ranges(source, [(start, length)])[0], size)


@dataclass(frozen=True, slots=True)
class BaseFileWriter:
    """Writes base files of one table.

    Args:
        storage: the table's files.
        avro_schema: Avro schema with the meta fields, as JSON text, for the footer.
        options: Parquet settings.
        left_out: columns of the rows that come which files leave out: meta fields, or partition columns.
    """

    storage: Storage
    avro_schema: str
    options: ParquetOptions
    left_out: Collection[str] = ()

    def put(self, path: str, rows: pa.Table) -> pa.Buffer:
        """Create a base file from rows with their meta fields.

        Args:
            path: path relative to the table's root; the file must not be there.
            rows: meta fields first, then the table's columns; low-cardinality ones may be dictionary encoded.

        Returns:
            The file's content.
        """
        return self._put(path, self._stored(rows))

    def _put(self, path: str, rows: pa.Table) -> pa.Buffer:
        content = self._encode(rows)
        self.storage.create(path, content)
        return content

    def _stored(self, rows: pa.Table) -> pa.Table:
        return stored_columns(rows, self.left_out)

    def write_parts(self, path: str, parts: Iterable[pa.Table], folder: str | None = None) -> pa.Buffer:
        """Create a base file from rows that arrive in parts; several parts pass through a temporary file.

        Args:
            path: path relative to the table's root; the file must not be there.
            parts: at least one table of one schema, as of `put`.
            folder: where the temporary file is made; None for the system's folder.

        Returns:
            The file's content.

        Raises:
            RefusedError: there's no room for the temporary file.
        """
        coming = map(self._stored, parts)
        first = next(coming)
        second = next(coming, None)
        if second is None:
            return self._put(path, first)
        with temporary_file(folder) as file:
            footer = RecordFooter(self.options.bloom)
            with temporary_errors(folder), parquet_writer(pa.PythonFile(file, "w"), first, self.options) as writer:
                for rows in chain([first, second], coming):
                    if rows.num_rows:
                        footer.add(rows)
                        writer.write_table(rows, row_group_size=group_rows(rows, self.options))
                    del rows
                writer.add_key_value_metadata(footer.metadata(self.avro_schema))
            file.flush()
            size = os.fstat(file.fileno()).st_size
            content = pa.py_buffer(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ))
            self.storage.create(path, content)
        return content

    def encode(self, rows: pa.Table) -> pa.Buffer:
        """The content of a base file of rows with their meta fields."""
        return self._encode(self._stored(rows))

    def _encode(self, rows: pa.Table) -> pa.Buffer:
        footer = RecordFooter(self.options.bloom)

        def metadata(span: tuple[str, str] | None) -> dict[bytes, bytes]:
            footer.add(rows, span)
            return footer.metadata(self.avro_schema)

        return encode_base_file(rows, self.options, metadata)


def stored_columns(rows: pa.Table, left_out: Collection[str]) -> pa.Table:
    """Return the columns of rows with meta fields that a file stores: all, or those that it doesn't leave out."""
    return rows.select([name for name in rows.column_names if name not in left_out]) if left_out else rows


class RecordFooter:
    """Gathers what a base file's footer says of its records.

    Args:
        bloom: the bloom filter of record keys that it gets; None for none.
    """

    def __init__(self, bloom: BloomOptions | None) -> None:
        self._bloom = None if bloom is None else BloomBuilder(bloom)
        self._low: str | None = None
        self._high: str | None = None
        self._ranged = True
        self._nan_free: list[str] | None = None

    def add(self, rows: pa.Table, span: tuple[str, str] | None = None) -> None:
        """Take rows into account; `span` is their least and greatest key, where these are known."""
        free = nan_free(rows)
        self._nan_free = free if self._nan_free is None else [name for name in self._nan_free if name in free]
        if RECORD_KEY in rows.column_names:
            self._add_keys(rows[RECORD_KEY], span)

    def _add_keys(self, keys: pa.ChunkedArray, span: tuple[str, str] | None) -> None:
        if self._bloom is not None:
            self._bloom.add(keys)
        # Hudi's bloom index compares keys with the range by UTF-16 units (String.compareTo), Arrow by UTF-8 bytes. The
        # orders differ only above U+FFFF; to a file without a range Hudi compares every key (BloomIndexFileInfo).
        self._ranged = self._ranged and not has_above_ffff(keys)
        low, high = span or pc.min_max(keys).as_py().values()
        if low is not None:
            self._low = low if self._low is None else min(self._low, low)
            self._high = high if self._high is None else max(self._high, high)

    def metadata(self, avro_schema: str) -> dict[bytes, bytes]:
        """The footer's key-value metadata."""
        low, high = (self._low, self._high) if self._ranged else (None, None)
        bloom = None if self._bloom is None else self._bloom.build()
        return footer_metadata(avro_schema, low, high, bloom, self._nan_free or [])


class BaseFileReader:
    """One open base file: the footer is read on opening, column chunks on demand.

    Args:
        storage: the table's files.
        base: the file.
        dictionary: text columns to read dictionary encoded, for those with few values.

    Raises:
        NotFoundError: the file is gone.
        CorruptError: it isn't a Parquet file.
    """

    def __init__(self, storage: Storage, base: BaseFile, dictionary: Sequence[str] = ()) -> None:
        self._storage = storage
        self._base = base
        self._places: dict[str, int] | None = None
        self._source = open_whole(storage, base)
        try:
            self._file = open_parquet(self._source, dictionary=dictionary)
        except PARQUET_ERRORS as error:
            raise self.corrupt(error) from error

    @property
    def path(self) -> str:
        """Path of the file, relative to the table's root."""
        return self._base.path

    @property
    def metadata(self) -> pq.FileMetaData:
        """The footer."""
        return self._file.metadata

    @property
    def schema(self) -> pa.Schema:
        """The file's columns, in its physical types."""
        return self._file.schema_arrow

    @property
    def num_groups(self) -> int:
        """Number of row groups in the file."""
        return int(self.metadata.num_row_groups)

    def group_rows(self, group: int) -> int:
        """Return the number of rows of a row group."""
        return int(self.metadata.row_group(group).num_rows)

    @property
    def num_rows(self) -> int:
        """Number of rows in the file."""
        return int(self.metadata.num_rows)

    def key_range(self) -> tuple[str, str] | None:
        """Return the least and greatest record key in the footer, by its writer's order; None if it has none."""
        return read_key_range(self.metadata, path=self._base.path)

    def bloom_filter(self) -> BloomFilter | None:
        """Return the bloom filter of the record keys; None without one. Raises as `read_bloom_filter`."""
        return read_bloom_filter(self.metadata, path=self._base.path)

    def statistics(self, column: str) -> list[ColumnStatistics | None]:
        """Return the bounds of a column for each row group; None for unknown bounds."""
        if self._places is None:
            self._places = column_places(self.metadata)
        return column_statistics(self.metadata, column, self._places)

    def read(self, columns: Sequence[str] | None = None, groups: Sequence[int] | None = None) -> pa.Table:
        """Rows in their physical types.

        Args:
            columns: top-level columns that the file has; None for all.
            groups: row groups; None for all.

        Raises:
            CorruptError: the bytes are not what the footer or a page's checksum says; names the columns.
        """
        wanted = list(range(self.metadata.num_row_groups)) if groups is None else list(groups)
        try:
            prefetch(self._source, self._chunks(columns, wanted))
            return read_groups(self._file, wanted, None if columns is None else list(columns))
        except PARQUET_ERRORS as error:
            damaged = ", ".join(damaged_columns(self._file, columns, wanted))
            raise self.corrupt(f"column {damaged}: {error}" if damaged else error) from error

    def prefetch(self) -> None:
        """Fetch all columns of all row groups together, where requests cost time."""
        prefetch(self._source, self._chunks(None, range(self.num_groups)))

    def with_dictionaries(self, names: Sequence[str]) -> BaseFileReader:
        """The same open file, with text columns to read dictionary encoded."""
        other = copy(self)
        other._file = open_parquet(self._source, dictionary=names, metadata=self.metadata)
        return other

    def chunk_footer(self) -> ParquetFooter:
        """The footer, for column chunks to be moved to other files; raises as `decode_footer`."""
        try:
            return read_chunk_footer(self._source, self._base.path, self._storage.root)
        except OSError as error:
            raise self.corrupt(error) from error

    def read_bytes(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Byte ranges `(start, length)` of the file, near ones fetched together; raises `CorruptError`."""
        try:
            return read_ranges(self._source, ranges)
        except OSError as error:
            raise self.corrupt(error) from error

    def corrupt(self, reason: object) -> CorruptError:
        """The error for a file that can't be read."""
        return corrupt_file(self._storage, self._base, reason)

    def _chunks(self, columns: Sequence[str] | None, groups: Sequence[int]) -> list[tuple[int, int]]:
        """Byte ranges of the column chunks that will be read."""
        wanted = None if columns is None else set(columns)
        ranges = []
        for group in groups:
            row_group = self.metadata.row_group(group)
            for number in range(row_group.num_columns):
                chunk = row_group.column(number)
                if wanted is None or chunk.path_in_schema.split(".", 1)[0] in wanted:
                    start = chunk.dictionary_page_offset or chunk.data_page_offset
                    ranges.append((min(start, chunk.data_page_offset), chunk.total_compressed_size))
        return ranges


def corrupt_file(storage: Storage, base: BaseFile, reason: object) -> CorruptError:
    """The error for a base file that can't be read."""
    return CorruptError(
        f"the base file can't be read: {reason}; restore it, or roll back its commit",
        table=storage.root,
        path=base.path,
        instant=base.instant,
    )
