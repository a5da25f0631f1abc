"""Several writers of one table in one process, whose threads, timers, clock, ids and turns all follow from a seed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pudi.context import Context, FileInfo, ManualClock, Mutex, Storage, ThreadExecutor, Timer
from pudi.context.executor import WAITING, Background
from pudi.storage import StorageWrapper

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")


class TimerClock(ManualClock):
    """A manual clock that calls timers while it passes their times.

    Attributes:
        calling: whether a timer's function is running.
    """

    def __init__(self, start_ms: int = 1_700_000_000_000) -> None:
        super().__init__(start_ms)
        self.calling = False
        self._timers: list[_ClockTimer] = []

    def every(self, seconds: float, function: Callable[[], object]) -> Timer:
        """Call a function each time the clock has advanced by `seconds`."""
        period = max(1, round(seconds * 1000))
        self._timers.append(_ClockTimer(function, period, self.now_ms() + period, self._timers))
        return self._timers[-1]

    def advance(self, seconds: float) -> None:
        """Move the clock on; it stops at the time of each timer. The caller gets the errors of timers."""
        until = self._now_ms + round(seconds * 1000)
        while due := [timer for timer in self._timers if timer.due_ms <= until]:
            first = min(due, key=lambda timer: timer.due_ms)
            super().advance(max(0, first.due_ms - self._now_ms) / 1000)
            first.due_ms += first.period_ms
            self.calling = True
            try:
                first.function()
            except BaseException:
                first.stop()
                raise
            finally:
                self.calling = False
        super().advance(max(0, until - self._now_ms) / 1000)


@dataclass(slots=True, eq=False)
class _ClockTimer:
    """A function that a clock calls, and when; all timers of the clock."""

    function: Callable[[], object]
    period_ms: int
    due_ms: int
    timers: list[_ClockTimer]

    def stop(self) -> None:
        """End the calls."""
        if self in self.timers:
            self.timers.remove(self)


class _Over:
    """A function that ran in its caller's thread."""

    def wait(self, seconds: float | None = None) -> bool:
        """It has ended."""
        del seconds
        return True


class InlineExecutor:
    """Runs functions in the calling thread; see `pudi.context.Executor`.

    A map calls in an order drawn from the seed. Timers run while the clock moves.

    Args:
        clock: calls the timers.
        seed: decides the order of calls.
    """

    def __init__(self, clock: TimerClock, seed: int = 0) -> None:
        self._clock = clock
        self._chance = Context(seed=seed)

    def map(
        self,
        function: Callable[[_Item], _Answer],
        items: Iterable[_Item],
        *,
        limit: int = WAITING,
        while_quick: bool = False,
        report: Callable[[int, int], None] | None = None,
    ) -> list[_Answer]:
        """Call a function for each item, one after the other."""
        del limit, while_quick
        given = list(items)
        answers: dict[int, _Answer] = {}
        for number in sorted(range(len(given)), key=lambda _: self._chance.uniform(0, 1)):
            answers[number] = function(given[number])
            if report is not None:
                report(len(answers), len(given))
        return [answers[number] for number in range(len(given))]

    def read_ahead(
        self, streams: Iterable[Callable[[], Iterator[_Item]]], *, limit: int, most: int, size: Callable[[_Item], int]
    ) -> Generator[_Item, None, None]:
        """Return the items of several streams; nothing is read ahead."""
        del limit, most, size
        for stream in streams:
            yield from stream()

    def every(self, seconds: float, function: Callable[[], object], name: str) -> Timer:
        """Call a function each time the clock has advanced by `seconds`."""
        del name
        return self._clock.every(seconds, function)

    def begin(self, function: Callable[[], object], name: str, *, exit_seconds: float) -> Background:
        """Call a function immediately, in this thread."""
        del name, exit_seconds
        function()
        return _Over()

    def acquire(self, mutex: Mutex, seconds: float) -> bool:
        """Acquire a mutex; while it isn't free, sleep on the clock."""
        deadline = self._clock.monotonic() + seconds
        while not mutex.acquire(blocking=False):
            if self._clock.monotonic() >= deadline:
                return False
            self._clock.sleep(0.001)
        return True

    def call_within(self, seconds: float, function: Callable[[], _Answer]) -> _Answer | None:
        """Call a function, however long it takes."""
        del seconds
        return function()


T = TypeVar("T")

_LATENCY = 0.001, 0.005
"""Least and greatest time that a call of a storage takes, seconds."""


class Simulation:
    """Runs writers in turns drawn from a seed: the same seed gives the same schedule, and the same bytes.

    Each writer is a function in a thread of its own, but only one thread runs at any time. Another writer may go on at
    each call of a storage, when a writer sleeps, and while it waits for a lock. Time passes by calls and by sleeping.

    Example:
        simulation = Simulation(seed=7)
        contexts = [simulation.context() for _ in range(2)]
        storages = [simulation.storage(open_storage(root, context=each)) for each in contexts]
        ...
        simulation.run(lambda: first.upsert(rows), lambda: second.upsert(rows))

    Args:
        seed: decides everything that isn't decided by the writers.

    Attributes:
        clock: the clock of all writers.
        steps: the schedule so far: number of the writer (None outside of `run`), kind of call, and path.
    """

    def __init__(self, seed: int) -> None:
        self.clock = _SharedClock(self._sleep)
        self.steps: list[tuple[int | None, str, str]] = []
        self.times: dict[str, int] = {}
        self._chance = Context(seed=seed)
        self._running: int | None = None
        self._turns: dict[int, threading.Semaphore] = {}
        self._threads: dict[int, int] = {}
        self._wakes: dict[int, int] = {}
        self._beside: list[Background] = []

    def context(self) -> Context:
        """Return the context of one more writer."""
        seed = self._draw(1 << 32)
        return Context(self.clock, seed, _SteppedExecutor(self, seed), alone=True)

    def storage(self, inner: Storage) -> Storage:
        """Return a storage whose calls take time and are steps of the schedule.

        Args:
            inner: the storage that does the work, opened with the context of the writer that uses it.
        """
        return _SteppedStorage(inner, self)

    def run(self, *writers: Callable[[], T]) -> list[T]:
        """Run writers in turns, and return what they return.

        Raises:
            BaseException: the first writer's that failed, once all have ended.
        """
        self._turns = {number: threading.Semaphore(0) for number in range(len(writers))}
        self._wakes = dict.fromkeys(self._turns, 0)
        outcomes: dict[int, T | BaseException] = {}

        def play(number: int) -> None:
            try:
                outcomes[number] = self._play(number, writers[number])
            except BaseException as error:  # noqa: BLE001 - raised below
                outcomes[number] = error

        self._go_on()
        ThreadExecutor().map(play, range(len(writers)), limit=len(writers))
        while self._beside:
            self._beside.pop().wait()
        results = []
        for number in range(len(writers)):
            outcome = outcomes[number]
            if isinstance(outcome, BaseException):
                raise outcome
            results.append(outcome)
        return results

    def begin(self, function: Callable[[], object], name: str) -> Background:
        """Run a function beside the running writer, as another writer with turns; outside of `run` immediately."""
        if self._running is None:
            function()
            return _Player(self, None)
        number = max(self._turns) + 1
        self._turns[number], self._wakes[number] = threading.Semaphore(0), 0
        thread = ThreadExecutor().begin(lambda: self._play(number, function), name, exit_seconds=0)
        self._beside.append(thread)
        return _Player(self, number)

    def plays(self, number: int) -> bool:
        """Return whether a writer of this number hasn't ended."""
        return number in self._wakes

    def _play(self, number: int, writer: Callable[[], T]) -> T:
        """Run a writer in this thread, in its turns."""
        self._turns[number].acquire()
        self._threads[number] = threading.get_ident()
        try:
            return writer()
        finally:
            del self._wakes[number]
            self._go_on()

    def step(self, kind: str, path: str) -> None:
        """Note a call of a storage, let time pass, and let another writer go on.

        Raises:
            RuntimeError: the call comes from a thread that no executor of the simulation knows.
        """
        if self._running is not None and self._threads[self._running] != threading.get_ident():
            raise RuntimeError(f"{kind} {path!r} was called in a thread of its own: start none but by Context.executor")
        self.steps.append((self._running, kind, path))
        if not self.clock.calling:  # timers neither wait nor give way: who stops one waits for its call
            self.clock.advance(self._chance.uniform(*_LATENCY))
            self._give_way()

    def _sleep(self, seconds: float) -> None:
        if self._running is None or self.clock.calling:
            return self.clock.advance(seconds)
        self._wakes[self._running] = self.clock.now_ms() + round(seconds * 1000)
        return self._give_way()

    def _give_way(self) -> None:
        """Wait for the next turn of the running writer, which may come immediately."""
        before = self._running
        if before is not None:
            self._go_on()
            self._turns[before].acquire()

    def _go_on(self) -> None:
        """Give the turn to a writer that is awake; if all sleep, time passes until the first wakes."""
        if not self._wakes:
            self._running = None
            return
        self.clock.advance(max(0, min(self._wakes.values()) - self.clock.now_ms()) / 1000)
        awake = [number for number, wakes in self._wakes.items() if wakes <= self.clock.now_ms()]
        self._running = awake[self._draw(len(awake))]
        self._turns[self._running].release()

    def _draw(self, below: int) -> int:
        return int(self._chance.uniform(0, below))


class _SteppedExecutor(InlineExecutor):
    """An executor whose functions in the background have turns, as writers do."""

    def __init__(self, simulation: Simulation, seed: int) -> None:
        super().__init__(simulation.clock, seed)
        self._simulation = simulation

    def begin(self, function: Callable[[], object], name: str, *, exit_seconds: float) -> Background:
        """Run a function beside the running writer; see `Simulation.begin`."""
        del exit_seconds
        return self._simulation.begin(function, name)


@dataclass(frozen=True, slots=True)
class _Player:
    """A function that has turns, by its number; None if it was called immediately."""

    simulation: Simulation
    number: int | None

    def wait(self, seconds: float | None = None) -> bool:
        """Let others go on until it has ended; see `Background`."""
        clock = self.simulation.clock
        deadline = None if seconds is None else clock.monotonic() + seconds
        while self.number is not None and self.simulation.plays(self.number):
            if deadline is not None and clock.monotonic() >= deadline:
                return False
            clock.sleep(0.001)
        return True


class _SharedClock(TimerClock):
    """The clock of several writers: to sleep is to let others go on."""

    def __init__(self, sleep: Callable[[float], None]) -> None:
        super().__init__()
        self._sleep = sleep

    def sleep(self, seconds: float) -> None:
        """Wait until the time has passed."""
        self._sleep(seconds)


class _SteppedStorage(StorageWrapper):
    """A storage whose calls are steps of a simulation, and whose files have the times of its clock."""

    def __init__(self, inner: Storage, simulation: Simulation) -> None:
        super().__init__(inner)
        self._simulation = simulation

    def _call(self, kind: str, path: str, do: Callable[[], T]) -> T:
        self._simulation.step(kind, path)
        answer = super()._call(kind, path, do)
        if kind in {"create", "put", "replace"}:
            self._simulation.times[path] = self._simulation.clock.now_ms()
        return answer

    def list(self, prefix: str = "") -> Iterator[FileInfo]:
        """Every file below folder `prefix`, by path."""
        return iter(sorted(map(self._timed, super().list(prefix))))

    def list_dir(self, prefix: str = "") -> tuple[Sequence[FileInfo], Sequence[str]]:
        """Files directly in folder `prefix`, and the names of the folders directly in it."""
        files, folders = super().list_dir(prefix)
        return sorted(map(self._timed, files)), sorted(folders)

    def head(self, path: str) -> FileInfo:
        """Facts about one file."""
        return self._timed(super().head(path))

    def _timed(self, info: FileInfo) -> FileInfo:
        return info._replace(modified_ms=self._simulation.times.get(info.path, info.modified_ms))
