"""Rows of a table that the engine computes for a change: expressions mean what they mean in a SELECT.

Whatever `pudi.statement.meaning` can't promise goes this way: a change is then a query over the table as of an instant,
with the session's settings, and an upsert or delete that is refused if the table has changed since.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pudi.schema import RECORD_KEY, with_meta_fields
from pudi.schema.spark_types import quote
from pudi.statement.meaning import parts_of, shared_parts
from pudi.statement.session import Session
from pudi.statement.tree import Text
from pudi.table import Table

TARGET = "__changed"
"""The name by which a query finds the table that a statement changes, at one instant."""


@dataclass(frozen=True, slots=True)
class Computed:
    """Rows that the engine has computed.

    Attributes:
        rows: the rows, with the table's names and types; a DataFrame on Spark.
        instant: the instant that the table was read at, for `if_unchanged_since`.
    """

    rows: Any
    instant: str


def compute(
    session: Session,
    table: Table,
    alias: str,
    fields: Sequence[pa.Field],
    values: Mapping[str, Text],
    where: Text | None,
    at: int,
) -> Computed:
    """Let the engine find the rows of a table that match a condition, and compute new values of their columns.

    Files that can't match aren't read, as in a query.

    Args:
        session: the statement's.
        table: the table.
        alias: what the statement calls it.
        fields: the columns of the rows that come back.
        values: expressions by column; a column without one keeps its value.
        where: the condition, with subqueries if the engine has them; None for all rows.
        at: a place of the statement, for errors.

    Raises:
        InvalidArgumentError: the engine refuses an expression, or a value doesn't fit its column.
    """
    kept = (
        None
        if where is None
        else shared_parts(session.host, parts_of(where.text), alias, with_meta_fields(table.schema))
    )
    scan = table.scan(session.shown(table), kept)
    chosen = ", ".join(
        f"{values[each.name].text if each.name in values else quote(each.name)} AS {quote(each.name)}"
        for each in fields
    )
    condition = "" if where is None else f" WHERE {where.text}"
    with session.at(at):
        rows = session.query(Text(f"SELECT {chosen} FROM {TARGET} AS {quote(alias)}{condition}", at), {TARGET: scan})
        return Computed(session.host.fitted(rows, fields, casts=bool(values)), scan.instant)


def stored_key(table: Table) -> list[pa.Field]:
    """The column that says which record a row is, where the table generates its keys."""
    return [] if table.config.record_key_fields else [pa.field(RECORD_KEY, pa.string())]
