"""Make the record index of a table that has a metadata table, by the engine's tasks.

Source: FORMAT 7.2 and 7.3; HoodieBackedTableMetadataWriter.initializeFilegroupsAndCommitToRecordIndexPartition,
HoodieTableMetadataUtil.estimateFileGroupCount.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pudi.action.mdt.build import next_instant, set_partitions
from pudi.action.mdt.client import open_metadata
from pudi.action.mdt.commit import BULK_INSERT, commit_metadata
from pudi.action.mdt.index_defs import record_index_definition, write_definition
from pudi.action.mdt.record_index import LEAST_BY_PARTITION, key_reading
from pudi.action.meta_client import MetaClient
from pudi.concurrency import Heartbeat
from pudi.config import Options
from pudi.errors import InvalidArgumentError
from pudi.filegroup import FileSlice
from pudi.format import (
    Action,
    PartitionMetadata,
    WriteStat,
    encode_partition_metadata,
    instant_to_millis,
    partition_metadata_path,
    staging_dir,
)
from pudi.metadata.locations import encode_location
from pudi.metadata.records import FILES, RECORD_INDEX
from pudi.metadata.shards import WHOLE_TABLE, shard_id
from pudi.storage import delete_folder
from pudi.task import Engine
from pudi.task.index_keys import CountTask, GroupTask, KeyTask, ShardTask, StagedKeys, portions_by_shard
from pudi.timeline import Timeline

GLOBAL, BY_PARTITION = (
    "hoodie.metadata.global.record.level.index.enable",
    "hoodie.metadata.record.level.index.enable",
)
"""Options that ask for a record index: over the whole table, and for each partition by itself."""

_LEAST, _MOST = (
    "hoodie.metadata.global.record.level.index.min.filegroup.count",
    "hoodie.metadata.global.record.level.index.max.filegroup.count",
)
_MOST_BY_PARTITION = "hoodie.metadata.record.level.index.max.filegroup.count"
_MOST_BYTES = "hoodie.metadata.record.index.max.filegroup.size"
_GROWTH = "hoodie.metadata.record.index.growth.factor"
_RECORD_BYTES = 48
"""Bytes of an average record of the index (RECORD_INDEX_AVERAGE_RECORD_SIZE)."""

_COUNTED_FROM = 256 << 20
"""Bytes of a table, or partition, from which on its records are counted: with fewer there are never too many."""


def wanted_index(options: Options) -> bool | None:
    """Whether options ask for a record index by partition (true), over the whole table (false), or none (None)."""
    if options.given.get(BY_PARTITION) is True:
        return True
    return False if options.given.get(GLOBAL) is True else None


def build_record_index(meta: MetaClient, engine: Engine, options: Options) -> None:
    """Before a write: make the record index that the user asks for, where there is none.

    Args:
        meta: the table, with a metadata table; without one nothing is done.
        engine: who does the work.
        options: the writer's.

    Raises:
        InvalidArgumentError: both kinds of index are asked for.
    """
    partitioned = wanted_index(options)
    if partitioned is None or FILES not in meta.config.metadata_partitions:
        return
    if partitioned and options.given.get(GLOBAL) is True:
        raise InvalidArgumentError(f"{BY_PARTITION} and {GLOBAL}: choose one of them", table=meta.storage.root)
    if RECORD_INDEX in meta.config.metadata_partitions:
        return
    with meta.lock:
        meta.reload()
        ready = meta.config.metadata_partitions
        if RECORD_INDEX in ready or FILES not in ready:
            return
        timeline = meta.store.load()
        requested = next_instant(meta, timeline)
        heart = Heartbeat(
            meta.storage, requested, meta.context, options.integer("hoodie.client.heartbeat.interval_in_ms")
        )
        set_partitions(meta, ready=ready, building=(RECORD_INDEX,))
        heart.start()
        try:
            _Build(meta, engine, options, timeline, requested, partitioned).run()
        finally:
            heart.stop()
            delete_folder(meta.storage, staging_dir(requested))
        write_definition(meta, RECORD_INDEX, record_index_definition(partitioned=partitioned))
        set_partitions(meta, ready=(*ready, RECORD_INDEX), building=())


@dataclass(frozen=True, slots=True)
class _Build:
    """The making of one index.

    Attributes:
        meta: the table.
        engine: who does the work.
        options: the writer's.
        timeline: the table's.
        requested: the instant of the metadata table.
        partitioned: whether the index is by partition.
    """

    meta: MetaClient
    engine: Engine
    options: Options
    timeline: Timeline
    requested: str
    partitioned: bool

    def run(self) -> None:
        """Write the partition's first delta commit."""
        meta, mdt = self.meta, open_metadata(self.meta)
        slices = meta.view(self.timeline).all_slices()
        shards = self._shards(slices)
        staged = self._staged(slices, shards)
        instant = mdt.store.start(mdt.store.request(Action.DELTACOMMIT, at=self.requested))
        described = encode_partition_metadata(PartitionMetadata(self.requested, 1), mdt.context.clock.now_ms())
        delete_folder(mdt.storage, RECORD_INDEX)
        mdt.storage.create(partition_metadata_path(RECORD_INDEX), described)
        ids = [shard_id(n, scope) for scope, count in sorted(shards.items(), key=str) for n in range(count)]
        self._run([GroupTask(n, self.requested, tuple(ids[n::_MAKERS])) for n in range(min(_MAKERS, len(ids)))])
        stats = self._bases(staged)
        mdt.store.complete(instant, commit_metadata({RECORD_INDEX: stats} if stats else {}, BULK_INSERT))

    def _run(self, jobs: Sequence[GroupTask | KeyTask | ShardTask | CountTask]) -> Sequence[object]:
        return self.engine.run_jobs(self.meta.storage, self.requested, jobs) if jobs else ()

    def _shards(self, slices: Sequence[FileSlice]) -> Mapping[str | None, int]:
        """How many file groups the index gets, over the table or for each partition (estimateFileGroupCount)."""
        option = self.options.integer
        least, most = (LEAST_BY_PARTITION, _MOST_BY_PARTITION) if self.partitioned else (_LEAST, _MOST)
        low, high = option(least), option(most)
        scopes: dict[str | None, list[FileSlice]] = {} if self.partitioned else {WHOLE_TABLE: []}
        for each in slices:
            scopes.setdefault(each.partition if self.partitioned else WHOLE_TABLE, []).append(each)
        if low == high:
            return dict.fromkeys(scopes, low)
        found = {}
        for scope, group in scopes.items():
            records = self._count(group) if sum(s.size for s in group) >= _COUNTED_FROM else 0
            expected = math.ceil(records * self.options.number(_GROWTH))
            number = expected // max(1, option(_MOST_BYTES) // _RECORD_BYTES)
            found[scope] = max(1, min(max(number, low), high))
        return found

    def _count(self, slices: Sequence[FileSlice]) -> int:
        """Records of some slices, by the base files' footers."""
        jobs = [CountTask(n, tuple(slices[n::_MAKERS])) for n in range(min(_MAKERS, len(slices)))]
        results = self.engine.run_jobs(self.meta.storage, self.requested, jobs)
        return sum(result.received for result in results)

    def _staged(self, slices: Sequence[FileSlice], shards: Mapping[str | None, int]) -> list[StagedKeys]:
        reading = key_reading(self.meta, self.timeline)
        folder = staging_dir(self.requested)
        jobs = []
        for number, each in enumerate(slices):
            scope = each.partition if self.partitioned else WHOLE_TABLE
            location = encode_location(each.partition, each.file_id, self._millis(each.instant))
            path = f"{folder}/{number}"
            jobs.append(KeyTask(number, reading, each.partition, location, shards[scope], path, None, each))
        found = [each for each in self._run(jobs) if isinstance(each, StagedKeys) and each.shards]
        return found if self.partitioned else [replace(each, partition="") for each in found]

    def _bases(self, staged: Sequence[StagedKeys]) -> tuple[WriteStat, ...]:
        tasks = []
        for number, ((partition, shard), portions) in enumerate(portions_by_shard(staged).items()):
            file_id = shard_id(shard, partition if self.partitioned else WHOLE_TABLE)
            target = FileSlice(RECORD_INDEX, file_id, None)
            layout = self.meta.store.layout
            tasks.append(ShardTask(number, self.requested, layout, target, portions, bootstrap=True))
        results = self.engine.run_jobs(self.meta.storage, self.requested, tasks) if tasks else ()
        return tuple(stat for result in results for stat in result.stats)

    def _millis(self, instant: str) -> int:
        try:
            return instant_to_millis(instant, self.meta.config.timezone)
        except InvalidArgumentError:  # a table bootstrapped from other files has instants that are no dates
            return 0


_MAKERS = 16
"""Tasks that make file groups, or count records."""
