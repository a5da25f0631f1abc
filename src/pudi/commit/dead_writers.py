"""Repair what dead writers left, before a write: roll back their writes, complete their rollbacks, sweep their markers.

A writer is dead if its heartbeat has expired; those that live are left alone.

Source: CleanerUtils.rollbackFailedWrites, BaseHoodieTableServiceClient.rollbackFailedWrites.
"""

from __future__ import annotations

from posixpath import basename

from pudi.client import MetaClient, TableSnapshot
from pudi.client.lost_instants import refuse_to_undo
from pudi.commit.liveness import last_touched_ms, liveness_of
from pudi.commit.revert_index_build import is_dead_building, revert_index_build
from pudi.commit.rollback import resume, roll_back, without_hidden
from pudi.concurrency import Liveness
from pudi.config import Options, WriteOptions
from pudi.context import FileInfo
from pudi.errors import BlockedError, NotSupportedError
from pudi.filegroup import Markers
from pudi.format import HEARTBEAT_DIR, WRITE_ACTIONS, Action, State, plan_run_path
from pudi.metadata_write.rollback import block_requests, roll_back_blocks
from pudi.storage import delete_for_good
from pudi.timeline import Instant

_HARMLESS = frozenset({Action.CLEAN, Action.SAVEPOINT})
"""Pending actions beside which others write."""


def repair_dead_writes(meta: MetaClient, options: Options, seen: TableSnapshot | None = None) -> TableSnapshot:
    """Roll back pending writes of dead writers before a new write; live writers are left alone.

    Args:
        meta: the table.
        options: the failed-writes policy and the heartbeat's limits.
        seen: the table as it was a moment ago. Its timeline isn't loaded again if neither it nor a heartbeat shows a
            writer. None loads it.

    Returns:
        The table now, after the repair.

    Raises:
        ConflictError: a pending write has no heartbeat but is too young to be considered dead.
        CorruptError: a pending write had completed: a later one builds on it, but its completed file is lost.
        NotSupportedError: a table service is pending that this release can't work around.
    """
    beats, _ = meta.storage.list_dir(HEARTBEAT_DIR)  # before the timeline, so that it has each instant
    if seen is not None and not beats and not seen.timeline.pending:
        return seen
    snapshot = TableSnapshot.load(meta, options)
    pending = {instant.requested for instant in snapshot.timeline.pending}
    strays = [info for info in beats if _name(info) not in pending]
    if not strays and not pending:
        return snapshot
    with meta.lock:
        snapshot = snapshot.refreshed()
        # A pending rollback comes first: its target may be pending too, or have left its markers alone.
        rollbacks = [each for each in snapshot.timeline.pending if each.action is Action.ROLLBACK]
        for instant in rollbacks:
            _repair(snapshot, instant)
        snapshot = snapshot.refreshed() if rollbacks else snapshot
        for info in strays:
            _sweep(snapshot, info)
        repaired = [instant for instant in snapshot.timeline.pending if _repair(snapshot, instant)]
        return snapshot.refreshed() if strays or repaired else snapshot


def refuse_pending_restore(snapshot: TableSnapshot) -> None:
    """Refuse to work on a table with a pending restore, which may remove the commits that the work builds on.

    Raises:
        BlockedError: a restore is pending.
    """
    for each in snapshot.timeline.pending_of(Action.RESTORE):
        raise BlockedError(
            "a restore is pending: complete it by Table.restore() or `pudi restore`",
            table=snapshot.table,
            instant=each.requested,
        )


def finish_rollbacks(snapshot: TableSnapshot) -> TableSnapshot:
    """Complete rollbacks whose processes died, under the table's lock: nothing may build on what they roll back.

    Args:
        snapshot: the table, loaded under the lock.

    Returns:
        The table now.

    Raises:
        BlockedError: a restore is pending.
    """
    refuse_pending_restore(snapshot)
    pending = snapshot.timeline.pending_of(Action.ROLLBACK)
    for each in pending:
        resume(snapshot.meta, each)
    return snapshot.refreshed() if pending else snapshot


def dead_writes(snapshot: TableSnapshot) -> list[Instant]:
    """Return what `repair_dead_writes` undoes of dead writers, and the pending rollbacks, which it completes.

    Raises:
        ConflictError: as `repair_dead_writes`.
    """
    pending = snapshot.timeline.pending
    writes = [each for each in pending if each.action in WRITE_ACTIONS and _is_dead(snapshot, each)]
    writes += [each for each in pending if _is_dead_savepoint(snapshot, each)]
    return [*(each for each in pending if each.action is Action.ROLLBACK), *writes]


def finished_writes(snapshot: TableSnapshot) -> list[str]:
    """Return the instants of dead writers that only left a heartbeat and markers: `sweep` deletes them."""
    beats, _ = snapshot.meta.storage.list_dir(HEARTBEAT_DIR)
    over = [info for info in beats if not snapshot.timeline.is_pending(_name(info))]
    return [_name(info) for info in over if _is_over(snapshot, info)]


def pending_writes(snapshot: TableSnapshot) -> list[tuple[Instant, Liveness]]:
    """Return the pending instants of the timeline, each with the liveness of its process."""
    return [(each, _liveness_of(snapshot, each)) for each in snapshot.timeline.pending]


def sweep(meta: MetaClient, options: Options) -> None:
    """Delete markers and heartbeats of writers that died right after their commit; see `repair_dead_writes`."""
    beats, _ = meta.storage.list_dir(HEARTBEAT_DIR)
    if not beats:
        return
    with meta.lock:
        snapshot = TableSnapshot.load(meta, options)
        if snapshot.timeline.pending_of(Action.ROLLBACK):  # it deletes what its target left
            return
        for info in beats:
            _sweep(snapshot, info)


def _name(info: FileInfo) -> str:
    return basename(info.path)


def _is_over(snapshot: TableSnapshot, beat: FileInfo) -> bool:
    options = snapshot.write_options
    return liveness_of(snapshot.meta, _name(beat), options, beat.modified_ms) is Liveness.DEAD


def _liveness_of(snapshot: TableSnapshot, instant: Instant) -> Liveness:
    meta, options = snapshot.meta, snapshot.write_options
    return liveness_of(meta, instant.requested, options, last_touched_ms(meta, instant))


def _sweep(snapshot: TableSnapshot, beat: FileInfo) -> None:
    """Delete what a writer left that died before its instant was requested, or after it completed or was removed."""
    meta, instant = snapshot.meta, _name(beat)
    if snapshot.timeline.is_pending(instant) or not _is_over(snapshot, beat):
        return
    markers = Markers(meta.storage, instant)
    known = _has_completed(snapshot, instant) if markers.infos() else True
    delete_for_good(meta.storage, [] if known else markers.files())
    appended = [] if known else without_hidden(meta, instant, markers.appended())
    blocks = block_requests(meta.storage, appended)
    if blocks and meta.config.metadata_partitions:  # log files stay: the metadata table must list them
        roll_back(meta, Instant(instant, Action.DELTACOMMIT, State.INFLIGHT, layout=meta.store.layout))
        return
    roll_back_blocks(meta.storage, instant, instant, blocks, meta.lock.verify)
    markers.delete()
    meta.storage.delete([beat.path, plan_run_path(instant)])


def _has_completed(snapshot: TableSnapshot, instant: str) -> bool:
    """Return whether an instant that isn't pending completed, though it may be archived since."""
    timeline = snapshot.timeline
    if timeline.commit(instant) is not None:
        return True
    if timeline.start is None or instant >= timeline.start:
        return False
    archived = snapshot.meta.store.archived()  # its oldest ones may have been dropped
    oldest = next((each.requested for each in archived), "9")
    return instant < oldest or any(each.requested == instant for each in archived)


def _repair(snapshot: TableSnapshot, instant: Instant) -> bool:
    """Undo or complete a pending instant if its process is dead, under the table's lock, and return whether it was."""
    meta = snapshot.meta
    if instant.action is Action.ROLLBACK:
        resume(meta, instant)
        return True
    if instant.action in WRITE_ACTIONS:
        if not _is_dead(snapshot, instant):
            return False
        roll_back(meta, instant)
        return True
    if instant.action is Action.INDEXING:
        options = snapshot.write_options
        if instant.state is not State.INFLIGHT or not is_dead_building(meta, instant, options):
            return False
        revert_index_build(meta, instant)
        return True
    if instant.action is Action.SAVEPOINT:
        if not _is_dead_savepoint(snapshot, instant):
            return False
        delete_for_good(meta.storage, [meta.store.path(instant)])
        return True
    if instant.action is Action.RESTORE:
        refuse_pending_restore(snapshot)
    if not (instant.action.is_planned or instant.action in _HARMLESS):
        raise NotSupportedError(
            f"a {instant.action.value} is pending on this table, and pudi can't write beside one yet; "
            "let Hudi complete it or roll it back",
            table=snapshot.table,
            instant=instant.requested,
        )
    return False


def _is_dead_savepoint(snapshot: TableSnapshot, instant: Instant) -> bool:
    """Return whether a pending savepoint is one whose maker died: it has no heartbeat, and takes a moment."""
    policy = snapshot.options[WriteOptions.failed_writes_policy]
    if instant.action is not Action.SAVEPOINT or policy == "NEVER":
        return False
    return policy == "EAGER" or _liveness_of(snapshot, instant) is Liveness.DEAD


def _is_dead(snapshot: TableSnapshot, instant: Instant) -> bool:
    policy = snapshot.options[WriteOptions.failed_writes_policy]
    if policy == "NEVER":
        return False
    found = Liveness.DEAD if policy == "EAGER" else _liveness_of(snapshot, instant)
    if found is not Liveness.ALIVE:
        refuse_to_undo(snapshot, instant)
    if found is Liveness.UNKNOWN:
        raise BlockedError(
            "a write is pending that gives no heartbeat, as Hudi's single writers do, and it was touched lately: it "
            "may be alive. Wait for it, or, if you know it's dead, write with "
            f"{WriteOptions.failed_writes_policy}=EAGER",
            table=snapshot.table,
            instant=instant.requested,
        )
    return found is Liveness.DEAD
