"""A merge on Spark: a source frame and file slices in, a frame of the records to write out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import pyarrow as pa

from pudi.context import Storage
from pudi.engine.spark.reader import read_frame
from pudi.engine.spark.records import typed
from pudi.engine.spark.session import check_session, functions, memory_and_disk, spark_errors, struct_type
from pudi.errors import InvalidArgumentError, naming
from pudi.expr import Expr, to_spark_sql
from pudi.expr.tree import Literal
from pudi.merge import DELETED
from pudi.plan import MergeUpsert, ReadPlan
from pudi.plan.row_changes import AMBIGUOUS, MOVES, SOURCE, TARGET, MergeClause, MergeJoin, MergeKind, MergeStage
from pudi.schema import META_FIELDS, arrow_to_spark_json, is_untyped, normalise, spark_struct_to_arrow
from pudi.schema.spark_types import arrow_to_spark_type, quote, quote_path

_SOURCE_ROW, _TARGET_ROW, _CLAUSE, _PLACE = "_pudi_source_row", "_pudi_target_row", "_pudi_clause", "_pudi_place"

_COLLATIONS = "__COLLATIONS"
"""Metadata by which Spark 4 says which texts of a column have a collation."""


def source_of(data: Any, table: str, known: Callable[[], pa.Schema]) -> tuple[Any, pa.Schema]:
    """A frame to merge, without meta fields, and its columns in Arrow's types; see `Engine.merge_source`."""
    check_session(data.sparkSession)
    with spark_errors(table, "looking at the source's columns"):
        names = [name for name in data.columns if name not in META_FIELDS]
        frame = data.select(*(quote(name) for name in names))
        schema = frame.schema
        given = spark_struct_to_arrow(schema.json())
        frame = _without_collations(frame, schema.jsonValue(), given)
    if not any(is_untyped(field.type) for field in given):
        return frame, given
    frame, given = typed(frame, given, known())
    with naming(None, table):
        return frame, normalise(given)


def _without_collations(frame: Any, struct: Mapping[str, Any], given: pa.Schema) -> Any:
    """Texts as the table has them, which compares their bytes: Spark 4 joins no columns of different collations."""
    collated = {each["name"] for each in struct["fields"] if _COLLATIONS in each["metadata"]}
    if not collated:
        return frame
    columns = ((quote(each.name), arrow_to_spark_type(each) if each.name in collated else None) for each in given)
    return frame.selectExpr(*(name if kind is None else f"CAST({name} AS {kind}) AS {name}" for name, kind in columns))


@dataclass(slots=True)
class MergedRows:
    """The records of a merge.

    Attributes:
        data: a lazy frame of them.
        read: the read of the table.
    """

    read: ReadPlan
    data: Any = None
    _kept: list[Any] = field(default_factory=list)

    def keep(self, frame: Any) -> Any:
        """Have Spark keep a frame, once evaluated, until `release`."""
        self._kept.append(frame.persist(memory_and_disk()))
        return self._kept[-1]

    def release(self) -> None:
        """Release the cached frames."""
        while self._kept:
            self._kept.pop().unpersist()


def merge_rows(source: Any, storage: Storage, join: MergeJoin) -> MergedRows:
    """The records that a merge writes; see `pudi.task.engine.Engine`."""
    merged = MergedRows(join.read)
    try:
        with spark_errors(join.read.table, "merging"):
            _merge(source, storage, join, merged)
    except BaseException:
        merged.release()
        raise
    return merged


def merge_records(source: Any, merge: MergeUpsert) -> Any:
    """The records of a merge that is an upsert: a lazy frame of the table's columns."""
    sql = functions(source)
    with spark_errors("", "merging"):
        for name in merge.present:
            source = source.where(f"{quote(name)} IS NOT NULL")
        rows = source.select(sql.struct(*(sql.col(quote(name)) for name in source.columns)).alias(SOURCE))
        types, values = _types(merge.schema), dict(merge.values)
        return rows.select(
            *(
                (_new_value(sql, values[name]) if name in values else sql.lit(None)).cast(types[name]).alias(name)
                for name in merge.schema.names
            )
        )


def _merge(source: Any, storage: Storage, join: MergeJoin, merged: MergedRows) -> None:
    sql = functions(source)
    rows = source.select(
        sql.struct(*(sql.col(quote(name)) for name in source.columns)).alias(SOURCE),
        sql.monotonically_increasing_id().alias(_SOURCE_ROW),
    )
    if join.newest is not None:
        keys = ", ".join(f"{SOURCE}.{quote(name)}" for name in join.newest.keys)
        ordering = "".join(f"{SOURCE}.{quote_path(path)} DESC NULLS LAST, " for path in join.newest.ordering)
        place = f"row_number() OVER (PARTITION BY {keys} ORDER BY {ordering}{_SOURCE_ROW} DESC)"
        rows = rows.select("*", sql.expr(place).alias(_PLACE)).where(f"{_PLACE} = 1").drop(_PLACE)
    rows = merged.keep(rows)
    merged.read = join.within(_spans(sql, rows, join))
    target = read_frame(storage, merged.read, source.sparkSession)
    stored = target.select(
        sql.struct(*(sql.col(quote(name)) for name in target.columns)).alias(TARGET),
        sql.monotonically_increasing_id().alias(_TARGET_ROW),
    )
    if join.unsourced and join.computes(MergeStage.PAIRS):
        stored = merged.keep(stored)  # numbers of rows of another reading of the table may differ
    matched, equal = _matches(sql, stored, rows, join)
    matched = merged.keep(_chosen(sql, matched, join, MergeStage.MATCHED))
    _check(matched, join)
    parts = [_records(sql, matched, join, join.matched)] if join.matched else []
    if join.not_matched:
        new = rows.join(matched.select(_SOURCE_ROW), _SOURCE_ROW, "left_anti")
        new = _chosen(sql, new, join, MergeStage.NOT_MATCHED)
        parts.append(_records(sql, new, join, join.not_matched))
    if join.unsourced:
        met = (rows, equal) if equal is not None else (matched.select(_TARGET_ROW), _TARGET_ROW)
        unmet = _chosen(sql, stored.join(*met, "left_anti"), join, MergeStage.NOT_MATCHED_BY_SOURCE)
        parts.append(_records(sql, unmet, join, join.unsourced))
    merged.data = reduce(lambda one, more: one.unionByName(more), parts)


def _matches(sql: Any, stored: Any, rows: Any, join: MergeJoin) -> tuple[Any, Any]:
    """The pairs of rows that match, and their condition; None for it where computed columns decide."""
    same = "<=>" if join.nulls_match else "="
    pairs = [f"{TARGET}.{quote(t)} {same} {SOURCE}.{quote(s)}" for t, s in join.on]
    condition = [] if join.condition is None else [f"({to_spark_sql(join.condition)})"]
    if not join.computes(MergeStage.PAIRS):
        equal = sql.expr(" AND ".join([*pairs, *condition]))
        return stored.join(rows, equal, "inner"), equal
    both = stored.join(rows, sql.expr(" AND ".join(pairs)), "inner") if pairs else stored.crossJoin(rows)
    names = both.columns
    return join.with_computed(both, MergeStage.PAIRS).where(" AND ".join(condition)).select(*names), None


def _chosen(sql: Any, rows: Any, join: MergeJoin, stage: MergeStage) -> Any:
    """The rows of a stage with the number of the clause that takes each."""
    clauses = join.clauses(stage)
    return join.with_computed(rows, stage).select("*", sql.expr(_choice(clauses)).alias(_CLAUSE))


def _spans(sql: Any, rows: Any, join: MergeJoin) -> dict[str, tuple[object, object]]:
    pairs = join.ranged()
    if not pairs:
        return {}
    facts = [
        sql.expr(text)
        for column in (f"{SOURCE}.{quote(s)}" for _, s in pairs)
        for text in (f"min({column})", f"max({column})", f"bool_or({column} IS NULL)")
    ]
    found = list(rows.agg(*facts).collect()[0])
    spans = {t: found[3 * n : 3 * n + 3] for n, (t, _) in enumerate(pairs)}
    return {
        t: (low, high)
        for t, (low, high, nulls) in spans.items()
        if low is not None and not (nulls and join.nulls_match)
    }


def _choice(clauses: Sequence[MergeClause]) -> str:
    """SQL for the number of the clause that takes a row; null for none."""
    cases = [
        f"WHEN {'TRUE' if c.condition is None else to_spark_sql(c.condition)} THEN {n}" for n, c in enumerate(clauses)
    ]
    return f"CASE {' '.join(cases)} END" if cases else "CAST(NULL AS INT)"


def _check(matched: Any, join: MergeJoin) -> None:
    if join.matched and matched.groupBy(_TARGET_ROW).count().where("count > 1").limit(1).collect():
        raise InvalidArgumentError(AMBIGUOUS, table=join.read.table)
    moves = [
        f"({_CLAUSE} = {n} AND NOT coalesce({to_spark_sql(c.same)}, FALSE))"
        for n, c in enumerate(join.matched)
        if c.same is not None
    ]
    if moves and matched.where(" OR ".join(moves)).limit(1).collect():
        raise InvalidArgumentError(MOVES, table=join.read.table)


def _records(sql: Any, rows: Any, join: MergeJoin, clauses: Sequence[MergeClause]) -> Any:
    types = _types(join.schema)

    def column(name: str) -> Any:
        made: Any = sql.lit(None).cast(types[name])
        for number, clause in reversed(list(enumerate(clauses))):
            value = _value(sql, join, clause, name).cast(types[name])
            made = sql.when(sql.expr(f"{_CLAUSE} = {number}"), value).otherwise(made)
        return made.alias(name)

    return rows.where(f"{_CLAUSE} IS NOT NULL").select(*(column(name) for name in join.schema.names))


def _value(sql: Any, join: MergeJoin, clause: MergeClause, name: str) -> Any:
    if name == DELETED and (clause.kind is MergeKind.DELETE or name not in join.read.output_schema.names):
        return sql.lit(clause.kind is MergeKind.DELETE)
    values = dict(clause.values)
    if name in values:
        return _new_value(sql, values[name])
    return sql.lit(None) if clause.kind is MergeKind.INSERT else sql.expr(f"{TARGET}.{quote(name)}")


def _new_value(sql: Any, new: Expr) -> Any:
    null = isinstance(new, Literal) and new.value is None  # of any type, also those that expressions don't have
    return sql.lit(None) if null else sql.expr(to_spark_sql(new))


def _types(schema: pa.Schema) -> dict[str, Any]:
    """Spark's types of columns, by name."""
    return {f.name: f.dataType for f in struct_type(json.loads(arrow_to_spark_json(schema))).fields}
