"""Parquet base files: one Arrow table in, one file with Hudi's footer out, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pudi.context import Storage
from pudi.errors import CorruptError
from pudi.filegroup.slices import BaseFile
from pudi.format import BloomFilter, BloomOptions, footer_metadata
from pudi.schema import COMMIT_SEQNO, RECORD_KEY
from pudi.storage import open_input, prefetch


@dataclass(frozen=True, slots=True)
class ParquetOptions:
    """How base files are written.

    Attributes:
        codec: compression codec by pyarrow's name (`zstd`, `gzip`, `snappy`, `none`).
        row_group_bytes: size that a row group should reach before it's closed, uncompressed (hoodie.parquet.block.size).
        page_bytes: size of data pages (hoodie.parquet.page.size).
        bloom: bloom filter of record keys in the footer; None writes none.
        unique_columns: columns not worth a dictionary.
    """

    codec: str = "zstd"
    row_group_bytes: int = 120 << 20
    page_bytes: int = 1 << 20
    bloom: BloomOptions | None = None
    unique_columns: tuple[str, ...] = field(default=(RECORD_KEY, COMMIT_SEQNO))


@dataclass(frozen=True, slots=True)
class BaseFileWriter:
    """Writes base files of one table.

    Args:
        storage: the table's files.
        avro_schema: Avro schema with the meta fields, as JSON text, for the footer.
        options: Parquet settings.
    """

    storage: Storage
    avro_schema: str
    options: ParquetOptions

    def write(self, path: str, rows: pa.Table) -> int:
        """Create a base file from rows with their meta fields.

        Args:
            path: path relative to the table's root; the file must not be there.
            rows: meta fields first, then the table's columns; low-cardinality ones may be dictionary encoded.

        Returns:
            Size in bytes.
        """
        sink = pa.BufferOutputStream()
        plain = {f.name for f in rows.schema} - set(self.options.unique_columns)
        with pq.ParquetWriter(
            sink,
            rows.schema.with_metadata(None),
            compression=self.options.codec,
            data_page_size=self.options.page_bytes,
            use_dictionary=sorted(_leaves(rows.schema, plain)),
            store_schema=False,
            coerce_timestamps="us",
        ) as writer:
            writer.write_table(rows, row_group_size=self._row_group_rows(rows))
            writer.add_key_value_metadata(self._footer(rows))
        content = sink.getvalue()
        self.storage.create(path, content)
        return int(content.size)

    def _row_group_rows(self, rows: pa.Table) -> int:
        per_row = max(1, rows.nbytes // max(1, rows.num_rows))
        return max(1024, self.options.row_group_bytes // per_row)

    def _footer(self, rows: pa.Table) -> dict[bytes, bytes]:
        keys = rows[RECORD_KEY]
        span = pc.min_max(keys).as_py() if rows.num_rows else {"min": None, "max": None}
        wish = self.options.bloom
        bloom = None if wish is None else BloomFilter.build(keys, wish)
        return footer_metadata(self.avro_schema, span["min"], span["max"], bloom)


class BaseFileReader:
    """One base file opened for reading: its footer at once, column chunks when asked for.

    Args:
        storage: the table's files.
        base: the file.

    Raises:
        NotFoundError: the file is gone.
        CorruptError: it isn't a Parquet file.
    """

    def __init__(self, storage: Storage, base: BaseFile) -> None:
        self._storage = storage
        self._base = base
        self._source = open_input(storage, base.path, base.size)
        try:
            self._file = pq.ParquetFile(self._source, pre_buffer=True)
        except (pa.ArrowException, OSError) as error:
            raise self.corrupt(error) from error

    @property
    def metadata(self) -> pq.FileMetaData:
        """The footer."""
        return self._file.metadata

    @property
    def schema(self) -> pa.Schema:
        """The file's columns, in its physical types."""
        return self._file.schema_arrow

    def read(self, columns: Sequence[str] | None = None, groups: Sequence[int] | None = None) -> pa.Table:
        """Rows in their physical types.

        Args:
            columns: top-level columns that the file has; None for all.
            groups: row groups; None for all.

        Raises:
            CorruptError: the bytes are not what the footer says.
        """
        wanted = list(range(self.metadata.num_row_groups)) if groups is None else list(groups)
        try:
            prefetch(self._source, self._chunks(columns, wanted))
            return self._file.read_row_groups(wanted, columns=None if columns is None else list(columns))
        except (pa.ArrowException, OSError) as error:
            raise self.corrupt(error) from error

    def corrupt(self, reason: object) -> CorruptError:
        """The error for a file that can't be read."""
        return CorruptError(
            f"the base file can't be read: {reason}; restore it, or roll its commit back",
            table=self._storage.root,
            path=self._base.path,
            instant=self._base.instant,
        )

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


def _leaves(schema: pa.Schema, names: set[str]) -> list[str]:
    """Parquet's dotted leaf paths of the named flat columns; nested columns keep the writer's default."""
    return [f.name for f in schema if f.name in names and not pa.types.is_nested(f.type)]
