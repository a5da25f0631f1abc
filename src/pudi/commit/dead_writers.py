"""Repair what dead writers left, before a write: roll back their writes, complete their rollbacks, sweep their markers.

A writer is dead if its heartbeat has expired; those that live are left alone.

Source: CleanerUtils.rollbackFailedWrites, BaseHoodieTableServiceClient.rollbackFailedWrites.
"""

from __future__ import annotations

from posixpath import basename

from pudi.client.lost_instants import refuse_to_undo
from pudi.client.meta_client import MetaClient
from pudi.client.snapshot import TableSnapshot
from pudi.commit.liveness import last_touched_ms, liveness_of
from pudi.commit.revert_index_build import is_dead_building, revert_index_build
from pudi.commit.rollback import resume, roll_back
from pudi.commit.rollback_plan import WRITES, without_hidden
from pudi.concurrency import Liveness
from pudi.config import WriteOptions
from pudi.context import FileInfo
from pudi.errors import BlockedError, NotSupportedError
from pudi.filegroup import Markers
from pudi.format import HEARTBEAT_DIR, Action, State, plan_run_path
from pudi.metadata_write.rollback import block_requests, roll_back_blocks
from pudi.storage import delete_for_good
from pudi.timeline import Instant, Timeline

_HARMLESS = frozenset({Action.CLEAN, Action.SAVEPOINT})
"""Pending actions beside which others write."""


def repair_dead_writes(meta: MetaClient, options: WriteOptions) -> Timeline:
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
    """Return what `repair_dead_writes` undoes of dead writers, and the pending rollbacks, which it completes.

    Raises:
        ConflictError: as `repair_dead_writes`.
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
    """Delete markers and heartbeats of writers that died right after their commit; see `repair_dead_writes`."""
    beats, _ = meta.storage.list_dir(HEARTBEAT_DIR)
    if not beats:
        return
    with meta.lock:
        timeline = meta.store.load()
        if timeline.of(Action.ROLLBACK, State.REQUESTED, State.INFLIGHT):  # it deletes what its target left
            return
        for info in beats:
            _sweep(meta, timeline, info, options)


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
