"""Run one statement on a host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pudi.context.lazy import lazy_module
from pudi.errors import NotSupportedError, TableNotFoundError
from pudi.statement import changes, inserts, shows, tables
from pudi.statement.functions import FUNCTIONS
from pudi.statement.grammar import parse_statement
from pudi.statement.host import DATABASE, Host
from pudi.statement.meaning import has_names_in_double_quotes
from pudi.statement.reader import wrong
from pudi.statement.session import Session
from pudi.statement.settings import reset_option, set_option
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


def _attach(session: Session, statement: Attach) -> Any:
    with session.at(statement.at):
        if statement.address is None:
            session.attached.detach(statement.name)
        else:
            session.attached.attach(statement.name, statement.address)
    return tables.done(session)


def _refresh(session: Session, statement: Refresh) -> Any:
    with session.at(statement.table):
        if session.find(statement.table) is None:
            return session.host.query(Text(session.text, 0), [], [])
    return tables.done(session)


def _foreign(session: Session, statement: Foreign) -> Any:
    with session.at(statement.table):
        table = session.find(statement.table)
        if table is not None:
            raise NotSupportedError(
                f"{statement.what} isn't there for Hudi tables; use {statement.instead}", table=table.path
            )
    return session.host.query(Text(session.text, 0), [], [])


def _create_view(session: Session, statement: CreateView) -> Any:
    spark = session.host.spark
    if spark is None:
        raise NotSupportedError(
            f"SQL: {statement.name}: views aren't kept on this machine; give the query's result by name: "
            f"pudi.sql(text, {statement.name}=pudi.sql('SELECT …'))"
        )
    frame = session.query(statement.query)
    if statement.columns:
        names = session.host.columns(frame)
        if len(names) != len(statement.columns):
            raise wrong(
                session.text,
                statement.query.at,
                f"the view has {len(statement.columns)} columns, the query {len(names)}",
            )
        frame = frame.toDF(*statement.columns)
    scope = "GlobalTempView" if statement.is_global else "TempView"
    getattr(frame, f"{'createOrReplace' if statement.replaces else 'create'}{scope}")(statement.name)
    if statement.cached:
        spark.catalog.cacheTable(statement.name)
    return tables.done(session)


def _use(session: Session, statement: Use) -> Any:
    if session.host.spark is not None:
        return session.host.query(Text(session.text, 0), [], [])
    if statement.database is not None:  # on this machine a database is a part of names
        session.host.settings.set(DATABASE, statement.database.lower())
    return tables.done(session)


def _call(session: Session, statement: Call) -> Any:
    return procedures.call(session, statement)


_RUN: Mapping[type[Statement], Callable[[Session, Any], Any]] = {
    Query: _query,
    SetOption: set_option,
    ResetOption: reset_option,
    Attach: _attach,
    Call: _call,
    Refresh: _refresh,
    Use: _use,
    Foreign: _foreign,
    CreateView: _create_view,
    CreateTable: tables.create_table,
    DropTable: tables.drop_table,
    Truncate: tables.truncate,
    Alter: tables.alter,
    CreateIndex: tables.create_index,
    DropIndex: tables.drop_index,
    Show: shows.show,
    Insert: inserts.insert,
    Update: changes.update,
    Delete: changes.delete,
    Merge: changes.merge,
}
