"""Complete a table's commit together with the metadata table's deltacommit of the same instant.

The deltacommit completes under the table's lock, after the last check and right before the table's own instant. Readers
ignore its blocks until the table's instant completes. So after a crash between the two, the rollback of the table's
instant removes everything.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from posixpath import basename

from pudi.client import MetaClient, TableSnapshot
from pudi.client.changed_groups import may_change_keys
from pudi.client.inflight_builds import inflight_partitions, maintained_partitions
from pudi.concurrency import Heartbeat
from pudi.config import WriteOptions, check_metadata_kept
from pudi.format import WRITE_ACTIONS, RollbackPartitionMetadata, parse_log_file
from pudi.format.metadata_partitions import FILES
from pudi.indexes import registry
from pudi.indexes.indexed_commit import CommitChanges, IndexedCommit, LockedCommit, WrittenEntries
from pudi.metadata.changes import Changes, files_changes, files_of_commit
from pudi.metadata_write.client import open_metadata
from pudi.metadata_write.commit import LockedMetadata, commit_changes
from pudi.metadata_write.index_logs import IndexesChangedError, IndexLogs, StagedKeyChanges, write_index_logs
from pudi.metadata_write.rollback import discard_deltacommit, roll_back
from pudi.timeline import Instant, Timeline

_ATTEMPTS = 3
"""Attempts at a commit while other processes make indexes."""
_ROLLBACK_SUFFIX = "006"
"""Suffix of the metadata table's rollbacks below version 8 (HoodieBackedTableMetadataWriterTableVersionSix)."""


def complete_with_metadata(
    commit: IndexedCommit,
    check: Callable[[Timeline], None],
    seen: Timeline,
    content: bytes | None = None,
) -> Instant:
    """Complete an instant that changes data files, together with the deltacommit of its metadata table, if it has one.

    The engine's jobs run before the table's lock is taken: those that read the commit's files, and those that write the
    log files of record-level indexes. If another process built or rebuilt an index meanwhile, they run again.

    Args:
        commit: what the inflight instant did, and how the changes of indexes are found.
        check: the action's own check, called first under the lock; it raises an error to prevent the commit.
        seen: the timeline that the action was planned from.
        content: content of the completed file; None for the commit metadata.

    Returns:
        The completed instant.

    Raises:
        ConflictError: another writer's commit conflicts with it; nothing is completed.
    """
    store, instant, said = commit.meta.store, commit.instant, commit.written if content is None else content

    def check_all(now: Timeline) -> None:
        store.refuse_strangers(instant, seen, now)
        check(now)

    if commit.meta.is_metadata:
        return store.complete(instant, said, check_all)
    for attempt in count(1):
        try:
            with _IndexWork(commit).prepared() as complete:
                return store.complete(instant, said, partial(complete, check_all))
        except IndexesChangedError:
            if attempt == _ATTEMPTS:
                raise
            if commit.staging is not None:  # the tasks staged entries of the former indexes
                commit = replace(commit, staging=replace(commit.staging, entries=WrittenEntries()))
    raise AssertionError("the loop ends by a return or an error")


@dataclass(slots=True)
class _IndexWork:
    """One attempt at a deltacommit of the metadata table: prepared before the lock is taken, completed under it."""

    commit: IndexedCommit
    prepared_changes: Sequence[CommitChanges] = ()
    logs: IndexLogs | None = None

    @contextmanager
    def prepared(self) -> Iterator[Callable[[Callable[[Timeline], None], Timeline], None]]:
        """Prepare the changes; yield what commits them under the lock, after the action's own check."""
        meta, staging, requested = self.commit.meta, self.commit.staging, self.commit.instant.requested
        maintained = maintained_partitions(meta)
        if self.commit.removed is None:
            self.prepared_changes = [kind.prepare(self.commit, own) for kind, own in registry.by_kind(maintained)]
        keys = self._keys
        if staging is None or not any(each.keys for each in keys):
            yield self._commit
            return
        mdt = open_metadata(meta)
        # Hudi considers a pending deltacommit of the metadata table without a heartbeat dead
        heart = Heartbeat(
            mdt.storage, requested, meta.context, staging.snapshot.options[WriteOptions.heartbeat_interval_ms]
        )
        heart.start()
        try:
            others = {name for name in maintained if not registry.is_record_level(name)}
            self.logs = write_index_logs(meta, self.commit.instant, keys, others, staging.run)
            yield self._commit
        finally:
            heart.stop()

    @property
    def _keys(self) -> list[StagedKeyChanges]:
        return [key for changes in self.prepared_changes for key in changes.keys]

    def _commit(self, check: Callable[[Timeline], None], now: Timeline) -> None:
        """Write and complete the deltacommit."""
        check(now)
        meta, requested = self.commit.meta, self.commit.instant.requested
        meta.reload()  # another writer may have created or deleted the metadata table meanwhile
        if not meta.config.metadata_partitions:
            return
        building = inflight_partitions(meta)
        check_metadata_kept(meta.config, meta.storage.root)
        maintained = frozenset({*meta.config.metadata_partitions, *building})
        self._check_staged(maintained)
        snapshot = TableSnapshot(meta, now)
        table = snapshot.metadata_table()
        meta.check_listed(table)
        locked = LockedCommit(snapshot, table, maintained)
        found = self._removals(maintained) if self.commit.removed is not None else self._additions(locked)
        changes = {partition: each for partition, each in found.items() if each is not None and len(each)}
        held = LockedMetadata(table, maintained, set(building.values()), self.logs)
        commit_changes(open_metadata(meta), requested, changes, held, self._verify)
        for each in self.prepared_changes:
            each.finish(locked)

    def _verify(self) -> None:
        """Look at the lock before each file of a plan's run: another run may complete the same instant meanwhile.

        A block of this run would then count as one of the other's.
        """
        if self.commit.instant.action not in WRITE_ACTIONS:
            self.commit.meta.lock.verify()

    def _additions(self, locked: LockedCommit) -> dict[str, Changes | None]:
        """Return the records of the commit's files, by partition of the metadata table."""
        found: dict[str, Changes | None] = {FILES: files_of_commit(self.commit.written)}
        for each in self.prepared_changes:
            found.update(each.changes(locked))
        return found

    def _removals(self, maintained: Collection[str]) -> dict[str, Changes | None]:
        """Return the records of deleted files, by partition of the metadata table."""
        removed = self.commit.removed
        assert removed is not None
        gone = {partition: dict.fromkeys(names) for partition, names in removed.files.items()}
        found: dict[str, Changes | None] = {FILES: files_changes(gone)}
        for kind, own in registry.by_kind(sorted(maintained)):
            if own:
                found.update(kind.removed(self.commit, removed, own))
        return found

    def _check_staged(self, maintained: Collection[str]) -> None:
        """Refuse a commit that lacks the changes of a record-level index, since the index is newer."""
        known = {each.partition for each in self._keys}
        newer = sorted(name for name in maintained if registry.is_record_level(name) and name not in known)
        if newer and may_change_keys(self.commit.written):
            raise IndexesChangedError(
                f"another process made the index {newer[0]} while this write was under way; retry",
                table=self.commit.meta.storage.root,
                instant=self.commit.instant.requested,
            )


def discard_metadata(meta: MetaClient, requested: str) -> None:
    """Discard the metadata table's deltacommit of a pending instant, before the instant itself is discarded.

    Under the table's lock.
    """
    meta.reload()
    if meta.config.metadata_partitions:
        discard_deltacommit(open_metadata(meta), requested)


def roll_back_metadata_table(
    meta: MetaClient, requested: str, rollback_instant: str, partitions: Mapping[str, RollbackPartitionMetadata]
) -> None:
    """Roll back the metadata table's deltacommit of a pending instant, for a rollback of the table.

    Below version 8 a rollback keeps the log files of its target and adds files with rollback blocks: the metadata table
    lists both from then on. Where the target began a file slice, all log files of the slice go, those of dead writers
    too, which their rollbacks listed.

    Args:
        meta: the table.
        requested: the instant that is rolled back.
        rollback_instant: requested time of the rollback.
        partitions: the rollback's metadata, by partition path.
    """
    meta.reload()
    if not meta.config.metadata_partitions:
        return
    mdt = open_metadata(meta)
    if not meta.store.rules.services_have_suffixes:
        roll_back(mdt, requested, rollback_instant)
        return
    changes = {partition: _changed_by(rolled_back) for partition, rolled_back in partitions.items()}
    files = {p: found for p, changed in changes.items() if (found := _without_missing(meta, p, changed))}
    commit_changes(mdt, rollback_instant, {FILES: files_changes(files)} if files else {})
    roll_back(mdt, requested, rollback_instant + _ROLLBACK_SUFFIX)


def _changed_by(rolled_back: RollbackPartitionMetadata) -> dict[str, int | None]:
    """Return the log files that a rollback added or kept in a partition, with sizes, and those that it deleted."""
    names = (basename(path) for path in rolled_back.success_delete_files)
    changed: dict[str, int | None] = {name: None for name in names if parse_log_file(name) is not None}
    if rolled_back.rollback_log_files:
        changed |= _named({**rolled_back.rollback_log_files, **(rolled_back.log_files_from_failed_commit or {})})
    return changed


def _without_missing(meta: MetaClient, partition: str, changed: Mapping[str, int | None]) -> dict[str, int | None]:
    """Return changes without the log files that a clean has deleted since the rollback was planned."""
    if all(size is None for size in changed.values()):
        return dict(changed)
    there = {basename(info.path) for info in meta.storage.list_dir(partition)[0]}
    return {name: size for name, size in changed.items() if size is None or name in there}


def _named(sizes: Mapping[str, int]) -> dict[str, int]:
    """Return sizes by file name; of a file named twice the greater one, as in Hudi."""
    named: dict[str, int] = {}
    for path, size in sizes.items():
        name = basename(path)
        named[name] = max(size, named.get(name, 0))
    return named
