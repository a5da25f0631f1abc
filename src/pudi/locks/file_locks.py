"""Locks that are files in the table: the operating system's on a local disk, and Hudi's existence lock."""

from __future__ import annotations

import json
import logging
import os
import re
import threading
from abc import abstractmethod
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from pudi.config import LockSettings
from pudi.context import Context, Storage
from pudi.context.runtime import cached_property, lazy_module
from pudi.errors import (
    ConflictError,
    InvalidArgumentError,
    NotFoundError,
    NotSupportedError,
    PudiError,
    TableExistsError,
    UnavailableError,
)
from pudi.format import HOODIE_DIR, LOCKS_DIR, MaxBytes
from pudi.locks.table_lock import TableLock
from pudi.storage import canonical_root, local_path, system_error

if TYPE_CHECKING:
    import filelock
else:
    filelock = lazy_module("filelock")

_log = logging.getLogger(__name__)

LOCAL_LOCK = f"{LOCKS_DIR}/pudi.lock"
"""File that `LocalFileLock` locks. Releasing keeps it: deleting it would let two waiters lock two different files."""

_LOCATION = re.compile("/|[A-Za-z][A-Za-z0-9+.-]+:")
"""Beginning of a path that isn't relative to the table's root."""


class MachineLock(TableLock):
    """Base of locks that are taken behind the operating system's file lock, where the table is on a local disk.

    The file lock excludes the processes of this machine, and is free when its holder dies.

    Args:
        storage: the table's files.
        settings: how long to wait.
        context: the clock.
    """

    def __init__(self, storage: Storage, settings: LockSettings, context: Context) -> None:
        super().__init__(storage, settings, context)
        name = local_path(storage, LOCAL_LOCK)
        self._file = None if name is None else Path(name)

    @cached_property
    def _file_lock(self) -> filelock.FileLock:  # a read never locks, so it needn't load filelock
        assert self._file is not None
        return filelock.FileLock(self._file, thread_local=False)

    @abstractmethod
    def _take(self, deadline: float) -> None:
        """Take the lock behind the file lock, which is held; errors as of `_acquire`."""

    @abstractmethod
    def _give_back(self) -> None:
        """Give it back. What fails here is logged, not raised."""

    def _acquire(self, deadline: float) -> None:
        if self._file is not None:
            self._lock_file(self._file, deadline)
        try:
            self._take(deadline)
        except BaseException:
            self._unlock_file()
            raise

    def _lock_file(self, file: Path, deadline: float) -> None:
        """Lock the file.

        Raises:
            RefusedError: this user may not write there, or the disk is full.
            UnavailableError: the file is locked by another process, or can't be locked for another reason.
        """
        clock = self._context.clock
        while True:
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                self._file_lock.acquire(blocking=False)
            except filelock.Timeout:
                left = deadline - clock.monotonic()
                if left <= 0:
                    raise self._not_free("another process on this machine") from None
                clock.sleep(min(left, self._settings.poll_s(0.01)))
            except OSError as error:
                why = "the lock file can't be locked"
                raise system_error(error, why, table=self._storage.root, path=LOCAL_LOCK) from error
            else:
                return

    def _unlock_file(self) -> None:
        if self._file is not None:
            self._file_lock.release()

    def _release(self) -> None:
        try:
            self._give_back()
        finally:
            self._unlock_file()


class LocalFileLock(MachineLock):
    """A lock among all processes on this machine, held by the operating system: it's free when its holder dies.

    Hudi's InProcessLockProvider stands for it on a local disk: every writer of pudi takes this lock there.

    Args:
        storage: the table's files, on a local disk.
        settings: how long to wait.
        context: the clock.

    Raises:
        NotSupportedError: the table isn't on a local disk.
    """

    def __init__(self, storage: Storage, settings: LockSettings, context: Context) -> None:
        super().__init__(storage, settings, context)
        if self._file is None:
            raise NotSupportedError(
                "the operating system's file lock works on local disks only; choose StorageBasedLockProvider",
                table=storage.root,
            )

    def _take(self, deadline: float) -> None:
        return

    def _give_back(self) -> None:
        return


class FileSystemLock(MachineLock):
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
        super().__init__(storage, settings, context)
        self._path = f"{self._lock_folder(settings.lock_folder)}/lock"
        self._note = b""

    def verify(self) -> None:
        """Read the lock file.

        Raises:
            ConflictError: it's gone, or another's.
        """
        if self._content() != self._note:
            raise ConflictError(
                f"the table's lock was lost: it expired while it was held ({LockSettings.expire_minutes})",
                table=self._table,
                path=self._path,
            )

    def _take(self, deadline: float) -> None:
        try:
            self._create(deadline)
        except BaseException:
            self._remove(was_held=False)
            raise

    def _create(self, deadline: float) -> None:
        """Make the lock file, or wait until it can be made."""
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

    def _give_back(self) -> None:
        self._remove(was_held=True)

    def _remove(self, *, was_held: bool) -> None:
        """Remove the lock file, unless it's another's by now."""
        try:
            if self._content() == self._note:
                self._storage.delete([self._path])
            elif was_held:
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
            return self._storage.read(self._path, MaxBytes.NOTE)
        except NotFoundError:
            return b""

    def _new_note(self) -> bytes:
        """Content in the form of Hudi's LockInfo, which nothing but people reads; the id makes it this holder's."""
        made = datetime.fromtimestamp(self._context.clock.now_ms() / 1000, timezone.utc)
        holder = f"{threading.current_thread().name} (pudi, process {os.getpid()}, {self._context.writer_id()})"
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
        if _LOCATION.match(wanted) is None:
            return wanted.rstrip("/")
        with suppress(NotSupportedError, InvalidArgumentError):
            whole = canonical_root(wanted)
            if whole.startswith(f"{self._table}/"):
                return whole[len(self._table) + 1 :]
        raise NotSupportedError(
            f"{LockSettings.filesystem_path}={wanted} lies outside the table; give a folder in it",
            table=self._storage.root,
        )


def _text(content: bytes) -> str:
    return content[:400].decode("utf-8", "replace") or "an unnamed writer"
