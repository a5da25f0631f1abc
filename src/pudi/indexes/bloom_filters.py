"""Bloom filters of base files' record keys in the metadata table.

Source: HoodieTableMetadataUtil.convertMetadataToBloomFilterRecords,
HoodieBackedTableMetadataWriter.initializeBloomFiltersPartition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from posixpath import basename

from pudi.client import MetaClient
from pudi.config import MetadataOptions, Options
from pudi.errors import InvalidArgumentError
from pudi.filegroup import BaseFile
from pudi.format import parse_base_file, staging_dir
from pudi.format.metadata_partitions import BLOOM_FILTERS, partition_type
from pudi.indexes.checking import Difference, IndexCheck
from pudi.indexes.indexed_commit import CommitChanges, IndexedCommit, LockedCommit, RemovedFiles
from pudi.indexes.kind import IndexKind, IndexRead, keys_of_read
from pudi.metadata.changes import Changes, bloom_changes, bloom_removals
from pudi.metadata_write.build import Building, IndexBuilder, group_ids
from pudi.metadata_write.client import Stats
from pudi.metadata_write.index_defs import IndexRequest, IndexSpec
from pudi.plan import ReadPlan
from pudi.plan.skipping import MOST_VALUES, skip_by_keys
from pudi.task.blooms import BloomShardTask, BloomTask, bloom_of
from pudi.task.check_files import FilesCheck, StatedMetadata
from pudi.task.staged_keys import portions_by_shard, staged_of

_TASKS = 64
"""The maximum number of jobs that read files."""


class BloomFilters(IndexKind):
    """The bloom filter of each base file's record keys."""

    type = partition_type(BLOOM_FILTERS)

    def requested(self, request: IndexRequest, version: int, options: Options, table: str) -> IndexSpec:
        """The index, which is over record keys."""
        if request.columns:
            raise InvalidArgumentError(f"an index {self.name} is over record keys: it takes no columns", table=table)
        return super().requested(request, version, options, table)

    def wanted(self, meta: MetaClient, options: Options) -> Iterator[IndexSpec]:
        """Return the index if the option asks for it."""
        if options.explicit(MetadataOptions.bloom_filters) is True:
            yield IndexSpec(self.type, BLOOM_FILTERS)

    def builder(self, work: Building) -> IndexBuilder:
        """See `BloomFiltersBuilder`."""
        return BloomFiltersBuilder(work)

    def prepare(self, commit: IndexedCommit, partitions: Sequence[str]) -> CommitChanges:
        """Read the filters of the commit's base files."""
        return _Changes(commit, _of_commit(commit) if partitions else None)

    def removed(
        self, commit: IndexedCommit, files: RemovedFiles, partitions: Sequence[str]
    ) -> Mapping[str, Changes | None]:
        """The filters of deleted base files go."""
        gone = [(partition, name) for partition, name in files.pairs if parse_base_file(name) is not None]
        return {BLOOM_FILTERS: bloom_removals(gone, commit.instant.requested)} if gone else {}

    def skip(self, read: IndexRead, plan: ReadPlan) -> ReadPlan:
        """Prune slices whose filters contain none of the requested record keys."""
        if BLOOM_FILTERS not in read.table.partitions or plan.narrowed is None or plan.history is not None:
            return plan
        keys = keys_of_read(plan, read.meta)
        if keys is None or len(keys) > MOST_VALUES or not plan.slices:
            return plan
        return skip_by_keys(plan, BLOOM_FILTERS, keys, read.by_keys)

    def check(self, check: IndexCheck, partitions: Sequence[str]) -> Iterator[Difference]:
        """Look for keys of base files that their filters lack."""
        for snapshot in check.snapshots(partitions):
            if isinstance(snapshot, Difference):
                yield snapshot
                continue
            stated = StatedMetadata(check.schema, blooms=snapshot)
            check.run([FilesCheck(number, stated, files) for number, files in enumerate(check.portions())])


@dataclass(frozen=True, slots=True)
class _Changes(CommitChanges):
    """The filters of a commit's base files; None if the table didn't have the index when the commit was prepared."""

    commit: IndexedCommit
    prepared: Changes | None

    def changes(self, locked: LockedCommit) -> Mapping[str, Changes | None]:
        """Return the filters; read them now if another process built the index meanwhile."""
        if BLOOM_FILTERS not in locked.maintained:
            return {}
        return {BLOOM_FILTERS: _of_commit(self.commit) if self.prepared is None else self.prepared}


def _of_commit(commit: IndexedCommit) -> Changes:
    """Return the filters of a commit's base files, from their footers or built from their keys."""
    files = []
    for partition, stats in commit.written.partition_to_write_stats.items():
        for stat in stats:
            name = parse_base_file(basename(stat.path or ""))
            if name is not None:
                files.append(BaseFile(partition, name, stat.file_size_in_bytes))
    requested = commit.instant.requested
    read = commit.meta.context.executor.map(lambda file: bloom_of(commit.meta.storage, file), files)
    found = [(file.partition, file.name.name, requested, each) for file, each in zip(files, read, strict=True) if each]
    return bloom_changes(found)


@dataclass(slots=True)
class BloomFiltersBuilder(IndexBuilder):
    """Builds the index from the filters in footers of base files, or from their keys."""

    def spec(self) -> IndexSpec:
        """The index itself; the table must keep record keys in its files."""
        if not self.work.meta.config.populate_meta_fields:
            raise InvalidArgumentError(
                "files without meta fields have no record keys to make bloom filters of",
                table=self.work.meta.storage.root,
            )
        return self.work.spec

    def groups(self) -> Sequence[str]:
        """Return as many file groups as the option says."""
        return group_ids(BLOOM_FILTERS, self.work.options[MetadataOptions.bloom_filters_groups])

    def fill(self) -> Stats:
        """Write the filters from footers, or from keys."""
        work, ids = self.work, self.groups()
        listed = work.snapshot.listing().all_files()
        files = [
            BaseFile(partition, name, info.size)
            for partition, infos in listed.items()
            for info in infos
            if (name := parse_base_file(basename(info.path))) is not None
        ]
        count, folder = min(_TASKS, len(files)), staging_dir(work.requested)
        staged = work.run(
            [
                BloomTask(number, work.requested, tuple(files[number::count]), len(ids), f"{folder}/{number}")
                for number in range(count)
            ]
        )
        found = portions_by_shard(staged_of(staged))
        tasks = [
            BloomShardTask(number, work.requested, ids[shard], portions)
            for number, ((_, shard), portions) in enumerate(found.items())
        ]
        return {BLOOM_FILTERS: tuple(stat for result in work.run(tasks) for stat in result.stats)}
