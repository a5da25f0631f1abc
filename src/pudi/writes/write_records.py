"""Write a user's records: insert, bulk insert, upsert and delete by key, update and delete by predicate."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from pudi.client import CommitResult, MetaClient, merging_of
from pudi.commit.retry import Retries
from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.filegroup import FileSlice
from pudi.plan import Append, Change, FileTask, Operation, ReadableTable, Selection, WritePlan, plan_read
from pudi.plan.row_changes import bind_assignments
from pudi.writes.place_records import latest_slices, place_by_key
from pudi.writes.write import run_write
from pudi.writes.write_recipe import Placement, WriteAttempt, WriteRecipe, WriteRequest, never, take_nothing

_ADDITIONS = frozenset({Operation.INSERT, Operation.BULK_INSERT})
"""Operations that bring new records and change none that are there."""


def write(request: WriteRequest, data: Any, operation: Operation) -> CommitResult | None:
    """Write `data` in one commit.

    Args:
        request: what the caller asks for.
        data: the records, in a form that the engine takes.
        operation: what to do with them.

    Returns:
        What was done, or None when there are no records.

    Raises:
        NotSupportedError: the table is of a kind that this release can't write.
        InvalidArgumentError: the data doesn't fit the table; nothing was written.
        ConflictError: other writers won, at each attempt; nothing of this write is visible.
        ChangedSinceError: the table has changed since the request's instant; nothing was written.
    """
    meta, options, root = request.meta, request.write_options, request.meta.storage.root
    if operation is Operation.UPSERT and options.drop_duplicates:  # HoodieSparkSqlWriter.deduceOperation
        operation = Operation.INSERT
    if operation is Operation.BULK_INSERT and options.duplicates != "none":
        reason = "bulk_insert doesn't look for keys, so it can't leave out or refuse those that are there: use insert"
        raise NotSupportedError(reason, table=root)
    retries = Retries.of(meta, options, by_default=operation in _ADDITIONS)
    records = request.engine.repeatable(data, root) if retries.may_retry else data
    recipe = WriteRecipe(operation, place_by_key)
    return retries.run(lambda: run_write(request, recipe, records))


def change_where(request: WriteRequest, values: Mapping[str, object] | None, where: str | None) -> CommitResult | None:
    """Update or delete the records that match a predicate.

    Args:
        request: what the caller asks for; all that the predicate reads must not have changed since its instant.
        values: by column, SQL text of its new value or a constant that is no text; None deletes.
        where: SQL predicate; None for all records, which only an update takes.

    Returns:
        What was done, or None if no record matches the predicate.

    Raises:
        InvalidArgumentError: an unknown column, an assignment to a key or partition column, a wrong expression.
        NotSupportedError: SQL beyond the subset, or a table that this release can't write.
        ConflictError: other writers won, at each attempt; nothing of this write is visible.
        ChangedSinceError: the table has changed since the request's instant; nothing was written.
    """
    if where is None and values is None:
        raise InvalidArgumentError("delete by predicate needs where", table=request.meta.storage.root)
    operation = Operation.DELETE if values is None else Operation.UPSERT
    place = partial(_place, values=values, where=where)
    recipe = WriteRecipe(operation, place, take_nothing, is_noop=never, evolves=False)
    retries = Retries.of(request.meta, request.write_options, by_default=True)
    return retries.run(lambda: run_write(request, recipe, None))


def _place(write: WriteAttempt, records: Any, values: Mapping[str, object] | None, where: str | None) -> Placement:
    """Choose the file slices that may hold matching records."""
    meta, snapshot, root = write.meta, write.snapshot, write.table
    config, schema = meta.config, snapshot.schema.columns
    table = ReadableTable(root, schema, populated=True, history=write.history, merging=merging_of(snapshot))
    read = plan_read(table, Selection((), where))
    fixed = (*config.record_key_fields, *config.partition_fields)
    bound = None if values is None else bind_assignments(values, schema, schema, root, fixed)
    with write.report.phase("list"):
        slices = read.with_slices(latest_slices(write, None), meta.keys).slices
    return Placement(
        records,
        WritePlan(tuple(_task(number, each, meta) for number, each in enumerate(slices))),
        write.index,
        reads=partial(read.prune_partitions, keys=meta.keys),
        change=Change(read, bound),
    )


def _task(number: int, file_slice: FileSlice, meta: MetaClient) -> FileTask:
    if meta.merges_on_read:
        return FileTask(number, file_slice.partition, file_slice.file_id, append=Append(file_slice))
    return FileTask(number, file_slice.partition, file_slice.file_id, file_slice.base_file)
