"""HFile base files: one Arrow table in, one file out, and back.

Source: HoodieAvroHFileWriter, HoodieNativeAvroHFileReader.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from pudi.context import Storage
from pudi.errors import CorruptError, naming
from pudi.filegroup.basefile import corrupt_file, stored_columns
from pudi.filegroup.slices import BaseFile
from pudi.format import BloomFilter, BloomOptions, ColumnStatistics
from pudi.format.bloom import DYNAMIC_V0, SIMPLE, BloomType
from pudi.format.hfile_read import HFileReader
from pudi.format.hfile_rows import encode_rows, read_rows
from pudi.format.hfile_write import BLOCK_BYTES, BLOOM_BLOCK, BLOOM_TYPE, MAX_KEY, MIN_KEY, HFileSettings
from pudi.schema import RECORD_KEY, avro_to_arrow

HFILE_EXTENSION = "hfile"
"""Extension of HFile base files (HoodieFileFormat)."""


def open_hfile(storage: Storage, base: BaseFile) -> HFileReader:
    """Open an HFile base file for reading by ranges.

    Args:
        storage: the table's files.
        base: the file; of size 0 it's asked for its size.

    Raises:
        NotFoundError: the file is gone.
        CorruptError: it isn't an HFile.
    """

    def ranged(offset: int, length: int) -> bytes:
        return bytes(storage.read_ranges(base.path, [(offset, length)])[0])

    return HFileReader.open(ranged, base.size or storage.head(base.path).size, path=base.path)


class HFileBaseReader:
    """One HFile base file opened for reading, as `BaseFileReader` is for Parquet; it's one group.

    Args:
        storage: the table's files.
        base: the file.

    Raises:
        NotFoundError: the file is gone.
        CorruptError: it isn't an HFile.
    """

    def __init__(self, storage: Storage, base: BaseFile) -> None:
        self._storage = storage
        self._base = base
        self._file = open_hfile(storage, base)
        self._avro = self._file.avro_schema

    @property
    def num_groups(self) -> int:
        """One."""
        return 1

    @property
    def num_rows(self) -> int:
        """Number of records in the file."""
        return self._file.entry_count

    @property
    def schema(self) -> pa.Schema:
        """The file's columns; raises as `avro_to_arrow`."""
        with naming(self._base.path, self._storage.root):
            return avro_to_arrow(self._avro)

    def group_rows(self, group: int) -> int:
        """Number of records in the one group."""
        return self.num_rows

    def key_range(self) -> tuple[str, str] | None:
        """Least and greatest record key, by the order of their bytes; None where the file doesn't say.

        Raises:
            CorruptError: they're no text.
        """
        found = [self._file.info.get(name) for name in (MIN_KEY, MAX_KEY)]
        if None in found or not self.num_rows:
            return None
        try:
            low, high = (key.decode() for key in found if key is not None)
        except UnicodeDecodeError as error:
            raise self.corrupt(f"its key range is not UTF-8: {error}") from error
        return low, high

    def bloom_filter(self) -> BloomFilter | None:
        """Return the bloom filter of the record keys; None without one.

        Raises:
            CorruptError: it can't be decoded.
            NotSupportedError: as of `BloomFilter.from_base64`.
        """
        text = self._file.meta_block(BLOOM_BLOCK)
        kind = self._file.info.get(BLOOM_TYPE, SIMPLE.encode()).upper()
        if text is None:
            return None
        if kind not in {SIMPLE.encode(), DYNAMIC_V0.encode()}:
            raise self.corrupt(f"a bloom filter of type {kind[:100]!r}")
        known: BloomType = "DYNAMIC_V0" if kind == DYNAMIC_V0.encode() else "SIMPLE"
        return BloomFilter.from_base64(text, known, path=self._base.path)

    def statistics(self, column: str) -> list[ColumnStatistics | None]:
        """Return no bounds: HFiles store none."""
        return [None]

    def read(self, columns: Sequence[str] | None = None, groups: Sequence[int] | None = None) -> pa.Table:
        """Rows in the order of their keys.

        Args:
            columns: top-level columns that the file has; None for all.
            groups: none, or the one there is; None for that.

        Raises:
            CorruptError: the file is damaged.
        """
        names = self.schema.names if columns is None else list(columns)
        if groups is not None and not list(groups):
            return pa.schema([self.schema.field(name) for name in names]).empty_table()
        return read_rows(self._file, self._avro, set(names), path=self._base.path).select(names)

    def corrupt(self, reason: object) -> CorruptError:
        """The error for a file that can't be read."""
        return corrupt_file(self._storage, self._base, reason)


@dataclass(frozen=True, slots=True)
class HFileOptions:
    """Options of HFile base files.

    Attributes:
        codec: `gzip` or `none` (hoodie.hfile.compression.algorithm).
        block_bytes: uncompressed bytes at which a block is closed (hoodie.hfile.block.size).
        bloom: bloom filter of record keys, which all of these files have.
    """

    codec: str = "gzip"
    block_bytes: int = BLOCK_BYTES
    bloom: BloomOptions = field(default_factory=BloomOptions)


@dataclass(frozen=True, slots=True)
class HFileBaseWriter:
    """Writes HFile base files of one table, as `BaseFileWriter` does Parquet ones; rows are put in order of their keys.

    Args:
        storage: the table's files.
        avro_schema: Avro schema of the columns that files store, as JSON text.
        options: settings.
        left_out: columns of the rows that come which files leave out: meta fields, or partition columns.
    """

    storage: Storage
    avro_schema: str
    options: HFileOptions
    left_out: Collection[str] = ()

    def put(self, path: str, rows: pa.Table) -> pa.Buffer:
        """Create a base file from rows with their meta fields.

        Args:
            path: path relative to the table's root; the file must not be there.
            rows: meta fields first, then the table's columns, in any order of rows.

        Returns:
            The file's content.

        Raises:
            InvalidArgumentError: a record key comes twice, or the file would have more than 2 GiB.
            NotSupportedError: as of `encode_rows`.
        """
        content = self.encode(rows)
        self.storage.create(path, content)
        return content

    def write_parts(self, path: str, parts: Iterable[pa.Table], folder: str | None = None) -> pa.Buffer:
        """Create a base file as `put` does, of rows that arrive in parts; all stay in memory to be sorted."""
        return self.put(path, pa.concat_tables(parts, promote_options="permissive").unify_dictionaries())

    def encode(self, rows: pa.Table) -> pa.Buffer:
        """The content of a base file of rows with their meta fields; raises as `put`."""
        options = self.options
        content = encode_rows(
            stored_columns(rows, self.left_out),
            self.avro_schema,
            rows[RECORD_KEY],
            bloom=options.bloom,
            settings=HFileSettings(options.codec, options.block_bytes),
        )
        return pa.py_buffer(content)
