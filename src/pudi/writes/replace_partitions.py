"""Replace what partitions hold: overwrites and deletes of partitions, each one replacecommit.

No file is deleted: the replacecommit names the replaced file groups, which readers then ignore, and a cleaner deletes
their files later (SparkInsertOverwriteCommitActionExecutor, SparkDeletePartitionCommitActionExecutor).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow.compute as pc

from pudi.client import CommitResult, merging_of
from pudi.client.hash_rings import renewed_index
from pudi.client.partitions import (
    bind_to_partitions,
    delete_request,
    groups_by_partition,
    is_true_by_path,
    not_yet_dropped,
    partition_paths,
)
from pudi.commit.retry import Retries
from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.expr import Expr, columns, evaluate
from pudi.filegroup import FileSlice, slices_by_partition
from pudi.format import (
    CommitMetadata,
    RequestedReplaceMetadata,
    WriteStat,
    encode_requested_replace_metadata,
)
from pudi.plan import Operation, ReadPlan, WritePlan
from pudi.schema import with_meta_fields
from pudi.task import SliceReader
from pudi.timeline import NO_COMMIT
from pudi.writes.place_records import latest_slices, place_records
from pudi.writes.write import run_write
from pudi.writes.write_recipe import Placement, WriteAttempt, WriteRecipe, WriteRequest, never, take_nothing

STATIC = "STATIC"
"""The value of hoodie.datasource.overwrite.mode that isn't the default."""


def overwrite(
    request: WriteRequest, data: Any, operation: Operation, partitions: Iterable[str] | None = None
) -> CommitResult | None:
    """Replace the partitions that the records belong to, or the whole table, by the records.

    Args:
        request: what the caller asks for; hoodie.datasource.overwrite.mode=static without partitions means all of the
            table, as Spark's static mode does (ProvidesHoodieConfig.deduceOverwriteConfig).
        data: the records, in a form that the engine takes.
        operation: INSERT_OVERWRITE or INSERT_OVERWRITE_TABLE.
        partitions: the partition paths to replace, with or without new records; None for those of the records.

    Returns:
        What was done, or None when there was nothing to write and nothing to replace.

    Raises:
        InvalidArgumentError: a record belongs to a partition that is not in `partitions`; otherwise as
            `pudi.writes.write_records.write`.
    """
    meta, options = request.meta, request.write_options
    chosen = None if partitions is None else partition_paths(partitions, meta)
    if operation is Operation.INSERT_OVERWRITE and chosen is None:
        chosen = options.static_partitions
        if chosen is None and options.overwrite_mode == STATIC:
            operation = Operation.INSERT_OVERWRITE_TABLE
    place, is_noop = partial(_place_in_new_groups, partitions=chosen), partial(_is_noop, partitions=chosen)
    recipe = WriteRecipe(operation, place, is_noop=is_noop)
    retries = Retries.of(meta, options, by_default=False)
    records = request.engine.repeatable(data, meta.storage.root) if retries.may_retry else data
    return retries.run(lambda: run_write(request, recipe, records))


def delete_partitions(
    request: WriteRequest, partitions: Iterable[str] | None, where: str | None
) -> CommitResult | None:
    """Delete partitions with all their records.

    Args:
        request: what the caller asks for.
        partitions: partition paths; paths without a partition are ignored.
        where: instead of paths, a predicate over partition columns.

    Returns:
        What was done, or None if the partitions are empty.

    Raises:
        InvalidArgumentError: neither or both are given, the table isn't partitioned, the predicate names another
            column, or is true for only some records of a partition.
    """
    meta, root = request.meta, request.meta.storage.root
    if (partitions is None) == (where is None):
        raise InvalidArgumentError("delete_partitions takes either partition paths or where", table=root)
    if not meta.config.partition_fields:
        raise InvalidArgumentError(
            "the table isn't partitioned; to empty it, overwrite it with no records (insert_overwrite_table)",
            table=root,
        )
    chosen = None if partitions is None else partition_paths(partitions, meta)
    place = partial(_place_deletes, partitions=chosen, where=where)
    recipe = WriteRecipe(Operation.DELETE_PARTITION, place, take_nothing, is_noop=never, evolves=False)
    return Retries.of(meta, request.write_options, by_default=False).run(lambda: run_write(request, recipe, None))


def _is_noop(write: WriteAttempt, records: Any, partitions: tuple[str, ...] | None) -> bool:
    """Return whether an overwrite has no records and names no partitions; refuse records of other partitions."""
    if partitions is None:
        return write.operation is Operation.INSERT_OVERWRITE and not records.counts
    outside = sorted(set(records.counts) - set(partitions))
    if outside:
        raise InvalidArgumentError(
            f"records fall into partition {outside[0]!r}, which is not among those to overwrite: "
            f"{', '.join(map(repr, partitions))}",
            table=write.table,
        )
    return False


def _place_in_new_groups(write: WriteAttempt, records: Any, partitions: tuple[str, ...] | None) -> Placement:
    """Place the records of an overwrite in new file groups, which replace the current ones of the partitions."""
    named = sorted(records.counts) if partitions is None else list(partitions)
    whole = write.operation is Operation.INSERT_OVERWRITE_TABLE
    with write.report.phase("list"):
        replaced = groups_by_partition(latest_slices(write, None if whole else named), named)
    renewed = replace(write, index=renewed_index(write.meta, write.index, replaced))
    profile = CommitMetadata(
        partition_to_write_stats={
            partition: (WriteStat(file_id="", prev_commit=NO_COMMIT, num_inserts=count),)
            for partition, count in records.counts.items()
        },
        operation_type=write.operation.value,
    )
    return replace(
        place_records(renewed, records, []),
        reads=partial(_partitions_read, replaced=replaced, whole=whole),
        replaced=replaced,
        requested=encode_requested_replace_metadata(RequestedReplaceMetadata()),
        inflight=profile,
    )


def _place_deletes(
    write: WriteAttempt, records: Any, partitions: tuple[str, ...] | None, where: str | None
) -> Placement:
    """Choose the file groups that a delete of partitions replaces; it writes no files."""
    with write.report.phase("list"):
        slices = latest_slices(write, partitions)
        if where is not None:
            slices = _chosen(write, slices, where)
    left = sorted(set(partitions or ()) - {each.partition for each in slices})
    empty = not_yet_dropped(write.snapshot, left)
    replaced = groups_by_partition(slices, empty)
    requested, inflight = delete_request()
    return Placement(
        records,
        WritePlan(()),
        renewed_index(write.meta, write.index, replaced),
        reads=partial(_partitions_read, replaced=replaced, whole=False),
        replaced=replaced,
        requested=requested,
        inflight=inflight,
        drops_empty=bool(empty),
    )


def _partitions_read(partitions: Iterable[str], replaced: Mapping[str, object], whole: bool) -> list[str]:
    """Return the partitions that a replacement reads: a record added to them meanwhile is a conflict."""
    return [each for each in partitions if whole or each in replaced]


def _chosen(write: WriteAttempt, slices: Sequence[FileSlice], where: str) -> list[FileSlice]:
    """Return the slices of partitions in which `where` is true for all records."""
    snapshot = write.snapshot
    bound = bind_to_partitions(snapshot, where, f"to delete single records, use delete(where={where!r})")
    schema, wanted = with_meta_fields(snapshot.schema.columns), tuple(columns(bound))
    read = ReadPlan(write.table, schema, wanted, history=write.history, merging=merging_of(snapshot))
    reader = SliceReader(write.meta.storage, read)
    chosen = set()
    for partition, group in slices_by_partition(slices).items():
        by_path = is_true_by_path(snapshot, bound, partition)
        if _is_true_by_records(partition, group, bound, reader) if by_path is None else by_path:
            chosen.add(partition)
    return [s for s in slices if s.partition in chosen]


def _is_true_by_records(partition: str, slices: Sequence[FileSlice], where: Expr, reader: SliceReader) -> bool:
    """Return whether `where` is true for the records of a partition, whose path is ambiguous."""
    found: set[bool] = set()
    for file_slice in slices:
        for batch in reader.read(file_slice):
            found |= set(pc.fill_null(evaluate(where, batch), False).unique().to_pylist())
    if len(found) > 1:
        raise NotSupportedError(
            f"where is true for some records of partition {partition!r} and not for others, as different values "
            "share the folder; use delete(where=…)",
            table=reader.plan.table,
        )
    return found == {True}
