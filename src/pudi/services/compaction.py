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

from pudi.client.log_merging import merging_of
from pudi.client.meta_client import MetaClient
from pudi.client.schema_commit import INTERNAL_SCHEMA_KEY, SCHEMA_KEY
from pudi.client.schema_history import read_history
from pudi.client.snapshot import TableSnapshot
from pudi.client.write_settings import change_logging, file_options
from pudi.commit.conditions import refuse_older_columns
from pudi.commit.dead_writers import repair_dead_writes
from pudi.commit.lease import PlanDisplacedError, ServiceLease
from pudi.concurrency import busy_groups
from pudi.concurrency.touched import compacted_groups
from pudi.config import CompactionOptions, check_compactable, check_consistent
from pudi.errors import ConflictError
from pudi.filegroup import Replacements, compaction_plan
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
)
from pudi.indexes.column_stats.statistics import indexed_columns
from pudi.metadata.validity import scope_of
from pudi.metadata_write.client import metadata_deltacommit
from pudi.schema import TableSchema, avro_to_arrow
from pudi.services.backlog import compaction_backlog
from pudi.services.compaction_plan import is_due, plan_compaction
from pudi.services.failures import groups_aside
from pudi.services.service import Inline, Need, PlannedService, WritingRun
from pudi.services.target import ServiceTarget, free_time
from pudi.task import FileJob
from pudi.task.compact import CompactMetadataLogsTask, CompactMetadataTask, CompactSpec, CompactTask, sizes_of
from pudi.task.compact_logs import CompactLogsTask
from pudi.timeline import Instant, Timeline

OPERATIONS = {Action.COMPACTION: "COMPACT", Action.LOGCOMPACTION: "LOG_COMPACT"}
"""Operation type in the commit metadata (WriteOperationType)."""
LEFT_TO_WRITES = "left to the next write: Hudi can't roll back a commit that the metadata table has compacted"
"""Why a maintenance doesn't compact a metadata table."""
_PENDING = (State.REQUESTED, State.INFLIGHT)
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
        timeline = target.load_timeline()
        assert merging_of(TableSnapshot(target.meta, timeline)) is not None
        if target.meta.store.rules.logs_name_their_slice:
            repair_dead_writes(target.meta, target.write_options)

    def is_due(self, target: ServiceTarget, timeline: Timeline) -> bool:
        """Apply the trigger of the options; a metadata table has one plan at a time."""
        if target.is_metadata and is_any_planned(timeline):
            return False
        meta = target.meta
        clock, zone = meta.context.clock, meta.config.timezone
        return is_due(timeline, CompactionOptions.of(target.options), lambda: millis_to_instant(clock.now_ms(), zone))

    def need(self, target: ServiceTarget, timeline: Timeline) -> Need | None:
        """Return the need by the trigger; None in a copy-on-write table."""
        if not target.meta.merges_on_read:
            return None
        last = max((i.requested for i in timeline.of(Action.COMMIT)), default="")
        since = sum(timeline.order(i) > last for i in timeline.of(Action.DELTACOMMIT))
        options = CompactionOptions.of(target.options)
        reason = f"{since} deltacommits since the last compaction; the trigger is {options.trigger}"
        if target.is_metadata and holds_newest(target, timeline):
            return Need(False, f"{LEFT_TO_WRITES} ({reason}, {options.max_delta_commits} deltacommits)")
        due, waits = self.is_due(target, timeline), self.must_wait(target, timeline)
        behind = since if due or since >= options.max_delta_commits else 0
        backlog = compaction_backlog(target, timeline, behind, waits=waits) if behind else (0, None)
        return Need(due, f"{reason}, {options.max_delta_commits} deltacommits", *backlog)

    def must_wait(self, target: ServiceTarget, timeline: Timeline) -> bool:
        """Below version 8 for pending writes: the plan would lose their log blocks, which go to the current slice."""
        if target.is_metadata:
            data, at = target.data.store.load(), self.requested_time(target, timeline)
            passes = at is not None and any(each.requested < at for each in data.pending)
            return passes or may_roll_back(data, timeline)
        return timeline.rules.logs_name_their_slice and is_write_pending(timeline)

    def plan(self, target: ServiceTarget, timeline: Timeline) -> bytes | None:
        """Plan the slices that the strategies choose, except those under another plan."""
        meta, options = target.meta, CompactionOptions.of(target.options)
        plan = plan_compaction(
            meta.view(timeline, sizes=not target.is_metadata).all_slices(),
            options,
            busy=busy_groups(meta.store, timeline, log_compactions=False) | self._aside(target),
            max_file_size=target.write_options.max_file_size,
            today=date.min if target.is_metadata else _today(meta),  # its strategy takes all partitions
        )
        return encode_compaction_plan(plan) if plan.operations or target.is_metadata else None

    def requested_time(self, target: ServiceTarget, timeline: Timeline) -> str | None:
        """In a metadata table below version 8: the newest deltacommit's time with a suffix."""
        if not target.is_metadata or not timeline.rules.services_have_suffixes:
            return None
        own = [i.requested for i in timeline.of(Action.DELTACOMMIT) if not i.requested.endswith(_LOGS_SUFFIX, 17)]
        return free_time(target.meta, timeline, own[-1], _SUFFIX) if own else None

    def groups_of(self, target: ServiceTarget, instant: Instant) -> Collection[FileGroupId]:
        """Return the file groups that the plan merges."""
        return compacted_groups(target.meta.store, instant)

    def _aside(self, target: ServiceTarget) -> set[FileGroupId]:
        return set() if target.is_metadata else groups_aside(target.meta.storage, self.name)

    def open(self, target: ServiceTarget, lease: ServiceLease) -> CompactionRun:
        """See `PlannedService.open`."""
        return CompactionRun.of(target, lease)


@dataclass(frozen=True, slots=True)
class CompactionRun(WritingRun):
    """One run of the plan of a compaction or log compaction.

    Attributes:
        target: the table.
        lease: the lease of its instant.
        data: the data table's timeline, loaded before `timeline`.
        timeline: the table's timeline.
        plan: the slices.
    """

    target: ServiceTarget
    lease: ServiceLease
    data: Timeline
    timeline: Timeline
    plan: CompactionPlan

    @classmethod
    def of(cls, target: ServiceTarget, lease: ServiceLease) -> CompactionRun:
        """Read the plan, without file groups that were replaced and metadata partitions that were dropped since.

        A replacement that was requested before the plan may be archived before the compaction is: then nothing would
        say that the files of both were deleted rightly.
        """
        data = target.data.store.load() if target.is_metadata else lease.timeline
        timeline = target.load_timeline() if target.is_metadata else data
        plan = compaction_plan(target.meta.store, lease.instant)
        if target.is_metadata:
            target.data.reload()
            config = target.data.config
            there = {*config.metadata_partitions, *config.metadata_partitions_inflight}
            plan = replace(plan, operations=tuple(each for each in plan.operations if each.partition_path in there))
        else:
            gone = Replacements.of(target.meta.store, timeline).instants
            plan = replace(plan, operations=tuple(each for each in plan.operations if each.group not in gone))
        return cls(target, lease, data, timeline, plan)

    @property
    def operations(self) -> Sequence[CompactionOperation]:
        """The slices of the plan."""
        return self.plan.operations

    def jobs(self) -> Sequence[FileJob]:
        """One job for each slice."""
        meta = self.target.meta
        sizes = sizes_of(meta.store, self.timeline, self.plan.operations)
        make = self._metadata_job if self.target.is_metadata else self._data_job()
        return [make(n, each, sizes[n]) for n, each in enumerate(self.plan.operations)]

    def check(self, now: Timeline) -> None:
        """Check that the inputs still count and that no compaction conflicts; see `ServiceRun.check`."""
        own, root = self.lease.instant, self.target.meta.storage.root
        if self.target.is_metadata:
            if any(i.requested >= own.requested for i in now.of(Action.COMMIT)):
                raise PlanDisplacedError(
                    "another process compacted the metadata table meanwhile", table=root, instant=own.requested
                )
            return
        refuse_older_columns(self.target.meta, self.timeline, now, own)
        if own.action is Action.LOGCOMPACTION and is_compacted_after(self.target.meta, now, own):
            raise PlanDisplacedError(
                "a compaction was planned meanwhile, which merges the same log files",
                table=root,
                instant=own.requested,
            )
        replaced = Replacements.of(self.target.meta.store, now).instants
        both = [operation.group for operation in self.plan.operations if operation.group in replaced]
        if both:
            partition, file_id = min(both)
            raise ConflictError(
                f"file group {file_id} of partition {partition!r} was replaced while the {own.action.value} ran: run "
                "the plan again, which then leaves it out",
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
        by_partition: dict[str, tuple[WriteStat, ...]] = {}
        for stat in stats:
            partition = stat.partition_path or ""
            by_partition[partition] = (*by_partition.get(partition, ()), stat)
        action, meta = self.lease.instant.action, self.target.meta
        operation = OPERATIONS[action]
        if self.target.is_metadata:
            return replace(metadata_deltacommit(by_partition, operation), compacted=action is Action.COMPACTION)
        seen = self.timeline.until(self.lease.instant.requested)
        by_id = meta.schema_by_id(seen)
        extra = {**self.plan.extra_metadata, SCHEMA_KEY: meta.schema_json(seen)}
        return CommitMetadata(
            by_partition,
            compacted=True,
            extra_metadata=extra if by_id is None else {**extra, INTERNAL_SCHEMA_KEY: by_id},
            operation_type=operation,
        )

    def _data_job(self) -> Callable[[int, CompactionOperation, Mapping[str, int]], FileJob]:
        meta, options = self.target.meta, self.target.options
        merging = merging_of(TableSnapshot(meta, self.timeline))
        assert merging is not None
        seen = self.timeline.until(self.lease.instant.requested)  # readers take files to have their instant's columns
        schema = TableSchema(meta.schema_json(seen))
        spec = CompactSpec(
            instant=self.lease.instant.requested,
            run=self.lease.run,
            schema=schema,
            merging=replace(merging, memory=merging.memory.of_compaction, by_position=False),
            files=file_options(meta, self.target.write_options, schema.columns.names),
            history=read_history(TableSnapshot(meta, self.timeline).seeing(seen)),
            verify=CompactionOptions.of(options).verify,
            stats=indexed_columns(meta, avro_to_arrow(schema.avro)),
            layout=meta.store.layout,
            changes=change_logging(meta, self.target.write_options, schema.avro),
        )
        task = CompactLogsTask if self.lease.instant.action is Action.LOGCOMPACTION else CompactTask
        return lambda number, operation, sizes: task(spec, number, operation, sizes)

    def _metadata_job(self, number: int, operation: CompactionOperation, sizes: Mapping[str, int]) -> FileJob:
        meta, instant = self.target.meta, self.lease.instant
        scope = scope_of(self.data, self.timeline, meta.store)
        place = (instant.requested, self.lease.run, number, operation, scope, sizes)
        if instant.action is Action.LOGCOMPACTION:
            return CompactMetadataLogsTask(*place, layout=meta.store.layout)
        return CompactMetadataTask(*place)


def _today(meta: MetaClient) -> date:
    return datetime.fromtimestamp(meta.context.clock.now_ms() / 1000, timezone.utc).astimezone().date()


def is_any_planned(timeline: Timeline) -> bool:
    """Return whether a compaction or log compaction is pending."""
    return any(timeline.of(action, *_PENDING) for action in OPERATIONS)


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
    states = (State.COMPLETED, *_PENDING) if data.rules.services_have_suffixes else (State.COMPLETED,)
    deltas = {i.requested for i in metadata.of(Action.DELTACOMMIT, *states)}
    if data.rules.services_have_suffixes:
        newest = max(deltas, default="")
        return any(i.requested <= newest for i in data.pending)
    return any(i.requested in deltas for i in data.pending)


def holds_newest(target: ServiceTarget, timeline: Timeline, plan: Instant | None = None) -> bool:
    """Return whether a plan of a metadata table merges the deltacommit of the newest commit of its data table.

    Hudi could not roll back that commit any more. So such a plan is left to the next write, which runs it right before
    its own deltacommit.

    Args:
        target: the metadata table.
        timeline: its timeline.
        plan: a pending compaction or log compaction; None for one that would be made now.
    """
    data = target.data.store.load()
    if not data.commits:
        return False
    newest = {data.commits[-1].requested, max(data.commits, key=data.done).requested}
    done = [each.requested for each in timeline.of(Action.COMMIT)]
    last = max(done, default="")
    times = [timeline.order(each) for each in timeline.of(Action.DELTACOMMIT) if each.requested in newest]
    return any(last < time and (plan is None or time < plan.requested) for time in times)


def is_compacted_after(meta: MetaClient, timeline: Timeline, instant: Instant) -> bool:
    """Return whether a compaction, pending or completed, was requested after an instant."""
    done = [i for i in timeline.of(Action.COMMIT) if meta.store.read_commit_metadata(i).operation_type == "COMPACT"]
    return any(i.requested > instant.requested for i in (*timeline.of(Action.COMPACTION, *_PENDING), *done))


def _inputs(operation: CompactionOperation, timeline: Timeline) -> set[str]:
    """Return the instants whose files an operation reads, according to file names."""
    instants = {operation.base_instant} if operation.base_file is not None else set()
    if timeline.rules.logs_name_their_commit:
        instants |= {log.instant for log in map(parse_log_file, operation.log_files) if log is not None}
    return instants
