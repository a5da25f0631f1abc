"""Play one schedule: all processes until they have ended, then one more that looks after the table and reads it."""

from __future__ import annotations

import gc
import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import pudi
from pudi.client import MetaClient
from pudi.concurrency import heartbeats
from pudi.concurrency.conflicts import ConflictCheck
from pudi.locks import table_lock
from pudi.locks.storage_lock import StorageBasedLock
from pudi.metadata import validity
from pudi.testing import SimulatedCrash
from pudi.timeline import Instant, Timeline, TimelineStore
from support.simulated.disk import Disk, ProcessStorage
from support.simulated.plans import Plan, ProcessPlan
from support.simulated.script import Fate, Place, Script
from support.simulated.work import FIRST_INSTANT, FIRST_STATE, LAST, Operation, State, first_files, root_of, seen
from support.simulated.world import START_MS, Note, Process, World

_LIVES = 3


@dataclass(slots=True)
class Done:
    """What became of one operation.

    Attributes:
        process: whose it is.
        operation: it.
        began: number of the last call before it.
        ended: number of its last call.
        result: what it returned.
        error: what it raised.
        paused_ms: the longest time for which its process stood still meanwhile.
    """

    process: str
    operation: Operation
    began: int
    ended: int = 0
    result: Any = None
    error: BaseException | None = None
    trace: str = ""
    paused_ms: float = 0.0

    def __str__(self) -> str:
        if self.error is None:
            return f"{self.process}: {self.operation}: {self.result if self.operation.is_read else 'done'}"
        return f"{self.process}: {self.operation}: {type(self.error).__name__}: {str(self.error)[:200]}"


@dataclass(frozen=True, slots=True)
class Checked:
    """What a conflict check was given, and what it decided.

    Attributes:
        at: number of the last call before it.
        process: whose it is.
        requested: the instant that was checked.
        seen: the commits that it was planned from.
        listed: the commits of the timeline that it was compared with.
        groups: the file groups that it wrote or replaced.
        refused: whether it was refused.
    """

    at: int
    process: str
    requested: str
    seen: frozenset[str]
    listed: frozenset[str]
    groups: frozenset[tuple[str, str]]
    refused: bool


@dataclass(slots=True)
class Played:
    """A run that is over.

    Attributes:
        plan: its plan.
        script: the fates that its calls met.
        notes: its calls.
        done: its operations in the order in which they ended.
        first: the state at its beginning.
        checks: its conflict checks.
        settled: what a process found afterwards.
    """

    plan: Plan
    script: Script
    notes: list[Note]
    done: list[Done]
    disk: Disk
    first: State = field(default_factory=lambda: FIRST_STATE)
    checks: list[Checked] = field(default_factory=list)
    settled: Settled | None = None


@dataclass(slots=True)
class Settled:
    """What one more process found and did when all others had ended."""

    error: str = ""
    states: list[State] = field(default_factory=list)
    times: dict[str, State | str] = field(default_factory=dict)
    savepoints: list[str] = field(default_factory=list)
    failed_steps: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    known: set[str] = field(default_factory=set)
    write: Operation | None = None


def play(plan: Plan, only: dict[Place, Fate] | None = None, *, steady: bool = False) -> Played:
    """Play a run.

    Args:
        plan: the run.
        only: the only calls to which something happens; None for what the seed says.
        steady: whether all other calls take the same time.
    """
    script = plan.script()
    script.only, script.steady = only, steady
    world = World(script)
    disk = Disk(root_of(plan.kind), first_files(plan.kind), int(START_MS) - 50_000)
    played = Played(plan, script, world.notes, [], disk)
    with _separate_processes(world), _noting_checks(world, played.checks):
        validity._seen_until.clear()
        for each in plan.processes:
            process = Process(world, each.name, each.drift, each.offset_ms, each.jumps)
            world.start(process, _main(process, each, played))
        world.run()
        world.now_ms += 4_000_000
        judge = Process(world, "afterwards")
        script.calm.add(judge.name)
        world.start(judge, lambda: _settle(judge, played))
        world.run()
    return played


def _main(process: Process, plan: ProcessPlan, played: Played) -> Any:
    def main() -> None:
        table = None
        for operation in plan.operations:
            process.rest(operation.after_ms, paused=False)
            process.begin(operation.number)
            done = Done(process.name, operation, len(played.notes))
            try:
                table = table or _open(process, played)
                done.result = operation.run(table)
            except SimulatedCrash as error:
                done.error = error
            except Exception as error:  # noqa: BLE001 - the judge decides
                done.error, done.trace = error, traceback.format_exc()
            done.ended, done.paused_ms = len(played.notes), process.longest_pause_ms
            played.done.append(done)
            if process.dead:
                table, process.dead = None, False
                process.life += 1
                process.slot = None
                process.rest(played.script.number(process.name, process.life) % 20_000, paused=False)

    return main


def _open(process: Process, played: Played) -> pudi.Table:
    process.slot = process.slot or table_lock._Slot()
    context, options = process.context(), played.plan.options
    storage = ProcessStorage(played.disk, process, context.executor)
    return pudi.Table.of(MetaClient.open(played.disk.root, None, options, context, storage), options)


def _settle(process: Process, played: Played) -> None:
    """Maintain the table, write once more, and look at all that can be read."""
    found = played.settled = Settled()
    try:
        _look(process, played, found)
    except Exception as error:  # noqa: BLE001 - the judge decides
        found.error = f"{type(error).__name__}: {error}\n{traceback.format_exc()}"


def _look(process: Process, played: Played, found: Settled) -> None:
    table = _open(process, played)
    found.states.append(seen(table.scan()))
    for _ in range(2):
        done = table.maintain()
        found.failed_steps += [str(step) for step in done.steps if step.outcome.name == "FAILED"]
        found.states.append(seen(table.scan()))
    found.savepoints = [each.instant for each in table.savepoints()]
    commits = [each.requested for each in table.timeline.commits]
    for instant in sorted({*commits[-2:], *found.savepoints} - {FIRST_INSTANT}):
        try:
            found.times[instant] = seen(table.scan(as_of=instant))
        except pudi.PudiError as error:
            found.times[instant] = f"{type(error).__name__}: {error}"
    archived = {each.requested for each in table._meta.store.archived()}
    found.known = archived | {each.requested for each in table.timeline.commits}
    found.differences = [str(each) for each in table.check().differences]
    operation = Operation(LAST, "upsert", ("k0", "k3", "k5"))
    process.begin(LAST)
    done_at = Done(process.name, operation, len(played.notes))
    done_at.result = operation.run(table)
    done_at.ended = len(played.notes)
    played.done.append(done_at)
    found.states.append(seen(table.scan()))


@contextmanager
def _separate_processes(world: World) -> Iterator[None]:
    """Give each process what a real one has for itself: the thread lock of the table, and its machine's name."""

    def slot(table: str) -> Any:
        del table
        assert world.current is not None
        return world.current.slot

    def host() -> str:
        assert world.current is not None
        return world.current.host

    look = StorageBasedLock.verify

    def verify(lock: StorageBasedLock) -> None:
        process = world.current
        assert process is not None
        with process.looking():
            look(lock)

    with (
        patch.object(table_lock, "_slot", slot),
        patch.object(heartbeats, "_host", host),
        patch.object(StorageBasedLock, "verify", verify),
        patch.object(logging.getLogger("pudi"), "propagate", False),
        patch.object(logging.getLogger("pudi"), "handlers", [logging.NullHandler()]),
        _without_gc(),
    ):
        yield


@contextmanager
def _noting_checks(world: World, checks: list[Checked]) -> Iterator[None]:
    """Note what conflict checks of the table decide as writes complete, for the comparison with the specification.

    Those before services of the metadata table are not steps of a write: it is checked again.
    """
    check, complete = ConflictCheck.check, TimelineStore.complete
    completing: set[str] = set()

    def completed(store: TimelineStore, *arguments: Any, **named: Any) -> Instant:
        name = "" if world.current is None else world.current.name
        completing.add(name)
        try:
            return complete(store, *arguments, **named)
        finally:
            completing.discard(name)

    def noted(conflicts: ConflictCheck, now: Timeline) -> None:
        at, process, refused = len(world.notes), world.current, True
        assert process is not None
        if process.name not in completing:
            check(conflicts, now)
            return
        try:
            check(conflicts, now)
            refused = False
        finally:
            seen, listed = ({each.requested for each in timeline.commits} for timeline in (conflicts.seen, now))
            groups = conflicts.written.touched_groups
            about = at, process.name, conflicts.own.requested
            checks.append(Checked(*about, frozenset(seen), frozenset(listed), frozenset(groups), refused))

    with patch.object(ConflictCheck, "check", noted), patch.object(TimelineStore, "complete", completed):
        yield


@contextmanager
def _without_gc() -> Iterator[None]:
    """Leave cycles until the run is over: to look for them as they come takes a tenth of its time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
