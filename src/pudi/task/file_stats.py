"""Statistics of a file just written, from what is at hand: its content and its records in, a small table out."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from pudi.format.parquet_pages import open_parquet
from pudi.metadata import StatsSpec, base_file_stats, leaf_values, log_file_stats

_PARQUET = b"PAR1"
"""How Parquet files begin."""


def stats_of_base(content: pa.Buffer, rows: pa.Table | None, spec: StatsSpec | None) -> pa.Table | None:
    """Statistics of a base file.

    Args:
        content: the file.
        rows: its rows; None reads what is needed of them from the content.
        spec: which columns; None makes none.

    Returns:
        None for a file of another format than Parquet too, which Hudi tells nothing of
        (HoodieTableMetadataUtil.readColumnRangeMetadataFrom).
    """
    if spec is None or bytes(content[: len(_PARQUET)]) != _PARQUET:
        return None

    def values(name: str) -> pa.ChunkedArray:
        if rows is not None:
            return leaf_values(rows, name)
        return leaf_values(open_parquet(pa.BufferReader(content)).read([name.partition(".")[0]]), name)

    return base_file_stats(pq.read_metadata(pa.BufferReader(content)), spec, values)


def stats_of_log(blocks: Sequence[pa.Table], schema: pa.Schema, spec: StatsSpec | None) -> pa.Table | None:
    """Statistics of a log file.

    Args:
        blocks: the records of its data blocks; none where it only has deletes.
        schema: the table's columns, meta fields among them.
        spec: which columns; None makes none.
    """
    if spec is None:
        return None
    if not blocks:
        return log_file_stats(schema.empty_table(), spec)
    return log_file_stats(blocks[0] if len(blocks) == 1 else pa.concat_tables(blocks), spec)
