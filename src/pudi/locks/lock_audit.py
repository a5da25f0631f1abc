"""Audit files of the storage-based lock: who held it from when to when, as Hudi's writers note it.

Source: StorageLockProviderAuditService, AuditServiceFactory.
"""

from __future__ import annotations

import json
import logging
import threading
from enum import Enum

from pudi.context import Storage
from pudi.errors import NotFoundError, PudiError
from pudi.format import LOCK_AUDIT_DIR, LOCK_AUDIT_SWITCH, MaxBytes

_log = logging.getLogger(__name__)

_ENABLED = "STORAGE_LOCK_AUDIT_SERVICE_ENABLED"


class AuditState(Enum):
    """Event in a lock's audit file (AuditOperationState)."""

    START = "START"
    RENEW = "RENEW"
    END = "END"


def is_audit_enabled(storage: Storage) -> bool:
    """Return whether holders of the lock write audit files. A switch that can't be read is off, as in Hudi."""
    try:
        found = json.loads(storage.read(LOCK_AUDIT_SWITCH, MaxBytes.NOTE))
        return isinstance(found, dict) and found.get(_ENABLED) in {True, "true"}
    except NotFoundError:
        return False
    except (PudiError, ValueError, RecursionError, TypeError) as error:
        _log.warning("%s: %s can't be read, the lock isn't audited: %s", storage.root, LOCK_AUDIT_SWITCH, error)
        return False


def set_audit(storage: Storage, *, enabled: bool) -> None:
    """Switch audit files on or off for all writers of a table, pudi's and Hudi's."""
    storage.put(LOCK_AUDIT_SWITCH, json.dumps({_ENABLED: enabled}, separators=(",", ":")).encode())


class LockAudit:
    """The audit file of one holder, from when it took the lock until it gave it back.

    The file is written again with each line. What can't be written is only logged.

    Args:
        storage: the table's files.
        owner: id of the holder, as in the lock file.
        began_ms: when it took the lock, milliseconds since the epoch.
        validity_ms: how long the lock lasts from each renewal on.
    """

    def __init__(self, storage: Storage, owner: str, began_ms: int, validity_ms: int) -> None:
        self._storage = storage
        self._owner = owner
        self._began_ms = began_ms
        self._validity_ms = validity_ms
        self._lines: list[str] = []
        self._ended = False
        self._mutex = threading.Lock()

    def record(self, state: AuditState, at_ms: int, *, held: bool = True) -> None:
        """Add a line.

        Args:
            state: what happened.
            at_ms: when, milliseconds since the epoch.
            held: whether the lock was held then.
        """
        line = {
            "ownerId": self._owner,
            "transactionStartTime": self._began_ms,
            "timestamp": at_ms,
            "state": state.value,
            "lockExpiration": at_ms + self._validity_ms,
            "lockHeld": held,
        }
        with self._mutex:
            if self._ended:  # a renewal that came late
                return
            self._ended = state is AuditState.END
            self._lines.append(json.dumps(line, separators=(",", ":")) + "\n")
            try:
                self._storage.put(
                    f"{LOCK_AUDIT_DIR}/{self._began_ms}_{self._owner}.jsonl", "".join(self._lines).encode()
                )
            except PudiError as error:
                _log.warning("%s: the audit file of the table's lock wasn't written: %s", self._storage.root, error)
