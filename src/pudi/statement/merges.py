"""MERGE INTO by `Table.merge`. What its expressions can't say of the source alone, the engine computes beforehand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from pudi.action import CommitResult
from pudi.errors import InvalidArgumentError, NotSupportedError, PudiError
from pudi.expr import Column, bind_value, leaf_columns, parse, replace_columns
from pudi.expr.tree import Literal
from pudi.statement.reader import wrong
from pudi.statement.session import Session, named
from pudi.statement.tree import Merge, MergeAction, Text, When
from pudi.table import Table

COMPUTED = "_pudi_computed_"
"""Begins the names of columns that the engine computes of the source."""


def merge_into(session: Session, statement: Merge, table: Table) -> CommitResult | None:
    """Run a merge.

    Raises:
        InvalidArgumentError: a clause names a column that isn't there, or several rows of the source match one row.
        NotSupportedError: an expression of both sides is beyond the language of `where`.
    """
    source = session.query(Text(f"SELECT * FROM {statement.source.text}", statement.source.at - len("SELECT * FROM ")))
    merging = _Merging(session, statement, table, session.host.schema(source))
    on = merging.on()
    for clause in statement.clauses:
        merging.check(clause)
    conditions = [merging.condition(clause) for clause in statement.clauses]
    for clause in statement.clauses:
        merging.values(clause)  # what must be computed decides what * stands for
    values = [merging.values(clause) for clause in statement.clauses]
    if merging.computed:
        source = merging.with_computed()
    builder = table.merge(source, on, source_alias=merging.source, target_alias=merging.target)
    for clause, new, condition in zip(statement.clauses, values, conditions, strict=True):
        if clause.when is When.NOT_MATCHED:
            builder = builder.when_not_matched_insert(new, condition)
        elif clause.when is When.NOT_MATCHED_BY_SOURCE:
            builder = (
                builder.when_not_matched_by_source_delete(condition)
                if clause.action == "delete"
                else builder.when_not_matched_by_source_update(new or {}, condition)
            )
        elif clause.action == "delete":
            builder = builder.when_matched_delete(condition)
        else:
            builder = builder.when_matched_update(new, condition)
    try:
        return builder.execute()
    except PudiError as error:
        for number, (sql, _) in reversed(list(enumerate(merging.computed))):
            error.message = error.message.replace(f"source.{COMPUTED}{number}", sql)
        with session.at(statement.on if error.message.startswith("on: ") else statement.clauses[0].at):
            raise


@dataclass(slots=True)
class _Merging:
    """A merge on its way to the verb.

    Attributes:
        session: the statement's.
        statement: the statement.
        table: the table merged into.
        columns: the source's columns.
        computed: expressions of the source alone that the engine computes, and the table's columns that take them.
    """

    session: Session
    statement: Merge
    table: Table
    columns: pa.Schema
    computed: list[tuple[str, pa.Field | None]] = field(default_factory=list)

    @property
    def source(self) -> str:
        """What the statement calls the source."""
        alias = self.statement.source_alias
        return alias if alias is not None else self.statement.source.text.rpartition(".")[2].strip("`") or "source"

    @property
    def target(self) -> str:
        """What the statement calls the table."""
        return self.statement.alias or self.statement.table.parts[-1]

    def check(self, clause: MergeAction) -> None:
        """See that a clause sets columns that the table has."""
        for name, value in clause.values or ():
            if named(self.table.schema.names, _bare(name, self.target)) is None:
                known = ", ".join(self.table.schema.names)
                raise wrong(self.session.text, value.at, f"the table has no column {name}; it has {known}")

    def on(self) -> str:
        """The condition of the match; what it computes of the source alone becomes a column of it."""
        text = self.statement.on
        with self.session.at(text):
            return " AND ".join(map(self._conjunct, _conjuncts(self._parsed(text))))

    def _conjunct(self, node: exp.Expression) -> str:
        sides = [_unwrapped(side) for side in (node.this, node.expression)] if isinstance(node, exp.EQ) else []
        if any(isinstance(side, exp.Column) and not self._of_source(side) for side in sides):
            return " = ".join(map(self._side, sides))
        return f"({self._side(node)})"

    def _side(self, node: exp.Expression) -> str:
        sql = str(node.sql("spark"))
        if isinstance(node, exp.Column):
            return sql
        if self._of_source(node):
            return self._compute(sql)
        parse(sql)
        return sql

    def values(self, clause: MergeAction) -> dict[str, object] | None:
        """The new values of a clause by column; None for all columns of the source."""
        if clause.action == "delete":
            return None
        if clause.values is None:
            return self._star(clause)
        found: dict[str, object] = {}
        for name, value in clause.values:
            column = str(named(self.table.schema.names, _bare(name, self.target)))
            if clause.action == "update" and self._keeps(column, value):
                continue
            found[column] = self._expression(value, clause, self.table.schema.field(column))
        if clause.action == "update" and not found:
            raise wrong(self.session.text, clause.at, "an update must set a column that is no key")
        return found

    def _keeps(self, column: str, value: Text) -> bool:
        """Whether an update sets a column, by which source and table are matched, to what it is."""
        fixed = {*self.table.config.record_key_fields, *self.table.config.partition_fields}
        if column not in fixed:
            return False
        node = self._parsed(value)
        other = node.name.lower() if isinstance(node, exp.Column) else ""
        pairs = [
            {_qualified(side) for side in (p.this, p.expression)} for p in _conjuncts(self._parsed(self.statement.on))
        ]
        mine = {(self.target.lower(), column.lower()), ("", column.lower())}
        theirs = {(self.source.lower(), other), ("", other)}
        return any(pair & mine and pair & theirs for pair in pairs) or (
            isinstance(node, exp.Column) and _qualified(node) in mine
        )

    def _star(self, clause: MergeAction) -> dict[str, object] | None:
        """What `*` stands for: the table's columns of the names that the source has, its other columns left out."""
        names = {name.lower(): name for name in self.columns.names}
        extra = set(names) - {name.lower() for name in self.table.schema.names}
        missing = [name for name in self.table.schema.names if name.lower() not in names]
        if clause.action == "insert" and missing:
            raise wrong(
                self.session.text, clause.at, f"INSERT *: the source has no column {missing[0]}; name the columns"
            )
        spelt = all(names.get(name.lower(), name) == name for name in self.table.schema.names)
        shared = [each for each in self.table.schema if each.name.lower() in names]
        typed = all(self.columns.field(names[each.name.lower()]).type == each.type for each in shared)
        if not extra and not self.computed and spelt and typed:
            return None
        fixed = {*self.table.config.record_key_fields, *self.table.config.partition_fields}
        left_out = fixed if clause.action == "update" else set()
        return {
            each.name: self._fitting(f"{_quoted(self.source)}.{_quoted(names[each.name.lower()])}", each)
            for each in shared
            if each.name not in left_out
        }

    def condition(self, clause: MergeAction) -> str | None:
        """The condition of a clause."""
        return None if clause.condition is None else str(self._expression(clause.condition, clause))

    def _expression(self, value: Text, clause: MergeAction, column: pa.Field | None = None) -> str:
        """An expression in the language of `where`, or the name of the column that the engine computes it as.

        Args:
            value: the expression.
            clause: where it stands.
            column: the column that takes its value; None for a condition.
        """
        try:
            with self.session.at(value):
                parsed = parse(value.text)
        except NotSupportedError as error:
            node = self._parsed(value)
            if clause.when is When.NOT_MATCHED_BY_SOURCE or not self._of_source(node):
                raise NotSupportedError(
                    f"{error.message}; of the source's columns alone, the engine computes any expression",
                    table=self.table.path,
                ) from error
            return self._compute(value.text, column)
        if isinstance(parsed, Literal) or clause.when is When.NOT_MATCHED_BY_SOURCE:
            return value.text
        if not leaf_columns(parsed):
            return self._compute(value.text, column)  # such as upper('x'), which the language of where doesn't have
        of_source = column is not None and self._of_source(self._parsed(value))
        return self._fitting(value.text, column) if of_source and column is not None else value.text

    def _fitting(self, sql: str, column: pa.Field) -> str:
        """An expression of the source for a column; the engine computes it if it's to be cast as `where` doesn't."""
        own = self.source.lower()

        def bare(name: Column) -> Column:
            return Column(name.path[1:]) if len(name.path) > 1 and name.path[0].lower() == own else name

        try:
            bind_value(replace_columns(parse(sql), bare), self.columns, column.type)
        except (NotSupportedError, InvalidArgumentError):
            return self._compute(sql, column)
        return sql

    def _parsed(self, text: Text) -> exp.Expression:
        try:
            tree = parse_one(text.text, dialect="spark")
        except SqlglotError as error:
            raise wrong(self.session.text, text.at, f"this is no expression: {_first_line(error)}") from error
        assert isinstance(tree, exp.Expression)
        return tree

    def _of_source(self, node: exp.Expression) -> bool:
        """Whether an expression needs columns of the source alone."""
        mine = {name.lower() for name in self.table.schema.names}
        theirs = {name.lower() for name in self.columns.names}
        for column in node.find_all(exp.Column):
            side = column.table.lower()
            if side == self.source.lower():
                if column.name.lower() not in theirs:
                    raise InvalidArgumentError(
                        f"there is no column {column.sql('spark')}; the source has {', '.join(self.columns.names)}",
                        table=self.table.path,
                    )
                continue
            if side or column.name.lower() not in theirs - mine:
                return False
        return True

    def _compute(self, sql: str, column: pa.Field | None = None) -> str:
        if (sql, column) not in self.computed:
            self.computed.append((sql, column))
        return f"{_quoted(self.source)}.{COMPUTED}{self.computed.index((sql, column))}"

    def with_computed(self) -> Any:
        """The source with what the engine computes."""
        columns = ", ".join(f"{sql} AS {COMPUTED}{number}" for number, (sql, _) in enumerate(self.computed))
        text = f"SELECT *, {columns} FROM {self.statement.source.text}"
        if self.statement.source_alias is not None or text.endswith(")"):
            text += f" AS {_quoted(self.source)}"
        frame = self.session.query(Text(text, self.statement.source.at))
        given, host = list(self.session.host.schema(frame)), self.session.host
        own, made = given[: -len(self.computed)], given[-len(self.computed) :]
        wanted = [
            each if column is None else column.with_name(each.name)
            for each, (_, column) in zip(made, self.computed, strict=True)
        ]
        return host.fitted(frame, [*own, *wanted], casts=True)


def _unwrapped(node: exp.Expression) -> exp.Expression:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _conjuncts(node: exp.Expression) -> Iterator[exp.Expression]:
    node = _unwrapped(node)
    if isinstance(node, exp.And):
        yield from _conjuncts(node.this)
        yield from _conjuncts(node.expression)
    else:
        yield node


def _qualified(node: exp.Expression) -> tuple[str, str]:
    return (node.table.lower(), node.name.lower()) if isinstance(node, exp.Column) else ("", "")


def _bare(name: str, alias: str) -> str:
    first, dot, rest = name.partition(".")
    return rest if dot and first.lower() == alias.lower() else name


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
