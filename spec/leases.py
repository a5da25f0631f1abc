"""The actions of `leases.qnt` in Python, by the same names, for a search of all states; `agrees.py` compares the two.

Each action takes the table and returns the table after it, or None where it isn't enabled.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

NOBODY = 0
QUINT_MISHAPS = 3
"""MISHAPS of `leases.qnt`."""
RUNS = frozenset({"leased", "marked", "written", "staged", "ending", "checked", "half", "failing"})
"""Phases in which a process runs the plan."""


@dataclass(frozen=True)
class Rules:
    """Which rules hold: the constants of `leases.qnt`."""

    verifies: bool = True
    checks_note: bool = True
    sees_inflight: bool = True
    inflight_first: bool = True
    same_names: bool = True


MODULES = {
    "right": Rules(),
    "blind": Rules(verifies=False),
    "unnoted": Rules(checks_note=False),
    "inflight_last": Rules(inflight_first=False),
    "unstarted": Rules(sees_inflight=False),
    "own_names": Rules(same_names=False),
}
"""The modules of `leases.qnt`."""


@dataclass(frozen=True)
class Keeper:
    """One that runs the plan: `number` is its run's, `doomed` are the files that it found when it took the plan."""

    phase: str = "idle"
    number: int = 0
    doomed: frozenset[int] = frozenset()

    @property
    def key(self) -> tuple[Hashable, ...]:
        """What orders processes."""
        return self.phase, self.number, tuple(sorted(self.doomed))


@dataclass(frozen=True)
class Table:
    """All of the state; see `leases.qnt`."""

    keepers: Mapping[int, Keeper] = field(default_factory=dict)
    holder: int = NOBODY
    inflight: bool = False
    note: int = 0
    runs: int = 0
    newest: int = 0
    markers: frozenset[int] = frozenset()
    files: frozenset[int] = frozenset()
    blocks: tuple[int, ...] = ()
    metadata: int = 0
    completed: tuple[int, ...] = ()
    displaced: bool = False
    mishaps: int = 0
    most: int = QUINT_MISHAPS
    rules: Rules = MODULES["right"]

    @property
    def key(self) -> Hashable:
        """What tells states of one search apart; which process is which doesn't matter."""
        of_processes = tuple(sorted((k == self.holder, *each.key) for k, each in self.keepers.items()))
        of_storage = self.inflight, self.note, self.markers, self.files, self.blocks, self.metadata, self.completed
        numbers = self.runs, self.newest, self.mishaps
        return of_processes, self.holder != NOBODY, of_storage, numbers, self.displaced

    def is_held(self, k: int) -> bool:
        """Whether a process has the lock, or doesn't look."""
        return not self.rules.verifies or self.holder == k

    def moves(self, k: int, phase: str, **changes: Any) -> Table:
        """Return the table with a process in its next phase."""
        return replace(self, keepers={**self.keepers, k: replace(self.keepers[k], phase=phase, **changes)})

    def goes_wrong(self, count: int = 1) -> Table | None:
        """Return the table after a mishap; None if there were as many as may be."""
        if count and self.mishaps >= self.most:
            return None
        return replace(self, mishaps=self.mishaps + count)

    def freed(self, k: int) -> Table:
        """Return the table with the lock given back, if it was its."""
        return replace(self, holder=NOBODY) if self.holder == k else self


# --- a process takes the plan, under the lock


def is_run(t: Table) -> bool:
    """Whether the newest run goes on."""
    return any(each.phase in RUNS and each.number == t.newest for each in t.keepers.values())


def take(t: Table, k: int) -> Table | None:
    """Take the lock, and see what an earlier run left."""
    if t.keepers[k].phase != "idle" or t.holder != NOBODY or t.completed:
        return None
    after = t.goes_wrong(int(is_run(t)))
    if after is None:
        return None
    left = t.inflight or t.markers
    return replace(after.moves(k, "taken" if left else "free", doomed=t.markers), holder=k)


def revert(t: Table, k: int) -> Table | None:
    """Delete the inflight file."""
    if t.keepers[k].phase != ("taken" if t.rules.inflight_first else "emptied") or not t.is_held(k):
        return None
    return replace(t.moves(k, "reverted"), inflight=False)


def delete(t: Table, k: int) -> Table | None:
    """Delete the files of the run that it takes for dead."""
    if t.keepers[k].phase != ("reverted" if t.rules.inflight_first else "taken") or not t.is_held(k):
        return None
    return replace(t.moves(k, "emptied"), files=t.files - t.keepers[k].doomed)


def discard(t: Table, k: int) -> Table | None:
    """Discard what that run wrote to the metadata table."""
    if t.keepers[k].phase != ("emptied" if t.rules.inflight_first else "reverted") or not t.is_held(k):
        return None
    return replace(t.moves(k, "discarded"), blocks=(), metadata=0)


def unmark(t: Table, k: int) -> Table | None:
    """Delete the markers, whoever has the lock."""
    return replace(t.moves(k, "cleared"), markers=frozenset()) if t.keepers[k].phase == "discarded" else None


def unnote(t: Table, k: int) -> Table | None:
    """Delete the note, whoever has the lock."""
    return replace(t.moves(k, "free"), note=0) if t.keepers[k].phase == "cleared" else None


def note(t: Table, k: int) -> Table | None:
    """Note its run, whoever has the lock."""
    if t.keepers[k].phase != "free":
        return None
    run = t.runs + 1
    return replace(t.moves(k, "noted", number=run), note=run, runs=run)


def begin(t: Table, k: int) -> Table | None:
    """Create the inflight file, and give the lock back."""
    if t.keepers[k].phase != "noted" or not t.is_held(k) or t.inflight:
        return None
    return replace(t.moves(k, "leased"), inflight=True, newest=t.keepers[k].number).freed(k)


def give_up(t: Table, k: int) -> Table | None:
    """End, having lost the lock, or found an inflight file."""
    phase = t.keepers[k].phase
    lost = t.rules.verifies and t.holder != k
    if phase in {"taken", "reverted", "emptied", "noted"} and (lost or (phase == "noted" and t.inflight)):
        return t.moves(k, "idle", number=0, doomed=frozenset()).freed(k)
    return None


# --- it runs the plan, without the lock


def mark(t: Table, k: int) -> Table | None:
    """Create the marker of its file."""
    keeper = t.keepers[k]
    return replace(t.moves(k, "marked"), markers=t.markers | {keeper.number}) if keeper.phase == "leased" else None


def write(t: Table, k: int) -> Table | None:
    """Write its file."""
    keeper = t.keepers[k]
    return replace(t.moves(k, "written"), files=t.files | {keeper.number}) if keeper.phase == "marked" else None


def stage(t: Table, k: int) -> Table | None:
    """Write its log file of an index of the metadata table; it fails where another run's file has the name."""
    keeper = t.keepers[k]
    if keeper.phase != "written":
        return None
    if t.rules.same_names and t.blocks:
        return t.moves(k, "failing")
    return replace(t.moves(k, "staged"), blocks=(*t.blocks, keeper.number))


# --- it completes, under the lock


def end(t: Table, k: int) -> Table | None:
    """Take the lock."""
    if t.keepers[k].phase != "staged" or t.holder != NOBODY:
        return None
    return replace(t.moves(k, "ending"), holder=k)


def check(t: Table, k: int) -> Table | None:
    """See whether the run is the newest, its marker and the inflight file are there, and the plan isn't completed."""
    keeper = t.keepers[k]
    if keeper.phase != "ending":
        return None
    noted = not t.rules.checks_note or t.note == keeper.number
    marked = keeper.number in t.markers
    there = not t.rules.sees_inflight or t.inflight
    if noted and marked and there and not t.completed:
        return t.moves(k, "checked")
    return t.moves(k, "failing").freed(k)


def complete_metadata(t: Table, k: int) -> Table | None:
    """Write to the metadata table."""
    if t.keepers[k].phase != "checked" or not t.is_held(k):
        return None
    return replace(t.moves(k, "half"), metadata=t.keepers[k].number)


def complete(t: Table, k: int) -> Table | None:
    """Complete the plan."""
    run = t.keepers[k].number
    if t.keepers[k].phase != "half" or not t.is_held(k):
        return None
    done = t.moves(k, "idle", number=0, doomed=frozenset()).freed(k)
    return replace(done, completed=(*t.completed, run), inflight=False, displaced=t.displaced or run != t.newest)


def lose(t: Table, k: int) -> Table | None:
    """Fail, having lost the lock."""
    lost = t.rules.verifies and t.holder != k
    return t.moves(k, "failing") if lost and t.keepers[k].phase in {"checked", "half"} else None


def undo(t: Table, k: int) -> Table | None:
    """Delete its own file, under the lock."""
    keeper = t.keepers[k]
    if keeper.phase != "failing" or t.holder != NOBODY:
        return None
    return replace(t.moves(k, "idle", number=0, doomed=frozenset()), files=t.files - {keeper.number})


# --- what goes wrong


def die(t: Table, k: int) -> Table | None:
    """Die."""
    after = t.goes_wrong()
    if t.keepers[k].phase == "idle" or after is None:
        return None
    return after.moves(k, "idle", number=0, doomed=frozenset())


def expire(t: Table) -> Table | None:
    """Free the lock: its holder died, or stands still."""
    if t.holder == NOBODY:
        return None
    after = t.goes_wrong(int(t.keepers[t.holder].phase != "idle"))
    return None if after is None else replace(after, holder=NOBODY)


def first_tables(rules: Rules, keepers: int, mishaps: int) -> Iterator[Table]:
    """Yield the state that a search begins with: a plan that nobody runs."""
    yield Table({11 + k: Keeper() for k in range(keepers)}, most=mishaps, rules=rules)


def table_of(state: Mapping[str, Any], rules: Rules) -> Table:
    """A state that Quint made."""
    keepers = {k: Keeper(**each) for k, each in state["keepers"].items()}
    return Table(**{**state, "keepers": keepers}, rules=rules)


ACTIONS = (
    *(take, revert, delete, discard, unmark, unnote, note, begin, give_up, mark, write, stage),
    *(end, check, complete_metadata, complete, lose, undo, die),
)


def steps(t: Table) -> Iterator[tuple[str, Table]]:
    """Yield every action that is enabled, and the table after it."""
    for k in t.keepers:
        for action in ACTIONS:
            after = action(t, k)
            if after is not None:
                yield f"{action.__name__} {k}", after
    after = expire(t)
    if after is not None:
        yield "expire", after


def broken_invariant(t: Table) -> str | None:
    """Return the name of an invariant that doesn't hold; None if all do."""
    if not t.files.issuperset(t.completed):
        return "files_stay"
    if len(t.completed) > 1:
        return "one_result"
    if t.completed and t.metadata != t.completed[-1]:
        return "metadata_follows"
    if t.completed and t.blocks[-1:] != t.completed[-1:]:
        return "index_follows"
    return "newest_completes" if t.displaced else None
