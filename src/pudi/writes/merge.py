"""Merge a source into a table: clauses with expressions in, one upsert of the records that they make out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from pudi.client.find_index import find_index
from pudi.client.log_merging import merging_of
from pudi.client.meta_client import MetaClient
from pudi.client.result import CommitResult
from pudi.client.schema_history import read_history
from pudi.client.snapshot import TableSnapshot
from pudi.commit.retry import Retries
from pudi.config import check_writable
from pudi.errors import ConflictError, InvalidArgumentError, NotSupportedError, PudiError, SchemaError
from pudi.expr import Expr, bind, conjunction, outside_where, parse, replace_columns, split_conjuncts
from pudi.expr.tree import Column, Compare
from pudi.plan import MergeUpsert, Operation, ReadableTable, ReadPlan, Selection, plan_read
from pudi.plan.change import bind_assignments, bind_one
from pudi.plan.merge_into import (
    SOURCE,
    TARGET,
    ComputedValues,
    MergeClause,
    MergeJoin,
    MergeKind,
    MergeNames,
    MergeStage,
    NewestRows,
    upsert_of,
)
from pudi.schema import RECORD_KEY, field_at, roots_of
from pudi.task.engine import RepeatedKeysError
from pudi.timeline import Timeline
from pudi.writes.place_records import finds_movers, place_by_key
from pudi.writes.write import run_write
from pudi.writes.write_recipe import (
    Placement,
    WriteAttempt,
    WriteRecipe,
    WriteRequest,
    take_records,
    without_records,
)

_BOTH = (TARGET, SOURCE)
_STAGES = {_BOTH: MergeStage.MATCHED, (SOURCE,): MergeStage.NOT_MATCHED, (TARGET,): MergeStage.NOT_MATCHED_BY_SOURCE}


@dataclass(frozen=True, slots=True)
class Clause:
    """A clause as the user wrote it.

    Attributes:
        kind: what the clause does.
        values: SQL text, constant or computed column by column; None for all of the source's columns.
        condition: SQL predicate, or one over computed columns; None for all rows.
        sourced: whether its rows have a row of the source; else it's for rows of the table that no source row matches.
    """

    kind: MergeKind
    values: Mapping[str, object] | None = None
    condition: str | Expr | None = None
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
        computed: the values of computed columns, and more conditions of the match; None for none.
    """

    on: str | Sequence[str] | None
    clauses: tuple[Clause, ...]
    source: str = SOURCE
    target: str = TARGET
    computed: ComputedValues | None = None


def merge(request: WriteRequest, data: Any, merging: MergeRequest) -> CommitResult | None:
    """Merge a source into a table in one commit.

    Args:
        request: what the caller asks for; all that the merge reads must not have changed since its instant.
        data: the source, in a form that the engine takes.
        merging: the statement.

    Returns:
        What was done, or None when no clause takes a row.

    Raises:
        InvalidArgumentError: a wrong clause or expression, several source rows match one row of the table, or an
            update would change its key or partition.
        NotSupportedError: SQL beyond the subset, or a table that this release can't write.
        ConflictError: other writers won, at each attempt; nothing of this write is visible.
        ChangedSinceError: the table has changed since the request's instant; nothing was written.
    """
    meta, root = request.meta, request.meta.storage.root
    source, columns = request.engine.merge_source(data, root, lambda: TableSnapshot.load(meta).schema.columns)
    attempt = partial(_attempt, request, merging, source, columns)
    return Retries.of(meta, request.write_options, by_default=True).run(attempt)


def _attempt(request: WriteRequest, merging: MergeRequest, source: Any, columns: pa.Schema) -> CommitResult | None:
    meta = request.meta
    meta.reload()
    check_writable(meta.config, meta.storage.root, request.options)
    timeline = meta.store.load()
    moves = bool(meta.config.partition_fields) and find_index(TableSnapshot(meta, timeline, request.options)).moves
    last = request.write_options.merge_several_matches == "last"
    join = _Binder(meta, meta.schema(timeline), columns, merging, moves=moves, last=last).join(timeline)
    upsert = upsert_of(join, columns)
    if upsert is not None:
        with suppress(RepeatedKeysError, _NeedsJoinError):  # which of the rows count, or what is wrong, the join says
            return _upsert(request, source, upsert)
    made = request.engine.merge_rows(source, meta.storage, join)
    place = partial(_place, seen=timeline, read=made.read)
    try:
        return run_write(request, WriteRecipe(_operation(meta, join), place, flagged=True, evolves=False), made.data)
    finally:
        made.release()


def _operation(meta: MetaClient, join: MergeJoin) -> Operation:
    """Return the operation that writes the records of a join. Hudi keeps all rows of a merge that only inserts."""
    only_inserts = not join.matched and not join.unsourced
    return Operation.INSERT if only_inserts and not meta.config.ordering_fields else Operation.UPSERT


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


def _take_upsert(write: WriteAttempt, data: Any, merge: MergeUpsert) -> Any:
    if write.schema != merge.schema:
        raise ConflictError("another writer changed the table's columns; nothing of this merge is visible; retry")
    return take_records(write, data, unique=True)


def _check_index(write: WriteAttempt, records: Any, merge: MergeUpsert) -> bool:
    """Whether there are no records; before they are looked at, refuse an index that doesn't say where keys are."""
    knows = write.index.buckets is None and (write.index.is_global or not (merge.anywhere and write.index.records))
    if not knows and (merge.anywhere or not (merge.updates and merge.inserts)):
        raise _NeedsJoinError("the index finds no keys", table=write.table)
    return without_records(write, records)


def _place_upsert(write: WriteAttempt, records: Any, merge: MergeUpsert) -> Placement:
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


def _place(write: WriteAttempt, records: Any, seen: Timeline, read: ReadPlan | None) -> Placement:
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

    def __init__(
        self, meta: MetaClient, table: pa.Schema, source: pa.Schema, request: MergeRequest, *, moves: bool, last: bool
    ) -> None:
        self._meta, self._table, self._source, self._request = meta, table, source, request
        self._root = meta.storage.root
        config = meta.config
        self._moves = moves  # a changed partition moves a record
        self._last = last  # the last of several source rows counts where nothing orders them
        self._fixed = tuple(dict.fromkeys((*config.record_key_fields, *(() if moves else config.partition_fields))))
        self._sides = {TARGET: table, SOURCE: source}
        self._names = MergeNames({TARGET: request.target, SOURCE: request.source}, self._sides)
        if request.source.lower() == request.target.lower():
            raise InvalidArgumentError(
                f"the source and the table are both called {request.source}: give one of them another alias",
                table=self._root,
            )

    def _rows(self, sides: Sequence[str], stage: MergeStage | None = None) -> pa.Schema:
        """The joined rows that have some sides, at the stage of their clauses if no other is given."""
        computed = self._computed(stage or _STAGES[tuple(sides)])
        return pa.schema([*(pa.field(side, pa.struct(list(self._sides[side]))) for side in sides), *computed])

    def _computed(self, stage: MergeStage) -> Sequence[pa.Field]:
        return () if self._request.computed is None else list(self._request.computed.columns(stage))

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
        table = ReadableTable(
            self._root,
            self._table,
            populated=meta.merges_on_read or generates,  # log files are merged by record key
            history=read_history(TableSnapshot(meta, timeline)),
            merging=merging_of(TableSnapshot(meta, timeline)),
        )
        names = (RECORD_KEY, *self._table.names) if generates else None  # only the key says which record a row is
        read = plan_read(table, Selection(names, meta_fields=False))
        read = read.with_slices(meta.view(timeline).all_slices(), meta.keys)
        matched, not_matched, unsourced = map(tuple, bound.values())
        return MergeJoin(
            read,
            on,
            matched,
            not_matched,
            self._meta.keys,
            nulls_match=self._request.on is None,
            unsourced=unsourced,
            condition=condition,
            newest=self._newest(on, bound),
            computed=self._request.computed,
        )

    def _newest(
        self, on: Sequence[tuple[str, str]], clauses: Mapping[tuple[str, ...], Sequence[MergeClause]]
    ) -> NewestRows | None:
        """Return the rule by which one of several source rows with one key counts, as Hudi combines a batch."""
        config, keys = self._meta.config, dict(on)
        if not {*config.record_key_fields} <= keys.keys() or not config.record_key_fields:
            return None
        inserts_all = not clauses[_BOTH] and not clauses[TARGET,]
        if not config.ordering_fields and (inserts_all or not self._last):
            return None
        folders = () if self._moves else config.partition_fields
        keys |= {name: spelt for name in folders if name not in keys and (spelt := self._in_source(name)) is not None}
        ordering = []
        for name in config.ordering_fields:
            column, *inside = name.split(".")
            own = self._in_source(column)
            path = self._assigned(column, clauses) if own is None else (own,)
            if path is None or field_at(self._source, (*path, *inside)) is None:
                return None
            ordering.append((*path, *inside))
        return NewestRows(tuple(dict.fromkeys(keys.values())), tuple(ordering))

    @staticmethod
    def _assigned(column: str, clauses: Mapping[tuple[str, ...], Sequence[MergeClause]]) -> tuple[str, ...] | None:
        """Return the path of the source's field that clauses assign to a column; None if there is none."""
        return next(
            (
                value.path[1:]
                for sides in (_BOTH, (SOURCE,))
                for clause in clauses[sides]
                for name, value in clause.values
                if name == column and isinstance(value, Column) and value.path[0] == SOURCE
            ),
            None,
        )

    def _in_source(self, name: str) -> str | None:
        """Return the name of a source's column as the source spells it; None if there is none."""
        found = self._names.field(SOURCE, name)
        return None if found is None else str(found.name)

    def _on(self) -> tuple[tuple[tuple[str, str], ...], Expr | None]:
        """Return the condition on which rows match: pairs of equal columns, and a bound predicate for the rest."""
        others: list[Expr] = []
        wanted, config = self._request.on, self._meta.config
        if wanted is None:
            folders = [name for name in config.partition_fields if name in self._source.names]
            if not config.record_key_fields:
                raise InvalidArgumentError("on is needed: the table has no record key to match by", table=self._root)
            wanted = list(dict.fromkeys((*config.record_key_fields, *folders)))
            lacking = [name for name in wanted if self._in_source(name.partition(".")[0]) is None]
            if lacking:
                raise InvalidArgumentError(
                    f"the source has no column {lacking[0]}, which is part of the record key: it has "
                    f'{", ".join(self._source.names)}; say which rows match, on="target.{lacking[0]} = source.…"',
                    table=self._root,
                )
        if isinstance(wanted, str) and wanted not in self._table.names:
            pairs, others = self._conjuncts(wanted)
        else:
            names = [wanted] if isinstance(wanted, str) else list(wanted)
            pairs = [(name, name) for name in names]
        others += [Column((field.name,)) for field in self._computed(MergeStage.PAIRS)]
        if not pairs and not others:
            raise InvalidArgumentError("on names no column", table=self._root)
        for target, source in pairs:
            both = Compare("=", Column((TARGET, target)), Column((SOURCE, source)))
            self._named(lambda both=both: bind(both, self._rows(_BOTH)), "on")  # type: ignore[misc]
        rest = conjunction(others)
        rows = self._rows(_BOTH, MergeStage.PAIRS)
        return tuple(pairs), None if rest is None else self._named(lambda: bind(rest, rows), "on")

    def _conjuncts(self, text: str) -> tuple[list[tuple[str, str]], list[Expr]]:
        """A condition's equalities of one column of each side, and its other parts."""
        pairs, others = [], []
        for part in split_conjuncts(self._named(lambda: self._qualified(parse(text), _BOTH), "on")):
            sides = {}
            if isinstance(part, Compare) and part.op == "=":
                columns = [s.path for s in (part.left, part.right) if isinstance(s, Column) and len(s.path) == 2]
                sides = {path[0]: path[1] for path in columns}
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
            given = clause.condition
            read = partial(self._qualified, sides=sides)
            made = given if isinstance(given, Expr) else self._named(lambda: read(parse(str(given))), "condition")
            condition = self._named(lambda: bind(made, rows), "condition")
        if clause.kind is MergeKind.DELETE:
            return MergeClause(clause.kind, condition, self._deleted(clause))
        if clause.values is None:
            values = self._all(clause.kind, on)
        else:
            values = {self._column(name): self._expression(value, sides) for name, value in clause.values.items()}
        if clause.kind is MergeKind.INSERT:
            return MergeClause(clause.kind, condition, self._inserted(values))
        if not values:  # the source has nothing but keys
            return MergeClause(clause.kind, condition, (), self._same(on))
        bound = bind_assignments(values, rows, self._table, self._root)
        if clause.values is None:
            return MergeClause(clause.kind, condition, bound, self._same(on))
        kept = tuple((name, value) for name, value in bound if name not in self._fixed)
        return MergeClause(clause.kind, condition, kept, *self._kept(bound, on))

    def _kept(self, values: Sequence[tuple[str, Expr]], on: Sequence[tuple[str, str]]) -> tuple[Expr | None, bool]:
        """Return the condition that new values of key and partition columns are the row's own.

        Returns:
            The condition, None if it always holds; and whether it compares anything but source columns of these names.
        """
        parts, computes = [], False
        for name, value in values:
            same = {(TARGET, name), *((SOURCE, source) for target, source in on if target == name)}
            if name in self._fixed and not (isinstance(value, Column) and value.path in same):
                parts.append(Compare("<=>", Column((TARGET, name), self._table.field(name).type), value))
                computes |= not (isinstance(value, Column) and value.path == (SOURCE, name))
        return conjunction(parts), computes

    def _deleted(self, clause: Clause) -> tuple[tuple[str, Expr], ...]:
        """Return the ordering values of deletes: the source's, so that late ones don't count, as in Hudi.

        In a copy-on-write table Hudi deletes whatever matches, unless the merge updates too.
        """
        updates = any(each.kind is MergeKind.UPDATE and each.sourced for each in self._request.clauses)
        if not clause.sourced or not (updates or self._meta.merges_on_read):
            return ()
        given = {name: self._in_source(name) for name in roots_of(self._meta.config.ordering_fields)}
        rows = self._rows(_BOTH)
        values = []
        for name, spelt in given.items():
            if spelt is not None:
                with suppress(InvalidArgumentError, NotSupportedError):  # no value that the column could have
                    values.append((name, bind_one(Column((SOURCE, spelt)), rows, self._table.field(name), self._root)))
        return tuple(values)

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
        """Return a predicate: the row keeps its key and partition when all columns are updated."""
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
        return replace_columns(expr, lambda column: self._names.resolved(column, sides))

    def _named(self, make: Callable[[], Any], what: str) -> Any:
        try:
            return make()
        except PudiError as error:
            raise type(error)(f"{what}: {outside_where(error)}", table=self._root) from error
