"""Roll back deltacommits of the metadata table: of instants that failed, and of commits that the table rolls back.

Readers ignore the deltacommit of a failed instant already, since that is not completed. But it must be removed before
the instant is, or before it is tried again (HoodieTableMetadataWriter.update).

From version 8 on the name of a log file has the instant that wrote it, and a rollback deletes the file. Below, it has
the instant of its slice, and readers may have the file open; a rollback block in another log file makes them skip the
target's blocks (MarkerBasedRollbackStrategy, RollbackHelperV1). So do rollbacks of the table itself.

Where the metadata table follows a rollback of completed commits, it rolls back their deltacommits, or is rebuilt if
that is not enough. Source: HoodieBackedTableMetadataWriter.update(HoodieRollbackMetadata), which rolls back the
deltacommit of the same instant, and update(HoodieRestoreMetadata), which restores the metadata table, compactions
included.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from posixpath import basename

from pudi.client import MetaClient, TableSnapshot
from pudi.context import Storage
from pudi.errors import CorruptError, InvalidArgumentError, NotFoundError, PudiError, TableExistsError
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
    file_path,
    heartbeat_path,
    instant_token,
    parse_log_file,
)
from pudi.format.log_block import ROLLBACK_COMMAND, BlockKind, Header, encode_block
from pudi.format.metadata_partitions import BLOOM_FILTERS, COLUMN_STATS, FILES
from pudi.metadata_write.client import open_metadata
from pudi.storage import delete_for_good
from pudi.timeline import Instant, Timeline

_OF_FILES = frozenset({FILES, COLUMN_STATS, BLOOM_FILTERS})
"""Partitions with one entry for each file, which no other file changes."""
_DELETING = frozenset({Action.CLEAN, Action.ROLLBACK})
"""Actions of the table whose deltacommits say only which files are gone."""


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
        Header.COMMAND_BLOCK_TYPE: ROLLBACK_COMMAND,
    }
    content = encode_block(BlockKind.COMMAND, headers, b"")
    written: dict[str, dict[str, int]] = {}
    groups = {(r.partition_path, r.file_id or "", r.latest_base_instant or "") for r in requests}
    for partition, file_id, base_instant in sorted(groups):
        Markers(storage, target).within(f"{partition}/{file_id}" if partition else file_id)
        resumes = rollback_instant != target  # a write that takes itself back has log files under this token
        name = _name_of(storage, FileGroupId(partition, file_id), base_instant, rollback_instant, resumes=resumes)
        path = file_path(partition, name)
        verify()
        with suppress(TableExistsError):  # by an attempt that died
            storage.create(path, content, durable=True)
        written.setdefault(partition, {})[path] = len(content)
    return written


def _name_of(storage: Storage, group: FileGroupId, base_instant: str, rollback_instant: str, *, resumes: bool) -> str:
    """Return the name of a rollback's log file in a slice: that of an attempt that died, or the next one."""
    found = (LogFile.of(group.partition, info) for info in StorageListing(storage).files(group.partition))
    known = [log.name for log in found if log and (log.file_id, log.instant) == (group.file_id, base_instant)]
    token = instant_token(rollback_instant)
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


@dataclass(frozen=True, slots=True)
class MetadataRollbackPlan:
    """Plan by which the metadata table follows a rollback of the table.

    Attributes:
        compactions: its compactions that contain what goes, newest first, with the files that they wrote.
    """

    compactions: tuple[tuple[Instant, tuple[str, ...]], ...] = ()


def plan_metadata_rollback(snapshot: TableSnapshot, going: Collection[str]) -> MetadataRollbackPlan | None:
    """Return how to follow by rolling back deltacommits; None if that doesn't leave what a rebuild would make.

    It does if what followed them in the metadata table doesn't contain their entries. Index builds and log compactions
    do. Compactions do too, but the file slices that they merged may still be there. Under the table's lock.

    Args:
        snapshot: the table now.
        going: requested times of the commits that are rolled back: all that completed since the first of them. Those
            that are off the timeline must be off that of the metadata table too.
    """
    config = snapshot.config
    if FILES not in config.metadata_partitions or config.metadata_partitions_inflight:
        return None
    if config.metadata_partitions_to_rebuild:
        return None
    try:
        if _changes_schema(snapshot, going):
            return None
        opened = snapshot.metadata_table()
        return None if opened.invalidated else _plan(snapshot, opened.timeline, going)
    except PudiError:  # a rebuild repairs it
        return None


def take_compactions_back(meta: MetaClient, plan: MetadataRollbackPlan) -> None:
    """Take compactions back, before the deltacommits that they contain are rolled back.

    Readers find the same entries in the file slices before. A crash leaves a compaction that is pending, or files that
    no instant completed.

    Args:
        meta: the table.
        plan: the plan.
    """
    mdt = open_metadata(meta)
    for instant, files in plan.compactions:
        delete_for_good(mdt.storage, [mdt.store.path(instant)])
        delete_for_good(mdt.storage, files)
        mdt.store.discard(replace(instant, action=Action.COMPACTION))


def _changes_schema(snapshot: TableSnapshot, going: Collection[str]) -> bool:
    """Return whether the table gets another schema: the indexes' definitions may name columns that go."""
    instants = tuple(each for each in snapshot.timeline.instants if each.requested not in going)
    left = snapshot.at(replace(snapshot.timeline, instants=instants))
    if not left.timeline.commits:
        return True
    return (left.schema.avro, left.schema_by_id) != (snapshot.schema.avro, snapshot.schema_by_id)


def _plan(snapshot: TableSnapshot, own: Timeline, going: Collection[str]) -> MetadataRollbackPlan | None:
    """Return how to follow, unless an instant of the metadata table contains entries of others that go."""
    gone = [each for each in own.commits if each.requested in going]
    there = {each.requested for each in snapshot.timeline.commits} & set(going)
    if own.pending or there != {each.requested for each in gone}:
        return None
    if any(each.action is not Action.DELTACOMMIT for each in gone):
        return None
    since = min(map(own.done, gone), default="")
    later = [each for each in own.instants if own.done(each) > since and each.requested not in going]
    compactions = [each for each in later if each.action is Action.COMMIT]
    others = [each for each in later if each.action is Action.DELTACOMMIT]
    if len(compactions) + len(others) < sum(each.is_write for each in later):
        return None
    if not all(_states_deletions(snapshot, each) for each in others):
        return None
    return _without(snapshot.meta, own, compactions)


def _without(meta: MetaClient, own: Timeline, compactions: Sequence[Instant]) -> MetadataRollbackPlan | None:
    """Return how to take compactions back, unless the file slices before them are incomplete to a reader.

    A clean may have deleted them. And Hudi counts a log block only while its deltacommit is on the active timeline
    (HoodieTableMetadataUtil.getValidInstantTimestamps), but once a compaction has merged them, they are archived.
    """
    if not compactions:
        return MetadataRollbackPlan()
    first = min(map(own.done, compactions))
    cleaned = any(own.done(each) > first for each in own.of(Action.CLEAN))
    if cleaned or meta.store.rules.logs_name_their_slice:  # there, later log files have the compaction in their names
        return None
    mdt = open_metadata(meta)
    archived = mdt.store.archived()
    kept = (each for each in (*archived, *own.of(Action.COMMIT)) if each.action is Action.COMMIT)
    merged = max((each.requested for each in kept if each not in compactions), default="")
    if any(each.action is Action.DELTACOMMIT and own.done(each) > merged for each in archived):
        return None
    newest_first = sorted(compactions, key=own.done, reverse=True)
    return MetadataRollbackPlan(tuple((each, _written_by(mdt, each)) for each in newest_first))


def _written_by(mdt: MetaClient, compaction: Instant) -> tuple[str, ...]:
    """Return the files that a compaction wrote.

    Raises:
        CorruptError: it says nothing, or names files of others.
    """
    markers = Markers(mdt.storage, compaction.requested)
    written = mdt.store.read_commit_metadata(compaction).partition_to_write_stats
    paths = tuple(markers.owned(stat.path or "") for stats in written.values() for stat in stats)
    if not paths:
        raise CorruptError("the compaction says of no file", table=mdt.storage.root, instant=compaction.requested)
    return paths


def _states_deletions(snapshot: TableSnapshot, instant: Instant) -> bool:
    """Return whether a deltacommit of the metadata table only says which files the table deleted."""
    origin = {
        each.action for each in snapshot.timeline.instants if each.requested == instant.requested and each.is_completed
    }
    if not origin or origin - _DELETING:
        return False
    written: Iterable[str] = open_metadata(snapshot.meta).store.read_commit_metadata(instant).partition_to_write_stats
    return _OF_FILES.issuperset(written)
