"""Procedures about the audit files of the storage-based lock."""

from __future__ import annotations

from pudi.errors import InvalidArgumentError
from pudi.statement.procedures.procedure import PATH, TABLE, Arguments, Parameter, Procedure, Rows
from pudi.table.lock_audit import check_lock_audit, delete_lock_audit, lock_audit_status, switch_lock_audit


def _name(arguments: Arguments) -> str:
    return arguments.text("table") or arguments.text("path")


def _set(arguments: Arguments) -> Rows:
    state = arguments.text("state").lower()
    if state not in {"enabled", "disabled"}:
        raise InvalidArgumentError("state is 'enabled' or 'disabled'")
    switch_lock_audit(arguments.table, enabled=state == "enabled")
    return [(_name(arguments), state, f"Lock audit logging successfully {state}")]


def _show(arguments: Arguments) -> Rows:
    return [(_name(arguments), *lock_audit_status(arguments.table))]


def _validate(arguments: Arguments) -> Rows:
    found = check_lock_audit(arguments.table)
    return [(_name(arguments), found.result, found.holders, found.issues, found.details)]


def _clean_up(arguments: Arguments) -> Rows:
    days, dry_run = arguments.number("age_days"), arguments.true("dry_run")
    count = delete_lock_audit(arguments.table, days, dry_run=dry_run)
    said = f"Dry run: Would delete {count}" if dry_run else f"Successfully deleted {count}"
    message = f"{said} audit files older than {days} days" if count else f"No audit files older than {days} days found"
    return [(_name(arguments), count, dry_run, days, message)]


_TABLE = ("table", "string")

PROCEDURES = (
    Procedure(
        "set_audit_lock",
        "switch audit files of the storage-based lock on or off",
        (TABLE, PATH, Parameter("state", required=True)),
        (_TABLE, ("audit_state", "string"), ("message", "string")),
        _set,
    ),
    Procedure(
        "show_audit_lock_status",
        "whether audit files of the storage-based lock are written",
        (TABLE, PATH),
        (_TABLE, ("audit_enabled", "boolean"), ("config_path", "string"), ("audit_folder_path", "string")),
        _show,
    ),
    Procedure(
        "validate_audit_lock",
        "whether two writers held the storage-based lock at once",
        (TABLE, PATH),
        (
            _TABLE,
            ("validation_result", "string"),
            ("transactions_validated", "int"),
            ("issues_found", "int"),
            ("details", "string"),
        ),
        _validate,
    ),
    Procedure(
        "cleanup_audit_lock",
        "delete old audit files of the storage-based lock",
        (TABLE, PATH, Parameter("dry_run", "boolean", False), Parameter("age_days", "int", 7)),
        (_TABLE, ("files_cleaned", "int"), ("dry_run", "boolean"), ("age_days", "int"), ("message", "string")),
        _clean_up,
    ),
)
"""The procedures of this module."""
