"""Compaction: merge the log files of file slices into new base files.

A requested compaction is a plan that never changes. Any process runs it: the slices that it names are merged into base
files of its instant, which completes as a commit. Writers continue meanwhile: from table version 8 on, deltacommits
that complete after the request belong to the slice that the compaction begins; before, they name log files by its
instant.

In a metadata table, a compaction takes all slices with log files. It must never be rolled back, so it waits for
pending instants of the table (HoodieBackedTableMetadataWriter.performTableServices and its variant for
table version 6).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timezone

from pudi.client import MetaClient, TableSnapshot, merging_of
from pudi.client.settings import change_logging
from pudi.commit.conditions import refuse_older_columns
from pudi.commit.dead_writers import repair_dead_writes
from pudi.commit.lease import PlanDisplacedError, ServiceLease
from pudi.config import CompactionOptions, check_compactable, check_consistent
from pudi.errors import ConflictError
from pudi.filegroup import Replacements, busy_groups, compacted_groups, compaction_plan
from pudi.format import (
    Action,
    CommitMetadata,
    CompactionOperation,
    CompactionPlan,
    FileGroupId,
    State,
    WriteStat,
    encode_compaction_plan,
    millis_to_instant,
    parse_log_file,
    stats_by_partition,
)
from pudi.format.instants import COMPACT, LOG_COMPACT
from pudi.metadata.validity import scope_of
from pudi.metadata_write.client import metadata_deltacommit
from pudi.services.compaction_plan import is_due, plan_compaction
from pudi.services.failures import groups_aside
from pudi.services.service import Backlog, Inline, Need, PlannedService, RewritingRun, oldest_write
from pudi.services.target import ServiceTarget, TargetSnapshot, free_time
from pudi.task import FileJob
from pudi.task.compact import CompactMetadataLogsTask, CompactMetadataTask, CompactTask, sizes_of
from pudi.task.compact_logs import CompactLogsTask
from pudi.timeline import Instant, Timeline

OPERATIONS = {Action.COMPACTION: COMPACT, Action.LOGCOMPACTION: LOG_COMPACT}
"""Operation type in the commit metadata (WriteOperationType)."""
LEFT_TO_WRITES = "left to the next write: Hudi can't roll back a commit that the metadata table has compacted"
"""Why a maintenance doesn't compact a metadata table."""
_SERVICES = {Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING}
_SUFFIX = "001"
"""Suffix of compaction instants in metadata tables below version 8, after the newest deltacommit's time."""
_LOGS_SUFFIX = "005"
"""Likewise Hudi's log compactions (HoodieTableMetadataUtil.OperationSuffix)."""


class Compaction(PlannedService):
    """Merges log files into base files."""

    name = "compaction"
    action = Action.COMPACTION
    blocks = "cleaning of its log files, and archiving"
    is_set_aside = True

    def inline(self, target: ServiceTarget) -> Inline:
        """Decide by the options of inline, async and scheduled compaction, in Hudi's order."""
        if not target.meta.merges_on_read:
            return Inline.NOTHING
        options = target.options
        return Inline.of(
            run=options[CompactionOptions.inline],
            run_async=bool(options[CompactionOptions.run_async]),
            schedule=options[CompactionOptions.schedule_inline],
        )

    def check(self, target: ServiceTarget) -> None:
        """Refuse copy-on-write tables and wrong options; see `PlannedService.check`."""
        CompactionOptions.of(target.options)
        meta = target.meta
        if target.is_metadata:
            return
        meta.reload()
        check_compactable(meta.config, meta.storage.root, target.options)
        check_consistent(meta.config, target.options, meta.storage.root)

    def prepare(self, target: ServiceTarget) -> None:
        """Check that the merge rule is known; repair in layout 1, where log blocks of dead writes block plans."""
        if target.is_metadata:
            return
        assert merging_of(target.load()) is not None
        if target.meta.store.rules.logs_name_their_slice:
            repair_dead_writes(target.meta, target.options)

    def is_due(self, snapshot: TargetSnapshot) -> bool:
        """Apply the trigger of the options; a metadata table has one plan at a time."""
        if snapshot.is_metadata and is_any_planned(snapshot.timeline):
            return False
        clock, zone = snapshot.meta.context.clock, snapshot.config.timezone
        options = CompactionOptions.of(snapshot.options)
        return is_due(snapshot.timeline, options, lambda: millis_to_instant(clock.now_ms(), zone))

    def need(self, snapshot: TargetSnapshot) -> Need | None:
        """Return the need by the trigger; None in a copy-on-write table."""
        if not snapshot.meta.merges_on_read:
            return None
        timeline = snapshot.timeline
        last = max((i.requested for i in timeline.of(Action.COMMIT)), default="")
        since = sum(timeline.order(i) > last for i in timeline.of(Action.DELTACOMMIT))
        options = CompactionOptions.of(snapshot.options)
        reason = f"{since} deltacommits since the last compaction; the trigger is {options.trigger}"
        if snapshot.is_metadata and holds_newest(snapshot):
            return Need(False, f"{LEFT_TO_WRITES} ({reason}, {options.max_delta_commits} deltacommits)")
        due, waits = self.is_due(snapshot), self.must_wait(snapshot)
        behind = since if due or since >= options.max_delta_commits else 0
        backlog = _backlog(snapshot, behind, waits=waits) if behind else (0, None)
        return Need(due, f"{reason}, {options.max_delta_commits} deltacommits", *backlog)

    def must_wait(self, snapshot: TargetSnapshot) -> bool:
        """Below version 8 for pending writes: the plan would lose their log blocks, which go to the current slice."""
        timeline = snapshot.timeline
        if snapshot.is_metadata:
            data, at = snapshot.data_timeline, self.requested_time(snapshot)
            passes = at is not None and any(each.requested < at for each in data.pending)
            return passes or may_roll_back(data, timeline)
        return timeline.rules.logs_name_their_slice and is_write_pending(timeline)

    def plan(self, snapshot: TargetSnapshot) -> bytes | None:
        """Plan the slices that the strategies choose, except those under another plan."""
        meta, is_metadata = snapshot.meta, snapshot.is_metadata
        plan = plan_compaction(
            snapshot.view(sizes=not is_metadata).all_slices(),
            CompactionOptions.of(snapshot.options),
            busy=busy_groups(meta.store, snapshot.timeline, log_compactions=False) | self._aside(snapshot),
            max_file_size=snapshot.write_options.max_file_size,
            today=date.min if is_metadata else _today(meta),  # its strategy takes all partitions
        )
        return encode_compaction_plan(plan) if plan.operations or is_metadata else None

    def requested_time(self, snapshot: TargetSnapshot) -> str | None:
        """In a metadata table below version 8: the newest deltacommit's time with a suffix."""
        if not snapshot.is_metadata or not snapshot.timeline.rules.services_have_suffixes:
            return None
        deltas = snapshot.timeline.of(Action.DELTACOMMIT)
        own = [i.requested for i in deltas if not i.requested.endswith(_LOGS_SUFFIX, 17)]
        return free_time(snapshot, own[-1], _SUFFIX) if own else None

    def groups_of(self, target: ServiceTarget, instant: Instant) -> Collection[FileGroupId]:
        """Return the file groups that the plan merges."""
        return compacted_groups(target.meta.store, instant)

    def _aside(self, snapshot: TargetSnapshot) -> set[FileGroupId]:
        return set() if snapshot.is_metadata else groups_aside(snapshot.meta.storage, self.name)

    def open(self, target: ServiceTarget, lease: ServiceLease) -> CompactionRun:
        """See `PlannedService.open`."""
        return CompactionRun.of(target, lease)


class CompactGroups(Compaction):
    """Compacts given file groups, regardless of the compaction strategy; a step of a hard deletion.

    Args:
        groups: the file groups, as partition path and file id.
    """

    def __init__(self, groups: Collection[FileGroupId]) -> None:
        self._groups = frozenset(groups)

    def plan(self, snapshot: TargetSnapshot) -> bytes | None:
        """Plan those of the file groups that have log files, except those under another plan."""
        options = snapshot.options.having({CompactionOptions.strategy.key: "UnBoundedCompactionStrategy"})
        plan = plan_compaction(
            snapshot.view().slices_of_groups(self._groups),
            CompactionOptions.of(options),
            busy=busy_groups(snapshot.meta.store, snapshot.timeline, log_compactions=False),
            max_file_size=snapshot.write_options.max_file_size,
            today=date.min,
        )
        return encode_compaction_plan(plan) if plan.operations else None


@dataclass(frozen=True, slots=True)
class CompactionRun(RewritingRun):
    """One run of the plan of a compaction or log compaction.

    Attributes:
        snapshot: the table.
        lease: the lease of its instant.
        data: the data table's timeline, loaded before the one of `snapshot`.
        plan: the slices.
    """

    snapshot: TargetSnapshot
    lease: ServiceLease
    data: Timeline
    plan: CompactionPlan

    @classmethod
    def of(cls, target: ServiceTarget, lease: ServiceLease) -> CompactionRun:
        """Read the plan, without file groups that were replaced and metadata partitions that were dropped since.

        A replacement that was requested before the plan may be archived before the compaction is: then nothing would
        say that the files of both were deleted rightly.
        """
        data = target.data.store.load() if target.is_metadata else lease.timeline
        snapshot = target.load() if target.is_metadata else target.at(data)
        plan = compaction_plan(target.meta.store, lease.instant)
        if target.is_metadata:
            target.data.reload()
            config = target.data.config
            there = {*config.metadata_partitions, *config.metadata_partitions_inflight}
            plan = replace(plan, operations=tuple(each for each in plan.operations if each.partition_path in there))
        else:
            gone = Replacements.of(target.meta.store, data).instants
            plan = replace(plan, operations=tuple(each for each in plan.operations if each.group not in gone))
        return cls(snapshot, lease, data, plan)

    @property
    def operations(self) -> Sequence[CompactionOperation]:
        """The slices of the plan."""
        return self.plan.operations

    def jobs(self) -> Sequence[FileJob]:
        """One job for each slice."""
        snapshot = self.snapshot
        sizes = sizes_of(snapshot.meta.store, snapshot.timeline, self.plan.operations)
        make = self._metadata_job if snapshot.is_metadata else self._data_job()
        return [make(n, each, sizes[n]) for n, each in enumerate(self.plan.operations)]

    def check(self, now: Timeline) -> None:
        """Check that the inputs still count and that no compaction conflicts; see `ServiceRun.check`."""
        own, root, meta = self.lease.instant, self.snapshot.table, self.snapshot.meta
        if self.snapshot.is_metadata:
            if any(i.requested >= own.requested for i in now.of(Action.COMMIT)):
                raise PlanDisplacedError(
                    "another process compacted the metadata table meanwhile", table=root, instant=own.requested
                )
            return
        refuse_older_columns(self.snapshot, now, own)
        if own.action is Action.LOGCOMPACTION and is_compacted_after(self.snapshot.at(now), own):
            raise PlanDisplacedError(
                "a compaction was planned meanwhile, which merges the same log files",
                table=root,
                instant=own.requested,
            )
        replaced = Replacements.of(meta.store, now).instants
        both = {operation.group for operation in self.plan.operations} & replaced.keys()
        if both:
            raise ConflictError(
                f"{min(both).text} was replaced while the {own.action.value} ran: run the plan again, which then "
                "leaves it out",
                table=root,
                instant=own.requested,
            )
        for instant in sorted({time for operation in self.plan.operations for time in _inputs(operation, now)}):
            gone = now.commit(instant) is None and (now.start is None or instant >= now.start)
            if gone or now.is_pending(instant):
                raise ConflictError(
                    f"commit {instant}, whose files the {own.action.value} merged, was rolled back; roll the "
                    "plan back too",
                    table=root,
                    instant=own.requested,
                )

    def metadata(self, stats: Sequence[WriteStat]) -> CommitMetadata:
        """The commit metadata with the table's schema; see `ServiceRun.metadata`."""
        action = self.lease.instant.action
        if self.snapshot.is_metadata:
            written = metadata_deltacommit(stats_by_partition(stats), OPERATIONS[action])
            return replace(written, compacted=action is Action.COMPACTION)
        return replace(self.written(stats, OPERATIONS[action], self.plan.extra_metadata), compacted=True)

    def _data_job(self) -> Callable[[int, CompactionOperation, Mapping[str, int]], FileJob]:
        snapshot = self.snapshot
        merging = merging_of(snapshot)
        assert merging is not None
        spec = replace(
            self.spec(merging),
            verify=CompactionOptions.of(snapshot.options).verify,
            changes=change_logging(snapshot.meta, snapshot.write_options, self.as_planned.schema),
        )
        task = CompactLogsTask if self.lease.instant.action is Action.LOGCOMPACTION else CompactTask
        return lambda number, operation, sizes: task(spec, number, operation, sizes)

    def _metadata_job(self, number: int, operation: CompactionOperation, sizes: Mapping[str, int]) -> FileJob:
        store, instant = self.snapshot.meta.store, self.lease.instant
        scope = scope_of(self.data, self.snapshot.timeline, store)
        place = (instant.requested, self.lease.run, number, operation, scope, sizes)
        if instant.action is Action.LOGCOMPACTION:
            return CompactMetadataLogsTask(*place, layout=store.layout)
        return CompactMetadataTask(*place)


def _backlog(snapshot: TargetSnapshot, waiting: int, *, waits: bool) -> Backlog:
    """Return the deltacommits since the last compaction; it is blocked by a pending plan, or by pending writes.

    Args:
        snapshot: the table.
        waiting: number of these deltacommits.
        waits: whether a pending write forbids a plan (`Compaction.must_wait`).
    """
    plans = [each.requested for each in snapshot.timeline.pending_of(Action.COMPACTION)]
    if plans:
        return waiting, min(plans)
    return waiting, oldest_write(snapshot.data_timeline) if waits else None


def _today(meta: MetaClient) -> date:
    return datetime.fromtimestamp(meta.context.clock.now_ms() / 1000, timezone.utc).astimezone().date()


def is_any_planned(timeline: Timeline) -> bool:
    """Return whether a compaction or log compaction is pending."""
    return any(timeline.pending_of(action) for action in OPERATIONS)


def is_write_pending(timeline: Timeline) -> bool:
    """Return whether a write is pending, services not counted."""
    return any(i.is_write and i.action not in _SERVICES for i in timeline.pending)


def may_roll_back(data: Timeline, metadata: Timeline) -> bool:
    """Return whether a completed deltacommit of the metadata table may still be rolled back.

    The log files of a pending one belong to the next slice, since they complete later. In layout 1, where they don't,
    return whether an older one may still come: a compaction bears the newest deltacommit's time there, and readers
    would take an earlier instant that completes later as compacted.

    Args:
        data: the data table's timeline.
        metadata: the metadata table's timeline.
    """
    if data.rules.services_have_suffixes:
        newest = max((i.requested for i in metadata.of(Action.DELTACOMMIT, *State)), default="")
        return any(i.requested <= newest for i in data.pending)
    deltas = {i.requested for i in metadata.of(Action.DELTACOMMIT)}
    return any(i.requested in deltas for i in data.pending)


def holds_newest(snapshot: TargetSnapshot, plan: Instant | None = None) -> bool:
    """Return whether a plan of a metadata table merges the deltacommit of the newest commit of its data table.

    Hudi could not roll back that commit any more. So such a plan is left to the next write, which runs it right before
    its own deltacommit.

    Args:
        snapshot: the metadata table.
        plan: a pending compaction or log compaction; None for one that would be made now.
    """
    data, timeline = snapshot.data_timeline, snapshot.timeline
    if not data.commits:
        return False
    newest = {data.commits[-1].requested, max(data.commits, key=data.done).requested}
    done = [each.requested for each in timeline.of(Action.COMMIT)]
    last = max(done, default="")
    times = [timeline.order(each) for each in timeline.of(Action.DELTACOMMIT) if each.requested in newest]
    return any(last < time and (plan is None or time < plan.requested) for time in times)


def is_compacted_after(snapshot: TableSnapshot, instant: Instant) -> bool:
    """Return whether a compaction, pending or completed, was requested after an instant."""
    meta, timeline = snapshot.meta, snapshot.timeline
    done = [i for i in timeline.of(Action.COMMIT) if meta.store.read_commit_metadata(i).operation_type == COMPACT]
    return any(i.requested > instant.requested for i in (*timeline.pending_of(Action.COMPACTION), *done))


def _inputs(operation: CompactionOperation, timeline: Timeline) -> set[str]:
    """Return the instants whose files an operation reads, according to file names."""
    instants = {operation.base_instant} if operation.base_file is not None else set()
    if timeline.rules.logs_name_their_commit:
        instants |= {log.instant for log in map(parse_log_file, operation.log_files) if log is not None}
    return instants
