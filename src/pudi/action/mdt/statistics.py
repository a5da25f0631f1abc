"""Statistics of columns in the metadata table: which ones a write makes, and what a commit changes about them.

Source: FORMAT 7.4; HoodieTableMetadataUtil.convertMetadataToColumnStatsRecords, HoodieMetadataWriteUtils
.convertMetadataToPartitionStatRecords.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pudi.action.mdt.index_defs import column_stats_definition, read_definitions, write_definition
from pudi.action.meta_client import SCHEMA_KEY, MetaClient
from pudi.context import FileInfo
from pudi.errors import ConflictError, CorruptError
from pudi.filegroup import FileListing, FileSlice, FileSystemView
from pudi.format import Action, CommitMetadata, State, WriteStat
from pudi.metadata import (
    COLUMN_STATS,
    STATS,
    MetadataTable,
    StatsSpec,
    column_stats_records,
    deleted_stats,
    partition_stats,
    partition_stats_records,
    stats_of_files,
    stats_of_records,
    stats_spec,
)
from pudi.metadata.changes import Changes, encode_changes
from pudi.metadata.keys import column_stats_keys
from pudi.schema import avro_to_arrow, with_meta_fields
from pudi.timeline import Instant, Timeline

_VERSIONS = {"V1": 1, "V2": 2}
_FIRST_OF_V2 = 9
"""The table version from which on indexes of statistics are of version 2 (HoodieIndexVersion.getCurrentVersion)."""
_LAST = "9" * 17


def indexed_columns(
    meta: MetaClient, schema: pa.Schema, definitions: Mapping[str, Any] | None = None
) -> StatsSpec | None:
    """The columns that the metadata table has statistics of; None where it has none.

    They are those that the index's definition names, as far as the table still has them. Where these are the first
    ones of the table as it was, they are the first ones of the table as it is: columns that are new are taken in, as by
    Hudi (HoodieColumnStatsIndexUtils.updateColsToIndex), which does so whenever no columns are named.

    Args:
        meta: the table.
        schema: its columns, as they are going to be.
        definitions: those of its indexes, where they're known.

    Raises:
        CorruptError: the definition makes no sense.
    """
    if COLUMN_STATS not in meta.config.metadata_partitions:
        return None
    defined = (read_definitions(meta) if definitions is None else definitions).get(COLUMN_STATS) or {}
    named, said = defined.get("sourceFields") or (), defined.get("version")
    if not isinstance(named, list | tuple) or not all(isinstance(name, str) for name in named):
        raise CorruptError("the definition of the index column_stats names no columns", table=meta.storage.root)
    if said is not None and said not in _VERSIONS:
        raise CorruptError(f"the index column_stats is of an unknown version {said!r}", table=meta.storage.root)
    version = _VERSIONS[said] if said else default_version(meta)
    populated = meta.config.populate_meta_fields
    spec = stats_spec(schema, version, populated=populated, named=tuple(named))
    first = stats_spec(schema, version, populated=populated)
    new = len(first.columns) > len(spec.columns) == len(set(named) | set(spec.columns))
    if new and first.columns[: len(spec.columns)] == spec.columns:
        before = with_meta_fields(meta.schema(meta.store.load()))
        if stats_spec(before, version, populated=populated).columns == spec.columns:
            return first
    return spec


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
        definitions = read_definitions(meta)
        spec = indexed_columns(meta, self._schema, definitions)
        assert spec is not None, "only for tables with statistics"
        self._spec = spec
        self._named = (definitions.get(COLUMN_STATS) or {}).get("sourceFields") or ()
        self._files = stats_of_files(self._of_stat(stat) for stat in _data_stats(written))

    def define(self) -> None:
        """Say in the index's definition which columns it has, if that changed; under the table's lock."""
        if set(self._named) != set(self._spec.columns):
            write_definition(self._meta, COLUMN_STATS, column_stats_definition(self._spec.columns, self._spec.version))

    def of_files(self) -> Changes | None:
        """The changes to `column_stats`; None for none."""
        return self._changes(self._files, of_partitions=False)

    def of_partitions(self, now: Timeline, table: MetadataTable) -> Changes | None:
        """The changes to `partition_stats`: of each partition that files came to or went from, over all its files.

        Args:
            now: the timeline, under the lock.
            table: the metadata table as it is before this commit.
        """
        touched = sorted(
            {*self._written.partition_to_write_stats, *(self._written.partition_to_replace_file_ids or {})}
        )
        if not touched or not self._spec.columns:
            return None
        live = self._live(now, touched)
        held = pa.concat_tables([self._files, self._older(table, _files_of(live))])
        whole = of_whole_partitions(held, live, self._schema)
        told = set(_pairs(whole, "partition", "column"))
        stubs = deleted_stats([(partition, "") for partition in touched], self._spec.columns, partitions=True)
        untold = pa.array([pair not in told for pair in _pairs(stubs, "partition", "column")], pa.bool_())
        return self._changes(pa.concat_tables([whole, stubs.filter(untold)]), of_partitions=True)

    def _of_stat(self, stat: WriteStat) -> tuple[str, str, pa.Table]:
        if stat.column_stats is None:
            raise ConflictError(
                "the metadata table began to have statistics of columns while this was written; write again",
                table=self._meta.storage.root,
                instant=self._instant.requested,
            )
        return stat.partition_path or "", (stat.path or "").rpartition("/")[2], stat.column_stats

    def _changes(self, stats: pa.Table, *, of_partitions: bool) -> Changes | None:
        if not stats.num_rows:
            return None
        make = partition_stats_records if of_partitions else column_stats_records
        return encode_changes(make(stats, self._spec.version))

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

    def _older(self, table: MetadataTable, names: pa.Table) -> pa.Table:
        """The statistics that the metadata table has of files."""
        fresh = set(_pairs(self._files, "partition", "file"))
        wanted = [pair for pair in _pairs(names, "partition", "file") if pair not in fresh]
        asked = pa.Table.from_pylist(
            [{"column": c, "partition": p, "file": f} for p, f in wanted for c in self._spec.columns],
            pa.schema([(name, pa.string()) for name in ("column", "partition", "file")]),
        )
        if not asked.num_rows:
            return STATS.empty_table()
        keys = column_stats_keys(*(asked[name].combine_chunks() for name in asked.column_names))
        records = table.read(COLUMN_STATS, keys=keys)
        places = pc.index_in(records["key"].combine_chunks(), keys)
        return stats_of_records(records, asked["partition"].combine_chunks().take(places))


def of_whole_partitions(stats: pa.Table, slices: Iterable[FileSlice], schema: pa.Schema) -> pa.Table:
    """Statistics of partitions over the files of their newest slices.

    A column of which one of a partition's files has no statistics is left out there: nothing is known of it.

    Args:
        stats: rows of `STATS`; those of other files don't count.
        slices: the newest slices of the partitions.
        schema: the table's columns, meta fields among them.
    """
    names = _files_of(slices)
    known = stats.join(names, ["partition", "file"], join_type="inner").select(STATS.names)
    whole = partition_stats(known, schema)
    files = Counter(names["partition"].to_pylist())
    told = Counter(_pairs(known, "partition", "column"))
    pairs = _pairs(whole, "partition", "column")
    return whole.filter(pa.array([told[pair] == files[pair[0]] for pair in pairs], pa.bool_()))


def _files_of(slices: Iterable[FileSlice]) -> pa.Table:
    return pa.Table.from_pylist(
        [{"partition": each.partition, "file": name} for each in slices for name in _names(each)],
        pa.schema([("partition", pa.string()), ("file", pa.string())]),
    )


def _pairs(rows: pa.Table, *names: str) -> list[tuple[str, ...]]:
    return list(zip(*(rows[name].to_pylist() for name in names), strict=True))


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


def statistics_gone(spec: StatsSpec, files: Iterable[tuple[str, str]]) -> Changes | None:
    """The changes to `column_stats` where files are deleted; None for none.

    Args:
        spec: the indexed columns.
        files: partition path and name of each.
    """
    stats = deleted_stats(files, spec.columns)
    return encode_changes(column_stats_records(stats, spec.version)) if stats.num_rows else None


def _data_stats(written: CommitMetadata) -> list[WriteStat]:
    return [stat for stats in written.partition_to_write_stats.values() for stat in stats if stat.path]


def _names(file_slice: FileSlice) -> list[str]:
    base = [] if file_slice.base is None else [file_slice.base.name.name]
    return base + [log.name.name for log in file_slice.logs]
