"""One attempt at a write: its recipe's records and placement, the files, and the instant that makes them visible.

`pudi.commit.retry` says how often a verb attempts it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from pudi.catalogs.sync_result import SyncResult
from pudi.client.find_index import check_resolution, find_index, key_scope
from pudi.client.hash_rings import reconcile_hash_rings, replaced_partitions, write_rings
from pudi.client.inflight_builds import maintained_partitions
from pudi.client.log_merging import merging_of_deletes
from pudi.client.result import CLEAN_UP, CommitResult, after_commit
from pudi.client.schema_history import read_history
from pudi.client.single_key import names_single_key
from pudi.client.snapshot import TableSnapshot
from pudi.client.table_keys import check_generated, key_generator
from pudi.client.write_settings import (
    change_logging,
    combines,
    event_time_column,
    file_options,
    next_schema,
    writable_schema,
)
from pudi.commit.conditions import (
    CommitCondition,
    NoConflict,
    ProgressIsSole,
    SchemaSeen,
    SchemaUnchanged,
    planned,
    unchanged_since,
)
from pudi.commit.heartbeats import early_detection
from pudi.commit.rollback import abort, repair
from pudi.commit.transaction import (
    Completion,
    Phases,
    build_commit_metadata,
    complete_action,
    pending,
    reconcile_markers,
)
from pudi.concurrency import Claim, ConflictCheck, TimelineBehindError
from pudi.config import (
    ArchiveOptions,
    CleanOptions,
    CompactionOptions,
    SyncOptions,
    check_consistent,
    check_services,
    check_writable,
)
from pudi.context.lazy import lazy_module
from pudi.filegroup import compacting_since
from pudi.format import Action, CommitMetadata
from pudi.indexes.column_stats.statistics import indexed_columns
from pudi.indexes.kind import IndexStaging, PlannedWrite
from pudi.indexes.registry import by_kind
from pudi.indexing.build_by_options import build_wanted
from pudi.indexing.rebuild import reinitialize_partitions
from pudi.metadata_write.build import reconcile_metadata
from pudi.metadata_write.written_entries import WrittenEntries
from pudi.plan import WritePlan, WriteSpec
from pudi.plan.write import SortMode
from pudi.record import check_folder_names, check_key_types
from pudi.schema import TableSchema, avro_to_arrow, with_meta_fields, without_meta_fields
from pudi.schema.changes import reconciled
from pudi.schema.internal import SchemaHistory
from pudi.services.runner import run_after_commit, run_before_write, run_on_metadata_table
from pudi.task import FileResult
from pudi.task.engine import EvaluatedAgainError
from pudi.timeline import Instant, Timeline
from pudi.writes.concurrency_modes import (
    check_nonblocking,
    claiming,
    nonblocking_of,
    read_marks,
    shared_index,
    take_claim,
)
from pudi.writes.pending_clusterings import UpdateStrategy, roll_back_expired
from pudi.writes.place_records import is_uncounted, planned_again, rule_of
from pudi.writes.prerequisites import check_prerequisites, state_older_names
from pudi.writes.write_recipe import (
    Placement,
    WriteRecipe,
    WriteRequest,
    WriteSnapshot,
    looks_up_globally,
    take_nothing,
)

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
    failed: dict[str, str] = {}
    write = _open(request, recipe)
    with write.phases.phase("prepare"):
        records = recipe.take(write, data)
    try:
        done = _attempt(write, records, failed)
    finally:
        records.release()
    if done is None:
        return None
    result = write.phases.result(*done)
    run_after_commit(write.meta, write.engine, request.resolved, failed, write.timeline.with_instant(done[0]))
    syncs: tuple[SyncResult, ...] = ()
    if SyncOptions(request.resolved.given).is_on:
        syncs = after_write.sync_after_write(write.meta, request.resolved, failed, write.engine.spark_version)
    return replace(result, failed_services=failed, syncs=syncs)


def _open(request: WriteRequest, recipe: WriteRecipe) -> WriteSnapshot:
    """Look at the table, and refuse what this release can't write."""
    meta, resolved, options, operation = request.meta, request.resolved, request.options, recipe.operation
    phases, root = Phases.of(meta, operation.value.lower()), meta.storage.root
    meta.reload()
    check_writable(meta.config, root, resolved)
    check_consistent(meta.config, resolved, root)
    check_services(meta.config, resolved, root)
    for view in (CompactionOptions, CleanOptions, ArchiveOptions):
        view.of(resolved)  # a wrong one is refused before anything is written
    check_prerequisites(meta, request.engine, resolved)
    timeline = meta.store.load()
    unchanged = None if request.since is None else unchanged_since(meta, timeline, request.since)
    seen = SchemaSeen.of(meta, timeline)
    schema = writable_schema(seen.text, root)
    index = find_index(TableSnapshot(meta, timeline, resolved))
    check_resolution(index, resolved, root)
    check_nonblocking(meta, resolved, index, operation)
    is_global = looks_up_globally(operation, index)
    rule = rule_of(meta, operation, options, resolved, is_global=is_global, schema=seen.text)
    keys = key_generator(meta.config, resolved, names_single=names_single_key(TableSnapshot(meta, timeline, resolved)))
    if recipe.take is not take_nothing:  # records that are changed where they are keep their keys
        check_generated(keys, operation, options, root)
    check_key_types(keys, schema, table=root)
    if recipe.take is not take_nothing:
        check_folder_names(lambda: meta.listing(timeline).partitions(), keys, schema, table=root)
    return WriteSnapshot(request, recipe, phases, timeline, seen, seen.text, None, index, rule, keys, unchanged)


def _attempt(write: WriteSnapshot, records: Any, failed: dict[str, str]) -> tuple[Instant, CommitMetadata] | None:
    """Repair what dead writers left, then write and commit; None where there's nothing to do."""
    meta, resolved = write.meta, write.request.resolved
    uncounted = partial(is_uncounted, write.operation, write.index, write.engine)
    bulk = not write.recipe.is_planned and uncounted(write.timeline)
    if not bulk:
        with write.phases.phase("count"):
            if write.recipe.is_noop(write, records):
                return None
    with write.phases.phase("repair"):
        reconcile_metadata(meta, resolved)
        run_before_write(meta, write.engine, resolved, failed)
        timeline = roll_back_expired(meta, resolved, repair(meta, write.options))
        state_older_names(meta)
        build_wanted(meta, write.engine, resolved, timeline)
        reinitialize_partitions(meta, write.engine, resolved)
    write.schema_seen.check(meta, timeline)
    if meta.merges_on_read and timeline.rules.logs_name_their_slice:
        compacting_since(meta.store, timeline)  # log files get their names by these plans: all must be readable
    write = _seeing(write, timeline)
    if write.recipe.evolves:
        after = next_schema(write.schema_seen.text, records.schema, meta.config.name, write.table)
        write = replace(write, schema_after=after)
    event_time_column(meta, write.options, without_meta_fields(avro_to_arrow(write.schema_after)))
    if bulk and uncounted(timeline):
        try:
            return _commit(write, Placement(records, None, write.index), failed)
        except EvaluatedAgainError:
            write = _seeing(write, meta.store.load())
    with claiming(write) as claim:
        for number in count(1):
            try:
                return _place_and_commit(write, records, failed, claim)
            except TimelineBehindError:
                if number == _PLANS:
                    raise
                timeline = meta.store.load()
                write.schema_seen.check(meta, timeline)
                write = _seeing(write, timeline)
    raise AssertionError("the loop ends by a return or an error")


def _seeing(write: WriteSnapshot, timeline: Timeline) -> WriteSnapshot:
    """Return an attempt that sees another timeline."""
    meta, index = write.meta, shared_index(write.meta, timeline, write.request.resolved, write.index)
    return replace(write, timeline=timeline, history=read_history(TableSnapshot(meta, timeline)), index=index)


def _place_and_commit(
    write: WriteSnapshot, records: Any, failed: dict[str, str], claim: Claim | None
) -> tuple[Instant, CommitMetadata] | None:
    """Decide where the records go, write and commit.

    Raises:
        TimelineBehindError: commits completed meanwhile that the plan had to know; nothing of the write is visible.
    """
    meta, resolved = write.meta, write.request.resolved
    with planned_again(write):
        placed = write.recipe.place(write, records)
    if isinstance(placed.plan, WritePlan):
        if write.unchanged is not None:  # and again with what was written, under the lock
            scope = key_scope(placed.index, write.operation)
            write.unchanged.check(planned(placed.plan, scope, placed.reads), write.timeline)
        if not placed.plan.tasks and not placed.replaces_some:
            return None
    strategy = UpdateStrategy.of(meta, resolved, key_scope(placed.index, write.operation))
    strategy.refuse(write.timeline, placed.known_groups)
    take_claim(write, placed, claim)
    return _commit(write, placed, failed)


def _commit(write: WriteSnapshot, placed: Placement, failed: dict[str, str]) -> tuple[Instant, CommitMetadata] | None:
    """Write the files and complete the instant; on any failure nothing of it stays."""
    meta, resolved, operation = write.meta, write.request.resolved, write.operation
    action = Action.REPLACECOMMIT if operation.replaces else meta.commit_action
    written: list[str] = []
    with pending(meta, action, write.options, placed.requested, placed.inflight, failed, written) as instant:
        spec = _spec(write, placed, instant.requested)
        with write.phases.phase("write"):
            if spec.early is not None:
                for partition, file_id in sorted(placed.known_groups):
                    spec.early.check(meta.storage, partition, file_id)
            with planned_again(write):
                results = _write_files(write, placed, spec)
        stats = [stat for result in results for stat in result.stats]
        written += [path for stat in stats for path in stat.paths]
        if not stats and not placed.replaces_some:  # no records, or deletes of what isn't there
            abort(meta, instant)
            return None
        with write.phases.phase("commit"):
            reconcile_markers(meta, instant, stats)
            extra = {**write.request.extra_metadata, **read_marks(write, placed)}
            metadata = build_commit_metadata(operation, stats, write.schema_after, spec.history, placed.replaced, extra)
            scope = key_scope(placed.index, operation)
            strategy = UpdateStrategy.of(meta, resolved, scope)
            conflicts = ConflictCheck(
                meta.store,
                instant,
                metadata,
                write.timeline,
                scope,
                write.unchanged,
                placed.reads,
                strategy.yields,
                nonblocking_of(write, placed, metadata),
            )
            strategy.roll_back(conflicts)
            entries = WrittenEntries(spec.staging, results)
            staging = IndexStaging(write.engine, write.timeline, resolved, placed.index, entries)
            conditions = _conditions(write, conflicts)
            services = partial(run_on_metadata_table, meta, write.engine, resolved, failed)
            completion = Completion(
                metadata,
                conditions,
                write.timeline,
                spec.history,
                staging,
                passed=partial(strategy.under_lock, conflicts),
                before=services,
            )
            done = complete_action(meta, instant, completion, failed)
    if placed.replaced:
        with after_commit(CLEAN_UP, write.table, failed):
            reconcile_hash_rings(meta, done.requested, placed.index.buckets, replaced_partitions(placed.replaced))
    return done, metadata


def _conditions(write: WriteSnapshot, conflicts: ConflictCheck) -> list[CommitCondition]:
    """Return what must hold when a write completes."""
    meta, request = write.meta, write.request
    conditions: list[CommitCondition] = [] if request.progress is None else [ProgressIsSole(meta, request.progress)]
    return [
        *conditions,
        NoConflict(conflicts),
        SchemaUnchanged(meta, request.resolved, write.schema_seen, conflicts),
    ]


def _write_files(write: WriteSnapshot, placed: Placement, spec: WriteSpec) -> Sequence[FileResult]:
    meta, engine, plan = write.meta, write.engine, placed.plan
    if placed.replaced:
        write_rings(meta, spec.instant, placed.index.buckets, replaced_partitions(placed.replaced))
    if placed.by_jobs is not None:
        return placed.by_jobs(spec)
    if plan is None:
        return engine.bulk_write(placed.records, meta.storage, spec, meta.context)
    if not isinstance(plan, WritePlan):
        return engine.write_partitions(placed.records, meta.storage, spec, plan, meta.context)
    if placed.change is not None:
        return engine.change(meta.storage, spec, plan.tasks, placed.change)
    return engine.write(placed.records, meta.storage, spec, plan) if plan.tasks else ()


def _next_history(write: WriteSnapshot, requested: str) -> SchemaHistory | None:
    """The schemas by id as this commit leaves them, in a table that has such (saveInternalSchema)."""
    if write.history is None:
        return None
    current = write.history.current
    after = reconciled(current, with_meta_fields(avro_to_arrow(write.schema_after)))
    return write.history if after == current else write.history.with_version(replace(after, version=int(requested)))


def _spec(write: WriteSnapshot, placed: Placement, requested: str) -> WriteSpec:
    meta, options, schema = write.meta, write.options, TableSchema(write.schema_after)
    columns, history = schema.columns, _next_history(write, requested)
    planned = PlannedWrite(meta, write.timeline, requested, write.request.resolved, columns, placed.index, history)
    staging = (each for kind, names in by_kind(maintained_partitions(meta)) for each in kind.staging(planned, names))
    return WriteSpec(
        instant=requested,
        operation=write.operation,
        schema=schema,
        rule=write.rule,
        index=placed.index,
        generated_keys=write.keys.generates,
        deduplicate=combines(write.operation, options),
        max_file_bytes=options.max_file_size,
        history=history,
        merges_inserts=not options.allow_duplicates,
        sort=SortMode(options.sort_mode),
        bulk_tasks=options.bulk_tasks,
        flagged=write.recipe.flagged,
        files=file_options(meta, options, columns.names),
        logs=write.logs,
        stats=indexed_columns(meta, avro_to_arrow(schema.avro)),
        deleted=merging_of_deletes(TableSnapshot(meta, write.timeline), write.operation),
        staging=tuple(staging),
        changes=change_logging(meta, options, write.schema_after),
        event_time=event_time_column(meta, options, columns),
        early=early_detection(meta, write.request.resolved, write.timeline, requested),
    )
