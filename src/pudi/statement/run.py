"""Run one statement on a host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pudi.context.runtime import lazy_module
from pudi.errors import NotSupportedError, TableNotFoundError
from pudi.statement.execute import alter_drop, create, dml, merge_into, settings, show
from pudi.statement.host import Host
from pudi.statement.parse.statement import parse_statement
from pudi.statement.session import Session
from pudi.statement.shared_meaning import has_names_in_double_quotes
from pudi.statement.table_functions import FUNCTIONS
from pudi.statement.tree import (
    Alter,
    Attach,
    Call,
    CreateIndex,
    CreateTable,
    CreateView,
    Delete,
    DropIndex,
    DropTable,
    Foreign,
    Insert,
    Merge,
    Query,
    Refresh,
    ResetOption,
    SetOption,
    Show,
    Statement,
    TableName,
    Text,
    Truncate,
    Update,
    Use,
)

if TYPE_CHECKING:
    from pudi.statement.procedures import call as procedures
else:
    procedures = lazy_module("pudi.statement.procedures.call")


def run(host: Host, text: str) -> Any:
    """Run a statement of Hudi's Spark SQL.

    Args:
        host: the engine.
        text: the statement.

    Returns:
        Rows, as the engine has them: of a query its result; of a change one row that says what was done, or none.

    Raises:
        InvalidArgumentError: it's no statement; the message names line and column.
        NotSupportedError: it's beyond what pudi runs; the message names it.
        TableNotFoundError: there's no such table.
    """
    statement = parse_statement(text, names_in_double_quotes=has_names_in_double_quotes(host))
    session = Session(host, text, FUNCTIONS)
    try:
        return _RUN[type(statement)](session, statement)
    except TableNotFoundError:
        if not _is_of_engine(session, statement):
            raise
    return session.query(Text(text, 0))


def _is_of_engine(session: Session, statement: Statement) -> bool:
    """Return whether a statement is about a table that the engine keeps, of another format."""
    name = getattr(statement, "table", None)
    if not isinstance(name, TableName) or name.path is not None:
        return False
    return session.find(name) is None and session.host.keeps(name)


def _query(session: Session, statement: Query) -> Any:
    return session.query(statement.text)


def _foreign(session: Session, statement: Foreign) -> Any:
    with session.at(statement.table):
        table = session.find(statement.table)
        if table is not None:
            raise NotSupportedError(
                f"{statement.what} isn't there for Hudi tables; use {statement.instead}", table=table.path
            )
    return session.by_engine()


def _call(session: Session, statement: Call) -> Any:
    return procedures.call(session, statement)


_RUN: Mapping[type[Statement], Callable[[Session, Any], Any]] = {
    Query: _query,
    Insert: dml.insert,
    Update: dml.update,
    Delete: dml.delete,
    Merge: merge_into.merge,
    CreateTable: create.create_table,
    CreateView: create.create_view,
    CreateIndex: create.create_index,
    Alter: alter_drop.alter,
    Truncate: alter_drop.truncate,
    DropTable: alter_drop.drop_table,
    DropIndex: alter_drop.drop_index,
    Show: show.show,
    Call: _call,
    SetOption: settings.set_option,
    ResetOption: settings.reset_option,
    Use: settings.use,
    Attach: settings.attach,
    Refresh: settings.refresh,
    Foreign: _foreign,
}
