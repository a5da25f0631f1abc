"""The actions of `commits.qnt` in Python, by the same names: for traces of other programs and a search of all states.

Each action takes the table and returns the table after it, or None where it isn't enabled. Writers, keepers and file
groups may be any values, of any number; a writer may write several file groups. `agrees.py` compares the two.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

NOBODY = 0
QUINT_MISHAPS = 3
"""MISHAPS of `commits.qnt`."""
AT_WORK = frozenset({"planned", "written", "listed", "checked", "half"})
"""Phases in which a writer may die or abort."""


@dataclass(frozen=True)
class Rules:
    """Which rules hold: the constants of `commits.qnt`."""

    verifies: bool = True
    heeds_rollbacks: bool = True
    checks_conflicts: bool = True
    metadata_first: bool = True


MODULES = {
    "right": Rules(),
    "blind": Rules(verifies=False),
    "deaf": Rules(heeds_rollbacks=False),
    "rash": Rules(checks_conflicts=False),
    "late": Rules(metadata_first=False),
}
"""The modules of `commits.qnt`."""


@dataclass(frozen=True)
class Writer:
    """One that makes one commit."""

    phase: str = "idle"
    group: frozenset[Hashable] = frozenset()
    seen: frozenset[Hashable] = frozenset()
    listed: frozenset[Hashable] = frozenset()
    going: frozenset[Hashable] = frozenset()
    there: bool = False


@dataclass(frozen=True)
class Keeper:
    """One that rolls back."""

    phase: str = "idle"
    target: Hashable = 0


@dataclass(frozen=True)
class Table:
    """All of the state; see `commits.qnt`. `most` is MISHAPS, None for any number."""

    writers: Mapping[Hashable, Writer] = field(default_factory=dict)
    keepers: Mapping[Hashable, Keeper] = field(default_factory=dict)
    holder: Hashable = NOBODY
    inflight: frozenset[Hashable] = frozenset()
    completed: tuple[Hashable, ...] = ()
    told: frozenset[Hashable] = frozenset()
    files: frozenset[Hashable] = frozenset()
    metadata: frozenset[Hashable] = frozenset()
    rollbacks: frozenset[Hashable] = frozenset()
    gone: frozenset[Hashable] = frozenset()
    mishaps: int = 0
    most: int | None = None
    rules: Rules = MODULES["right"]

    @property
    def key(self) -> Hashable:
        """What tells states of one search apart."""
        of_processes = *self.writers.values(), *self.keepers.values()
        of_storage = self.holder, self.inflight, self.completed, self.told, self.files, self.metadata
        return of_processes, of_storage, self.rollbacks, self.gone, self.mishaps

    def is_held(self, p: Hashable) -> bool:
        """Whether a process has the lock, or doesn't look."""
        return not self.rules.verifies or self.holder == p

    def writes(self, w: Hashable, **changes: object) -> Table:
        """Return the table with a writer changed."""
        return replace(self, writers={**self.writers, w: replace(self.writers[w], **changes)})  # type: ignore[arg-type]

    def keeps(self, k: Hashable, keeper: Keeper) -> Table:
        """Return the table with a keeper changed."""
        return replace(self, keepers={**self.keepers, k: keeper})

    def goes_wrong(self, count: int = 1) -> Table | None:
        """Return the table after a mishap; None if there were as many as may be."""
        if self.most is not None and count and self.mishaps >= self.most:
            return None
        return replace(self, mishaps=self.mishaps + count)

    def without(self, w: Hashable) -> Table:
        """Return the table without what a writer did."""
        one = {w}
        return replace(self, files=self.files - one, inflight=self.inflight - one, metadata=self.metadata - one)

    def freed(self, p: Hashable) -> Table:
        """Return the table with the lock given back, if it was its."""
        return replace(self, holder=NOBODY) if self.holder == p else self


# --- a writer


def request(t: Table, w: Hashable) -> Table | None:
    """Begin: the instant is there, planned from the commits of now."""
    if t.writers[w].phase != "idle" or t.holder != NOBODY:
        return None
    return replace(t.writes(w, phase="planned", seen=frozenset(t.completed)), inflight=t.inflight | {w})


def write(t: Table, w: Hashable) -> Table | None:
    """Write its files."""
    if t.writers[w].phase != "planned":
        return None
    return replace(t.writes(w, phase="written"), files=t.files | {w})


def take(t: Table, w: Hashable) -> Table | None:
    """Take the lock for its commit, and list the timeline."""
    if t.writers[w].phase != "written" or t.holder != NOBODY:
        return None
    listed = t.writes(w, phase="listed", listed=frozenset(t.completed), going=t.rollbacks, there=w in t.inflight)
    return replace(listed, holder=w)


def check(t: Table, w: Hashable) -> Table | None:
    """Compare itself with commits that it has not seen, and see whether it was taken for dead."""
    own = t.writers[w]
    if own.phase != "listed":
        return None
    conflict = t.rules.checks_conflicts and any(t.writers[c].group & own.group for c in own.listed - own.seen)
    if conflict or not own.there or (t.rules.heeds_rollbacks and w in own.going):
        return t.writes(w, phase="failed").freed(w).without(w)
    return t.writes(w, phase="checked")


def lose(t: Table, w: Hashable) -> Table | None:
    """Undo what it did, having lost the lock."""
    if t.writers[w].phase not in {"checked", "half"} or not t.rules.verifies or t.holder != NOBODY:
        return None
    failed = t.writes(w, phase="failed")
    return failed if w in t.completed else failed.without(w)


def abort(t: Table, w: Hashable) -> Table | None:
    """Undo what it did, since something else went wrong or another rule refuses it."""
    after = t.goes_wrong()
    if t.writers[w].phase not in AT_WORK or t.holder not in {NOBODY, w} or after is None:
        return None
    return after.writes(w, phase="failed").freed(w).without(w)


def complete_metadata(t: Table, w: Hashable) -> Table | None:
    """Complete its deltacommit of the metadata table."""
    first = t.rules.metadata_first
    if t.writers[w].phase != ("checked" if first else "half") or not t.is_held(w):
        return None
    added = replace(t, metadata=t.metadata | {w})
    return added.writes(w, phase="half") if first else _acknowledged(added, w)


def complete(t: Table, w: Hashable) -> Table | None:
    """Become visible."""
    first = t.rules.metadata_first
    if t.writers[w].phase != ("half" if first else "checked") or not t.is_held(w):
        return None
    visible = replace(t, completed=(*t.completed, w), inflight=t.inflight - {w})
    return _acknowledged(visible, w) if first else visible.writes(w, phase="half")


def _acknowledged(t: Table, w: Hashable) -> Table:
    return replace(t.writes(w, phase="done"), told=t.told | {w}).freed(w)


def die(t: Table, w: Hashable) -> Table | None:
    """Die."""
    if t.writers[w].phase not in AT_WORK:
        return None
    after = t.goes_wrong()
    return None if after is None else after.writes(w, phase="dead")


# --- a keeper


def begin_rollback(t: Table, k: Hashable, target: Hashable) -> Table | None:
    """Plan the rollback of an instant whose writer is taken for dead, or go on with a pending one."""
    if t.keepers[k].phase != "idle" or t.holder != NOBODY or target not in t.inflight | t.rollbacks:
        return None
    lives = t.writers[target].phase != "dead" and target not in t.rollbacks
    after = t.goes_wrong(int(lives))
    if after is None:
        return None
    return replace(after.keeps(k, Keeper("begun", target)), holder=k, rollbacks=t.rollbacks | {target})


def hide(t: Table, k: Hashable) -> Table | None:
    """Delete the files of the instant."""
    keeper = t.keepers[k]
    if keeper.phase != "begun" or not t.is_held(k):
        return None
    left = tuple(c for c in t.completed if c != keeper.target)
    return replace(t.keeps(k, Keeper("hidden", keeper.target)), completed=left, files=t.files - {keeper.target})


def end_rollback(t: Table, k: Hashable) -> Table | None:
    """Complete the rollback."""
    keeper = t.keepers[k]
    if keeper.phase != "hidden" or not t.is_held(k):
        return None
    one = {keeper.target}
    after = replace(t, metadata=t.metadata - one, inflight=t.inflight - one, rollbacks=t.rollbacks - one)
    return replace(after.keeps(k, Keeper()), gone=t.gone | one).freed(k)


def give_up(t: Table, k: Hashable) -> Table | None:
    """Die, or fail, in the middle of a rollback."""
    after = t.goes_wrong()
    if t.keepers[k].phase == "idle" or after is None:
        return None
    return after.keeps(k, Keeper())


def expire(t: Table) -> Table | None:
    """Free the lock: its holder died, or stands still."""
    if t.holder == NOBODY:
        return None
    stands = t.keepers[t.holder].phase != "idle" if t.holder in t.keepers else t.writers[t.holder].phase != "dead"
    after = t.goes_wrong(int(stands))
    return None if after is None else replace(after, holder=NOBODY)


def first_tables(rules: Rules, writers: int, keepers: int, mishaps: int) -> Iterator[Table]:
    """Yield the states that a search begins with: each writer writes one of two file groups."""
    for groups in product((1, 2), repeat=writers):
        at_work = {w: Writer(group=frozenset({group})) for w, group in enumerate(groups, 1)}
        yield Table(at_work, {11 + k: Keeper() for k in range(keepers)}, most=mishaps, rules=rules)


def table_of(state: Mapping[str, Any], rules: Rules) -> Table:
    """A state that Quint made."""
    writers = {w: Writer(**{**each, "group": frozenset({each["group"]})}) for w, each in state["writers"].items()}
    keepers = {k: Keeper(**each) for k, each in state["keepers"].items()}
    return Table(**{**state, "writers": writers, "keepers": keepers}, most=QUINT_MISHAPS, rules=rules)


def steps(t: Table) -> Iterator[tuple[str, Table]]:
    """Yield every action that is enabled, and the table after it."""
    of_writers = (request, write, take, check, lose, abort, complete_metadata, complete, die)
    for w in t.writers:
        for action in of_writers:
            after = action(t, w)
            if after is not None:
                yield f"{action.__name__} {w}", after
    for k in t.keepers:
        for target in t.inflight | t.rollbacks:
            after = begin_rollback(t, k, target)
            if after is not None:
                yield f"begin_rollback {k} {target}", after
        for act in (hide, end_rollback, give_up):
            after = act(t, k)
            if after is not None:
                yield f"{act.__name__} {k}", after
    after = expire(t)
    if after is not None:
        yield "expire", after


def broken_invariant(t: Table) -> str | None:
    """Return the name of an invariant that doesn't hold; None if all do."""
    done = frozenset(t.completed)
    if not (t.told <= done and t.told <= t.files):
        return "acknowledged_stay"
    for place, later in enumerate(t.completed):
        for earlier in t.completed[:place]:
            if t.writers[earlier].group & t.writers[later].group and earlier not in t.writers[later].seen:
                return "serialisable"
    if not done <= t.metadata | t.rollbacks:
        return "metadata_follows"
    return "gone_stay_gone" if done & t.gone else None
