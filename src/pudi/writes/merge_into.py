"""Merge a source into a table: one upsert of the records that its clauses make of the joined rows."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from pudi.client import CommitResult, MetaClient, TableSnapshot
from pudi.commit.retry import Retries
from pudi.config import check_writable
from pudi.errors import ConflictError, PudiError
from pudi.plan import MergeUpsert, Operation, ReadPlan
from pudi.plan.row_changes import (
    MergeJoin,
    upsert_of,
)
from pudi.task.engine import RepeatedKeysError
from pudi.timeline import Timeline
from pudi.writes.merge_binding import MergeBinder, MergeRequest
from pudi.writes.place_records import finds_movers, place_by_key
from pudi.writes.write import run_write
from pudi.writes.write_recipe import (
    Placement,
    WriteAttempt,
    WriteRecipe,
    WriteRequest,
    take_records,
    without_records,
)


def merge_into(request: WriteRequest, data: Any, merging: MergeRequest) -> CommitResult | None:
    """Merge a source into a table in one commit.

    Args:
        request: what the caller asks for; all that the merge reads must not have changed since its instant.
        data: the source, in a form that the engine takes.
        merging: the statement.

    Returns:
        What was done, or None when no clause takes a row.

    Raises:
        InvalidArgumentError: a wrong clause or expression, several source rows match one row of the table, or an
            update would change its key or partition.
        NotSupportedError: SQL beyond the subset, or a table that this release can't write.
        ConflictError: other writers won, at each attempt; nothing of this write is visible.
        ChangedSinceError: the table has changed since the request's instant; nothing was written.
    """
    meta, root = request.meta, request.meta.storage.root
    source, columns = request.engine.merge_source(data, root, lambda: TableSnapshot.load(meta).schema.columns)
    attempt = partial(_attempt, request, merging, source, columns)
    return Retries.of(meta, request.write_options, by_default=True).run(attempt)


def _attempt(request: WriteRequest, merging: MergeRequest, source: Any, columns: pa.Schema) -> CommitResult | None:
    meta = request.meta
    meta.reload()
    check_writable(meta.config, meta.storage.root, request.options)
    snapshot = TableSnapshot.load(meta, request.options)
    join = MergeBinder(snapshot, columns, merging).join()
    upsert = upsert_of(join, columns)
    if upsert is not None:
        with suppress(RepeatedKeysError, _NeedsJoinError):  # which of the rows count, or what is wrong, the join says
            return _upsert(request, source, upsert)
    made = request.engine.merge_rows(source, meta.storage, join)
    place = partial(_place, seen=snapshot.timeline, read=made.read)
    try:
        return run_write(request, WriteRecipe(_operation(meta, join), place, flagged=True, evolves=False), made.data)
    finally:
        made.release()


def _operation(meta: MetaClient, join: MergeJoin) -> Operation:
    """Return the operation that writes the records of a join. Hudi keeps all rows of a merge that only inserts."""
    only_inserts = not join.matched and not join.unsourced
    return Operation.INSERT if only_inserts and not meta.config.ordering_fields else Operation.UPSERT


class _NeedsJoinError(PudiError):
    """A merge turned out not to be an upsert; nothing was written."""


def _upsert(request: WriteRequest, source: Any, merge: MergeUpsert) -> CommitResult | None:
    """Write a merge that is an upsert, without a join (decision 50).

    Raises:
        RepeatedKeysError: source rows share a key; only the join knows whether they match a row.
        _NeedsJoinError: a row would move to another partition, or the index can't tell.
    """
    recipe = WriteRecipe(
        Operation.UPSERT,
        place=partial(_place_upsert, merge=merge),
        take=partial(_take_upsert, merge=merge),
        is_noop=partial(_check_index, merge=merge),
        evolves=False,
    )
    return run_write(request, recipe, request.engine.merge_records(source, merge))


def _take_upsert(write: WriteAttempt, data: Any, merge: MergeUpsert) -> Any:
    if write.schema != merge.schema:
        raise ConflictError("another writer changed the table's columns; nothing of this merge is visible; retry")
    return take_records(write, data, unique=True)


def _check_index(write: WriteAttempt, records: Any, merge: MergeUpsert) -> bool:
    """Whether there are no records; before they are looked at, refuse an index that doesn't say where keys are."""
    knows = write.index.buckets is None and (write.index.is_global or not (merge.anywhere and write.index.records))
    if not knows and (merge.anywhere or not (merge.updates and merge.inserts)):
        raise _NeedsJoinError("the index finds no keys", table=write.table)
    return without_records(write, records)


def _place_upsert(write: WriteAttempt, records: Any, merge: MergeUpsert) -> Placement:
    def choose(tagged: Any) -> Any:
        if write.is_global and tagged.movers:
            raise _NeedsJoinError("records are in other partitions", table=write.table)
        return tagged.known_only() if not merge.inserts else tagged if merge.updates else tagged.new_only()

    if write.is_global:  # what would move is found even if a version elsewhere is newer
        write = replace(write, index=replace(write.index, moves=False))
    elif merge.anywhere and finds_movers(write, records):
        raise _NeedsJoinError("records are in other partitions", table=write.table)
    both = merge.updates and merge.inserts
    placed = place_by_key(write, records, None if both and not write.is_global else choose)
    if both:  # as an upsert, it depends on nothing that it reads
        return placed
    any_partition = merge.anywhere or write.is_global
    return replace(placed, reads=list if any_partition else frozenset(records.counts).intersection)


def _place(write: WriteAttempt, records: Any, seen: Timeline, read: ReadPlan | None) -> Placement:
    """Place the merged rows, unless the table changed since they were computed."""
    changed = set(seen.commits) ^ set(write.timeline.commits)
    if changed:
        raise ConflictError(
            f"another writer changed the table while source and table were compared, by commit "
            f"{max(changed).requested}; nothing of this merge is visible; retry",
            table=write.table,
        )
    placed = place_by_key(write, records)
    return placed if read is None else replace(placed, reads=partial(read.prune_partitions, keys=write.meta.keys))
