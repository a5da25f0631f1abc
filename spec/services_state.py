"""The state of `services.qnt` in Python, what readers see of it, what holds always; `services.py` has the actions."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

RETAINED = 1
"""Number of commits that a clean retains."""


@dataclass(frozen=True)
class Rules:
    """Which rules hold: the constants of `services.qnt`."""

    checks_conflicts: bool = True
    owns_groups: bool = True
    checks_runs: bool = True
    names_runs: bool = True
    caps: bool = True
    retains: bool = True
    keeps_replaced: bool = True
    keeps_saved: bool = True
    keeps_saved_late: bool = True


MODULES = {
    "right": Rules(),
    "rash": Rules(checks_conflicts=False),
    "trespassing": Rules(owns_groups=False),
    "double": Rules(checks_runs=False),
    "same_names": Rules(names_runs=False),
    "uncapped": Rules(caps=False),
    "greedy": Rules(retains=False),
    "prompt": Rules(keeps_replaced=False),
    "unsaved": Rules(keeps_saved=False, keeps_saved_late=False),
    "named_only": Rules(keeps_saved_late=False),
}
"""The modules of `services.qnt`."""


class File(NamedTuple):
    """A base file or log file.

    Attributes:
        group: its file group.
        instant: the requested time of the commit that it belongs to.
        attempt: which run of a plan wrote it; 0 for a write.
        base: whether it's a base file.
        holds: the writers whose records it has.
    """

    group: Hashable
    instant: int
    attempt: Hashable
    base: bool
    holds: frozenset[Hashable] = frozenset()

    def __str__(self) -> str:
        return f"{'base' if self.base else 'log'}({self.group}, {self.instant}, run {self.attempt})"


class Commit(NamedTuple):
    """A completed instant: its kind is write, compact or cluster."""

    kind: str
    requested: int
    completed: int
    adds: frozenset[File]
    replaces: frozenset[Hashable] = frozenset()

    @property
    def groups(self) -> frozenset[Hashable]:
        """The file groups that it wrote or replaced."""
        return self.replaces.union(file.group for file in self.adds)


@dataclass(frozen=True)
class Writer:
    """One that makes one commit: log files, or base files where it rewrites.

    Attributes:
        phase: idle, planned, done or failed.
        groups: the file groups that it writes; `replaces`, those that it replaces.
        rewrites: those of which it makes base files.
        seen: requested times of the commits that it was planned from.
        reads: the files that it was planned from.
        requested: when.
    """

    phase: str = "idle"
    groups: frozenset[Hashable] = frozenset()
    rewrites: frozenset[Hashable] = frozenset()
    replaces: frozenset[Hashable] = frozenset()
    seen: frozenset[int] = frozenset()
    reads: frozenset[File] = frozenset()
    requested: int = 0


@dataclass(frozen=True)
class Plan:
    """A compaction or a clustering.

    Attributes:
        phase: none, pending, done or dropped.
        kind: compact or cluster.
        groups: the file groups that it takes.
        reads: the files that it names.
        instant: its requested time.
        attempt: the number of its newest run; 0 before the first.
        results: how many times it was completed.
    """

    phase: str = "none"
    kind: str = ""
    groups: frozenset[Hashable] = frozenset()
    reads: frozenset[File] = frozenset()
    instant: int = 0
    attempt: int = 0
    results: int = 0


@dataclass(frozen=True)
class Keeper:
    """One that runs plans: idle, leased, or written, with the files of its run."""

    phase: str = "idle"
    plan: Hashable = 0
    attempt: int = 0
    wrote: frozenset[File] = frozenset()


@dataclass(frozen=True)
class Reader:
    """One that holds a snapshot: idle or open.

    Attributes:
        phase: idle or open.
        began: when.
        needs: the files of its snapshot.
    """

    phase: str = "idle"
    began: int = 0
    needs: frozenset[File] = frozenset()


@dataclass(frozen=True)
class Table:
    """All of the state; see `services.qnt`. `most` is MISHAPS, `cleans` is CLEANS; None for any number."""

    writers: Mapping[Hashable, Writer] = field(default_factory=dict)
    plans: Mapping[Hashable, Plan] = field(default_factory=dict)
    keepers: Mapping[Hashable, Keeper] = field(default_factory=dict)
    reader: Reader = Reader()
    commits: frozenset[Commit] = frozenset()
    files: frozenset[File] = frozenset()
    doomed: frozenset[File] = frozenset()  # of the pending clean; empty without one
    cleaned: int = 0
    saved: Mapping[int, frozenset[File]] = field(default_factory=dict)  # the files of each savepoint, by its commit
    now: int = 1
    mishaps: int = 0
    most: int | None = None
    cleans: int | None = None
    retained: int = RETAINED
    rules: Rules = MODULES["right"]

    @property
    def key(self) -> Hashable:
        """What tells states of one search apart."""
        of_processes = *self.writers.values(), *self.plans.values(), *self.keepers.values(), self.reader
        of_storage = self.commits, self.files, self.doomed, self.cleaned, tuple(self.saved.items())
        return of_processes, of_storage, self.now, self.mishaps

    def writes(self, w: Hashable, **changes: object) -> Table:
        """Return the table with a writer changed."""
        return replace(self, writers={**self.writers, w: replace(self.writers[w], **changes)})  # type: ignore[arg-type]

    def plan(self, p: Hashable, **changes: object) -> Table:
        """Return the table with a plan changed."""
        return replace(self, plans={**self.plans, p: replace(self.plans[p], **changes)})  # type: ignore[arg-type]

    def keeps(self, k: Hashable, keeper: Keeper) -> Table:
        """Return the table with a keeper changed."""
        return replace(self, keepers={**self.keepers, k: keeper})

    def goes_wrong(self, count: int = 1) -> Table | None:
        """Return the table after a mishap; None if there were as many as may be."""
        if self.most is not None and count and self.mishaps >= self.most:
            return None
        return replace(self, mishaps=self.mishaps + count)

    def without(self, files: frozenset[File]) -> Table:
        """Return the table without files."""
        return replace(self, files=self.files - files)


# --- what readers see


def replaced(t: Table, at: int) -> frozenset[Hashable]:
    """The file groups that commits had replaced, as of a requested time."""
    return frozenset().union(*(c.replaces for c in t.commits if c.requested <= at))


def slice_of(t: Table, group: Hashable, at: int) -> frozenset[File]:
    """The newest file slice of a file group as of a requested time; a log file belongs to one by its completion."""
    return _slice(t.commits, group, at)


@lru_cache(10_000)
def _slice(commits: frozenset[Commit], group: Hashable, at: int) -> frozenset[File]:
    own = [(c, f) for c in commits if c.requested <= at for f in c.adds if f.group == group]
    begins = begin_of(f for _, f in own)
    return frozenset(f for c, f in own if (f.instant == begins if f.base else c.completed >= begins))


def live_groups(t: Table, at: int) -> frozenset[Hashable]:
    """The file groups of the table as of a requested time."""
    return frozenset(f.group for c in t.commits if c.requested <= at for f in c.adds) - replaced(t, at)


def state(t: Table, at: int) -> frozenset[File]:
    """The files of the table as of a requested time."""
    return _state(t.commits, at)


@lru_cache(10_000)
def _state(commits: frozenset[Commit], at: int) -> frozenset[File]:
    t = Table(commits=commits)
    return frozenset().union(*(slice_of(t, group, at) for group in live_groups(t, at)))


def pending_plans(t: Table) -> list[Plan]:
    """The pending compactions and clusterings."""
    return [each for each in t.plans.values() if each.phase == "pending"]


def pending(t: Table) -> frozenset[int]:
    """The requested times of pending writes, compactions and clusterings."""
    writes = (w.requested for w in t.writers.values() if w.phase == "planned")
    return frozenset(writes) | {plan.instant for plan in pending_plans(t)}


def begin_of(files: Iterable[File]) -> int:
    """When a file slice begins: at its base file, or from the first if it has none."""
    return max((f.instant for f in files if f.base), default=-1)


# --- what holds always


def has_files(t: Table, at: int) -> bool:
    """Whether all files of the table as of a requested time are there."""
    return state(t, at) <= t.files


def has_records(t: Table, at: int) -> bool:
    """Whether each write that had completed by then is there, once."""
    found = [w for file in state(t, at) for w in file.holds]
    done = [w for w, each in t.writers.items() if each.phase == "done" and each.requested <= at]
    return len(found) == len(done) and set(found) == set(done)


def retained_times(t: Table) -> list[int]:
    """The times that may be read: of the newest commits, of savepoints, and now."""
    return [*sorted(c.requested for c in t.commits)[-t.retained :], *t.saved, t.now]


def files_stay(t: Table) -> bool:
    """The newest state, the retained ones and those of savepoints have their files."""
    return all(has_files(t, at) for at in retained_times(t))


def nothing_lost(t: Table) -> bool:
    """Each completed write is there once, in each of these states."""
    return all(has_records(t, at) for at in retained_times(t))


def plans_have_files(t: Table) -> bool:
    """The files that pending plans name are there; runs leave out file groups that were replaced."""
    gone = replaced(t, t.now)
    return t.files.issuperset(f for each in pending_plans(t) for f in each.reads if f.group not in gone)


def is_overtaken(t: Table, at: int) -> bool:
    """Whether something completed later that was pending then: a clean retains its file slices instead."""
    return any(c.requested < at < c.completed for c in t.commits)


def writes_have_files(t: Table) -> bool:
    """The files that pending writes were planned from are there; an overtaken write may have to be planned again."""
    own = (w for w in t.writers.values() if w.phase == "planned" and not is_overtaken(t, w.requested))
    return t.files.issuperset(f for w in own for f in w.reads)


def readers_have_files(t: Table) -> bool:
    """A snapshot has its files until more commits were requested after it than a clean retains, or it's overtaken."""
    newer = sum(c.requested > t.reader.began for c in t.commits)
    within = newer <= t.retained and not is_overtaken(t, t.reader.began)
    return t.reader.phase != "open" or not within or t.reader.needs <= t.files


def one_result(t: Table) -> bool:
    """A plan is completed once."""
    return all(each.results <= 1 for each in t.plans.values())


INVARIANTS: tuple[Callable[[Table], bool], ...] = (
    files_stay, nothing_lost, plans_have_files, writes_have_files, readers_have_files, one_result,
)  # fmt: skip


def broken_invariant(t: Table) -> str | None:
    """Return the name of an invariant that doesn't hold; None if all do."""
    return next((each.__name__ for each in INVARIANTS if not each(t)), None)
