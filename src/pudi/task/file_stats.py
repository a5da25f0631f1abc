"""Statistics of a file that was just written, from its content and records in memory."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from pudi.format.parquet_pages import open_parquet
from pudi.metadata import StatsSpec, base_file_stats, leaf_values, log_file_stats
from pudi.schema import conform_read

_PARQUET = b"PAR1"
"""The first bytes of Parquet files."""


def stats_of_base(content: pa.Buffer, rows: pa.Table | None, spec: StatsSpec | None) -> pa.Table | None:
    """Return the column statistics of a base file.

    Args:
        content: the file.
        rows: its rows; None reads them from the content as needed.
        spec: the columns; None makes no statistics.

    Returns:
        None also for formats other than Parquet, like Hudi (HoodieTableMetadataUtil.readColumnRangeMetadataFrom).
    """
    if spec is None or bytes(content[: len(_PARQUET)]) != _PARQUET:
        return None

    def values(name: str) -> pa.ChunkedArray:
        if rows is not None:
            return leaf_values(rows, name)
        return leaf_values(open_parquet(pa.BufferReader(content)).read([name.partition(".")[0]]), name)

    return base_file_stats(pq.read_metadata(pa.BufferReader(content)), spec, values)


def columns_of_base(content: pa.Buffer, rows: pa.Table | None, schema: pa.Schema, names: Sequence[str]) -> pa.Table:
    """Return columns of a base file in the table's types.

    Args:
        content: the file, in Parquet if `rows` isn't given.
        rows: its rows; None reads the columns from the content.
        schema: the table's columns.
        names: the columns.
    """
    found = open_parquet(pa.BufferReader(content)).read(list(names)) if rows is None else rows.select(list(names))
    return conform_read(found, pa.schema([schema.field(name) for name in names]))


def stats_of_log(blocks: Sequence[pa.Table], schema: pa.Schema, spec: StatsSpec | None) -> pa.Table | None:
    """Return the column statistics of a log file.

    Args:
        blocks: the records of its data blocks; empty if it has only deletes.
        schema: the table's columns, meta fields among them.
        spec: the columns; None makes no statistics.
    """
    if spec is None:
        return None
    if not blocks:
        return log_file_stats(schema.empty_table(), spec)
    return log_file_stats(blocks[0] if len(blocks) == 1 else pa.concat_tables(blocks), spec)
