"""Build column statistics of files and, with them, of partitions.

Source: HoodieBackedTableMetadataWriter.initializeColumnStatsPartition and initializePartitionStatsIndex.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from posixpath import basename

import pyarrow as pa

from pudi.client import MetaClient, TableSnapshot, read_history
from pudi.config import MetadataOptions, names_in
from pudi.context import FileInfo
from pudi.errors import InvalidArgumentError
from pudi.filegroup import BaseFile, FileSlice, LogFile, stated_sizes
from pudi.format.metadata_partitions import COLUMN_STATS, PARTITION_STATS, partition_type
from pudi.indexes.column_stats.statistics import (
    of_whole_partitions,
)
from pudi.metadata import (
    STATS,
    StatsSpec,
    column_stats_records,
    partition_stats_records,
    stats_of_files,
    stats_spec,
)
from pudi.metadata.changes import encode_changes
from pudi.metadata_write.build import IndexBuilder, group_ids, make_groups, write_bases
from pudi.metadata_write.client import Stats, open_metadata
from pudi.metadata_write.index_defs import IndexSpec
from pudi.schema import avro_to_arrow, with_meta_fields
from pudi.task import FileJob, FileResult
from pudi.task.file_stats import StatsTask

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
