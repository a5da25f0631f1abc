"""The record index: the location of each record key, in the whole table or per partition.

As in Hudi, the index knows one location for a record key. Where pudi has put keys into several file groups, the index
isn't asked (`has_repeated_keys`); where only Hudi did, it finds one of them.

Source: RecordLevelIndexSupport.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from pudi.client import MetaClient, TableSnapshot
from pudi.config import MetadataOptions, Options
from pudi.errors import CorruptError, InvalidArgumentError, PudiError
from pudi.filegroup import FileSlice
from pudi.format import FileGroupId
from pudi.format.metadata_partitions import RECORD_INDEX, partition_type
from pudi.indexes.checking import Difference, IndexCheck, unreadable
from pudi.indexes.indexed_commit import CommitChanges, IndexedCommit, KeyChanges, PlannedWrite
from pudi.indexes.kind import IndexKind, IndexRead, LookupResult, keys_of_read
from pudi.indexes.record_index.build import RecordIndexBuilder
from pudi.indexes.record_index.changes import record_staging, stage_keys
from pudi.indexes.record_index.state import (
    has_repeated_keys,
    is_partitioned,
    record_index_spec,
)
from pudi.metadata import MetadataTable, partitions_listed
from pudi.metadata.record_index import FILE_ID, RecordShards
from pudi.metadata_write.build import Building, IndexBuilder
from pudi.metadata_write.index_defs import IndexRequest, IndexSpec
from pudi.plan import ReadPlan
from pudi.plan.entry_staging import EntryStaging
from pudi.schema import PARTITION_PATH
from pudi.task.check_files import UNREADABLE

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
