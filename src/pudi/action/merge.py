"""Merge a source into a table: clauses with expressions in, one upsert of the records that they make out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from pudi.action.log_merging import merging_of
from pudi.action.meta_client import MetaClient
from pudi.action.place_records import finds_movers, place_by_key
from pudi.action.result import CommitResult
from pudi.action.retry import Retries
from pudi.action.schema_history import read_history
from pudi.action.write import run_write
from pudi.action.write_recipe import (
    Placement,
    WriteRecipe,
    WriteRequest,
    WriteSnapshot,
    take_records,
    without_records,
)
from pudi.config import Options, WriteOptions, check_writable
from pudi.errors import ConflictError, InvalidArgumentError, PudiError, SchemaError
from pudi.expr import Expr, bind, conjunction, outside_where, parse, replace_columns, split_conjuncts
from pudi.expr.tree import Column, Compare
from pudi.plan import MergeUpsert, Operation, ReadPlan, plan_read
from pudi.plan.change import bind_assignments, bind_one
from pudi.plan.merge import SOURCE, TARGET, MergeClause, MergeJoin, MergeKind
from pudi.plan.merge_upsert import upsert_of
from pudi.schema import RECORD_KEY
from pudi.task import Engine
from pudi.task.engine import RepeatedKeysError
from pudi.timeline import Timeline

_BOTH = (TARGET, SOURCE)


@dataclass(frozen=True, slots=True)
class Clause:
    """A clause as the user wrote it.

    Attributes:
        kind: what the clause does.
        values: SQL text or constant by column; None for all of the source's columns.
        condition: SQL predicate; None for all rows.
        sourced: whether its rows have a row of the source; else it's for rows of the table that no source row matches.
    """

    kind: MergeKind
    values: Mapping[str, object] | None = None
    condition: str | None = None
    sourced: bool = True

    @property
    def sides(self) -> tuple[str, ...]:
        """The sides that its rows have, as expressions may name them."""
        target = (TARGET,) if self.kind is not MergeKind.INSERT else ()
        return (*target, SOURCE) if self.sourced else target


@dataclass(frozen=True, slots=True)
class MergeRequest:
    """A merge as the user wrote it.

    Attributes:
        on: names of columns that both sides have, or a condition; None for the table's key.
        clauses: in the user's order.
        source: what expressions call the source.
        target: the name of the table in the statement.
    """

    on: str | Sequence[str] | None
    clauses: tuple[Clause, ...]
    source: str = SOURCE
    target: str = TARGET


def merge(
    meta: MetaClient, engine: Engine, data: Any, merging: MergeRequest, resolved: Options, since: str | None = None
) -> CommitResult | None:
    """Merge a source into a table in one commit.

    Args:
        meta: the table.
        engine: runs the tasks.
        data: the source, in a form that the engine takes.
        merging: the statement.
        resolved: the writer's options.
        since: the instant since which the records that it reads must not have changed; None for no condition.

    Returns:
        What was done, or None when no clause takes a row.

    Raises:
        InvalidArgumentError: a wrong clause or expression, several source rows match one row of the table, or an
            update would change its key or partition.
        NotSupportedError: SQL beyond the subset, or a table that this release can't write.
        ConflictError: other writers won, at each attempt; nothing of this write is visible.
        ChangedSinceError: the table has changed since `since`; nothing was written.
    """
    request = WriteRequest(meta, engine, resolved, WriteOptions.of(resolved), since=since)
    source, columns = engine.merge_source(data, meta.storage.root, lambda: meta.schema(meta.store.load()))
    attempt = partial(_attempt, request, merging, source, columns)
    return Retries.of(meta, request.options, by_default=True).run(attempt)


def _attempt(request: WriteRequest, merging: MergeRequest, source: Any, columns: pa.Schema) -> CommitResult | None:
    meta = request.meta
    meta.reload()
    check_writable(meta.config, meta.storage.root, request.resolved)
    timeline = meta.store.load()
    join = _Binder(meta, meta.schema(timeline), columns, merging).join(timeline)
    upsert = upsert_of(join, columns)
    if upsert is not None:
        with suppress(RepeatedKeysError, _NeedsJoinError):  # which of the rows count, or what is wrong, the join says
            return _upsert(request, source, upsert)
    made = request.engine.merge_rows(source, meta.storage, join)
    place = partial(_place, seen=timeline, read=made.read)
    try:
        return run_write(request, WriteRecipe(Operation.UPSERT, place, flagged=True, evolves=False), made.data)
    finally:
        made.release()


class _NeedsJoinError(PudiError):
    """A merge turned out not to be an upsert; nothing was written."""


def _upsert(request: WriteRequest, source: Any, merge: MergeUpsert) -> CommitResult | None:
    """Write a merge that is an upsert, without a join (decision 50).

    Raises:
        RepeatedKeysError: source rows share a key; only the join knows whether they match a row.
        _NeedsJoinError: a row would move to another partition, or the index can't tell.
    """
    recipe = WriteRecipe(
        Operation.UPSERT,
        place=partial(_place_upsert, merge=merge),
        take=partial(_take_upsert, merge=merge),
        is_noop=partial(_check_index, merge=merge),
        evolves=False,
    )
    return run_write(request, recipe, request.engine.merge_records(source, merge))


def _take_upsert(write: WriteSnapshot, data: Any, merge: MergeUpsert) -> Any:
    if write.schema != merge.schema:
        raise ConflictError("another writer changed the table's columns; nothing of this merge is visible; retry")
    return take_records(write, data, unique=True)


def _check_index(write: WriteSnapshot, records: Any, merge: MergeUpsert) -> bool:
    """Whether there are no records; before they are looked at, refuse an index that doesn't say where keys are."""
    knows = write.index.buckets is None and (write.index.is_global or not (merge.anywhere and write.index.records))
    if not knows and (merge.anywhere or not (merge.updates and merge.inserts)):
        raise _NeedsJoinError("the index finds no keys", table=write.table)
    return without_records(write, records)


def _place_upsert(write: WriteSnapshot, records: Any, merge: MergeUpsert) -> Placement:
    def choose(tagged: Any) -> Any:
        if write.is_global and tagged.movers:
            raise _NeedsJoinError("records are in other partitions", table=write.table)
        return tagged.known_only() if not merge.inserts else tagged if merge.updates else tagged.new_only()

    if write.is_global:  # what would move is found even if a version elsewhere is newer
        write = replace(write, index=replace(write.index, moves=False))
    elif merge.anywhere and finds_movers(write, records):
        raise _NeedsJoinError("records are in other partitions", table=write.table)
    both = merge.updates and merge.inserts
    placed = place_by_key(write, records, None if both and not write.is_global else choose)
    if both:  # as an upsert, it depends on nothing that it reads
        return placed
    any_partition = merge.anywhere or write.is_global
    return replace(placed, reads=list if any_partition else frozenset(records.counts).intersection)


def _place(write: WriteSnapshot, records: Any, seen: Timeline, read: ReadPlan | None) -> Placement:
    """Place the merged rows, unless the table changed since they were computed."""
    changed = set(seen.commits) ^ set(write.timeline.commits)
    if changed:
        raise ConflictError(
            f"another writer changed the table while source and table were compared, by commit "
            f"{max(changed).requested}; nothing of this merge is visible; retry",
            table=write.table,
        )
    placed = place_by_key(write, records)
    return placed if read is None else replace(placed, reads=partial(read.prune_partitions, keys=write.meta.keys))


class _Binder:
    """Makes a bound `MergeJoin` of what the user wrote."""

    def __init__(self, meta: MetaClient, table: pa.Schema, source: pa.Schema, request: MergeRequest) -> None:
        self._meta, self._table, self._source, self._request = meta, table, source, request
        self._root = meta.storage.root
        config = meta.config
        self._fixed = tuple(dict.fromkeys((*config.record_key_fields, *config.partition_fields)))
        self._sides = {TARGET: table, SOURCE: source}
        if request.source.lower() == request.target.lower():
            raise InvalidArgumentError(
                f"the source and the table are both called {request.source}: give one of them another alias",
                table=self._root,
            )

    def _rows(self, sides: Sequence[str]) -> pa.Schema:
        """The joined rows that have some sides."""
        return pa.schema([pa.field(side, pa.struct(list(self._sides[side]))) for side in sides])

    def join(self, timeline: Timeline) -> MergeJoin:
        """The bound merge, over the slices of the table at a timeline."""
        clauses = self._request.clauses
        if not clauses:
            raise InvalidArgumentError(
                "the merge has no clause: add when_matched_update, when_matched_delete or when_not_matched_insert",
                table=self._root,
            )
        on, condition = self._on()
        bound: dict[tuple[str, ...], list[MergeClause]] = {_BOTH: [], (SOURCE,): [], (TARGET,): []}
        for clause in clauses:
            bound[clause.sides].append(self._clause(clause, on))
        meta, generates = self._meta, self._meta.keys.generates
        read = plan_read(
            self._root,
            self._table,
            wanted=(RECORD_KEY, *self._table.names) if generates else None,  # only it says which record a row is
            where=None,
            meta_fields=False,
            populated=meta.merges_on_read or generates,  # log files are merged by record key
            history=read_history(meta, timeline, timeline) if meta.merges_on_read else None,
            merging=merging_of(meta, timeline, timeline),
        )
        read = read.with_slices(meta.view(timeline).all_slices(), meta.keys)
        matched, not_matched, unsourced = map(tuple, bound.values())
        by_key = self._request.on is None
        return MergeJoin(read, on, matched, not_matched, self._meta.keys, by_key, unsourced, condition)

    def _on(self) -> tuple[tuple[tuple[str, str], ...], Expr | None]:
        """What makes rows match: pairs of columns that are equal, and a bound predicate of what else must be true."""
        others: list[Expr] = []
        wanted, config = self._request.on, self._meta.config
        if wanted is None:
            folders = [name for name in config.partition_fields if name in self._source.names]
            if not config.record_key_fields:
                raise InvalidArgumentError("on is needed: the table has no record key to match by", table=self._root)
            wanted = list(dict.fromkeys((*config.record_key_fields, *folders)))
        if isinstance(wanted, str) and wanted not in self._table.names:
            pairs, others = self._conjuncts(wanted)
        else:
            names = [wanted] if isinstance(wanted, str) else list(wanted)
            pairs = [(name, name) for name in names]
        if not pairs and not others:
            raise InvalidArgumentError("on names no column", table=self._root)
        for target, source in pairs:
            both = Compare("=", Column((TARGET, target)), Column((SOURCE, source)))
            self._named(lambda both=both: bind(both, self._rows(_BOTH)), "on")  # type: ignore[misc]
        rest = conjunction(others)
        return tuple(pairs), None if rest is None else self._named(lambda: bind(rest, self._rows(_BOTH)), "on")

    def _conjuncts(self, text: str) -> tuple[list[tuple[str, str]], list[Expr]]:
        """A condition's equalities of one column of each side, and its other parts."""
        pairs, others = [], []
        for part in split_conjuncts(self._named(lambda: self._qualified(parse(text), _BOTH), "on")):
            sides = {}
            if isinstance(part, Compare) and part.op == "=":
                sides = {s.path[0]: s.path[1] for s in (part.left, part.right) if isinstance(s, Column)}
            if len(sides) == 2:
                pairs.append((self._spelt(sides[TARGET], self._table), self._spelt(sides[SOURCE], self._source)))
            else:
                others.append(part)
        return pairs, others

    @staticmethod
    def _spelt(name: str, schema: pa.Schema) -> str:
        return next((known for known in schema.names if known.lower() == name.lower()), name)

    def _clause(self, clause: Clause, on: Sequence[tuple[str, str]]) -> MergeClause:
        sides = clause.sides
        condition, rows = None, self._rows(sides)
        if clause.condition is not None:
            text = clause.condition
            condition = self._named(lambda: bind(self._qualified(parse(text), sides), rows), "condition")
        if clause.kind is MergeKind.DELETE:
            return MergeClause(clause.kind, condition)
        if clause.values is None:
            values = self._all(clause.kind, on)
        else:
            values = {self._column(name): self._expression(value, sides) for name, value in clause.values.items()}
        if clause.kind is MergeKind.INSERT:
            return MergeClause(clause.kind, condition, self._inserted(values))
        if not values:  # the source has nothing but keys
            return MergeClause(clause.kind, condition, (), self._same(on))
        bound = bind_assignments(values, rows, self._table, self._fixed, self._root)
        return MergeClause(clause.kind, condition, bound, self._same(on) if clause.values is None else None)

    def _all(self, kind: MergeKind, on: Sequence[tuple[str, str]]) -> dict[str, object]:
        """Every column of the source; an update leaves out those that say which record a row is."""
        used = {source for target, source in on if target != source}
        unknown = [name for name in self._source.names if name not in self._table.names and name not in used]
        missing = [name for name in self._table.names if name not in self._source.names]
        if unknown:
            raise SchemaError(
                f"columns that the table does not have: {', '.join(unknown)}; name the columns to set", table=self._root
            )
        if kind is MergeKind.INSERT and missing:
            raise SchemaError(
                f"columns missing from the source: {', '.join(missing)}; name the columns to insert", table=self._root
            )
        fixed = self._fixed if kind is MergeKind.UPDATE else ()
        names = [name for name in self._source.names if name in self._table.names and name not in fixed]
        return {name: Column((SOURCE, name)) for name in names}

    def _same(self, on: Sequence[tuple[str, str]]) -> Expr | None:
        """That an update of all columns leaves a row its key and partition."""
        names = [name for name in self._fixed if name in self._source.names and (name, name) not in on]
        parts = [Compare("<=>", Column((TARGET, name)), Column((SOURCE, name))) for name in names]
        both = conjunction(parts)
        return None if both is None else bind(both, self._rows(_BOTH))

    def _inserted(self, values: Mapping[str, object]) -> tuple[tuple[str, Expr], ...]:
        missing = [
            field.name
            for field in self._table
            if field.name not in values and (not field.nullable or field.name in self._meta.config.record_key_fields)
        ]
        if missing:
            raise InvalidArgumentError(
                f"an insert must set column {missing[0]!r}, which takes no nulls", table=self._root
            )
        return tuple(
            (name, bind_one(value, self._rows((SOURCE,)), self._table.field(name), self._root))
            for name, value in values.items()
        )

    def _column(self, name: str) -> str:
        """A column to set, with or without the table's name in front."""
        plain = name.removeprefix(f"{self._request.target}.")
        if plain not in self._table.names:
            raise InvalidArgumentError(
                f"there is no column {plain!r}; the table has {', '.join(self._table.names)}", table=self._root
            )
        return plain

    def _expression(self, value: object, sides: Sequence[str]) -> object:
        if not isinstance(value, str):
            return value
        return self._named(lambda: self._qualified(parse(value), sides), f"the value {value!r}")

    def _qualified(self, expr: Expr, sides: Sequence[str]) -> Expr:
        return replace_columns(expr, lambda column: self._resolved(column, sides))

    def _resolved(self, column: Column, sides: Sequence[str]) -> Column:
        """A column with the side that it is of in front."""
        first, *rest = column.path
        named = {self._request.source.lower(): SOURCE, self._request.target.lower(): TARGET}
        side = named.get(first.lower()) if rest else None
        if side is None:
            return Column((self._holder(column, sides), *column.path))
        if side not in sides:
            one, other = ("source", "table") if side == TARGET else ("table", "source")
            raise InvalidArgumentError(f"{column} is unknown for rows of the {one} that match no row of the {other}")
        if self._field(side, rest[0]) is None:
            raise InvalidArgumentError(f"there is no column {column}; {self._known(side)}")
        return Column((side, *rest))

    def _holder(self, column: Column, sides: Sequence[str]) -> str:
        """The side that has a column whose first name is none of the aliases."""
        first, *rest = column.path
        source, target = self._request.source, self._request.target
        fields = {each: self._field(each, first) for each in sides}
        holders = [side for side, f in fields.items() if f is not None and (not rest or pa.types.is_nested(f.type))]
        if len(holders) == 1:
            return holders[0]
        if holders:
            raise InvalidArgumentError(
                f"{column} is a column of both sides: write {source}.{first} or {target}.{first}"
            )
        if rest:
            raise InvalidArgumentError(f"{column}: {first} is neither the source ({source}) nor the table ({target})")
        raise InvalidArgumentError(f"there is no column {column}; {'; '.join(map(self._known, sides))}")

    def _field(self, side: str, name: str) -> pa.Field | None:
        return next((field for field in self._sides[side] if field.name.lower() == name.lower()), None)

    def _known(self, side: str) -> str:
        """The columns of a side, for an error."""
        who = f"the source ({self._request.source})" if side == SOURCE else f"the table ({self._request.target})"
        return f"{who} has {', '.join(self._sides[side].names)}"

    def _named(self, make: Callable[[], Any], what: str) -> Any:
        try:
            return make()
        except PudiError as error:
            raise type(error)(f"{what}: {outside_where(error)}", table=self._root) from error
