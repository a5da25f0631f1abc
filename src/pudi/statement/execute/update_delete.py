"""UPDATE and DELETE, by the verbs of a table.

What may mean something else in the language of `where` than in the session, the engine computes: such a change is a
query over the table as of an instant, with the session's settings, and an upsert or delete that is refused if the table
has changed since.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.expr import leaf_columns, parse
from pudi.expr.tree import find_column
from pudi.schema import RECORD_KEY, with_meta_fields
from pudi.schema.spark_types import quote
from pudi.statement.parse.reader import wrong
from pudi.statement.session import Session, named
from pudi.statement.shared_meaning import is_read_differently, parts_of, shared_condition, shared_parts, shared_value
from pudi.statement.tree import Delete, Text, Update
from pudi.table import Table


def update(session: Session, statement: Update) -> Any:
    """Run UPDATE."""
    rows = _Rows.of(session, statement)
    table, alias = rows.table, rows.alias
    values: dict[str, Text] = {}
    for name, value in statement.values:
        column = _column(session, table, name, value, alias)
        if column in values:
            raise wrong(session.text, value.at, f"column {column} is set twice")
        values[column] = value
    fixed = {*table.config.record_key_fields, *table.config.partition_fields}
    for name, value in values.items():
        if name in fixed:
            what = "part of the record key" if name in table.config.record_key_fields else "a partition column"
            raise wrong(
                session.text,
                value.at,
                f"column {name} is {what}, which UPDATE can't set: delete the rows and insert others",
            )
    schema = with_meta_fields(table.schema)
    shared = {
        name: shared_value(session.host, value.text, alias, schema, table.schema.field(name))
        for name, value in values.items()
    }
    where = _shared(session, rows, schema)
    if where is not None and all(value is not None for value in shared.values()):
        with session.at(rows.at):
            condition = None if statement.where is None else where
            return session.changed(table.update(shared, condition, spark=session.host.spark))
    _check_columns(session, rows)
    found = _compute(session, rows, [*_stored_key(table), *table.schema], values)
    return session.changed(table.upsert(found.rows, if_unchanged_since=found.instant))


def delete(session: Session, statement: Delete) -> Any:
    """Run DELETE FROM; without a condition it deletes all records."""
    rows = _Rows.of(session, statement)
    table = rows.table
    where = _shared(session, rows, with_meta_fields(table.schema))
    if where is not None:
        with session.at(rows.at):
            return session.changed(table.delete(where=where, spark=session.host.spark))
    _check_columns(session, rows)
    names = dict.fromkeys((*table.config.record_key_fields, *table.config.partition_fields))
    fields = [*_stored_key(table), *(table.schema.field(name) for name in names)]
    found = _compute(session, rows, fields, {})
    return session.changed(table.delete(found.rows, if_unchanged_since=found.instant))


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows that a statement changes.

    Attributes:
        table: their table.
        alias: what the statement calls it.
        where: the condition; None for all rows.
        at: a place of the statement, for errors.
    """

    table: Table
    alias: str
    where: Text | None
    at: int

    @classmethod
    def of(cls, session: Session, statement: Update | Delete) -> _Rows:
        """Return those of a statement; raises as `Session.changeable`."""
        table = session.changeable(statement.table)
        at = (statement.where or statement.table).at
        return cls(table, statement.alias or statement.table.parts[-1], statement.where, at)


def _shared(session: Session, rows: _Rows, schema: pa.Schema) -> str | None:
    """The condition in the language of `where`, TRUE for all rows; None if the engine must compute it."""
    return "TRUE" if rows.where is None else shared_condition(session.host, rows.where.text, rows.alias, schema)


def _check_columns(session: Session, rows: _Rows) -> None:
    """See that a condition that pudi can read names columns of the table; engines don't say where they miss one."""
    where = rows.where
    if where is None or is_read_differently(where.text):
        return
    try:
        expr = parse(where.text)
    except (NotSupportedError, InvalidArgumentError):
        return
    with session.at(where):
        for column in leaf_columns(expr):
            if len(column.path) == 1:
                find_column(column.path, with_meta_fields(rows.table.schema))


def _column(session: Session, table: Table, name: str, value: Text, alias: str) -> str:
    """The column that SET names, as the table spells it."""
    first, dot, rest = name.partition(".")
    plain = rest if dot and name not in table.schema.names and first.lower() == alias.lower() else name
    known = named(table.schema.names, plain)
    exact = str(session.host.settings.get("spark.sql.caseSensitive")).lower() == "true"
    whole = named(table.schema.names, plain.partition(".")[0])
    if known is None and whole is not None and "." in plain:
        raise wrong(
            session.text,
            value.at,
            f"{plain} is a field of column {whole}: SET gives whole columns, {whole} = named_struct(…)",
        )
    if known is None or (exact and known != plain):
        raise wrong(session.text, value.at, f"the table has no column {name}; it has {', '.join(table.schema.names)}")
    return known


_TARGET = "__changed"
"""The name by which a query finds the table that a statement changes, at one instant."""


@dataclass(frozen=True, slots=True)
class _Computed:
    """Rows that the engine has computed.

    Attributes:
        rows: the rows, with the table's names and types; a DataFrame on Spark.
        instant: the instant that the table was read at, for `if_unchanged_since`.
    """

    rows: Any
    instant: str


def _compute(session: Session, rows: _Rows, fields: Sequence[pa.Field], values: Mapping[str, Text]) -> _Computed:
    """Let the engine find the rows of a table that match a condition, and compute new values of their columns.

    Files that can't match aren't read, as in a query.

    Args:
        session: the statement's.
        rows: the rows.
        fields: the columns of the rows that come back.
        values: expressions by column; a column without one keeps its value.

    Raises:
        InvalidArgumentError: the engine refuses an expression, or a value doesn't fit its column.
    """
    table, alias, where, kept = rows.table, rows.alias, rows.where, None
    if where is not None:  # the engine has subqueries
        kept = shared_parts(session.host, parts_of(where.text), alias, with_meta_fields(table.schema))
    scan = table.scan(session.shown(table), kept)
    chosen = ", ".join(
        f"{values[each.name].text if each.name in values else quote(each.name)} AS {quote(each.name)}"
        for each in fields
    )
    condition = "" if where is None else f" WHERE {where.text}"
    query = Text(f"SELECT {chosen} FROM {_TARGET} AS {quote(alias)}{condition}", rows.at)
    with session.at(rows.at):
        frame = session.query(query, {_TARGET: scan})
        return _Computed(session.host.fitted(frame, fields, casts=bool(values)), scan.instant)


def _stored_key(table: Table) -> list[pa.Field]:
    """The column that says which record a row is, where the table generates its keys."""
    return [] if table.config.record_key_fields else [pa.field(RECORD_KEY, pa.string())]
