"""Processes in one thread at a time, whose clocks, timers and turns are events of one queue ordered by true time."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from pudi.context import Context
from pudi.testing import InlineExecutor, SimulatedCrash
from support.simulated.script import CHANGING, Fate, Script

START_MS = 1_700_000_000_000.0


@dataclass(slots=True)
class Note:
    """One call of a storage: what was asked, by whom, when, and what became of it."""

    number: int
    at_ms: float
    process: str
    operation: int
    kind: str
    path: str
    fate: Fate
    data: bytes | None = None
    done: bool = False


class World:
    """True time, and the queue of what happens next.

    Only one thread runs at any moment: that of the process whose event came. It gives way when it calls a storage,
    sleeps or ends.

    Args:
        script: the fate of each call.
    """

    def __init__(self, script: Script) -> None:
        self.script = script
        self.now_ms = START_MS
        self.notes: list[Note] = []
        self.in_timer = False
        self.current: Process | None = None
        self._queue: list[tuple[float, int, Any]] = []
        self._order = itertools.count()
        self._alive = 0
        self._over = threading.Semaphore(0)
        self.failure: BaseException | None = None

    def start(self, process: Process, main: Callable[[], None], delay_ms: float = 0.0) -> None:
        """Have a process run `main` in a thread of its own, once `run` is called."""
        turn = _Turn(process)
        self._alive += 1

        def body() -> None:
            turn.go.acquire()
            try:
                main()
            except SimulatedCrash:
                pass
            except BaseException as error:  # noqa: BLE001 - raised by `run`
                self.failure = self.failure or error
            self._alive -= 1
            self._dispatch(None)

        process.turn = turn
        turn.thread = threading.Thread(target=body, name=process.name, daemon=True)
        turn.thread.start()
        self.push(self.now_ms + delay_ms, turn)

    def run(self) -> None:
        """Run until all processes have ended."""
        if self._alive:
            self._dispatch(None)
            self._over.acquire()
        self._queue = [entry for entry in self._queue if isinstance(entry[2], _Timer) and not entry[2].stopped]
        heapq.heapify(self._queue)
        if self.failure is not None:
            raise self.failure

    def wait(self, process: Process, milliseconds: float) -> None:
        """Let a process wait, and others go on."""
        if self.in_timer or process.turn is None:
            self.now_ms += milliseconds if process.turn is None else 0
            return
        self.push(self.now_ms + milliseconds, process.turn)
        self._dispatch(process.turn)

    def every(self, process: Process, milliseconds: float, function: Callable[[], object]) -> _Timer:
        """Call a function of a process at times, while it isn't paused or dead."""
        timer = _Timer(process, milliseconds, function)
        self.push(self.now_ms + milliseconds, timer)
        return timer

    def push(self, at_ms: float, entry: object) -> None:
        """Have a turn or a timer come at a time."""
        heapq.heappush(self._queue, (at_ms, next(self._order), entry))

    def _dispatch(self, own: _Turn | None) -> None:
        """Give the turn to whoever comes next, and wait for the own next turn."""
        after = self._next()
        if after is None:
            self._over.release()
        elif after is own:
            return
        else:
            after.go.release()
        if own is not None:
            own.go.acquire()

    def _next(self) -> _Turn | None:
        while self._alive and self._queue:
            at_ms, _, entry = heapq.heappop(self._queue)
            self.now_ms = max(self.now_ms, at_ms)
            process: Process = entry.process
            if process.paused_until_ms > self.now_ms:
                self.push(process.paused_until_ms, entry)
            elif process.verifies and not isinstance(entry, _Turn):
                process.held_up.append(entry)  # it waits for the state of the lock
            elif isinstance(entry, _Turn):
                self.current = process
                return entry
            elif not (entry.stopped or process.dead):
                self._fire(entry)
        return None

    def _fire(self, timer: _Timer) -> None:
        self.in_timer, self.current = True, timer.process
        try:
            timer.function()
        except SimulatedCrash:
            return
        except Exception as error:  # noqa: BLE001 - as in a timer's thread: its calls end
            self.failure = self.failure or error
            return
        finally:
            self.in_timer = False
        self.push(self.now_ms + timer.period_ms, timer)


@dataclass(slots=True, eq=False)
class _Turn:
    process: Process
    go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    thread: threading.Thread | None = None


@dataclass(slots=True, eq=False)
class _Timer:
    process: Process
    period_ms: float
    function: Callable[[], object]
    stopped: bool = False

    def stop(self) -> None:
        """End the calls."""
        self.stopped = True


@dataclass(eq=False)
class Process:
    """One process of the world: its clock, and whether it lives.

    Attributes:
        name: which.
        world: the world.
        operation: the number of the operation that it is at.
        calls: how many calls it has made in that operation.
        verifies: whether it's looking whether it still holds the lock.
        held_up: timers that wait until it has looked.
        late: a pause that comes at its next call.
        slot: what its threads share of the table's lock.
    """

    world: World
    name: str
    drift: float = 0.0
    offset_ms: float = 0.0
    jumps: tuple[tuple[float, float], ...] = ()
    operation: int = 0
    calls: int = 0
    beats: int = 0
    life: int = 0
    dead: bool = False
    paused_until_ms: float = 0.0
    longest_pause_ms: float = 0.0
    verifies: bool = False
    held_up: list[_Timer] = field(default_factory=list)
    late: Fate | None = None
    turn: _Turn | None = None
    slot: Any = None

    @property
    def host(self) -> str:
        """The machine that it seems to be on: each life on another one, so that only signs of life tell of it."""
        return f"{self.name}/{self.life}"

    def begin(self, operation: int) -> None:
        """Begin an operation."""
        self.operation, self.calls, self.longest_pause_ms = operation, 0, 0.0

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Look whether it still holds the lock; timers, which share its state, wait meanwhile."""
        self.verifies = True
        try:
            yield
        finally:
            self.verifies = False
            for timer in self.held_up:
                self.world.push(self.world.now_ms, timer)
            self.held_up.clear()

    def context(self) -> Context:
        """Return the context of one life of the process."""
        seed = self.world.script.number(self.name, self.life)
        return Context(ProcessClock(self), seed, ProcessExecutor(self, seed), alone=True)

    def call(self, kind: str, path: str, do: Callable[[], Any], data: bytes | None = None) -> Any:
        """Make one call of a storage by its fate."""
        world = self.world
        if self.dead:
            raise SimulatedCrash(f"{kind} {path}: the process is dead")
        if world.in_timer:
            self.beats += 1
            fate = world.script.of_beat(self.name, self.operation, self.beats, kind)
        else:
            self.calls += 1
            fate = world.script.of_call(self.name, self.operation, self.calls, kind, path)
        if fate.pauses and self.verifies:
            self.late, fate = fate, Fate()  # it stops once it has changed what it looks at the lock for
        elif self.late is not None and not world.in_timer:
            fate, self.late = self.late, None
        if fate.pauses and kind in CHANGING and fate.before_ms > fate.after_ms:
            # Between the last look at the lock and the change that it guards nobody stands still for longer than a
            # lease: without fencing tokens in the store no lock can do anything about that.
            fate = replace(fate, before_ms=fate.after_ms, after_ms=fate.before_ms)
        return _Call(self, kind, path, do, data, fate).run()

    def rest(self, milliseconds: float, *, paused: bool) -> None:
        """Wait, with or without the timers of the process."""
        if paused:
            self.paused_until_ms = self.world.now_ms + milliseconds
            self.longest_pause_ms = max(self.longest_pause_ms, milliseconds)
        self.world.wait(self, milliseconds)
        if self.dead:
            raise SimulatedCrash("the process is dead")


@dataclass(slots=True)
class _Call:
    process: Process
    kind: str
    path: str
    do: Callable[[], Any]
    data: bytes | None
    fate: Fate

    def run(self) -> Any:
        fate, process = self.fate, self.process
        process.rest(fate.before_ms, paused=fate.pauses)
        if fate.fault == "crash before":
            self._note()
            self._die()
        if fate.fault == "error":
            self._note()
            raise self.process.world.script.unavailable(self.kind, self.path)
        try:
            answer = self.do()
        except BaseException:
            self._note()
            raise
        self._note(done=True)
        if fate.fault == "crash after":
            self._die()
        process.rest(fate.after_ms, paused=fate.pauses)
        if fate.fault == "lost answer":
            raise self.process.world.script.unavailable(self.kind, self.path)
        return answer

    def _die(self) -> None:
        self.process.dead = True
        raise SimulatedCrash(f"{self.kind} {self.path}")

    def _note(self, *, done: bool = False) -> None:
        world, process = self.process.world, self.process
        number, data = len(world.notes) + 1, bytes(self.data) if self.data is not None and done else None
        about = process.name, process.operation, self.kind, self.path
        world.notes.append(Note(number, world.now_ms, *about, self.fate, data, done))


class ProcessClock:
    """The clock of a process: ahead or behind, fast or slow, and now and then set."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def now_ms(self) -> int:
        """Milliseconds since the epoch, as this machine has them."""
        process = self._process
        passed = process.world.now_ms - START_MS
        jumped = sum(by for at, by in process.jumps if at <= passed)
        return int(START_MS + passed * (1 + process.drift) + process.offset_ms + jumped)

    def monotonic(self) -> float:
        """Seconds, never set."""
        return (self._process.world.now_ms - START_MS) * (1 + self._process.drift) / 1000

    def sleep(self, seconds: float) -> None:
        """Let others go on."""
        self._process.rest(seconds * 1000 / (1 + self._process.drift), paused=False)


class ProcessExecutor(InlineExecutor):
    """Runs all of a process in its one thread; timers are events of the world."""

    def __init__(self, process: Process, seed: int) -> None:
        super().__init__(ProcessClock(process), seed)  # type: ignore[arg-type]
        self._process = process

    def every(self, seconds: float, function: Callable[[], object], name: str) -> Any:
        """Call a function at times; see `World.every`."""
        del name
        return self._process.world.every(self._process, seconds * 1000 / (1 + self._process.drift), function)
