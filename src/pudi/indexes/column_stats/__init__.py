"""Statistics of columns in the metadata table: of files and, with them, of partitions.

A change of columns deletes the statistics under names that it reuses: see `statistics`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pudi.client import MetaClient, TableSnapshot, read_history
from pudi.config import MetadataOptions, Options
from pudi.errors import CorruptError
from pudi.format import CommitMetadata
from pudi.format.metadata_partitions import COLUMN_STATS, PARTITION_STATS, partition_type
from pudi.indexes.checking import Difference, IndexCheck, unreadable
from pudi.indexes.column_stats.build import ColumnStatsBuilder
from pudi.indexes.column_stats.statistics import (
    FileStatistics,
    column_statistics,
    deleted_statistics,
    indexed_columns,
    of_reused_names,
    with_older_columns,
)
from pudi.indexes.indexed_commit import CommitChanges, IndexedCommit, LockedCommit, RemovedFiles
from pudi.indexes.kind import IndexKind, IndexRead, wrote_parquet
from pudi.metadata import (
    StatsSpec,
)
from pudi.metadata.changes import Changes
from pudi.metadata.table import PartitionSnapshot
from pudi.metadata.value_types import leaf_type
from pudi.metadata_write.build import Building, IndexBuilder
from pudi.metadata_write.index_defs import IndexSpec
from pudi.plan import IndexSource, ReadPlan, skip_slices
from pudi.task.check_files import FilesCheck, StatedMetadata


class ColumnStats(IndexKind):
    """The minimum, maximum and counts of indexed columns."""

    type = partition_type(COLUMN_STATS)
    needs_columns = True

    def wanted(self, meta: MetaClient, options: Options) -> Iterator[IndexSpec]:
        """Return the index if the option asks for it."""
        if options.explicit(MetadataOptions.column_stats) is True:
            yield IndexSpec(self.type, COLUMN_STATS)

    def is_default(self, options: Options) -> bool:
        """Whether Hudi's Spark writers would make the index of a new table."""
        return options[MetadataOptions.column_stats]

    def builder(self, work: Building) -> IndexBuilder:
        """See `ColumnStatsBuilder`."""
        return ColumnStatsBuilder(work)

    def spec_to_rebuild(self, meta: MetaClient, partition: str) -> IndexSpec:
        """Return the index over its columns that the table still has."""
        spec, schema = super().spec_to_rebuild(meta, partition), TableSnapshot.load(meta).schema.columns
        return replace(spec, columns=tuple(c for c in spec.columns if leaf_type(schema, c) is not None))

    def must_change(self, written: CommitMetadata) -> bool:
        """Whether the commit wrote base files of Parquet."""
        return wrote_parquet(written)

    def prepare(self, commit: IndexedCommit, partitions: Sequence[str]) -> CommitChanges:
        """Take the statistics of the commit's files from its write statistics."""
        return _Changes(commit, _of_commit(commit) if partitions else None)

    def removed(
        self, commit: IndexedCommit, files: RemovedFiles, partitions: Sequence[str]
    ) -> Mapping[str, Changes | None]:
        """The statistics of deleted files go; those of partitions are about their newest files."""
        staging = commit.staging
        snapshot = TableSnapshot.load(commit.meta) if staging is None else staging.snapshot
        spec = indexed_columns(commit.meta, snapshot.schema.stored)
        if spec is None:
            return {}
        return {COLUMN_STATS: deleted_statistics(with_older_columns(snapshot, spec), files.pairs)}

    def skip(self, read: IndexRead, plan: ReadPlan) -> ReadPlan:
        """Prune slices whose column ranges exclude the predicate."""
        return skip_slices(plan, IndexSource(read.by_prefixes, frozenset(read.table.partitions), millis=read.millis))

    def check(self, check: IndexCheck, partitions: Sequence[str]) -> Iterator[Difference]:
        """Find values in files outside of the stated ranges."""
        by_name: dict[str, PartitionSnapshot] = {}
        names = [name for name in (COLUMN_STATS, *self.type.companions) if name in check.table.partitions]
        for found in check.snapshots(names):
            if isinstance(found, Difference):
                yield found
            else:
                by_name[found.name] = found
        try:
            spec = indexed_columns(check.meta, check.schema)
        except CorruptError as error:
            yield unreadable(COLUMN_STATS, error)
            return
        if spec is None or not by_name:
            return
        # milliseconds, which version 1 doesn't tell from microseconds, are asked by no reader
        millis = set(check.snapshot.schema.unwritable)
        spec = StatsSpec(tuple(name for name in spec.columns if name.split(".")[0] not in millis), spec.version)
        history = read_history(check.snapshot)
        stated = StatedMetadata(
            check.schema, spec, by_name.get(COLUMN_STATS), by_name.get(PARTITION_STATS), history=history
        )
        check.run([FilesCheck(number, stated, files) for number, files in enumerate(check.portions())])


@dataclass(slots=True)
class _Changes(CommitChanges):
    """The statistics of a commit's files; None if the table didn't have the index when the commit was prepared."""

    commit: IndexedCommit
    statistics: FileStatistics | None

    def changes(self, locked: LockedCommit) -> Mapping[str, Changes | None]:
        """Return the statistics of the files and of their partitions."""
        if COLUMN_STATS not in locked.maintained:
            return {}
        if self.statistics is None:
            self.statistics = _of_commit(self.commit)
        version = self.statistics.spec.version
        stale_files, stale_partitions = of_reused_names(self.commit.written, version, locked)
        if PARTITION_STATS not in locked.maintained:
            return {COLUMN_STATS: stale_files or self.statistics.of_files()}
        of_files, of_partitions = self.statistics.of_both(locked)
        return {COLUMN_STATS: stale_files or of_files, PARTITION_STATS: stale_partitions or of_partitions}

    def finish(self, locked: LockedCommit) -> None:
        """Update the columns in the index's definition, if they changed."""
        if COLUMN_STATS in locked.maintained and self.statistics is not None:
            self.statistics.define()


def _of_commit(commit: IndexedCommit) -> FileStatistics:
    return column_statistics(commit.meta, commit.instant, commit.written)
