"""The shortest run that fails as a given one does, and its story."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TypeVar

from support.simulated.plans import Plan, ProcessPlan
from support.simulated.run import Played, play
from support.simulated.script import Fate, Place
from support.simulated.traces import verdict
from support.simulated.work import Operation, first_files
from support.simulated.world import START_MS, Note

T = TypeVar("T")
_MOST = 150
"""Runs that a shrinking takes at most."""


@dataclass(slots=True)
class Shrinker:
    """Leaves out processes, operations, mishaps and delays for as long as the run still fails.

    Attributes:
        broken: applies a mutant, for a run of broken code.
        left: how many runs may still be played.
    """

    broken: Callable[[], AbstractContextManager[None]] = nullcontext
    left: int = _MOST
    best: Played | None = None

    def run(self, plan: Plan) -> Played:
        """Return the shortest run that was found; the given one has to fail."""
        first_files(plan.kind)  # by whole code
        first = self._fails(plan, None, steady=False)
        if first is None:
            raise AssertionError(f"seed {plan.seed} doesn't fail")
        events = dict(first.script.met)
        steady = self._fails(plan, events, steady=True) is not None
        processes = self._fewest(plan.processes, lambda kept: self._with(plan, kept, events, steady))
        plan = replace(plan, processes=tuple(processes))
        pairs = [(process.name, each) for process in plan.processes for each in process.operations]
        kept = self._fewest(pairs, lambda some: self._with(plan, _only(plan, some), events, steady))
        plan = replace(plan, processes=_only(plan, kept))
        there = {each.number for process in plan.processes for each in process.operations}
        met = [(place, fate) for place, fate in events.items() if place[1] in there]
        events = dict(self._fewest(met, lambda some: self._fails(plan, dict(some), steady=steady) is not None))
        if not steady:
            self._fails(plan, events, steady=True)
        assert self.best is not None
        return self.best

    def _with(self, plan: Plan, processes: Sequence[ProcessPlan], events: dict[Place, Fate], steady: bool) -> bool:
        return self._fails(replace(plan, processes=tuple(processes)), events, steady=steady) is not None

    def _fails(self, plan: Plan, only: dict[Place, Fate] | None, *, steady: bool) -> Played | None:
        if self.left <= 0:
            return None
        self.left -= 1
        with self.broken():
            played = play(plan, only, steady=steady)
        if not verdict(played):
            return None
        self.best = played
        return played

    def _fewest(self, items: Sequence[T], fails: Callable[[list[T]], bool]) -> list[T]:
        """Return some of the items with which it still fails (ddmin)."""
        kept, size = list(items), max(1, len(items) // 2)
        while kept:
            place, before = 0, len(kept)
            while place < len(kept):
                fewer = kept[:place] + kept[place + size :]
                if fails(fewer):
                    kept = fewer
                else:
                    place += size
            if size == 1 and len(kept) == before:
                break
            size = max(1, size // 2)
        return kept


def _only(plan: Plan, pairs: Sequence[tuple[str, Operation]]) -> tuple[ProcessPlan, ...]:
    by_name: dict[str, list[Operation]] = {}
    for name, operation in pairs:
        by_name.setdefault(name, []).append(operation)
    return tuple(replace(p, operations=tuple(by_name[p.name])) for p in plan.processes if p.name in by_name)


def story(played: Played) -> str:
    """Tell a run: who did what when, what went wrong, and what no serial order explains."""
    plan = played.plan
    lines = [f"seed {plan.seed}: {plan}; {len(plan.processes)} processes, {len(played.notes)} calls"]
    ended = {(done.process, done.operation.number): done for done in played.done}
    names = {each.number: each for process in plan.processes for each in process.operations}
    names |= {done.operation.number: done.operation for done in played.done}
    silent: dict[str, int] = {}
    for (process, number), notes in groupby(played.notes, lambda note: (note.process, note.operation)):
        found = list(notes)
        told = [text for note in found if (text := _told(note))] if process != "afterwards" else []
        done = ended.get((process, number))
        is_over = done is not None and done.ended <= found[-1].number
        silent[process] = silent.get(process, 0) + len(found) - len(told)
        if told or is_over:
            others = [f"{count} of {name}" for name, count in silent.items() if name != process and count]
            lines += [f"             (calls in between: {', '.join(others)})"] if others else []
            at = (found[0].at_ms - START_MS) / 1000
            lines.append(f"{at:9.2f} s  {process}, {names.get(number, 'opens the table')}: {_count(silent[process])}")
            lines += told
            silent = {}
        if is_over:
            lines.append(f"             so {done}")
    return "\n".join([*lines, "", *(f"ANOMALY: {text}" for text in verdict(played))])


def _count(calls: int) -> str:
    return f"{calls} calls" if calls != 1 else "1 call"


def _told(note: Note) -> str:
    folder, _, name = note.path.rpartition("/")
    instants = folder in {
        ".hoodie",
        ".hoodie/timeline",
        ".hoodie/metadata/.hoodie",
        ".hoodie/metadata/.hoodie/timeline",
    }
    happened = str(note.fate)
    if happened or (instants and note.kind in {"create", "delete"}):
        where = "metadata table's " if folder.startswith(".hoodie/metadata") else ""
        shown = f"{where}{name}" if instants else note.path.split("\n")[0]
        failed = "" if note.done or happened else " (refused)"
        return f"             {note.number}. {note.kind} {shown}{failed}{f' — {happened}' if happened else ''}"
    return ""
