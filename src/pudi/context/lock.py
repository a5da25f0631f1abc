"""The `Lock` protocol: mutual exclusion of writers of one table."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, runtime_checkable


@runtime_checkable
class Lock(Protocol):
    """A table's lock, used as a context manager and held only around timeline changes, not while data is written.

    Entering waits until the lock is free and raises `UnavailableError` when that takes too long. It's reentrant
    for the thread that holds it.
    """

    def __enter__(self) -> Lock:
        """Acquire the lock."""

    def verify(self) -> None:
        """Make sure that the lock is still held, just before the step that it protects.

        Raises:
            ConflictError: it expired or was taken meanwhile.
        """

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the lock."""


@runtime_checkable
class OneProcessLock(Lock, Protocol):
    """A lock that keeps out the threads of this process only, and so remembers which instants the process made.

    Under this lock the timeline refuses to complete an action if an instant of another process appeared meanwhile:
    nothing orders the two.
    """

    def note_own(self, instant: str) -> None:
        """Remember an instant that this process has put on the timeline, by requested time and action."""

    def is_own(self, instant: str) -> bool:
        """Whether this process has put the instant on the timeline."""


@runtime_checkable
class ServiceLock(Lock, Protocol):
    """A lock that a service outside of the table keeps."""

    def check_ready(self) -> None:
        """Make sure, before any work is done, that the lock can be asked for.

        Raises:
            SetupError: a package is missing.
            UnavailableError: the service doesn't answer.
        """
