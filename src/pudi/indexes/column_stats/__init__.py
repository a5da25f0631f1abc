"""Statistics of columns in the metadata table: of files and, with them, of partitions.

pudi asks no statistics in tables with schema on read. Hudi does, by name: of a column that was dropped and added again
it skips files by the dropped values. Statistics of partitions under a name that is gone would stay for good; those of
files go when their file is cleaned. So a change of columns deletes the statistics under reused names.

Source: HoodieBackedTableMetadataWriter.initializeColumnStatsPartition and initializePartitionStatsIndex.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from posixpath import basename

import pyarrow as pa

from pudi.client.meta_client import MetaClient
from pudi.client.schema_commit import ALTER_SCHEMA, INTERNAL_SCHEMA_KEY, SCHEMA_KEY
from pudi.client.schema_history import read_history
from pudi.client.snapshot import TableSnapshot
from pudi.config import MetadataOptions, Options, names_in
from pudi.context import FileInfo
from pudi.errors import CorruptError, InvalidArgumentError
from pudi.filegroup import BaseFile, FileSlice, LogFile, stated_sizes
from pudi.format import CommitMetadata
from pudi.format.metadata_partitions import COLUMN_STATS, PARTITION_STATS, partition_type
from pudi.indexes.checking import Difference, IndexCheck, unreadable
from pudi.indexes.column_stats.statistics import (
    FileStatistics,
    column_statistics,
    deleted_statistics,
    indexed_columns,
    leaf_names,
    of_whole_partitions,
    with_older_columns,
)
from pudi.indexes.kind import (
    CommitChanges,
    IndexedCommit,
    IndexKind,
    IndexRead,
    LockedCommit,
    RemovedFiles,
    wrote_parquet,
)
from pudi.metadata import (
    STATS,
    StatsSpec,
    column_stats_records,
    deleted_stats,
    partition_stats_records,
    stats_of_files,
    stats_spec,
)
from pudi.metadata.changes import Changes, encode_changes
from pudi.metadata.index_spec import IndexSpec
from pudi.metadata.table import PartitionSnapshot
from pudi.metadata.value_types import leaf_type
from pudi.metadata_write.build import group_ids, write_bases
from pudi.metadata_write.building import Building, IndexBuilder, make_groups
from pudi.metadata_write.client import Stats, open_metadata
from pudi.plan import IndexSource, ReadPlan, skip_slices
from pudi.schema import avro_to_arrow, with_meta_fields, without_meta_fields
from pudi.schema.internal import InternalSchema, SchemaHistory
from pudi.task import FileJob, FileResult
from pudi.task.check_files import FilesCheck, StatedMetadata
from pudi.task.file_stats import StatsTask
from pudi.task.table_rows import is_same_named, same_named

_TASKS = 64
"""The maximum number of jobs that read files."""
_Run = Callable[[Sequence[FileJob]], Sequence[FileResult]]


@dataclass(slots=True)
class ColumnStatsBuilder(IndexBuilder):
    """Builds column statistics of files and, with them, of partitions."""

    _stats: pa.Table = field(default_factory=STATS.empty_table, init=False)

    def spec(self) -> IndexSpec:
        """Return the index: over the columns that the user or the option names, or the first ones."""
        work = self.work
        named = work.spec.columns or names_in(work.options[MetadataOptions.column_stats_columns])
        version = partition_type(COLUMN_STATS).version(work.meta.config.version)
        found = self._columns(named, version)
        lacking = [name for name in work.spec.columns if name not in found.columns]
        if lacking:
            raise InvalidArgumentError(
                f"there can be no statistics of column {lacking[0]!r}: the table has none of that name, or it's a "
                "struct, list or map, or of a type that tables of its version have no statistics of",
                table=work.meta.storage.root,
            )
        return replace(work.spec, columns=tuple(found.columns), version=version)

    def groups(self) -> Sequence[str]:
        """Return as many file groups as the option says."""
        return group_ids(COLUMN_STATS, self.work.options[MetadataOptions.column_stats_groups])

    def fill(self) -> Stats:
        """Write the statistics from footers and log blocks."""
        work = self.work
        files = work.snapshot.listing().all_files()
        found = [file for partition, infos in files.items() for info in infos if (file := self._file(partition, info))]
        logs = [file for file in found if isinstance(file, LogFile)]
        sizes = stated_sizes(work.meta.store, work.snapshot.timeline, logs)
        found = [replace(file, stated=sizes.get(file.path)) if isinstance(file, LogFile) else file for file in found]
        self._stats = self._of(found, work.run)
        changes = encode_changes(column_stats_records(self._stats, self._columns_kept.version))
        return {COLUMN_STATS: write_bases(self._mdt, work.requested, COLUMN_STATS, self.groups(), changes)}

    def catch_up(self, now: TableSnapshot) -> None:
        """Read the statistics of new files."""
        if self._has_partition_stats:
            self._add_fresh(now.view().all_slices(), self.work.run)

    def finish(self, now: TableSnapshot) -> Stats:
        """Write the statistics of partitions, from those of their current files."""
        work = self.work
        if not self._has_partition_stats:
            return {}
        slices = now.view().all_slices()
        self._add_fresh(slices, work.run_here)
        whole = of_whole_partitions(self._stats, slices, self._schema)
        changes = encode_changes(partition_stats_records(whole, self._columns_kept.version))
        ids = group_ids(PARTITION_STATS, work.options[MetadataOptions.partition_stats_groups])
        make_groups(self._mdt, work.requested, PARTITION_STATS, ids)
        return {PARTITION_STATS: write_bases(self._mdt, work.requested, PARTITION_STATS, ids, changes)}

    @property
    def _has_partition_stats(self) -> bool:
        config = self.work.meta.config
        return config.is_partitioned and config.version >= partition_type(PARTITION_STATS).since

    def _add_fresh(self, slices: Iterable[FileSlice], run: _Run) -> None:
        """Add the statistics of files that have none yet."""
        known = set(zip(self._stats["partition"].to_pylist(), self._stats["file"].to_pylist(), strict=True))
        fresh = [file for file in _files_of(slices) if (file.partition, file.name.name) not in known]
        self._stats = pa.concat_tables([self._stats, self._of(fresh, run)])

    @property
    def _mdt(self) -> MetaClient:
        return open_metadata(self.work.meta)

    @property
    def _schema(self) -> pa.Schema:
        return with_meta_fields(avro_to_arrow(self.work.snapshot.schema.avro))

    @property
    def _columns_kept(self) -> StatsSpec:
        return self._columns(self.work.spec.columns, self.work.spec.version)

    def _columns(self, named: tuple[str, ...], version: int) -> StatsSpec:
        return stats_spec(
            self._schema,
            version,
            populated=self.work.meta.config.populate_meta_fields,
            named=named,
            most=self.work.options[MetadataOptions.column_stats_max_columns],
        )

    def _file(self, partition: str, info: FileInfo) -> BaseFile | LogFile | None:
        logs = self.work.meta.merges_on_read
        return (LogFile.of(partition, info) if logs else None) or BaseFile.of(partition, info)

    def _of(self, files: Sequence[BaseFile | LogFile], run: _Run) -> pa.Table:
        """Return the statistics of some files."""
        spec, count = self._columns_kept, min(_TASKS, len(files))
        history = read_history(self.work.snapshot)
        results = run([StatsTask(number, spec, tuple(files[number::count]), history) for number in range(count)])
        return stats_of_files(
            (stat.partition_path or "", basename(stat.path or ""), stat.column_stats)
            for result in results
            for stat in result.stats
            if stat.column_stats is not None
        )


def _files_of(slices: Iterable[FileSlice]) -> Iterator[BaseFile | LogFile]:
    for each in slices:
        yield from each.logs
        if each.base is not None:
            yield each.base


def of_reused_names(
    written: CommitMetadata, version: int, locked: LockedCommit
) -> tuple[Changes | None, Changes | None]:
    """Return the changes to `column_stats` and `partition_stats`; None for none.

    Args:
        written: a commit, about to be completed; only one that changes columns by hand has an effect.
        version: version of the index's values.
        locked: the table under its lock.
    """
    if written.operation_type != ALTER_SCHEMA:
        return None, None
    history = _history_after(written, locked)
    after = list(leaf_names(without_meta_fields(avro_to_arrow(written.extra_metadata[SCHEMA_KEY]))))
    reused = [] if history is None else _reused_names(after, history)
    gone = sorted(set(leaf_names(locked.snapshot.schema.columns)) - set(after))
    if not reused and not gone:
        return None, None
    listed = locked.snapshot.listing(locked.table).all_files()
    stubs = deleted_stats([(partition, "") for partition in listed], [*gone, *reused], partitions=True)
    of_partitions = encode_changes(partition_stats_records(stubs, version)) if stubs.num_rows else None
    by_instant: dict[tuple[str, bool], list[BaseFile | LogFile]] = {}
    for partition, infos in listed.items():
        for info in infos:  # files, not records
            file = LogFile.of(partition, info) or BaseFile.of(partition, info)
            if file is not None:
                by_instant.setdefault((file.instant, isinstance(file, BaseFile)), []).append(file)
    stale = [STATS.empty_table()]
    for files in by_instant.values() if reused else ():
        others = sorted(set(reused) - set(same_named(reused, files[0], history)))
        stale.append(deleted_stats([(file.partition, file.name.name) for file in files], others))
    of_files = pa.concat_tables(stale)
    return encode_changes(column_stats_records(of_files, version)) if of_files.num_rows else None, of_partitions


def _history_after(written: CommitMetadata, locked: LockedCommit) -> SchemaHistory | None:
    """Return the schema history with the commit's schema; None before the first change, when all names are new."""
    before = read_history(locked.snapshot)
    after = written.extra_metadata.get(INTERNAL_SCHEMA_KEY)
    return None if before is None or after is None else before.with_version(InternalSchema.from_json(after))


def _reused_names(columns: Sequence[str], history: SchemaHistory) -> list[str]:
    """Return the columns whose name another column had."""
    reused: set[str] = set()
    for version in history.versions:
        names, stored = history.names(str(version.version)), set(leaf_names(without_meta_fields(version.arrow())))
        reused |= {name for name in columns if name in stored and not is_same_named(name, names)}
    return sorted(reused)


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
