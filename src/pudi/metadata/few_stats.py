"""Merge the statistics of a few files as plain values, which takes fewer calls than Arrow columns.

The rules are those of `stat_merging.partition_stats` (tests/unit/metadata/test_few_stats.py compares them).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from struct import Struct
from typing import Final, NamedTuple

import pyarrow as pa

from pudi.metadata.stat_records import STATS
from pudi.metadata.value_types import ValueType, arrow_type, leaf_type, value_type

FEW: Final = 500
"""Number of rows up to which plain values take less time than Arrow's calls."""

_FLOATS = frozenset({ValueType.FLOAT, ValueType.DOUBLE})
_INTEGERS = frozenset({ValueType.BOOLEAN, ValueType.INT, ValueType.LONG, *range(ValueType.DATE, max(ValueType) + 1)})
_TEXTS = frozenset({ValueType.STRING, ValueType.BYTES})
_DOUBLE = Struct("<d")
_NOT_LEAST = re.compile("[\U00010000-\U0010ffff]")
_NOT_GREATEST = re.compile("[\ue000-\uffff]")
"""Characters that Java orders otherwise, see `stat_merging`."""


class Stat(NamedTuple):
    """A row of `STATS`."""

    partition: str
    file: str
    column: str
    type: int
    info: str | None
    min: bytes | None
    max: bytes | None
    null_count: int
    value_count: int
    total_size: int
    total_uncompressed_size: int
    deleted: bool
    tight: bool


assert Stat._fields == tuple(STATS.names)


def plain_stats(stats: pa.Table) -> list[Stat]:
    """Return the rows of a table of `STATS`."""
    return [Stat(*row) for row in zip(*(column.to_pylist() for column in stats.columns), strict=True)]


def few_partition_stats(
    stats: Iterable[Stat], files: Mapping[str, Collection[str]], schema: pa.Schema, columns: Sequence[str]
) -> list[Stat] | None:
    """Return the statistics of partitions over all their files.

    A column whose range is unknown, because a file has no statistics of it, gets a tombstone.

    Args:
        stats: the statistics of files; those of other files are ignored.
        files: the names of all files by partition.
        schema: the table's columns with meta fields.
        columns: the indexed columns.

    Returns:
        A row for each partition and column; None if a column's values can't be compared as they are stored.
    """
    groups: dict[tuple[str, str], list[Stat]] = {}
    for stat in stats:
        if stat.file in files.get(stat.partition, ()):
            groups.setdefault((stat.partition, stat.column), []).append(stat)
    found: dict[tuple[str, str], Stat] = {}
    for (partition, column), rows in groups.items():
        kind = leaf_type(schema, column)
        said = None if kind is None else value_type(kind)
        if said is None or len(rows) != len(files[partition]):
            continue
        if arrow_type(*said) != kind or said[0] not in _FLOATS | _INTEGERS | _TEXTS:
            return None
        merged = _merged(partition, column, said, rows)
        if merged is None:
            return None
        found[partition, column] = merged
    wanted = dict.fromkeys([*found, *((partition, column) for partition in files for column in columns)])
    return [found.get(each) or _tombstone(*each) for each in wanted]


def _merged(partition: str, column: str, said: tuple[ValueType, str | None], rows: Sequence[Stat]) -> Stat | None:
    known, bounds = True, list[tuple[bytes, bytes]]()
    for row in rows:
        if row.min is not None and row.max is not None:
            if (row.type, row.info) != said:
                return None
            known = known and not row.deleted and _is_sound(said[0], row.min, row.max)
            bounds.append((row.min, row.max))
        else:
            only_nulls = row.min is None and row.max is None and row.null_count >= row.value_count >= 0
            known = known and not row.deleted and ".log." in row.file and only_nulls
    least = greatest = None
    if known and bounds:
        order = _order(said[0])
        least = min((low for low, _ in bounds), key=order)
        greatest = max(reversed([high for _, high in bounds]), key=order)
    nulls, values = (
        sum(counts) if min(counts) >= 0 else -1
        for counts in ([row.null_count for row in rows], [row.value_count for row in rows])
    )
    sizes = sum(row.total_size for row in rows), sum(row.total_uncompressed_size for row in rows)
    return Stat(partition, partition, column, *said, least, greatest, nulls, values, *sizes, not known, True)


def _tombstone(partition: str, column: str) -> Stat:
    """Return a partition's row of `stat_records.deleted_stats`."""
    return Stat(partition, "", column, ValueType.NULL, None, None, None, -1, -1, -1, -1, True, True)


def _is_sound(kind: ValueType, least: bytes, greatest: bytes) -> bool:
    """Return whether bounds are valid in pudi's order, see `stat_merging`."""
    if kind != ValueType.STRING or (least.isascii() and greatest.isascii()):
        return True
    return not _NOT_LEAST.search(least.decode()) and not _NOT_GREATEST.search(greatest.decode())


def _order(kind: ValueType) -> Callable[[bytes], tuple[bool, bytes | float]]:
    """Return the sort key of stored values; NaN is the greatest number."""
    if kind in _TEXTS:
        return lambda stored: (False, stored)
    if kind in _FLOATS:
        return lambda stored: _float_order(_DOUBLE.unpack(stored)[0])
    return lambda stored: (False, int.from_bytes(stored, "little", signed=True))


def _float_order(number: float) -> tuple[bool, float]:
    return (True, 0.0) if math.isnan(number) else (False, number)
