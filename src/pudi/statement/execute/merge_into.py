"""MERGE INTO by `Table.merge`. What may mean something else there than in the session, the engine computes.

Merges that Apache Hudi refuses are refused before anything is read. Hudi takes a record's key, partition and ordering
value from the columns of the source that have these names, and stores them as they are. A merge in which one is missing
or has another type would place or order records otherwise than the table does.

Source: MergeIntoHoodieTableCommand (validate, checkUpdatingActions, checkInsertingActions, checkDeletingActions).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from pudi.errors import PudiError
from pudi.expr import Column, Expr, constant, leaf_columns, parse
from pudi.expr.tree import Compare, find_column
from pudi.plan.row_changes import SOURCE, TARGET, MergeKind, MergeNames, MergeStage
from pudi.schema.spark_types import arrow_to_spark_type, quote
from pudi.schema.types import takes_as_is
from pudi.statement.execute.merge_computed import CLAUSE, COMPUTED, SIDES, MergeValues
from pudi.statement.session import Session, named
from pudi.statement.shared_meaning import compared_exactly, holds, is_shared_in_merge
from pudi.statement.table_uses import conjuncts
from pudi.statement.translate.typed_values import spark_name
from pudi.statement.tree import Merge, MergeAction, Text, When
from pudi.table import Table
from pudi.table.merge_builder import execute_clauses
from pudi.writes.merge_binding import Clause

_STAGES = {
    When.MATCHED: MergeStage.MATCHED,
    When.NOT_MATCHED: MergeStage.NOT_MATCHED,
    When.NOT_MATCHED_BY_SOURCE: MergeStage.NOT_MATCHED_BY_SOURCE,
}
_CHANGING = frozenset(
    {"rand", "randn", "random", "uuid", "shuffle", "monotonically_increasing_id", "spark_partition_id"}
)
_KINDS = {"update": MergeKind.UPDATE, "delete": MergeKind.DELETE, "insert": MergeKind.INSERT}


def merge(session: Session, statement: Merge) -> Any:
    """Run MERGE INTO.

    Raises:
        InvalidArgumentError: a clause names a column that isn't there, lacks or repeats one, the source has a key,
            partition or ordering column of another type, two clauses delete matched rows, or several rows of the source
            match one row.
    """
    table = session.changeable(statement.table)
    source = session.query(Text(f"SELECT * FROM {statement.source.text}", statement.source.at - len("SELECT * FROM ")))
    merging = _Merging(session, statement, table, session.host.schema(source))
    for clause in statement.clauses:
        merging.check(clause)
    for message, clause in _faults(statement, table, merging.columns):
        raise session.wrong(clause.at, message)
    on = merging.on()
    clauses = merging.clauses()
    if merging.computed:
        source = merging.with_computed()
    builder = table.merge(source, on, source_alias=merging.source, target_alias=merging.target)
    try:
        result = execute_clauses(builder, clauses, merging.joined or None)
    except PudiError as error:
        for number, (sql, _) in reversed(list(enumerate(merging.computed))):
            error.message = error.message.replace(f"source.{COMPUTED}{number}", sql)
        with session.at(statement.on if error.message.startswith("on: ") else statement.clauses[0].at):
            raise
    return session.changed(result)


@dataclass(slots=True)
class _Merging:
    """A merge on its way to the verb.

    Attributes:
        session: the statement's.
        statement: the statement.
        table: the table merged into.
        columns: the source's columns.
        computed: expressions of the source alone that the engine computes of the source, and the table's columns that
            take them.
        joined: those that it computes of joined rows.
    """

    session: Session
    statement: Merge
    table: Table
    columns: pa.Schema
    computed: list[tuple[str, pa.Field | None]] = field(default_factory=list)
    joined: MergeValues = field(init=False)
    names: MergeNames = field(init=False)

    def __post_init__(self) -> None:
        """Name the sides."""
        names = {TARGET: self.target, SOURCE: self.source}
        self.joined = MergeValues(self.session, names)
        self.names = MergeNames(names, {TARGET: self.table.schema, SOURCE: self.columns})

    @property
    def source(self) -> str:
        """Return the name of the source in the statement."""
        alias = self.statement.source_alias
        return alias if alias is not None else self.statement.source.text.rpartition(".")[2].strip("`") or "source"

    @property
    def target(self) -> str:
        """Return the name of the table in the statement."""
        return self.statement.alias or self.statement.table.parts[-1]

    def check(self, clause: MergeAction) -> None:
        """See that a clause sets columns that the table has."""
        for name, value in clause.values or ():
            if named(self.table.schema.names, _bare(name, self.target)) is None:
                known = ", ".join(self.table.schema.names)
                raise self.session.wrong(value.at, f"the table has no column {name}; it has {known}")

    def on(self) -> str | tuple[()]:
        """The condition of the match, without what the engine computes of joined rows."""
        text = self.statement.on
        with self.session.at(text):
            self._check_repeatable(text)
            parts = [self._conjunct(_unwrapped(node)) for node in conjuncts(self._parsed(text))]
            return " AND ".join(part for part in parts if part is not None) or ()

    def _conjunct(self, node: exp.Expression) -> str | None:
        sides = [_unwrapped(side) for side in (node.this, node.expression)] if isinstance(node, exp.EQ) else []
        kinds = self._kinds_of_both(sides)
        differ = kinds is not None and not holds(*kinds)
        if kinds is not None and differ and compared_exactly(*kinds):
            return self._fitting(sides, pa.field(TARGET, kinds[0]))
        if any(isinstance(side, exp.Column) and not self._of_source(side) for side in sides) and not differ:
            texts = [self._side(side) for side in sides]
            if None not in texts:
                return " = ".join(map(str, texts))
        part = None if differ else self._side(node)
        if part is None:
            self.joined.value(MergeStage.PAIRS, Text(str(node.sql("spark")), self.statement.on.at), None)
        return None if part is None else f"({part})"

    def _kinds_of_both(self, sides: Sequence[exp.Expression]) -> tuple[pa.DataType, pa.DataType] | None:
        """Return the types of a column of the table and one of the source; None if the sides are others."""
        found = {}
        for side in sides:
            path = self._named(side) if isinstance(side, exp.Column) else None
            with suppress(PudiError):  # the verb says what is wrong
                own = None if path is None else self.names.resolved(Column(path), (TARGET, SOURCE)).path
                if own is not None:
                    found[own[0]] = find_column(own[1:], self.names.schemas[own[0]]).type
        return (found[TARGET], found[SOURCE]) if len(found) == 2 else None

    def _fitting(self, sides: Sequence[exp.Expression], column: pa.Field) -> str:
        """A comparison of numbers in which source values that the table's column can't have are null."""
        mine, theirs = (side.sql("spark") for side in sorted(sides, key=self._of_source))
        cast = f"try_cast({theirs} AS {arrow_to_spark_type(column)})"
        return f"{mine} = {self._compute(f'CASE WHEN {cast} = {theirs} THEN {cast} END', column)}"

    def _side(self, node: exp.Expression) -> str | None:
        """A part of the condition of the match in the language of `where`; None if it's to be computed of pairs."""
        sql = str(node.sql("spark"))
        self._check_names(Text(sql, self.statement.on.at), (TARGET, SOURCE), node)
        if isinstance(node, exp.Column) and self._named(node) is not None:
            return sql
        if self._of_source(node):
            return self._compute(sql)
        return sql if is_shared_in_merge(self.session.host, sql, self.names) else None

    def clauses(self) -> list[Clause]:
        """The clauses of the verb."""
        made: list[Clause] = []
        for when, stage in _STAGES.items():
            mine = [clause for clause in self.statement.clauses if clause.when is when]
            alone = all(clause.condition is None for clause in mine)
            conditions = [clause.condition for clause in mine]
            values = [self._values(clause, number, alone=alone) for number, clause in enumerate(mine)]
            shared = all(each is None or self._is_shared(each, when) for each in conditions)
            if not alone and (not shared or len(self.joined.columns(stage))):
                self.joined.decide(stage, conditions)
            for number, clause in enumerate(mine):
                condition: str | Expr | None = None if clause.condition is None else clause.condition.text
                if condition is not None and self.joined.decides(stage):
                    condition = Compare("=", Column((CLAUSE,)), constant(number))
                sourced = when is not When.NOT_MATCHED_BY_SOURCE
                made.append(Clause(_KINDS[clause.action], values[number], condition, sourced))
        return made

    def _check_repeatable(self, condition: Text) -> None:
        """See that a condition gives the same again: which clause takes a row mustn't change while it's computed."""
        for node in self._parsed(condition).find_all(exp.Func):
            name = node.name if isinstance(node, exp.Anonymous) else node.sql_name()
            if name.lower() in _CHANGING:
                raise self.session.wrong(
                    condition.at,
                    f"{name} gives another value each time: let a column of the source have it",
                )

    def _is_shared(self, condition: Text, when: When) -> bool:
        self._check_repeatable(condition)
        self._check_names(condition, SIDES[_STAGES[when]])
        return is_shared_in_merge(self.session.host, condition.text, self.names)

    def _values(self, clause: MergeAction, number: int, *, alone: bool) -> dict[str, object] | None:
        """The new values of a clause by column; None for all columns of the source."""
        if clause.action == "delete":
            return None
        values = clause.values if clause.values is not None else self._star(clause)
        given = [(str(named(self.table.schema.names, _bare(name, self.target))), value) for name, value in values]
        found: dict[str, object] = {}
        for column, value in (*given, *self._folders(clause, [name for name, _ in given])):
            found[column] = self._value(value, clause, number, self.table.schema.field(column), alone=alone)
        return found

    def _star(self, clause: MergeAction) -> list[tuple[str, Text]]:
        """Return the columns that `*` stands for: the table's, of the source's columns with their names."""
        return [(name, self._of_source_by_name(name, clause)) for name in self.table.schema.names]

    def _folders(self, clause: MergeAction, given: Sequence[str]) -> list[tuple[str, Text]]:
        """Return the partition columns that an insert doesn't name: the source's decide, as in Hudi."""
        names = [name for name in self.table.config.partition_fields if name not in given]
        there = [name for name in names if named(self.columns.names, name) is not None]
        return [(name, self._of_source_by_name(name, clause)) for name in there if clause.action == "insert"]

    def _of_source_by_name(self, name: str, clause: MergeAction) -> Text:
        return Text(f"{quote(self.source)}.{quote(str(named(self.columns.names, name)))}", clause.at)

    def _value(self, value: Text, clause: MergeAction, number: int, column: pa.Field, *, alone: bool) -> object:
        """A value in the language of `where`, or the column that the engine computes it as."""
        self._check_names(value, SIDES[_STAGES[clause.when]])
        if is_shared_in_merge(self.session.host, value.text, self.names, column):
            return value.text
        if alone and clause.when is not When.NOT_MATCHED_BY_SOURCE and self._of_source(self._parsed(value)):
            return self._compute(value.text, column)
        return Column((self.joined.value(_STAGES[clause.when], value, number, column),))

    def _check_names(self, text: Text, sides: Sequence[str], node: exp.Expression | None = None) -> None:
        """See that an expression names columns of these sides; engines don't say where they miss one."""
        with self.session.at(text):
            try:
                names = [column.path for column in leaf_columns(parse(text.text))]
            except PudiError:  # of columns with an alias alone, since functions may have names of their own
                parsed = self._parsed(text) if node is None else node
                aliases = {name.lower() for name in self.names.names.values()}
                found = [self._named(each) for each in parsed.find_all(exp.Column)]
                names = [each for each in found if each is not None and len(each) > 1 and each[0].lower() in aliases]
            for path in names:
                self.names.resolved(Column(path), sides)

    @staticmethod
    def _named(column: exp.Column) -> tuple[str, ...] | None:
        """The parts of a column's name; None for a name inside of a subquery, which may be of the subquery."""
        return None if column.find_ancestor(exp.Select) else tuple(part.name for part in column.parts)

    def _parsed(self, text: Text) -> exp.Expression:
        try:
            tree = parse_one(text.text, dialect="spark")
        except SqlglotError as error:
            raise self.session.wrong(text.at, f"this is no expression: {_first_line(error)}") from error
        assert isinstance(tree, exp.Expression)
        return tree

    def _of_source(self, node: exp.Expression) -> bool:
        """Whether an expression needs columns of the source alone."""
        paths = [self._named(column) for column in node.find_all(exp.Column)]
        mine = {name.lower() for name in self.table.schema.names}
        theirs = {name.lower() for name in self.columns.names}

        def is_mine(path: tuple[str, ...]) -> bool:
            first = path[0].lower()
            if len(path) > 1 and first in {self.source.lower(), self.target.lower()}:
                return first == self.source.lower()
            return first in theirs - mine

        return not any(node.find_all(exp.Select)) and all(path is not None and is_mine(path) for path in paths)

    def _compute(self, sql: str, column: pa.Field | None = None) -> str:
        if (sql, column) not in self.computed:
            self.computed.append((sql, column))
        return f"{quote(self.source)}.{COMPUTED}{self.computed.index((sql, column))}"

    def with_computed(self) -> Any:
        """The source with what the engine computes."""
        columns = ", ".join(f"{sql} AS {COMPUTED}{number}" for number, (sql, _) in enumerate(self.computed))
        text = f"SELECT *, {columns} FROM {self.statement.source.text}"
        if self.statement.source_alias is not None or text.endswith(")"):
            text += f" AS {quote(self.source)}"
        frame = self.session.query(Text(text, self.statement.source.at))
        given, host = list(self.session.host.schema(frame)), self.session.host
        own, made = given[: -len(self.computed)], given[-len(self.computed) :]
        wanted = [
            each if column is None else column.with_name(each.name)
            for each, (_, column) in zip(made, self.computed, strict=True)
        ]
        try:
            return host.fitted(frame, [*own, *wanted], casts=True)
        except PudiError as error:
            for number, (sql, _) in reversed(list(enumerate(self.computed))):
                error.message = error.message.replace(f"column {COMPUTED}{number}:", f"{sql}:")
            with self.session.at(self.statement.clauses[0].at):
                raise


def _unwrapped(node: exp.Expression) -> exp.Expression:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]


_VERSION_OF_MODES = 8
"""The first version whose tables say by which rule they merge; only there Hudi asks for ordering fields."""


def _assigned(clause: MergeAction, table: Table, target: str) -> list[str]:
    """Return the table's columns that a clause sets, those that it sets twice twice; unknown ones are left out."""
    given = [name for name, _ in clause.values or ()]
    names = [named(table.schema.names, _bare(name, target)) for name in given]
    return [name for name in names if name is not None]


def _bare(name: str, alias: str) -> str:
    """Return the name of a column without the table's name in front."""
    first, dot, rest = name.partition(".")
    return rest if dot and first.lower() == alias.lower() else name


def _faults(statement: Merge, table: Table, source: pa.Schema) -> Iterator[tuple[str, MergeAction]]:
    """Yield the reasons for which Hudi refuses a merge, each with a clause."""
    target = statement.alias or statement.table.parts[-1]
    deletes = [clause for clause in statement.clauses if clause.when is When.MATCHED and clause.action == "delete"]
    if len(deletes) > 1:
        yield "a merge deletes matched rows by one clause: join the conditions by OR", deletes[1]
    needed = _needed(table)
    for clause in statement.clauses:
        if clause.action == "delete":
            continue
        if clause.values is None:
            lacking = next((name for name in table.schema.names if named(source.names, name) is None), None)
            if lacking is not None:
                star = "UPDATE SET *" if clause.action == "update" else "INSERT *"
                yield f"{star}: the source has no column {lacking}; name the columns", clause
            continue
        names = _assigned(clause, table, target)
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            yield f"column {twice} is set twice", clause
        missing = [name for name in needed if name not in names]
        if missing and clause.when is not When.NOT_MATCHED_BY_SOURCE:
            yield f"the clause sets no {missing[0]}, the table's ordering field: {_advice(clause, missing[0])}", clause
    sourced = [each for each in statement.clauses if each.when is not When.NOT_MATCHED_BY_SOURCE]
    setting = next((each for each in sourced if each.action != "delete"), None)
    if setting is not None:
        yield from ((message, setting) for message in _mistyped(table, source, needed))


def _needed(table: Table) -> tuple[str, ...]:
    """Return the ordering fields that clauses must set."""
    config = table.config
    ordered = config.merge_mode.compares and config.version >= _VERSION_OF_MODES
    return tuple(name.partition(".")[0] for name in config.ordering_fields) if ordered else ()


def _advice(clause: MergeAction, name: str) -> str:
    if clause.action == "update":
        return f"without it nothing says whether the change is newer; {name} = target.{name} keeps its value"
    return "without it nothing says which version of the record is newer"


def _mistyped(table: Table, source: pa.Schema, ordering: tuple[str, ...]) -> Iterator[str]:
    """Yield the columns of the source whose type isn't that of the key, partition or ordering column of their name."""
    config = table.config
    whats = {
        **dict.fromkeys(ordering, "ordering field"),
        **dict.fromkeys(config.partition_fields, "partition column"),
        **dict.fromkeys(config.record_key_fields, "record key column"),
    }
    for name, what in whats.items():
        own = named(source.names, name)
        if own is None or name not in table.schema.names:
            continue
        wanted, given = table.schema.field(name).type, source.field(own).type
        if not takes_as_is(wanted, given):
            kinds = spark_name(wanted).lower(), spark_name(given).lower()
            yield f"the {what} {name} is {kinds[0]}, the source's column {own} is {kinds[1]}: CAST it in the source"
