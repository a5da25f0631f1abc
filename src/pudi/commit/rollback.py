"""Roll back a write of any process: delete its files, then its instant, and record a rollback. Or abort it.

The plan of a rollback is made from markers or from a commit's metadata, or read where another process has stored it. An
aborted write, of this process or of one that died, was never there: no rollback mentions it.

Source: BaseRollbackActionExecutor, BaseRollbackPlanActionExecutor, MarkerBasedRollbackStrategy.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import replace
from posixpath import basename

from pudi.client import MetaClient
from pudi.client.hash_rings import discard_rings
from pudi.commit.commit_hook import discard_metadata, roll_back_metadata_table
from pudi.config import WriteOptions
from pudi.errors import CorruptError, PudiError
from pudi.filegroup import Markers, unmarked_files, unmarked_logs
from pudi.format import (
    HOODIE_DIR,
    WRITE_ACTIONS,
    Action,
    InstantInfo,
    LogFileName,
    MaxBytes,
    RollbackMetadata,
    RollbackPlan,
    RollbackRequest,
    State,
    decode_rollback_metadata,
    decode_rollback_plan,
    encode_rollback_metadata,
    encode_rollback_plan,
    heartbeat_path,
    parse_data_file,
    parse_instant_file,
    plan_run_path,
)
from pudi.metadata_write.rollback import block_requests, build_rollback_metadata, roll_back_blocks
from pudi.timeline import Instant

_log = logging.getLogger(__name__)

_OTHERS = frozenset({Action.SAVEPOINT, Action.ROLLBACK, Action.RESTORE})
"""Actions that may bear the requested time of a commit, and aren't rolled back."""
RING_CHANGES = frozenset({Action.REPLACECOMMIT, Action.CLUSTERING})
"""Actions that may write hash rings, which go with them."""


def plan_of_pending(meta: MetaClient, target: Instant) -> RollbackPlan:
    """Plan the rollback of a pending write, by its markers and by the names of files.

    Args:
        meta: the table.
        target: the write.

    Raises:
        CorruptError: its markers can't be read.
    """
    by_partition: dict[str, list[str]] = {}
    storage, markers = meta.storage, Markers(meta.storage, target.requested)
    for path in (*markers.files(), *unmarked_files(storage, target.requested, meta.store.layout)):
        by_partition.setdefault(path.rpartition("/")[0], []).append(path)
    requests = tuple(
        RollbackRequest(partition_path=partition, files_to_be_deleted=tuple(f"{storage.root}/{path}" for path in paths))
        for partition, paths in sorted(by_partition.items())
    )
    appended = {*markers.appended(), *unmarked_logs(meta.store, target.requested)}
    blocks = tuple(block_requests(storage, without_hidden(meta, target.requested, appended)))
    return RollbackPlan(InstantInfo(target.requested, target.named_action.value), (*requests, *blocks))


def without_hidden(meta: MetaClient, target: str, appended: Collection[str]) -> list[str]:
    """Return the log files whose blocks no completed rollback of an instant has hidden yet.

    The metadata table lists the others already. A file that it lists twice stays listed when it is deleted: the
    removal takes the second entry away, and the first one may be in the base file (HoodieMetadataPayload).

    Args:
        meta: the table.
        target: the instant.
        appended: paths of log files that it may have written.
    """
    names = set()
    for each in meta.store.load().of(Action.ROLLBACK, State.COMPLETED) if appended else ():
        done = decode_rollback_metadata(meta.store.read(each), path=meta.store.path(each))
        if target in done.commits_rollback:
            for part in done.partition_metadata.values():
                names |= {basename(name) for name in part.log_files_from_failed_commit or ()}
    return sorted(path for path in appended if basename(path) not in names)


def written_since(meta: MetaClient, target: InstantInfo, plan: RollbackPlan) -> list[RollbackRequest]:
    """Return what to do with files that a rollback's plan doesn't name, since their writer lived and went on.

    Args:
        meta: the table.
        target: the write, pending.
        plan: the plan, which may have been made by another process long ago.

    Raises:
        CorruptError: the write's markers can't be read.
    """
    planned: set[str] = set()
    for request in plan.rollback_requests:
        prefix = f"{request.partition_path}/" if request.partition_path else ""
        names = (*request.files_to_be_deleted, *(request.log_blocks_to_be_deleted or ()))
        planned.update(prefix + basename(name.rstrip("/")) for name in names)
    markers = Markers(meta.storage, target.commit_time)
    requests = [
        RollbackRequest(partition_path=path.rpartition("/")[0], files_to_be_deleted=(f"{meta.storage.root}/{path}",))
        for path in markers.files()
        if path not in planned
    ]
    appended = [path for path in markers.appended() if path not in planned]
    return requests + block_requests(meta.storage, without_hidden(meta, target.commit_time, appended))


def plan_of_completed(meta: MetaClient, target: Instant) -> RollbackPlan:
    """Plan the rollback of a completed write, by what it says that it wrote.

    Below version 8, log files that bear the instant of a compaction belong to the slices that it began, which go too.

    Args:
        meta: the table.
        target: the write.

    Raises:
        CorruptError: what it wrote can't be read, or can't be its own.
    """
    written = meta.store.read_commit_metadata(target).partition_to_write_stats
    own, appended, by_slice = Markers(meta.storage, target.requested), [], meta.store.rules.logs_name_their_slice
    requests = []
    for partition, stats in sorted(written.items()):
        prefix = f"{partition}/" if partition else ""
        names = {basename(path) for stat in stats for path in stat.paths}
        if by_slice:
            groups = {stat.file_id for stat in stats}
            names |= _logs_of(meta, partition, groups, target.requested)
        paths = []
        for name in sorted(names - {""}):
            parsed = parse_data_file(name)
            if by_slice and isinstance(parsed, LogFileName) and parsed.instant != target.requested:
                appended.append(own.within(prefix + name))
            else:
                paths.append(f"{meta.storage.root}/{own.owned(prefix + name)}")
        if paths:
            requests.append(RollbackRequest(partition_path=partition, files_to_be_deleted=tuple(paths)))
    blocks = tuple(block_requests(meta.storage, sorted(appended)))
    return RollbackPlan(InstantInfo(target.requested, target.action.value), (*requests, *blocks))


def _logs_of(meta: MetaClient, partition: str, groups: Collection[str | None], instant: str) -> set[str]:
    """Return the names of log files of some file groups that bear an instant."""
    named = (basename(info.path) for info in meta.storage.list_dir(partition)[0])
    logs = ((name, parse_data_file(name)) for name in named)
    return {n for n, log in logs if isinstance(log, LogFileName) and log.instant == instant and log.file_id in groups}


def target_of(meta: MetaClient, rollback: Instant, plan: RollbackPlan) -> InstantInfo:
    """Return the write that a plan undoes.

    Args:
        meta: the table.
        rollback: the rollback.
        plan: its plan.

    Raises:
        CorruptError: the plan names none.
    """
    target = plan.instant_to_rollback
    if target is None or not _may_be_rolled_back(target.action):
        raise CorruptError(
            "the rollback plan names no write to undo; take the pending rollback off the timeline by hand",
            table=meta.storage.root,
            instant=rollback.requested,
        )
    return target


def _may_be_rolled_back(action: str) -> bool:
    return any(action == each.value for each in Action if each.is_planned or each in WRITE_ACTIONS)


def planned_files(meta: MetaClient, target: InstantInfo, request: RollbackRequest) -> list[str]:
    """Return the files to delete that a plan names, relative to the root.

    Plans contain absolute paths, which may name the root differently (a link, `s3a` instead of `s3`) and are not
    trusted. Only partition and file name are used, and the name must be one of the instant's.
    """
    markers = Markers(meta.storage, target.commit_time)
    names = [basename(path.rstrip("/")) for path in request.files_to_be_deleted]
    prefix = f"{request.partition_path}/" if request.partition_path else ""
    return [markers.owned(prefix + name) for name in names]


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
    plan = meta.store.read_plan(rollback, decode_rollback_plan)
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
        if target.action in RING_CHANGES:
            discard_rings(meta, target.requested)
        meta.delete_locked(files)
        if dead:
            meta.delete_locked(unmarked_files(meta.storage, target.requested, meta.store.layout))
        roll_back_blocks(meta.storage, target.requested, target.requested, blocks, meta.lock.verify)
        discard_metadata(meta, target.requested)
        meta.store.discard(target)
        markers.delete()
        meta.storage.delete([heartbeat_path(target.requested), plan_run_path(target.requested)])
