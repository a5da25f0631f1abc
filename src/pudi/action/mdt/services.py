"""Keep the metadata table small after a commit: log files are compacted, files and instants that nobody needs go.

What was compacted must never be rolled back. So the compaction comes after all that is in the metadata table, and waits
while an instant that is there is pending on the table: it died between the two commits, and will be taken back.

Source: FORMAT 7.3; HoodieBackedTableMetadataWriter.performTableServices and its version for table version 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from pudi.action.after import CLEAN_UP, behind_commit
from pudi.action.claim import Claim, claimed, is_claimable
from pudi.action.mdt.archive import archive_metadata
from pudi.action.mdt.clean import clean_metadata
from pudi.action.mdt.client import open_metadata
from pudi.action.mdt.commit import metadata_deltacommit
from pudi.action.meta_client import MetaClient
from pudi.action.rollback import abort
from pudi.config import MetadataOptions, Options, WriteOptions
from pudi.errors import ConflictError
from pudi.filegroup import Markers, compaction_plan
from pudi.format import Action, CommitMetadata, CompactionPlan, State, WriteStat, encode_compaction_plan
from pudi.metadata.table import map_parallel
from pudi.metadata.validity import scope_of
from pudi.plan.compaction import operation_of
from pudi.task import Engine, FileResult
from pudi.task.compact import sizes_of
from pudi.task.compact_metadata import CompactMetadataLogsTask, CompactMetadataTask
from pudi.timeline import Instant, Timeline

_COMPACT, _LOG_COMPACT = "COMPACT", "LOG_COMPACT"
_SUFFIX = "001"
"""What compactions are named by below version 8, behind the newest delta commit."""
_LOGS_SUFFIX = "005"
"""Likewise Hudi's log compactions (HoodieTableMetadataUtil.OperationSuffix)."""
_PENDING = (State.REQUESTED, State.INFLIGHT)
_NEW_BASE = 120 << 20
"""Size that a base file is taken to become where there is none yet, as Hudi's plans say."""
_SPREAD = 64 << 20
"""Bytes from which on a compaction is spread over the engine's tasks."""


def run_metadata_services(meta: MetaClient, engine: Engine, options: Options) -> None:
    """After a commit: compact, clean and archive the metadata table when it's due.

    The commit is done, whatever comes of this; where it fails, the next one tries again.

    Args:
        meta: the table.
        engine: who does the work where it's much.
        options: the writer's.
    """
    if meta.config.metadata_partitions:
        _Services(meta, engine, options).run()


@dataclass(frozen=True, slots=True)
class _Services:
    """One round of services."""

    meta: MetaClient
    engine: Engine
    options: Options

    def run(self) -> None:
        mdt = open_metadata(self.meta)
        timeline = mdt.store.load()
        for pending in timeline.of(Action.COMPACTION, *_PENDING) + timeline.of(Action.LOGCOMPACTION, *_PENDING):
            if is_claimable(mdt, pending, self._claiming):
                if _leaves_blocks(pending):
                    abort(mdt, pending, dead=True)
                else:
                    self._compact(mdt, pending)
                timeline = mdt.store.load()
        scheduled = self._schedule(mdt) if self._is_due(timeline) else None
        if scheduled is None and self._are_logs_due(mdt, timeline):
            scheduled = self._schedule_logs(mdt)
        if scheduled is not None:
            self._compact(mdt, scheduled)
        clean_metadata(mdt, timeline, self._claiming)
        archive_metadata(self.meta, mdt, timeline, self.options)

    @property
    def _claiming(self) -> WriteOptions:
        return WriteOptions.of(self.options)

    def _is_due(self, timeline: Timeline) -> bool:
        if _is_one_pending(timeline):
            return False
        last = max((i.requested for i in timeline.of(Action.COMMIT)), default="")
        since = [i for i in timeline.of(Action.DELTACOMMIT) if timeline.order(i) > last]
        return len(since) >= self.options[MetadataOptions.max_delta_commits]

    def _are_logs_due(self, mdt: MetaClient, timeline: Timeline) -> bool:
        """Whether so many delta commits came since the last compaction, and the last log compaction."""
        # in layout 1 those that Hudi has planned are run, none is planned
        if timeline.layout == 1 or not self.options[MetadataOptions.log_compaction] or _is_one_pending(timeline):
            return False
        least = self.options[MetadataOptions.log_blocks_threshold]
        last = max((i.requested for i in timeline.of(Action.COMMIT)), default="")
        deltas = [i for i in timeline.of(Action.DELTACOMMIT) if timeline.order(i) > last]
        if len(deltas) < least:
            return False
        newest = sorted(deltas, key=timeline.order)[-least:]
        return all(mdt.store.read_commit_metadata(i).operation_type != _LOG_COMPACT for i in newest)

    def _schedule(self, mdt: MetaClient) -> Instant | None:
        """Plan a compaction of all file groups with log files; None while it must wait."""
        with self.meta.lock:
            timeline = mdt.store.load()
            if not self._is_due(timeline) or _must_wait(self.meta.store.load(), timeline):
                return None
            slices = [each for each in mdt.view(timeline, sizes=False).all_slices() if each.logs]
            plan = CompactionPlan(tuple(operation_of(each, _NEW_BASE) for each in slices))
            at = _behind_newest(timeline) if mdt.store.layout == 1 else None
            return mdt.store.request(Action.COMPACTION, encode_compaction_plan(plan), at=at, seen=timeline)

    def _schedule_logs(self, mdt: MetaClient) -> Instant | None:
        """Plan a log compaction of the file groups with many log files; None for none, or while it must wait."""
        with self.meta.lock:
            timeline = mdt.store.load()
            if not self._are_logs_due(mdt, timeline) or _must_wait(self.meta.store.load(), timeline):
                return None
            least = self.options[MetadataOptions.log_blocks_threshold]
            slices = [each for each in mdt.view(timeline, sizes=False).all_slices() if len(each.logs) >= least]
            if not slices:
                return None
            plan = CompactionPlan(tuple(operation_of(each, _NEW_BASE) for each in slices), logs_only=True)
            return mdt.store.request(Action.LOGCOMPACTION, encode_compaction_plan(plan), seen=timeline)

    def _compact(self, mdt: MetaClient, instant: Instant) -> None:
        """Run a plan, and complete it under the table's lock."""
        with claimed(mdt, instant, self._claiming) as claim:
            data = self.meta.store.load()
            seen = mdt.store.load()
            scope = scope_of(data, seen, mdt.store)
            plan = self._of_what_is_there(compaction_plan(mdt.store, claim.instant))
            logs_only = instant.action is Action.LOGCOMPACTION
            task = partial(CompactMetadataLogsTask, layout=mdt.store.layout) if logs_only else CompactMetadataTask
            tasks = [
                task(claim.instant.requested, claim.run, number, operation, scope, sizes)
                for number, (operation, sizes) in enumerate(
                    zip(plan.operations, sizes_of(mdt.store, seen, plan.operations), strict=True)
                )
            ]
            results = self._run(mdt, plan, tasks)
            stats = [result.stat for result in results if result.stat is not None]
            claim.keep([stat.path or "" for stat in stats])
            written = _compacted(stats, _LOG_COMPACT if logs_only else _COMPACT)
            done = mdt.store.complete(
                claim.instant,
                written,
                lambda now: _check_alone(claim, now),
                action=claim.instant.action.comparable,
                seen=seen,
            )
            with behind_commit(CLEAN_UP, mdt.storage.root, claim.failed):
                Markers(mdt.storage, done.requested).delete()

    def _of_what_is_there(self, plan: CompactionPlan) -> CompactionPlan:
        """A plan without partitions that were dropped since it was made."""
        self.meta.reload()
        there = {*self.meta.config.metadata_partitions, *self.meta.config.metadata_partitions_inflight}
        return replace(plan, operations=tuple(each for each in plan.operations if each.partition_path in there))

    def _run(self, mdt: MetaClient, plan: CompactionPlan, tasks: Sequence[CompactMetadataTask]) -> Sequence[FileResult]:
        size = sum(operation.metrics.get("TOTAL_LOG_FILES_SIZE", 0.0) for operation in plan.operations)
        if size >= _SPREAD:
            return self.engine.run_jobs(mdt.storage, tasks[0].instant, tasks)
        return map_parallel(lambda task: task.run(mdt.storage, 0), tasks)


def _leaves_blocks(instant: Instant) -> bool:
    """Whether a service that died may have left blocks that count once its instant is completed by another run.

    In layout 1 log files don't bear their instant, so that they can't just be deleted.
    """
    return instant.layout == 1 and instant.action is Action.LOGCOMPACTION and instant.state is State.INFLIGHT


def _behind_newest(timeline: Timeline) -> str:
    """What a compaction of layout 1 is called, which comes after the newest delta commit of the table's own."""
    own = [i.requested for i in timeline.of(Action.DELTACOMMIT) if not i.requested.endswith(_LOGS_SUFFIX, 17)]
    return f"{own[-1]}{_SUFFIX}"


def _is_one_pending(timeline: Timeline) -> bool:
    """Whether a compaction or log compaction is planned: one must be done before the next is planned."""
    return any(timeline.of(action, *_PENDING) for action in (Action.COMPACTION, Action.LOGCOMPACTION))


def _must_wait(data: Timeline, metadata: Timeline) -> bool:
    """Whether the metadata table has an instant that may yet be taken back; in layout 1, whether an older one may come.

    There a compaction bears the newest delta commit's time, and an instant before it that completes later would be
    lost on readers that take it for compacted.
    """
    deltas = {i.requested for i in metadata.of(Action.DELTACOMMIT, State.COMPLETED, *_PENDING)}
    if data.layout == 1:
        newest = max(deltas, default="")
        return any(i.requested <= newest for i in data.pending)
    return any(i.requested in deltas for i in data.pending)


def _compacted(stats: Sequence[WriteStat], operation: str) -> CommitMetadata:
    by_partition: dict[str, tuple[WriteStat, ...]] = {}
    for stat in stats:
        partition = stat.partition_path or ""
        by_partition[partition] = (*by_partition.get(partition, ()), stat)
    said = metadata_deltacommit(by_partition, operation)
    return CommitMetadata(
        said.partition_to_write_stats, operation == _COMPACT, said.extra_metadata, said.operation_type
    )


def _check_alone(claim: Claim, now: Timeline) -> None:
    """Under the lock: the run is still ours, and nobody compacted meanwhile."""
    claim.check_files()
    own = claim.instant
    if any(i.requested >= own.requested for i in now.of(Action.COMMIT)):
        raise ConflictError(
            "another process compacted the metadata table meanwhile",
            table=claim.meta.storage.root,
            instant=own.requested,
        )
