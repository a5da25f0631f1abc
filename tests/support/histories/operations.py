"""Operations of a history: as a line of Python, what it does to a table, and what to the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

import pudi
from support.histories.model import Model, State, UnplayableError, Values
from support.histories.predicates import Predicate
from support.histories.values import arrow, retyped, sql, sql_type, table_text, type_text


class Hands(Protocol):
    """What an operation is done with.

    Attributes:
        table: the table.
        more: arguments of verbs that name the engine's session.
    """

    table: pudi.Table
    more: Mapping[str, Any]

    def frame(self, rows: pa.Table) -> Any:
        """Return rows as the engine takes them."""

    def sql(self, statement: str, source: pa.Table | None = None) -> Any:
        """Run a statement about the table `t` and the rows `s`."""


Refusals = tuple[type[pudi.PudiError], ...]
_BACK: Refusals = (pudi.NotFoundError, pudi.InvalidArgumentError)


@dataclass(frozen=True)
class Operation:
    """One step.

    Attributes:
        refusals: errors by which pudi may refuse it; then nothing may have changed.
    """

    def line(self) -> str:
        """Return it as a line of Python about the table `t`."""
        raise NotImplementedError

    def run(self, hands: Hands) -> Any:
        """Do it."""
        raise NotImplementedError

    def after(self, model: Model, state: State, commit: str) -> State:
        """Return the state that it leaves."""
        return state

    @property
    def refusals(self) -> Refusals:
        return ()


@dataclass(frozen=True)
class Write(Operation):
    """A verb that takes rows, in Python or SQL.

    Attributes:
        policy: what an insert does with rows whose key is there: `drop` or `fail`; empty for nothing.
    """

    verb: str
    rows: tuple[Values, ...]
    columns: tuple[tuple[str, pa.DataType], ...]
    policy: str = ""
    by_sql: bool = False

    def _statement(self) -> str:
        return f"INSERT {'INTO' if self.verb == 'insert' else 'OVERWRITE'} t SELECT * FROM s"

    def _options(self) -> dict[str, str]:
        return {"hoodie.datasource.insert.dup.policy": self.policy} if self.policy else {}

    def line(self) -> str:
        rows = table_text(list(self.rows), dict(self.columns))
        if self.by_sql:
            return f"pudi.sql({self._statement()!r}, t=t, s={rows})"
        return f"t.{self.verb}({rows}{f', options={self._options()}' if self.policy else ''})"

    def run(self, hands: Hands) -> Any:
        rows = arrow(list(self.rows), dict(self.columns))
        if self.by_sql:
            return hands.sql(self._statement(), rows)
        return getattr(hands.table, self.verb)(hands.frame(rows), options=self._options())

    def after(self, model: Model, state: State, commit: str) -> State:
        if self.verb == "delete":
            return model.delete(state, self.rows)
        state = model.widened(state, dict(self.columns))
        brought = dict(self.columns)
        rows = [
            {name: retyped(row[name], brought[name], kind) for name, kind in state.columns.items()} for row in self.rows
        ]
        if self.policy:
            rows = model.unknown(state, rows)
            if self.policy == "fail" and len(rows) < len(self.rows):
                raise pudi.InvalidArgumentError("keys are there")
        if self.verb.startswith("insert_overwrite"):
            return model.overwrite(state, rows, commit, whole=self.verb.endswith("table"))
        return (model.upsert if self.verb == "upsert" else model.insert)(state, rows, commit)

    @property
    def refusals(self) -> Refusals:
        # Keys are not looked for beside log files.
        return (pudi.NotSupportedError,) if self.policy else ()


@dataclass(frozen=True)
class BadPartition(Write):
    """A write whose partition value no table takes."""

    def after(self, model: Model, state: State, commit: str) -> State:
        if not any(model.setup.is_refused(row["p"]) for row in self.rows):
            raise UnplayableError("a good partition")
        raise pudi.InvalidArgumentError("a partition that can't be")


@dataclass(frozen=True)
class DeleteWhere(Operation):
    """A delete by predicate, in Python or SQL."""

    where: Predicate
    by_sql: bool = False

    def line(self) -> str:
        if self.by_sql:
            return f"pudi.sql({f'DELETE FROM t WHERE {self.where.sql()}'!r}, t=t)"
        return f"t.delete(where={self.where.sql()!r})"

    def run(self, hands: Hands) -> Any:
        if self.by_sql:
            return hands.sql(f"DELETE FROM t WHERE {self.where.sql()}")
        return hands.table.delete(where=self.where.sql(), **hands.more)

    def after(self, model: Model, state: State, commit: str) -> State:
        _check_columns(self.where.columns(), state)
        gone = [each for each in state.records if self.where.of(each.values)]
        left = {model.place(each) for each in state.records if not self.where.of(each.values)}
        if any(model.place(each) in left for each in gone):
            raise UnplayableError("a copy stays")
        return model.remove(state, gone)


@dataclass(frozen=True)
class Update(Operation):
    """An update by predicate; a value is a constant, `+ 1`, or another column's.

    Attributes:
        zone: the session's time zone, of a statement.
    """

    sets: tuple[tuple[str, str, Any], ...]
    where: Predicate
    by_sql: bool = False
    zone: str = ""

    def _values(self) -> dict[str, str]:
        texts = {"plus": lambda name, _: f"{name} + 1", "column": lambda _, other: other}
        return {
            name: texts.get(how, lambda _, value: sql(value, self.zone))(name, value) for name, how, value in self.sets
        }

    def _statement(self) -> str:
        values = ", ".join(f"{name} = {value}" for name, value in self._values().items())
        return f"UPDATE t SET {values} WHERE {self.where.sql()}"

    def line(self) -> str:
        if self.by_sql:
            return f"pudi.sql({self._statement()!r}, t=t)"
        return f"t.update({self._values()!r}, where={self.where.sql()!r})"

    def run(self, hands: Hands) -> Any:
        if self.by_sql:
            return hands.sql(self._statement())
        return hands.table.update(self._values(), where=self.where.sql(), **hands.more)

    def after(self, model: Model, state: State, commit: str) -> State:
        read = {value for _, how, value in self.sets if how == "column"}
        _check_columns(self.where.columns() | read | {name for name, _, _ in self.sets}, state)
        return model.change(state, commit, lambda old: _updated(old, self.sets) if self.where.of(old) else None)


def _updated(old: Values, sets: tuple[tuple[str, str, Any], ...]) -> Values:
    new = dict(old)
    for name, how, value in sets:
        if how == "plus":
            new[name] = None if old[name] is None else old[name] + 1
        else:
            new[name] = old[value] if how == "column" else value
    return new


def _check_columns(names: set[str], state: State) -> None:
    if not names <= set(state.columns):
        raise UnplayableError(str(names))


@dataclass(frozen=True)
class Merge(Operation):
    """A merge by key.

    Attributes:
        matched: columns that matched rows take from the source; `delete` in their place deletes them.
        inserts: whether rows that match nothing come in.
        beside: of rows that no row of the source matches, a constant for a column, or `delete`.
        beside_where: its condition.
        on: columns that rows match by, which a statement names.
        by_sql: whether it's a statement.
        zone: the session's time zone, of a statement.
    """

    rows: tuple[Values, ...]
    columns: tuple[tuple[str, pa.DataType], ...]
    matched: tuple[str, ...] | str | None
    condition: Predicate | None
    inserts: bool
    beside: tuple[str, Any] | str | None
    beside_where: Predicate | None
    on: tuple[str, ...] = ()
    by_sql: bool = False
    zone: str = ""

    def _statement(self) -> str:
        on = " AND ".join(f"target.{name} = source.{name}" for name in self.on)
        parts = [f"MERGE INTO t AS target USING s AS source ON {on}"]
        for name, given in self._clauses():
            condition = f" AND {given[-1]}" if given and given[-1] else ""
            when = {"when_matched": "MATCHED", "when_not_matched_by_source": "NOT MATCHED BY SOURCE"}
            verb = name.rpartition("_")[2]
            if verb == "all":
                parts.append("WHEN NOT MATCHED THEN INSERT *")
                continue
            text = f"WHEN {when[name.rpartition('_')[0]]}{condition} THEN {verb.upper()}"
            sets = ", ".join(f"{column} = {value}" for column, value in given[0].items()) if verb == "update" else ""
            parts.append(text + (f" SET {sets}" if sets else ""))
        return " ".join(parts)

    def line(self) -> str:
        if self.by_sql:
            return f"pudi.sql({self._statement()!r}, t=t, s={table_text(list(self.rows), dict(self.columns))})"
        text = f"t.merge({table_text(list(self.rows), dict(self.columns))})"
        return (
            text + "".join(f".{name}({', '.join(map(repr, given))})" for name, given in self._clauses()) + ".execute()"
        )

    def _clauses(self) -> list[tuple[str, tuple[Any, ...]]]:
        clauses: list[tuple[str, tuple[Any, ...]]] = []
        condition = None if self.condition is None else self.condition.sql("target.")
        if self.matched == "delete":
            clauses.append(("when_matched_delete", (condition,)))
        elif self.matched:
            clauses.append(("when_matched_update", ({name: f"source.{name}" for name in self.matched}, condition)))
        if self.inserts:
            clauses.append(("when_not_matched_insert_all", ()))
        beside = None if self.beside_where is None else self.beside_where.sql("target.")
        if self.beside == "delete":
            clauses.append(("when_not_matched_by_source_delete", (beside,)))
        elif self.beside:
            clauses.append(
                ("when_not_matched_by_source_update", ({self.beside[0]: sql(self.beside[1], self.zone)}, beside))
            )
        return clauses

    def run(self, hands: Hands) -> Any:
        rows = arrow(list(self.rows), dict(self.columns))
        if self.by_sql:
            return hands.sql(self._statement(), rows)
        builder = hands.table.merge(hands.frame(rows))
        for name, given in self._clauses():
            builder = getattr(builder, name)(*given)
        return builder.execute()

    def after(self, model: Model, state: State, commit: str) -> State:
        if dict(self.columns) != state.columns:
            raise UnplayableError("columns")
        for predicate in (self.condition, self.beside_where):
            _check_columns(predicate.columns() if predicate else set(), state)
        _check_columns({self.beside[0]} if isinstance(self.beside, tuple) else set(), state)
        sources = {(row["p"] if model.setup.names else None, model.key(row)): row for row in self.rows}
        there, gone, new = set(), [], []
        for old in state.records:
            at = (old.values["p"] if model.setup.names else None, model.key(old.values))
            if at in there:
                raise UnplayableError("one key twice")
            there.add(at)
            source, predicate = sources.get(at), self.condition if at in sources else self.beside_where
            if predicate is not None and not predicate.of(old.values):
                continue
            if source is not None and self.matched == "delete":
                gone.append(old)
            elif source is not None and self.matched:
                new.append({**old.values, **{name: source[name] for name in self.matched}})
            elif source is None and self.beside == "delete":
                gone.append(old)
            elif source is None and isinstance(self.beside, tuple):
                new.append({**old.values, self.beside[0]: self.beside[1]})
        if self.inserts:
            new += [{name: row[name] for name in state.columns} for at, row in sources.items() if at not in there]
        return model.upsert(model.remove(state, gone), new, commit) if new else model.remove(state, gone)

    @property
    def refusals(self) -> Refusals:
        # What reads the target is computed in UTC.
        return () if self.zone in {"", "UTC"} else (pudi.NotSupportedError,)


@dataclass(frozen=True)
class DeletePartitions(Operation):
    """Partitions that are emptied, by the values of their column."""

    paths: tuple[str, ...]

    def line(self) -> str:
        return f"t.delete_partitions({list(self.paths)!r})"

    def run(self, hands: Hands) -> Any:
        return hands.table.delete_partitions(list(self.paths))

    def after(self, model: Model, state: State, commit: str) -> State:
        return model.empty(state, set(self.paths))


@dataclass(frozen=True)
class Alter(Operation):
    """A change of columns.

    Attributes:
        verb: the table's and the model's.
        given: its arguments.
    """

    verb: str
    given: tuple[Any, ...]
    indexed: bool = False
    by_sql: bool = False

    def _statement(self) -> str:
        name, *given = self.given
        what = {
            "add_column": lambda: (
                f"ADD COLUMNS ({name} {sql_type(given[0])}{f' AFTER {given[1]}' if given[1] else ''})"
            ),
            "rename_column": lambda: f"RENAME COLUMN {name} TO {given[0]}",
            "drop_column": lambda: f"DROP COLUMN {name}",
            "move_column": lambda: f"ALTER COLUMN {name} AFTER {given[0]}",
            "change_type": lambda: f"ALTER COLUMN {name} TYPE {sql_type(given[0])}",
        }
        return f"ALTER TABLE t {what[self.verb]()}"

    def line(self) -> str:
        if self.by_sql:
            return f"pudi.sql({self._statement()!r}, t=t)"
        given = [type_text(each) if isinstance(each, pa.DataType) else repr(each) for each in self.given]
        if self.verb == "add_column":
            given[2] = f"after={given[2]}"
        return f"t.{self.verb}({', '.join(given)})"

    def run(self, hands: Hands) -> Any:
        if self.by_sql:
            return hands.sql(self._statement())
        if self.verb == "add_column":
            return hands.table.add_column(*self.given[:2], after=self.given[2])
        return getattr(hands.table, self.verb)(*self.given)

    def after(self, model: Model, state: State, commit: str) -> State:
        return getattr(model, self.verb)(state, *self.given)  # type: ignore[no-any-return]

    @property
    def refusals(self) -> Refusals:
        return (pudi.SchemaError, pudi.InvalidArgumentError, pudi.NotSupportedError) if self.indexed else ()


@dataclass(frozen=True)
class Service(Operation):
    """A table service, which changes no records."""

    name: str
    given: tuple[tuple[str, Any], ...] = ()

    def line(self) -> str:
        return f"t.{self.name}({', '.join(f'{name}={value!r}' for name, value in self.given)})"

    def run(self, hands: Hands) -> Any:
        more = {} if self.name == "archive" else hands.more
        return getattr(hands.table, self.name)(**dict(self.given), **more)

    @property
    def refusals(self) -> Refusals:
        # The table may have come to version 6 meanwhile, which has no log compactions.
        return (pudi.NotSupportedError,) if "log_compaction" in dict(self.given) else ()


@dataclass(frozen=True)
class Index(Operation):
    """An index that is made or dropped, which changes no records."""

    verb: str
    given: tuple[Any, ...]

    def line(self) -> str:
        return f"t.{self.verb}({', '.join(map(repr, self.given))})"

    def run(self, hands: Hands) -> Any:
        more = hands.more if self.verb == "create_index" else {}
        return getattr(hands.table, self.verb)(*self.given, **more)

    @property
    def refusals(self) -> Refusals:
        return (pudi.InvalidArgumentError, pudi.NotSupportedError)


@dataclass(frozen=True)
class Upgrade(Operation):
    """Another version of the format."""

    version: int

    def line(self) -> str:
        return f"t.upgrade({self.version}, accept_loss=True)"

    def run(self, hands: Hands) -> Any:
        return hands.table.upgrade(self.version, accept_loss=True, **hands.more)

    @property
    def refusals(self) -> Refusals:
        return (pudi.InvalidArgumentError, pudi.NotSupportedError)


@dataclass(frozen=True)
class Back(Operation):
    """A savepoint, a rollback or a restore, of the commit so many commits back."""

    verb: str
    back: int

    def line(self) -> str:
        if self.verb == "rollback":
            return "t.rollback(newest(t))"
        found = "saved" if self.verb == "delete_savepoint" else "instants"
        return f"t.{self.verb}(back({found}(t), {self.back}))"

    @property
    def refusals(self) -> Refusals:
        return _BACK


@dataclass(frozen=True)
class Reopen(Operation):
    """The table is opened anew, as by another process."""

    def line(self) -> str:
        return "t = pudi.Table(path, options)"
