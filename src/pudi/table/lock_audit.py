"""Look at the audit files of a table's storage-based lock, and delete old ones.

Source: SetAuditLockProcedure, ShowAuditLockStatusProcedure, ValidateAuditLockProcedure, CleanupAuditLockProcedure.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from posixpath import basename
from typing import Any

from pudi.context import FileInfo
from pudi.errors import InvalidArgumentError, PudiError
from pudi.format import LOCK_AUDIT_DIR, LOCK_AUDIT_SWITCH, MaxBytes
from pudi.locks.storage_lock import AuditState, is_audit_enabled, set_audit
from pudi.storage import delete_for_good
from pudi.table.table import Table

_SUFFIX = ".jsonl"
_DAY_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class AuditFindings:
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


def switch_lock_audit(table: Table, *, enabled: bool) -> None:
    """Have writers with the storage-based lock write audit files, or not; those that are opened later do so."""
    set_audit(table._meta.storage, enabled=enabled)


def lock_audit_status(table: Table) -> tuple[bool, str, str]:
    """Return whether writers write audit files, the path of the switch, and that of their folder."""
    storage = table._meta.storage
    return is_audit_enabled(storage), f"{storage.root}/{LOCK_AUDIT_SWITCH}", f"{storage.root}/{LOCK_AUDIT_DIR}"


def check_lock_audit(table: Table) -> AuditFindings:
    """Return whether two holders had the lock at once, and which ones never gave it back."""
    infos = _audit_files(table)
    if not infos:
        return AuditFindings("PASSED", 0, 0, "No audit files found - nothing to validate")
    read = {basename(info.path): _window(table, info) for info in infos}
    windows = [found for found in read.values() if found is not None]
    if not windows:
        return AuditFindings("FAILED", 0, len(infos), "Failed to parse any audit files")
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
        return AuditFindings("PASSED", len(windows), 0, said)
    issues = [*errors, *warnings]
    said = f"{counts}. {', '.join(issues)}"
    return AuditFindings("FAILED" if errors else "WARNING", len(windows), len(issues), said)


def delete_lock_audit(table: Table, age_days: int, *, dry_run: bool) -> int:
    """Delete audit files that were last written longer ago.

    Args:
        table: the table.
        age_days: how long, in days.
        dry_run: whether to only count them.

    Returns:
        The number of files.

    Raises:
        InvalidArgumentError: `age_days` isn't positive.
    """
    if age_days <= 0:
        raise InvalidArgumentError("age_days must be a positive integer")
    until_ms = table._meta.context.clock.now_ms() - age_days * _DAY_MS
    old = [info.path for info in _audit_files(table) if info.modified_ms < until_ms]
    if not dry_run:
        delete_for_good(table._meta.storage, old)
    return len(old)


def _audit_files(table: Table) -> Sequence[FileInfo]:
    infos, _ = table._meta.storage.list_dir(LOCK_AUDIT_DIR)
    return [info for info in infos if info.path.endswith(_SUFFIX)]


def _window(table: Table, info: FileInfo) -> _Window | None:
    """Return when a holder had the lock; None for a file that can't be read."""
    try:
        text = bytes(table._meta.storage.read(info.path, MaxBytes.NOTE)).decode()
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
