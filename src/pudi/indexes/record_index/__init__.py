"""The record index: the location of each record key, in the whole table or per partition."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from pudi.client.changed_groups import may_change_keys
from pudi.client.meta_client import MetaClient
from pudi.config import MetadataOptions, Options
from pudi.errors import CorruptError, InvalidArgumentError, PudiError
from pudi.filegroup import FileSlice
from pudi.format import CommitMetadata
from pudi.format.metadata_partitions import RECORD_INDEX, partition_type
from pudi.indexes.checking import IndexCheck, unreadable
from pudi.indexes.difference import Difference
from pudi.indexes.kind import CommitChanges, IndexedCommit, IndexKind, KeyChanges, PlannedWrite
from pudi.indexes.reading import IndexRead, LookupResult, keys_of_read
from pudi.indexes.record_index.build import RecordIndexBuilder
from pudi.indexes.record_index.changes import record_staging, stage_keys
from pudi.indexes.record_index.lookup import locate_keys
from pudi.indexes.record_index.spec import is_partitioned, record_index_spec
from pudi.metadata.index_spec import IndexSpec
from pudi.metadata.shards import RecordShards
from pudi.metadata_write.building import Building, IndexBuilder
from pudi.metadata_write.request import IndexRequest
from pudi.plan import ReadPlan
from pudi.plan.entry_staging import EntryStaging
from pudi.task.check_files import UNREADABLE

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
            slices = meta.metadata_table(meta.store.load()).shards(RECORD_INDEX).all
        except PudiError as error:
            _log.warning("table %s: the file groups of its record index are damaged: %s", meta.storage.root, error)
        try:
            return record_index_spec(partitioned=is_partitioned(meta, slices))
        except CorruptError:
            _log.warning("table %s: no definition states the kind of its record index", meta.storage.root)
            return record_index_spec(partitioned=False)

    def must_change(self, written: CommitMetadata) -> bool:
        """Whether the commit wrote new keys, or deleted some."""
        stats = (stat for group in written.partition_to_write_stats.values() for stat in group if stat.path)
        return may_change_keys(written) and any(stat.num_inserts or stat.num_deletes for stat in stats)

    def staging(self, write: PlannedWrite, partitions: Sequence[str]) -> Iterator[EntryStaging]:
        """The keys of files are staged where the files are written."""
        if partitions:
            yield record_staging(write.meta, write.timeline, write.requested, write.options, write.index)

    def prepare(self, commit: IndexedCommit, partitions: Sequence[str]) -> CommitChanges:
        """Find the keys that the commit adds to file groups and removes from them."""
        staging = commit.staging
        if staging is None or not partitions:
            return CommitChanges()
        staged = stage_keys(
            commit.meta,
            staging.engine,
            commit.instant,
            commit.written,
            staging.timeline,
            staging.index,
            staging.options,
            staging.entries,
            staging.run,
        )
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
