"""A merge on this machine: source rows and file slices in, the records to write out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.context import Storage
from pudi.errors import InvalidArgumentError
from pudi.expr import evaluate, evaluate_all, leaf_columns
from pudi.filegroup import FileSlice
from pudi.merge import DELETED
from pudi.plan import MergeUpsert, ReadPlan
from pudi.plan.row_changes import (
    AMBIGUOUS,
    MOVES,
    SOURCE,
    TARGET,
    MergeClause,
    MergeJoin,
    MergeKind,
    MergeStage,
    NewestRows,
)
from pudi.schema import META_FIELDS, conform, incoming, is_untyped, normalise, values_at
from pudi.schema.arrays import mask_of, take
from pudi.tagging.index import Spread
from pudi.task import SliceReader

_PAIRS_AT_ONCE = 1 << 18
"""Pairs of rows that a condition without equalities is evaluated for at a time."""


@dataclass(frozen=True, slots=True)
class MergedRows:
    """The records of a merge.

    Attributes:
        data: the records.
        read: what was read of the table.
    """

    data: pa.Table
    read: ReadPlan

    def release(self) -> None:
        """Nothing is held outside this object."""


def source_of(rows: pa.Table, table: str, known: Callable[[], pa.Schema]) -> tuple[pa.Table, pa.Schema]:
    """Rows to merge in pudi's types, without meta fields, and their columns; see `Engine.merge_source`."""
    rows = rows.select([name for name in rows.column_names if name not in META_FIELDS])
    schema = incoming(rows.schema, known()) if any(map(is_untyped, rows.schema.types)) else normalise(rows.schema)
    return conform(rows, schema, table=table), schema


def merge_rows(source: pa.Table, storage: Storage, join: MergeJoin, spread: Spread = map) -> MergedRows:
    """The records that a merge writes: the table's columns and a flag for deletes.

    Args:
        source: the rows merged into the table.
        storage: the table's files.
        join: how source and table meet.
        spread: runs the independent parts.

    Raises:
        InvalidArgumentError: several source rows match one of the table, or an update would move a row.
    """
    if join.newest is not None:
        source = _newest(source, join.newest)
    keys = _keys_of(source, join)
    read = _within(join, keys)
    reader = SliceReader(storage, read)

    def find(file_slice: FileSlice) -> tuple[pa.Table, np.ndarray, list[pa.Table]]:
        rows = pa.Table.from_batches(reader.read(file_slice), schema=read.output_schema)
        return _matches(rows, source, keys, join)

    if join.computes(MergeStage.PAIRS) or join.computes(MergeStage.NOT_MATCHED_BY_SOURCE):
        spread = map  # what computes them does one thing after the other
    found = list(spread(find, read.slices)) if source.num_rows or join.unsourced else []
    made = []
    met = np.zeros(source.num_rows, dtype=bool)
    matched = []
    for target, source_rows, others in found:
        met[source_rows] = True
        matched.append(pa.table({TARGET: _struct(target), SOURCE: _struct(take(source, source_rows))}))
        made += others
    if matched and join.computes(MergeStage.MATCHED):
        matched = [pa.concat_tables(matched)]
    for joined in matched:
        made += _apply(MergeStage.MATCHED, joined, join)
    if not met.all():
        new = pa.table({SOURCE: _struct(take(source, np.flatnonzero(~met)))})
        made += _apply(MergeStage.NOT_MATCHED, new, join)
    return MergedRows(pa.concat_tables(made) if made else join.schema.empty_table(), read)


def merge_records(source: pa.Table, merge: MergeUpsert) -> pa.Table:
    """The records of a merge that is an upsert: the table's columns."""
    for name in merge.present:
        source = source.filter(pc.is_valid(source[name]))
    rows, values = pa.table({SOURCE: _struct(source)}), dict(merge.values)
    made = []
    for field in merge.schema:
        given = values.get(field.name)
        column = pa.nulls(rows.num_rows, field.type) if given is None else evaluate_all(given, rows)
        made.append(column if column.type == field.type else column.cast(field.type))
    return pa.table(made, schema=pa.schema([f.with_nullable(True) for f in merge.schema]))


def _newest(source: pa.Table, newest: NewestRows) -> pa.Table:
    """Return the rows of a source that count."""
    numbered = _canonical(source.select(newest.keys)).append_column("_pudi_rank", _numbers(source.num_rows))
    if numbered.group_by(list(newest.keys)).aggregate([]).num_rows == source.num_rows:
        return source
    columns: list[Any] = []
    for path in newest.ordering:
        values = values_at(source, path)
        assert values is not None
        columns += [values.is_valid().cast(pa.int8()), values]
    ranked = pa.table([*columns, numbered["_pudi_rank"]], names=list(map(str, range(len(columns) + 1))))
    order = pc.sort_indices(ranked, [(name, "ascending") for name in ranked.column_names]).to_numpy()
    ranks = np.empty(source.num_rows, dtype=np.int64)
    ranks[order] = np.arange(source.num_rows)
    numbered = numbered.set_column(len(newest.keys), "_pudi_rank", pa.array(ranks))
    last = numbered.group_by(list(newest.keys), use_threads=False).aggregate([("_pudi_rank", "max")])
    return take(source, np.sort(order[last["_pudi_rank_max"].to_numpy()]))


def _named(join: MergeJoin) -> Iterable[tuple[str, tuple[str, str]]]:
    return zip(join.keys, join.on, strict=True)


def _comparable(keys: pa.Table, join: MergeJoin) -> pa.Table:
    """Key columns as a join takes them: to it null never equals null."""
    keys = _canonical(keys)
    if not join.nulls_match:
        return keys
    made: dict[str, pa.ChunkedArray] = {}
    for name in keys.column_names:
        column = keys[name]
        made[f"{name}_null"] = column.is_null()
        made[name] = pc.fill_null(column.cast(pa.string()), "")
    return pa.table(made)


def _canonical(keys: pa.Table) -> pa.Table:
    """Key columns with one zero and one NaN: joins and groups go by bits, and SQL has them equal."""
    for place, field in enumerate(keys.schema):
        if pa.types.is_floating(field.type):
            column = pc.add(keys[field.name], pa.scalar(0, field.type))  # -0.0 + 0.0 is 0.0
            nan = pa.scalar(float("nan"), field.type)
            keys = keys.set_column(place, field, pc.if_else(pc.is_nan(column), nan, column))
    return keys


def _within(join: MergeJoin, keys: pa.Table) -> ReadPlan:
    spans = {}
    ranged = {target for target, _ in join.ranged()}
    for name, (target, _) in _named(join):
        span = pc.min_max(keys[name]).as_py()
        nulls = join.nulls_match and keys[name].null_count
        if target in ranged and span["min"] is not None and not nulls:
            spans[target] = (span["min"], span["max"])
    return join.within(spans)


def _keys_of(source: pa.Table, join: MergeJoin) -> pa.Table:
    """The source's columns of `join.on`, in the types of the table's columns."""
    wanted = pa.schema([join.read.schema.field(t).with_name(k).with_nullable(True) for k, (t, _) in _named(join)])
    keys = source.select([name for _, name in join.on]).rename_columns(join.keys)
    return conform(keys, wanted, table=join.read.table)


def _pairs(rows: pa.Table, source: pa.Table, keys: pa.Table, join: MergeJoin) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of rows of the table and of the source that match."""
    if join.on:
        mine = _comparable(rows.select([name for name, _ in join.on]).rename_columns(join.keys), join)
        names = mine.column_names
        mine = mine.append_column("target_row", _numbers(rows.num_rows))
        theirs = _comparable(keys, join).append_column("source_row", _numbers(source.num_rows))
        equal = mine.join(theirs, names, join_type="inner", use_threads=False)
        blocks = [(np.asarray(equal["target_row"]), np.asarray(equal["source_row"]))]
    else:  # every row with every row, a bounded number at a time
        step = max(1, _PAIRS_AT_ONCE // max(1, source.num_rows))
        blocks = [
            (np.repeat(part, source.num_rows), np.tile(np.arange(source.num_rows), len(part)))
            for part in np.array_split(np.arange(rows.num_rows), max(1, -(-rows.num_rows // step)))
        ]
    if join.condition is None:
        return blocks[0]
    named = {column.path[:2] for column in leaf_columns(join.condition)}
    whole = join.computes(MergeStage.PAIRS)
    mine = rows.select([name for name in rows.column_names if whole or (TARGET, name) in named])
    theirs = source.select([name for name in source.column_names if whole or (SOURCE, name) in named])
    found = []
    for places, numbers in blocks:
        both = {TARGET: _struct(take(mine, places)), SOURCE: _struct(take(theirs, numbers))}
        table = pa.table({side: column for side, column in both.items() if column.type.num_fields})
        table = join.with_computed(table, MergeStage.PAIRS)
        kept = mask_of(evaluate_all(join.condition, table))
        found.append((places[kept], numbers[kept]))
    return np.concatenate([places for places, _ in found]), np.concatenate([numbers for _, numbers in found])


def _matches(
    rows: pa.Table, source: pa.Table, keys: pa.Table, join: MergeJoin
) -> tuple[pa.Table, np.ndarray, list[pa.Table]]:
    """Rows of a slice that match, each with the number of its source row, and the records made of its other rows."""
    places, source_rows = _pairs(rows, source, keys, join)
    if join.matched and len(np.unique(places)) < len(places):
        raise InvalidArgumentError(AMBIGUOUS, table=join.read.table)
    others: list[pa.Table] = []
    if join.unsourced:
        left = np.ones(rows.num_rows, dtype=bool)
        left[places] = False
        unmet = pa.table({TARGET: _struct(rows.filter(pa.array(left)))})
        others = _apply(MergeStage.NOT_MATCHED_BY_SOURCE, unmet, join)
    return take(rows, places), source_rows, others


def _apply(stage: MergeStage, joined: pa.Table, join: MergeJoin) -> list[pa.Table]:
    """The records of each clause of a stage, of the rows that none before it took."""
    clauses = join.clauses(stage)
    if not clauses or not joined.num_rows:
        return []
    joined = join.with_computed(joined, stage)
    made = []
    left = np.ones(joined.num_rows, dtype=bool)
    for clause in clauses:
        taken = left.copy()
        if clause.condition is not None:  # skip rows that an earlier clause took: their values must not raise errors
            places = np.flatnonzero(left)
            true = evaluate_all(clause.condition, take(joined, places))
            taken[places] = mask_of(true)
        left &= ~taken
        rows = joined.filter(pa.array(taken))
        if rows.num_rows:
            made.append(_records(clause, rows, join))
    return made


def _records(clause: MergeClause, rows: pa.Table, join: MergeJoin) -> pa.Table:
    if clause.same is not None and not pc.all(pc.fill_null(evaluate(clause.same, rows), False)).as_py():
        raise InvalidArgumentError(MOVES, table=join.read.table)
    values = dict(clause.values)
    columns = []
    for field in join.schema:
        if field.name == DELETED and (
            clause.kind is MergeKind.DELETE or field.name not in join.read.output_schema.names
        ):
            column = pa.repeat(pa.scalar(clause.kind is MergeKind.DELETE), rows.num_rows)
        elif field.name in values:
            column = evaluate_all(values[field.name], rows)
        elif clause.kind is MergeKind.INSERT:
            column = pa.nulls(rows.num_rows, field.type)
        else:
            column = pc.struct_field(rows[TARGET], field.name)
        columns.append(column if column.type == field.type else column.cast(field.type))
    # whether a column takes nulls is checked when the records are taken in
    return pa.table(columns, schema=pa.schema([f.with_nullable(True) for f in join.schema]))


def _struct(rows: pa.Table) -> pa.ChunkedArray:
    return pa.chunked_array(rows.to_struct_array()) if rows.num_rows else pa.nulls(0, pa.struct(list(rows.schema)))


def _numbers(count: int) -> pa.Array:
    return pa.array(np.arange(count))
