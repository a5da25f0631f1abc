"""Partition TTL: delete the partitions whose days are over, by a replacecommit as a delete of partitions makes it.

No file is deleted: a clean does that later. A partition that a pending compaction or clustering works on waits.

Hudi counts the days of KEEP_BY_TIME from the newest file slice: on merge-on-read tables it deletes partitions that were
written to a moment ago, if only log files were. Here log files count as well. And in Hudi the milliseconds of more than
24 days overflow.

Source: HoodieTTLConfig, KeepByTimeStrategy, KeepByCreationTimeStrategy, SparkPartitionTTLActionExecutor.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from pudi.client import MetaClient, TableSnapshot, read_history
from pudi.client.find_index import find_index, key_scope
from pudi.client.hash_rings import reconcile_hash_rings, renewed_index, replaced_partitions, write_rings
from pudi.client.partitions import delete_request, groups_by_partition
from pudi.client.result import CLEAN_UP, ActionReport, CommitResult
from pudi.client.schema_commit import build_commit_metadata
from pudi.commit.conditions import SchemaUnchanged
from pudi.commit.dead_writers import repair_dead_writes
from pudi.commit.transaction import Work, WriteTransaction, begin_report
from pudi.concurrency import ConflictCheck
from pudi.config import TtlOptions, TtlStrategy, check_writable
from pudi.errors import NotFoundError
from pudi.filegroup import FileSlice, busy_groups, slices_by_partition
from pudi.format import INIT_INSTANT, Action, decode_partition_metadata, millis_to_instant, partition_metadata_path
from pudi.indexes.indexed_commit import IndexStaging
from pudi.metadata_write.build import reconcile_metadata
from pudi.plan import Operation
from pudi.services.service import DirectService, Inline, Need
from pudi.services.target import ServiceTarget, TargetSnapshot
from pudi.task import Engine

_SHOWN = 5
"""Number of partitions that a reason names."""


@dataclass(frozen=True, slots=True)
class Expired:
    """The partitions whose days are over.

    Attributes:
        due: their latest file slices, by partition path, those that go first at the front.
        waiting: partition paths that a pending compaction, log compaction or clustering works on.
    """

    due: Mapping[str, Sequence[FileSlice]]
    waiting: Sequence[str]


class PartitionTtl(DirectService):
    """Deletes partitions of data tables whose days are over."""

    name = "partition_ttl"

    def inline(self, target: ServiceTarget) -> Inline:
        """Decide by hoodie.partition.ttl.inline."""
        runs = not target.is_metadata and target.options[TtlOptions.inline]
        return Inline.RUN if runs else Inline.NOTHING

    def is_due(self, snapshot: TargetSnapshot) -> bool:
        """If the days of a partition are over."""
        return bool(expired_partitions(snapshot).due)

    def need(self, snapshot: TargetSnapshot) -> Need | None:
        """Return the need by the options, if they state how long partitions stay."""
        options = TtlOptions.of(snapshot.options)
        if snapshot.is_metadata or options.days <= 0 or not snapshot.config.partition_fields:
            return None
        found = expired_partitions(snapshot)
        rule = f"partitions are kept for {options.days} days ({options.counts_from.value})"
        due = f"; due: {_named(list(found.due))}" if found.due else ""
        waiting = f"; waiting for pending plans: {_named(found.waiting)}" if found.waiting else ""
        return Need(bool(found.due), (rule + due + waiting) if due or waiting else f"{rule}, and none is older")

    def run(self, target: ServiceTarget) -> CommitResult | None:
        """Delete the partitions that are due, by one commit; see `DirectService.run`.

        Raises:
            NotSupportedError: a strategy that pudi doesn't know, or a table that it can't write.
            ConflictError: another process wrote to one of them meanwhile; nothing is deleted.
        """
        meta = target.meta
        report = begin_report(meta, self.name)
        check_writable(meta.config, meta.storage.root, target.options)
        with report.phase("repair"):
            reconcile_metadata(meta, target.options)
            snapshot = target.at(repair_dead_writes(meta, target.options).timeline)
        with report.phase("list"):
            found = expired_partitions(snapshot)
        if not found.due:
            return None
        return _delete(snapshot, target.engine, found.due, report)


def expired_partitions(snapshot: TableSnapshot) -> Expired:
    """Find the partitions whose days are over.

    Raises:
        NotSupportedError: a strategy that pudi doesn't know.
        CorruptError: a pending plan, or the metadata of a partition, can't be read.
    """
    meta, timeline, options = snapshot.meta, snapshot.timeline, TtlOptions.of(snapshot.options)
    if options.days <= 0 or not meta.config.partition_fields:
        return Expired({}, ())
    bound = _bound(meta, options.days)
    view = snapshot.view(sizes=False)
    by_partition = slices_by_partition(view.slices_of(options.partitions) if options.partitions else view.all_slices())
    if options.counts_from is TtlStrategy.CREATION:
        since = _created(meta, list(by_partition))
    else:
        since = {partition: max(each.newest for each in slices) for partition, slices in by_partition.items()}
    old = sorted((_padded(time), partition) for partition, time in since.items() if _padded(time) < bound)
    chosen = [partition for _, partition in old]
    if options.counts_from is TtlStrategy.LAST_WRITE and timeline.rules.logs_name_their_slice:
        written = _written_since(snapshot, bound, [p for p in chosen if any(s.logs for s in by_partition[p])])
        chosen = [partition for partition in chosen if partition not in written]
    busy = {partition for partition, _ in busy_groups(meta.store, timeline, log_compactions=True)}
    due = [partition for partition in chosen if partition not in busy][: options.most]
    return Expired({each: by_partition[each] for each in due}, [each for each in chosen if each in busy])


def _bound(meta: MetaClient, days: int) -> str:
    """Return the instant before which the days of a partition begin that are over now."""
    now_ms = meta.context.clock.now_ms()
    age_ms = timedelta(days=min(days, 1_000_000)) // timedelta(milliseconds=1)
    return millis_to_instant(now_ms - age_ms, meta.config.timezone) if age_ms < now_ms else ""


def _padded(instant: str) -> str:
    """Return an instant time with milliseconds, to compare it (fixInstantTimeCompatibility)."""
    return instant if len(instant) > 14 else f"{instant}999"


def _created(meta: MetaClient, partitions: Sequence[str]) -> dict[str, str]:
    """Return the instant that made each partition; none for those without metadata, which Hudi keeps too.

    None either for partitions that were added without records: their metadata doesn't say when.
    """

    def read(partition: str) -> str | None:
        path = partition_metadata_path(partition)
        try:
            return decode_partition_metadata(meta.storage.read(path), path=path).commit_time
        except NotFoundError:
            return None

    times = meta.context.executor.map(read, partitions)
    return {p: time for p, time in zip(partitions, times, strict=True) if time not in {None, INIT_INSTANT}}


def _written_since(snapshot: TableSnapshot, bound: str, partitions: Collection[str]) -> set[str]:
    """Return which partitions commits wrote to since an instant: below version 8 names of log files don't say it."""
    if not partitions:
        return set()
    meta, timeline = snapshot.meta, snapshot.timeline
    start = timeline.start
    if start is None or start > bound:
        timeline = timeline.with_archived(meta.store.archived(bound))
    recent = [each for each in timeline.commits if _padded(each.requested) >= bound]
    written = [meta.store.read_commit_metadata(each).partition_to_write_stats for each in recent]
    return {partition for each in written for partition, stats in each.items() if stats}


def _delete(
    snapshot: TableSnapshot, engine: Engine, due: Mapping[str, Sequence[FileSlice]], report: ActionReport
) -> CommitResult:
    meta, timeline = snapshot.meta, snapshot.timeline
    replaced = groups_by_partition([each for slices in due.values() for each in slices])
    index = renewed_index(meta, find_index(snapshot), replaced)
    history = read_history(snapshot)
    metadata = build_commit_metadata(Operation.DELETE_PARTITION, (), snapshot.schema, history, replaced)
    with WriteTransaction(snapshot, Action.REPLACECOMMIT, report, *delete_request()) as transaction:
        instant = transaction.instant
        write_rings(meta, instant.requested, index.buckets, replaced_partitions(replaced))
        with report.phase("commit"):
            scope = key_scope(index, Operation.DELETE_PARTITION)
            conflicts = ConflictCheck(meta.store, instant, metadata, timeline, scope)
            transaction.conditions += [conflicts, SchemaUnchanged(snapshot, conflicts)]
            done = transaction.commit(Work(metadata, history, IndexStaging(engine, snapshot, index)))
    with report.after_commit(CLEAN_UP):
        reconcile_hash_rings(meta, done.requested, index.buckets, replaced_partitions(replaced))
    return report.result(done, metadata)


def _named(partitions: Sequence[str]) -> str:
    more = f" and {len(partitions) - _SHOWN} more" if len(partitions) > _SHOWN else ""
    return ", ".join(repr(each) for each in partitions[:_SHOWN]) + more
