"""Indexes of a table: planned, built while writers go on (the INDEXING action), and dropped.

Source: ScheduleIndexActionExecutor, BaseHoodieWriteClient.dropIndex.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import replace

from pudi.client import CommitResult, MetaClient, TableSnapshot
from pudi.client.inflight_builds import inflight_partitions, plan_of
from pudi.commit.dead_writers import repair_dead_writes
from pudi.commit.revert_index_build import is_dead_building, revert_index_build
from pudi.config import MetadataOptions, Options, WriteOptions, check_consistent, check_writable
from pudi.errors import ConflictError, InvalidArgumentError, NotFoundError
from pudi.format import INIT_INSTANT, METADATA_DIR, Action, State, heartbeat_path
from pudi.format.metadata_partitions import FILES, companions_of
from pudi.format.plans import IndexedPartition, encode_index_plan
from pudi.indexes import registry
from pudi.indexing.index_run import IndexRun, build_in_progress, discard_index
from pudi.metadata_write.build import (
    Building,
    NoEngine,
    build_metadata,
    drop_after_interference,
    drop_partitions,
    make_empty,
    next_instant,
    reconcile_metadata,
    set_partitions,
)
from pudi.metadata_write.index_defs import IndexSpec, delete_definition, read_definitions, write_definition
from pudi.storage import delete_folder
from pudi.task import Engine
from pudi.timeline import Instant, Timeline

_log = logging.getLogger(__name__)


def create_index(meta: MetaClient, engine: Engine, spec: IndexSpec, options: Options) -> CommitResult:
    """Plan an index and build it.

    Args:
        meta: the table.
        engine: runs the jobs.
        spec: the index, as the user requests it.
        options: the options.

    Returns:
        What was written.

    Raises:
        InvalidArgumentError: the table already has the index, or can't have it; nothing was written.
        NotSupportedError: this release can't write the table, or this kind of index.
        ConflictError: another process is building it, or other writers interfered; nothing of it is left.
    """
    instant = schedule_index(meta, engine, spec, options)
    return IndexRun(meta, engine, instant, options, keeps_plan=False).run()


def schedule_index(meta: MetaClient, engine: Engine, spec: IndexSpec, options: Options) -> Instant:
    """Plan an index, for any process to build; arguments and errors as `create_index`.

    It replaces a plan for the same index that no process runs.

    Returns:
        The requested instant.
    """
    _check(meta, options)
    _with_metadata(meta, options)
    with meta.lock:
        meta.reload()
        return _plan(meta, engine, spec, options)


def _plan(meta: MetaClient, engine: Engine, spec: IndexSpec, options: Options) -> Instant:
    """Request the indexing instant with its plan, under the table's lock; see `schedule_index`."""
    root, snapshot = meta.storage.root, TableSnapshot.load(meta, options)
    if FILES not in meta.config.metadata_partitions:
        raise ConflictError("another process dropped the metadata table; retry", table=root)
    if spec.partition in meta.config.metadata_partitions:
        raise InvalidArgumentError(f"the table has the index {spec.partition} already; drop it first", table=root)
    found = registry.open_builder(Building(snapshot, engine, spec, "")).work.spec
    if (running := _discard_dead(snapshot, spec.partition)) is not None:
        raise build_in_progress(meta, running, spec.partition)
    if spec.partition in meta.config.metadata_partitions:  # the dead build had written everything
        raise InvalidArgumentError(f"the table has the index {spec.partition} already; drop it first", table=root)
    write_definition(meta, found)
    planned = IndexedPartition(spec.partition, _contiguous(snapshot.timeline))
    return meta.store.request(Action.INDEXING, encode_index_plan([planned]))


def build_index(meta: MetaClient, engine: Engine, spec: IndexSpec, options: Options) -> Collection[str]:
    """Build an index before a write or in a repair, unless the table has it or another process builds it.

    A build whose process died is discarded, or completed if it had written everything. The index of a table without
    commits is built under the table's lock and leaves no instant on the timeline.

    Args:
        meta: the table, with a metadata table.
        engine: runs the jobs.
        spec: the index.
        options: the options.

    Returns:
        The new partitions of the metadata table.

    Raises:
        InvalidArgumentError: the table can't have the index; nothing was written.
        NotSupportedError: this release can't build this kind of index.
        ConflictError: other writers interfered; nothing of the index is left.
    """
    with meta.lock:
        meta.reload()
        before = set(meta.config.metadata_partitions)
        if spec.partition in before:
            return ()
        snapshot = TableSnapshot.load(meta, options)
        if spec.partition in inflight_partitions(meta):
            if _discard_dead(snapshot, spec.partition) is not None:
                return ()
            if spec.partition in meta.config.metadata_partitions:  # the dead build had written everything
                return set(meta.config.metadata_partitions) - before
            snapshot = snapshot.refreshed()
        if not snapshot.timeline.commits:
            return _make_empty(snapshot, spec)
        instant = _plan(meta, engine, spec, options)
    IndexRun(meta, engine, instant, options, keeps_plan=False, small_here=True).run()
    return set(meta.config.metadata_partitions) - before


def _make_empty(snapshot: TableSnapshot, asked: IndexSpec) -> Collection[str]:
    """Make the index of a table without commits, under the table's lock."""
    builder = registry.open_builder(Building(snapshot, NoEngine(), asked, next_instant(snapshot)))
    meta, spec = snapshot.meta, builder.work.spec
    ready, others = meta.config.metadata_partitions, meta.config.metadata_partitions_inflight
    set_partitions(meta, ready=ready, building={*others, spec.partition})
    made = make_empty(builder)
    write_definition(meta, spec)
    set_partitions(meta, ready={*ready, *made}, building=set(others) - set(made))
    drop_after_interference(snapshot, made)
    return set(made)


def run_pending_indexes(meta: MetaClient, engine: Engine, options: Options) -> list[CommitResult]:
    """Run all plans of indexes that no process runs, oldest first, pudi's and Hudi's.

    Args:
        meta: the table.
        engine: runs the jobs.
        options: the options.

    Raises:
        NotSupportedError: this release can't write the table, or this kind of index.
        ConflictError: other writers interfered; the plan stays.
    """
    pending = meta.store.load().pending_of(Action.INDEXING)
    if not pending:
        return []
    _check(meta, options)
    _with_metadata(meta, options)
    done, queue = [], list(pending)
    while queue:
        instant = queue.pop(0)
        plan = plan_of(meta, instant)
        if not is_dead_building(meta, instant, WriteOptions.of(options)):
            _log.info("the indexing %s is being run by another process", instant.requested)
        elif len(plan) != 1:
            queue = _one_by_one(meta, instant) + queue
        elif not _is_made(meta, instant, plan[0].partition):
            done.append(IndexRun(meta, engine, instant, options).run())
    return done


def _one_by_one(meta: MetaClient, instant: Instant) -> list[Instant]:
    """Replace a plan of several indexes, as Hudi's indexer makes them, by one plan for each; no process runs them.

    Returns:
        The plans; the record index first, since others require it.
    """
    with meta.lock:
        meta.reload()
        timeline = meta.store.load()
        current = timeline.find(instant.requested, Action.INDEXING)
        if current is not None and current.state is State.INFLIGHT:
            current = revert_index_build(meta, current)
        if current is None or current.is_completed:
            return []
        plan = {each.partition: each for each in plan_of(meta, current)}
        for name in list(plan):
            for companion in companions_of(name):
                plan.pop(companion, None)
        known = set(meta.config.metadata_partitions)
        for other in timeline.pending_of(Action.INDEXING):
            if other.requested != current.requested:
                known |= {each.partition for each in plan_of(meta, other)}
        wanted = sorted((p for p in plan if p not in known), key=registry.build_order)
        plans = [meta.store.request(Action.INDEXING, encode_index_plan([plan[each]])) for each in wanted]
        meta.store.discard(current)
        return plans


def _discard(meta: MetaClient, instant: Instant, partition: str) -> None:
    """Remove an index from a plan on the timeline, under the table's lock; its other indexes stay planned."""
    if len(plan_of(meta, instant)) == 1:
        discard_index(meta, instant)
        return
    for each in _one_by_one(meta, instant):
        if plan_of(meta, each)[0].partition == partition:
            discard_index(meta, each)


def _discard_dead(snapshot: TableSnapshot, partition: str) -> Instant | None:
    """Discard builds of an index whose processes died, under the table's lock; return one that may be running."""
    options = snapshot.write_options
    for instant in _pending_of(snapshot, partition):
        if not is_dead_building(snapshot.meta, instant, options):
            return instant
        _discard(snapshot.meta, instant, partition)
    return None


def _is_made(meta: MetaClient, instant: Instant, partition: str) -> bool:
    """Return whether the table has a planned index already; if so, remove the plan from the timeline."""
    with meta.lock:
        meta.reload()
        current = meta.store.load().find(instant.requested, Action.INDEXING)
        if current is None or current.is_completed:
            return True
        made = current.state is State.REQUESTED and partition in meta.config.metadata_partitions
        if made:
            discard_index(meta, current)
        return made


def drop_index(meta: MetaClient, partition: str, options: Options) -> None:
    """Drop an index, or the files of an unfinished build; partition statistics are dropped with column statistics.

    First its name is removed from the properties, then its files, then its definition: no reader uses a half-dropped
    index.

    Args:
        meta: the table.
        partition: its partition of the metadata table.
        options: the options.

    Raises:
        InvalidArgumentError: the table has no such index, or another index needs it.
        ConflictError: another process is building it.
    """
    meta.reload()
    root = meta.storage.root
    with meta.lock:
        meta.reload()
        config, pending = meta.config, _pending_of(TableSnapshot.load(meta, options), partition)
        known = {*config.metadata_partitions, *config.metadata_partitions_inflight}
        _check_droppable(partition, known, root)
        for instant in pending:
            alive = instant.state is State.INFLIGHT and not is_dead_building(meta, instant, WriteOptions.of(options))
            if alive and _beats(meta, instant):
                raise build_in_progress(meta, instant, partition)
            _discard(meta, instant, partition)
        doomed = {partition, *companions_of(partition)}
        defined = partition in read_definitions(meta)
        left = set(config.metadata_partitions_to_rebuild) - doomed
        if not pending and partition not in {*known, *config.metadata_partitions_to_rebuild} and not defined:
            raise InvalidArgumentError(f"the table has no index {partition}", table=root)
        present = doomed & {*meta.config.metadata_partitions, *meta.config.metadata_partitions_inflight}
        if present or left != set(config.metadata_partitions_to_rebuild):
            drop_partitions(meta, present, rebuild=left)
        for each in sorted(doomed - present):  # left by a drop that died
            delete_folder(meta.storage, f"{METADATA_DIR}/{each}")
        delete_definition(meta, partition)


def _check_droppable(partition: str, known: set[str], root: str) -> None:
    if partition == FILES:
        raise InvalidArgumentError(
            f"{FILES} is the base of the metadata table: write with {MetadataOptions.enabled}=false to drop it all",
            table=root,
        )
    for kind in registry.KINDS:
        if partition in kind.type.companions:
            raise InvalidArgumentError(f"{partition} goes with {kind.name}: drop that", table=root)
        needing = sorted(name for name in known if kind.type.includes(name) and partition in kind.requires)
        if needing:
            raise InvalidArgumentError(f"the index {needing[0]} needs {partition}: drop it first", table=root)


def _beats(meta: MetaClient, instant: Instant) -> bool:
    """Return whether an index build has a heartbeat, which shows when its process dies; Hudi's builds have none."""
    try:
        meta.storage.head(heartbeat_path(instant.requested))
    except NotFoundError:
        return False
    return True


def _check(meta: MetaClient, options: Options) -> None:
    meta.reload()
    check_writable(meta.config, meta.storage.root, options)
    check_consistent(meta.config, options, meta.storage.root)


def _with_metadata(meta: MetaClient, options: Options) -> None:
    """Create the metadata table if there is none, after a rollback of dead writers."""
    reconcile_metadata(meta, options)
    snapshot = repair_dead_writes(meta, options)
    wanted = options.having({MetadataOptions.enabled.key: True})
    build_metadata(replace(snapshot, options=wanted))
    if FILES not in meta.config.metadata_partitions:
        raise ConflictError(
            "an index needs a metadata table, and none can be made below version 8 while a write is pending; retry "
            "when it's done",
            table=meta.storage.root,
        )


def _pending_of(snapshot: TableSnapshot, partition: str) -> list[Instant]:
    instants = snapshot.timeline.pending_of(Action.INDEXING)
    return [i for i in instants if partition in {each.partition for each in plan_of(snapshot.meta, i)}]


def _contiguous(timeline: Timeline) -> str:
    """Return the newest commit's requested time before any pending write (getContiguousCompletedWriteTimeline)."""
    writes = {Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT, Action.COMPACTION, Action.CLUSTERING}
    first = min((i.requested for i in timeline.pending if i.action in writes), default=None)
    done = [i.requested for i in timeline.commits if first is None or i.requested < first]
    return max(done, default=INIT_INSTANT)
