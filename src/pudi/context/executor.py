"""Threads and timers: all that pudi starts, so that a test can decide what runs when."""

from __future__ import annotations

import atexit
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from pudi.context.runtime import lazy_module
from pudi.context.workers import Calls, Pool, bounded, lend

if TYPE_CHECKING:
    from concurrent import futures
else:
    futures = lazy_module("concurrent.futures")

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")

_CLEAN_UP_S = 5.0
"""Maximum seconds that the end of a program waits for late work to clean up."""


class BackgroundThread:
    """A thread that the end of the program waits for, for some time; arguments as of `Executor.begin`.

    Attributes:
        exit_seconds: that time.
        over: whether it has passed.
    """

    def __init__(self, function: Callable[[], object], name: str, exit_seconds: float) -> None:
        self.exit_seconds = exit_seconds
        self.over = False
        self._function = function
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        _program.running.add(self)
        try:
            self._thread.start()
        except BaseException:
            _program.running.discard(self)
            raise

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for its end; see `Background`."""
        self._thread.join(None if seconds is None else bounded(seconds))
        return not self._thread.is_alive()

    def _run(self) -> None:
        _here.background = self
        try:
            self._function()
        finally:
            _program.running.discard(self)


class _Ended:
    """A function that ran in its caller's thread, since no thread could be started."""

    def wait(self, seconds: float | None = None) -> bool:
        """It has ended."""
        del seconds
        return True


class _Program:
    """State that the end of a program needs.

    Attributes:
        running: the threads in the background.
        starts_threads: whether any can be started.
    """

    def __init__(self) -> None:
        self.running: set[BackgroundThread] = set()
        self.starts_threads = True
        self._waits = False

    def wait_at_end(self) -> None:
        """Have `end` called at the end of the program, before pools stop to take work.

        `atexit` calls too late for that: the hook that is used here is that by which `concurrent.futures` closes pools.
        """
        if not self._waits:
            self._waits = True
            _ = futures.ThreadPoolExecutor  # its module adds its hook; the last one is called first
            try:
                getattr(threading, "_register_atexit", atexit.register)(self.end)
            except RuntimeError:  # the program is ending: pools take no work any more
                self.starts_threads = False

    def end(self) -> None:
        """Wait for the threads, each for its time, and then for what is over its time to clean up."""
        self.starts_threads = sys.version_info < (3, 12)
        _wait({each: each.exit_seconds for each in list(self.running)})
        for each in list(self.running):
            each.over = True
        _wait(dict.fromkeys(list(self.running), _CLEAN_UP_S))
        self.starts_threads = False


_program = _Program()
_here = threading.local()


def _wait(seconds: dict[BackgroundThread, float]) -> None:
    began = time.monotonic()
    for thread, most in sorted(seconds.items(), key=lambda item: item[1]):
        thread.wait(max(0.0, began + most - time.monotonic()))


def begin_thread(function: Callable[[], object], name: str, exit_seconds: float) -> BackgroundThread | _Ended:
    """Run a function in a thread beside the caller; see `Executor.begin`."""
    if threads_start():
        with suppress(RuntimeError):  # the system starts no more threads
            return BackgroundThread(function, name, exit_seconds)
    function()
    return _Ended()


def threads_start() -> bool:
    """Return whether a thread can be started: at the end of a program, from Python 3.12 on, none can."""
    _program.wait_at_end()
    return _program.starts_threads


def of_background(function: Callable[[_Item], _Answer]) -> Callable[[_Item], _Answer]:
    """Return a function for the calls of a `map`: of one in the background, they fail once its time is over."""
    background: BackgroundThread | None = getattr(_here, "background", None)
    if background is None:
        return function

    def call(item: _Item) -> _Answer:
        before, _here.background = getattr(_here, "background", None), background
        try:
            if background.over:
                sys.exit("the program ends")
            return function(item)
        finally:
            _here.background = before  # the thread serves other callers next

    return call


WAITING = 16
"""Default number of calls in parallel: for calls that wait for storage most of the time."""

_NO_WAIT = 0.001
"""Seconds that calls may wait altogether and still count as quick; starting a thread takes a tenth of it."""


class Mutex(Protocol):
    """A lock of `threading`."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquire it; whether that succeeded."""


class Timer(Protocol):
    """A function that is called again and again."""

    def stop(self) -> None:
        """End the calls. A call that is running ends before this returns."""


class Background(Protocol):
    """A function that runs beside its caller."""

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for its end, up to a number of seconds or without limit; return whether it has ended."""


class Executor(Protocol):
    """Runs functions in parallel and at times.

    Everything in pudi that starts a thread, or waits for one, goes through the executor of its `Context`.
    """

    def map(
        self,
        function: Callable[[_Item], _Answer],
        items: Iterable[_Item],
        *,
        limit: int = WAITING,
        while_quick: bool = False,
        report: Callable[[int, int], None] | None = None,
    ) -> list[_Answer]:
        """Call a function for each item, several in parallel; the results keep the order of the items.

        After a call has failed no further call begins. The error is raised when all running calls have ended. If the
        system starts no more threads, fewer calls run in parallel.

        Args:
            function: what to call.
            items: its arguments.
            limit: number of calls in parallel.
            while_quick: whether to call in this thread as long as the calls compute more than they wait. Threads that
                compute only get into each other's way, and starting one takes as long as a short call.
            report: receives the numbers of items that are done and of all items, in this thread.
        """

    def read_ahead(
        self, streams: Iterable[Callable[[], Iterator[_Item]]], *, limit: int, most: int, size: Callable[[_Item], int]
    ) -> Generator[_Item, None, None]:
        """Return the items of several streams, one stream after the other, and begin to read the next ones meanwhile.

        Args:
            streams: functions that open a stream each.
            limit: number of streams read in parallel.
            most: the total size of the items that wait in each stream, one item apart.
            size: gives the size of an item.

        Raises:
            UnavailableError: no thread can be started.
        """

    def every(self, seconds: float, function: Callable[[], object], name: str) -> Timer:
        """Call a function every `seconds`, first after `seconds`, until the timer is stopped.

        Args:
            seconds: the time between two calls.
            function: what to call. An error that it raises ends the calls.
            name: what it's for, as the name of a thread.

        Raises:
            UnavailableError: no thread can be started.
        """

    def begin(self, function: Callable[[], object], name: str, *, exit_seconds: float) -> Background:
        """Run a function beside the caller, or before it goes on if no thread can be started.

        When the program ends it has some time left. After that a `map` of it begins no further call and raises
        `SystemExit` instead, so that it can clean up; what it does alone ends with the process.

        Args:
            function: what to call; it deals with its errors.
            name: what it's for, as the name of a thread.
            exit_seconds: the time that the end of the program waits for it.
        """

    def acquire(self, mutex: Mutex, seconds: float) -> bool:
        """Acquire a mutex that another thread may hold for long; return whether it was free within `seconds`."""

    def call_within(self, seconds: float, function: Callable[[], _Answer]) -> _Answer | None:
        """Call a function that may block; None if it doesn't return in time, and then it's no longer waited for.

        Raises:
            UnavailableError: no thread can be started.
        """


@dataclass(frozen=True, slots=True)
class ThreadExecutor:
    """Runs functions in threads of this process, which are kept for a while after the call that needed them."""

    def map(
        self,
        function: Callable[[_Item], _Answer],
        items: Iterable[_Item],
        *,
        limit: int = WAITING,
        while_quick: bool = False,
        report: Callable[[int, int], None] | None = None,
    ) -> list[_Answer]:
        """Call a function for each item; see `Executor`."""
        left = deque(items)
        total = len(left)
        answers: list[_Answer] = []
        function = of_background(function)

        def done(answer: _Answer) -> None:
            answers.append(answer)
            if report is not None:
                report(len(answers), total)

        if total <= 1 or limit == 1 or not threads_start():
            while left:
                done(function(left.popleft()))
        elif while_quick:
            began, computed = time.perf_counter(), time.thread_time()
            spent = 0.0
            while left and spent - (time.thread_time() - computed) <= max(spent / 2, _NO_WAIT):
                done(function(left.popleft()))
                spent = time.perf_counter() - began
        if left:
            calls = Calls(function, list(left), report, len(answers))
            answers += calls.run(min(limit, len(left)))
        return answers

    def read_ahead(
        self, streams: Iterable[Callable[[], Iterator[_Item]]], *, limit: int, most: int, size: Callable[[_Item], int]
    ) -> Generator[_Item, None, None]:
        """Return the items of several streams and read the next streams meanwhile; see `Executor`."""
        waiting = deque(streams)
        if len(waiting) <= 1 or limit == 1 or not threads_start():
            for stream in waiting:
                yield from stream()
            return
        with Pool(limit, "pudi-ahead") as pool:
            ahead: deque[_Ahead[_Item]] = deque()
            try:
                while waiting or ahead:
                    while waiting and len(ahead) <= limit:
                        ahead.append(_Ahead(most, size))
                        pool.submit(partial(ahead[-1].fill, waiting.popleft()))
                    yield from ahead[0].take()
                    ahead.popleft()
            finally:
                for each in ahead:
                    each.close()

    def every(self, seconds: float, function: Callable[[], object], name: str) -> Timer:
        """Call a function again and again in a thread of its own; see `Executor`."""
        return _ThreadTimer(seconds, function, name)

    def begin(self, function: Callable[[], object], name: str, *, exit_seconds: float) -> Background:
        """Run a function in a thread of its own; see `Executor`."""
        return begin_thread(function, f"pudi-{name}", exit_seconds)

    def acquire(self, mutex: Mutex, seconds: float) -> bool:
        """Acquire a mutex; see `Executor`."""
        return mutex.acquire(timeout=bounded(seconds))

    def call_within(self, seconds: float, function: Callable[[], _Answer]) -> _Answer | None:
        """Call a function that may block in a thread of its own; see `Executor`."""
        if not threads_start():
            return function()
        answers: list[_Answer] = []
        lend(lambda: answers.append(function()), "pudi-call").wait(seconds)
        return answers[0] if answers else None


class _ThreadTimer:
    """A thread that calls a function again and again; arguments as of `Executor.every`."""

    def __init__(self, seconds: float, function: Callable[[], object], name: str) -> None:
        self._seconds, self._function = bounded(seconds), function
        self._stopped = threading.Event()
        # At the end of a program it does without: what is left then takes no long time.
        self._job = lend(self._run, f"pudi-{name}") if threads_start() else None

    def _run(self) -> None:
        while not self._stopped.wait(self._seconds):
            self._function()

    def stop(self) -> None:
        """End the calls; see `Timer`."""
        self._stopped.set()
        if self._job is not None:
            self._job.wait()


@dataclass(slots=True)
class _Ahead(Generic[_Item]):
    """The items of one stream, read in a thread of a pool and awaited in another.

    Args:
        most: the total size of the items that wait, one item apart.
        size: gives the size of an item.
    """

    most: int
    size: Callable[[_Item], int]
    _items: deque[_Item] = field(default_factory=deque)
    _total: int = 0
    _done: bool = False
    _closed: bool = False
    _error: BaseException | None = None
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def fill(self, stream: Callable[[], Iterator[_Item]]) -> None:
        """Read the stream; the consumer of the items gets its errors."""
        try:
            for item in () if self._closed else stream():
                with self._changed:
                    self._changed.wait_for(lambda: self._closed or not self._items or self._total < self.most)
                    if self._closed:
                        return
                    self._items.append(item)
                    self._total += self.size(item)
                    self._changed.notify_all()
        except BaseException as raised:  # noqa: BLE001 - raised again where the items are taken
            self._error = raised
        finally:
            with self._changed:
                self._done = True
                self._changed.notify_all()

    def take(self) -> Iterator[_Item]:
        """Return the items in order; raises what reading raised."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._items or self._done)
                if not self._items:
                    if self._error is not None:
                        raise self._error
                    return
                item = self._items.popleft()
                self._total -= self.size(item)
                self._changed.notify_all()
            yield item
            del item

    def close(self) -> None:
        """Stop reading."""
        with self._changed:
            self._closed = True
            self._items.clear()
            self._changed.notify_all()
