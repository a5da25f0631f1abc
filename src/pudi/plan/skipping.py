"""Prune the file slices of a read by column statistics, expression indexes and bloom filters.

A slice is pruned only if the ranges of all its files together, base file and logs, prove that no merged row matches:
each value of a row comes from one of them. A slice with missing statistics, or statistics that don't fit the column's
current type, stays.

Statistics of partitions are not used: Hudi computes them from the files whose statistics it could read and skips the
others (missing columns, footers without bounds), and nothing in the statistics says so.

As with column statistics, a slice is pruned only if the known facts of all its files together rule it out.

Source: ExpressionIndexSupport, BloomFiltersIndexSupport.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pudi.expr import (
    BoundsArrays,
    Call,
    Column,
    Expr,
    call_key,
    depends_on_zone,
    keeps_order,
    leaf_columns,
    prune_many,
    type_of,
    walk,
    widened,
)
from pudi.filegroup import FileSlice
from pudi.format import BloomFilter
from pudi.format.metadata_partitions import COLUMN_STATS
from pudi.metadata import Ranges, ranges_of, stats_of_records, united
from pudi.metadata.keys import bloom_keys, column_prefix, column_stats_keys, partition_stats_key
from pudi.plan.lookup import results_in_predicate
from pudi.plan.read import ReadPlan
from pudi.schema.arrays import one_array

_Mask = npt.NDArray[np.bool_]

_MOST_PREFIXES = 256
"""Maximum number of column and partition pairs that are looked up one by one; beyond it whole columns are read."""

ReadRecords = Callable[[str, Sequence[str]], pa.Table]
"""Reads the records of a metadata partition whose keys begin with one of the prefixes."""


@dataclass(frozen=True, slots=True)
class IndexSource:
    """Questions that a read may ask the metadata table.

    Attributes:
        read: reads records.
        partitions: partitions of the metadata table that are ready.
        millis: columns in milliseconds; index version 1 and old files mix their units.
    """

    read: ReadRecords
    partitions: frozenset[str]
    millis: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class SliceFiles:
    """The files of slices, and for each the number of its slice."""

    partitions: pa.Array
    names: pa.Array
    slices: npt.NDArray[np.int64]


def skip_slices(plan: ReadPlan, source: IndexSource) -> ReadPlan:
    """The plan over those of its slices that may hold wanted rows.

    Args:
        plan: a read with its slices.
        source: the metadata table.
    """
    where = plan.narrowed
    if where is None or not plan.slices or plan.history is not None:  # a history's old files may call columns otherwise
        return plan
    asked = {".".join(column.path): column for column in leaf_columns(where) if _tellable(column, source)}
    if not asked or COLUMN_STATS not in source.partitions:
        return plan
    return _by_file(plan, source, asked)


def _tellable(column: Column, source: IndexSource) -> bool:
    return column.type is not None and not any("." in n for n in column.path) and column.path[0] not in source.millis


def _by_file(plan: ReadPlan, source: IndexSource, asked: Mapping[str, Column]) -> ReadPlan:
    files = files_of(plan.slices)
    folders = pc.unique(files.partitions).to_pylist()
    names = list(asked)
    prefixes = [column_prefix(name) for name in names]
    if len(names) * len(folders) <= _MOST_PREFIXES:
        prefixes = [partition_stats_key(name, folder) for name in names for folder in folders]
    records = source.read(COLUMN_STATS, prefixes)
    bounds = {}
    for name, column in asked.items():
        keys = column_stats_keys(pa.repeat(name, len(files.names)), files.partitions, files.names)
        assert column.type is not None
        found = ranges_by_key(records, keys, column.type)
        bounds[name] = bounds_of(united(found, files.slices, len(plan.slices)))
    where = plan.narrowed
    assert where is not None
    kept = prune_many(where, bounds, len(plan.slices)) | made_by_merger(plan)
    return without(plan, kept, COLUMN_STATS)


def files_of(slices: Sequence[FileSlice]) -> SliceFiles:
    """The files of slices."""
    triples = [
        (each.partition, file.name.name, number)
        for number, each in enumerate(slices)
        for file in (*(() if each.base is None else (each.base,)), *each.logs)
    ]
    partitions, names, numbers = zip(*triples, strict=True) if triples else ((), (), ())
    return SliceFiles(
        pa.array(partitions, pa.string()), pa.array(names, pa.string()), np.array(numbers, dtype=np.int64)
    )


def ranges_by_key(records: pa.Table, keys: pa.Array, kind: pa.DataType) -> Ranges:
    """Return the bounds of a column from the records of some keys; unknown without a record.

    Args:
        records: records with statistics.
        keys: the keys.
        kind: the column's type.
    """
    found = records.filter(pc.is_in(records["key"], value_set=keys)).select(["key", "ColumnStatsMetadata"])
    found = found.filter(found["ColumnStatsMetadata"].is_valid())
    return _at(ranges_of(stats_of_records(found), kind), pc.index_in(keys, value_set=one_array(found["key"])))


def _at(found: Ranges, places: pa.Array) -> Ranges:
    """Return the bounds at some places; unknown where a place is null."""
    there = np.asarray(places.is_valid())
    known, free = (np.zeros(len(places), dtype=bool) for _ in range(2))
    known[there], free[there] = (each[np.asarray(places.drop_null())] for each in (found.known, found.nan_free))
    least, greatest, nulls, values = (
        each.take(places) for each in (found.least, found.greatest, found.null_count, found.value_count)
    )
    return Ranges(least, greatest, known, free, nulls, values)


def slice_ranges(stats: pa.Table, slices: Sequence[FileSlice], column: str, kind: pa.DataType) -> Ranges:
    """Return the bounds of a column in each of some slices; unknown where a file of it has no statistics.

    Args:
        stats: rows of `STATS` of their files, whose names tell them apart.
        slices: the slices.
        column: name of the column.
        kind: its type.
    """
    own = stats.filter(pc.equal(stats["column"], column)).combine_chunks()
    files = files_of(slices)
    found = _at(ranges_of(own, kind), pc.index_in(files.names, value_set=one_array(own["file"])))
    return united(found, files.slices, len(slices))


def kept_by_ranges(where: Expr, ranges: Mapping[str, Ranges], count: int) -> _Mask:
    """Return which of some slices may hold rows that match a predicate, by the bounds of its columns in each."""
    return prune_many(where, {name: bounds_of(each) for name, each in ranges.items()}, count)


def bounds_of(ranges: Ranges) -> BoundsArrays:
    """Bounds as pruning takes them."""
    unknown = pa.array(~ranges.known)
    nulls, values = (
        pc.if_else(unknown, pa.scalar(None, pa.int64()), each) for each in (ranges.null_count, ranges.value_count)
    )
    has_nan = pc.if_else(pa.array(ranges.nan_free), pa.scalar(False), pa.scalar(None, pa.bool_()))
    return BoundsArrays(ranges.least, ranges.greatest, nulls, values, has_nan)


def made_by_merger(plan: ReadPlan) -> _Mask:
    """Return slices that a user's merger merges: their values need not occur in any file."""
    if plan.merging is None or plan.merging.rule.merger is None:
        return np.zeros(len(plan.slices), dtype=bool)
    return np.array([bool(each.logs) for each in plan.slices])


def without(plan: ReadPlan, kept: _Mask, index: str) -> ReadPlan:
    """Return the plan over some of its slices, with the name of the index that pruned the others."""
    slices = tuple(each for each, keep in zip(plan.slices, kept, strict=True) if keep)
    skipped = (*plan.skipped, (index, len(plan.slices) - len(slices), len(plan.slices)))
    return replace(plan, slices=slices, skipped=skipped)


MOST_FILTERS = 512
"""Maximum number of files whose filters are read: each has several hundred kilobytes."""
_FILTERS_AT_ONCE = 32

ReadKeys = Callable[[str, pa.Array], pa.Table]
"""Reads the records of a partition of the metadata table that have some keys."""


@dataclass(frozen=True, slots=True)
class ExpressionIndex:
    """An expression index that a read may ask.

    Attributes:
        partition: its partition of the metadata table.
        column: the name of its column, of a struct's field with dots.
        value: its expression.
        by_bloom: whether it keeps bloom filters of results, else statistics.
    """

    partition: str
    column: str
    value: Call | Column
    by_bloom: bool


def skip_by_expressions(plan: ReadPlan, indexes: Sequence[ExpressionIndex], read: ReadKeys) -> ReadPlan:
    """The plan over those of its slices that may hold wanted rows, by expression indexes.

    Args:
        plan: a read with its slices.
        indexes: the indexes.
        read: reads the metadata table.
    """
    for index in indexes:
        where = plan.narrowed
        if where is None or not plan.slices or plan.history is not None:
            return plan
        if index.by_bloom:
            texts = results_in_predicate(where, index.value)
            if texts is not None:
                plan = _by_filters(plan, index.partition, texts, read, logs=True)
        elif any(node == index.value for node in walk(where)) and _tells(index.value):
            plan = _by_statistics(plan, index, where, read)
    return plan


def skip_by_keys(plan: ReadPlan, partition: str, keys: pa.Array, read: ReadKeys) -> ReadPlan:
    """The plan over those of its slices that may hold some record keys, by the base files' bloom filters.

    Log files have no filters there, so that a slice with some stays.

    Args:
        plan: a read with its slices.
        partition: the metadata table's partition with the filters.
        keys: the record keys.
        read: reads the metadata table.
    """
    return _by_filters(plan, partition, keys, read, logs=False)


def _tells(value: Expr) -> bool:
    """Whether statistics of results tell anything: those of another time zone only where they can be widened."""
    return not isinstance(value, Call) or not depends_on_zone(value) or keeps_order(value)


def _by_statistics(plan: ReadPlan, index: ExpressionIndex, where: Expr, read: ReadKeys) -> ReadPlan:
    files, kind = files_of(plan.slices), type_of(index.value)
    keys = column_stats_keys(pa.repeat(index.column, len(files.names)), files.partitions, files.names)
    records = read(index.partition, keys)
    found = united(_whole_counts(ranges_by_key(records, keys, kind)), files.slices, len(plan.slices))
    bounds = bounds_of(found)
    stats: dict[str, BoundsArrays] = {}
    if isinstance(index.value, Call):
        if depends_on_zone(index.value):  # its writer may have been in any
            low, high = widened(index.value, bounds.min, bounds.max)
            bounds = BoundsArrays(low, high, bounds.null_count, bounds.row_count, bounds.has_nan)
        stats[call_key(index.value)] = bounds
    else:
        stats[index.column] = bounds
    kept = prune_many(where, stats, len(plan.slices)) | made_by_merger(plan)
    return without(plan, kept, index.partition)


def _whole_counts(ranges: Ranges) -> Ranges:
    """Expression indexes count values without nulls."""
    counts = pc.add(ranges.value_count, ranges.null_count)
    return Ranges(ranges.least, ranges.greatest, ranges.known, ranges.nan_free, ranges.null_count, counts)


def _by_filters(plan: ReadPlan, partition: str, texts: pa.Array, read: ReadKeys, *, logs: bool) -> ReadPlan:
    """Prune by filters of each file: a slice stays if one of its files may hold a text, or has no filter."""
    kept = np.zeros(len(plan.slices), dtype=bool) | made_by_merger(plan)
    if not logs:
        kept |= np.array([bool(each.logs) or each.base is None for each in plan.slices])
    asked = files_of([each for each, stays in zip(plan.slices, kept, strict=True) if not stays])
    places = np.flatnonzero(~kept)
    if not len(places) or len(asked.names) > MOST_FILTERS:
        return plan
    for part in _portions(asked):
        keys = bloom_keys(part.partitions, part.names)
        may = _may_contain(read(partition, keys), keys, texts)
        kept[places[part.slices[may]]] = True
    return without(plan, kept, partition)


def _portions(files: SliceFiles) -> Iterator[SliceFiles]:
    for start in range(0, len(files.names), _FILTERS_AT_ONCE):
        span = slice(start, start + _FILTERS_AT_ONCE)
        yield SliceFiles(files.partitions[span], files.names[span], files.slices[span])


def _may_contain(records: pa.Table, keys: pa.Array, texts: pa.Array) -> np.ndarray:
    """Return for each key whether its filter may contain one of the texts; true without a filter."""
    filters: Mapping[str, dict[str, object] | None] = dict(
        zip(records["key"].to_pylist(), records["BloomFilterMetadata"].to_pylist(), strict=True)
    )
    return np.array([_may(filters.get(key), texts) for key in keys.to_pylist()], dtype=bool)


def _may(info: Mapping[str, object] | None, texts: pa.Array) -> bool:
    if info is None or not info["bloomFilter"]:
        return True
    content, kind = info["bloomFilter"], str(info["type"])
    assert isinstance(content, bytes)
    bloom = BloomFilter.from_base64(content.decode("ascii", "replace"), kind)  # type: ignore[arg-type]
    return bool(pc.any(bloom.might_contain(texts)).as_py())
