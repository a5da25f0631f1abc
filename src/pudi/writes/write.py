"""One attempt at a write: its recipe's records and placement, the files, and the instant that makes them visible.

`pudi.commit.retry` says how often a verb attempts it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from pudi.client import CommitResult, read_history
from pudi.client.find_index import key_scope
from pudi.client.settings import event_time_column, next_schema
from pudi.commit.conditions import planned, refuse_changed_schema
from pudi.concurrency import Claim, TimelineBehindError
from pudi.config import SyncOptions
from pudi.context.runtime import lazy_module
from pudi.filegroup import compacting_since
from pudi.format import CommitMetadata
from pudi.plan import WritePlan
from pudi.services.runner import run_after_commit
from pudi.task.engine import EvaluatedAgainError
from pudi.timeline import Instant, Timeline
from pudi.writes.commit_write import commit_write
from pudi.writes.concurrency_modes import claiming, shared_index, take_claim
from pudi.writes.open_write import make_ready, open_write
from pudi.writes.pending_clusterings import UpdateStrategy
from pudi.writes.place_records import is_uncounted, planned_again
from pudi.writes.write_recipe import Placement, WriteAttempt, WriteRecipe, WriteRequest

if TYPE_CHECKING:
    from pudi.sync import after_write
else:
    after_write = lazy_module("pudi.sync.after_write")

_PLANS = 5
"""Attempts to plan a write while other processes commit."""


def run_write(request: WriteRequest, recipe: WriteRecipe, data: Any) -> CommitResult | None:
    """Attempt a write once.

    Args:
        request: what the caller asks for.
        recipe: how the verb does it.
        data: the records, in a form that the engine takes; None for a verb without.

    Returns:
        What was done, or None when there is nothing to do.

    Raises:
        ConflictError: another writer won; nothing of this write is visible.
    """
    write = open_write(request, recipe)
    report = write.report
    with report.phase("prepare"):
        records = recipe.take(write, data)
    try:
        done = _attempt(write, records)
    finally:
        records.release()
    if done is None:
        return None
    result = report.result(*done)
    run_after_commit(write.snapshot.at(write.timeline.with_instant(done[0])), write.engine, report)
    if not SyncOptions(request.options.given).is_on:
        return result
    syncs = result.syncs
    with report.after_commit("sync"):  # what a session is asked for may fail, too
        spark, own = write.engine.spark_version, write.engine.metastore
        syncs = after_write.sync_after_write(write.meta, request.options, report, spark, own)
    return replace(result, syncs=syncs)


def _attempt(write: WriteAttempt, records: Any) -> tuple[Instant, CommitMetadata] | None:
    """Repair what dead writers left, then write and commit; None where there's nothing to do."""
    meta = write.meta
    uncounted = partial(is_uncounted, write.operation, write.index, write.engine)
    bulk = not write.recipe.is_planned and uncounted(write.timeline)
    if not bulk:
        with write.report.phase("count"):
            if write.recipe.is_noop(write, records):
                return None
    with write.report.phase("repair"):
        timeline = make_ready(write)
    refuse_changed_schema(write.first, write.first.at(timeline))
    if meta.merges_on_read and timeline.rules.logs_name_their_slice:
        compacting_since(meta.store, timeline)  # log files get their names by these plans: all must be readable
    write = _seeing(write, timeline)
    if write.recipe.evolves:
        after = next_schema(write.first.schema, records.schema, meta.config.name, write.table)
        write = replace(write, schema_after=after)
    event_time_column(meta, write.write_options, write.schema_after.columns)
    if bulk and uncounted(timeline):
        try:
            return commit_write(write, Placement(records, None, write.index))
        except EvaluatedAgainError:
            write = _seeing(write, meta.store.load())
    with claiming(write) as claim:
        for number in count(1):
            try:
                return _place_and_commit(write, records, claim)
            except TimelineBehindError:
                if number == _PLANS:
                    raise
                timeline = meta.store.load()
                refuse_changed_schema(write.first, write.first.at(timeline))
                write = _seeing(write, timeline)
    raise AssertionError("the loop ends by a return or an error")


def _seeing(write: WriteAttempt, timeline: Timeline) -> WriteAttempt:
    """Return an attempt that sees another timeline."""
    snapshot = write.first.at(timeline)
    index = shared_index(write.meta, timeline, write.options, write.index)
    return replace(write, snapshot=snapshot, history=read_history(snapshot), index=index)


def _place_and_commit(write: WriteAttempt, records: Any, claim: Claim | None) -> tuple[Instant, CommitMetadata] | None:
    """Decide where the records go, write and commit.

    Raises:
        TimelineBehindError: commits completed meanwhile that the plan had to know; nothing of the write is visible.
    """
    with planned_again(write):
        placed = write.recipe.place(write, records)
    if isinstance(placed.plan, WritePlan):
        if write.unchanged is not None:  # and again with what was written, under the lock
            scope = key_scope(placed.index, write.operation)
            write.unchanged.check(planned(placed.plan, scope, placed.reads), write.timeline)
        if not placed.plan.tasks and not placed.replaces_some:
            if placed.stands is not None:
                placed.stands.check(write.meta.store.load())
            return None
    strategy = UpdateStrategy.of(write.snapshot, key_scope(placed.index, write.operation))
    strategy.refuse(write.timeline, placed.known_groups)
    take_claim(write, placed, claim)
    return commit_write(write, placed)
