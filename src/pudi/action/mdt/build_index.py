"""Make the record index of a table that has a metadata table, by the engine's tasks.

Source: FORMAT 7.2 and 7.3; HoodieBackedTableMetadataWriter.initializeFilegroupsAndCommitToRecordIndexPartition,
HoodieTableMetadataUtil.estimateFileGroupCount.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pudi.action.mdt.build import next_instant, set_partitions
from pudi.action.mdt.building import Building, Stats, build_whole
from pudi.action.mdt.index_defs import write_definition
from pudi.action.mdt.record_index import LEAST_BY_PARTITION, key_reading
from pudi.action.meta_client import MetaClient
from pudi.concurrency import Heartbeat
from pudi.config import Options
from pudi.errors import InvalidArgumentError
from pudi.filegroup import FileSlice
from pudi.format import WriteStat, instant_to_millis, staging_dir
from pudi.metadata.index_spec import IndexSpec, record_index_spec
from pudi.metadata.locations import encode_location
from pudi.metadata.records import FILES, RECORD_INDEX
from pudi.metadata.shards import WHOLE_TABLE, shard_id
from pudi.storage import delete_folder
from pudi.task import Engine
from pudi.task.index_keys import CountTask, KeyTask, ShardTask, StagedKeys, portions_by_shard
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

_COUNTERS = 16
"""Tasks that count records."""

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
        spec = record_index_spec(partitioned=partitioned)
        heart.start()
        try:
            build_whole(RecordIndexBuilder(Building(meta, engine, options, spec, timeline, requested)))
        finally:
            heart.stop()
            delete_folder(meta.storage, staging_dir(requested))
        write_definition(meta, spec)
        set_partitions(meta, ready=(*ready, RECORD_INDEX), building=())


@dataclass(slots=True)
class RecordIndexBuilder:
    """Fills a record index."""

    work: Building
    _shards: Mapping[str | None, int] = field(default_factory=dict, init=False)

    def spec(self) -> IndexSpec:
        """The index itself; any table can have one."""
        return self.work.spec

    def groups(self) -> Sequence[str]:
        """So many file groups as the records that the table has now, and shall have, need."""
        self._shards = self._counted(self.work.slices())
        return [shard_id(n, scope) for scope, count in sorted(self._shards.items(), key=str) for n in range(count)]

    def fill(self) -> Stats:
        """Write where each key is, by tasks: no key passes this process."""
        return {RECORD_INDEX: self._bases(self._staged(self.work.slices()))}

    def finish(self, now: Timeline) -> Stats:
        """Nothing comes with it."""
        return {}

    @property
    def _partitioned(self) -> bool:
        return self.work.spec.is_partitioned

    def _counted(self, slices: Sequence[FileSlice]) -> Mapping[str | None, int]:
        """How many file groups the index gets, over the table or for each partition (estimateFileGroupCount)."""
        option = self.work.options.integer
        least, most = (LEAST_BY_PARTITION, _MOST_BY_PARTITION) if self._partitioned else (_LEAST, _MOST)
        low, high = option(least), option(most)
        scopes: dict[str | None, list[FileSlice]] = {} if self._partitioned else {WHOLE_TABLE: []}
        for each in slices:
            scopes.setdefault(self._scope(each), []).append(each)
        if low == high:
            return dict.fromkeys(scopes, low)
        found = {}
        for scope, group in scopes.items():
            records = self._records(group) if sum(s.size for s in group) >= _COUNTED_FROM else 0
            expected = math.ceil(records * self.work.options.number(_GROWTH))
            number = expected // max(1, option(_MOST_BYTES) // _RECORD_BYTES)
            found[scope] = max(1, min(max(number, low), high))
        return found

    def _scope(self, file_slice: FileSlice) -> str | None:
        return file_slice.partition if self._partitioned else WHOLE_TABLE

    def _records(self, slices: Sequence[FileSlice]) -> int:
        """Records of some slices, by the base files' footers."""
        count = min(_COUNTERS, len(slices))
        results = self.work.run([CountTask(n, tuple(slices[n::count])) for n in range(count)])
        return sum(result.received for result in results)

    def _staged(self, slices: Sequence[FileSlice]) -> list[StagedKeys]:
        work, jobs = self.work, []
        reading, folder = key_reading(work.meta, work.timeline), staging_dir(work.requested)
        for number, each in enumerate(slices):
            shards = self._shards[self._scope(each)]
            location = encode_location(each.partition, each.file_id, self._millis(each.instant))
            jobs.append(KeyTask(number, reading, each.partition, location, shards, f"{folder}/{number}", None, each))
        found = [each for each in work.run(jobs) if isinstance(each, StagedKeys) and each.shards]
        return found if self._partitioned else [replace(each, partition="") for each in found]

    def _bases(self, staged: Sequence[StagedKeys]) -> tuple[WriteStat, ...]:
        tasks = []
        for number, ((partition, shard), portions) in enumerate(portions_by_shard(staged).items()):
            file_id = shard_id(shard, partition if self._partitioned else WHOLE_TABLE)
            target = FileSlice(RECORD_INDEX, file_id, None)
            layout = self.work.meta.store.layout
            tasks.append(ShardTask(number, self.work.requested, layout, target, portions, bootstrap=True))
        return tuple(stat for result in self.work.run(tasks) for stat in result.stats)

    def _millis(self, instant: str) -> int:
        try:
            return instant_to_millis(instant, self.work.meta.config.timezone)
        except InvalidArgumentError:  # a table bootstrapped from other files has instants that are no dates
            return 0
