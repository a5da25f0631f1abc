"""The least and the greatest event time of the records that a write brings to a file.

Source: WriteStatus.updateStatsForSuccess, HoodieWriteHandle.getRecordMetadata.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from pudi.format import WriteStat

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
