"""The keys that a commit adds to file groups and removes from them.

Source: HoodieTableMetadataUtil.convertMetadataToRecordIndexRecords.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from posixpath import basename

from pudi.client import MetaClient, TableSnapshot
from pudi.client.changed_groups import ChangedGroup, changed_groups, key_reading, may_change_keys
from pudi.client.inflight_builds import with_maintained
from pudi.config import MetadataOptions
from pudi.filegroup import HFILE_EXTENSION, FileSlice
from pudi.format import (
    CommitMetadata,
    FileGroupId,
    WriteStat,
    instant_to_millis,
    parse_base_file,
    parse_log_file,
    staging_dir,
)
from pudi.format.metadata_partitions import RECORD_INDEX
from pudi.indexes.indexed_commit import IndexedCommit, IndexStaging
from pudi.indexes.record_index.state import may_repeat, note_repeated, shards_of
from pudi.metadata.record_index import WHOLE_TABLE, RecordShards, encode_location, shard_id
from pudi.metadata_write.client import open_metadata
from pudi.metadata_write.index_logs import IndexesChangedError, ShardWork, is_invalidated
from pudi.tagging import Index
from pudi.task import Engine
from pudi.task.index_entries import RecordStaging
from pudi.task.index_keys import KeyTask, ShardTask
from pudi.task.staged_keys import KeyWatch, Repeated, StagedKeys, portions_by_shard, staged_of


@dataclass(frozen=True, slots=True)
class StagedIndex:
    """The changes of one commit to the record index, in files of keys that tasks staged.

    Attributes:
        meta: the table.
        engine: runs the jobs.
        instant: requested time of the commit.
        shards: number of file groups of the index by partition path, when the keys were divided among them.
        keys: the files.
        looks_up: whether the commit may bring keys that other file groups have.
        partition: its partition of the metadata table.
    """

    meta: MetaClient
    engine: Engine
    instant: str
    shards: Mapping[str | None, int]
    keys: tuple[StagedKeys, ...]
    looks_up: bool
    partition: str = RECORD_INDEX

    def plan(self, own: TableSnapshot) -> ShardWork:
        """Find the file groups of the index that the commit changes; see `StagedKeyChanges.plan`."""
        found = portions_by_shard(self.keys)
        if not found:
            return ShardWork(self, (), ())
        known = shards_of(TableSnapshot.load(self.meta), own)
        if is_invalidated(own, RECORD_INDEX, known.slices):
            return ShardWork(self, (), ())
        new = self._new_groups(known, {partition for partition, _ in found})
        watch = None if self.meta.config.repeated_keys else KeyWatch(known.scope if self.looks_up else None)
        tasks = []
        for place, ((partition, shard), portions) in enumerate(found.items()):
            scope = partition if known.partitioned else WHOLE_TABLE
            first, _ = known.ranges.get(scope, (0, 0))
            file_slice = new.get(shard_id(shard, scope)) or known.slices[first + shard]
            tasks.append(ShardTask(place, self.instant, own.meta.store.layout, file_slice, portions, watch=watch))
        return ShardWork(self, tuple(tasks), tuple(new))

    def note_repeated(self, found: Sequence[Repeated]) -> None:
        """See `StagedKeyChanges.note_repeated`."""
        note_repeated(TableSnapshot.load(self.meta), found)

    def _new_groups(self, known: RecordShards, touched: set[str]) -> dict[str, FileSlice]:
        """Return the new file groups, for partitions without any in the index."""
        for partition, number in self.shards.items():
            there = known.ranges.get(partition)
            if there is not None and there[1] != number:
                raise IndexesChangedError(
                    "the record index was rebuilt while this write was under way; retry",
                    table=self.meta.storage.root,
                    instant=self.instant,
                )
        if not known.partitioned:
            return {}
        missing = sorted(touched - set(known.ranges))
        ids = [shard_id(number, partition) for partition in missing for number in range(self.shards[partition])]
        return {file_id: FileSlice(RECORD_INDEX, file_id, None) for file_id in ids}


def stage_keys(commit: IndexedCommit, staging: IndexStaging) -> StagedIndex | None:
    """Find the keys that a commit adds to file groups and removes from them; None if no keys change.

    Tasks that wrote files have staged their keys. Jobs read the other files: no key passes through this process.
    """
    meta, instant, written, emitted = commit.meta, commit.instant.requested, commit.written, staging.entries
    if not may_change_keys(written):
        return None
    how = emitted.staging(RECORD_INDEX)
    if not isinstance(how, RecordStaging):
        how = record_staging(staging.snapshot, instant, staging.index)
    by_group = emitted.keys(RECORD_INDEX)
    tasks = list(_Tasks(staging.snapshot, instant, written, staging.index, by_group.keys(), how).all())
    jobs = [replace(task, number=n, shards=how.groups_of(task.partition)) for n, task in enumerate(tasks)]
    if staging.run is not None:
        jobs = [replace(job, path=staging.run.own(job.path)) for job in jobs]
    found = tuple(staged_of(commit.run(jobs))) + tuple(each for each in by_group.values() if each.rows.path)
    partitions = {each.partition for each in found}
    shards = {p if how.partitioned else WHOLE_TABLE: how.groups_of(p) for p in partitions}
    if not how.partitioned:
        found = tuple(replace(each, partition="") for each in found)
    looks_up = may_repeat(meta.config, staging.index, written, partitioned=how.partitioned)
    return StagedIndex(meta, staging.engine, instant, shards, found, looks_up)


def record_staging(snapshot: TableSnapshot, requested: str, index: Index) -> RecordStaging:
    """Return how tasks stage keys for the table's record index, ready or unfinished.

    Args:
        snapshot: the table, with the writer's options.
        requested: requested time of the commit.
        index: the index that locates the commit's records.

    Raises:
        CorruptError: the index is damaged.
    """
    meta = snapshot.meta
    known = shards_of(snapshot, with_maintained(meta, open_metadata(meta)))
    return RecordStaging(
        staging_dir(requested),
        instant_to_millis(requested, meta.config.timezone),
        {scope: number for scope, (_, number) in known.ranges.items()},
        known.partitioned,
        snapshot.options[MetadataOptions.partitioned_record_index_min_groups],
        key_reading(snapshot).with_instant(requested),
        _logs_add(index),
        _revives(index),
    )


def _logs_add(index: Index) -> bool:
    """Return whether log files of existing file groups may have new keys: in bucket tables."""
    return index.buckets is not None


def _revives(index: Index) -> bool:
    """Return whether writes find keys that a log file deleted, and write them to log files again."""
    return not index.records


@dataclass(frozen=True, slots=True)
class _Tasks:
    """The jobs that read the changed keys of one commit."""

    snapshot: TableSnapshot
    instant: str
    written: CommitMetadata
    index: Index
    staged: Collection[FileGroupId]
    staging: RecordStaging

    def all(self) -> Iterator[KeyTask]:
        """Return a job for each file group whose keys may have changed; they are not numbered yet."""
        groups = changed_groups(self.snapshot, self.written, self._matters, _needs_before)
        for place, group in enumerate(groups):
            location = encode_location(group.partition, group.file_id, self.staging.millis)
            path = f"{staging_dir(self.instant)}/{place}"
            task = KeyTask(0, self.staging.reading, group.partition, location, 1, path, group.before, group.after)
            yield self._narrowed(task, group)

    def _narrowed(self, task: KeyTask, group: ChangedGroup) -> KeyTask:
        """Return the task with only the files that show the difference."""
        if group.logs:
            adds = _logs_add(self.index) or any(stat.num_inserts for stat in group.stats)
            return replace(task, logged=group.logs, adds=adds, revives=_revives(self.index))
        if not group.stats:
            return task
        stat = group.stats[-1]
        if not stat.prev_base_file:
            return replace(task, before=None)
        if _needs_before(stat):
            return task
        skip = (stat.num_writes or 0) - (stat.num_inserts or 0)  # rows that stay in front, see SliceWriter.rewrite
        return replace(task, before=group.after if skip else None, skip=skip)

    def _matters(self, stat: WriteStat) -> bool:
        """Return whether a file may have other keys than the file before it, and its task didn't stage them."""
        if (stat.partition_path or "", stat.file_id or "") in self.staged:
            return False
        return bool(stat.num_inserts or stat.num_deletes) or (
            _is_log(stat) and (_logs_add(self.index) or _revives(self.index))
        )


def _needs_before(stat: WriteStat) -> bool:
    """Return whether the changed keys of a file can only be found by a comparison with the slice before it.

    Rows of an HFile are sorted, so new ones are not at the end.
    """
    before = parse_base_file(stat.prev_base_file or "")
    return _is_log(stat) or (before is not None and bool(stat.num_deletes or before.extension == HFILE_EXTENSION))


def _is_log(stat: WriteStat) -> bool:
    return parse_log_file(basename(stat.path or "")) is not None
