"""Parquet content with a checksum on each page: written with one, verified when read; all Parquet goes through here.

A flipped bit in a page that holds one (CRC-32 in the page header, of the page as it is stored) is an error and never
another value. Files of writers that make none are read as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

PARQUET_ERRORS = (pa.ArrowException, OSError)
"""Errors that pyarrow raises for bytes that aren't Parquet or a page with a wrong checksum."""


def open_parquet(
    source: Any,
    *,
    dictionary: Sequence[str] = (),
    pre_buffer: bool = True,
    metadata: pq.FileMetaData | None = None,
) -> pq.ParquetFile:
    """A Parquet file opened for reading.

    Args:
        source: what pyarrow reads from: an opened file or a buffer.
        dictionary: text columns to read dictionary encoded.
        pre_buffer: whether pyarrow fetches near ranges of the source together.
        metadata: the footer, where it's known.

    Opening it, and each read, raises one of `PARQUET_ERRORS` where the bytes are damaged.
    """
    return pq.ParquetFile(
        source,
        metadata=metadata,
        pre_buffer=pre_buffer,
        read_dictionary=list(dictionary),
        page_checksum_verification=True,
    )


def read_groups(
    file: pq.ParquetFile, groups: Sequence[int] | None, columns: Sequence[str] | None, *, use_threads: bool = True
) -> pa.Table:
    """Rows of row groups, however much text there is.

    Args:
        file: the file.
        groups: the row groups; None for all.
        columns: top-level columns; None for all.
        use_threads: whether pyarrow reads columns side by side.

    Raises one of `PARQUET_ERRORS` where the bytes are damaged.
    """
    groups = list(range(file.metadata.num_row_groups)) if groups is None else list(groups)
    columns = None if columns is None else list(columns)
    try:
        return file.read_row_groups(groups, columns=columns, use_threads=use_threads)
    except pa.ArrowNotImplementedError:  # texts in lists, maps or structs that one array has no room for
        for rows in _FEWER_ROWS:
            with suppress(pa.ArrowNotImplementedError):
                parts = file.iter_batches(rows, row_groups=groups, columns=columns, use_threads=use_threads)
                return pa.Table.from_batches(list(parts))
        raise


_FEWER_ROWS = (1 << 16, 1 << 11, 1 << 6, 1)


def parquet_writer(sink: Any, schema: pa.Schema, codec: str, **settings: Any) -> pq.ParquetWriter:
    """A writer of a Parquet file.

    Args:
        sink: where the bytes go.
        schema: the columns, in physical types.
        codec: compression codec by Hudi's name (`zstd`, `gzip`, `snappy`, `uncompressed`).
        settings: more of `pyarrow.parquet.ParquetWriter`'s.
    """
    compression = "none" if codec == "uncompressed" else codec
    return pq.ParquetWriter(
        sink, schema, compression=compression, store_schema=False, write_page_checksum=True, **settings
    )


def damaged_columns(
    file: pq.ParquetFile, columns: Collection[str] | None, groups: Sequence[int] | None = None
) -> list[str]:
    """Return the columns that can't be read, after a read of several failed: reads each one alone.

    Args:
        file: the file.
        columns: the top-level columns that were read; None for all.
        groups: the row groups that were; None for all.
    """
    wanted = list(range(file.metadata.num_row_groups)) if groups is None else list(groups)
    return [
        name
        for name in file.schema_arrow.names
        if (columns is None or name in columns) and not _is_readable(file, name, wanted)
    ]


def _is_readable(file: pq.ParquetFile, column: str, groups: list[int]) -> bool:
    try:
        read_groups(file, groups, [column], use_threads=False)
    except PARQUET_ERRORS:
        return False
    return True
