"""UPDATE, DELETE and MERGE INTO, by the verbs of a table.

What may mean something else in the language of `where` than in the session, the engine computes.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from pudi.client import CommitResult
from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.expr import leaf_columns, parse
from pudi.expr.tree import find_column
from pudi.schema import with_meta_fields
from pudi.statement.computed import compute, stored_key
from pudi.statement.host import Rows
from pudi.statement.meaning import is_read_differently, shared_condition, shared_value
from pudi.statement.merges import merge_into
from pudi.statement.reader import wrong
from pudi.statement.session import Session, named
from pudi.statement.tree import Delete, Merge, Text, Update
from pudi.table import Table

RESULT = (
    ("instant", "string"),
    ("operation", "string"),
    ("records_inserted", "bigint"),
    ("records_updated", "bigint"),
    ("records_deleted", "bigint"),
)
"""The columns of what a change returns."""


def changed(session: Session, result: CommitResult | None) -> Any:
    """The result of a change as rows: one, or none where nothing was to be done."""
    rows = []
    if result is not None:
        rows.append((result.instant, result.operation, *_counts(result)))
    return session.host.result(Rows.table(RESULT, rows))


def _counts(result: CommitResult) -> tuple[int, int, int]:
    return result.records_inserted, result.records_updated, result.records_deleted


def update(session: Session, statement: Update) -> Any:
    """Run UPDATE."""
    table = session.changeable(statement.table)
    alias = statement.alias or statement.table.parts[-1]
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
    where = _shared(session, statement.where, alias, schema)
    at = (statement.where or statement.table).at
    if where is not None and all(value is not None for value in shared.values()):
        with session.at(at):
            condition = None if statement.where is None else where
            return changed(session, table.update(shared, condition, spark=session.host.spark))
    _check_columns(session, table, statement.where)
    fields = [*stored_key(table), *table.schema]
    found = compute(session, table, alias, fields, values, statement.where, at)
    return changed(session, table.upsert(found.rows, if_unchanged_since=found.instant))


def delete(session: Session, statement: Delete) -> Any:
    """Run DELETE FROM; without a condition it deletes all records."""
    table = session.changeable(statement.table)
    alias = statement.alias or statement.table.parts[-1]
    at = (statement.where or statement.table).at
    where = _shared(session, statement.where, alias, with_meta_fields(table.schema))
    if where is not None:
        with session.at(at):
            return changed(session, table.delete(where=where, spark=session.host.spark))
    _check_columns(session, table, statement.where)
    names = dict.fromkeys((*table.config.record_key_fields, *table.config.partition_fields))
    fields = [*stored_key(table), *(table.schema.field(name) for name in names)]
    found = compute(session, table, alias, fields, {}, statement.where, at)
    return changed(session, table.delete(found.rows, if_unchanged_since=found.instant))


def _shared(session: Session, where: Text | None, alias: str, schema: pa.Schema) -> str | None:
    """The condition in the language of `where`, TRUE for all rows; None if the engine must compute it."""
    return "TRUE" if where is None else shared_condition(session.host, where.text, alias, schema)


def _check_columns(session: Session, table: Table, where: Text | None) -> None:
    """See that a condition that pudi can read names columns of the table; engines don't say where they miss one."""
    if where is None or is_read_differently(where.text):
        return
    try:
        expr = parse(where.text)
    except (NotSupportedError, InvalidArgumentError):
        return
    with session.at(where):
        for column in leaf_columns(expr):
            if len(column.path) == 1:
                find_column(column.path, with_meta_fields(table.schema))


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


def merge(session: Session, statement: Merge) -> Any:
    """Run MERGE INTO."""
    return changed(session, merge_into(session, statement, session.changeable(statement.table)))
