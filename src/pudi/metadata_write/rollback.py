"""Roll back a deltacommit of the metadata table whose table's instant failed (HoodieTableMetadataWriter.update).

Readers ignore it already, since the table's instant is not completed. But it must be removed before that instant is,
or before it is tried again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pudi.client.meta_client import MetaClient
from pudi.errors import NotFoundError
from pudi.format import (
    Action,
    CommitMetadata,
    InstantInfo,
    MaxBytes,
    RollbackPlan,
    RollbackRequest,
    State,
    decode_commit_metadata,
    encode_rollback_metadata,
    encode_rollback_plan,
    heartbeat_path,
    parse_log_file,
)
from pudi.metadata_write.rollback_logs import block_requests, build_rollback_metadata, roll_back_blocks
from pudi.timeline import Instant


def discard_deltacommit(mdt: MetaClient, requested: str) -> None:
    """Discard a pending or completed deltacommit as if it had never existed; does nothing if there is none.

    Called under the table's lock, while the table's own instant is pending, so that readers ignore the deltacommit.

    Args:
        mdt: the metadata table.
        requested: its instant.
    """
    mdt.storage.delete([heartbeat_path(requested)])
    timeline = mdt.store.load()
    target = timeline.find(requested, Action.DELTACOMMIT)
    if target is None:
        return
    _unpublish(mdt, target)
    _take_out(mdt, requested, requested, _requests(mdt, target))
    mdt.store.discard(target)


def roll_back(mdt: MetaClient, requested: str, rollback_instant: str) -> None:
    """Roll back a deltacommit, for a rollback of the table; resume a rollback that was begun.

    Args:
        mdt: the metadata table.
        requested: the instant to undo.
        rollback_instant: requested time of the rollback.
    """
    mdt.storage.delete([heartbeat_path(requested)])
    timeline = mdt.store.load()
    target = timeline.find(requested, Action.DELTACOMMIT)
    rollback = timeline.find(rollback_instant, Action.ROLLBACK)
    if rollback is None:
        if target is None:
            return
        requests = _requests(mdt, target)
        plan = RollbackPlan(InstantInfo(requested, target.action.value), tuple(requests))
        rollback = mdt.store.request(Action.ROLLBACK, encode_rollback_plan(plan), at=rollback_instant)
    if rollback.is_completed:
        return
    began_ms = mdt.context.clock.now_ms()
    if rollback.state is State.REQUESTED:
        rollback = mdt.store.start(rollback, shared=True)
    requests = [] if target is None else _requests(mdt, target)
    if target is not None:
        _unpublish(mdt, target)
    commands = _take_out(mdt, requested, rollback_instant, requests)
    if target is not None:
        mdt.store.discard(target)
    info, took_ms = InstantInfo(requested, Action.DELTACOMMIT.value), mdt.context.clock.now_ms() - began_ms
    metadata = build_rollback_metadata(mdt.storage, rollback_instant, info, requests, commands, took_ms)
    mdt.store.complete(rollback, encode_rollback_metadata(metadata))


def _unpublish(mdt: MetaClient, target: Instant) -> None:
    """Revert a completed deltacommit to inflight."""
    if target.is_completed:
        mdt.delete_locked([mdt.store.path(target)])


def _requests(mdt: MetaClient, target: Instant) -> list[RollbackRequest]:
    """Return what a rollback does with the log files that a deltacommit may have written."""
    _, partitions = mdt.storage.list_dir("")
    requests = []
    for partition in sorted(p for p in partitions if not p.startswith(".")):
        files, _ = mdt.storage.list_dir(partition)
        paths = [info.path for info in files]
        if mdt.store.rules.logs_name_their_slice:
            requests += block_requests(mdt.storage, _written(mdt, target, partition, paths))
            continue
        own = [path for path in paths if _instant(path) == target.requested]
        if own:
            locations = tuple(f"{mdt.storage.root}/{path}" for path in own)
            requests.append(RollbackRequest(partition_path=partition, files_to_be_deleted=locations))
    return requests


def _written(mdt: MetaClient, target: Instant, partition: str, paths: Iterable[str]) -> list[str]:
    """Return, in layout 1, the newest log file of each file group that the commit planned to write to.

    A rollback block in a group that has no block of the commit does no harm.
    """
    stats = _said(mdt, target).partition_to_write_stats.get(partition, ())
    groups = {stat.file_id for stat in stats if stat.file_id}
    newest: dict[str, tuple[str, int, str]] = {}
    for path in paths:
        name = parse_log_file(path.rpartition("/")[2])
        if name is not None and name.file_id in groups:
            place = (name.instant, name.version, path)
            newest[name.file_id] = max(newest.get(name.file_id, place), place)
    return [path for _, _, path in newest.values()]


def _said(mdt: MetaClient, target: Instant) -> CommitMetadata:
    """Return what the commit wrote or planned to write."""
    for state in (State.COMPLETED, State.INFLIGHT):
        path = mdt.store.path(target, state)
        try:
            return decode_commit_metadata(mdt.storage.read(path, MaxBytes.INSTANT), path=path)
        except NotFoundError:
            continue
    return CommitMetadata()


def _instant(path: str) -> str | None:
    name = parse_log_file(path.rpartition("/")[2])
    return None if name is None else name.instant


def _take_out(
    mdt: MetaClient, requested: str, rollback_instant: str, requests: Sequence[RollbackRequest]
) -> dict[str, dict[str, int]]:
    """Hide the commit's blocks from readers; in layout 1, return the log files written for this."""
    root = f"{mdt.storage.root}/"
    doomed = [path.removeprefix(root) for request in requests for path in request.files_to_be_deleted]
    mdt.delete_locked(doomed)
    blocks = [request for request in requests if request.log_blocks_to_be_deleted]
    return roll_back_blocks(mdt.storage, requested, rollback_instant, blocks, mdt.lock.verify)
