"""A lock on any store with conditional writes: a small JSON file with the owner and the expiry; and its audit files.

Source: StorageBasedLockProvider, StorageLockProviderAuditService, AuditServiceFactory.
"""

from __future__ import annotations

import json
import logging
import threading
from dataclasses import dataclass, field
from enum import Enum

from pudi.config import LockSettings
from pudi.context import Context, Storage, Timer
from pudi.errors import ConflictError, CorruptError, NotFoundError, NotSupportedError, PudiError, TableExistsError
from pudi.format import LOCK_AUDIT_DIR, LOCK_AUDIT_SWITCH, TABLE_LOCK, MaxBytes
from pudi.locks.table_lock import TableLock
from pudi.storage import replacing

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


@dataclass(slots=True)
class LockAudit:
    """The audit file of one holder, from when it took the lock until it gave it back.

    The file is written again with each line. What can't be written is only logged.

    Args:
        storage: the table's files.
        owner: id of the holder, as in the lock file.
        began_ms: when it took the lock, milliseconds since the epoch.
        validity_ms: how long the lock lasts from each renewal on.
    """

    storage: Storage
    owner: str
    began_ms: int
    validity_ms: int
    _lines: list[str] = field(default_factory=list, init=False)
    _ended: bool = field(default=False, init=False)
    _mutex: threading.Lock = field(default_factory=threading.Lock, init=False)

    def record(self, state: AuditState, at_ms: int, *, held: bool = True) -> None:
        """Add a line.

        Args:
            state: what happened.
            at_ms: when, milliseconds since the epoch.
            held: whether the lock was held then.
        """
        line = {
            "ownerId": self.owner,
            "transactionStartTime": self.began_ms,
            "timestamp": at_ms,
            "state": state.value,
            "lockExpiration": at_ms + self.validity_ms,
            "lockHeld": held,
        }
        with self._mutex:
            if self._ended:  # a renewal that came late
                return
            self._ended = state is AuditState.END
            self._lines.append(json.dumps(line, separators=(",", ":")) + "\n")
            try:
                self.storage.put(f"{LOCK_AUDIT_DIR}/{self.began_ms}_{self.owner}.jsonl", "".join(self._lines).encode())
            except PudiError as error:
                _log.warning("%s: the audit file of the table's lock wasn't written: %s", self.storage.root, error)


STORAGE_LOCK = TABLE_LOCK
"""Path of Hudi's storage-based lock (StorageBasedLockProvider)."""

DRIFT_MS = 500
"""Assumed maximum difference between the clocks of two machines (StorageBasedLockProvider)."""


@dataclass(frozen=True, slots=True)
class StorageLockData:
    """Content of the lock file (StorageLockData, StorageLockFile).

    Attributes:
        expired: whether the holder gave the lock back.
        valid_until_ms: when it runs out unless renewed, milliseconds since the epoch.
        owner: id of the holder.
    """

    expired: bool
    valid_until_ms: int
    owner: str

    def to_bytes(self) -> bytes:
        """The JSON that Hudi writes."""
        fields = {"expired": self.expired, "validUntil": self.valid_until_ms, "owner": self.owner}
        return json.dumps(fields, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes, table: str) -> StorageLockData:
        """Parse the JSON; unknown fields are ignored, as Hudi does.

        Raises:
            CorruptError: a field is missing or of the wrong type.
        """
        try:
            found = json.loads(data)
            expired, until, owner = found["expired"], found["validUntil"], found["owner"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise _corrupt(table, repr(error)) from error
        if not isinstance(expired, bool) or type(until) is not int or not isinstance(owner, str):
            raise _corrupt(table, f"expired={expired!r}, validUntil={until!r}, owner={owner!r}")
        return cls(expired, until, owner)


def _corrupt(table: str, why: str) -> CorruptError:
    return CorruptError(
        f"the lock file is not as Hudi writes it ({why}); remove it once no writer is at work",
        table=table,
        path=STORAGE_LOCK,
    )


class StorageBasedLock(TableLock):
    """The lock of Hudi's StorageBasedLockProvider, shared with writers of Hudi that use it.

    While it's held a timer renews it; when its holder dies it runs out by itself. Where the table's switch is on when
    the lock is first taken, its holder writes an audit file.

    Args:
        storage: the table's files, in a store with conditional writes.
        settings: how long to wait, validity, time between renewals.
        context: clock, ids and timer.

    Raises:
        NotSupportedError: the store has no conditional writes.
    """

    def __init__(self, storage: Storage, settings: LockSettings, context: Context) -> None:
        super().__init__(storage, settings, context)
        store = replacing(storage)
        if store is None:
            raise NotSupportedError(
                "StorageBasedLockProvider needs conditional writes, which local disks don't have; leave the lock "
                "provider out, or choose FileSystemBasedLockProvider",
                table=storage.root,
            )
        self._store = store
        self._owner = context.writer_id()
        self._state = threading.Lock()
        self._held: tuple[StorageLockData, str] | None = None
        self._renewal: Timer | None = None
        self._audits: bool | None = None
        self._audit: LockAudit | None = None

    def verify(self) -> None:
        """Read the lock file: it has no fencing token, so nothing else keeps a writer that was paused from publishing.

        Raises:
            ConflictError: the lock expired, or the file is another's.
        """
        with self._state:
            held = self._held
            if held is not None:
                found = self._read()
                if found.owner != self._owner or found.expired or self._has_expired(found):
                    self._held = held = None
        if held is None:
            raise self._lost()

    def renew(self) -> bool:
        """Prolong the lock; whether it is still held, as far as is known.

        A lock that has expired is lost, even if nobody took it: Hudi's provider revives it, and another writer may
        have seen it free.
        """
        with self._state:
            if self._held is None:
                return False
            fresh = self._fresh()
            try:
                if self._has_expired(self._held[0]):
                    raise self._lost()
                self._held = (fresh, self._swap(fresh, self._held[1]))
            except ConflictError:
                _log.warning(
                    "%s: the table's lock expired, or was taken by another writer, while it was held", self._table
                )
                self._held = None
                return False
            except PudiError as error:
                _log.warning("%s: the table's lock couldn't be renewed, trying on: %s", self._table, error)
                return True
        self._record(AuditState.RENEW, fresh.valid_until_ms - self._validity_ms)
        return True

    def _read(self) -> StorageLockData:
        try:
            content, _ = self._store.read_version(STORAGE_LOCK, MaxBytes.NOTE)
        except NotFoundError:
            raise self._lost() from None
        return StorageLockData.from_bytes(content, self._table)

    def _has_expired(self, data: StorageLockData) -> bool:
        return self._context.clock.now_ms() >= data.valid_until_ms

    def _lost(self) -> ConflictError:
        return ConflictError(
            "the table's lock was lost: it couldn't be renewed in time", table=self._table, path=STORAGE_LOCK
        )

    def _acquire(self, deadline: float) -> None:
        while True:
            holder = self._try()
            if holder is None:
                break
            self._wait(deadline, 0.2, holder)
        try:
            self._renewal = self._context.executor.every(self._settings.renew_s, self.renew, "lock-renewal")
            self._begin_audit()
        except BaseException:  # else it would be renewed for as long as this process lives
            self._release()
            raise

    def _begin_audit(self) -> None:
        if self._audits is None:
            self._audits = is_audit_enabled(self._storage)
        if self._audits and self._held is not None:
            began_ms = self._held[0].valid_until_ms - self._validity_ms
            self._audit = LockAudit(self._storage, self._owner, began_ms, self._validity_ms)
            self._record(AuditState.START, began_ms)

    def _try(self) -> str | None:
        """Try once; return None if the lock is ours, otherwise its owner."""
        try:
            content, version = self._store.read_version(STORAGE_LOCK, MaxBytes.NOTE)
        except NotFoundError:
            return self._try_first()
        found = StorageLockData.from_bytes(content, self._table)
        free = found.expired or found.owner == self._owner  # ours: an attempt whose response was lost
        if not free and self._context.clock.now_ms() <= found.valid_until_ms + DRIFT_MS:
            return f"owner {found.owner}"
        fresh = self._fresh()
        try:
            self._held = (fresh, self._store.replace(STORAGE_LOCK, fresh.to_bytes(), version))
        except ConflictError:
            return "another writer"
        return None

    def _try_first(self) -> str | None:
        fresh = self._fresh()
        try:
            self._storage.create(STORAGE_LOCK, fresh.to_bytes())
            content, version = self._store.read_version(STORAGE_LOCK, MaxBytes.NOTE)
        except (TableExistsError, NotFoundError):
            return "another writer"
        if content != fresh.to_bytes():
            return "another writer"
        self._held = (fresh, version)
        return None

    def _release(self) -> None:
        if self._renewal is not None:
            self._renewal.stop()
            self._renewal = None
        with self._state:
            held, self._held = self._held, None
        if held is None:
            return
        last = StorageLockData(True, held[0].valid_until_ms, self._owner)
        ended_ms = self._context.clock.now_ms()
        try:
            self._swap(last, held[1])
        except PudiError as error:
            _log.warning("%s: the table's lock couldn't be released, it will run out: %s", self._table, error)
            return
        self._record(AuditState.END, ended_ms, held=ended_ms < held[0].valid_until_ms)

    def _swap(self, data: StorageLockData, version: str) -> str:
        """Replace the lock file that is ours; its new version."""
        try:
            return self._store.replace(STORAGE_LOCK, data.to_bytes(), version)
        except ConflictError:
            # An earlier attempt may have been written although no answer came: then the file is newer, and still ours.
            content, newer = self._store.read_version(STORAGE_LOCK, MaxBytes.NOTE)
            found = StorageLockData.from_bytes(content, self._table)
            if found.owner != self._owner or found.expired:
                raise
        return self._store.replace(STORAGE_LOCK, data.to_bytes(), newer)

    def _fresh(self) -> StorageLockData:
        return StorageLockData(False, self._context.clock.now_ms() + self._validity_ms, self._owner)

    @property
    def _validity_ms(self) -> int:
        return self._settings.validity_s * 1000

    def _record(self, state: AuditState, at_ms: int, *, held: bool = True) -> None:
        if self._audit is not None:
            self._audit.record(state, at_ms, held=held)
