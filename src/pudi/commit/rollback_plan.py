"""Plan rollbacks from markers or from a commit's metadata, and read such plans.

Source: BaseRollbackPlanActionExecutor, MarkerBasedRollbackStrategy.
"""

from __future__ import annotations

from collections.abc import Collection
from posixpath import basename

from pudi.client.meta_client import MetaClient
from pudi.errors import CorruptError
from pudi.filegroup import Markers, unmarked_files, unmarked_logs
from pudi.format import (
    Action,
    InstantInfo,
    LogFileName,
    RollbackPlan,
    RollbackRequest,
    State,
    decode_rollback_metadata,
    parse_data_file,
)
from pudi.metadata_write.rollback import block_requests
from pudi.timeline import Instant

WRITES = frozenset({Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT})
"""Actions whose pending instants are failed writes if their writer is dead."""


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
        path = meta.store.path(each)
        done = decode_rollback_metadata(meta.store.read(each, State.COMPLETED), path=path)
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
    return any(action == each.value for each in Action if each.is_planned or each in WRITES)


def planned_files(meta: MetaClient, target: InstantInfo, request: RollbackRequest) -> list[str]:
    """Return the files to delete that a plan names, relative to the root.

    Plans contain absolute paths, which may name the root differently (a link, `s3a` instead of `s3`) and are not
    trusted. Only partition and file name are used, and the name must be one of the instant's.
    """
    markers = Markers(meta.storage, target.commit_time)
    names = [basename(path.rstrip("/")) for path in request.files_to_be_deleted]
    prefix = f"{request.partition_path}/" if request.partition_path else ""
    return [markers.owned(prefix + name) for name in names]
