"""Compaction and log compaction: plan, run, or both after a write.

A requested compaction is a plan that never changes. Whoever comes runs it: the slices that it names are merged into
new base files that bear its instant, and the instant is completed as a commit (as a deltacommit where log files are
merged into one). Writers go on meanwhile: from table version 8 on what they complete after the compaction was
requested belongs to the slice that it begins, and before, they name log files by its instant.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial

from pudi.action.after import CLEAN_UP, behind_commit
from pudi.action.claim import Claim, claimed, is_claimable
from pudi.action.log_merging import merging_of
from pudi.action.mdt.build import reconcile_metadata
from pudi.action.mdt.commit_hook import metadata_commit_hook
from pudi.action.mdt.staged import stage_changes
from pudi.action.mdt.statistics import indexed_columns
from pudi.action.meta_client import INTERNAL_SCHEMA_KEY, SCHEMA_KEY, MetaClient
from pudi.action.result import CommitResult
from pudi.action.rollback import abort, repair, sweep
from pudi.action.schema_history import read_history
from pudi.action.spec import file_options
from pudi.action.steps import add_partitions
from pudi.action.timed import Timed
from pudi.concurrency import busy_groups
from pudi.config import CompactionOptions, Options, WriteOptions, check_compactable, check_consistent
from pudi.errors import ConflictError, NotSupportedError
from pudi.filegroup import FileSlice, Markers, compaction_plan, read_log_blocks
from pudi.format import (
    Action,
    CommitMetadata,
    CompactionPlan,
    State,
    WriteStat,
    encode_compaction_plan,
    millis_to_instant,
    parse_log_file,
)
from pudi.index import Index
from pudi.plan.compaction import is_due, is_log_compaction_due, plan_compaction, plan_log_compaction
from pudi.schema import add_meta_fields, avro_to_arrow, with_meta_fields
from pudi.task import Engine, FileJob
from pudi.task.compact import CompactSpec, CompactTask, sizes_of
from pudi.task.compact_logs import CompactLogsTask
from pudi.timeline import Instant, Timeline

_log = logging.getLogger(__name__)

_OPERATIONS = {Action.COMPACTION: "COMPACT", Action.LOGCOMPACTION: "LOG_COMPACT"}
"""What the commit says that it did (WriteOperationType)."""
_PENDING = (State.REQUESTED, State.INFLIGHT)
_FIRST_VERSION_OF_LOG_COMPACTION = 8


def schedule(
    meta: MetaClient, resolved: Options, action: Action = Action.COMPACTION, *, when_due: bool = False
) -> Instant | None:
    """Plan a compaction or a log compaction.

    The plan is made under the table's lock: a delta commit is either in it, or completes after it and is of the next
    slice.

    Args:
        meta: the table.
        resolved: the options.
        action: COMPACTION or LOGCOMPACTION.
        when_due: only where the trigger says so.

    Returns:
        The requested instant, or None when there is nothing to compact.

    Raises:
        InvalidArgumentError: a copy-on-write table, or a wrong option.
        NotSupportedError: the table is of a kind that this release can't compact.
    """
    root, options = meta.storage.root, CompactionOptions.of(resolved)
    _check(meta, resolved)
    if action is Action.LOGCOMPACTION and meta.config.version < _FIRST_VERSION_OF_LOG_COMPACTION:
        raise NotSupportedError(
            f"log compaction in a table of version {meta.config.version}: pudi does it from version 8 on; compact()",
            table=root,
        )
    merging = merging_of(meta, timeline := meta.store.load(), timeline)
    assert merging is not None
    if meta.store.layout == 1:  # a dead write's log blocks must be out of the way, see `_must_wait`
        repair(meta, WriteOptions.of(resolved))
    with meta.lock:
        timeline = meta.store.load()
        if (when_due and not _is_due(meta, timeline, options, action)) or _must_wait(timeline, action):
            return None
        busy = busy_groups(meta.store, timeline, log_compactions=action is Action.LOGCOMPACTION)
        slices = meta.view(timeline).all_slices()
        size = resolved[WriteOptions.max_file_size]
        if action is Action.COMPACTION:
            today = datetime.fromtimestamp(meta.context.clock.now_ms() / 1000, timezone.utc).astimezone().date()
            plan = plan_compaction(slices, options, busy=busy, max_file_size=size, today=today)
        else:
            count = _BlockCount(meta, timeline)
            plan = plan_log_compaction(slices, options, busy=busy, max_file_size=size, blocks=count)
        if not plan.operations:
            return None
        reconcile_metadata(meta, resolved)
        return meta.store.request(action, encode_compaction_plan(plan), seen=timeline)


def run_pending(meta: MetaClient, engine: Engine, resolved: Options) -> list[CommitResult]:
    """Run the pending compactions and log compactions that nobody else is at work on, oldest first.

    Args:
        meta: the table.
        engine: who does the work.
        resolved: the options.

    Raises:
        NotSupportedError: the table is of a kind that this release can't compact.
        NotFoundError: a file that a plan names is gone.
    """
    _check(meta, resolved)
    sweep(meta, WriteOptions.of(resolved))
    done = []
    timeline = meta.store.load()
    for instant in timeline.of(Action.COMPACTION, *_PENDING) + timeline.of(Action.LOGCOMPACTION, *_PENDING):
        if is_claimable(meta, instant, WriteOptions.of(resolved)):
            result = run(meta, engine, instant, resolved)
            if result is not None:
                done.append(result)
        else:
            _log.info("the %s %s is being run by another process", instant.action.value, instant.requested)
    return done


def compact(
    meta: MetaClient,
    engine: Engine,
    resolved: Options,
    action: Action = Action.COMPACTION,
    *,
    when_due: bool = False,
) -> CommitResult | None:
    """Run what is pending of this action, then plan and run it for the rest.

    Args:
        meta: the table.
        engine: who does the work.
        resolved: the options.
        action: COMPACTION or LOGCOMPACTION.
        when_due: plan only where the trigger says so.

    Returns:
        What the last run did; None when there was nothing to compact.

    Raises:
        ConflictError: another process took up the plan.
        Errors as of `schedule` and `run`.
    """
    _check(meta, resolved)
    sweep(meta, WriteOptions.of(resolved))
    last = None
    for pending in meta.store.load().of(action, *_PENDING):
        if is_claimable(meta, pending, WriteOptions.of(resolved)):
            last = run(meta, engine, pending, resolved) or last
    instant = schedule(meta, resolved, action, when_due=when_due)
    if instant is not None:
        last = run(meta, engine, instant, resolved) or last
    for pending in meta.store.load().of(Action.LOGCOMPACTION, *_PENDING):
        _taken_off(meta, pending, WriteOptions.of(resolved))
    return last


def maybe_compact(meta: MetaClient, engine: Engine, resolved: Options) -> list[CommitResult]:
    """After a write: run or plan what the options ask for (BaseHoodieTableServiceClient.runTableServicesInline).

    The write is done, whatever comes of this; where it fails, the plan stays for the next one.

    Args:
        meta: the table.
        engine: who does the work.
        resolved: the writer's options.
    """
    if not meta.merges_on_read:
        return []
    options = CompactionOptions.of(resolved)
    if not options.services:
        return []
    done: list[CommitResult | None] = []
    if options.inline:
        done.append(compact(meta, engine, resolved, when_due=True))
    elif options.schedule_inline and not meta.store.load().of(Action.COMPACTION, *_PENDING):
        schedule(meta, resolved, when_due=True)
    if options.log_inline:
        done.append(compact(meta, engine, resolved, Action.LOGCOMPACTION, when_due=True))
    return [result for result in done if result is not None]


def run(meta: MetaClient, engine: Engine, instant: Instant, resolved: Options) -> CommitResult | None:
    """Run a pending compaction or log compaction.

    Args:
        meta: the table.
        engine: who does the work.
        instant: its instant.
        resolved: the options.

    Returns:
        What was done; None where a log compaction is of no use any more.

    Raises:
        ConflictError: another process runs it, or what its plan was made from was rolled back.
        NotFoundError: a file that the plan names is gone.
        CorruptError: the plan or a file can't be read, or what was written isn't the merged slice (only where that is
            looked at); nothing was published.
    """
    options = WriteOptions.of(resolved)
    if instant.action is Action.LOGCOMPACTION and _taken_off(meta, instant, options):
        return None
    reconcile_metadata(meta, resolved)
    return _Run(meta, engine, instant, resolved, options).run()


@dataclass(slots=True)
class _Run(Timed):
    """One run of a plan."""

    meta: MetaClient
    engine: Engine
    instant: Instant
    resolved: Options
    options: WriteOptions
    phases: dict[str, float] = field(default_factory=dict)

    def run(self) -> CommitResult:
        meta = self.meta
        began = meta.context.clock.monotonic()
        with claimed(meta, self.instant, self.options) as claim:
            timeline = meta.store.load()
            plan = compaction_plan(meta.store, claim.instant)
            schema_json = meta.schema_json(timeline)
            with self._phase("write"):
                tasks = self._tasks(claim, plan, timeline, schema_json)
                results = self.engine.run_jobs(meta.storage, claim.instant.requested, tasks) if tasks else []
            stats = [result.stat for result in results if result.stat is not None]
            with self._phase("commit"):
                claim.keep([stat.path or "" for stat in stats])
                add_partitions(meta, claim.instant, stats)
                metadata = self._metadata(timeline, plan, stats, schema_json)
                stage = partial(
                    stage_changes, meta, self.engine, claim.instant, metadata, timeline, self.resolved, Index()
                )
                check = metadata_commit_hook(
                    meta, claim.instant, metadata, partial(_check_inputs, meta, claim, plan), stage
                )
                action = claim.instant.action.comparable
                done = meta.store.complete(claim.instant, metadata, check, action=action, seen=timeline)
                with behind_commit(CLEAN_UP, meta.storage.root, claim.failed):
                    Markers(meta.storage, done.requested).delete()
        result = CommitResult.of(done, metadata, meta.context.clock.monotonic() - began, self.phases)
        return replace(result, failed_services=claim.failed)

    def _tasks(self, claim: Claim, plan: CompactionPlan, timeline: Timeline, schema_json: str) -> Sequence[FileJob]:
        meta = self.meta
        merging = merging_of(meta, timeline, timeline)
        assert merging is not None
        spec = CompactSpec(
            instant=claim.instant.requested,
            run=claim.run,
            schema=with_meta_fields(meta.schema(timeline)),
            avro_schema=add_meta_fields(schema_json),
            merging=replace(merging, memory=merging.memory.of_compaction, by_position=False),
            files=file_options(meta, self.options, meta.schema(timeline).names),
            history=read_history(meta, timeline, timeline),
            verify=CompactionOptions.of(self.resolved).verify,
            stats=indexed_columns(meta, avro_to_arrow(schema_json)),
            layout=meta.store.layout,
        )
        task = CompactLogsTask if claim.instant.action is Action.LOGCOMPACTION else CompactTask
        sizes = sizes_of(meta.store, timeline, plan.operations)
        return [task(spec, n, each, sizes[n]) for n, each in enumerate(plan.operations)]

    def _metadata(
        self, timeline: Timeline, plan: CompactionPlan, stats: Sequence[WriteStat], schema_json: str
    ) -> CommitMetadata:
        by_partition: dict[str, list[WriteStat]] = {}
        for stat in stats:
            by_partition.setdefault(stat.partition_path or "", []).append(stat)
        by_id = self.meta.schema_by_id(timeline)
        return CommitMetadata(
            partition_to_write_stats={p: tuple(group) for p, group in by_partition.items()},
            compacted=True,
            extra_metadata={
                **plan.extra_metadata,
                SCHEMA_KEY: schema_json,
                **({} if by_id is None else {INTERNAL_SCHEMA_KEY: by_id}),
            },
            operation_type=_OPERATIONS[self.instant.action],
        )


@dataclass(frozen=True, slots=True)
class _BlockCount:
    """Counts the log blocks of a slice by reading them; none counts where there are partial updates among them."""

    meta: MetaClient
    timeline: Timeline

    def __call__(self, file_slice: FileSlice) -> int:
        merging = merging_of(self.meta, self.timeline, self.timeline)
        assert merging is not None
        blocks = read_log_blocks(self.meta.storage, file_slice.logs, merging.scope, merging.memory.share)
        return 0 if any(block.is_partial for block in blocks) else len(blocks)


def _check(meta: MetaClient, resolved: Options) -> None:
    CompactionOptions.of(resolved)
    meta.reload()
    check_compactable(meta.config, meta.storage.root, resolved)
    check_consistent(meta.config, resolved, meta.storage.root)


def _is_due(meta: MetaClient, timeline: Timeline, options: CompactionOptions, action: Action) -> bool:
    if action is Action.COMPACTION:
        return is_due(timeline, options, millis_to_instant(meta.context.clock.now_ms(), meta.config.timezone))
    deltas = timeline.of(Action.DELTACOMMIT)
    done = [i.requested for i in deltas if meta.store.read_commit_metadata(i).operation_type == "LOG_COMPACT"]
    return is_log_compaction_due(timeline, options, done)


def _must_wait(timeline: Timeline, action: Action) -> bool:
    """Whether a write is under way whose log blocks a plan made now would lose, or put in the wrong place.

    The first can be below version 8, where they go to the slice that the write found. The second can be in a log
    compaction, whose blocks stand where the newest of their instants stood, after those of a write begun before that.
    """
    if timeline.layout == 2 and action is Action.COMPACTION:
        return False
    services = {Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING}
    return any(i.is_write and i.action not in services for i in timeline.pending)


def _taken_off(meta: MetaClient, instant: Instant, options: WriteOptions) -> bool:
    """Take a log compaction off the timeline that died, or that a compaction was planned after; whether it was one.

    Unlike a compaction's, its plan is of no use to others (BaseHoodieTableServiceClient.logCompact).
    """
    with meta.lock:
        timeline = meta.store.load()
        current = timeline.find(instant.requested, instant.action)
        if current is None or not is_claimable(meta, current, options):
            return False  # the claim will say so
        later = any(i.requested > instant.requested for i in _compactions(meta, timeline))
        if current.state is State.INFLIGHT or later:
            abort(meta, current, dead=True)
            return True
    return False


def _compactions(meta: MetaClient, timeline: Timeline) -> list[Instant]:
    """Pending and completed compactions."""
    done = [i for i in timeline.of(Action.COMMIT) if meta.store.read_commit_metadata(i).operation_type == "COMPACT"]
    return [*timeline.of(Action.COMPACTION, *_PENDING), *done]


def _check_inputs(meta: MetaClient, claim: Claim, plan: CompactionPlan, now: Timeline) -> None:
    """Under the lock, just before the commit: the run is still ours, and what was compacted still stands."""
    claim.check_files()
    own = claim.instant
    if own.action is Action.LOGCOMPACTION and any(i.requested > own.requested for i in _compactions(meta, now)):
        raise ConflictError(
            "a compaction was planned meanwhile, which merges the same log files",
            table=meta.storage.root,
            instant=own.requested,
        )
    for operation in plan.operations:
        instants = {operation.base_instant} if operation.base_file is not None else set()
        if now.layout == 2:
            instants |= {log.instant for log in map(parse_log_file, operation.log_files) if log is not None}
        for instant in sorted(instants):
            gone = now.commit(instant) is None and (now.start is None or instant >= now.start)
            if gone or now.is_pending(instant):
                raise ConflictError(
                    f"commit {instant}, whose files the {claim.instant.action.value} merged, was rolled back; roll the "
                    "plan back too",
                    table=meta.storage.root,
                    instant=claim.instant.requested,
                )
