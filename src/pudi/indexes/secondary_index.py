"""Secondary indexes: the record keys of each value of a column.

Source: SecondaryIndexRecordGenerationUtils.convertWriteStatsToSecondaryIndexRecords,
HoodieBackedTableMetadataWriter.initializeSecondaryIndexPartition, SecondaryIndexSupport,
HoodieIndexUtils.validateEligibilityForSecondaryOrExpressionIndex.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from pudi.client.changed_groups import changed_groups, key_reading, may_change_keys
from pudi.client.inflight_builds import with_maintained
from pudi.client.meta_client import MetaClient
from pudi.client.snapshot import TableSnapshot
from pudi.config import MetadataOptions, Options
from pudi.errors import CorruptError, InvalidArgumentError, NotSupportedError, SchemaError
from pudi.filegroup import FileSlice
from pudi.format import WriteStat, staging_dir
from pudi.format.metadata_partitions import RECORD_INDEX, SECONDARY_INDEX_PREFIX, partition_type
from pudi.indexes.checking import Difference, IndexCheck, unreadable
from pudi.indexes.kind import (
    CommitChanges,
    IndexedCommit,
    IndexKind,
    IndexRead,
    IndexStaging,
    KeyChanges,
    LookupResult,
    PlannedWrite,
)
from pudi.indexes.record_index import RecordIndexBuilder, locate_keys
from pudi.indexes.record_index.properties import record_index_spec
from pudi.metadata import MetadataTable
from pudi.metadata.index_spec import IndexSpec
from pudi.metadata.keys import Shards, secondary_prefixes, split_secondary_keys
from pudi.metadata.record_index import certain_texts, may_be_looked_up, may_be_secondary, secondary_value
from pudi.metadata.table import PartitionSnapshot
from pudi.metadata.value_types import leaf_type
from pudi.metadata_write.build import group_ids
from pudi.metadata_write.building import Building, IndexBuilder
from pudi.metadata_write.client import Stats, open_metadata
from pudi.metadata_write.index_defs import IndexRequest, defined_index, named_spec
from pudi.metadata_write.index_logs import IndexesChangedError, ShardWork, is_invalidated
from pudi.plan import ReadPlan
from pudi.plan.entry_staging import EntryStaging
from pudi.plan.lookup import MOST_VALUES, values_read
from pudi.schema import avro_to_arrow
from pudi.schema.arrays import one_array
from pudi.task import Engine
from pudi.task.check_files import UNREADABLE
from pudi.task.index_entries import SecondaryReading, SecondaryStaging
from pudi.task.index_keys import KeyTask, ShardTask
from pudi.task.staged_keys import Repeated, StagedKeys, portions_by_shard, staged_of


def secondary_indexes(meta: MetaClient, names: Sequence[str]) -> list[IndexSpec]:
    """Return secondary indexes of a table by their definitions.

    Args:
        meta: the table.
        names: their partitions of the metadata table.

    Raises:
        CorruptError: the definition of an index is missing or damaged.
    """
    specs = [defined_index(meta, name) for name in names]
    for spec in specs:
        if len(spec.columns) != 1:
            raise CorruptError(
                f"the definition of the index {spec.partition} doesn't name its column; write with "
                f"{MetadataOptions.drop}={spec.partition}, which drops it, and create it again",
                table=meta.storage.root,
            )
    return specs


def type_of_indexed(meta: MetaClient, index: IndexSpec, schema: pa.Schema) -> pa.DataType:
    """Return the type of the indexed column.

    Raises:
        SchemaError: the table has no such column any more; Hudi renames and drops indexed columns.
    """
    kind = leaf_type(schema, index.columns[0])
    if kind is None:
        raise SchemaError(
            f"the index {index.partition} is of column {index.columns[0]!r}, which the table no longer has: drop the "
            "index, then write",
            table=meta.storage.root,
        )
    return kind


def hashes_whole_keys(index: IndexSpec) -> bool:
    """Return whether a secondary index assigns file groups by the whole key, see `secondary_shard_of`."""
    return index.version == 1


@dataclass(frozen=True, slots=True)
class StagedSecondary:
    """The changes of one commit to a secondary index, in files of keys that tasks staged.

    Attributes:
        meta: the table.
        engine: runs the jobs.
        instant: requested time of the commit.
        partition: the index's partition of the metadata table.
        count: number of file groups of the index, when the keys were divided among them.
        keys: the files.
    """

    meta: MetaClient
    engine: Engine
    instant: str
    partition: str
    count: int
    keys: tuple[StagedKeys, ...]

    def plan(self, own: TableSnapshot) -> ShardWork:
        """Find the file groups of the index that the commit changes; see `StagedKeyChanges.plan`."""
        found = portions_by_shard(self.keys)
        if not found:
            return ShardWork(self, (), ())
        groups = Shards.of(self.partition, own.view(sizes=False).slices(self.partition)).all
        if len(groups) != self.count:
            raise IndexesChangedError(
                f"the index {self.partition} was rebuilt while this write was under way; retry",
                table=self.meta.storage.root,
                instant=self.instant,
            )
        if is_invalidated(own, self.partition, groups):
            return ShardWork(self, (), ())
        tasks = tuple(
            ShardTask(place, self.instant, own.meta.store.layout, groups[shard], portions)
            for place, ((_, shard), portions) in enumerate(found.items())
        )
        return ShardWork(self, tasks, ())

    def note_repeated(self, found: Sequence[Repeated]) -> None:
        """Its tasks look for none."""


def stage_secondary(commit: IndexedCommit, staging: IndexStaging, names: Sequence[str]) -> list[StagedSecondary]:
    """Find the pairs of value and key that a commit adds to secondary indexes and removes from them.

    Tasks that wrote files have staged theirs. Jobs read the other file groups: no key passes through this process.

    Args:
        commit: the commit.
        staging: how its files are read.
        names: the indexes' partitions of the metadata table.
    """
    meta, instant, entries = commit.meta, commit.instant.requested, staging.entries
    indexes = secondary_indexes(meta, names)
    if not indexes or not may_change_keys(commit.written):
        return []
    stagings = [_staging_of(staging, index, instant) for index in indexes]
    emitted = [entries.keys(each.index) if each in entries.stagings else {} for each in stagings]
    complete = set.intersection(*(set(keys) for keys in emitted))

    def matters(stat: WriteStat) -> bool:
        return (stat.partition_path or "", stat.file_id or "") not in complete

    groups = list(changed_groups(staging.snapshot, commit.written, matters))
    jobs: list[KeyTask] = []
    for how, keys in zip(stagings, emitted, strict=True):
        of_index = SecondaryReading(how.reading, how.column)
        for place, group in enumerate(groups):
            if group.stats and group.id in keys:
                continue
            path = f"{how.folder}/{how.index}-{place}"
            path = path if staging.run is None else staging.run.own(path)
            task = KeyTask(len(jobs), of_index, "", secondary_value(), how.shards, path, group.before, group.after)
            jobs.append(replace(task, whole_key=how.whole_key, index=how.index))
    found = [*staged_of(commit.run(jobs)), *(each for keys in emitted for each in keys.values() if each.shards)]
    return [
        StagedSecondary(
            meta,
            staging.engine,
            instant,
            how.index,
            how.shards,
            tuple(each for each in found if each.index == how.index),
        )
        for how in stagings
    ]


def _staging_of(staging: IndexStaging, index: IndexSpec, requested: str) -> SecondaryStaging:
    """Return how the tasks of a commit staged an index, if it is still the same one, else how jobs do it now."""
    staged = staging.entries.staging(index.partition)
    now = (index.columns[0], hashes_whole_keys(index))
    if isinstance(staged, SecondaryStaging) and (staged.column, staged.whole_key) == now:
        return staged
    return next(secondary_staging(staging.snapshot, [index], requested))


def secondary_staging(
    snapshot: TableSnapshot, indexes: Sequence[IndexSpec], requested: str
) -> Iterator[SecondaryStaging]:
    """Yield how the keys of secondary indexes are staged.

    Args:
        snapshot: the table when the commit was planned.
        indexes: the indexes.
        requested: requested time of the commit.
    """
    meta = snapshot.meta
    reading = key_reading(snapshot).with_instant(requested)
    view = with_maintained(meta, open_metadata(meta)).view(sizes=False)
    for index in indexes:
        type_of_indexed(meta, index, reading.schema)
        count = len(Shards.of(index.partition, view.slices(index.partition)).all)
        whole = hashes_whole_keys(index)
        yield SecondaryStaging(index.partition, index.columns[0], staging_dir(requested), count, whole, reading)


def keys_of_values(plan: ReadPlan, indexes: Iterable[IndexSpec], table: MetadataTable) -> tuple[str, pa.Array | None]:
    """Return the keys of the records with the values that a read asks for, and the index that found them.

    Args:
        plan: the read.
        indexes: the table's secondary indexes.
        table: its metadata table.
    """
    schema = plan.schema
    for index in indexes:
        column = index.columns[0] if len(index.columns) == 1 else None
        if column is None or column not in schema.names:
            continue
        values = values_read(plan, column, may_be_looked_up)
        if values is None or len(values) > MOST_VALUES:
            continue
        texts = certain_texts(values, schema.field(column).type)
        name = index.partition
        if texts is None or table.shards(name).is_empty or name in table.ever_invalidated:
            continue
        prefixes = secondary_prefixes(pa.array(texts, pa.string())).to_pylist()
        records = table.read(name, prefixes=prefixes, whole_key=hashes_whole_keys(index))
        return name, split_secondary_keys(one_array(records["key"]))[1].unique()
    return "", None


_IDENTITY = "identity"
"""Function of a definition that stands for a column's own values (HoodieExpressionIndex.IDENTITY_TRANSFORM)."""


@dataclass(slots=True)
class SecondaryIndexBuilder(IndexBuilder):
    """Builds a secondary index."""

    _count: int = field(default=0, init=False)

    def spec(self) -> IndexSpec:
        """The index over one column of the table; see `IndexBuilder`."""
        work, meta = self.work, self.work.meta
        root, name = meta.storage.root, work.spec.partition
        if meta.config.version < work.spec.type.since:
            raise NotSupportedError(
                f"{name}: tables of version {meta.config.version} have no secondary indexes: Table.upgrade",
                table=root,
            )
        if len(work.spec.columns) != 1:
            raise InvalidArgumentError(f"{name}: a secondary index is over one column", table=root)
        kind = leaf_type(avro_to_arrow(work.snapshot.schema.avro), work.spec.columns[0])
        if kind is None:
            raise InvalidArgumentError(f"{name}: the table has no column {work.spec.columns[0]!r}", table=root)
        if not may_be_secondary(kind):
            raise InvalidArgumentError(
                f"{name}: no secondary index is made over column {work.spec.columns[0]!r} of type {kind}; texts, "
                "numbers, dates and points in time have them",
                table=root,
            )
        if RECORD_INDEX not in meta.config.metadata_partitions:
            raise InvalidArgumentError(
                f"{name}: a secondary index leads to record keys, which a record index finds; make that one first, "
                f"or give option {MetadataOptions.record_index}=true",
                table=root,
            )
        return replace(work.spec, function=_IDENTITY)

    def groups(self) -> Sequence[str]:
        """Return as many file groups as for a record index, which has as many entries."""
        record_index = RecordIndexBuilder(replace(self.work, spec=record_index_spec(partitioned=False)))
        self._count = len(record_index.groups())
        return group_ids(self.work.spec.partition, self._count)

    def fill(self) -> Stats:
        """Write each pair of value and key, by tasks: no key passes through this process."""
        return {self.work.spec.partition: self._bases(self._staged(self.work.slices()))}

    def _staged(self, slices: Sequence[FileSlice]) -> list[StagedKeys]:
        work, spec = self.work, self.work.spec
        reading = SecondaryReading(key_reading(work.snapshot), spec.columns[0])
        folder, value = staging_dir(work.requested), secondary_value()
        whole = hashes_whole_keys(spec)
        jobs = [
            KeyTask(n, reading, "", value, self._count, f"{folder}/{spec.partition}-{n}", None, each, whole_key=whole)
            for n, each in enumerate(slices)
        ]
        return staged_of(work.run(jobs))

    def _bases(self, staged: Sequence[StagedKeys]) -> tuple[WriteStat, ...]:
        ids, work = group_ids(self.work.spec.partition, self._count), self.work
        tasks = []
        for number, ((_, shard), portions) in enumerate(portions_by_shard(staged).items()):
            target = FileSlice(work.spec.partition, ids[shard], None)
            layout = work.meta.store.layout
            tasks.append(ShardTask(number, work.requested, layout, target, portions, bootstrap=True))
        return tuple(stat for result in work.run(tasks) for stat in result.stats)


class SecondaryIndexes(IndexKind):
    """The record keys of each value of a column."""

    type = partition_type(SECONDARY_INDEX_PREFIX)
    requires = (RECORD_INDEX,)
    is_record_level = True

    def requested(self, request: IndexRequest, version: int, options: Options, table: str) -> IndexSpec:
        """The index over one column."""
        return replace(super().requested(request, version, options, table), function=_IDENTITY)

    def wanted(self, meta: MetaClient, options: Options) -> Iterator[IndexSpec]:
        """The one index that the options name."""
        asked = MetadataOptions.of(options)
        if asked.secondary_index and (column := asked.secondary_index_column):
            yield named_spec(self.type, column, asked.secondary_index_name, meta.config.version)

    def builder(self, work: Building) -> IndexBuilder:
        """See `SecondaryIndexBuilder`."""
        return SecondaryIndexBuilder(work)

    def staging(self, write: PlannedWrite, partitions: Sequence[str]) -> Iterator[EntryStaging]:
        """The keys of files are staged where the files are written, unless the write changes the column's type."""
        if not partitions:
            return
        before, indexes = write.snapshot.schema.columns, []
        for spec in secondary_indexes(write.meta, partitions):
            kind = type_of_indexed(write.meta, spec, write.schema)
            if kind == leaf_type(before, spec.columns[0]) and may_be_secondary(kind):
                indexes.append(spec)
        if indexes:
            yield from secondary_staging(write.snapshot, indexes, write.requested)

    def prepare(self, commit: IndexedCommit, partitions: Sequence[str]) -> CommitChanges:
        """Find the pairs of value and key that the commit adds and removes."""
        if commit.staging is None or not partitions:
            return CommitChanges()
        return KeyChanges(tuple(stage_secondary(commit, commit.staging, partitions)))

    def locate(self, read: IndexRead, plan: ReadPlan) -> LookupResult | None:
        """Look up the record keys of a predicate's values in a secondary index, and these in the record index."""
        if plan.narrowed is None or RECORD_INDEX not in read.table.partitions or plan.history is not None:
            return None
        indexes = [defined_index(read.meta, name) for name in read.table.partitions if self.type.includes(name)]
        # of columns that files leave out Hudi's files, and so its indexes, may have nulls
        indexes = [each for each in indexes if not {*each.columns} & {*read.meta.path_columns}]
        index, keys = keys_of_values(plan, indexes, read.table)
        return locate_keys(index, plan, read, keys)

    def check(self, check: IndexCheck, partitions: Sequence[str]) -> Iterator[Difference]:
        """Find records that an index has under another value, except for column types that pudi can't convert."""
        meta = check.meta
        for name in partitions:
            try:
                spec = defined_index(meta, name)
                kind = leaf_type(check.snapshot.schema.columns, spec.columns[0]) if len(spec.columns) == 1 else None
                if kind is None:
                    raise CorruptError("no definition says which column it is about", table=meta.storage.root)
                if may_be_secondary(kind):
                    snapshot = PartitionSnapshot.of(check.table, name, whole_key=hashes_whole_keys(spec))
                    check.keys.of_values(snapshot, spec.columns[0], check.findings)
            except UNREADABLE as error:
                yield unreadable(name, error)
