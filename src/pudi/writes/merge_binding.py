"""Bind a merge as the user wrote it, clauses with expressions, to the columns of table and source."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from pudi.client import TableSnapshot, merging_of, read_history
from pudi.client.find_index import find_index
from pudi.errors import InvalidArgumentError, NotSupportedError, PudiError, SchemaError
from pudi.expr import Expr, bind, conjunction, outside_where, parse, replace_columns, split_conjuncts
from pudi.expr.tree import Column, Compare
from pudi.plan import ReadableTable, Selection, plan_read
from pudi.plan.row_changes import (
    SOURCE,
    TARGET,
    ComputedValues,
    MergeClause,
    MergeJoin,
    MergeKind,
    MergeNames,
    MergeStage,
    NewestRows,
    bind_assignments,
    bind_one,
)
from pudi.schema import RECORD_KEY, field_at, roots_of

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


class MergeBinder:
    """Makes a bound `MergeJoin` of what the user wrote."""

    def __init__(self, snapshot: TableSnapshot, source: pa.Schema, request: MergeRequest) -> None:
        """Look at the table and the source.

        Args:
            snapshot: the table, with the writer's options.
            source: the columns of the source.
            request: the merge.

        Raises:
            InvalidArgumentError: source and table have one name.
        """
        table, config, options = snapshot.schema.columns, snapshot.config, snapshot.write_options
        moves = bool(config.partition_fields) and find_index(snapshot).moves
        self._snapshot, self._table, self._source, self._request = snapshot, table, source, request
        self._root = snapshot.table
        self._moves = moves  # a changed partition moves a record
        self._last = options.merge_several_matches == "last"  # that of several source rows where nothing orders them
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

    def join(self) -> MergeJoin:
        """Return the bound merge, over the slices of the table.

        Raises:
            InvalidArgumentError: there is no clause, or one names a column that isn't there or can't be set.
            NotSupportedError: SQL beyond the subset.
        """
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
        snapshot, keys = self._snapshot, self._snapshot.meta.keys
        generates = keys.generates
        table = ReadableTable(
            self._root,
            self._table,
            populated=snapshot.meta.merges_on_read or generates,  # log files are merged by record key
            history=read_history(snapshot),
            merging=merging_of(snapshot),
        )
        names = (RECORD_KEY, *self._table.names) if generates else None  # only the key says which record a row is
        read = plan_read(table, Selection(names, meta_fields=False))
        read = read.with_slices(snapshot.view().all_slices(), keys)
        matched, not_matched, unsourced = map(tuple, bound.values())
        return MergeJoin(
            read,
            on,
            matched,
            not_matched,
            keys,
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
        config, keys = self._snapshot.config, dict(on)
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
        wanted, config = self._request.on, self._snapshot.config
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
        if not clause.sourced or not (updates or self._snapshot.meta.merges_on_read):
            return ()
        given = {name: self._in_source(name) for name in roots_of(self._snapshot.config.ordering_fields)}
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
            if field.name not in values
            and (not field.nullable or field.name in self._snapshot.config.record_key_fields)
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
