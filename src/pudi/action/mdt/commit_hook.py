"""Complete a table's commit together with the metadata table's deltacommit of the same instant.

The deltacommit completes under the table's lock, after the last check and right before the table's own instant. It
counts only once that is completed: readers ignore the blocks of instants that are pending on the table. So a crash
between the two leaves nothing but what the rollback of the table's instant takes away.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count

from pudi.action.mdt.blooms import blooms_of_commit, keeps_blooms
from pudi.action.mdt.client import open_metadata
from pudi.action.mdt.commit import commit_changes
from pudi.action.mdt.expression import expression_changes
from pudi.action.mdt.index_logs import IndexesChangedError, IndexLogs, write_index_logs
from pudi.action.mdt.inflight_builds import inflight_partitions, maintained_partitions
from pudi.action.mdt.record_index import may_change_keys
from pudi.action.mdt.rollback import discard_deltacommit, roll_back
from pudi.action.mdt.staged import NOTHING_STAGED, StagedChanges, is_of_records, stage_changes
from pudi.action.mdt.statistics import FileStatistics, column_statistics
from pudi.action.meta_client import MetaClient
from pudi.concurrency import Heartbeat
from pudi.config import Options, WriteOptions, check_metadata_kept
from pudi.format import Action, CommitMetadata, RollbackPartitionMetadata
from pudi.format.metadata_partitions import BLOOM_FILTERS, COLUMN_STATS, FILES, PARTITION_STATS
from pudi.index import Index
from pudi.metadata import MetadataTable
from pudi.metadata.changes import Changes, files_changes, files_of_commit
from pudi.task import Engine
from pudi.timeline import Instant, Timeline

_LAST_LAYOUT_OF_SUFFIXES = 1
_ATTEMPTS = 3
"""Attempts at a commit while other processes make indexes."""
_ROLLBACK_SUFFIX = "006"
"""What rollbacks of the metadata table end with below version 8 (HoodieBackedTableMetadataWriterTableVersionSix)."""


@dataclass(frozen=True, slots=True)
class IndexStaging:
    """How a commit finds out what it changes in indexes that only its files tell of.

    Attributes:
        engine: runs the jobs.
        timeline: the table's, as the commit was planned by it.
        options: the writer's.
        index: the index that the commit located its records by.
    """

    engine: Engine
    timeline: Timeline
    options: Options
    index: Index = field(default_factory=Index)


def complete_with_metadata(
    meta: MetaClient,
    instant: Instant,
    written: CommitMetadata,
    check: Callable[[Timeline], None],
    seen: Timeline,
    staging: IndexStaging | None = None,
    action: Action | None = None,
) -> Instant:
    """Complete an instant that changes data files, and the metadata table's deltacommit with it.

    The engine's jobs run before the table's lock is taken: those that read the commit's files, and those that write the
    log files of record-level indexes. Where another process made or rebuilt an index meanwhile, they run again.

    Args:
        meta: the table.
        instant: the inflight instant.
        written: what the instant did.
        check: the action's own check, which comes first under the lock; raises to refuse.
        seen: the timeline that the action was planned from.
        staging: how the changes of indexes are found; None where the action changes no file.
        action: the completed action, where it differs from the pending one.

    Returns:
        The completed instant.

    Raises:
        ConflictError: another writer got in the way; nothing is completed.
    """
    for attempt in count(1):
        try:
            with _IndexWork(meta, instant, written, staging).prepared() as commit:
                return meta.store.complete(instant, written, partial(commit, check), action=action, seen=seen)
        except IndexesChangedError:
            if attempt == _ATTEMPTS:
                raise
    raise AssertionError("the loop ends by a return or an error")


@dataclass(slots=True)
class _IndexWork:
    """One attempt at a deltacommit of the metadata table: what is prepared before the lock, and completed under it."""

    meta: MetaClient
    instant: Instant
    written: CommitMetadata
    staging: IndexStaging | None
    staged: StagedChanges = NOTHING_STAGED
    statistics: FileStatistics | None = None
    blooms: Changes | None = None
    logs: IndexLogs | None = None

    @contextmanager
    def prepared(self) -> Iterator[Callable[[Callable[[Timeline], None], Timeline], None]]:
        """Prepare the changes; yield what commits them under the lock, after the action's own check."""
        meta, requested = self.meta, self.instant.requested
        staging = self.staging
        if staging is not None:
            self.staged = stage_changes(
                meta, staging.engine, self.instant, self.written, staging.timeline, staging.options, staging.index
            )
        self.statistics = _statistics(meta, self.instant, self.written)
        if keeps_blooms(meta):
            self.blooms = blooms_of_commit(meta, requested, self.written)
        if staging is None or not any(each.keys for each in self.staged.keys):
            yield self._commit
            return
        mdt = open_metadata(meta)
        # Hudi takes a pending deltacommit of the metadata table without a heartbeat for a dead one
        heart = Heartbeat(mdt.storage, requested, meta.context, staging.options[WriteOptions.heartbeat_interval_ms])
        heart.start()
        try:
            others = {p for p in maintained_partitions(meta) if not is_of_records(p)}
            self.logs = write_index_logs(meta, mdt, requested, self.staged.keys, others)
            yield self._commit
        finally:
            heart.stop()

    def _commit(self, check: Callable[[Timeline], None], now: Timeline) -> None:
        """Write and complete the deltacommit."""
        check(now)
        meta, instant, written = self.meta, self.instant, self.written
        meta.reload()  # another writer may have made or removed the metadata table meanwhile
        if not meta.config.metadata_partitions:
            return
        building = inflight_partitions(meta)
        kept = {*meta.config.metadata_partitions, *building}
        check_metadata_kept(meta.config, meta.storage.root)
        self._check_staged(kept)
        table = MetadataTable.open(meta.storage, meta.config, meta.store, now)
        meta.check_listed(table)
        statistics = _statistics(meta, instant, written) if self.statistics is None else self.statistics
        found: dict[str, Changes | None] = {FILES: files_of_commit(written)}
        if statistics is not None:
            whole = PARTITION_STATS in kept
            of_files, of_partitions = statistics.of_both(now, table) if whole else (statistics.of_files(), None)
            found |= {COLUMN_STATS: of_files if COLUMN_STATS in kept else None, PARTITION_STATS: of_partitions}
        if BLOOM_FILTERS in kept:
            blooms = self.blooms
            found[BLOOM_FILTERS] = blooms_of_commit(meta, instant.requested, written) if blooms is None else blooms
        found.update(expression_changes(meta, instant, written, self.staged.expressions, now, table))
        changes = {partition: each for partition, each in found.items() if each is not None and len(each)}
        mdt, instants = open_metadata(meta), set(building.values())
        commit_changes(mdt, instant.requested, changes, self.logs, kept, instants, table.timeline)
        if COLUMN_STATS in kept and statistics is not None:
            statistics.define()

    def _check_staged(self, kept: Collection[str]) -> None:
        """Refuse a commit that lacks the changes of a record-level index, since the index is newer."""
        known = {each.partition for each in self.staged.keys}
        newer = sorted(name for name in kept if is_of_records(name) and name not in known)
        if newer and may_change_keys(self.written):
            raise IndexesChangedError(
                f"another process made the index {newer[0]} while this write was under way; retry",
                table=self.meta.storage.root,
                instant=self.instant.requested,
            )


def discard_metadata(meta: MetaClient, requested: str) -> None:
    """Take back what the metadata table has of a pending instant, before that goes without leaving a trace.

    Under the table's lock.
    """
    meta.reload()
    if meta.config.metadata_partitions:
        discard_deltacommit(open_metadata(meta), requested)


def rollback_metadata(
    meta: MetaClient, requested: str, said_by: str, partitions: Mapping[str, RollbackPartitionMetadata]
) -> None:
    """Take back what the metadata table has of a pending instant, as a rollback of the table does.

    Below version 8 a rollback leaves the log files of the instant it undoes, and adds files that take their blocks
    back: both are there from then on.

    Args:
        meta: the table.
        requested: the instant that is rolled back.
        said_by: requested time of the rollback.
        partitions: what the rollback did, by partition path.
    """
    meta.reload()
    if not meta.config.metadata_partitions:
        return
    mdt = open_metadata(meta)
    if meta.store.layout > _LAST_LAYOUT_OF_SUFFIXES:
        roll_back(mdt, requested, said_by)
        return
    files = {p: _named({**(r.rollback_log_files or {}), **(r.log_files_from_failed_commit or {})})
             for p, r in partitions.items() if r.rollback_log_files}  # fmt: skip
    commit_changes(mdt, said_by, {FILES: files_changes(files)} if files else {})
    roll_back(mdt, requested, said_by + _ROLLBACK_SUFFIX)


def _statistics(meta: MetaClient, instant: Instant, written: CommitMetadata) -> FileStatistics | None:
    if COLUMN_STATS not in maintained_partitions(meta):
        return None
    return column_statistics(meta, instant, written)


def _named(sizes: Mapping[str, int]) -> dict[str, int]:
    """Sizes by bare file name; of a file named twice the greater, as Hudi takes."""
    named: dict[str, int] = {}
    for path, size in sizes.items():
        name = path.rpartition("/")[2]
        named[name] = max(size, named.get(name, 0))
    return named
