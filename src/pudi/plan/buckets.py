"""Plan the writes of a bucket table: one file for each bucket that has records."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pudi.errors import CorruptError
from pudi.filegroup import FileSlice
from pudi.plan.append import Append, LogOptions
from pudi.plan.write import FileTask, Operation, WritePlan, WriteProfile
from pudi.tagging import AnyBuckets, Buckets


def place_buckets(
    profile: WriteProfile,
    slices: Sequence[FileSlice],
    operation: Operation,
    buckets: AnyBuckets,
    new_id: Callable[[], str],
    table: str,
    logs: LogOptions | None = None,
) -> WritePlan:
    """Decide the files of a write: one for each bucket that has records (HoodieSimpleBucketIndex).

    Args:
        profile: counts by an engine; its file ids are bucket numbers.
        slices: the latest slices of the partitions that the records fall into.
        operation: deletes make no new buckets.
        buckets: how the table is divided.
        new_id: makes a UUID.
        table: location of the table, for errors.
        logs: how log files are written; None in a copy-on-write table. All records of a merge-on-read table go to log
            files, also of new buckets, but for those of bulk inserts and overwrites.

    Raises:
        CorruptError: two file groups have the same bucket, or a file id names no bucket.
    """
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
