"""Procedures about the audit files of the storage-based lock: switch them on, look at them, delete old ones.

Source: SetAuditLockProcedure, ShowAuditLockStatusProcedure, ValidateAuditLockProcedure, CleanupAuditLockProcedure.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from posixpath import basename
from typing import Any

from pudi.client import MetaClient
from pudi.context import FileInfo, Storage
from pudi.errors import InvalidArgumentError, PudiError
from pudi.format import LOCK_AUDIT_DIR, LOCK_AUDIT_SWITCH, MaxBytes
from pudi.locks.storage_lock import AuditState, is_audit_enabled, set_audit
from pudi.statement.procedures.procedure import PATH, TABLE, Arguments, Parameter, Procedure, Rows
from pudi.storage import delete_for_good
from pudi.table.base import client_of


def _name(arguments: Arguments) -> str:
    return arguments.text("table") or arguments.text("path")


def _set(arguments: Arguments) -> Rows:
    state = arguments.text("state").lower()
    if state not in {"enabled", "disabled"}:
        raise InvalidArgumentError("state is 'enabled' or 'disabled'")
    set_audit(client_of(arguments.table).storage, enabled=state == "enabled")
    return [(_name(arguments), state, f"Lock audit logging successfully {state}")]


def _show(arguments: Arguments) -> Rows:
    storage = client_of(arguments.table).storage
    switch, folder = f"{storage.root}/{LOCK_AUDIT_SWITCH}", f"{storage.root}/{LOCK_AUDIT_DIR}"
    return [(_name(arguments), is_audit_enabled(storage), switch, folder)]


def _validate(arguments: Arguments) -> Rows:
    found = _check(client_of(arguments.table).storage)
    return [(_name(arguments), found.result, found.holders, found.issues, found.details)]


def _clean_up(arguments: Arguments) -> Rows:
    days, dry_run = arguments.number("age_days"), arguments.true("dry_run")
    count = _delete_older(client_of(arguments.table), days, dry_run=dry_run)
    said = f"Dry run: Would delete {count}" if dry_run else f"Successfully deleted {count}"
    message = f"{said} audit files older than {days} days" if count else f"No audit files older than {days} days found"
    return [(_name(arguments), count, dry_run, days, message)]


_SUFFIX = ".jsonl"
_DAY_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class _Findings:
    """Findings in audit files.

    Attributes:
        result: PASSED, WARNING or FAILED.
        holders: the number of files that could be read.
        issues: the number of problems.
        details: the problems as text.
    """

    result: str
    holders: int
    issues: int
    details: str


@dataclass(frozen=True, slots=True)
class _Window:
    name: str
    start_ms: int
    end_ms: int | None
    until_ms: int

    def overlaps(self, later: _Window) -> bool:
        """Whether one that began later did so before this one was over."""
        return later.start_ms < (self.until_ms if self.end_ms is None else self.end_ms)


def _check(storage: Storage) -> _Findings:
    """Return whether two holders had the lock at once, and which ones never gave it back."""
    infos = _audit_files(storage)
    if not infos:
        return _Findings("PASSED", 0, 0, "No audit files found - nothing to validate")
    read = {basename(info.path): _window(storage, info) for info in infos}
    windows = [found for found in read.values() if found is not None]
    if not windows:
        return _Findings("FAILED", 0, len(infos), "Failed to parse any audit files")
    windows.sort(key=lambda each: each.start_ms)
    errors = [f"[ERROR] Failed to parse audit file: {name}" for name, found in read.items() if found is None]
    errors += [
        f"[ERROR] {each.name} => overlaps with {other.name}"
        for place, each in enumerate(windows)
        for other in takewhile(each.overlaps, windows[place + 1 :])
    ]
    warnings = [
        f"[WARNING] {each.name} => transaction did not end gracefully. This could be due to driver OOM or non-graceful "
        "shutdown."
        for each in windows
        if each.end_ms is None
    ]
    failed = len(infos) - len(windows)
    counts = f"Audit Files: {len(infos)} total, {len(windows)} parsed successfully, {failed} failed to parse"
    if not errors and not warnings:
        said = f"All audit lock transactions validated successfully. {counts}"
        return _Findings("PASSED", len(windows), 0, said)
    issues = [*errors, *warnings]
    said = f"{counts}. {', '.join(issues)}"
    return _Findings("FAILED" if errors else "WARNING", len(windows), len(issues), said)


def _delete_older(meta: MetaClient, age_days: int, *, dry_run: bool) -> int:
    """Delete audit files that were last written longer ago.

    Args:
        meta: the table.
        age_days: how long, in days.
        dry_run: whether to only count them.

    Returns:
        The number of files.

    Raises:
        InvalidArgumentError: `age_days` isn't positive.
    """
    if age_days <= 0:
        raise InvalidArgumentError("age_days must be a positive integer")
    until_ms = meta.context.clock.now_ms() - age_days * _DAY_MS
    old = [info.path for info in _audit_files(meta.storage) if info.modified_ms < until_ms]
    if not dry_run:
        delete_for_good(meta.storage, old)
    return len(old)


def _audit_files(storage: Storage) -> Sequence[FileInfo]:
    infos, _ = storage.list_dir(LOCK_AUDIT_DIR)
    return [info for info in infos if info.path.endswith(_SUFFIX)]


def _window(storage: Storage, info: FileInfo) -> _Window | None:
    """Return when a holder had the lock; None for a file that can't be read."""
    try:
        text = bytes(storage.read(info.path, MaxBytes.NOTE)).decode()
        lines: list[dict[str, Any]] = [json.loads(line) for line in text.split("\n") if line.strip()]
        if not lines:
            return None
        starts = [int(line["timestamp"]) for line in lines if line["state"] == AuditState.START.value]
        ends = [int(line["timestamp"]) for line in lines if line["state"] == AuditState.END.value]
        start_ms = starts[0] if starts else int(lines[0]["transactionStartTime"])
        until_ms = int(lines[-1].get("lockExpiration", start_ms))
    except (PudiError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return _Window(basename(info.path), start_ms, ends[-1] if ends else None, until_ms)


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
