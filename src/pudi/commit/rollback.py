"""Undo a failed write: delete its files, then its instant, and record a rollback (BaseRollbackActionExecutor)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from posixpath import basename

from pudi.client.hash_rings import discard_rings
from pudi.client.lost_instants import refuse_to_undo
from pudi.client.meta_client import MetaClient
from pudi.client.snapshot import TableSnapshot
from pudi.commit.commit_hook import discard_metadata, roll_back_metadata_table
from pudi.commit.heartbeats import last_touched_ms, liveness_of
from pudi.commit.revert_build import is_dead_building, revert_index_build
from pudi.commit.rollback_plan import (
    WRITES,
    plan_of_completed,
    plan_of_pending,
    planned_files,
    target_of,
    without_hidden,
    written_since,
)
from pudi.concurrency import Liveness
from pudi.config import WriteOptions
from pudi.context import FileInfo
from pudi.errors import BlockedError, NotSupportedError, PudiError
from pudi.filegroup import Markers, unmarked_files
from pudi.format import (
    HEARTBEAT_DIR,
    HOODIE_DIR,
    Action,
    MaxBytes,
    RollbackMetadata,
    RollbackPlan,
    State,
    decode_rollback_plan,
    encode_rollback_metadata,
    encode_rollback_plan,
    heartbeat_path,
    parse_instant_file,
    plan_run_path,
)
from pudi.metadata_write.rollback import block_requests, build_rollback_metadata, roll_back_blocks
from pudi.storage import delete_for_good
from pudi.timeline import Instant, Timeline

_log = logging.getLogger(__name__)

_OTHERS = frozenset({Action.SAVEPOINT, Action.ROLLBACK, Action.RESTORE})
"""Actions that may bear the requested time of a commit, and aren't rolled back."""


def copy_instant(meta: MetaClient, requested: str) -> None:
    """Copy what the timeline has of an instant, if the options ask for it. As in Hudi, a failed copy is only logged.

    Args:
        meta: the table.
        requested: the instant's requested time.
    """
    if not meta.options[WriteOptions.keeps_rolled_back]:
        return
    folder = f"{HOODIE_DIR}/{meta.options[WriteOptions.rolled_back_folder]}"
    for info in meta.storage.list_dir(meta.store.folder)[0]:
        name = basename(info.path)
        file = parse_instant_file(name, meta.store.layout)
        if file is None or file.requested != requested or file.action in _OTHERS:
            continue
        try:
            meta.storage.put(f"{folder}/{name}", meta.storage.read(info.path, MaxBytes.INSTANT))
        except PudiError as error:
            _log.warning("table %s: %s wasn't copied before its rollback: %s", meta.storage.root, info.path, error)


_RING_CHANGES = frozenset({Action.REPLACECOMMIT, Action.CLUSTERING})
_HARMLESS = frozenset({Action.CLEAN, Action.SAVEPOINT})


def repair(meta: MetaClient, options: WriteOptions) -> Timeline:
    """Roll back pending writes of dead writers before a new write; live writers are left alone.

    Args:
        meta: the table.
        options: the failed-writes policy and the heartbeat's limits.

    Returns:
        The timeline now, after the repair.

    Raises:
        ConflictError: a pending write has no heartbeat but is too young to be considered dead.
        CorruptError: a pending write had completed: a later one builds on it, but its completed file is lost.
        NotSupportedError: a table service is pending that this release can't work around.
    """
    beats, _ = meta.storage.list_dir(HEARTBEAT_DIR)  # before the timeline, so that it has each instant
    timeline = meta.store.load()
    pending = {instant.requested for instant in timeline.pending}
    strays = [info for info in beats if _name(info) not in pending]
    if not strays and not pending:
        return timeline
    with meta.lock:
        timeline = meta.store.load()
        # A pending rollback comes first: its target may be pending too, or have left its markers alone.
        rollbacks = [each for each in timeline.pending if each.action is Action.ROLLBACK]
        for instant in rollbacks:
            _repair_one(meta, instant, options)
        timeline = meta.store.load() if rollbacks else timeline
        for info in strays:
            _sweep(meta, timeline, info, options)
        for instant in timeline.pending:
            _repair_one(meta, instant, options)
        return meta.store.load()


def refuse_pending_restore(meta: MetaClient, timeline: Timeline) -> None:
    """Refuse to work on a table with a pending restore, which may remove the commits that the work builds on.

    Raises:
        BlockedError: a restore is pending.
    """
    for each in timeline.of(Action.RESTORE, State.REQUESTED, State.INFLIGHT):
        raise BlockedError(
            "a restore is pending: complete it by Table.restore() or `pudi restore`",
            table=meta.storage.root,
            instant=each.requested,
        )


def finish_rollbacks(meta: MetaClient) -> Timeline:
    """Complete rollbacks whose processes died, under the table's lock: nothing may build on what they roll back.

    Returns:
        The timeline now.

    Raises:
        BlockedError: a restore is pending.
    """
    timeline = meta.store.load()
    refuse_pending_restore(meta, timeline)
    pending = timeline.of(Action.ROLLBACK, State.REQUESTED, State.INFLIGHT)
    for each in pending:
        resume(meta, each)
    return meta.store.load() if pending else timeline


def dead_writes(meta: MetaClient, options: WriteOptions) -> list[Instant]:
    """Return what `repair` handles: what dead writers left pending, and pending rollbacks, which it completes.

    Raises:
        ConflictError: as `repair`.
    """
    timeline = meta.store.load()
    pending = timeline.pending
    writes = [each for each in pending if each.action in WRITES and _is_dead(meta, each, options, timeline)]
    writes += [each for each in pending if _is_dead_savepoint(meta, each, options)]
    return [*(each for each in pending if each.action is Action.ROLLBACK), *writes]


def finished_writes(meta: MetaClient, options: WriteOptions) -> list[str]:
    """Return the instants of dead writers that only left a heartbeat and markers: `sweep` deletes them."""
    beats, _ = meta.storage.list_dir(HEARTBEAT_DIR)
    if not beats:
        return []
    timeline = meta.store.load()
    over = [info for info in beats if not timeline.is_pending(_name(info))]
    return [_name(info) for info in over if _is_over(meta, info, options)]


def pending_writes(meta: MetaClient, options: WriteOptions) -> list[tuple[Instant, Liveness]]:
    """Return the pending instants of the timeline, each with the liveness of its process."""
    pending = meta.store.load().pending
    return [(each, liveness_of(meta, each.requested, options, last_touched_ms(meta, each))) for each in pending]


def sweep(meta: MetaClient, options: WriteOptions) -> None:
    """Delete markers and heartbeats of writers that died right after their commit; see `repair`."""
    beats, _ = meta.storage.list_dir(HEARTBEAT_DIR)
    if not beats:
        return
    with meta.lock:
        timeline = meta.store.load()
        if timeline.of(Action.ROLLBACK, State.REQUESTED, State.INFLIGHT):  # it deletes what its target left
            return
        for info in beats:
            _sweep(meta, timeline, info, options)


def roll_back(meta: MetaClient, target: Instant, *, restores: bool = False) -> tuple[Instant, RollbackMetadata]:
    """Roll back a write: delete its files, write rollback blocks, and remove it from the timeline.

    A completed write is hidden from readers first. Nothing may have been built on it: see `restore`.

    Args:
        meta: the table.
        target: the write.
        restores: whether it's part of a restore, which takes the rollback off the timeline. The metadata table then has
            none of its own.

    Returns:
        The rollback, and what it did.

    Raises:
        CorruptError: its markers, or what it wrote, can't be read; nothing was deleted.
    """
    with meta.lock:
        plan = plan_of_completed(meta, target) if target.is_completed else plan_of_pending(meta, target)
        rollback = meta.store.request(Action.ROLLBACK, encode_rollback_plan(plan))
        return _execute(meta, meta.store.start(rollback, shared=True), plan, restores)


def resume(meta: MetaClient, rollback: Instant, *, restores: bool = False) -> tuple[Instant, RollbackMetadata]:
    """Complete a rollback whose process died, by the plan in its requested file.

    Args:
        meta: the table.
        rollback: the rollback.
        restores: see `roll_back`.

    Returns:
        The rollback, and what it did.

    Raises:
        CorruptError: the plan can't be read, or names something else than files of its target.
    """
    path = meta.store.path(rollback, State.REQUESTED)
    plan = decode_rollback_plan(meta.store.read(rollback, State.REQUESTED), path=path)
    if rollback.state is State.REQUESTED:
        rollback = meta.store.start(rollback, shared=True)
    return _execute(meta, rollback, plan, restores)


def abort(meta: MetaClient, target: Instant, *, dead: bool = False, written: Sequence[str] = ()) -> None:
    """Discard a write of this process as if it had never begun: no rollback instant mentions it.

    Below version 8 its log files stay, and a rollback records them in the metadata table.

    Args:
        meta: the table.
        target: the write, pending.
        dead: whether it belongs to another process, which died.
        written: files that it wrote, relative to the root. A process that rolled it back may have deleted the markers
            of files that came after.

    Raises:
        CorruptError: its markers can't be read; nothing was deleted.
    """
    with meta.lock:
        markers = Markers(meta.storage, target.requested)
        if written:
            markers.create_missing(written)
        appended = without_hidden(meta, target.requested, markers.appended())
        files, blocks = markers.files(), block_requests(meta.storage, appended)
        if blocks and meta.config.metadata_partitions:  # log files stay: the metadata table must list them
            roll_back(meta, target)
            return
        if dead:  # if it lives after all, it can't complete without this file, and those that it wrote go now
            meta.delete_locked([meta.store.path(target, State.INFLIGHT)])
        if target.action in _RING_CHANGES:
            discard_rings(meta, target.requested)
        meta.delete_locked(files)
        if dead:
            meta.delete_locked(unmarked_files(meta.storage, target.requested, meta.store.layout))
        roll_back_blocks(meta.storage, target.requested, target.requested, blocks, meta.lock.verify)
        discard_metadata(meta, target.requested)
        meta.store.discard(target)
        markers.delete()
        meta.storage.delete([heartbeat_path(target.requested), plan_run_path(target.requested)])


def _name(info: FileInfo) -> str:
    return basename(info.path)


def _is_over(meta: MetaClient, beat: FileInfo, options: WriteOptions) -> bool:
    return liveness_of(meta, _name(beat), options, beat.modified_ms) is Liveness.DEAD


def _sweep(meta: MetaClient, timeline: Timeline, beat: FileInfo, options: WriteOptions) -> None:
    """Delete what a writer left that died before its instant was requested, or after it completed or was removed."""
    instant = _name(beat)
    if timeline.is_pending(instant) or not _is_over(meta, beat, options):
        return
    markers = Markers(meta.storage, instant)
    known = _has_completed(meta, timeline, instant) if markers.infos() else True
    delete_for_good(meta.storage, [] if known else markers.files())
    appended = [] if known else without_hidden(meta, instant, markers.appended())
    blocks = block_requests(meta.storage, appended)
    if blocks and meta.config.metadata_partitions:  # log files stay: the metadata table must list them
        roll_back(meta, Instant(instant, Action.DELTACOMMIT, State.INFLIGHT, layout=meta.store.layout))
        return
    roll_back_blocks(meta.storage, instant, instant, blocks, meta.lock.verify)
    markers.delete()
    meta.storage.delete([beat.path, plan_run_path(instant)])


def _has_completed(meta: MetaClient, timeline: Timeline, instant: str) -> bool:
    """Return whether an instant that isn't pending completed, though it may be archived since."""
    if timeline.commit(instant) is not None:
        return True
    if timeline.start is None or instant >= timeline.start:
        return False
    archived = meta.store.archived()  # its oldest ones may have been dropped
    oldest = next((each.requested for each in archived), "9")
    return instant < oldest or any(each.requested == instant for each in archived)


def _repair_one(meta: MetaClient, instant: Instant, options: WriteOptions) -> None:
    if instant.action is Action.ROLLBACK:
        resume(meta, instant)
    elif instant.action in WRITES:
        timeline = meta.store.load()
        if timeline.find(instant.requested, instant.action) is not None and _is_dead(meta, instant, options, timeline):
            roll_back(meta, instant)
    elif instant.action is Action.INDEXING:
        current = meta.store.load().find(instant.requested, instant.action)
        if current is not None and current.state is State.INFLIGHT and is_dead_building(meta, current, options):
            revert_index_build(meta, current)
    elif instant.action is Action.SAVEPOINT:
        if _is_dead_savepoint(meta, instant, options):
            delete_for_good(meta.storage, [meta.store.path(instant)])
    elif instant.action is Action.RESTORE:
        refuse_pending_restore(meta, meta.store.load())
    elif not (instant.action.is_planned or instant.action in _HARMLESS):
        raise NotSupportedError(
            f"a {instant.action.value} is pending on this table, and pudi can't write beside one yet; "
            "let Hudi complete it or roll it back",
            table=meta.storage.root,
            instant=instant.requested,
        )


def _is_dead_savepoint(meta: MetaClient, instant: Instant, options: WriteOptions) -> bool:
    """Return whether a pending savepoint is one whose maker died: it has no heartbeat, and takes a moment."""
    if instant.action is not Action.SAVEPOINT or options.failed_writes_policy == "NEVER":
        return False
    if options.failed_writes_policy == "EAGER":
        return True
    return liveness_of(meta, instant.requested, options, last_touched_ms(meta, instant)) is Liveness.DEAD


def _is_dead(meta: MetaClient, instant: Instant, options: WriteOptions, timeline: Timeline) -> bool:
    if options.failed_writes_policy == "NEVER":
        return False
    eager = options.failed_writes_policy == "EAGER"
    found = Liveness.DEAD if eager else liveness_of(meta, instant.requested, options, last_touched_ms(meta, instant))
    if found is not Liveness.ALIVE:
        refuse_to_undo(TableSnapshot(meta, timeline), instant)
    if found is Liveness.UNKNOWN:
        raise BlockedError(
            "a write is pending that gives no heartbeat, as Hudi's single writers do, and it was touched lately: it "
            "may be alive. Wait for it, or, if you know it's dead, write with "
            f"{WriteOptions.failed_writes_policy}=EAGER",
            table=meta.storage.root,
            instant=instant.requested,
        )
    return found is Liveness.DEAD


def _execute(
    meta: MetaClient, rollback: Instant, plan: RollbackPlan, restores: bool
) -> tuple[Instant, RollbackMetadata]:
    began_ms = meta.context.clock.now_ms()
    target = target_of(meta, rollback, plan)
    keeps_plan = Action(target.action) is Action.COMPACTION
    copy_instant(meta, target.commit_time)
    completed = meta.store.load().commit(target.commit_time)
    if Action(target.action) in _RING_CHANGES:
        discard_rings(meta, target.commit_time)
    if completed is not None:  # readers go back to the state before it
        meta.delete_locked([meta.store.path(completed)])
    requests = [*plan.rollback_requests, *(written_since(meta, target, plan) if completed is None else ())]
    doomed = [path for request in requests for path in planned_files(meta, target, request)]
    meta.delete_locked(doomed)
    blocks = [request for request in requests if request.log_blocks_to_be_deleted]
    commands = roll_back_blocks(meta.storage, target.commit_time, rollback.requested, blocks, meta.lock.verify)
    took_ms = meta.context.clock.now_ms() - began_ms
    metadata = build_rollback_metadata(meta.storage, rollback.requested, target, requests, commands, took_ms)
    if restores:
        discard_metadata(meta, target.commit_time)
    else:
        roll_back_metadata_table(meta, target.commit_time, rollback.requested, metadata.partition_metadata)
    found = next((i for i in meta.store.load().pending if i.requested == target.commit_time), None)
    if found is not None and keeps_plan:
        meta.delete_locked([meta.store.path(found, State.INFLIGHT)])
    elif found is not None:
        meta.store.discard(found)
    done = meta.store.complete(rollback, encode_rollback_metadata(metadata))
    # What a writer that came back marked since stays marked: whoever finds its heartbeat sweeps that.
    if completed is not None or not written_since(meta, target, replace(plan, rollback_requests=tuple(requests))):
        Markers(meta.storage, target.commit_time).delete()
        meta.storage.delete([heartbeat_path(target.commit_time)])
    return done, metadata
