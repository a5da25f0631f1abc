"""Prune the file slices of a read by expression indexes and bloom filters.

As with column statistics, a slice is pruned only if the known facts of all its files together rule it out.

Source: ExpressionIndexSupport, BloomFiltersIndexSupport.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
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
    prune_many,
    type_of,
    walk,
    widened,
)
from pudi.format import BloomFilter
from pudi.metadata import Ranges
from pudi.metadata.keys import bloom_keys, column_stats_keys
from pudi.metadata.stat_merging import united
from pudi.plan.lookup import results_in_predicate
from pudi.plan.read import ReadPlan
from pudi.plan.skipping import SliceFiles, bounds_of, files_of, made_by_merger, ranges_by_key, without

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
