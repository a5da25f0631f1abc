"""Estimate the memory that a base file's records take."""

from __future__ import annotations

import pyarrow.parquet as pq

from pudi.context import Storage
from pudi.filegroup import BaseFile
from pudi.filegroup.formats import open_base_file


def text_bytes(storage: Storage, base: BaseFile) -> int:
    """Return the approximate bytes of all records of a base file in memory.

    A row group states its bytes before compression, in which a text that occurs often counts once: it's in the
    dictionary. So texts count as often as there are rows, at the length of the longer one of their bounds.

    Args:
        storage: the table's files.
        base: the file; of another format than Parquet its size counts.
    """
    metadata = getattr(open_base_file(storage, base), "metadata", None)
    if not isinstance(metadata, pq.FileMetaData):
        return base.size
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    return sum(_bytes_of(group.column(number)) for group in groups for number in range(group.num_columns))


def _bytes_of(chunk: pq.ColumnChunkMetaData) -> int:
    stored, found = int(chunk.total_uncompressed_size), chunk.statistics
    if found is None or chunk.physical_type != "BYTE_ARRAY" or not found.has_min_max:
        return stored
    bounds = [len(each) for each in (found.min_raw, found.max_raw) if isinstance(each, (bytes, str))]
    return max(stored, int(chunk.num_values) * max(bounds, default=0))
