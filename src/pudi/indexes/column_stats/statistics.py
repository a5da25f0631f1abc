"""Column statistics in the metadata table: the indexed columns, and the changes of a commit.

pudi asks no statistics in tables with schema on read. Hudi does, by name: of a column that was dropped and added again
it skips files by the dropped values. Statistics of partitions under a name that is gone would stay for good; those of
files go when their file is cleaned. So a change of columns deletes the statistics under names that it gives to others,
or takes away.

Source: HoodieTableMetadataUtil.convertMetadataToColumnStatsRecords, HoodieMetadataWriteUtils
.convertMetadataToPartitionStatRecords.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from posixpath import basename

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pudi.client import MetaClient, TableSnapshot, read_history
from pudi.client.changed_groups import data_file
from pudi.client.inflight_builds import maintained_partitions
from pudi.client.schema_commit import ALTER_SCHEMA, INTERNAL_SCHEMA_KEY, SCHEMA_KEY, SERVICE_OPERATIONS
from pudi.context import FileInfo
from pudi.filegroup import BaseFile, FileListing, FileSlice, FileSystemView, LogFile, ViewOptions
from pudi.format import Action, CommitMetadata, State, WriteStat
from pudi.format.metadata_partitions import COLUMN_STATS, partition_type
from pudi.indexes.indexed_commit import LockedCommit
from pudi.metadata import (
    FILE_STATS,
    STATS,
    MetadataTable,
    RecordType,
    StatsSpec,
    column_stats_records,
    deleted_stats,
    partition_stats,
    partition_stats_records,
    stats_of_files,
    stats_of_records,
    stats_records,
    stats_spec,
)
from pudi.metadata.changes import Changes, encode_changes
from pudi.metadata.keys import column_stats_keys, expression_partition_keys, partition_stats_keys
from pudi.metadata.plain_records import FEW, few_partition_stats, plain_stats, stats_record, stats_tombstone
from pudi.metadata_write.index_defs import IndexSpec, defined_index, write_definition
from pudi.schema import avro_to_arrow, with_meta_fields, without_meta_fields
from pudi.schema.arrays import one_array
from pudi.schema.internal import InternalSchema, SchemaHistory
from pudi.task.file_stats import stats_of_file
from pudi.task.table_rows import is_same_named, same_named
from pudi.timeline import Instant, Timeline

_LAST = "9" * 17


def indexed_columns(meta: MetaClient, schema: pa.Schema) -> StatsSpec | None:
    """Return the columns with statistics in the metadata table; None if it has no statistics.

    They are the columns of the index's definition that the table still has. If these were the table's first columns,
    they stay the first ones: new columns are added, as in Hudi (HoodieColumnStatsIndexUtils.updateColsToIndex), which
    does this whenever no columns are listed.

    Args:
        meta: the table.
        schema: its columns after the write.

    Raises:
        CorruptError: the definition is damaged.
    """
    if COLUMN_STATS not in maintained_partitions(meta):
        return None
    return _spec_of(meta, schema, defined_index(meta, COLUMN_STATS))


def _spec_of(meta: MetaClient, schema: pa.Schema, defined: IndexSpec) -> StatsSpec:
    populated = meta.config.populate_meta_fields
    schema = _stored(meta, schema)
    spec = stats_spec(schema, defined.version, populated=populated, named=defined.columns)
    first = stats_spec(schema, defined.version, populated=populated)
    new = len(first.columns) > len(spec.columns) == len(set(defined.columns) | set(spec.columns))
    if new and first.columns[: len(spec.columns)] == spec.columns:
        before = _stored(meta, TableSnapshot.load(meta).schema.stored)
        if stats_spec(before, defined.version, populated=populated).columns == spec.columns:
            return first
    return spec


def _stored(meta: MetaClient, schema: pa.Schema) -> pa.Schema:
    """Return the columns that files have: of partition columns that they leave out the path says all."""
    return pa.schema([each for each in schema if each.name not in meta.path_columns])


@dataclass(frozen=True, slots=True)
class FileStatistics:
    """Statistics of the files of one commit, and the index records that change with them.

    Attributes:
        meta: the table.
        instant: its instant, about to be completed.
        written: the commit's metadata.
        partition: the partition of the metadata table with statistics of files.
        spec: the columns.
        schema: their types.
        files: the statistics, rows of `STATS`.
        named: the columns in the index's definition; None if the definition names no columns of this kind.
    """

    meta: MetaClient
    instant: Instant
    written: CommitMetadata
    partition: str
    spec: StatsSpec
    schema: pa.Schema
    files: pa.Table
    named: Set[str] | None = None

    def define(self) -> None:
        """Update the columns in the index's definition, if they changed; under the table's lock."""
        if self.written.operation_type in SERVICE_OPERATIONS:  # it may know fewer columns than the table has
            return
        if self.named is not None and self.named != set(self.spec.columns):
            columns = tuple(self.spec.columns)
            kind = partition_type(COLUMN_STATS)
            write_definition(self.meta, IndexSpec(kind, COLUMN_STATS, columns, version=self.spec.version))

    def of_files(self) -> Changes | None:
        """Return the changes to `column_stats`; None for none."""
        return encode_changes(column_stats_records(self.files, self.spec.version)) if self.files.num_rows else None

    def of_both(self, locked: LockedCommit) -> tuple[Changes | None, Changes | None]:
        """Return the changes to `column_stats` and to `partition_stats`; None for none.

        Statistics of every partition with new or replaced files are computed again over all its files. Records of the
        metadata table count in the order in which their instants were requested. So where an instant that was requested
        earlier may still complete, the ranges are not tight: they are merged with those that it will state, and the
        values of its files are not lost.

        Args:
            locked: the table under its lock.
        """
        table = locked.table
        touched = sorted(self.written.partitions)
        live = self._live(locked, touched) if touched and self.spec.columns else []
        tight = not any(
            each.is_write and each.requested < self.instant.requested for each in locked.snapshot.timeline.pending
        )
        found = self._of_few(table, touched, live, tight) or self._of_many(table, touched, live, tight)
        return found[0] if len(found[0]) else None, found[1] if len(found[1]) else None

    def _of_few(
        self, table: MetadataTable, touched: Sequence[str], live: Sequence[FileSlice], tight: bool
    ) -> tuple[Changes, Changes] | None:
        """Return the changes by way of plain values; None if there are too many, or some need a conversion."""
        names = {partition: set[str]() for partition in touched if self.spec.columns}
        for each in live:
            names[each.partition].update(_names(each))
        if self.spec.version == 1 or sum(map(len, names.values())) * len(self.spec.columns) > FEW:
            return None
        own = plain_stats(self.files)
        fresh = {(stat.partition, stat.file) for stat in own}
        older = [(partition, file) for partition, own_names in names.items() for file in own_names]
        stats = [*own, *plain_stats(self._read(table, [each for each in older if each not in fresh]))]
        whole = few_partition_stats(stats, names, self.schema, self.spec.columns)
        if whole is None:
            return None
        columns, partitions = ([getattr(stat, name) for stat in own] for name in ("column", "partition"))
        keys = column_stats_keys(_texts(columns), _texts(partitions), _texts([stat.file for stat in own]))
        make = partition_stats_keys if self.partition == COLUMN_STATS else expression_partition_keys
        whole_keys = make(_texts([stat.column for stat in whole]), _texts([stat.partition for stat in whole]))
        values = [stats_record(stat, RecordType.COLUMN_STATS) for stat in own]
        stated = [stat._replace(tight=tight or stat.deleted) for stat in whole]
        whole_values = [stats_record(stat, RecordType.PARTITION_STATS) for stat in stated]
        return Changes(keys, pa.array(values, pa.binary())), Changes(whole_keys, pa.array(whole_values, pa.binary()))

    def _of_many(
        self, table: MetadataTable, touched: Sequence[str], live: Sequence[FileSlice], tight: bool
    ) -> tuple[Changes, Changes]:
        """Return the changes by way of columns."""
        whole = self._of_partitions(table, touched, live)
        if not tight:
            whole = whole.set_column(whole.schema.get_field_index("tight"), STATS.field("tight"), whole["deleted"])
        count, of_expression = self.files.num_rows, self.partition != COLUMN_STATS
        both = encode_changes(stats_records(self.files, whole, self.spec.version, of_expression=of_expression))
        return Changes(both.keys.slice(0, count), both.values.slice(0, count)), Changes(
            both.keys.slice(count), both.values.slice(count)
        )

    def _of_partitions(self, table: MetadataTable, touched: Sequence[str], live: Sequence[FileSlice]) -> pa.Table:
        """Return the statistics of changed partitions."""
        if not touched or not self.spec.columns:
            return STATS.empty_table()
        stats = pa.concat_tables([self.files, self._older(table, _files_of(live))])
        whole = of_whole_partitions(stats, live, self.schema)
        stubs = deleted_stats([(partition, "") for partition in touched], self.spec.columns, partitions=True)
        known = pc.is_in(_pairs(stubs, "partition", "column"), value_set=_pairs(whole, "partition", "column"))
        return pa.concat_tables([whole, stubs.filter(pc.invert(known))])

    def _live(self, locked: LockedCommit, touched: Iterable[str]) -> list[FileSlice]:
        """Return the latest slices of some partitions, as readers see them after the instant completes."""
        own, now = self.instant, locked.snapshot.timeline
        others = (i for i in now.instants if i.requested != own.requested)
        action = Action.COMMIT if own.action.comparable is Action.REPLACECOMMIT else own.action.comparable
        done = Instant(own.requested, action, State.COMPLETED, _LAST, now.layout)
        after = replace(now, instants=tuple(sorted((*others, done))))
        replaced = self.written.partition_to_replace_file_ids or {}
        listing = _WithOwn(locked.snapshot.listing(locked.table), _data_stats(self.written))
        logs = self.meta.merges_on_read
        slices = FileSystemView(after, listing, self.meta.store, ViewOptions(logs=logs, sizes=False)).slices_of(touched)
        return [s for s in slices if s.file_id not in set(replaced.get(s.partition, ()))]

    def _older(self, table: MetadataTable, names: pa.Table) -> pa.Table:
        """Return the statistics of the files that this commit didn't write."""
        fresh = pc.is_in(_pairs(names, "partition", "file"), value_set=_pairs(self.files, "partition", "file"))
        names = one_array(names.filter(pc.invert(fresh)))
        return self._read(table, list(zip(*(names[side].to_pylist() for side in ("partition", "file")), strict=True)))

    def _read(self, table: MetadataTable, files: Sequence[tuple[str, str]]) -> pa.Table:
        """Read the statistics of files, partition and name of each, from the metadata table."""
        if not files:
            return STATS.empty_table()
        columns = pa.array(list(self.spec.columns) * len(files), pa.string())
        every = pa.array(np.repeat(np.arange(len(files)), len(self.spec.columns)))
        partitions, names = (pa.array(texts, pa.string()).take(every) for texts in zip(*files, strict=True))
        keys = column_stats_keys(columns, partitions, names)
        records = table.read(self.partition, keys=keys)
        places = pc.index_in(one_array(records["key"]), keys)
        return stats_of_records(records, partitions.take(places))


def column_statistics(meta: MetaClient, instant: Instant, written: CommitMetadata) -> FileStatistics:
    """Return the column statistics of a commit's files.

    Args:
        meta: the table.
        instant: its instant, about to be completed.
        written: the commit's metadata; its write statistics contain those of each file's columns.
    """
    schema = with_meta_fields(avro_to_arrow(written.extra_metadata[SCHEMA_KEY]))
    defined = defined_index(meta, COLUMN_STATS)
    spec = _spec_of(meta, schema, defined)
    found = []
    for stat in _data_stats(written):
        own = stat.column_stats
        if own is None:  # the column statistics index was built after this write began
            file = data_file(stat)
            own = None if file is None else stats_of_file(meta.storage, file, spec)
        own = FILE_STATS.empty_table() if own is None else own
        found.append((stat.partition_path or "", basename(stat.path or ""), own))
    return FileStatistics(
        meta, instant, written, COLUMN_STATS, spec, schema, stats_of_files(found), set(defined.columns)
    )


def of_whole_partitions(stats: pa.Table, slices: Iterable[FileSlice], schema: pa.Schema) -> pa.Table:
    """Return the statistics of partitions over the files of their newest slices.

    A partition has no statistics of a column if one of its files has none: the range is unknown.

    Args:
        stats: rows of `STATS`; those of other files are ignored.
        slices: the newest slices of the partitions.
        schema: the table's columns with meta fields.
    """
    names = _files_of(slices)
    counts = pc.is_in(_pairs(stats, "partition", "file"), value_set=_pairs(names, "partition", "file"))
    known = stats.filter(counts)
    whole = partition_stats(known, schema)
    files = _counted(one_array(names["partition"]), one_array(whole["partition"]))
    counted = _counted(_pairs(known, "partition", "column"), _pairs(whole, "partition", "column"))
    return whole.filter(pa.array(files == counted))


def _files_of(slices: Iterable[FileSlice]) -> pa.Table:
    return pa.Table.from_pylist(
        [{"partition": each.partition, "file": name} for each in slices for name in _names(each)],
        pa.schema([("partition", pa.string()), ("file", pa.string())]),
    )


def _texts(values: Sequence[str]) -> pa.Array:
    return pa.array(values, pa.string())


def _pairs(rows: pa.Table, first: str, second: str) -> pa.Array:
    """Return two columns as one text, separated by a character that names don't have."""
    return pc.binary_join_element_wise(one_array(rows[first]), one_array(rows[second]), "\0")


def _counted(values: pa.Array, wanted: pa.Array) -> npt.NDArray[np.int64]:
    """Return the number of occurrences of each wanted value."""
    found = pc.value_counts(values)
    places = pc.index_in(wanted, value_set=found.field("values"))
    return np.asarray(pc.fill_null(found.field("counts").take(places), 0)).astype(np.int64)


@dataclass(frozen=True, slots=True)
class _WithOwn:
    """A listing with the files of a commit that isn't completed, which a metadata table doesn't list yet."""

    listing: FileListing
    own: Sequence[WriteStat]

    @property
    def states_sizes(self) -> bool:
        return self.listing.states_sizes

    def shows_later(self, timeline: Timeline) -> bool:
        return self.listing.shows_later(timeline)

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


def with_older_columns(snapshot: TableSnapshot, spec: StatsSpec) -> StatsSpec:
    """Return the indexed columns, and those that had statistics before they were renamed or dropped."""
    history = read_history(snapshot)
    if history is None:
        return spec
    older = [name for version in history.versions for name in leaf_names(without_meta_fields(version.arrow()))]
    return replace(spec, columns=tuple(dict.fromkeys([*spec.columns, *older])))


def leaf_names(fields: Iterable[pa.Field], within: str = "") -> Iterator[str]:
    """Yield the names of columns, with dots for fields of structs."""
    for field in fields:
        if pa.types.is_struct(field.type):
            yield from leaf_names(field.type, f"{within}{field.name}.")
        else:
            yield within + field.name


def deleted_statistics(spec: StatsSpec, files: Iterable[tuple[str, str]]) -> Changes | None:
    """Return the changes to `column_stats` for deleted files; None for none.

    Args:
        spec: the indexed columns.
        files: partition path and name of each.
    """
    pairs = [(partition, file, column) for partition, file in files for column in spec.columns]
    if not pairs:
        return None
    partitions, names, columns = (pa.array(texts, pa.string()) for texts in zip(*pairs, strict=True))
    values = [stats_tombstone(file, column, spec.version) for _, file, column in pairs]
    return Changes(column_stats_keys(columns, partitions, names), pa.array(values, pa.binary()))


def _data_stats(written: CommitMetadata) -> list[WriteStat]:
    return [stat for stat in written.stats if stat.path]


def _names(file_slice: FileSlice) -> list[str]:
    return [file.name.name for file in file_slice.files]


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
