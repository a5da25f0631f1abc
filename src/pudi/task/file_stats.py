"""Statistics of a file that was just written, from its content and records in memory, and its event times.

Source: WriteStatus.updateStatsForSuccess, HoodieWriteHandle.getRecordMetadata.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pudi.format import WriteStat
from pudi.format.parquet import open_parquet
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


_SECONDS = r"^([0-9]{10}|[+-][0-9]{9})$"
_MILLIS = r"^([0-9]{13}|[+-][0-9]{12})$"
"""Hudi tells seconds from milliseconds by the length of the text, and passes over other lengths."""


def is_event_time(kind: pa.DataType) -> bool:
    """Return whether columns of a type may hold event times."""
    return any(each(kind) for each in (pa.types.is_integer, pa.types.is_timestamp, pa.types.is_string))


def with_event_times(stats: tuple[WriteStat, ...], rows: pa.Table, column: str | None) -> tuple[WriteStat, ...]:
    """Return write statistics with the range of the records' event times, in milliseconds since the epoch.

    Args:
        stats: the statistics of the files that have the records.
        rows: the records that the write brings; those of a delete may lack the column.
        column: the column of event times; None where they aren't tracked.
    """
    if column is None or not stats or column not in rows.column_names:
        return stats
    millis = pc.min_max(_millis(rows[column]))
    least, greatest = millis["min"].as_py(), millis["max"].as_py()
    if least is None:
        return stats
    return tuple(stat.with_event_times(least, greatest) for stat in stats)


def _millis(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return event times in milliseconds; null where there's none.

    Hudi passes over timestamps too, since they have 16 digits in Spark. Their meaning is plain.
    """
    if pa.types.is_timestamp(values.type):
        return values.cast(pa.timestamp("ms", values.type.tz), safe=False).cast(pa.int64())
    texts = values.cast(pa.string())
    seconds, millis = (pc.match_substring_regex(texts, pattern) for pattern in (_SECONDS, _MILLIS))
    known = pc.if_else(pc.or_(seconds, millis), pc.utf8_ltrim(texts, "+"), pa.scalar(None, pa.string()))
    numbers = known.cast(pa.int64())
    return pc.if_else(seconds, pc.multiply(numbers, 1000), numbers)
