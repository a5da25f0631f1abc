"""The actions of `services.qnt` in Python, by the same names: for traces of other programs and a search of all states.

Each action takes the table and returns the table after it, or None where it isn't enabled. Beyond `services.qnt`, a
writer may write and replace several file groups, a plan may take several, and there may be several savepoints.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from services_state import (
    MODULES,
    Commit,
    File,
    Keeper,
    Plan,
    Reader,
    Rules,
    Table,
    Writer,
    begin_of,
    broken_invariant,
    live_groups,
    pending,
    pending_plans,
    replaced,
    slice_of,
    state,
)

__all__ = ["MODULES", "broken_invariant", "first_tables", "steps", "table_of"]

QUINT_MISHAPS = 2
"""MISHAPS of `services.qnt`."""
QUINT_CLEANS = 2
"""CLEANS of `services.qnt`."""
NEW = 100
"""The file group that a clustering makes is its plan's number after this one."""


# --- a writer


def plan(t: Table, w: Hashable, group: Hashable, rewrites: bool) -> Table | None:
    """Request a write to a file group; it may make a base file only where it merges no log files."""
    if t.writers[w].phase != "idle" or group not in live_groups(t, t.now):
        return None
    reads = slice_of(t, group, t.now)
    if rewrites and not all(file.base for file in reads):
        return None
    one = frozenset({group})
    return plan_all(t, w, one, one if rewrites else frozenset(), frozenset(), reads)


def plan_all(
    t: Table,
    w: Hashable,
    groups: frozenset[Hashable],
    rewrites: frozenset[Hashable],
    replaces: frozenset[Hashable],
    reads: frozenset[File],
) -> Table | None:
    """Request a write to any file groups."""
    if t.writers[w].phase != "idle":
        return None
    seen = frozenset(c.requested for c in t.commits)
    planned = Writer("planned", groups, rewrites, replaces, seen, reads, t.now)
    return replace(t.writes(w, **vars(planned)), now=t.now + 1)


def contradicted(t: Table, w: Hashable) -> bool:
    """Whether a write must be refused."""
    own = t.writers[w]
    touched = own.groups | own.replaces
    unseen = [c for c in t.commits if c.requested not in own.seen]
    if t.rules.checks_conflicts:
        if any(c.groups & touched for c in unseen if c.kind != "compact"):
            return True
        if any(c.groups & (own.rewrites | own.replaces) for c in unseen if c.kind == "compact"):
            return True
    return t.rules.owns_groups and any(each.groups & touched for each in pending_plans(t) if each.kind == "cluster")


def complete(t: Table, w: Hashable) -> Table | None:
    """Write and complete, under the lock, or be refused."""
    own = t.writers[w]
    if own.phase != "planned":
        return None
    if contradicted(t, w):
        return t.writes(w, phase="failed")
    before = frozenset().union(*(file.holds for file in own.reads if file.base))
    return completed_with(t, w, frozenset(
        File(g, own.requested, 0, g in own.rewrites, (before if g in own.rewrites else frozenset()) | {w})
        for g in own.groups
    ))  # fmt: skip


def completed_with(t: Table, w: Hashable, adds: frozenset[File]) -> Table:
    """Complete a write with its files."""
    own = t.writers[w]
    commit = Commit("write", own.requested, t.now, adds, own.replaces)
    done = t.writes(w, phase="done")
    return replace(done, files=t.files | adds, commits=t.commits | {commit}, now=t.now + 1)


def abort(t: Table, w: Hashable) -> Table | None:
    """Fail, or be rolled back."""
    return t.writes(w, phase="failed") if t.writers[w].phase == "planned" else None


# --- compaction and clustering


def schedule(t: Table, p: Hashable, kind: str, group: Hashable) -> Table | None:
    """Plan one, under the lock: of a file group that no other plan takes."""
    if t.plans[p].phase != "none" or group not in live_groups(t, t.now):
        return None
    reads = slice_of(t, group, t.now)
    if kind == "compact" and all(file.base for file in reads):
        return None
    return schedule_all(t, p, kind, frozenset({group}), reads)


def schedule_all(t: Table, p: Hashable, kind: str, groups: frozenset[Hashable], reads: frozenset[File]) -> Table | None:
    """Plan one of any file groups."""
    busy = any(each.groups & groups for each in pending_plans(t))
    if t.plans[p].phase != "none" or busy:
        return None
    planned = Plan("pending", kind, groups, reads, t.now)
    return replace(t.plan(p, **vars(planned)), now=t.now + 1)


def is_run(t: Table, p: Hashable) -> bool:
    """Whether the newest run of a plan goes on."""
    return any(k.phase != "idle" and k.plan == p and k.attempt == t.plans[p].attempt for k in t.keepers.values())


def of_instant(t: Table, p: Hashable) -> frozenset[File]:
    """The files of a plan's instant."""
    return frozenset(file for file in t.files if file.instant == t.plans[p].instant)


def lease(t: Table, k: Hashable, p: Hashable) -> Table | None:
    """Begin a run, under the lock: delete the files of an earlier run, whose process is taken for dead."""
    own = t.plans[p]
    if t.keepers[k].phase != "idle" or own.phase != "pending":
        return None
    after = t.goes_wrong(int(is_run(t, p)))
    if after is None:
        return None
    gone = replaced(t, t.now) if own.kind == "compact" else frozenset()
    reads = frozenset(file for file in own.reads if file.group not in gone)  # a compaction leaves out what was replaced
    after = after.without(of_instant(t, p)).plan(p, attempt=own.attempt + 1, groups=own.groups - gone, reads=reads)
    return after.keeps(k, Keeper("leased", p, own.attempt + 1))


def write(t: Table, k: Hashable) -> Table | None:
    """Write the files of a run: each has the run in its name."""
    keeper = t.keepers[k]
    if keeper.phase != "leased":
        return None
    own = t.plans[keeper.plan]
    group = NEW + keeper.plan if own.kind == "cluster" else next(iter(own.groups))
    holds = frozenset().union(*(file.holds for file in own.reads))
    attempt = keeper.attempt if t.rules.names_runs else 1
    return write_all(t, k, frozenset({File(group, own.instant, attempt, True, holds)}))


def write_all(t: Table, k: Hashable, wrote: frozenset[File]) -> Table | None:
    """Write any files."""
    keeper = t.keepers[k]
    if keeper.phase != "leased":
        return None
    return replace(t.keeps(k, replace(keeper, phase="written", wrote=wrote)), files=t.files | wrote)


def is_outdated(t: Table, p: Hashable) -> bool:
    """Whether a clustering's file groups are no longer as its plan names them, or were replaced."""
    own = t.plans[p]
    if own.groups & replaced(t, t.now):
        return True
    return own.kind == "cluster" and frozenset().union(*(slice_of(t, g, t.now) for g in own.groups)) != own.reads


def end(t: Table, k: Hashable) -> Table | None:
    """Complete a run, under the lock; it is refused if another one took the plan over, or the plan is outdated."""
    keeper = t.keepers[k]
    if keeper.phase != "written":
        return None
    own = t.plans[keeper.plan]
    idle = t.keeps(k, Keeper())
    is_own = own.phase == "pending" and own.attempt == keeper.attempt and keeper.wrote <= t.files
    if t.rules.checks_runs and not is_own:
        return idle.without(keeper.wrote)
    if t.rules.owns_groups and is_outdated(t, keeper.plan):
        phase = (
            "dropped" if own.kind == "cluster" else "pending"
        )  # a compaction is run again, without what was replaced
        return idle.without(keeper.wrote).plan(keeper.plan, phase=phase)
    commit = Commit(own.kind, own.instant, t.now, keeper.wrote, own.groups if own.kind == "cluster" else frozenset())
    done = idle.plan(keeper.plan, phase="done", results=own.results + 1)
    return replace(done, commits=t.commits | {commit}, now=t.now + 1)


def die(t: Table, k: Hashable) -> Table | None:
    """Die, or fail, in the middle of a run."""
    after = t.goes_wrong()
    if t.keepers[k].phase == "idle" or after is None:
        return None
    return after.keeps(k, Keeper())


def drop(t: Table, p: Hashable) -> Table | None:
    """Roll a plan back, under the lock, which no process runs."""
    if t.plans[p].phase != "pending" or is_run(t, p):
        return None
    return t.without(of_instant(t, p)).plan(p, phase="dropped")


# --- cleaning


def earliest_retained(t: Table) -> int | None:
    """The requested time of the earliest commit whose state stays; None if all do.

    It isn't later than what the oldest pending instant was planned from.
    """
    times = sorted(c.requested for c in t.commits)
    if len(times) <= t.retained:
        return None
    first, oldest = times[-t.retained], min(pending(t), default=None)
    if not t.rules.caps or oldest is None or first <= oldest:
        return first
    return max((time for time in times if time < oldest), default=None)


def unneeded(t: Table) -> frozenset[File]:
    """The files that a clean may delete."""
    retained = earliest_retained(t)
    if retained is None:
        return frozenset()
    found: set[File] = set()
    for group in {f.group for c in t.commits for f in c.adds}:
        found |= _unneeded_of(t, group, retained)
    kept: set[File] = set()
    for at, named in t.saved.items():
        kept |= named if t.rules.keeps_saved else set()
        kept |= state(t, at) if t.rules.keeps_saved_late else set()
    return frozenset(found - kept) & t.files


def _unneeded_of(t: Table, group: Hashable, retained: int) -> frozenset[File]:
    """The files of a file group that the policy doesn't keep."""
    own = frozenset(f for c in t.commits for f in c.adds if f.group == group)
    at = next((c.requested for c in t.commits if group in c.replaces), None)
    if at is not None:
        return own if at < retained or not t.rules.keeps_replaced else frozenset()
    kept = slice_of(t, group, t.now)
    if t.rules.retains:
        kept |= own - _before(t, group, begin_of(slice_of(t, group, retained - 1)))
    return own - kept


def _before(t: Table, group: Hashable, begins: int) -> frozenset[File]:
    """The files of slices before one that begins at a time."""
    own = [(c, f) for c in t.commits for f in c.adds if f.group == group]
    return frozenset(f for c, f in own if (f.instant if f.base else c.completed) < begins)


def schedule_clean(t: Table) -> Table | None:
    """Plan a clean, under the lock."""
    found = unneeded(t)
    return schedule_clean_of(t, found) if found else None


def schedule_clean_of(t: Table, doomed: frozenset[File]) -> Table | None:
    """Plan to delete some of the files that a clean may delete."""
    if t.doomed or t.cleaned == t.cleans or not doomed <= unneeded(t):
        return None
    return replace(t, doomed=doomed)


def delete(t: Table, file: File) -> Table | None:
    """Delete a file of the pending clean: any process, which began the clean or goes on with it."""
    if file not in t.doomed & t.files:
        return None
    return t.without(frozenset({file}))


def end_clean(t: Table) -> Table | None:
    """Complete the clean, when all is deleted."""
    if not t.doomed or t.doomed & t.files:
        return None
    return replace(t, doomed=frozenset(), cleaned=t.cleaned + 1)


# --- savepoints and readers


def save(t: Table) -> Table | None:
    """Make a savepoint of the newest commit: it names the files that are there."""
    at = max(c.requested for c in t.commits)
    return None if at in t.saved else replace(t, saved={**t.saved, at: state(t, at)})


def open_reader(t: Table) -> Table | None:
    """Take a snapshot."""
    if t.reader.phase != "idle":
        return None
    return replace(t, reader=Reader("open", t.now, state(t, t.now)), now=t.now + 1)


# --- searches


def first_tables(
    rules: Rules,
    writers: int,
    keepers: int,
    mishaps: int,
    plans: int = 1,
    cleans: int = 1,
    groups: int = 1,
    story: Iterable[str] = (),
) -> Iterator[Table]:
    """Yield the state that a search begins with: file groups with base files, after the steps of a story."""
    files = frozenset(File(group, 0, 0, True) for group in range(1, groups + 1))
    t = Table(
        {w: Writer() for w in range(1, writers + 1)},
        {p: Plan() for p in range(1, plans + 1)},
        {11 + k: Keeper() for k in range(keepers)},
        commits=frozenset({Commit("write", 0, 0, files)}),
        files=files,
        most=mishaps,
        cleans=cleans,
        rules=rules,
    )
    for step in story:
        t = dict(steps(t))[step]
    yield t


def table_of(state: Mapping[str, Any], rules: Rules) -> Table:
    """A state that Quint made: its records are dicts, and tuples of their items in sets."""
    commits = frozenset(Commit(**{**c, "adds": _files(c["adds"])}) for c in map(dict, state["commits"]))
    writers = {
        w: _one(Writer, each, rewrites=_groups(each) if each["rewrites"] else frozenset())
        for w, each in state["writers"].items()
    }
    plans = {p: _one(Plan, each) for p, each in state["plans"].items()}
    keepers = {k: Keeper(**{**each, "wrote": _files(each["wrote"])}) for k, each in state["keepers"].items()}
    reader = Reader(**{**state["reader"], "needs": _files(state["reader"]["needs"])})
    saved = {at: _files(files) for at, files in state["saved"].items()}
    files, doomed = _files(state["files"]), _files(state["doomed"])
    simple = {name: state[name] for name in ("cleaned", "now", "mishaps")}
    return Table(
        writers,
        plans,
        keepers,
        reader,
        commits,
        files,
        doomed,
        saved=saved,
        most=QUINT_MISHAPS,
        cleans=QUINT_CLEANS,
        rules=rules,
        **simple,
    )


def _files(found: Iterable[Any]) -> frozenset[File]:
    return frozenset(File(**dict(each)) for each in found)


def _one(kind: Callable[..., Any], found: Mapping[str, Any], **more: Any) -> Any:
    """A writer or a plan, which has one file group in Quint."""
    simple = {name: each for name, each in found.items() if name not in {"group", "rewrites", "reads"}}
    return kind(**simple, groups=_groups(found), reads=_files(found["reads"]), **more)


def _groups(found: Mapping[str, Any]) -> frozenset[int]:
    """The file group of a writer or a plan; none before it has one."""
    return frozenset({found["group"]} - {0})


def steps(t: Table) -> Iterator[tuple[str, Table]]:
    """Yield every action that is enabled, and the table after it."""
    for action, *arguments in _actions(t):
        after = action(t, *arguments)
        if after is not None:
            yield " ".join(map(str, (action.__name__, *arguments))), after


def _actions(t: Table) -> Iterator[tuple[Any, ...]]:
    groups = live_groups(t, t.now)
    for w in t.writers:
        yield from ((plan, w, group, rewrites) for group in groups for rewrites in (False, True))
        yield from ((complete, w), (abort, w))
    for p in t.plans:
        yield from ((schedule, p, kind, group) for group in groups for kind in ("compact", "cluster"))
        yield drop, p
    for k in t.keepers:
        yield from ((lease, k, p) for p in t.plans)
        yield from ((write, k), (end, k), (die, k))
    yield from ((delete, file) for file in t.doomed)
    yield from ((each,) for each in (schedule_clean, end_clean, open_reader))
    if not t.saved:
        yield (save,)
