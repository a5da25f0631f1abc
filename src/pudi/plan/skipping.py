"""Prune the file slices of a read by column statistics, expression indexes and bloom filters.

A slice is pruned only if the ranges of all its files together, base file and logs, prove that no merged row matches:
each value of a row comes from one of them. A slice with missing statistics, or statistics that don't fit the column's
current type, stays.

Statistics of partitions are not used: Hudi computes them from the files whose statistics it could read and skips the
others (missing columns, footers without bounds), and nothing in the statistics says so.

As with column statistics, a slice is pruned only if the known facts of all its files together rule it out.

Indexes are asked for the values that a bound predicate asks of a column, if it asks for some only.

Source: ExpressionIndexSupport, BloomFiltersIndexSupport.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pudi.expr import (
    BoundsArrays,
    call_key,
    depends_on_zone,
    keeps_order,
    leaf_columns,
    prune_many,
    walk,
    widened,
)
from pudi.expr.tree import And, Call, Column, Compare, Expr, In, Literal, Or, type_of
from pudi.filegroup import FileSlice
from pudi.format import BloomFilter
from pudi.format.metadata_partitions import COLUMN_STATS
from pudi.metadata import Ranges, ranges_of, stats_of_records, united
from pudi.metadata.keys import bloom_keys, column_prefix, column_stats_keys, partition_stats_key
from pudi.plan.read import ReadPlan
from pudi.schema.arrays import one_array

_Mask = npt.NDArray[np.bool_]

_MOST_PREFIXES = 256
"""Maximum number of column and partition pairs that are looked up one by one; beyond it whole columns are read."""

ReadRecords = Callable[[str, Sequence[str]], pa.Table]
"""Reads the records of a metadata partition whose keys begin with one of the prefixes."""

MOST_VALUES = 10_000
"""Maximum number of values to look up; a predicate with more values reads files instead."""

Values = frozenset[object]


def _is_plain(kind: pa.DataType) -> bool:
    """Whether values of a type are equal just if their texts are."""
    return bool(pt.is_string(kind) or pt.is_signed_integer(kind))


def values_in_predicate(where: Expr, column: str, of: Callable[[pa.DataType], bool] = _is_plain) -> Values | None:
    """Return the values that a column has in all rows that match a predicate.

    Args:
        where: a bound predicate.
        column: a top-level column.
        of: whether the question is meaningful for a type; by default for texts and signed integers, where equal values
            have equal texts.

    Returns:
        None where the predicate says nothing of the kind; no values where no row can match.
    """
    return _asked(where, lambda side: _is(side, column, of))


def values_read(plan: ReadPlan, column: str, of: Callable[[pa.DataType], bool] = _is_plain) -> Values | None:
    """Return the values that a column has in all rows that a read wants; None if unknown, or more than `MOST_VALUES`.

    Args:
        plan: the read.
        column: a top-level column.
        of: see `values_in_predicate`.
    """
    if plan.keys is not None and column in plan.keys.rows.column_names and of(plan.schema.field(column).type):
        distinct = plan.keys.rows[column].unique()
        if len(distinct) <= MOST_VALUES:
            return frozenset(distinct.to_pylist())
    return None if plan.where is None else values_in_predicate(plan.where, column, of)


def results_in_predicate(where: Expr, value: Expr) -> pa.Array | None:
    """Return the results of an expression in all rows that match a predicate, as texts.

    Args:
        where: a bound predicate.
        value: the expression: a bound column, or a function of it.

    Returns:
        None where the predicate says nothing of the kind, there are too many, or their texts depend on more than the
        values: on a time zone, or on the character set of Hudi's process.
    """
    kind = type_of(value)
    comparable = pt.is_string(kind) or pt.is_signed_integer(kind) or pt.is_date32(kind)
    if not comparable or (isinstance(value, Call) and depends_on_zone(value)):
        return None
    values = _asked(where, lambda side: side == value)
    if values is None or len(values) > MOST_VALUES:
        return None
    texts = sorted(map(str, values))
    return pa.array(texts, pa.string()) if all(map(str.isascii, texts)) else None


def _asked(where: Expr, is_it: Callable[[Expr], bool]) -> Values | None:
    if isinstance(where, And):
        known = [found for found in (_asked(part, is_it) for part in where.args) if found is not None]
        return frozenset.intersection(*known) if known else None
    if isinstance(where, Or):
        parts = [_asked(part, is_it) for part in where.args]
        if any(part is None for part in parts):
            return None
        return frozenset[object]().union(*(part for part in parts if part is not None))
    if isinstance(where, Compare) and where.op == "=":
        for side, other in ((where.left, where.right), (where.right, where.left)):
            if is_it(side):
                return _literals([other])
    if isinstance(where, In) and is_it(where.arg):
        return _literals(where.values)
    return None


def key_values_in_predicate(where: Expr, fields: Iterable[str], schema: pa.Schema) -> pa.Table | None:
    """The combinations of values of some columns that a predicate asks for, as rows of these columns.

    Args:
        where: a bound predicate.
        fields: names of top-level columns.
        schema: types of the columns.

    Returns:
        None where one of the columns isn't asked for by its values, or there are more than `MOST_VALUES` of them.
    """
    found: dict[str, Values] = {}
    count = 1
    for name in fields:
        values = values_in_predicate(where, name)
        if values is None:
            return None
        found[name] = values
        count *= len(values)
        if count > MOST_VALUES:
            return None
    return _rows(found, schema)


def _rows(found: Mapping[str, Values], schema: pa.Schema) -> pa.Table:
    rows = list(product(*found.values()))
    columns = [pa.array([row[place] for row in rows], schema.field(name).type) for place, name in enumerate(found)]
    return pa.Table.from_arrays(columns, names=list(found))


def _is(expr: Expr, column: str, of: Callable[[pa.DataType], bool]) -> bool:
    kind = expr.type if isinstance(expr, Column) and expr.path == (column,) else None
    return kind is not None and of(kind)


def _literals(exprs: Iterable[Expr]) -> Values | None:
    """The values of constants; NULL equals nothing, and of NaN sets can't tell."""
    found = []
    for each in exprs:
        if not isinstance(each, Literal) or not isinstance(each.value, str | int | float | datetime.date | None):
            return None
        if isinstance(each.value, bool) or each.value != each.value:
            return None
        found.append(each.value)
    return frozenset(value for value in found if value is not None)


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
    triples = [(each.partition, file.name.name, number) for number, each in enumerate(slices) for file in each.files]
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
    return ranges_of(stats_of_records(found), kind).take(pc.index_in(keys, value_set=one_array(found["key"])))


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
    found = ranges_of(own, kind).take(pc.index_in(files.names, value_set=one_array(own["file"])))
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
