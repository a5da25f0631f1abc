"""The record index: the location of each record key, in the whole table or per partition.

As in Hudi, the index knows one location for a record key. Where pudi has put keys into several file groups, the index
isn't asked (`has_repeated_keys`); where only Hudi did, it finds one of them.

Source: HoodieBackedTableMetadataWriter.initializeFilegroupsAndCommitToRecordIndexPartition,
HoodieTableMetadataUtil.estimateFileGroupCount, RecordLevelIndexSupport.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from pudi.client.changed_groups import key_reading
from pudi.client.inflight_builds import with_maintained
from pudi.client.meta_client import MetaClient
from pudi.client.snapshot import TableSnapshot
from pudi.config import MetadataOptions, Options
from pudi.errors import CorruptError, InvalidArgumentError, NotSupportedError, PudiError
from pudi.filegroup import FileSlice
from pudi.format import FileGroupId, WriteStat, instant_to_millis, staging_dir
from pudi.format.metadata_partitions import RECORD_INDEX, partition_type
from pudi.indexes.checking import Difference, IndexCheck, unreadable
from pudi.indexes.kind import (
    CommitChanges,
    IndexedCommit,
    IndexKind,
    IndexRead,
    KeyChanges,
    LookupResult,
    PlannedWrite,
    keys_of_read,
)
from pudi.indexes.record_index.changes import record_staging, shards_of, stage_keys
from pudi.indexes.record_index.properties import (
    has_repeated_keys,
    is_defined_by_partition,
    is_partitioned,
    note_repeated,
    record_index_spec,
)
from pudi.metadata import MetadataTable, partitions_listed
from pudi.metadata.index_spec import IndexSpec
from pudi.metadata.record_index import FILE_ID, WHOLE_TABLE, RecordShards, encode_location, shard_id
from pudi.metadata_write.building import Building, IndexBuilder
from pudi.metadata_write.client import Stats, open_metadata
from pudi.metadata_write.index_defs import IndexRequest
from pudi.plan import ReadPlan
from pudi.plan.entry_staging import EntryStaging
from pudi.schema import PARTITION_PATH
from pudi.task.check_files import UNREADABLE
from pudi.task.index_keys import CountTask, KeyTask, ShardTask
from pudi.task.staged_keys import KeyWatch, LateTask, Repeated, StagedKeys, portions_by_shard, repeated_of, staged_of

_REPEATED = "keys are stored more than once"


def locate_keys(index: str, plan: ReadPlan, read: IndexRead, keys: pa.Array | None) -> LookupResult | None:
    """Return where the records of some keys are; None if that is uncertain.

    Args:
        index: the index that gave the keys, or the record index.
        plan: the read.
        read: the table.
        keys: the record keys of all wanted rows; None if they are unknown.
    """
    groups = None if keys is None else groups_of_keys(plan, read.meta, read.table, keys)
    if groups is not None and has_repeated_keys(read.meta):
        return LookupResult(RECORD_INDEX, None, _REPEATED)
    return None if groups is None else LookupResult(index, groups)


def groups_of_keys(
    plan: ReadPlan, meta: MetaClient, table: MetadataTable, keys: pa.Array
) -> frozenset[FileGroupId] | None:
    """Return the file groups of record keys, in partitions that may have wanted rows; None if that is uncertain."""
    if not meta.config.populate_meta_fields:  # Hudi adds no keys to it then (HoodieTable.shouldTrackSuccessRecords)
        return None
    shards = table.shards(RECORD_INDEX)
    if shards.is_empty:  # Hudi's CREATE INDEX can roll back a built index and leave it listed as ready
        return None
    index = RecordShards.of(table.storage, shards.all, table.scope, partitioned=shards.partitioned)
    owners: Sequence[str | None] = [None]
    if index.partitioned:
        partitions = plan.prune_partitions(partitions_listed(table), meta.keys)
        if not index.ranges.keys() >= set(partitions):  # a partition without file groups of the index may have any key
            return None
        owners = partitions
    asked: list[tuple[int, pa.Array]] = []
    for owner in owners:
        numbers = index.shards_of(keys, owner)
        asked += [
            (int(number), keys.filter(pa.array(numbers == number))) for number in np.unique(numbers) if number >= 0
        ]
    found = meta.context.executor.map(
        lambda each: index.find(*each).select([PARTITION_PATH, FILE_ID]).to_pylist(), asked
    )
    if sum(map(len, found)) < sum(len(each) for _, each in asked) and RECORD_INDEX in table.ever_invalidated:
        return None
    groups = {FileGroupId(row[PARTITION_PATH], row[FILE_ID]) for rows in found for row in rows}
    kept = set(plan.prune_partitions({group.partition for group in groups}, meta.keys))
    return frozenset(group for group in groups if group.partition in kept)


_RECORD_BYTES = 48
"""Bytes of an average record of the index (RECORD_INDEX_AVERAGE_RECORD_SIZE)."""

_COUNTERS = 16
"""Tasks that count records."""

_COUNTED_FROM = 256 << 20
"""Bytes of a table, or partition, from which on its records are counted: with fewer there are never too many."""


@dataclass(slots=True)
class RecordIndexBuilder(IndexBuilder):
    """Builds a record index."""

    _shards: Mapping[str | None, int] = field(default_factory=dict, init=False)
    _repeated: list[Repeated] = field(default_factory=list, init=False)

    def spec(self) -> IndexSpec:
        """The index itself; the table must keep record keys in its files."""
        if not self.work.meta.config.populate_meta_fields:
            raise NotSupportedError(
                "a record index of a table without meta fields: Apache Hudi adds no keys to it, and then misses "
                "records; SIMPLE, GLOBAL_SIMPLE and BUCKET find them without it",
                table=self.work.meta.storage.root,
            )
        return self.work.spec

    def groups(self) -> Sequence[str]:
        """Return as many file groups as the expected number of records needs."""
        self._shards = self._counted(self.work.slices())
        return [shard_id(n, scope) for scope, count in sorted(self._shards.items(), key=str) for n in range(count)]

    def late_groups(self) -> Sequence[str]:
        """Return the minimum number of file groups for each new partition of the table."""
        new = {self._scope(each) for each in self.work.slices()} - set(self._shards)
        self._shards = {**self._shards, **dict.fromkeys(new, max(1, self._least))}
        return [shard_id(n, scope) for scope in sorted(new, key=str) for n in range(self._shards[scope])]

    def fill(self) -> Stats:
        """Write the location of each key, by tasks: no key passes through this process."""
        return {RECORD_INDEX: self._bases(self._staged(self.work.slices()))}

    def finish(self, now: TableSnapshot) -> Stats:
        """Note keys that are in several file groups, of the table as it was and of what was committed since.

        A record that moved since counts, too: it's in the base file where it was.
        """
        if {i.requested for i in now.timeline.commits} - {i.requested for i in self.work.snapshot.timeline.commits}:
            self._repeated += self._late(now)
        if self._repeated:
            note_repeated(now, self._repeated)
        return {}

    def _late(self, now: TableSnapshot) -> Sequence[Repeated]:
        """Return the keys that commits brought since the build began, and that other file groups had before.

        Under the table's lock, so this process looks for them, not the engine's jobs.
        """
        meta = self.work.meta
        known = shards_of(now, with_maintained(meta, open_metadata(meta)))
        changed = [each for each in known.slices if each.base is not None and each.logs]
        return repeated_of([LateTask(n, each, known.scope).run(meta.storage, 0) for n, each in enumerate(changed)])

    @property
    def _partitioned(self) -> bool:
        return is_defined_by_partition(self.work.spec)

    def _counted(self, slices: Sequence[FileSlice]) -> Mapping[str | None, int]:
        """Return the number of file groups, for the table or for each partition (estimateFileGroupCount)."""
        options, low = MetadataOptions.of(self.work.options), self._least
        high = options.partitioned_record_index_max_groups if self._partitioned else options.record_index_max_groups
        scopes: dict[str | None, list[FileSlice]] = {} if self._partitioned else {WHOLE_TABLE: []}
        for each in slices:
            scopes.setdefault(self._scope(each), []).append(each)
        if low == high:
            return dict.fromkeys(scopes, low)
        found = {}
        for scope, group in scopes.items():
            records = self._records(group) if sum(s.size for s in group) >= _COUNTED_FROM else 0
            expected = math.ceil(records * options.record_index_growth)
            number = expected // max(1, options.record_index_max_group_bytes // _RECORD_BYTES)
            found[scope] = max(1, min(max(number, low), high))
        return found

    @property
    def _least(self) -> int:
        options = MetadataOptions.of(self.work.options)
        return options.partitioned_record_index_min_groups if self._partitioned else options.record_index_min_groups

    def _scope(self, file_slice: FileSlice) -> str | None:
        return file_slice.partition if self._partitioned else WHOLE_TABLE

    def _records(self, slices: Sequence[FileSlice]) -> int:
        """Count the records of some slices, from base file footers."""
        count = min(_COUNTERS, len(slices))
        results = self.work.run([CountTask(n, tuple(slices[n::count])) for n in range(count)])
        return sum(result.received for result in results)

    def _staged(self, slices: Sequence[FileSlice]) -> list[StagedKeys]:
        work, jobs = self.work, []
        reading, folder = key_reading(work.snapshot), staging_dir(work.requested)
        for number, each in enumerate(slices):
            shards = self._shards[self._scope(each)]
            location = encode_location(each.partition, each.file_id, self._millis(each.instant))
            jobs.append(KeyTask(number, reading, each.partition, location, shards, f"{folder}/{number}", None, each))
        found = staged_of(work.run(jobs))
        return found if self._partitioned else [replace(each, partition="") for each in found]

    def _bases(self, staged: Sequence[StagedKeys]) -> tuple[WriteStat, ...]:
        tasks = []
        for number, ((partition, shard), portions) in enumerate(portions_by_shard(staged).items()):
            file_id = shard_id(shard, partition if self._partitioned else WHOLE_TABLE)
            target = FileSlice(RECORD_INDEX, file_id, None)
            layout = self.work.meta.store.layout
            task = ShardTask(number, self.work.requested, layout, target, portions, bootstrap=True, watch=KeyWatch())
            tasks.append(task)
        results = self.work.run(tasks)
        self._repeated = list(repeated_of(results))
        return tuple(stat for result in results for stat in result.stats)

    def _millis(self, instant: str) -> int:
        try:
            return instant_to_millis(instant, self.work.meta.config.timezone)
        except InvalidArgumentError:  # a table bootstrapped from other files has instants that are no dates
            return 0


_log = logging.getLogger(__name__)


class RecordIndex(IndexKind):
    """The location of each record key."""

    type = partition_type(RECORD_INDEX)
    is_record_level = True

    def requested(self, request: IndexRequest, version: int, options: Options, table: str) -> IndexSpec:
        """Return the index, per partition if an option asks for it."""
        if request.columns:
            raise InvalidArgumentError(f"an index {self.name} is over record keys: it takes no columns", table=table)
        super().requested(request, version, options, table)
        return record_index_spec(partitioned=options.explicit(MetadataOptions.partitioned_record_index) is True)

    def wanted(self, meta: MetaClient, options: Options) -> Iterator[IndexSpec]:
        """Return the index if one of two options asks for it."""
        by_partition, of_table = MetadataOptions.partitioned_record_index, MetadataOptions.record_index
        of_partitions, of_all = (options.explicit(option) is True for option in (by_partition, of_table))
        if of_partitions and of_all:
            raise InvalidArgumentError(f"{by_partition} and {of_table}: choose one of them", table=meta.storage.root)
        if of_partitions or of_all:
            yield record_index_spec(partitioned=of_partitions)

    def builder(self, work: Building) -> IndexBuilder:
        """See `RecordIndexBuilder`."""
        return RecordIndexBuilder(work)

    def spec_to_rebuild(self, meta: MetaClient, partition: str) -> IndexSpec:
        """Return the index as its file groups show it, or its definition if there are none."""
        slices: Sequence[FileSlice] = ()
        try:
            slices = TableSnapshot.load(meta).metadata_table().shards(RECORD_INDEX).all
        except PudiError as error:
            _log.warning("table %s: the file groups of its record index are damaged: %s", meta.storage.root, error)
        try:
            return record_index_spec(partitioned=is_partitioned(meta, slices))
        except CorruptError:
            _log.warning("table %s: no definition states the kind of its record index", meta.storage.root)
            return record_index_spec(partitioned=False)

    def staging(self, write: PlannedWrite, partitions: Sequence[str]) -> Iterator[EntryStaging]:
        """The keys of files are staged where the files are written."""
        if partitions:
            yield record_staging(write.snapshot, write.requested, write.index)

    def prepare(self, commit: IndexedCommit, partitions: Sequence[str]) -> CommitChanges:
        """Find the keys that the commit adds to file groups and removes from them."""
        staging = commit.staging
        if staging is None or not partitions:
            return CommitChanges()
        staged = stage_keys(commit, staging)
        return KeyChanges(() if staged is None else (staged,))

    def locate(self, read: IndexRead, plan: ReadPlan) -> LookupResult | None:
        """Ask the index for the record keys that a predicate names."""
        if plan.narrowed is None or RECORD_INDEX not in read.table.partitions or plan.history is not None:
            return None
        return locate_keys(RECORD_INDEX, plan, read, keys_of_read(plan, read.meta))

    def check(self, check: IndexCheck, partitions: Sequence[str]) -> Iterator[Difference]:
        """Compare the location of each key, and find duplicate keys."""
        if not partitions:
            return
        try:
            slices = check.table.shards(RECORD_INDEX).all
            partitioned = is_partitioned(check.meta, slices)
            index = RecordShards.of(check.table.storage, slices, check.table.scope, partitioned=partitioned)
        except UNREADABLE as error:
            yield unreadable(RECORD_INDEX, error)
            return
        check.compare_keys(index)
