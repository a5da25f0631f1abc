"""Merge the statistics of several files: rows of `STATS` in, a row per group out.

If a bound of one file is unknown, the merged bound is unknown: an unknown value must never look like a missing one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pudi.expr import Cast, CastKind, Column, cast_kind, evaluate
from pudi.format.avro_values import BadAvro
from pudi.metadata.stat_records import STATS, typed, untyped
from pudi.metadata.value_types import ValueType, leaf_type, value_type
from pudi.schema.arrays import mask_of, one_array

_Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Ranges:
    """Bounds of one column in several files, in the column's type.

    Attributes:
        least: lower bound, with NaN as the greatest value; null if there are no values or it is unknown.
        greatest: upper bound, except for NaN if `nan_free` is false.
        known: for each file whether the bounds cover all its values.
        nan_free: for each file whether certainly no value is NaN.
        null_count: int64; null if unknown.
        value_count: int64, including nulls; null if unknown.
    """

    least: pa.Array
    greatest: pa.Array
    known: _Mask
    nan_free: _Mask
    null_count: pa.Array
    value_count: pa.Array

    def take(self, places: pa.Array) -> Ranges:
        """Return the bounds at some places; unknown where a place is null."""
        there = np.asarray(places.is_valid())
        known, free = (np.zeros(len(places), dtype=bool) for _ in range(2))
        known[there], free[there] = (each[np.asarray(places.drop_null())] for each in (self.known, self.nan_free))
        least, greatest, nulls, values = (
            each.take(places) for each in (self.least, self.greatest, self.null_count, self.value_count)
        )
        return Ranges(least, greatest, known, free, nulls, values)


def ranges_of(stats: pa.Table, kind: pa.DataType) -> Ranges:
    """Convert the bounds of one column to its current type in the table.

    A base file's row without bounds may mean only nulls, or an incomplete footer (long texts, NaN), so its bounds are
    unknown here. A log file's row comes from its records and is trusted.

    Args:
        stats: rows of `STATS` of that column.
        kind: the column's type; bounds that can't be converted (other unit, narrower type) are unknown.
    """
    stats = stats.combine_chunks()
    sides = {side: pa.nulls(stats.num_rows, kind) for side in ("min", "max")}
    types, info = np.asarray(stats["type"]), one_array(stats["info"])
    nulls, values = (_counted(one_array(stats[name])) for name in ("null_count", "value_count"))
    logs = np.asarray(pc.match_substring(stats["file"], ".log."), dtype=bool)
    bounds = [one_array(stats[side]) for side in sides]
    known = logs & mask_of(pc.greater_equal(nulls, values))
    known &= np.asarray(bounds[0].is_null()) & np.asarray(bounds[1].is_null())
    for type_, said in _distinct(types, info):
        rows = (types == type_) & mask_of(pc.equal(info, said) if said else info.is_null())
        low, high = (_in_type(stored.filter(pa.array(rows)), ValueType(type_), said, kind) for stored in bounds)
        if low is None or high is None:
            continue
        known[rows] |= _sound(low, high)
        for side, found in zip(sides, (low, high), strict=True):
            sides[side] = pc.replace_with_mask(sides[side], pa.array(rows), found)
    known &= ~np.asarray(stats["deleted"])
    nothing = pa.scalar(None, kind)
    least, greatest = (pc.if_else(pa.array(known), side, nothing) for side in sides.values())
    nan_free = known & logs
    if pa.types.is_floating(kind):
        nan_free &= ~mask_of(pc.is_nan(greatest))
    return Ranges(least, greatest, known, nan_free, nulls, values)


def united(ranges: Ranges, groups: npt.NDArray[np.int64], count: int) -> Ranges:
    """Merge the bounds of several files.

    Args:
        ranges: the bounds of the files.
        groups: for each file the number of its group.
        count: number of groups; a group without files has no values.
    """
    known, nan_free = np.ones(count, dtype=bool), np.ones(count, dtype=bool)
    np.logical_and.at(known, groups, ranges.known)
    np.logical_and.at(nan_free, groups, ranges.nan_free)
    sums = [_summed(each, groups, count) for each in (ranges.null_count, ranges.value_count)]
    sides = [_outermost(ranges.least, groups, count, last=False), _outermost(ranges.greatest, groups, count, last=True)]
    least, greatest = (pc.if_else(pa.array(known), side, pa.scalar(None, side.type)) for side in sides)
    return Ranges(least, greatest, known, nan_free, *sums)


def partition_stats(stats: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the statistics of partitions from all their files (FileFormatUtils.getColumnRangeInPartition).

    A column with unknown bounds in one of the files gets a tombstone.

    Args:
        stats: rows of `STATS` of the files, without deleted ones.
        schema: the table's columns with meta fields, for the type of each.

    Returns:
        Rows of `STATS` with tight bounds and the partition path as file name.
    """
    by_kind: dict[pa.DataType, list[str]] = {}
    for name in pc.unique(stats["column"]).to_pylist():
        kind = leaf_type(schema, name)
        if kind is not None:
            by_kind.setdefault(kind, []).append(name)
    parts = [_of_kind(stats, kind, names) for kind, names in by_kind.items() if value_type(kind) is not None]
    return pa.concat_tables([STATS.empty_table(), *parts]).combine_chunks()


def _of_kind(stats: pa.Table, kind: pa.DataType, names: Sequence[str]) -> pa.Table:
    """Return the statistics of partitions for all columns of one type."""
    said = value_type(kind)
    assert said is not None
    rows = stats.filter(pc.is_in(stats["column"], value_set=pa.array(names, pa.string()))).combine_chunks()
    partitions, columns = (one_array(rows[name]).dictionary_encode() for name in ("partition", "column"))
    width = max(len(partitions.dictionary), 1)
    pairs = np.asarray(columns.indices).astype(np.int64) * width + np.asarray(partitions.indices)
    present, groups = np.unique(pairs, return_inverse=True)
    count = len(present)
    column, partition = (pa.array(each) for each in np.divmod(present, width))
    whole = united(ranges_of(rows, kind), groups, count)
    sizes = [_summed(one_array(rows[size]), groups, count) for size in ("total_size", "total_uncompressed_size")]
    paths = partitions.dictionary.take(partition)
    return pa.Table.from_arrays(
        [
            paths,
            paths,
            columns.dictionary.take(column),
            pa.array(np.full(count, said[0], dtype=np.int8)),
            pa.repeat(pa.scalar(said[1], pa.string()), count),
            untyped(whole.least),
            untyped(whole.greatest),
            *(pc.fill_null(each, -1) for each in (whole.null_count, whole.value_count, *sizes)),
            pa.array(~whole.known),
            pa.array(np.ones(count, dtype=bool)),
        ],
        schema=STATS,
    )


def _distinct(types: np.ndarray, info: pa.Array) -> Sequence[tuple[int, str | None]]:
    """Return the value types among rows, without Arrow's grouping, whose threads take longer than everything else."""
    coded = pc.dictionary_encode(info, null_encoding="encode")
    texts = coded.dictionary.to_pylist()
    pairs = np.unique(types.astype(np.int64) * max(len(texts), 1) + np.asarray(coded.indices))
    return [(int(pair // len(texts)), texts[pair % len(texts)]) for pair in pairs]


def _sound(low: pa.Array, high: pa.Array) -> _Mask:
    """Return where both bounds exist and are valid in pudi's order.

    Java compares texts by UTF-16 units, which differs from UTF-8's order for characters above U+FFFF and from U+E000 to
    U+FFFF. So the true minimum may have one of the former, the true maximum one of the latter.
    """
    some: _Mask = np.asarray(low.is_valid()) & np.asarray(high.is_valid())
    if not pa.types.is_string(low.type):
        return some
    for side, signs in ((low, r"[\x{10000}-\x{10FFFF}]"), (high, r"[\x{E000}-\x{FFFF}]")):
        if not pc.all(pc.string_is_ascii(side)).as_py():
            some &= ~mask_of(pc.match_substring_regex(side, signs))
    return some


def _in_type(stored: pa.Array, type_: ValueType, info: str | None, kind: pa.DataType) -> pa.Array | None:
    """Convert bounds to the column's type; None if they may not be bounds there."""
    try:
        if type_ == ValueType.LONG and pa.types.is_timestamp(kind):  # version 1; the caller excludes milliseconds
            type_ = ValueType.LOCAL_TIMESTAMP_MICROS if kind.tz is None else ValueType.TIMESTAMP_MICROS
        values = typed(stored, type_, info)
        if values is None or values.type == kind:
            return values
        if pa.types.is_decimal(values.type) and pa.types.is_decimal(kind):
            return values.cast(kind)  # fails if a digit would be lost
        if cast_kind(values.type, kind) not in (CastKind.SAME, CastKind.SAFE):
            return None
        return evaluate(Cast(Column(("bound",), values.type), kind), pa.table({"bound": values}))
    except (BadAvro, pa.ArrowException, ValueError):
        return None


def _counted(counts: pa.Array) -> pa.Array:
    return pc.if_else(pc.less(counts, 0), pa.scalar(None, pa.int64()), counts)


def _summed(counts: pa.Array, groups: npt.NDArray[np.int64], size: int) -> pa.Array:
    sums = np.zeros(size, dtype=np.int64)
    np.add.at(sums, groups, np.asarray(pc.fill_null(counts, 0)))
    unknown = np.zeros(size, dtype=bool)
    np.logical_or.at(unknown, groups, np.asarray(counts.is_null()))
    return pc.if_else(pa.array(unknown), pa.scalar(None, pa.int64()), pa.array(sums))


def _outermost(values: pa.Array, groups: npt.NDArray[np.int64], count: int, *, last: bool) -> pa.Array:
    """Return the minimum or maximum of each group; sorting supports every type, and puts NaN after all numbers."""
    valid = np.asarray(values.is_valid())
    rows = pa.table({"group": groups[valid], "value": values.filter(pa.array(valid))})
    ordered = rows.take(pc.sort_indices(rows, [("group", "ascending"), ("value", "ascending")]))
    stored = np.asarray(ordered["group"])
    edges = np.flatnonzero(np.diff(stored, append=count) if last else np.diff(stored, prepend=-1))
    places = np.full(count, -1, dtype=np.int64)
    places[stored[edges]] = edges
    return one_array(ordered["value"]).take(pa.array(places, mask=places < 0))
