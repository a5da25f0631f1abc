"""Roll back a deltacommit of the metadata table whose table's instant failed (HoodieTableMetadataWriter.update).

Readers ignore the deltacommit already, since the table's instant is not completed. But it must be removed before that
instant is, or before it is tried again.

From version 8 on the name of a log file has the instant that wrote it, and a rollback deletes the file. Below, it has
the instant of its slice, and readers may have the file open; a rollback block in another log file makes them skip the
target's blocks (MarkerBasedRollbackStrategy, RollbackHelperV1). So do rollbacks of the table itself.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from posixpath import basename

from pudi.client.meta_client import MetaClient
from pudi.context import Storage
from pudi.errors import CorruptError, InvalidArgumentError, NotFoundError, TableExistsError
from pudi.filegroup import LogFile, Markers, StorageListing
from pudi.format import (
    Action,
    CommitMetadata,
    FileGroupId,
    InstantInfo,
    LogFileName,
    MaxBytes,
    RollbackMetadata,
    RollbackPartitionMetadata,
    RollbackPlan,
    RollbackRequest,
    State,
    decode_commit_metadata,
    encode_rollback_metadata,
    encode_rollback_plan,
    heartbeat_path,
    parse_log_file,
)
from pudi.format.log_block import BlockKind, Header, encode_block
from pudi.timeline import Instant

_ROLLBACK = "0"
"""COMMAND_BLOCK_TYPE of a rollback (HoodieCommandBlockTypeEnum.ROLLBACK_BLOCK)."""


def block_requests(storage: Storage, paths: Iterable[str]) -> list[RollbackRequest]:
    """Return the rollback requests for log files that may hold blocks of the target.

    Args:
        storage: the table's files.
        paths: the log files that may exist.
    """
    requests = []
    for path in paths:
        partition, _, file_name = path.rpartition("/")
        name = parse_log_file(file_name)
        try:
            size = storage.head(path).size
        except NotFoundError:  # its writer died before
            continue
        if name is not None:
            requests.append(
                RollbackRequest(partition, name.file_id, name.instant, log_blocks_to_be_deleted={file_name: size})
            )
    return requests


def roll_back_blocks(
    storage: Storage,
    target: str,
    rollback_instant: str,
    requests: Iterable[RollbackRequest],
    verify: Callable[[], None],
) -> dict[str, dict[str, int]]:
    """Write a rollback block for each file group that may hold blocks of a failed write, under the table's lock.

    A plan's next run has the instant of the failed one: a block of a process that has lost the lock would hide it.

    Args:
        storage: the table's files.
        target: requested time of the failed write.
        rollback_instant: requested time of the rollback.
        requests: the result of `block_requests`, or of Hudi's plan.
        verify: called before each file is written; raises an error if the lock was lost.

    Returns:
        The written files with their sizes, by partition path.

    Raises:
        CorruptError: a request names no file group within the table.
        ConflictError: the lock was lost.
    """
    headers = {
        Header.INSTANT_TIME: rollback_instant,
        Header.TARGET_INSTANT_TIME: target,
        Header.COMMAND_BLOCK_TYPE: _ROLLBACK,
    }
    content = encode_block(BlockKind.COMMAND, headers, b"")
    written: dict[str, dict[str, int]] = {}
    groups = {(r.partition_path, r.file_id or "", r.latest_base_instant or "") for r in requests}
    for partition, file_id, base_instant in sorted(groups):
        Markers(storage, target).within(f"{partition}/{file_id}" if partition else file_id)
        resumes = rollback_instant != target  # a write that takes itself back has log files under this token
        name = _name_of(storage, FileGroupId(partition, file_id), base_instant, rollback_instant, resumes=resumes)
        path = f"{partition}/{name}" if partition else name
        verify()
        with suppress(TableExistsError):  # by an attempt that died
            storage.create(path, content, durable=True)
        written.setdefault(partition, {})[path] = len(content)
    return written


def _name_of(storage: Storage, group: FileGroupId, base_instant: str, rollback_instant: str, *, resumes: bool) -> str:
    """Return the name of a rollback's log file in a slice: that of an attempt that died, or the next one."""
    found = (LogFile.of(group.partition, info) for info in StorageListing(storage).files(group.partition))
    known = [log.name for log in found if log and (log.file_id, log.instant) == (group.file_id, base_instant)]
    token = f"0-{zlib.crc32(rollback_instant.encode()) & 0x7FFFFFFF}-0"
    own = [name.version for name in known if resumes and name.write_token == token]
    try:
        version = min(own, default=1 + max((name.version for name in known), default=0))
        return LogFileName(group.file_id, base_instant, version, token).name
    except InvalidArgumentError as error:
        raise CorruptError(
            f"a rollback plan names {group.file_id!r}, which isn't a file group id", table=storage.root
        ) from error


def build_rollback_metadata(
    storage: Storage,
    rollback_instant: str,
    done: RollbackPlan,
    blocks: Mapping[str, Mapping[str, int]],
    took_ms: int,
) -> RollbackMetadata:
    """Return the content of a completed rollback.

    Args:
        storage: the table's files.
        rollback_instant: requested time of the rollback.
        done: the instant that it undid, and what it did.
        blocks: the files with rollback blocks, as `roll_back_blocks` returned them.
        took_ms: its duration in milliseconds.
    """
    target = done.instant_to_rollback
    assert target is not None, "the caller knows what it undid"
    partitions: dict[str, RollbackPartitionMetadata] = {}
    for request in done.rollback_requests:
        partition = request.partition_path
        known = partitions.get(partition, RollbackPartitionMetadata(partition))
        partitions[partition] = RollbackPartitionMetadata(
            partition,
            known.success_delete_files + request.files_to_be_deleted,
            rollback_log_files={f"{storage.root}/{path}": size for path, size in blocks.get(partition, {}).items()},
            log_files_from_failed_commit={
                **(known.log_files_from_failed_commit or {}),
                **(request.log_blocks_to_be_deleted or {}),
            },
        )
    return RollbackMetadata(
        start_rollback_time=rollback_instant,
        time_taken_in_millis=took_ms,
        total_files_deleted=sum(len(each.success_delete_files) for each in partitions.values()),
        commits_rollback=(target.commit_time,),
        partition_metadata=partitions,
        instants_rollback=(target,),
    )


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
    done = RollbackPlan(InstantInfo(requested, Action.DELTACOMMIT.value), tuple(requests))
    took_ms = mdt.context.clock.now_ms() - began_ms
    metadata = build_rollback_metadata(mdt.storage, rollback_instant, done, commands, took_ms)
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
        name = parse_log_file(basename(path))
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
    name = parse_log_file(basename(path))
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
