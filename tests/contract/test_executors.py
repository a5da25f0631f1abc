"""What an executor promises: maps in order, streams that are read ahead, timers, mutexes and calls that may block."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from pudi.context import Executor, ThreadExecutor, workers
from pudi.errors import UnavailableError
from pudi.testing import InlineExecutor, TimerClock


@pytest.fixture(params=["threads", "inline"])
def executor(request: pytest.FixtureRequest) -> Executor:
    return ThreadExecutor() if request.param == "threads" else InlineExecutor(TimerClock(), seed=5)


class Streams:
    """Streams by number of items; a negative one fails."""

    def __init__(self) -> None:
        self.made: dict[int, int] = {}
        self.guard = threading.Lock()

    def read(self, number: int) -> Iterator[int]:
        if number < 0:
            raise ValueError(f"stream {number}")
        for each in range(number):
            with self.guard:
                self.made[number] = self.made.get(number, 0) + 1
            yield each

    def ahead(self, executor: Executor, *numbers: int) -> Iterator[int]:
        opened: list[Callable[[], Iterator[int]]] = [partial(self.read, number) for number in numbers]
        return executor.read_ahead(opened, limit=2, most=400, size=lambda item: 100)


@pytest.mark.parametrize("limit", [1, 3, 16])
@pytest.mark.parametrize("while_quick", [False, True])
def test_results_have_the_order_of_the_items(executor: Executor, limit: int, while_quick: bool) -> None:
    told: list[tuple[int, int]] = []
    items = iter(range(100))
    found = executor.map(
        lambda n: n * n, items, limit=limit, while_quick=while_quick, report=lambda *done: told.append(done)
    )
    assert found == [n * n for n in range(100)]
    assert told == [(n, 100) for n in range(1, 101)]
    assert executor.map(str, []) == []


def test_the_error_of_a_call_is_raised(executor: Executor) -> None:
    def call(number: int) -> int:
        if number == 3:
            raise ValueError("item 3")
        return number

    with pytest.raises(ValueError, match="item 3"):
        executor.map(call, range(8), limit=2)


def test_no_call_begins_after_one_failed(executor: Executor) -> None:
    called = []

    def call(number: int) -> None:
        called.append(number)
        raise ValueError(f"item {number}")

    with pytest.raises(ValueError, match="item"):
        executor.map(call, range(1000), limit=2)
    assert len(called) < 1000


def test_a_stream_comes_whole_before_the_next(executor: Executor) -> None:
    found = list(Streams().ahead(executor, 3, 50, 0, 1, 70))
    assert found == [*range(3), *range(50), 0, *range(70)]


def test_no_more_is_read_ahead_than_fits(executor: Executor) -> None:
    streams = Streams()
    items = streams.ahead(executor, 100, 101, 102)
    for _ in range(50):
        next(items)
    assert streams.made[100] <= 50 + 6
    assert streams.made.get(101, 0) <= 6
    items.close()  # type: ignore[attr-defined]
    assert streams.made.get(102, 0) <= 6


def test_the_error_of_a_stream_comes_in_its_place(executor: Executor) -> None:
    items = Streams().ahead(executor, 5, -1, 5)
    assert [next(items) for _ in range(5)] == list(range(5))
    with pytest.raises(ValueError, match="stream -1"):
        next(items)


def test_who_stops_early_waits_for_nobody(executor: Executor) -> None:
    items = Streams().ahead(executor, 1000, 1000, 1000)
    next(items)
    items.close()  # type: ignore[attr-defined]


def test_a_mutex_that_is_free_is_acquired(executor: Executor) -> None:
    mutex = threading.Lock()
    assert executor.acquire(mutex, 60)
    assert not executor.acquire(mutex, 0.05)


def test_what_was_begun_is_done_when_it_was_waited_for(executor: Executor) -> None:
    called: list[int] = []
    begun = executor.begin(lambda: called.append(1), "test", exit_seconds=60)
    assert begun.wait()
    assert begun.wait(0)
    assert called == [1]


def test_what_is_begun_runs_beside_its_caller() -> None:
    go = threading.Event()
    begun = ThreadExecutor().begin(go.wait, "test", exit_seconds=60)
    assert not begun.wait(0.05)
    go.set()
    assert begun.wait(60)


def test_at_the_end_of_a_program_all_is_done_without_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pudi.context.executor._program.starts_threads", False)
    threads, executor = set[int](), ThreadExecutor()
    timer = executor.every(0.001, lambda: threads.add(0), "test")
    executor.map(lambda _: threads.add(threading.get_ident()), range(100))
    assert executor.begin(lambda: threads.add(threading.get_ident()), "test", exit_seconds=0).wait(0)
    assert list(Streams().ahead(executor, 3, 2)) == [0, 1, 2, 0, 1]
    assert executor.call_within(60, lambda: 5) == 5
    timer.stop()
    assert threads == {threading.get_ident()}


def test_a_call_that_blocks_is_given_up() -> None:
    for_ever = threading.Event()
    assert ThreadExecutor().call_within(0.05, for_ever.wait) is None
    for_ever.set()
    assert ThreadExecutor().call_within(60, for_ever.wait) is True


def test_a_timer_calls_again_and_again_until_it_is_stopped() -> None:
    calls = threading.Semaphore(0)
    timer = ThreadExecutor().every(0.001, calls.release, "again")
    assert all(calls.acquire(timeout=60) for _ in range(3))
    timer.stop()
    assert not [thread for thread in threading.enumerate() if thread.name == "pudi-again"]


def test_a_seed_decides_the_order_of_calls() -> None:
    def calls(seed: int) -> list[int]:
        called: list[int] = []
        InlineExecutor(TimerClock(), seed).map(called.append, range(20))
        return called

    assert calls(1) == calls(1) != calls(2)
    assert sorted(calls(1)) == list(range(20))


def test_the_clock_calls_timers_at_their_times() -> None:
    clock = TimerClock(start_ms=0)
    executor, called = InlineExecutor(clock), list[tuple[str, int]]()
    slow = executor.every(5, lambda: called.append(("slow", clock.now_ms())), "slow")
    fast = executor.every(2, lambda: called.append(("fast", clock.now_ms())), "fast")
    clock.advance(5.5)
    assert called == [("fast", 2000), ("fast", 4000), ("slow", 5000)]
    assert clock.now_ms() == 5500
    fast.stop()
    fast.stop()
    clock.sleep(5)
    assert called[3:] == [("slow", 10_000)]
    slow.stop()


def test_a_timer_that_fails_ends() -> None:
    clock = TimerClock()
    InlineExecutor(clock).every(1, lambda: 1 / 0, "fails")
    with pytest.raises(ZeroDivisionError):
        clock.advance(3)
    clock.advance(3)


def test_threads_are_kept_for_the_next_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    idle: list[object] = []
    monkeypatch.setattr(workers, "_idle", idle)
    executor, together = ThreadExecutor(), threading.Barrier(4)
    executor.map(lambda _: together.wait(60), range(4), limit=4)
    while len(idle) < 3:  # a thread rests a moment after its caller goes on
        time.sleep(0.001)
    monkeypatch.delattr(workers, "_Worker")  # so that none can be started
    executor.map(lambda _: together.wait(60), range(4), limit=4)


def test_maps_within_maps_end(executor: Executor) -> None:
    def inner(n: int) -> int:
        return sum(executor.map(lambda m: n * m, range(5), limit=3))

    assert executor.map(inner, range(40), limit=8) == [n * 10 for n in range(40)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_has_threads_of_its_own() -> None:
    """A job given to a thread that stayed in the parent would never begin."""
    script = """
import os, threading
from pudi.context import ThreadExecutor
def meet(_):
    together.wait(60)
executor, together = ThreadExecutor(), threading.Barrier(4)
executor.map(meet, range(4), limit=4)
child = os.fork()
together = threading.Barrier(4)
executor.map(meet, range(4), limit=4)
if child:
    raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
os._exit(7)
"""
    assert subprocess.run([sys.executable, "-c", script], timeout=100, check=False).returncode == 7


class NoneIdle:
    """The list of idle threads as who needs one finds it empty; those of other tests come to rest in it, and leave."""

    def __init__(self) -> None:
        self.append, self.remove = workers._idle.append, workers._idle.remove

    def pop(self) -> object:
        raise IndexError


@pytest.fixture
def none_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_idle", NoneIdle())


@pytest.fixture
def no_threads(none_idle: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)


@pytest.mark.usefixtures("no_threads")
def test_a_thread_that_comes_to_rest_meanwhile_is_none_that_starts() -> None:
    go, worker = threading.Event(), object()
    workers._idle.append(worker)  # type: ignore[arg-type]
    with pytest.raises(UnavailableError):
        ThreadExecutor().call_within(60, go.wait)
    workers._idle.remove(worker)  # type: ignore[arg-type]


@pytest.mark.usefixtures("no_threads")
def test_where_no_thread_starts_the_caller_does_it_alone() -> None:
    executor, done = ThreadExecutor(), list[int]()
    assert executor.map(lambda n: n + 1, range(5), limit=3) == [1, 2, 3, 4, 5]
    assert executor.begin(lambda: done.append(1), "test", exit_seconds=60).wait(0)
    assert done == [1]


@pytest.mark.usefixtures("no_threads")
@pytest.mark.parametrize("kind", ["read_ahead", "every", "call_within"])
def test_where_no_thread_starts_what_needs_one_says_so(kind: str) -> None:
    executor = ThreadExecutor()
    needs: dict[str, Callable[[], object]] = {
        "read_ahead": lambda: list(Streams().ahead(executor, 3, 50)),
        "every": lambda: executor.every(60, lambda: None, "test"),
        "call_within": lambda: executor.call_within(60, lambda: 5),
    }
    with pytest.raises(UnavailableError, match=r"no more threads \(can't start new thread\)"):
        needs[kind]()


@pytest.mark.usefixtures("none_idle")
def test_one_thread_reads_all_streams_where_no_other_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    start, started = threading.Thread.start, list[threading.Thread]()

    def start_one(self: threading.Thread) -> None:
        if started:
            raise RuntimeError("can't start new thread")
        started.append(self)
        start(self)

    monkeypatch.setattr(threading.Thread, "start", start_one)
    assert list(Streams().ahead(ThreadExecutor(), 50, 3, 4)) == [*range(50), *range(3), *range(4)]


def test_the_longest_time_that_an_option_takes_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    longest, failed = ((1 << 63) - 1) / 1000, list[object]()
    monkeypatch.setattr(threading, "excepthook", failed.append)
    executor, mutex, go = ThreadExecutor(), threading.Lock(), threading.Event()
    assert executor.acquire(mutex, longest)
    begun = executor.begin(go.wait, "test", exit_seconds=longest)
    threading.Timer(0.05, go.set).start()
    assert begun.wait(longest)
    go.clear()
    threading.Timer(0.05, go.set).start()
    assert executor.call_within(longest, go.wait)
    timer = executor.every(longest, lambda: None, "test")
    assert not timer._job.wait(0.05)  # type: ignore[attr-defined]
    timer.stop()
    assert failed == []


def test_an_interrupt_comes_before_other_errors() -> None:
    together = threading.Barrier(2)

    def fail(number: int) -> None:
        together.wait(60)
        raise (KeyboardInterrupt if number else ValueError(number))

    with pytest.raises(KeyboardInterrupt):
        ThreadExecutor().map(fail, range(2), limit=2)


def test_what_ran_in_the_background_does_not_end_later_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of the time of a function in the background is no end for other callers of its threads."""
    executor, together = ThreadExecutor(), threading.Barrier(4)

    def meet(n: int) -> list[int]:
        together.wait(60)
        return executor.map(lambda m: m + n, range(2), limit=2)

    begun = executor.begin(lambda: executor.map(meet, range(4), limit=4), "test", exit_seconds=60)
    assert begun.wait(60)
    monkeypatch.setattr(begun, "over", True)
    assert executor.map(meet, range(4), limit=4) == [[n, n + 1] for n in range(4)]
