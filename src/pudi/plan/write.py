"""Assign records to files: updates to the file group that holds their key, inserts to small files, then to new ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

import pyarrow as pa

from pudi.errors import CorruptError
from pudi.filegroup import BaseFile, FileOptions, FileSlice, slices_by_partition
from pudi.filegroup.markers import EarlyDetection
from pudi.format import CommitMetadata, FileGroupId, IOType
from pudi.merge import DELETED, MergeRule
from pudi.metadata import StatsSpec
from pudi.plan.cdc import ChangeLogging
from pudi.plan.entry_staging import EntryStaging
from pudi.plan.log_files import Append, LogOptions, Merging
from pudi.schema import TableSchema
from pudi.schema.internal import SchemaHistory
from pudi.tagging import AnyBuckets, Buckets, Index


class Operation(str, Enum):
    """Operation of a write (WriteOperationType)."""

    INSERT = "INSERT"
    BULK_INSERT = "BULK_INSERT"
    UPSERT = "UPSERT"
    DELETE = "DELETE"
    INSERT_OVERWRITE = "INSERT_OVERWRITE"
    INSERT_OVERWRITE_TABLE = "INSERT_OVERWRITE_TABLE"
    DELETE_PARTITION = "DELETE_PARTITION"

    @property
    def replaces(self) -> bool:
        """Whether file groups are taken out of the table: the commit is a replacecommit."""
        return self in {Operation.INSERT_OVERWRITE, Operation.INSERT_OVERWRITE_TABLE, Operation.DELETE_PARTITION}

    @property
    def looks_up(self) -> bool:
        """Whether records meet those of the table by key."""
        return self in {Operation.UPSERT, Operation.DELETE}


class SortMode(str, Enum):
    """Order and distribution of a bulk insert's records (BulkInsertSortMode).

    GLOBAL_SORT: by partition path and record key, tasks take ranges of them. PARTITION_SORT: by both within each task.
    PARTITION_PATH_REPARTITION: a partition's records go to one task; with AND_SORT each task goes through one partition
    after the other.
    """

    NONE = "NONE"
    GLOBAL_SORT = "GLOBAL_SORT"
    PARTITION_SORT = "PARTITION_SORT"
    PARTITION_PATH_REPARTITION = "PARTITION_PATH_REPARTITION"
    PARTITION_PATH_REPARTITION_AND_SORT = "PARTITION_PATH_REPARTITION_AND_SORT"

    @property
    def by_key(self) -> bool:
        """Whether the records of a file are in the order of their keys."""
        return self in {SortMode.GLOBAL_SORT, SortMode.PARTITION_SORT}


def with_flag(schema: pa.Schema) -> pa.Schema:
    """Return a table's columns and the flag column that marks deletes."""
    return schema if DELETED in schema.names else schema.append(pa.field(DELETED, pa.bool_()))


@dataclass(frozen=True, slots=True)
class WriteSpec:
    """Specification shared by all tasks of one write; picklable.

    Attributes:
        instant: requested time of the commit.
        operation: the operation on the records.
        schema: the table's columns after the write.
        rule: which version of a record wins.
        deduplicate: whether versions of one key within the input are combined first.
        files: how base files are written.
        max_file_bytes: size that a bulk insert fills files up to (hoodie.parquet.max.file.size).
        index: the table's index.
        generated_keys: whether record keys get the instant put before them (tables without record keys).
        history: the schemas of older files, in a table with schema on read.
        merges_inserts: whether an insert into a file that is there updates the keys that the file holds.
        sort: order of a bulk insert.
        bulk_tasks: Spark tasks of a bulk insert; 0 lets Spark decide.
        flagged: whether records come with a flag for deletes that the table may have no column for.
        logs: how log files are written; None in a copy-on-write table.
        stats: which columns' statistics are made of each file; None where the table keeps none.
        deleted: how deletes by key read stored records to copy their ordering values into log files; None if deletes
            have no ordering value.
        staging: how tasks stage the entries of indexes with the files that they write.
        changes: how changes of base files are logged; None in a table that logs none.
        event_time: the column whose range goes into the statistics of each file; None for none.
        early: how tasks look for other writers of their file groups; None where they don't.
    """

    instant: str
    operation: Operation
    schema: TableSchema
    rule: MergeRule
    deduplicate: bool
    files: FileOptions
    max_file_bytes: int = 120 << 20
    index: Index = field(default_factory=Index)
    generated_keys: bool = False
    history: SchemaHistory | None = field(kw_only=True)
    merges_inserts: bool = False
    sort: SortMode = SortMode.NONE
    bulk_tasks: int = 0
    flagged: bool = False
    logs: LogOptions | None = None
    stats: StatsSpec | None = None
    deleted: Merging | None = None
    staging: tuple[EntryStaging, ...] = ()
    changes: ChangeLogging | None = None
    event_time: str | None = None
    early: EarlyDetection | None = None

    @property
    def meets_by_key(self) -> bool:
        """Whether records that go to a file meet those of the file by key."""
        return self.operation.looks_up or (self.merges_inserts and self.operation is Operation.INSERT)

    @property
    def incoming(self) -> pa.Schema:
        """Columns of the incoming records, besides their keys."""
        return with_flag(self.schema.columns) if self.flagged else self.schema.columns


@dataclass(frozen=True, slots=True)
class FileTask:
    """Write one file: the first of a new file group, the next version of its base file, or a log file over it.

    Attributes:
        number: place in the plan, also the first part of write tokens and sequence numbers.
        partition: partition path.
        file_id: the file group.
        base: the base file that the new one replaces; None for a new file group.
        bucket: the bucket that the file group is, as tagging names it; None on tables that have none.
        append: that records go to a log file, and over what; None where a base file is written.
    """

    number: int
    partition: str
    file_id: str
    base: BaseFile | None = None
    bucket: str | None = None
    append: Append | None = None

    @property
    def group(self) -> FileGroupId:
        """The file group."""
        return FileGroupId(self.partition, self.file_id)

    @property
    def location(self) -> str | None:
        """Return the tagging result of records for this task: bucket or file id. None if only a route leads here."""
        known = self.base is not None or (self.append is not None and self.append.slice is not None)
        return self.bucket or (self.file_id if known else None)

    @property
    def io_type(self) -> IOType:
        """The I/O type of a base file's marker (IOType)."""
        return IOType.CREATE if self.base is None else IOType.MERGE


@dataclass(frozen=True, slots=True)
class InsertRoute:
    """Tasks of one partition's inserts, with their shares of the records.

    Attributes:
        partition: partition path.
        tasks: task numbers.
        upper: for each task, the share of records that goes to it or a task before it, in 1/`SHARES`; ascending, the
            last one is `SHARES`.
    """

    partition: str
    tasks: tuple[int, ...]
    upper: tuple[int, ...]


SHARES = 1 << 20
"""Resolution of insert routing: a record's key is hashed to 0…SHARES-1."""


@dataclass(frozen=True, slots=True)
class WriteProfile:
    """Counts of tagged records.

    Attributes:
        updates: number of records with a known key, by (partition path, file id).
        inserts: number of records with a new key, by partition path.
    """

    updates: Mapping[tuple[str, str], int] = field(default_factory=dict)
    inserts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WritePlan:
    """The files that a write will make.

    Attributes:
        tasks: one for each file, numbered from 0.
        routes: where inserts go, one for each partition that has some.
        unfound: buckets without a file group, of whose records some are to be deleted: partition path and name.
    """

    tasks: tuple[FileTask, ...]
    routes: tuple[InsertRoute, ...] = ()
    unfound: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True, slots=True)
class Sizing:
    """Sizes by which inserts are packed into files (UpsertPartitioner).

    Attributes:
        small_file_limit: base files below this many bytes take inserts; 0 fills none.
        max_file_bytes: size that files are filled up to.
        record_bytes: bytes of an average record in a base file.
        closed: file groups that take no inserts: those of a pending clustering.
    """

    small_file_limit: int
    max_file_bytes: int
    record_bytes: float
    closed: frozenset[FileGroupId] = frozenset()

    @property
    def records_per_file(self) -> int:
        """Return the number of records for a new file."""
        return max(1, int(self.max_file_bytes / self.record_bytes))


@dataclass(frozen=True, slots=True)
class PartitionTask:
    """Do the whole of a write for one partition: which files it takes is found out where they are written.

    Attributes:
        number: place in the plan.
        partition: partition path.
        slices: the latest slices of the partition.
        sizing: packing of inserts.
    """

    number: int
    partition: str
    slices: tuple[FileSlice, ...]
    sizing: Sizing


@dataclass(frozen=True, slots=True)
class WholeLimits:
    """Up to where a partition is better written by one task than spread over several.

    Attributes:
        partitions: how many may be written so in one write.
        files: base files of one partition, which its task opens one after the other.
        base_bytes: their size together.
        records: records that one partition gets.
    """

    partitions: int
    files: int
    base_bytes: int
    records: int


NO_INSERTS = Sizing(small_file_limit=0, max_file_bytes=1, record_bytes=1.0)
"""Stands in where a write has no inserts to pack."""


def average_record_bytes(commits: Iterable[CommitMetadata], small_file_limit: int, default: int) -> float:
    """Bytes of an average record, by the newest commit large enough to tell (AverageRecordSizeEstimator).

    Args:
        commits: commit metadata, newest first.
        small_file_limit: a commit counts when it wrote more bytes than this.
        default: the answer where no commit counts.
    """
    for commit in commits:
        size = sum(s.total_write_bytes or 0 for s in commit.stats)
        rows = sum(s.num_writes or 0 for s in commit.stats)
        if rows > 0 and size > small_file_limit:
            return size / rows
    return float(default)


def whole_partitions(
    counts: Mapping[str, int], slices: Sequence[FileSlice], sizing: Sizing, limits: WholeLimits
) -> tuple[PartitionTask, ...] | None:
    """Return one task per partition if all partitions are within the limits; None otherwise."""
    by_partition: dict[str, list[FileSlice]] = {partition: [] for partition in sorted(counts)}
    for file_slice in slices:
        by_partition[file_slice.partition].append(file_slice)
    if len(counts) > limits.partitions or max(counts.values()) > limits.records:
        return None
    groups = by_partition.values()
    if any(len(group) > limits.files or sum(s.size for s in group) > limits.base_bytes for group in groups):
        return None
    return tuple(
        PartitionTask(number, partition, tuple(group), sizing)
        for number, (partition, group) in enumerate(by_partition.items())
    )


def place(
    profile: WriteProfile,
    slices: Sequence[FileSlice],
    sizing: Sizing,
    new_file_id: Callable[[int], str],
    logs: LogOptions | None = None,
) -> WritePlan:
    """Decide the files of a write (UpsertPartitioner, SparkUpsertDeltaCommitPartitioner).

    Args:
        profile: counts by an engine.
        slices: the latest slices of the partitions that the records fall into.
        sizing: packing.
        new_file_id: makes the id of a new file group from its number.
        logs: how log files are written; None in a copy-on-write table.

    Returns:
        A rewrite for each file group that has updates or takes inserts, and new file groups for the other inserts. In a
        merge-on-read table updates go to log files, but for file groups that take inserts: only those without log
        files do, since their keys would not be found in them.
    """
    by_group = {s.group: s for s in slices}
    by_partition = slices_by_partition(each for each in slices if not each.logs)
    inserts = {partition: count for partition, count in sorted(profile.inserts.items()) if count}
    filled = {
        partition: _fill_small_files(count, by_partition.get(partition, []), sizing, logs)
        for partition, count in inserts.items()
    }
    rewritten = {s.group for taken in filled.values() for s, _ in taken}
    tasks: list[FileTask] = []
    numbers: dict[FileGroupId, int] = {}

    def task(key: FileGroupId, known: FileSlice | None) -> int:
        if key not in numbers:
            numbers[key] = len(tasks)
            appends = logs is not None and known is not None and key not in rewritten
            base = None if known is None or appends else known.base_file
            append = Append(known) if appends else None
            tasks.append(FileTask(len(tasks), *key, base, append=append))
        return numbers[key]

    for key in sorted(FileGroupId(*place) for place, count in profile.updates.items() if count):
        task(key, by_group[key])
    routes = []
    for partition, count in inserts.items():
        taken = filled[partition]
        shares: list[tuple[int, float]] = [(task(s.group, s), records) for s, records in taken]
        left = count - sum(records for _, records in shares)
        if left > 0:
            files = math.ceil(left / sizing.records_per_file)
            for _ in range(files):
                shares.append((task(FileGroupId(partition, new_file_id(len(tasks))), None), left / files))
        routes.append(_route(partition, shares))
    return WritePlan(tuple(tasks), tuple(routes))


def _fill_small_files(
    count: int, slices: Sequence[FileSlice], sizing: Sizing, logs: LogOptions | None
) -> list[tuple[FileSlice, int]]:
    """Return how many of `count` inserts each small file takes, smallest file first."""
    filled = []
    open_ones = (s for s in slices if s.group not in sizing.closed)
    small = sorted((s for s in open_ones if s.size < sizing.small_file_limit), key=lambda s: (s.size, s.file_id))
    for file_slice in small if logs is None else small[: logs.small_files]:
        room = int((sizing.max_file_bytes - file_slice.size) / sizing.record_bytes)
        take = min(room, count)
        if take > 0:
            filled.append((file_slice, take))
            count -= take
    return filled


def _route(partition: str, shares: Sequence[tuple[int, float]]) -> InsertRoute:
    total = sum(records for _, records in shares)
    upper, so_far = [], 0.0
    for _, records in shares:
        so_far += records
        upper.append(round(SHARES * so_far / total))
    upper[-1] = SHARES
    return InsertRoute(partition, tuple(number for number, _ in shares), tuple(upper))


@dataclass(frozen=True, slots=True)
class BucketWrite:
    """A write to a table with buckets.

    Attributes:
        operation: deletes make no new buckets.
        buckets: how the table is divided.
        table: location of the table, for errors.
        logs: how log files are written; None in a copy-on-write table. All records of a merge-on-read table go to log
            files, also of new buckets, but for those of bulk inserts and overwrites.
    """

    operation: Operation
    buckets: AnyBuckets
    table: str
    logs: LogOptions | None = None


def place_buckets(
    profile: WriteProfile, slices: Sequence[FileSlice], write: BucketWrite, new_id: Callable[[], str]
) -> WritePlan:
    """Decide the files of a write: one for each bucket that has records (HoodieSimpleBucketIndex).

    Args:
        profile: counts by an engine; its file ids are bucket numbers.
        slices: the latest slices of the partitions that the records fall into.
        write: the write.
        new_id: makes a UUID.

    Raises:
        CorruptError: two file groups have the same bucket, or a file id names no bucket.
    """
    operation, buckets, table, logs = write.operation, write.buckets, write.table, write.logs
    by_bucket: dict[tuple[str, str], FileSlice] = {}
    for file_slice in slices:
        bucket = buckets.name_of(file_slice.file_id, file_slice.partition, table=table, path=file_slice.path)
        other = by_bucket.setdefault((file_slice.partition, bucket), file_slice)
        if other is not file_slice:
            raise CorruptError(
                f"file groups {other.file_id} and {file_slice.file_id} of partition {file_slice.partition!r} are the "
                f"same bucket: roll back the commit that wrote the later one, {max(other.instant, file_slice.instant)}",
                table=table,
                path=file_slice.path,
            )
    tasks: list[FileTask] = []
    unfound: set[tuple[str, str]] = set()
    begins_with_log = logs is not None and operation in {Operation.UPSERT, Operation.INSERT}
    for partition, bucket in sorted(group for group, count in profile.updates.items() if count):
        known = by_bucket.get((partition, bucket))
        if known is not None:
            base, append = (known.base_file, None) if logs is None else (None, Append(known))
            tasks.append(FileTask(len(tasks), partition, known.file_id, base, bucket, append))
        elif operation is not Operation.DELETE:
            file_id = buckets.file_id(bucket, partition, new_id())
            if (
                begins_with_log and isinstance(buckets, Buckets) and not buckets.shared
            ):  # as Hudi has it, which numbers base files only
                file_id = file_id.removesuffix("-0")
            append = Append() if begins_with_log else None
            tasks.append(FileTask(len(tasks), partition, file_id, bucket=bucket, append=append))
        else:
            unfound.add((partition, bucket))
    return WritePlan(tuple(tasks), unfound=frozenset(unfound))
