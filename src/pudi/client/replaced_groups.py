"""Make the metadata of a replacecommit that writes no files: the file groups that leave the table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pudi.filegroup import FileSlice
from pudi.format import CommitMetadata, RequestedReplaceMetadata, encode_requested_replace_metadata
from pudi.plan import Operation


def groups_by_partition(slices: Sequence[FileSlice], partitions: Iterable[str] = ()) -> dict[str, tuple[str, ...]]:
    """Return the ids of the file groups of some slices, by partition path.

    Args:
        slices: the slices.
        partitions: partition paths that are named with or without file groups, as Hudi does.
    """
    by_partition: dict[str, list[str]] = {partition: [] for partition in partitions}
    for file_slice in slices:
        by_partition.setdefault(file_slice.partition, []).append(file_slice.file_id)
    return {partition: tuple(ids) for partition, ids in sorted(by_partition.items())}


def delete_request() -> tuple[bytes, CommitMetadata]:
    """Return what the requested and the inflight file of a delete of partitions say (DeletePartitionUtils)."""
    operation = Operation.DELETE_PARTITION.value
    plan = RequestedReplaceMetadata(operation_type=operation, extra_metadata={}, version=1)
    return encode_requested_replace_metadata(plan), CommitMetadata(operation_type=operation)
