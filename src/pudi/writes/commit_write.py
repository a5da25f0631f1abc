"""Write the files of one attempt at a write, and complete its instant, or leave nothing of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from pudi.client.find_index import key_scope
from pudi.client.hash_rings import reconcile_hash_rings, replaced_partitions, write_rings
from pudi.client.result import CLEAN_UP
from pudi.client.schema_commit import build_commit_metadata
from pudi.commit.conditions import CommitCondition, ProgressIsSole, SchemaUnchanged
from pudi.commit.transaction import Work, WriteTransaction
from pudi.concurrency import ConflictCheck
from pudi.format import Action, CommitMetadata
from pudi.indexes.indexed_commit import IndexStaging, WrittenEntries
from pudi.plan import WritePlan, WriteSpec
from pudi.services.runner import run_on_metadata_table
from pudi.task import FileResult
from pudi.timeline import Instant
from pudi.writes.concurrency_modes import nonblocking_of, read_marks
from pudi.writes.pending_clusterings import UpdateStrategy
from pudi.writes.place_records import planned_again
from pudi.writes.write_recipe import Placement, WriteAttempt
from pudi.writes.write_spec import write_spec


def commit_write(write: WriteAttempt, placed: Placement) -> tuple[Instant, CommitMetadata] | None:
    """Write the files of an attempt and complete its instant; on any failure nothing of it stays.

    Args:
        write: the attempt.
        placed: the places of its records.

    Returns:
        The completed instant and its commit metadata; None if there was nothing to write.

    Raises:
        ConflictError: another writer won; nothing of this write is visible.
    """
    meta, report = write.meta, write.report
    action = Action.REPLACECOMMIT if write.operation.replaces else meta.commit_action
    transaction = WriteTransaction(write.snapshot, action, report, placed.requested, placed.inflight)
    transaction.stands = placed.stands
    with transaction:
        spec = write_spec(write, placed, transaction.instant.requested)
        with report.phase("write"):
            results = _write_files(write, placed, spec)
        stats = [stat for result in results for stat in result.stats]
        transaction.files += [path for stat in stats for path in stat.paths]
        if not stats and not placed.replaces_some:  # no records, or deletes of what isn't there
            return None
        with report.phase("commit"):
            transaction.reconcile_markers(stats)
            extra = {**write.request.extra_metadata, **read_marks(write, placed)}
            metadata = build_commit_metadata(write.operation, stats, write.schema_after, spec.history, placed.replaced)
            metadata = replace(metadata, extra_metadata={**extra, **metadata.extra_metadata})
            strategy = UpdateStrategy.of(write.snapshot, key_scope(placed.index, write.operation))
            conflicts = _conflicts(write, placed, strategy, transaction.instant, metadata)
            strategy.roll_back(conflicts)
            transaction.conditions += _conditions(write, conflicts)
            entries = WrittenEntries(spec.staging, results)
            work = Work(
                metadata,
                spec.history,
                IndexStaging(write.engine, write.snapshot, placed.index, entries),
                passed=partial(strategy.under_lock, conflicts),
                before=partial(run_on_metadata_table, meta, write.engine, write.options, report),
            )
            done = transaction.commit(work)
    if placed.replaced:
        with report.after_commit(CLEAN_UP):
            reconcile_hash_rings(meta, done.requested, placed.index.buckets, replaced_partitions(placed.replaced))
    return done, metadata


def _conflicts(
    write: WriteAttempt, placed: Placement, strategy: UpdateStrategy, instant: Instant, metadata: CommitMetadata
) -> ConflictCheck:
    """Return the check of a write against what other writers did since its timeline was loaded."""
    return ConflictCheck(
        write.meta.store,
        instant,
        metadata,
        write.timeline,
        strategy.scope,
        write.unchanged,
        placed.reads,
        strategy.yields,
        nonblocking_of(write, placed, metadata),
    )


def _conditions(write: WriteAttempt, conflicts: ConflictCheck) -> list[CommitCondition]:
    """Return what must hold when a write completes."""
    progress = write.request.progress
    conditions: list[CommitCondition] = [] if progress is None else [ProgressIsSole(write.meta, progress)]
    return [*conditions, conflicts, SchemaUnchanged(write.first, conflicts)]


def _write_files(write: WriteAttempt, placed: Placement, spec: WriteSpec) -> Sequence[FileResult]:
    """Write the files, unless another writer works on one of their file groups."""
    if spec.early is not None:
        for group in sorted(placed.known_groups):
            spec.early.check(write.meta.storage, group)
    with planned_again(write):
        return _run_tasks(write, placed, spec)


def _run_tasks(write: WriteAttempt, placed: Placement, spec: WriteSpec) -> Sequence[FileResult]:
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
