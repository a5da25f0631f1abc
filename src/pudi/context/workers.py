"""Threads that are kept between calls: to start one takes as long as a short call, and waits for the interpreter."""

from __future__ import annotations

import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Generic, TypeVar

from pudi.errors import UnavailableError

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")

_REST_S = 10.0
"""Seconds after which a thread without work ends."""
_IDLE = "pudi-idle"
_LONGEST_S = 10 * 365 * 86_400.0


def bounded(seconds: float) -> float:
    """Return seconds to wait, ten years at most: the system knows no number as great as an option may be."""
    return min(seconds, _LONGEST_S)


class Job:
    """A function that runs in a thread beside its caller.

    Args:
        function: what to do. What it raises ends its thread.
        name: name of the thread meanwhile.
    """

    def __init__(self, function: Callable[[], object], name: str) -> None:
        self.name = name
        self._function = function
        self._over = threading.Event()

    def run(self) -> None:
        """Do it, in the thread that it is for."""
        thread = threading.current_thread()
        thread.name = self.name
        try:
            self._function()
        finally:
            thread.name = _IDLE
            self._over.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for its end, up to a number of seconds or without limit; return whether it has ended."""
        return self._over.wait(None if seconds is None else bounded(seconds))


class _Worker:
    """A thread that does one job after the other; between them it rests among the idle ones."""

    def __init__(self, job: Job) -> None:
        self.jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self.jobs.put(job)
        threading.Thread(target=self._serve, name=job.name, daemon=True).start()

    def _serve(self) -> None:
        while (job := self._next()) is not None:
            job.run()
            del job  # a resting thread holds nothing of what it did
            _idle.append(self)

    def _next(self) -> Job | None:
        while True:
            with suppress(queue.Empty):
                return self.jobs.get(timeout=_REST_S)
            with suppress(ValueError):  # else it was taken, and its job is about to come
                _idle.remove(self)
                return None


_idle: list[_Worker] = []
"""Workers without a job. Each change is one operation, which no other thread sees half."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # threads don't live on in a forked process


def lend(function: Callable[[], object], name: str) -> Job:
    """Run a function in a thread beside the caller; the end of the program doesn't wait for it. See `Job`.

    Raises:
        UnavailableError: no thread is idle, and the system starts no more.
    """
    job = Job(function, name)
    try:
        worker = _idle.pop()
    except IndexError:
        try:
            _Worker(job)
        except RuntimeError as error:
            raise UnavailableError(
                f"the system starts no more threads ({error}): run fewer programs at a time, or let this one have more "
                "(ulimit -u)"
            ) from error
    else:
        worker.jobs.put(job)
    return job


class Pool:
    """Up to `limit` threads beside the caller for jobs, which begin in the order of their coming.

    Args:
        limit: number of threads.
        name: their name.
    """

    def __init__(self, limit: int, name: str) -> None:
        self._limit, self._name = limit, name
        self._waiting: deque[Callable[[], object]] = deque()
        self._busy = 0
        self._changed = threading.Condition()

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            while self._busy:
                self._changed.wait()

    def submit(self, function: Callable[[], object]) -> None:
        """Have a function run; it keeps its errors.

        Raises:
            UnavailableError: as `lend`, if no thread is at work that would take it next.
        """
        with self._changed:
            self._waiting.append(function)
            if self._busy == self._limit:
                return
            self._busy += 1
        try:
            lend(self._serve, self._name)
        except UnavailableError:
            with self._changed:
                self._busy -= 1
                if not self._busy:
                    raise

    def _serve(self) -> None:
        while True:
            with self._changed:
                if not self._waiting:
                    self._busy -= 1
                    self._changed.notify()
                    return
                function = self._waiting.popleft()
            function()
            del function


class Calls(Generic[_Item, _Answer]):
    """Calls of one function for several items, shared between the caller's thread and others.

    After an error no further call begins.

    Args:
        function: what to call.
        items: its arguments.
        report: receives the numbers of calls that are done and of all, in the caller's thread; None for nobody.
        done: number of calls that were done before, and count as well.
    """

    def __init__(
        self,
        function: Callable[[_Item], _Answer],
        items: Sequence[_Item],
        report: Callable[[int, int], None] | None = None,
        done: int = 0,
    ) -> None:
        self._function, self._items = function, items
        self._report, self._done, self._told = report, done, 0
        self._left = iter(range(len(items)))
        self._answers: dict[int, _Answer] = {}
        self._errors: dict[int, BaseException] = {}
        self._closed = False
        self._running = 0
        self._changed = threading.Condition()

    def run(self, limit: int) -> list[_Answer]:
        """Call the function for each item in this thread and up to `limit` - 1 others, as far as they can be started.

        Returns:
            The results in the items' order.

        Raises:
            BaseException: a call raised it; of several the one of the first item, an interrupt before other errors.
        """
        try:
            with suppress(UnavailableError):
                for number in range(1, limit):
                    lend(self._help, f"pudi-{number}")
            while self._take():
                self._tell()
        finally:
            with self._changed:
                self._closed = True  # a thread that comes late finds nothing to do, and an interrupt ends here too
                while self._running:
                    self._changed.wait()
        if self._errors:
            raise min(self._errors.items(), key=lambda each: (isinstance(each[1], Exception), each[0]))[1]
        self._tell()
        return [self._answers[place] for place in range(len(self._items))]

    def _help(self) -> None:
        with self._changed:
            if self._closed:
                return
            self._running += 1
        while self._take():
            pass
        with self._changed:
            self._running -= 1
            self._changed.notify()

    def _take(self) -> bool:
        """Make the next call; return whether there was one to make."""
        place = None if self._closed else next(self._left, None)
        if place is None:
            return False
        try:
            self._answers[place] = self._function(self._items[place])
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            self._errors[place] = error
            self._closed = True
        return True

    def _tell(self) -> None:
        """Report calls that were done since the last report."""
        while self._report is not None and self._told < len(self._answers):
            self._told += 1
            self._report(self._done + self._told, self._done + len(self._items))
