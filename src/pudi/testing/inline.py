"""An executor and a clock without threads: everything runs in the calling thread, in an order drawn from a seed."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from pudi.context import Context, ManualClock, Mutex, Timer
from pudi.context.executor import WAITING, Background

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
