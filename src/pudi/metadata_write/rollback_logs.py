"""Roll back the log blocks of a failed write in a version 6 table by rollback command blocks.

From version 8 on the name of a log file has the instant that wrote it, and a rollback deletes the file. Below, it has
the instant of its slice, and readers may have the file open; a rollback block in another log file makes them skip the
target's blocks (MarkerBasedRollbackStrategy, RollbackHelperV1).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from pudi.context import Storage
from pudi.errors import CorruptError, InvalidArgumentError, NotFoundError, TableExistsError
from pudi.filegroup import LogFile, Markers, StorageListing
from pudi.format import (
    InstantInfo,
    LogFileName,
    RollbackMetadata,
    RollbackPartitionMetadata,
    RollbackRequest,
    parse_log_file,
)
from pudi.format.log_block import BlockKind, Header, encode_block

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
        name = _name_of(storage, partition, file_id, base_instant, rollback_instant, resumes=resumes)
        path = f"{partition}/{name}" if partition else name
        verify()
        with suppress(TableExistsError):  # by an attempt that died
            storage.create(path, content, durable=True)
        written.setdefault(partition, {})[path] = len(content)
    return written


def _name_of(
    storage: Storage, partition: str, file_id: str, base_instant: str, rollback_instant: str, *, resumes: bool
) -> str:
    """Return the name of a rollback's log file in a slice: that of an attempt that died, or the next one."""
    found = (LogFile.of(partition, info) for info in StorageListing(storage).files(partition))
    known = [log.name for log in found if log and (log.file_id, log.instant) == (file_id, base_instant)]
    token = f"0-{zlib.crc32(rollback_instant.encode()) & 0x7FFFFFFF}-0"
    own = [name.version for name in known if resumes and name.write_token == token]
    try:
        version = min(own, default=1 + max((name.version for name in known), default=0))
        return LogFileName(file_id, base_instant, version, token).name
    except InvalidArgumentError as error:
        raise CorruptError(
            f"a rollback plan names {file_id!r}, which isn't a file group id", table=storage.root
        ) from error


def build_rollback_metadata(
    storage: Storage,
    rollback_instant: str,
    target: InstantInfo,
    requests: Sequence[RollbackRequest],
    blocks: Mapping[str, Mapping[str, int]],
    took_ms: int,
) -> RollbackMetadata:
    """Return the content of a completed rollback.

    Args:
        storage: the table's files.
        rollback_instant: requested time of the rollback.
        target: the instant that it undid.
        requests: what it did.
        blocks: the files with rollback blocks, as `roll_back_blocks` returned them.
        took_ms: its duration in milliseconds.
    """
    partitions: dict[str, RollbackPartitionMetadata] = {}
    for request in requests:
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
