"""A toy kind of index in one module: the number of records of each base file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pudi.client.changed_groups import data_file
from pudi.filegroup import BaseFile, open_base_file
from pudi.format.metadata_partitions import MetadataPartitionType, register_partition_type
from pudi.indexes.checking import Difference, IndexCheck, unreadable
from pudi.indexes.indexed_commit import CommitChanges, IndexedCommit, LockedCommit
from pudi.indexes.kind import IndexKind
from pudi.metadata.changes import Changes, encode_changes
from pudi.metadata.record_schema import RECORD_SCHEMA, RecordType
from pudi.metadata_write.build import Building, IndexBuilder, group_ids, write_bases
from pudi.metadata_write.client import Stats, open_metadata
from pudi.metadata_write.index_defs import IndexSpec
from pudi.task.check_files import UNREADABLE

ROW_COUNTS = MetadataPartitionType("row_counts", ("ColumnStatsMetadata",))
register_partition_type(ROW_COUNTS)


class RowCounts(IndexKind):
    """The number of records of each base file, by its path."""

    type = ROW_COUNTS

    def builder(self, work: Building) -> IndexBuilder:
        """Counts what is there."""
        return RowCountsBuilder(work)

    def prepare(self, commit: IndexedCommit, partitions: Sequence[str]) -> CommitChanges:
        """Leave the count to the lock: the commit's write statistics say it."""
        return RowCountChanges(commit)

    def check(self, check: IndexCheck, partitions: Sequence[str]) -> Iterator[Difference]:
        """Compare the numbers with the footers."""
        for name in partitions:
            try:
                records = check.table.read(name)
            except UNREADABLE as error:
                yield unreadable(name, error)
                continue
            counts = {row["key"]: row["ColumnStatsMetadata"]["valueCount"] for row in records.to_pylist()}
            for base in (each.base for each in check.slices if each.base is not None):
                rows = open_base_file(check.meta.storage, base).num_rows
                if counts.get(base.path) != rows:
                    yield Difference(name, base.path, f"{counts.get(base.path)} records, and there are {rows}")


@dataclass(frozen=True, slots=True)
class RowCountChanges(CommitChanges):
    """The base files of a commit."""

    commit: IndexedCommit

    def changes(self, locked: LockedCommit) -> Mapping[str, Changes | None]:
        """Their numbers of records."""
        if ROW_COUNTS.name not in locked.maintained:
            return {}
        stats = self.commit.written.stats
        written = {stat.path or "": stat.num_writes or 0 for stat in stats if isinstance(data_file(stat), BaseFile)}
        return {ROW_COUNTS.name: counted(written.items()) if written else None}


class RowCountsBuilder(IndexBuilder):
    """Counts the records of the base files that are there."""

    def spec(self) -> IndexSpec:
        """Any table can have it."""
        return self.work.spec

    def groups(self) -> Sequence[str]:
        """Two."""
        return group_ids(ROW_COUNTS.name, 2)

    def fill(self) -> Stats:
        """Read the footers."""
        meta = self.work.meta
        bases = [each.base for each in self.work.slices() if each.base is not None]
        changes = counted((base.path, open_base_file(meta.storage, base).num_rows) for base in bases)
        name = ROW_COUNTS.name
        return {name: write_bases(open_metadata(meta), self.work.requested, name, self.groups(), changes)}


def counted(files: Iterable[tuple[str, int]]) -> Changes:
    """Records of the partition: path and number of records of each file."""
    rows = [
        {
            "key": path,
            "type": int(RecordType.COLUMN_STATS),
            "ColumnStatsMetadata": {"valueCount": rows, "isDeleted": False, "isTightBound": False},
        }
        for path, rows in files
    ]
    return encode_changes(pa.Table.from_pylist(rows, RECORD_SCHEMA))
