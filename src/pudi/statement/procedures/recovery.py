"""Procedures that make savepoints and take changes back."""

from __future__ import annotations

from pudi.config import names_in
from pudi.statement.procedures.procedure import PATH, TABLE, THE_TABLE, Arguments, Parameter, Procedure, Rows

_INSTANT = Parameter("instant_time", default="")


def _create_savepoint(arguments: Arguments) -> Rows:
    table, instant = arguments.table, arguments.text("commit_time") or None
    if instant in {each.instant for each in table.savepoints()}:
        return [(False,)]
    table.savepoint(instant, user=arguments.text("user"), comment=arguments.text("comments"))
    return [(True,)]


def _newest(arguments: Arguments) -> str:
    """The savepoint that is named, or the newest one."""
    named = arguments.text("instant_time")
    known = sorted(each.instant for each in arguments.table.savepoints())
    return named or (known[-1] if known else "")


def _delete_savepoint(arguments: Arguments) -> Rows:
    table, wanted = arguments.table, list(names_in(_newest(arguments)))
    known = {each.instant for each in table.savepoints()}
    for instant in sorted(wanted, key=known.__contains__) or [
        ""
    ]:  # one that isn't there is an error before any is gone
        table.delete_savepoint(instant)
    return [(True,)]


def _show_savepoints(arguments: Arguments) -> Rows:
    return [(instant,) for instant in sorted((each.instant for each in arguments.table.savepoints()), reverse=True)]


def _rollback_to_savepoint(arguments: Arguments) -> Rows:
    instant = _newest(arguments)
    if instant not in {each.instant for each in arguments.table.savepoints()}:
        arguments.table.delete_savepoint(instant)  # raises: there is none
    arguments.table.restore(instant, spark=arguments.spark)
    return [(True,)]


def _rollback_to_instant(arguments: Arguments) -> Rows:
    arguments.table.rollback(arguments.text("instant_time"), spark=arguments.spark)
    return [(True,)]


PROCEDURES = (
    Procedure(
        "create_savepoint",
        "Table.savepoint",
        (
            TABLE,
            Parameter("commit_time", default=""),
            Parameter("user", default=""),
            Parameter("comments", default="", also="comment"),
            PATH,
        ),
        (("create_savepoint_result", "boolean"),),
        _create_savepoint,
    ),
    Procedure(
        "delete_savepoint",
        "Table.delete_savepoint",
        (TABLE, _INSTANT, PATH),
        (("delete_savepoint_result", "boolean"),),
        _delete_savepoint,
    ),
    Procedure("show_savepoints", "Table.savepoints", (TABLE, PATH), (("savepoint_time", "string"),), _show_savepoints),
    Procedure(
        "rollback_to_savepoint",
        "Table.restore",
        (TABLE, _INSTANT, PATH),
        (("rollback_savepoint_result", "boolean"),),
        _rollback_to_savepoint,
    ),
    Procedure(
        "rollback_to_instant",
        "Table.rollback",
        (THE_TABLE, Parameter("instant_time", required=True)),
        (("rollback_result", "boolean"),),
        _rollback_to_instant,
    ),
)
"""The procedures of this module."""
