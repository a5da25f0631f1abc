"""Take commits back: roll the newest one back, or restore the table to an earlier one.

A restore is an instant with a plan: it rolls back, newest first, whatever completed after its target. Each rollback
hides its commit from readers before it deletes files, so that they always see the state of some commit. The metadata
table follows, or is deleted meanwhile and rebuilt from the files that are left. While a restore is pending, writers are
refused; the next restore completes it.

Source: RestorePlanActionExecutor, BaseRestoreActionExecutor, RestoreInstantComparatorFactory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from posixpath import basename

from pudi.client import MetaClient, TableSnapshot
from pudi.commit.dead_writers import refuse_pending_restore, repair_dead_writes
from pudi.commit.lease import is_available
from pudi.commit.rollback import abort, resume, roll_back
from pudi.config import ArchiveOptions, Options, WriteOptions, check_writable
from pudi.errors import BlockedError, InvalidArgumentError, NotFoundError, NotSupportedError
from pudi.filegroup import FileSystemView, StorageListing, ViewOptions
from pudi.format import (
    Action,
    InstantInfo,
    LogFileName,
    RollbackMetadata,
    State,
    decode_rollback_metadata,
    parse_data_file,
)
from pudi.format.instants import RestorePlan, decode_restore_plan, encode_restore_metadata, encode_restore_plan
from pudi.indexing.rebuild import finish_rebuild, rebuild_around
from pudi.metadata_write.rollback import plan_metadata_rollback, take_compactions_back
from pudi.recovery.savepoints import check_can_roll_back, check_retained, commit_of
from pudi.services.clean import has_deleted
from pudi.storage import delete_for_good
from pudi.task import Engine
from pudi.timeline import Instant

_DROPPED = frozenset({Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING})
"""Pending actions whose plans may be rolled back: they delete nothing, and writes don't build on them."""


@dataclass(frozen=True, slots=True)
class RollbackResult:
    """Result of a rollback or a restore.

    Attributes:
        instant: its requested time.
        completion_time: when it completed.
        rolled_back: requested times of the commits that are gone, in the order in which they went.
        files_deleted: the number of data files that it deleted.
    """

    instant: str
    completion_time: str | None
    rolled_back: tuple[str, ...]
    files_deleted: int

    def __str__(self) -> str:
        commits = f"{len(self.rolled_back)} commit{'s' * (len(self.rolled_back) != 1)}"
        return f"{self.instant}: {commits} rolled back, {self.files_deleted} files deleted"


def roll_back_commit(meta: MetaClient, engine: Engine, options: Options, instant: str) -> RollbackResult:
    """Roll back the newest commit, or the pending plan of a compaction, log compaction or clustering.

    Args:
        meta: the table.
        engine: rebuilds indexes.
        options: the caller's.
        instant: requested time of the commit, or of the plan.

    Raises:
        NotFoundError: there is no such commit on the active timeline, and no such plan.
        InvalidArgumentError: it has a savepoint, or isn't the newest commit.
        NotSupportedError: the plan of another service, which can only be run.
        BlockedError: another process is writing, or runs the plan; or a clean died that had deleted files.
    """
    snapshot = _ready(meta, engine, options)
    plan = next((each for each in snapshot.timeline.pending if each.requested == instant), None)
    if plan is not None and plan.action.is_planned:
        return _roll_back_plan(meta, options, plan)

    def carry_out(snapshot: TableSnapshot, commit: Instant) -> RollbackResult:
        _abort_plans(snapshot, commit.requested)
        rollback, metadata = roll_back(meta, commit)
        return RollbackResult(rollback.requested, rollback.completion, metadata.commits_rollback, _deleted([metadata]))

    def carry_out_later() -> RollbackResult:  # others may have come in between
        now = TableSnapshot.load(meta, options)
        commit = _newest(now, instant)
        _check_before(now, commit)
        return carry_out(now, commit)

    with meta.lock:
        refuse_pending_restore(TableSnapshot.load(meta))
        snapshot = repair_dead_writes(meta, options)
        commit = _newest(snapshot, instant)
        _check_before(snapshot, commit)
        meta.reload()
        of_slices = meta.store.rules.logs_name_their_slice and commit.action is not meta.commit_action
        metadata_plan = None if of_slices else plan_metadata_rollback(snapshot, {instant})
        if metadata_plan is not None:
            take_compactions_back(meta, metadata_plan)
            return carry_out(snapshot, commit)
    return rebuild_around(meta, engine, options, carry_out_later)


def _roll_back_plan(meta: MetaClient, options: Options, plan: Instant) -> RollbackResult:
    """Roll back a pending plan that no process runs, and nothing builds on: files and records stay as they are."""
    if plan.action not in _DROPPED:
        raise NotSupportedError(
            f"a pending {plan.action.value} can't be rolled back, since the files that it deletes may be gone: run it "
            "(run_pending)",
            table=meta.storage.root,
            instant=plan.requested,
        )
    with meta.lock:
        snapshot = TableSnapshot.load(meta)
        refuse_pending_restore(snapshot)
        current = snapshot.timeline.find(plan.requested, plan.action)
        if current is None or current.is_completed or not is_available(meta, current, WriteOptions.of(options)):
            raise BlockedError(
                f"another process runs the {plan.action.value}, or has run it: wait until it's over",
                table=meta.storage.root,
                instant=plan.requested,
            )
        if current.action is Action.COMPACTION:
            _check_nothing_builds_on(meta, current)
            abort(meta, current, dead=True)  # a rollback would keep the plan, as in Hudi
            return RollbackResult(current.requested, None, (current.requested,), 0)
        rollback, metadata = roll_back(meta, current)
    return RollbackResult(rollback.requested, rollback.completion, metadata.commits_rollback, _deleted([metadata]))


def _check_nothing_builds_on(meta: MetaClient, compaction: Instant) -> None:
    """Refuse to roll back the plan of a compaction whose instant log files have in their names: below version 8."""
    for infos in StorageListing(meta.storage).all_files().values() if meta.store.rules.logs_name_their_slice else ():
        for info in infos:
            name = parse_data_file(basename(info.path))
            if isinstance(name, LogFileName) and name.instant == compaction.requested:
                raise NotSupportedError(
                    "a pending compaction can't be rolled back once log files build on its plan: run it (run_pending); "
                    "if its plan can't be read, put that back from a copy",
                    table=meta.storage.root,
                    path=info.path,
                    instant=compaction.requested,
                )


def _newest(snapshot: TableSnapshot, instant: str) -> Instant:
    """Return a commit that may be rolled back: the newest one."""
    timeline, commit = snapshot.timeline, commit_of(snapshot, instant)
    newer = [each for each in timeline.commits if timeline.done(each) > timeline.done(commit)]
    if newer:
        raise InvalidArgumentError(
            f"{len(newer)} commits completed after this one, the last at {newer[-1].requested}: roll them back first, "
            "or restore the table to the commit before",
            table=snapshot.table,
            instant=instant,
        )
    _check_going(snapshot, [commit], commit)
    check_can_roll_back(snapshot, commit)
    return commit


def restore(meta: MetaClient, engine: Engine, options: Options, to: str | None) -> RollbackResult:
    """Restore the table to what it was when a commit completed, or complete a restore that died.

    Args:
        meta: the table.
        engine: rebuilds indexes.
        options: the caller's.
        to: requested time of the commit; None only to complete a pending restore.

    Raises:
        NotFoundError: there is no such commit on the active timeline, or files of that state are gone.
        InvalidArgumentError: a later commit has a savepoint, or `to` isn't what the pending restore restores to.
        BlockedError: another process is writing, an index is being built, or a clean died that had deleted files.
    """
    _ready(meta, engine, options)

    def carry_out_later() -> RollbackResult:  # others may have come in between
        now = TableSnapshot.load(meta, options)
        begun = _pending_restore(now)
        return _carry_out(now, begun, _plan(now, to or "") if begun is None else _planned(meta, begun))

    with meta.lock:
        snapshot = TableSnapshot.load(meta, options)
        begun = _pending_restore(snapshot)
        if begun is not None:
            plan = _planned(meta, begun)
            if to not in {None, plan.target}:
                raise InvalidArgumentError(
                    f"the restore {begun.requested} to {plan.target} is pending: complete it first",
                    table=meta.storage.root,
                    instant=to,
                )
        elif to is None:
            raise InvalidArgumentError("no restore is pending: say what to restore to", table=meta.storage.root)
        else:
            snapshot = repair_dead_writes(meta, options)
            plan = _plan(snapshot, to)
        meta.reload()
        # in layout 1, a rollback's deltacommit would stay in the metadata table, whose rollback is taken off
        going = {each.commit_time for each in plan.instants}
        with_suffixes = meta.store.rules.services_have_suffixes
        metadata_plan = None if with_suffixes else plan_metadata_rollback(snapshot, going)
        if metadata_plan is not None:
            take_compactions_back(meta, metadata_plan)
            return _carry_out(snapshot, begun, plan)
    return rebuild_around(meta, engine, options, carry_out_later)


def _pending_restore(snapshot: TableSnapshot) -> Instant | None:
    return next(iter(snapshot.timeline.pending_of(Action.RESTORE)), None)


def _planned(meta: MetaClient, restore: Instant) -> RestorePlan:
    return meta.store.read_plan(restore, decode_restore_plan)


def _ready(meta: MetaClient, engine: Engine, options: Options) -> TableSnapshot:
    """Refuse what can't be written, and rebuild what an earlier restore that died left: its builds are pending."""
    meta.reload()
    check_writable(meta.config, meta.storage.root, options)
    snapshot = TableSnapshot.load(meta, options)
    if _pending_restore(snapshot) is None:
        finish_rebuild(meta, engine, options)
    return snapshot


def _plan(snapshot: TableSnapshot, to: str) -> RestorePlan:
    """Plan a restore, and refuse one that would lose anything, before anything is touched."""
    meta, timeline = snapshot.meta, snapshot.timeline
    commit = commit_of(snapshot, to)
    going = [each for each in timeline.commits if _is_after(snapshot, each, commit)]
    _check_going(snapshot, going, commit)
    if commit.requested not in timeline.savepoints:
        check_retained(snapshot, commit)
    archived = [each.requested for each in meta.store.archived(to) if each.is_write and each.requested > to]
    if set(archived) - {each.requested for each in timeline.commits}:
        raise NotFoundError(
            f"later commits were archived, and can't be rolled back ({ArchiveOptions.beyond_savepoint})",
            table=meta.storage.root,
            instant=to,
        )
    gone = {each.requested for each in going}
    left = tuple(each for each in timeline.instants if each.requested not in gone)
    _check_whole(snapshot.seeing(replace(timeline, instants=left)))
    ordered = sorted(going, key=lambda each: (timeline.done(each), each.requested), reverse=True)
    return RestorePlan(to, tuple(InstantInfo(each.requested, each.action.value) for each in ordered))


def _is_after(snapshot: TableSnapshot, instant: Instant, target: Instant) -> bool:
    """Return whether a restore to a commit takes an instant back.

    Compactions bring nothing that is newer than their request, and compare by that.
    """
    if snapshot.meta.merges_on_read and Action.COMMIT in {instant.action, target.action}:
        return instant.requested > target.requested
    return snapshot.timeline.done(instant) > snapshot.timeline.done(target)


def _check_going(snapshot: TableSnapshot, going: Sequence[Instant], since: Instant) -> None:
    """Refuse to roll back what has a savepoint, or what another process may build on."""
    meta, timeline = snapshot.meta, snapshot.timeline
    saved = timeline.savepoints
    for each in going:
        if each.requested in saved:
            raise InvalidArgumentError(
                "the commit has a savepoint: delete that first, then it can be rolled back",
                table=meta.storage.root,
                instant=each.requested,
            )
    write_options = snapshot.write_options
    for each in timeline.pending:
        if each.action.is_planned and each.requested < since.requested:
            continue
        if not each.action.is_planned or not is_available(meta, each, write_options):
            raise BlockedError(
                f"a {each.action.value} is pending; what it writes may build on commits that are to be rolled back: "
                "wait until it's over",
                table=meta.storage.root,
                instant=each.requested,
            )
        if each.action is Action.CLEAN and has_deleted(meta, each):
            raise BlockedError(
                "a clean died after it had deleted files, and readers of earlier commits must know that: complete it "
                "first (Table.run_pending or `pudi run-pending`)",
                table=meta.storage.root,
                instant=each.requested,
            )


def _abort_plans(snapshot: TableSnapshot, since: str) -> None:
    """Abort plans of services that name files of commits that are rolled back; no process runs them."""
    for each in snapshot.timeline.pending:
        if each.action.is_planned and each.requested > since:
            abort(snapshot.meta, each, dead=True)


def _check_before(snapshot: TableSnapshot, commit: Instant) -> None:
    """Refuse to roll a commit back if a clean deleted files that it replaced."""
    written = snapshot.meta.store.read_commit_metadata(commit)
    touched = written.partitions
    left = tuple(each for each in snapshot.timeline.instants if each is not commit)
    _check_whole(snapshot.seeing(replace(snapshot.timeline, instants=left)), sorted(touched))


def _check_whole(snapshot: TableSnapshot, partitions: Sequence[str] | None = None) -> None:
    """Refuse a state whose files are gone.

    Args:
        snapshot: the table, of which a reader sees the state.
        partitions: the partitions to look at; None for all.

    Raises:
        NotFoundError: a file is gone.
        CorruptError: a file isn't what its commit wrote.
    """
    meta, seen = snapshot.meta, snapshot.seen
    for commit in seen.commits:  # the view asks those that have been read
        meta.store.read_commit_metadata(commit)
    listing = StorageListing(meta.storage)
    view = FileSystemView(
        snapshot.timeline, listing, meta.store, ViewOptions(seen, logs=meta.merges_on_read, whole=True)
    )
    view.all_slices() if partitions is None else view.slices_of(partitions)


def _carry_out(snapshot: TableSnapshot, begun: Instant | None, plan: RestorePlan) -> RollbackResult:
    """Roll back what the plan names and is still there, and complete; under the table's lock.

    Args:
        snapshot: the table, loaded under the lock.
        begun: the restore, if it's pending already.
        plan: what it rolls back.
    """
    meta, timeline = snapshot.meta, snapshot.timeline
    if begun is None:
        _abort_plans(snapshot, plan.target)
        begun = meta.store.request(Action.RESTORE, encode_restore_plan(plan))
    began_ms = meta.context.clock.now_ms()
    restore = meta.store.start(begun, shared=True) if begun.state is State.REQUESTED else begun
    done = {}
    for each in timeline.instants:
        if each.action is not Action.ROLLBACK or each.requested < restore.requested:
            continue
        if each.is_completed:
            metadata = decode_rollback_metadata(meta.store.read(each), path=meta.store.path(each))
        else:
            _, metadata = resume(meta, each, restores=True)
        done.update(dict.fromkeys(metadata.commits_rollback, metadata))
    for named in plan.instants:
        target = timeline.commit(named.commit_time)
        if target is not None and named.commit_time not in done:
            _, metadata = roll_back(meta, target, restores=True)
            done[named.commit_time] = metadata
    rolled_back = [(named, done[named.commit_time]) for named in plan.instants if named.commit_time in done]
    took_ms = meta.context.clock.now_ms() - began_ms
    completed = meta.store.complete(restore, encode_restore_metadata(restore.requested, took_ms, rolled_back))
    _forget(meta, [each for each in snapshot.refreshed().timeline.of(Action.ROLLBACK) if each.requested > plan.target])
    times = tuple(named.commit_time for named, _ in rolled_back)
    return RollbackResult(
        restore.requested, completed.completion, times, _deleted([metadata for _, metadata in rolled_back])
    )


def _forget(meta: MetaClient, rollbacks: Sequence[Instant]) -> None:
    """Take completed rollbacks off the timeline, as Hudi's restore does: the restore tells what was done."""
    for state in (State.COMPLETED, State.INFLIGHT, State.REQUESTED):
        delete_for_good(meta.storage, [meta.store.path(each, state) for each in rollbacks])


def _deleted(done: Sequence[RollbackMetadata]) -> int:
    return sum(each.total_files_deleted for each in done)
