"""Secondary indexes: the record keys of each value of a column.

Source: SecondaryIndexSupport.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from pudi.client import MetaClient
from pudi.config import MetadataOptions, Options
from pudi.errors import CorruptError
from pudi.format.metadata_partitions import RECORD_INDEX, SECONDARY_INDEX_PREFIX, partition_type
from pudi.indexes.checking import Difference, IndexCheck, unreadable
from pudi.indexes.indexed_commit import CommitChanges, IndexedCommit, KeyChanges, PlannedWrite
from pudi.indexes.kind import IndexKind, IndexRead, LookupResult
from pudi.indexes.record_index import locate_keys
from pudi.indexes.secondary_index.build import IDENTITY, SecondaryIndexBuilder
from pudi.indexes.secondary_index.changes import (
    hashes_whole_keys,
    secondary_indexes,
    secondary_staging,
    stage_secondary,
    type_of_indexed,
)
from pudi.metadata.keys import secondary_prefixes, split_secondary_keys
from pudi.metadata.record_index import certain_texts, may_be_looked_up, may_be_secondary
from pudi.metadata.table import PartitionSnapshot
from pudi.metadata.value_types import leaf_type
from pudi.metadata_write.build import Building, IndexBuilder
from pudi.metadata_write.index_defs import IndexRequest, IndexSpec, defined_index, named_spec
from pudi.plan import ReadPlan
from pudi.plan.entry_staging import EntryStaging
from pudi.plan.skipping import MOST_VALUES, values_read
from pudi.schema.arrays import one_array
from pudi.task.check_files import UNREADABLE


def keys_of_values(plan: ReadPlan, indexes: Iterable[IndexSpec], read: IndexRead) -> tuple[str, pa.Array | None]:
    """Return the keys of the records with the values that a read asks for, and the index that found them.

    Args:
        plan: the read.
        indexes: the table's secondary indexes.
        read: the table.
    """
    schema, table = plan.schema, read.table
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


class SecondaryIndexes(IndexKind):
    """The record keys of each value of a column."""

    type = partition_type(SECONDARY_INDEX_PREFIX)
    requires = (RECORD_INDEX,)
    is_record_level = True

    def requested(self, request: IndexRequest, version: int, options: Options, table: str) -> IndexSpec:
        """The index over one column."""
        return replace(super().requested(request, version, options, table), function=IDENTITY)

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
        index, keys = keys_of_values(plan, indexes, read)
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
