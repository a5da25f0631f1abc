"""Base of all locks: one holding thread of this process, reentrant, with a bounded wait."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from weakref import WeakValueDictionary

from pudi.config import LockSettings
from pudi.context import Context, Storage
from pudi.errors import ConflictError, PudiError, UnavailableError
from pudi.storage import canonical_root

_MOST_OWN = 10_000
"""Instants of this process that are remembered; only those since the beginning of an action are asked for."""


class _Slot:
    """The threads' own lock of one table, shared by all lock objects for it."""

    def __init__(self) -> None:
        self.mutex = threading.RLock()
        self.depth = 0
        self.own: dict[str, None] = {}
        """Instants that this process put on the timeline, oldest first; kept under locks of one process only."""


_slots: WeakValueDictionary[str, _Slot] = WeakValueDictionary()
_guard = threading.Lock()


def _slot(table: str) -> _Slot:
    with _guard:
        found = _slots.get(table)
        if found is None:
            found = _slots[table] = _Slot()
        return found


class TableLock(ABC):
    """A table's lock: first among this process's threads, then, by what subclasses add, among processes.

    Reentrant for the thread that holds it, through any lock object for the same table.

    Args:
        storage: the table's files.
        settings: how long to wait.
        context: the clock.
    """

    def __init__(self, storage: Storage, settings: LockSettings, context: Context) -> None:
        self._storage = storage
        self._table = table = canonical_root(storage.root)
        self._settings = settings
        self._context = context
        self._slot = _slot(table)

    def __enter__(self) -> TableLock:
        """Acquire the lock.

        Raises:
            UnavailableError: it wasn't free in time.
        """
        clock = self._context.clock
        deadline = clock.monotonic() + self._settings.wait_ms / 1000
        if not self._context.executor.acquire(self._slot.mutex, self._settings.wait_ms / 1000):
            raise self._not_free("another thread of this process")
        if self._slot.depth == 0:
            try:
                self._acquire(deadline)
            except BaseException:
                self._slot.mutex.release()
                raise
        self._slot.depth += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the lock, at the outermost exit.

        Raises:
            ConflictError: the block failed after the lock was lost, when others may have been at work beside it.
        """
        self._slot.depth -= 1
        try:
            if isinstance(error, PudiError) and not isinstance(error, ConflictError):
                self._explain(error)
        finally:
            try:
                if self._slot.depth == 0:
                    self._release()
            finally:
                self._slot.mutex.release()

    def _explain(self, error: PudiError) -> None:
        try:
            self.verify()
        except ConflictError as lost:
            raise lost from error
        except PudiError:  # it's unknown whether the lock was lost: the block's own error says more
            return

    def verify(self) -> None:
        """Make sure, just before what must not be done without it, that the lock is still held.

        Raises:
            ConflictError: it expired and may be another's now.
        """
        return

    @abstractmethod
    def _acquire(self, deadline: float) -> None:
        """Take the lock among processes, or raise `UnavailableError` after `deadline` (monotonic seconds)."""

    @abstractmethod
    def _release(self) -> None:
        """Give it back. What fails here is logged, not raised: the work under the lock is done."""

    def _wait(self, deadline: float, usual_poll: float, holder: str) -> None:
        """Sleep before the next attempt at a lock that another process holds.

        Raises:
            UnavailableError: the deadline has passed.
        """
        clock = self._context.clock
        left = deadline - clock.monotonic()
        if left <= 0:
            raise self._not_free(holder)
        poll = self._settings.poll_s(usual_poll)
        clock.sleep(min(left, self._context.uniform(poll / 2, poll)))

    def _not_free(self, holder: str) -> UnavailableError:
        return UnavailableError(
            f"the table's lock was not free within {self._settings.wait_ms / 1000:g} s, it's held by {holder}; "
            f"try again, or wait longer ({LockSettings.wait_ms})",
            table=self._table,
        )


class InProcessLock(TableLock):
    """A lock among the threads of this process, for tables that no other process can reach: those in memory."""

    def _acquire(self, deadline: float) -> None:
        return

    def _release(self) -> None:
        return


class SingleWriterLock(InProcessLock):
    """A lock among the threads of this process, for a table that no other process writes, or so its user says.

    It excludes no other process, so the timeline refuses any instant of another process (`OneProcessLock`).
    """

    def note_own(self, instant: str) -> None:
        """Remember an instant that this process has put on the timeline, by requested time and action."""
        own = self._slot.own
        own[instant] = None
        if len(own) > _MOST_OWN:
            del own[next(iter(own))]

    def is_own(self, instant: str) -> bool:
        """Whether this process has put the instant on the timeline."""
        return instant in self._slot.own


@dataclass(frozen=True, slots=True)
class LockSite:
    """Values that a table's lock is made from.

    Attributes:
        storage: the table's files.
        name: the table's name; some providers derive the name of its lock from it.
        settings: the options of locks.
        options: all options as they were given.
        context: clock and ids.
    """

    storage: Storage
    name: str
    settings: LockSettings
    options: Mapping[str, str]
    context: Context

    @property
    def table(self) -> str:
        """The table's root, in one spelling for all its names."""
        return canonical_root(self.storage.root)
