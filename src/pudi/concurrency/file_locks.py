"""Locks that are files in the table: the operating system's on a local disk, and Hudi's existence lock."""

from __future__ import annotations

import json
import logging
import os
import threading
from datetime import datetime, timezone
from pathlib import Path

from filelock import FileLock, Timeout

from pudi.concurrency.lock_settings import LockSettings
from pudi.concurrency.table_lock import TableLock
from pudi.context import Context, Storage
from pudi.errors import ConflictError, NotFoundError, NotSupportedError, PudiError, TableExistsError, UnavailableError
from pudi.format import HOODIE_DIR, LOCKS_DIR
from pudi.storage import canonical_root, local_path

_log = logging.getLogger(__name__)

LOCAL_LOCK = f"{LOCKS_DIR}/pudi.lock"
"""File that `LocalFileLock` locks. It stays when the lock is free: removing it would split those who wait."""


class LocalFileLock(TableLock):
    """A lock among all processes on this machine, held by the operating system: it's free when its holder dies.

    Args:
        storage: the table's files, on a local disk.
        settings: how long to wait.
        context: the clock.

    Raises:
        NotSupportedError: the table isn't on a local disk.
    """

    def __init__(self, storage: Storage, settings: LockSettings, context: Context) -> None:
        super().__init__(canonical_root(storage.root), settings, context)
        name = local_path(storage, LOCAL_LOCK)
        if name is None:
            raise NotSupportedError(
                "the operating system's file lock works on local disks only; choose StorageBasedLockProvider",
                table=storage.root,
            )
        self._file = Path(name)
        self._lock = FileLock(name, thread_local=False)

    def _acquire(self, deadline: float) -> None:
        left = max(0.0, deadline - self._context.clock.monotonic())
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=left, poll_interval=self._settings.poll_s(0.01))
        except Timeout as error:
            raise self._not_free("another process on this machine") from error
        except OSError as error:
            raise UnavailableError(f"the lock file can't be locked: {error}", table=self._table) from error

    def _release(self) -> None:
        self._lock.release()


class FileSystemLock(TableLock):
    """A lock that is held while its file exists (Hudi's FileSystemBasedLockProvider).

    It's shared with writers of Hudi that use that provider. When a holder dies the file stays; with an expiry set, it's
    removed once it's older than that. As in Hudi, a holder that takes longer loses the lock, and two that find
    an expired file at one instant may remove each other's: choose an expiry far longer than a commit.

    Args:
        storage: the table's files.
        settings: how long to wait, expiry, the lock file's folder.
        context: clock and ids.
    """

    def __init__(self, storage: Storage, settings: LockSettings, context: Context) -> None:
        super().__init__(canonical_root(storage.root), settings, context)
        self._storage = storage
        self._path = f"{self._lock_folder(settings.lock_folder)}/lock"
        self._note = b""

    def verify(self) -> None:
        """Read the lock file.

        Raises:
            ConflictError: it's gone, or another's.
        """
        if self._content() != self._note:
            raise ConflictError(
                "the table's lock was lost: it expired while it was held (hoodie.write.lock.filesystem.expire)",
                table=self._table,
                path=self._path,
            )

    def _acquire(self, deadline: float) -> None:
        self._note = self._new_note()
        while True:
            try:
                return self._storage.create(self._path, self._note)
            except UnavailableError:
                if self._content() != self._note:
                    raise
                return None  # made, though the answer was lost
            except TableExistsError:
                if not self._removed_expired():
                    self._wait(deadline, 0.05, f"who made {self._path}: {_text(self._content())}")

    def _release(self) -> None:
        try:
            if self._content() == self._note:
                return self._storage.delete([self._path])
            _log.warning("%s: the lock %s expired while it was held", self._table, self._path)
        except PudiError as error:
            _log.warning("%s: the lock %s couldn't be released, remove it: %s", self._table, self._path, error)

    def _removed_expired(self) -> bool:
        if not self._settings.expire_minutes:
            return False
        try:
            age = self._context.clock.now_ms() - self._storage.head(self._path).modified_ms
        except NotFoundError:
            return True
        if age <= self._settings.expire_minutes * 60_000:
            return False
        _log.warning("%s: the lock %s is %d s old and expired: removed", self._table, self._path, age // 1000)
        self._storage.delete([self._path])
        return True

    def _content(self) -> bytes:
        try:
            return self._storage.read(self._path)
        except NotFoundError:
            return b""

    def _new_note(self) -> bytes:
        """Content in the form of Hudi's LockInfo, which nothing but people reads; the id makes it this holder's."""
        made = datetime.fromtimestamp(self._context.clock.now_ms() / 1000, timezone.utc)
        holder = f"{threading.current_thread().name} (pudi, process {os.getpid()}, {Context().new_id()})"
        return json.dumps(
            {
                "lockCreateTime": made.strftime("%Y-%m-%d %H:%M:%S.") + f"{made.microsecond // 1000:03d}",
                "lockThreadName": holder,
                "lockStacksInfo": [],
            }
        ).encode()

    def _lock_folder(self, wanted: str | None) -> str:
        if wanted is None:
            return HOODIE_DIR
        for root in (self._storage.root, self._table):
            if wanted.rstrip("/").startswith(f"{root}/"):
                return wanted.rstrip("/")[len(root) + 1 :]
        if wanted.startswith("/") or "://" in wanted:
            raise NotSupportedError(
                f"hoodie.write.lock.filesystem.path={wanted} lies outside the table; give a folder in it",
                table=self._storage.root,
            )
        return wanted.rstrip("/")


def _text(content: bytes) -> str:
    return content[:400].decode("utf-8", "replace") or "an unnamed writer"
