"""Keep the metadata table in step: a table's action in, the metadata table's delta commit of the same instant out.

The delta commit completes under the table's lock, after the last check and right before the table's own instant. It
counts only once that is completed: readers pass over the blocks of instants that are pending on the table. So a crash
between the two leaves nothing but what the rollback of the table's instant takes away.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from pudi.action.mdt.blooms import blooms_of_commit, keeps_blooms
from pudi.action.mdt.client import open_metadata
from pudi.action.mdt.commit import commit_changes
from pudi.action.mdt.expression import expression_changes
from pudi.action.mdt.inflight_builds import inflight_partitions, maintained_partitions
from pudi.action.mdt.record_index import Staged, may_change_keys
from pudi.action.mdt.rollback import discard_deltacommit, roll_back
from pudi.action.mdt.staged import NOTHING_STAGED, StagedChanges, is_of_records
from pudi.action.mdt.statistics import FileStatistics, column_statistics
from pudi.action.meta_client import MetaClient
from pudi.config import check_metadata_kept
from pudi.errors import ConflictError
from pudi.format import CommitMetadata, RollbackPartitionMetadata
from pudi.metadata import MetadataTable
from pudi.metadata.changes import Changes, files_changes, files_of_commit
from pudi.metadata.records import BLOOM_FILTERS, COLUMN_STATS, FILES, PARTITION_STATS
from pudi.timeline import Instant, Timeline

_LAST_LAYOUT_OF_SUFFIXES = 1
_ROLLBACK_SUFFIX = "006"
"""What rollbacks of the metadata table end with below version 8 (HoodieBackedTableMetadataWriterTableVersionSix)."""


def metadata_commit_hook(
    meta: MetaClient,
    instant: Instant,
    written: CommitMetadata,
    check: Callable[[Timeline], None],
    stage: Callable[[], StagedChanges] | None = None,
) -> Callable[[Timeline], None]:
    """What `TimelineStore.complete` is to call under the lock for an action that changes data files.

    Args:
        meta: the table.
        instant: the table's instant that is about to be completed.
        written: what it did.
        check: the action's own check, which comes first.
        stage: finds out what it changes in the indexes that need files read (`stage_changes`): now, and once more under
            the lock where another process has begun such an index meanwhile.

    Returns:
        A function that checks, then writes the metadata table's delta commit.
    """
    staged = NOTHING_STAGED if stage is None else stage()
    prepared, blooms = _statistics(meta, instant, written), None
    if keeps_blooms(meta):
        blooms = blooms_of_commit(meta, instant.requested, written)

    def run(now: Timeline) -> None:
        check(now)
        meta.reload()  # another writer may have made or removed the metadata table meanwhile
        if not meta.config.metadata_partitions:
            return
        building = inflight_partitions(meta)
        kept = {*meta.config.metadata_partitions, *building}
        check_metadata_kept(meta.config, meta.storage.root)
        table = MetadataTable.open(meta.storage, meta.config, meta.store, now)
        meta.check_listed(table)
        statistics = _statistics(meta, instant, written) if prepared is None else prepared
        found: dict[str, Changes | None] = {FILES: files_of_commit(written)}
        if statistics is not None:
            whole = PARTITION_STATS in kept
            of_files, of_partitions = statistics.of_both(now, table) if whole else (statistics.of_files(), None)
            found |= {COLUMN_STATS: of_files if COLUMN_STATS in kept else None, PARTITION_STATS: of_partitions}
        if BLOOM_FILTERS in kept:
            found[BLOOM_FILTERS] = blooms_of_commit(meta, instant.requested, written) if blooms is None else blooms
        found.update(expression_changes(meta, instant, written, staged.expressions, now, table))
        changes = {partition: each for partition, each in found.items() if each is not None and len(each)}
        keys = _of_records(meta, kept, written, staged, stage)
        mdt = open_metadata(meta)
        commit_changes(mdt, instant.requested, changes, keys, set(building.values()), table.timeline)
        if COLUMN_STATS in kept and statistics is not None:
            statistics.define()

    return run


def _of_records(
    meta: MetaClient,
    kept: Collection[str],
    written: CommitMetadata,
    staged: StagedChanges,
    stage: Callable[[], StagedChanges] | None,
) -> list[Staged]:
    """The changes of those indexes of records that there are now."""
    there = [name for name in sorted(kept) if is_of_records(name)]
    known = {each.partition: each for each in staged.keys}
    if may_change_keys(written) and not known.keys() >= set(there):
        if stage is None:
            raise ConflictError(
                "another process made an index of records while this write was under way; retry",
                table=meta.storage.root,
            )
        known = {each.partition: each for each in stage().keys}
    return [known[name] for name in there if name in known]


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
