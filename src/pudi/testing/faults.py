"""A storage that fails, loses an answer, waits or dies at its n-th call."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Literal, TypeVar

from pudi.context import FileInfo, Storage
from pudi.errors import PudiError, UnavailableError
from pudi.storage import StorageWrapper

T = TypeVar("T")

FaultMode = Literal["error", "crash", "lost_answer", "delay"]


class SimulatedCrash(BaseException):
    """The process died. Not an `Exception`: nothing that would have died with it may handle it."""


class FaultStorage(StorageWrapper):
    """A storage around another that goes wrong at one call, reading or changing, counted from 1.

    A test runs once without a fault to learn `calls`, then once for every n up to it:

        for n in range(1, calls + 1):
            with pytest.raises(SimulatedCrash):
                write(FaultStorage(fresh(), fail_at=n, mode="crash"))

    Args:
        inner: the storage that does the work.
        fail_at: number of the call that goes wrong; None only counts.
        mode: `error` raises `UnavailableError` and does nothing; `lost_answer` does it and raises the same; `crash`
            raises `SimulatedCrash` then and at every later call; `delay` calls `on_delay` and goes on.
        crash_after: whether `crash` does the call first.
        on_delay: what happens during the delay, say another writer's commit.
    """

    def __init__(
        self,
        inner: Storage,
        *,
        fail_at: int | None = None,
        mode: FaultMode = "error",
        crash_after: bool = False,
        on_delay: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(inner)
        self.fail_at = fail_at
        self.mode = mode
        self._crash_after = crash_after
        self._on_delay = on_delay
        self._guard = threading.Lock()
        self._log: list[tuple[str, str]] = []
        self._dead = False

    @property
    def calls(self) -> int:
        """Number of calls made while the process lived."""
        with self._guard:
            return len(self._log)

    @property
    def log(self) -> tuple[tuple[str, str], ...]:
        """Kind and path of each of those calls, in order."""
        with self._guard:
            return tuple(self._log)

    @property
    def dead(self) -> bool:
        """Whether the crash has happened."""
        return self._dead

    def list(self, prefix: str = "") -> Iterator[FileInfo]:
        """Return every file below folder `prefix` in one call, so that a dead process reads no further."""
        return self._call("list", prefix, lambda: iter(tuple(self.inner.list(prefix))))

    def _call(self, kind: str, path: str, do: Callable[[], T]) -> T:
        with self._guard:
            if self._dead:
                raise SimulatedCrash(f"{kind} {path}: the process is dead")
            self._log.append((kind, path))
            number = len(self._log)
            faulty = number == self.fail_at
            self._dead = faulty and self.mode == "crash" and not self._crash_after
        if not faulty:
            return do()
        if self.mode == "delay":
            if self._on_delay is not None:
                self._on_delay()
            return do()
        if self.mode == "lost_answer":
            do()
        if self.mode == "crash":
            if self._crash_after:
                with contextlib.suppress(PudiError):  # a process that sees the simulated crash counts as dead
                    do()
                self._dead = True
            raise SimulatedCrash(f"call {number}: {kind} {path}")
        raise UnavailableError(f"simulated: no answer to call {number}, {kind}", table=self.root, path=path)
