"""Cleaning: delete the file slices that no retained state of the table needs.

A requested clean is a plan that never changes. Any process runs it: it deletes the files, then takes them out of the
metadata table and completes. A file that isn't there any more was deleted by a run that died.

Source: CleanPlanActionExecutor, CleanActionExecutor.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from posixpath import basename

from pudi.client import MetaClient, TableSnapshot
from pudi.commit.lease import ServiceLease
from pudi.config import CleanOptions, CleanPolicy
from pudi.errors import CorruptError, InvalidArgumentError
from pudi.format import HOODIE_DIR, Action, CommitMetadata, State, WriteStat, file_path, parse_data_file
from pudi.format.plans import CleanPlan, decode_clean_plan, encode_clean_metadata, encode_clean_plan
from pudi.indexes.indexed_commit import RemovedFiles
from pudi.services.clean_plan import (
    earliest_to_retain,
    is_due,
    is_due_on_metadata,
    last_clean,
    names_in_use,
    plan_clean,
    savepointed_names,
)
from pudi.services.service import Backlog, Inline, Need, PlannedService, ServiceRun, oldest_write
from pudi.services.target import ServiceTarget, TargetSnapshot, clean_to, free_time, restorable_instants
from pudi.storage import list_names
from pudi.storage.checks import check_prefix
from pudi.task import FileJob
from pudi.task.jobs import DeleteFiles
from pudi.timeline import Instant, Timeline

_FILES = 100
"""Minimum number of files that one job deletes, if there are that many."""
_SUFFIX = "002"
"""Suffix of clean instants in metadata tables below version 8, after the newest deltacommit's time."""


class Clean(PlannedService):
    """Deletes old file slices: of a metadata table, all but the newest two of each file group."""

    name = "clean"
    action = Action.CLEAN
    blocks = "later cleans, until it is run"

    def inline(self, target: ServiceTarget) -> Inline:
        """Decide by hoodie.clean.automatic; in a metadata table always run."""
        if not target.options[CleanOptions.automatic]:
            return Inline.NOTHING
        return Inline.RUN_ASYNC if target.options[CleanOptions.run_async] else Inline.RUN

    def check(self, target: ServiceTarget) -> None:
        """Refuse wrong options."""
        CleanOptions.of(target.options)

    def is_due(self, snapshot: TargetSnapshot) -> bool:
        """Decide by the number of commits since the last clean; in a metadata table after a compaction."""
        if snapshot.is_metadata:
            return is_due_on_metadata(snapshot.timeline)
        return is_due(snapshot, CleanOptions.of(snapshot.options))

    def need(self, snapshot: TargetSnapshot) -> Need | None:
        """Return the need by what the policy retains."""
        options = CleanOptions.of(snapshot.options)
        retained = CleanPolicy(options.policy).retained()
        reason = f"the policy is {options.policy}, {retained}={snapshot.options[retained]}"
        return Need(self.is_due(snapshot), reason, *clean_backlog(snapshot))

    def must_wait(self, snapshot: TargetSnapshot) -> bool:
        """Wait for a pending clean, whose files would be planned again, and if the instant's time is taken."""
        timeline, at = snapshot.timeline, self.requested_time(snapshot)
        taken = at is not None and timeline.find(at, Action.CLEAN) is not None
        return taken or bool(timeline.pending_of(Action.CLEAN))

    def requested_time(self, snapshot: TargetSnapshot) -> str | None:
        """In a metadata table below version 8: the newest deltacommit's time with a suffix."""
        if not snapshot.is_metadata or not snapshot.timeline.rules.services_have_suffixes:
            return None
        return free_time(snapshot, snapshot.timeline.of(Action.DELTACOMMIT)[-1].requested, _SUFFIX)

    def plan(self, snapshot: TargetSnapshot) -> bytes | None:
        """Plan the deletion of what the policy doesn't keep; of a metadata table also what no savepoint needs.

        Hudi's restores need a base file of the metadata table that is as old as the savepoint, and fail without one
        (HoodieBackedTableMetadataWriter.update). Its own cleans delete that.
        """
        restorable = restorable_instants(snapshot) if snapshot.is_metadata else ()
        plan = plan_clean(snapshot, CleanOptions.of(snapshot.options), restorable)
        return None if plan is None else encode_clean_plan(plan)

    def open(self, target: ServiceTarget, lease: ServiceLease) -> ServiceRun:
        """Read the plan, and refuse one that names files in use, as after a restore."""
        meta, requested = target.meta, lease.instant
        began_ms, path = meta.context.clock.now_ms(), meta.store.path(requested, State.REQUESTED)
        plan, names = _planned(meta, requested)
        snapshot = target.at(lease.timeline)
        used = names_in_use(snapshot, names)
        for name in (name for each in names.values() for name in each if name in used):
            raise CorruptError(
                f"the clean names {name!r}, which {used[name]} needs; nothing was deleted. Delete the file of the "
                "clean: the next clean makes another plan",
                table=meta.storage.root,
                path=path,
            )
        parallelism = target.options[CleanOptions.parallelism]
        return _Run(snapshot, requested.requested, plan, names, began_ms, parallelism)


class CleanHistory(Clean):
    """Deletes all slices but the newest ones, except those that a savepoint or a pending plan needs.

    It is the last step of a hard deletion.

    The clean states the newest commit as the earliest that stays, so that no reader takes what is left of earlier
    states for all of it. While a write is pending it states none, as a clean that counts slices: its commit may be
    requested earlier, and a later clean would not look for what it replaces.

    Args:
        changes: paths of change data to delete too where it belongs to the newest slices: it holds what a delete has
            just taken out of them, and only `changes()` reads it.
    """

    def __init__(self, changes: Collection[str] = frozenset()) -> None:
        self._changes = frozenset(changes)

    def plan(self, snapshot: TargetSnapshot) -> bytes | None:
        """Plan the deletion of all older slices."""
        timeline, options = snapshot.timeline, CleanOptions.of(snapshot.options.having(clean_to(1)))
        plan = plan_clean(snapshot, options)
        changes = self._of_newest(snapshot)
        if plan is None and not changes:
            return None
        plan = plan or CleanPlan(None, timeline.commits[-1].requested, policy=options.policy)
        doomed = dict(plan.files)
        for partition, paths in changes.items():
            doomed[partition] = (*doomed.get(partition, ()), *paths)
        plan = replace(plan, files=doomed)
        if not snapshot.is_metadata and oldest_write(timeline) is None:
            newest = timeline.commits[-1]
            plan = replace(plan, retained=(newest.requested, newest.action.value), policy=CleanPolicy.COMMITS.value)
        return encode_clean_plan(plan)

    def _of_newest(self, snapshot: TableSnapshot) -> dict[str, tuple[str, ...]]:
        """Return absolute locations of change data of the newest slices, by partition, but what savepoints keep."""
        if not self._changes:
            return {}
        saved = frozenset(chain.from_iterable(savepointed_names(snapshot).values()))
        view = snapshot.view(sizes=False)
        found: dict[str, tuple[str, ...]] = {}
        for group in view.groups_of(sorted({path.rpartition("/")[0] for path in self._changes})):
            newest = group.slices[0].files
            if group.id in view.replaced or saved & {basename(each) for each in newest}:
                continue
            paths = tuple(f"{snapshot.table}/{each}" for each in newest if each in self._changes)
            if paths:
                found[group.partition] = (*found.get(group.partition, ()), *paths)
        return found


def clean_backlog(snapshot: TargetSnapshot) -> Backlog:
    """Return how many commits a clean could pass since the last one; it is blocked by a pending clean or write.

    A clean passes the commits before the earliest one that stays readable, which a pending instant holds back. Slices
    that savepoints keep don't block it.

    Args:
        snapshot: the table; a metadata table has no backlog, since its cleans follow its compactions.

    Raises:
        CorruptError: the last clean can't be read.
    """
    if snapshot.is_metadata:
        return 0, None
    timeline, options = snapshot.timeline, CleanOptions.of(snapshot.options)
    last = last_clean(snapshot)
    pending = min((each.requested for each in timeline.pending_of(Action.CLEAN)), default=None)
    if options.policy == CleanPolicy.VERSIONS:
        cleaned = last.get("lastCompletedCommitTimestamp") or ""
        return sum(each.requested > cleaned for each in timeline.commits), pending
    settled = replace(timeline, instants=tuple(each for each in timeline.instants if each.is_completed))
    wanted = earliest_to_retain(snapshot.at(settled), options)
    if wanted is None:
        return 0, None
    reached = earliest_to_retain(snapshot, options)
    if pending is None and (reached is None or reached.requested < wanted.requested):
        pending = oldest_write(timeline)
    before = last.get("earliestCommitToRetain") or ""
    return sum(before <= each.requested < wanted.requested for each in timeline.commits), pending


def has_deleted(meta: MetaClient, clean: Instant) -> bool:
    """Return whether files of a pending clean are gone, so that only the end of the clean tells readers why.

    A plan that can't be read, or that names something else than data files of the table, has deleted nothing: every
    run refuses it.

    Args:
        meta: the table.
        clean: the clean.
    """
    try:
        _, names = _planned(meta, clean)
    except CorruptError:
        return False
    return any(not set(list_names(meta.storage, partition)[0]).issuperset(own) for partition, own in names.items())


def _planned(meta: MetaClient, clean: Instant) -> tuple[CleanPlan, dict[str, tuple[str, ...]]]:
    """Return a plan, and the names of its files by partition path."""
    path = meta.store.path(clean, State.REQUESTED)
    plan = meta.store.read_plan(clean, decode_clean_plan)
    return plan, _names(plan, path, meta.storage.root)


def _names(plan: CleanPlan, path: str, table: str) -> dict[str, tuple[str, ...]]:
    """Return the names of the files to delete, by partition path.

    Plans contain absolute paths, which may name the root differently and are not trusted.

    Raises:
        CorruptError: the plan names something else than data files of the table.
    """
    for partition in plan.files:
        try:
            inside = check_prefix(partition, table).partition("/")[0] != HOODIE_DIR
        except InvalidArgumentError:
            inside = False
        if not inside:
            raise _corrupt(f"partition {partition!r}", "no partition of the table", table, path)
    names = {partition: tuple(basename(file) for file in files) for partition, files in plan.files.items()}
    wrong = [name for each in names.values() for name in each if parse_data_file(name) is None]
    if wrong:
        raise _corrupt(repr(wrong[0]), "no data file", table, path)
    return names


def _corrupt(named: str, why: str, table: str, path: str) -> CorruptError:
    return CorruptError(f"the clean names {named}, which is {why}; nothing was deleted", table=table, path=path)


@dataclass(frozen=True, slots=True)
class _Run(ServiceRun):
    """One run of a plan.

    Attributes:
        snapshot: the table, as the run began with it.
        instant: requested time of the clean.
        plan: the plan.
        names: the names of its files, by partition path.
        began_ms: when the run began, in milliseconds since the epoch.
        parallelism: number of jobs at most.
    """

    snapshot: TargetSnapshot
    instant: str
    plan: CleanPlan
    names: dict[str, tuple[str, ...]]
    began_ms: int
    parallelism: int

    @property
    def removed(self) -> RemovedFiles:
        """The files of the plan."""
        return RemovedFiles(self.names)

    def jobs(self) -> Sequence[FileJob]:
        """The deletions: equal shares of all files, so that no job has a large partition for itself."""
        paths = [file_path(p, name) for p, names in self.names.items() for name in names]
        count = min(self.parallelism, -(-len(paths) // _FILES))
        ends = [len(paths) * number // count for number in range(count + 1)] if count else []
        return [DeleteFiles(number, tuple(paths[slice(*ends[number : number + 2])])) for number in range(count)]

    def check(self, now: Timeline) -> None:
        """Nothing can contradict it: commits never name files that a plan deletes."""

    def metadata(self, stats: Sequence[WriteStat]) -> CommitMetadata:
        """The operation, without files."""
        return CommitMetadata({}, operation_type="CLEAN")

    def content(self) -> bytes:
        """Return the content of the completed clean."""
        took = self.snapshot.meta.context.clock.now_ms() - self.began_ms
        return encode_clean_metadata(self.plan, self.instant, took)
