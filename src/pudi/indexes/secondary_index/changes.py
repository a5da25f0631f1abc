"""The pairs of value and key that a commit adds to secondary indexes and removes from them.

Source: SecondaryIndexRecordGenerationUtils.convertWriteStatsToSecondaryIndexRecords.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from pudi.client import MetaClient, TableSnapshot
from pudi.client.changed_groups import changed_groups, key_reading, may_change_keys
from pudi.client.inflight_builds import with_maintained
from pudi.config import MetadataOptions
from pudi.errors import CorruptError, SchemaError
from pudi.format import WriteStat, staging_dir
from pudi.indexes.indexed_commit import IndexedCommit, IndexStaging
from pudi.metadata.keys import Shards
from pudi.metadata.record_index import secondary_value
from pudi.metadata.value_types import leaf_type
from pudi.metadata_write.client import open_metadata
from pudi.metadata_write.index_defs import IndexSpec, defined_index
from pudi.metadata_write.index_logs import IndexesChangedError, ShardWork, is_invalidated
from pudi.task import Engine
from pudi.task.index_entries import SecondaryReading, SecondaryStaging
from pudi.task.index_keys import KeyTask, ShardTask
from pudi.task.staged_keys import Repeated, StagedKeys, portions_by_shard, staged_of


def secondary_indexes(meta: MetaClient, names: Sequence[str]) -> list[IndexSpec]:
    """Return secondary indexes of a table by their definitions.

    Args:
        meta: the table.
        names: their partitions of the metadata table.

    Raises:
        CorruptError: the definition of an index is missing or damaged.
    """
    specs = [defined_index(meta, name) for name in names]
    for spec in specs:
        if len(spec.columns) != 1:
            raise CorruptError(
                f"the definition of the index {spec.partition} doesn't name its column; write with "
                f"{MetadataOptions.drop}={spec.partition}, which drops it, and create it again",
                table=meta.storage.root,
            )
    return specs


def type_of_indexed(meta: MetaClient, index: IndexSpec, schema: pa.Schema) -> pa.DataType:
    """Return the type of the indexed column.

    Raises:
        SchemaError: the table has no such column any more; Hudi renames and drops indexed columns.
    """
    kind = leaf_type(schema, index.columns[0])
    if kind is None:
        raise SchemaError(
            f"the index {index.partition} is of column {index.columns[0]!r}, which the table no longer has: drop the "
            "index, then write",
            table=meta.storage.root,
        )
    return kind


def hashes_whole_keys(index: IndexSpec) -> bool:
    """Return whether a secondary index assigns file groups by the whole key, see `secondary_shard_of`."""
    return index.version == 1


@dataclass(frozen=True, slots=True)
class StagedSecondary:
    """The changes of one commit to a secondary index, in files of keys that tasks staged.

    Attributes:
        meta: the table.
        engine: runs the jobs.
        instant: requested time of the commit.
        partition: the index's partition of the metadata table.
        count: number of file groups of the index, when the keys were divided among them.
        keys: the files.
    """

    meta: MetaClient
    engine: Engine
    instant: str
    partition: str
    count: int
    keys: tuple[StagedKeys, ...]

    def plan(self, own: TableSnapshot) -> ShardWork:
        """Find the file groups of the index that the commit changes; see `StagedKeyChanges.plan`."""
        found = portions_by_shard(self.keys)
        if not found:
            return ShardWork(self, (), ())
        groups = Shards.of(self.partition, own.view(sizes=False).slices(self.partition)).all
        if len(groups) != self.count:
            raise IndexesChangedError(
                f"the index {self.partition} was rebuilt while this write was under way; retry",
                table=self.meta.storage.root,
                instant=self.instant,
            )
        if is_invalidated(own, self.partition, groups):
            return ShardWork(self, (), ())
        tasks = tuple(
            ShardTask(place, self.instant, own.meta.store.layout, groups[shard], portions)
            for place, ((_, shard), portions) in enumerate(found.items())
        )
        return ShardWork(self, tasks, ())

    def note_repeated(self, found: Sequence[Repeated]) -> None:
        """Its tasks look for none."""


def stage_secondary(commit: IndexedCommit, staging: IndexStaging, names: Sequence[str]) -> list[StagedSecondary]:
    """Find the pairs of value and key that a commit adds to secondary indexes and removes from them.

    Tasks that wrote files have staged theirs. Jobs read the other file groups: no key passes through this process.

    Args:
        commit: the commit.
        staging: how its files are read.
        names: the indexes' partitions of the metadata table.
    """
    meta, instant, entries = commit.meta, commit.instant.requested, staging.entries
    indexes = secondary_indexes(meta, names)
    if not indexes or not may_change_keys(commit.written):
        return []
    stagings = [_staging_of(staging, index, instant) for index in indexes]
    emitted = [entries.keys(each.index) if each in entries.stagings else {} for each in stagings]
    complete = set.intersection(*(set(keys) for keys in emitted))

    def matters(stat: WriteStat) -> bool:
        return (stat.partition_path or "", stat.file_id or "") not in complete

    groups = list(changed_groups(staging.snapshot, commit.written, matters))
    jobs: list[KeyTask] = []
    for how, keys in zip(stagings, emitted, strict=True):
        of_index = SecondaryReading(how.reading, how.column)
        for place, group in enumerate(groups):
            if group.stats and group.id in keys:
                continue
            path = f"{how.folder}/{how.index}-{place}"
            path = path if staging.run is None else staging.run.own(path)
            task = KeyTask(len(jobs), of_index, "", secondary_value(), how.shards, path, group.before, group.after)
            jobs.append(replace(task, whole_key=how.whole_key, index=how.index))
    found = [*staged_of(commit.run(jobs)), *(each for keys in emitted for each in keys.values() if each.rows.path)]
    return [
        StagedSecondary(
            meta,
            staging.engine,
            instant,
            how.index,
            how.shards,
            tuple(each for each in found if each.index == how.index),
        )
        for how in stagings
    ]


def _staging_of(staging: IndexStaging, index: IndexSpec, requested: str) -> SecondaryStaging:
    """Return how the tasks of a commit staged an index, if it is still the same one, else how jobs do it now."""
    staged = staging.entries.staging(index.partition)
    now = (index.columns[0], hashes_whole_keys(index))
    if isinstance(staged, SecondaryStaging) and (staged.column, staged.whole_key) == now:
        return staged
    return next(secondary_staging(staging.snapshot, [index], requested))


def secondary_staging(
    snapshot: TableSnapshot, indexes: Sequence[IndexSpec], requested: str
) -> Iterator[SecondaryStaging]:
    """Yield how the keys of secondary indexes are staged.

    Args:
        snapshot: the table when the commit was planned.
        indexes: the indexes.
        requested: requested time of the commit.
    """
    meta = snapshot.meta
    reading = key_reading(snapshot).with_instant(requested)
    view = with_maintained(meta, open_metadata(meta)).view(sizes=False)
    for index in indexes:
        type_of_indexed(meta, index, reading.schema)
        count = len(Shards.of(index.partition, view.slices(index.partition)).all)
        whole = hashes_whole_keys(index)
        yield SecondaryStaging(index.partition, index.columns[0], staging_dir(requested), count, whole, reading)
