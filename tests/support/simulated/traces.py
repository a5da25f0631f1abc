"""A run as steps of the specification: a step that `spec/commits.py` doesn't have contradicts it.

What processes did to the storage says who held the lock, and when instants were requested, completed and rolled back.
What a conflict check was given, and what it decided, is noted as it's made. A rollback's changes of files, and those of
a write, count as one step each. `service_traces.py` has the steps of table services.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pudi.format import TABLE_LOCK, Action, decode_rollback_plan, parse_instant_file
from pudi.format import State as InstantState
from support.simulated.instants import MADE, TimelineFolder, holder_after
from support.simulated.judge import anomalies
from support.simulated.run import Checked, Played
from support.simulated.service_traces import ServiceTrace
from support.simulated.world import Note
from support.specifications import specification

SPEC = specification("commits")
_WRITES = {Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT}


def verdict(played: Played) -> list[str]:
    """Return what no serial order explains, else what the specification doesn't have; nothing if all is well."""
    found = anomalies(played)
    step = None if found else contradiction(played)
    return found if step is None else [f"not in the specification: {step}"]


def contradiction(played: Played) -> str | None:
    """Return the first step of a run that isn't in the specification, or breaks an invariant; None if there is none."""
    for trace in (Trace(played), ServiceTrace(played)):
        trace.run()
        if trace.problem is not None:
            return trace.problem
    return None


@dataclass(slots=True)
class Trace:
    """The steps of one run.

    Attributes:
        played: the run.
        table: the specification's state.
        steps: the steps that were taken, as text.
        problem: why the next one can't be taken.
    """

    played: Played
    table: Any = field(default_factory=SPEC.Table)
    steps: list[str] = field(default_factory=list)
    problem: str | None = None
    _timeline: TimelineFolder = field(init=False)
    _checks: dict[str, Checked] = field(default_factory=dict)
    _indexed: set[str] = field(default_factory=set)
    _process: dict[Any, str] = field(default_factory=dict)
    _holds: tuple[str, str] | None = None
    _holder: tuple[str, str] | None = None

    def run(self) -> None:
        """Take all steps, as far as there are such."""
        self._timeline = TimelineFolder(self.played.plan)
        self._checks = {each.requested: each for each in self.played.checks}
        for _, _, event in sorted(self._events(), key=lambda each: each[:2]):
            if self.problem is None:
                event()

    def _events(self) -> Iterator[tuple[float, int, Any]]:
        """What happened, each with its place."""
        listed: dict[str, int] = {}
        places = {each.at: each for each in self._checks.values()}
        for note in self.played.notes:
            if note.kind == "list_dir" and note.path == self._timeline.folder and note.done:
                listed[note.process] = note.number
            if note.done:
                yield note.number, 0, lambda note=note: self._see(note)
            if (check := places.get(note.number)) is not None:
                yield listed.get(check.process, 0), 1, lambda check=check: self._take(check)
                yield note.number, 2, lambda check=check: self._check(check)

    def _see(self, note: Note) -> None:
        if note.path == TABLE_LOCK and note.kind in MADE:
            self._see_lock(note)
        elif note.kind == "delete":
            for path in note.path.split("\n"):
                found = self._instant(path)
                if found and found[1] is not InstantState.COMPLETED and self._process.get(found[0]) == note.process:
                    self._abort(found[0])
        elif note.kind in MADE and note.path.startswith(".hoodie/metadata/.hoodie/"):
            self._see_metadata(note)
        elif note.kind in MADE and (found := self._instant(note.path)) is not None:
            requested, state, action = found
            if action is Action.ROLLBACK:
                self._see_rollback(note, state)
            elif action not in _WRITES or requested not in self._checks:
                return
            elif state is InstantState.REQUESTED:
                self._request(note, requested)
            elif state is InstantState.COMPLETED:
                self._complete(note, requested)

    def _instant(self, path: str) -> tuple[str, InstantState, Action] | None:
        file = self._timeline.instant(path)
        return None if file is None else (file.requested, file.state, file.action)

    def _see_lock(self, note: Note) -> None:
        self._holds = holder_after(note)
        if self.table.holder != SPEC.NOBODY and self._holds != self._holder:
            self._step("expire")

    def _request(self, note: Note, w: str) -> None:
        self._process[w] = note.process
        group = frozenset() if self.played.plan.kind.nonblocking else self._checks[w].groups
        self.table = self._with(writers={**self.table.writers, w: SPEC.Writer(group=group)})
        self._guarded(note.process, "request", w)
        self._step("write", w)

    def _take(self, check: Checked) -> None:
        has_lock = self._holds is not None and self._holds[0] == check.process
        if has_lock and self._is_at(check.requested, "written"):  # else it can't complete
            self._step("take", check.requested)

    def _check(self, check: Checked) -> None:
        w = check.requested
        if not self._is_at(w, "listed"):
            return
        before = self.table.writers[w].seen  # as of its request; those that the timeline doesn't have are archived
        unknown = self.table.writers[w].listed - before - check.listed
        seen = (check.seen & self.table.writers.keys()) | (before - check.listed)
        self.table = self.table.writes(w, seen=seen)
        after = SPEC.check(self.table, w)
        fails = after.writers[w].phase == "failed"
        if check.refused and not fails:  # by a rule that the specification doesn't have
            if self.table.holder in {SPEC.NOBODY, w}:  # else it has lost the lock, and undoes its work once it has it
                self._step("abort", w)
        elif not check.refused and (fails or unknown):
            own = self.table.writers[w]
            self._say(f"{w} went on and had to fail: there={own.there}, going={set(own.going)}, unknown={unknown}")
        else:
            self._step("check", w)

    def _see_metadata(self, note: Note) -> None:
        file = parse_instant_file(note.path.rpartition("/")[2], self._timeline.layout)
        if file is None or file.state is not InstantState.COMPLETED or file.action is not Action.DELTACOMMIT:
            return
        self._indexed.add(file.requested)
        if file.requested in self._checks and not self._is_at(file.requested, "half"):
            self._guarded(note.process, "complete_metadata", file.requested)

    def _complete(self, note: Note, w: str) -> None:
        changes = any(f"/{w}" in each.path and "deltacommit" in each.path for each in self.played.notes)
        if self._is_at(w, "checked") and not changes:
            self._guarded(note.process, "complete_metadata", w)  # there was nothing to say
        self._guarded(note.process, "complete", w)

    def _see_rollback(self, note: Note, state: InstantState) -> None:
        k = note.path.rpartition("/")[2].split(".")[0].split("_")[0]
        if state is InstantState.REQUESTED:
            plan = decode_rollback_plan(note.data or b"", path=note.path).instant_to_rollback
            self._process[k] = plan.commit_time if plan is not None else ""
        target = self._process.get(k, "")
        if target not in self.table.writers or state is InstantState.INFLIGHT:
            return
        if self._process.get(target) == note.process:
            self._abort(target)
        if self._is_at(target, "failed"):
            return
        keeper = f"{note.process} {k}"
        if keeper not in self.table.keepers:
            self.table = self.table.keeps(keeper, SPEC.Keeper())
        if self.table.keepers[keeper].phase != "idle" and self.table.holder != keeper:
            self._step("give_up", keeper)
        if self.table.keepers[keeper].phase == "idle":
            self._guarded(note.process, "begin_rollback", keeper, target)
        if state is InstantState.COMPLETED:
            self._guarded(note.process, "hide", keeper)
            self._guarded(note.process, "end_rollback", keeper)

    def _abort(self, w: str) -> None:
        if w in self.table.writers and self.table.writers[w].phase in SPEC.AT_WORK:
            self._step("abort", w)

    def _is_at(self, w: str, phase: str) -> bool:
        return w in self.table.writers and self.table.writers[w].phase == phase

    def _with(self, **changes: Any) -> Any:
        return SPEC.replace(self.table, **changes)

    def _guarded(self, process: str, action: str, *arguments: str) -> None:
        """Take a step that needs the lock."""
        if self.problem is None and (self._holds is None or self._holds[0] != process):
            self._say(f"{action} {' '.join(arguments)} by {process}, while the lock is {self._holds}")
        self._step(action, *arguments)

    def _step(self, action: str, *arguments: str) -> None:
        if self.problem is not None:
            return
        known = {*self.table.writers, *self.table.keepers}
        after = getattr(SPEC, action)(self.table, *arguments) if known.issuperset(arguments) else None
        if after is None:
            self._say(f"{action} {' '.join(arguments)} isn't enabled; {self._shown(arguments)}")
            return
        self.table = after
        self.steps.append(" ".join((action, *arguments)))
        self._holder = self._holds if after.holder != SPEC.NOBODY else None
        broken = SPEC.broken_invariant(after)
        if broken is not None:
            self._say(f"after {self.steps[-1]} the invariant {broken} doesn't hold")

    def _shown(self, arguments: tuple[str, ...]) -> str:
        who = [str(self.table.writers.get(each) or self.table.keepers.get(each)) for each in arguments]
        return f"holder {self.table.holder}, {', '.join(who)}"

    def _say(self, problem: str) -> None:
        if self.problem is None:
            self.problem = f"step {len(self.steps) + 1}: {problem}; before: {', '.join(self.steps[-6:])}"
