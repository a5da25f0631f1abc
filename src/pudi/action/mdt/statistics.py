"""Statistics of columns in the metadata table: which ones a write makes, and what a commit changes about them.

Source: FORMAT 7.4; HoodieTableMetadataUtil.convertMetadataToColumnStatsRecords, HoodieMetadataWriteUtils
.convertMetadataToPartitionStatRecords.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from pudi.action.mdt.index_defs import read_definitions
from pudi.action.meta_client import SCHEMA_KEY, MetaClient
from pudi.context import FileInfo
from pudi.errors import ConflictError, CorruptError
from pudi.filegroup import FileListing, FileSlice, FileSystemView
from pudi.format import Action, CommitMetadata, State, WriteStat
from pudi.metadata import COLUMN_STATS, MetadataTable, StatsSpec, stats_spec
from pudi.metadata.changes import Changes
from pudi.metadata.keys import column_stats_keys
from pudi.metadata.stat_changes import column_stats_changes, partition_stats_changes, stats_of_commit
from pudi.schema import avro_to_arrow, with_meta_fields
from pudi.timeline import Instant, Timeline

_VERSIONS = {"V1": 1, "V2": 2}
_FIRST_OF_V2 = 9
"""The table version from which on indexes of statistics are of version 2 (HoodieIndexVersion.getCurrentVersion)."""
_LAST = "9" * 17


def indexed_columns(meta: MetaClient, schema: pa.Schema) -> StatsSpec | None:
    """The columns that the metadata table has statistics of; None where it has none.

    They are those that the index's definition names, as far as the table still has them.

    Args:
        meta: the table.
        schema: its columns.

    Raises:
        CorruptError: the definition makes no sense.
    """
    if COLUMN_STATS not in meta.config.metadata_partitions:
        return None
    defined = read_definitions(meta).get(COLUMN_STATS) or {}
    named, said = defined.get("sourceFields") or (), defined.get("version")
    if not isinstance(named, list | tuple) or not all(isinstance(name, str) for name in named):
        raise CorruptError("the definition of the index column_stats names no columns", table=meta.storage.root)
    if said is not None and said not in _VERSIONS:
        raise CorruptError(f"the index column_stats is of an unknown version {said!r}", table=meta.storage.root)
    version = _VERSIONS[said] if said else default_version(meta)
    return stats_spec(schema, version, populated=meta.config.populate_meta_fields, named=tuple(named))


def default_version(meta: MetaClient) -> int:
    """The version of statistics in a table that doesn't say."""
    return 1 if meta.config.version < _FIRST_OF_V2 else 2


class Statistics:
    """What one commit changes about statistics of columns.

    Args:
        meta: the table.
        instant: its instant, about to be completed.
        written: what it did; its write statistics hold those of each file's columns.

    Raises:
        ConflictError: files have no statistics: the metadata table began to have such while they were written.
    """

    def __init__(self, meta: MetaClient, instant: Instant, written: CommitMetadata) -> None:
        self._meta, self._instant, self._written = meta, instant, written
        self._schema = with_meta_fields(avro_to_arrow(written.extra_metadata[SCHEMA_KEY]))
        spec = indexed_columns(meta, self._schema)
        assert spec is not None, "only for tables with statistics"
        self._spec = spec
        if any(stat.column_stats is None for stat in _data_stats(written)):
            raise ConflictError(
                "the metadata table began to have statistics of columns while this was written; write again",
                table=meta.storage.root,
                instant=instant.requested,
            )
        self._stats = stats_of_commit(written)

    def of_files(self) -> Changes:
        """The changes to `column_stats`."""
        return column_stats_changes(self._stats, self._spec.version)

    def of_partitions(self, now: Timeline, table: MetadataTable) -> Changes:
        """The changes to `partition_stats`: of each partition that files came to or went from, over all its files.

        Args:
            now: the timeline, under the lock.
            table: the metadata table as it is before this commit.
        """
        replaced = self._written.partition_to_replace_file_ids or {}
        files: dict[str, list[str]] = {p: [] for p in sorted({*self._written.partition_to_write_stats, *replaced})}
        for file_slice in self._live(now, files):
            files[file_slice.partition] += _names(file_slice)
        own = {(stat.path or "").rpartition("/")[2] for stat in _data_stats(self._written)}
        older = [(partition, name) for partition, names in files.items() for name in names if name not in own]
        stored = table.read(COLUMN_STATS, keys=_keys(older, self._spec.columns))
        return partition_stats_changes(self._stats, self._spec, self._schema, files, stored)

    def _live(self, now: Timeline, touched: Iterable[str]) -> list[FileSlice]:
        """The latest slices of some partitions, as readers see them once the instant is completed."""
        own = self._instant
        others = (i for i in now.instants if i.requested != own.requested)
        action = Action.COMMIT if own.action is Action.REPLACECOMMIT else own.action.comparable
        done = Instant(own.requested, action, State.COMPLETED, _LAST, now.layout)
        after = replace(now, instants=tuple(sorted((*others, done))))
        replaced = self._written.partition_to_replace_file_ids or {}
        listing = _WithOwn(self._meta.listing(now), _data_stats(self._written))
        logs = self._meta.merges_on_read
        slices = FileSystemView(after, listing, self._meta.store, logs=logs).slices_of(touched)
        return [s for s in slices if s.file_id not in set(replaced.get(s.partition, ()))]


def _keys(files: Sequence[tuple[str, str]], columns: Sequence[str]) -> pa.Array:
    """Keys of all columns' statistics of some files, by partition path and name."""
    triples = [(column, *file) for file in files for column in columns]
    return column_stats_keys(*(pa.array([each[n] for each in triples], pa.string()) for n in range(3)))


@dataclass(frozen=True, slots=True)
class _WithOwn:
    """A listing, and the files of a commit that isn't completed yet, which a metadata table doesn't list."""

    listing: FileListing
    own: Sequence[WriteStat]

    def partitions(self) -> Sequence[str]:
        return sorted({*self.listing.partitions(), *(stat.partition_path or "" for stat in self.own)})

    def files(self, partition: str) -> Sequence[FileInfo]:
        return self.files_of([partition])[partition]

    def files_of(self, partitions: Iterable[str]) -> Mapping[str, Sequence[FileInfo]]:
        listed = self.listing.files_of(partitions)
        return {partition: self._merged(partition, files) for partition, files in listed.items()}

    def all_files(self) -> Mapping[str, Sequence[FileInfo]]:
        return self.files_of(self.partitions())

    def _merged(self, partition: str, files: Iterable[FileInfo]) -> Sequence[FileInfo]:
        own = [stat for stat in self.own if (stat.partition_path or "") == partition]
        found = {info.path: info for info in files}
        found.update((stat.path or "", FileInfo(stat.path or "", stat.file_size_in_bytes, 0)) for stat in own)
        return list(found.values())


def _data_stats(written: CommitMetadata) -> list[WriteStat]:
    return [stat for stats in written.partition_to_write_stats.values() for stat in stats if stat.path]


def _names(file_slice: FileSlice) -> list[str]:
    base = [] if file_slice.base is None else [file_slice.base.name.name]
    return base + [log.name.name for log in file_slice.logs]
