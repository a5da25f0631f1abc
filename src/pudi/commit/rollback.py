"""Roll back a write of any process: delete its files, then its instant, and record a rollback.

Source: BaseRollbackActionExecutor.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from posixpath import basename

from pudi.client.hash_rings import discard_rings
from pudi.client.meta_client import MetaClient
from pudi.commit.commit_hook import discard_metadata, roll_back_metadata_table
from pudi.commit.rollback_plan import (
    plan_of_completed,
    plan_of_pending,
    planned_files,
    target_of,
    written_since,
)
from pudi.config import WriteOptions
from pudi.errors import PudiError
from pudi.filegroup import Markers
from pudi.format import (
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
)
from pudi.metadata_write.rollback import build_rollback_metadata, roll_back_blocks
from pudi.timeline import Instant

_log = logging.getLogger(__name__)

_OTHERS = frozenset({Action.SAVEPOINT, Action.ROLLBACK, Action.RESTORE})
"""Actions that may bear the requested time of a commit, and aren't rolled back."""
RING_CHANGES = frozenset({Action.REPLACECOMMIT, Action.CLUSTERING})
"""Actions that may write hash rings, which go with them."""


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


def _execute(
    meta: MetaClient, rollback: Instant, plan: RollbackPlan, restores: bool
) -> tuple[Instant, RollbackMetadata]:
    began_ms = meta.context.clock.now_ms()
    target = target_of(meta, rollback, plan)
    keeps_plan = Action(target.action) is Action.COMPACTION
    copy_instant(meta, target.commit_time)
    completed = meta.store.load().commit(target.commit_time)
    if Action(target.action) in RING_CHANGES:
        discard_rings(meta, target.commit_time)
    if completed is not None:  # readers go back to the state before it
        meta.delete_locked([meta.store.path(completed)])
    requests = [*plan.rollback_requests, *(written_since(meta, target, plan) if completed is None else ())]
    doomed = [path for request in requests for path in planned_files(meta, target, request)]
    meta.delete_locked(doomed)
    blocks = [request for request in requests if request.log_blocks_to_be_deleted]
    commands = roll_back_blocks(meta.storage, target.commit_time, rollback.requested, blocks, meta.lock.verify)
    took_ms = meta.context.clock.now_ms() - began_ms
    metadata = build_rollback_metadata(
        meta.storage, rollback.requested, RollbackPlan(target, tuple(requests)), commands, took_ms
    )
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
