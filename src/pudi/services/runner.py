"""Schedule and run table services: the same code for all services and for both kinds of table.

A plan is made under the table's lock as a requested instant. Any process may lease and run it; if that process dies,
the next one reverts the instant and runs the plan again. No job runs while the lock is held.

Source: BaseHoodieTableServiceClient, HoodieBackedTableMetadataWriter.performTableServices.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from pudi.client import MetaClient, TableSnapshot
from pudi.client.result import CLEAN_UP, METADATA_TABLE, ActionReport, CommitResult
from pudi.commit.dead_writers import finish_rollbacks, refuse_pending_restore, sweep
from pudi.commit.lease import PlanTakenError, PlanTransaction, is_available
from pudi.commit.rollback import abort
from pudi.commit.transaction import Work, begin_report
from pudi.config import CleanOptions, CompactionOptions, Options
from pudi.errors import NotFoundError
from pudi.indexes.indexed_commit import IndexStaging
from pudi.metadata_write.build import reconcile_metadata
from pudi.services import async_services, registry
from pudi.services.clean import Clean
from pudi.services.compaction import Compaction
from pudi.services.failures import (
    clear_failure,
    is_resting,
    not_aside,
    note_outcome,
    read_failure,
    setting_aside,
    take_back,
)
from pudi.services.service import DirectService, Inline, PlannedService, TableService
from pudi.services.target import ServiceTarget, TargetSnapshot
from pudi.task import Engine
from pudi.timeline import Instant

_log = logging.getLogger(__name__)


def schedule(service: PlannedService, target: ServiceTarget, *, when_due: bool = False) -> Instant | None:
    """Plan a service under the table's lock.

    Args:
        service: the service.
        target: the table.
        when_due: only if the options ask for it now.

    Returns:
        The requested instant; None if there is nothing to do.

    Raises:
        InvalidArgumentError: wrong options, or a table of the wrong type.
        NotSupportedError: a table that this release can't serve.
        BlockedError: a restore is pending.
    """
    service.check(target)
    service.prepare(target)
    meta = target.meta
    with meta.lock:
        snapshot = target.load()
        if not target.is_metadata:
            snapshot = target.at(finish_rollbacks(snapshot).timeline)
        if (when_due and not service.is_due(snapshot)) or service.must_wait(snapshot):
            return None
        content = service.plan(snapshot)
        if content is None:
            return None
        if not target.is_metadata:
            reconcile_metadata(meta, target.options)
        at = service.requested_time(snapshot) or snapshot.time_apart()
        return meta.store.request(service.action, content, at=at, seen=snapshot.timeline)


def run(
    service: PlannedService, target: ServiceTarget, *, when_due: bool = False, seen: TargetSnapshot | None = None
) -> CommitResult | None:
    """Run the pending plans of a service, then plan it and run that plan.

    Args:
        service: the service.
        target: the table.
        when_due: plan only if the options ask for it now.
        seen: the table of a moment ago, which tells what is pending; None loads it.

    Returns:
        The last commit; None if there was nothing to do.

    Raises:
        ConflictError: another process runs the plan.
        Errors as of `schedule` and `run_instant`.
    """
    if not when_due and _sets_aside(service, target):
        take_back(target.meta.storage, service.name)
    last = _run_plans(service, target, seen)
    instant = schedule(service, target, when_due=when_due)
    if instant is not None:
        last = _execute(service, target, instant)
    _abort_obsolete(target)
    return last


def run_due(
    service: TableService, target: ServiceTarget, seen: TargetSnapshot | None = None
) -> int | CommitResult | None:
    """Run a service of any kind if the options ask for it now; arguments and errors as of `run`.

    Returns:
        The last commit, or the number of things that changed; None or 0 if there was nothing to do.
    """
    if isinstance(service, DirectService):
        return service.run(target)
    assert isinstance(service, PlannedService)
    return run(service, target, when_due=True, seen=seen)


def _run_plans(
    service: PlannedService, target: ServiceTarget, seen: TargetSnapshot | None = None
) -> CommitResult | None:
    """Run the plans of a service that no process runs; arguments and result as of `run`."""
    service.check(target)
    sweep(target.meta, target.options)
    last = None
    for pending in _plans(service, seen or target.load()):
        if is_available(target.meta, pending, target.write_options):
            last = run_instant(service, target, pending) or last
    return last


def run_on_request(service: PlannedService, target: ServiceTarget, *, when_due: bool = False) -> CommitResult | None:
    """Run a service because a user asks for it: also while it rests after failures, which a success ends.

    Arguments, result and errors as of `run`.
    """
    done = run(service, target, when_due=when_due)
    if read_failure(target.meta.storage, service.name) is not None:
        clear_failure(target, service.name)
    return done


def run_pending(
    target: ServiceTarget, services: Collection[str] | None = None, instants: Collection[str] | None = None
) -> list[CommitResult]:
    """Run the plans of services that no other process runs, by service, oldest first.

    Args:
        target: the table.
        services: the names of the services; None for all.
        instants: the requested times of the plans; None for all.

    Raises:
        NotSupportedError: a table that this release can't serve.
        NotFoundError: a file that a plan names is gone.
    """
    done = []
    sweep(target.meta, target.options)
    for service in registry.planned_services():
        wanted = services is None or service.name in services
        plans = target.load().timeline.pending_of(service.action) if wanted else ()
        for instant in plans if instants is None else [each for each in plans if each.requested in instants]:
            service.check(target)
            if _sets_aside(service, target):
                take_back(target.meta.storage, service.name)
            if is_available(target.meta, instant, target.write_options):
                result = run_instant(service, target, instant)
                if result is not None:
                    done.append(result)
            else:
                _log.info("the %s %s is being run by another process", service.name, instant.requested)
    return done


def run_instant(service: PlannedService, target: ServiceTarget, instant: Instant) -> CommitResult | None:
    """Run a planned service.

    Args:
        service: the service.
        target: the table.
        instant: its pending instant.

    Returns:
        The commit; None if the plan was obsolete and has been aborted.

    Raises:
        ConflictError: another process runs it, or the files that it read were rolled back, or a restore is pending.
        NotFoundError: a file that the plan names is gone.
        CorruptError: the plan or a file can't be read, or a written file differs from the merged slice (only with
            verification); nothing was published.
    """
    if _abort_if_obsolete(service, target, instant):
        return None
    if not target.is_metadata:
        refuse_pending_restore(target.load())
        reconcile_metadata(target.meta, target.options)
    return _execute(service, target, instant)


def run_before_write(meta: MetaClient, engine: Engine, options: Options, report: ActionReport) -> bool:
    """Run a clean if the options ask for one before each write; arguments as of `run_on_metadata_table`.

    Source: BaseHoodieWriteClient.runPreWriteCleanerPolicy.

    Returns:
        Whether the options ask for one, so that the timeline may have changed.
    """
    if options[CleanOptions.before_write] != "CLEAN" or not options[CompactionOptions.services]:
        return False
    with report.before_commit(Clean.name):
        run(Clean(), ServiceTarget.of_table(meta, engine, options), when_due=True)
    return True


def run_after_commit(seen: TableSnapshot, engine: Engine, report: ActionReport) -> None:
    """Run the services that the options ask for after a commit; those of the metadata table ran before it.

    The commit stands even if a service fails: its plan stays for the next writer.

    Args:
        seen: the data table with the commit and the writer's options, which tells what is due; other commits may be
            missing.
        engine: runs the jobs.
        report: of the write; collects errors by service.
    """
    target = ServiceTarget.of_table(seen.meta, engine, seen.options)
    snapshot = target.at(seen.timeline)
    for service in _enabled(target):
        with report.after_commit(service.name):
            if _run_inline(service, snapshot):
                snapshot = target.load()


def run_on_metadata_table(
    meta: MetaClient, engine: Engine, options: Options, report: ActionReport, check: Callable[[], None]
) -> None:
    """Run the services of a table's metadata table that are due, right before a write's own deltacommit.

    A compaction of the metadata table can't be rolled back. So the newest commit of the table stays apart from it:
    compacted are the commits before the one that is about to complete. And it waits while a pending instant of the
    table has a deltacommit in the metadata table: if that writer died, its deltacommit will be rolled back.

    The write goes on if a service fails: its plan stays for the next writer.

    Args:
        meta: the data table.
        engine: runs the jobs.
        options: the writer's options.
        report: of the write; collects errors by service.
        check: raises an error if the write can't complete any more; called before log files are merged, since the
            commit that is the newest without the write could then not be rolled back.
    """
    if not meta.config.metadata_partitions:
        return
    services = list[TableService]()
    with report.before_commit(METADATA_TABLE):
        target = ServiceTarget.of_metadata_table(meta, engine, options)
        services = _enabled(target)
        opened = meta.opened.table  # as this write began; what comes due meanwhile can wait for the next one
        if opened is not None and not any(_is_wanted(each, target.at(opened[1].timeline)) for each in services):
            return
        snapshot = target.load()
    if any(_is_wanted(service, snapshot) for service in services if isinstance(service, Compaction)):
        check()
    for service in services:
        with report.before_commit(METADATA_TABLE):
            if _run_inline(service, snapshot) and isinstance(service, PlannedService):
                snapshot = target.load()


def _is_wanted(service: TableService, snapshot: TargetSnapshot) -> bool:
    """Return whether a service has something to do, as far as that can be told."""
    try:
        return bool(_plans(service, snapshot)) or service.is_due(snapshot)
    except Exception:  # noqa: BLE001 - running it says what is wrong
        return True


def _enabled(target: ServiceTarget) -> list[TableService]:
    """Return the services that run after commits to a table."""
    if not target.options[CompactionOptions.services] and not target.is_metadata:
        return []
    return [service for service in registry.SERVICES if service.inline(target) is not Inline.NOTHING]


def _run_inline(service: TableService, snapshot: TargetSnapshot) -> bool:
    """Run or schedule a service if it is due by a snapshot and doesn't rest; return whether it did.

    One that runs beside writes only begins here.
    """
    target = snapshot.target
    pending, how = _plans(service, snapshot), service.inline(target)
    if how is Inline.SCHEDULE and pending:
        return False
    error = None
    try:
        if not pending and not service.is_due(snapshot):
            return False
    except Exception as raised:  # noqa: BLE001 - raised again, unless it was before and the service rests
        error = raised
    before = read_failure(target.meta.storage, service.name)
    if is_resting(target, before):
        _log.info("table %s: the %s rests: it %s", target.meta.storage.root, service.name, before)
        return False
    if how is Inline.RUN_ASYNC or (pending and how.is_async):
        _begin(service, target)
        return False
    try:
        with note_outcome(target, service.name, before):
            if error is not None:
                raise error
            if not how.only_schedules:
                return bool(run_due(service, target, snapshot))
            assert isinstance(service, PlannedService)
            scheduled = schedule(service, target, when_due=True) is not None
    except PlanTakenError as taken:  # what was due is done by another writer
        _log.info("table %s: %s", target.meta.storage.root, taken)
        return False
    if scheduled and how.is_async:
        _begin(service, target)
    return scheduled


def _begin(service: TableService, target: ServiceTarget) -> None:
    """Run a service beside the following writes."""
    async_services.begin(
        target.meta, service.name, lambda: _run_beside(service, target), target.options[CompactionOptions.exit_seconds]
    )


def _run_beside(service: TableService, target: ServiceTarget) -> None:
    """Run the plans of a service, or all of it where the commit hasn't planned it; with a client of its own."""
    meta = target.meta.now()
    own = ServiceTarget.of_table(meta, target.engine, target.options)
    try:
        with note_outcome(own, service.name, read_failure(meta.storage, service.name)):
            if isinstance(service, PlannedService) and service.inline(own) is not Inline.RUN_ASYNC:
                _run_plans(service, own)
            else:
                run_due(service, own)
    except PlanTakenError as taken:
        _log.info("table %s: %s", meta.storage.root, taken)


def _sets_aside(service: PlannedService, target: ServiceTarget) -> bool:
    return service.is_set_aside and not target.is_metadata


def _plans(service: TableService, snapshot: TargetSnapshot) -> Sequence[Instant]:
    """Return the pending plans of a service that automatic runs don't pass over; a direct service has none."""
    if not isinstance(service, PlannedService):
        return ()
    plans = snapshot.timeline.pending_of(service.action)
    return not_aside(snapshot.meta.storage, plans) if _sets_aside(service, snapshot.target) else plans


def _abort_obsolete(target: ServiceTarget) -> None:
    """Abort the obsolete plans of all services."""
    timeline = target.load().timeline
    for service in registry.planned_services():
        for instant in timeline.pending_of(service.action):
            _abort_if_obsolete(service, target, instant)


def _abort_if_obsolete(service: PlannedService, target: ServiceTarget, instant: Instant) -> bool:
    """Abort a plan that must not be run any more, unless another process runs it; return whether it was aborted."""
    meta = target.meta
    with meta.lock:
        snapshot = target.load()
        current = snapshot.timeline.find(instant.requested, instant.action)
        if current is None or not service.is_obsolete(snapshot, current):
            return False
        if not is_available(meta, current, target.write_options):
            return False  # the lease reports it
        abort(meta, current, dead=True)
    return True


@contextmanager
def _advising(plan: Instant) -> Iterator[None]:
    """Say what to do with a plan whose files are gone, for example after a restore by a release that leaves plans."""
    try:
        yield
    except NotFoundError as error:
        error.message = (
            f"{error.message}; the plan of {plan.action.value} {plan.requested} names it: bring the file back, or drop "
            f"the plan by table.rollback({plan.requested!r})"
        )
        raise


def _execute(service: PlannedService, target: ServiceTarget, instant: Instant) -> CommitResult:
    """Run a plan that no other process runs; its failure is noted, and sets it aside after others in the same way."""
    if not _sets_aside(service, target):
        return _run_leased(service, target, instant)
    groups = partial(service.groups_of, target, instant)
    with setting_aside(target.meta, instant, service.name, groups, target.write_options):
        return _run_leased(service, target, instant)


def _run_leased(service: PlannedService, target: ServiceTarget, instant: Instant) -> CommitResult:
    report = begin_report(target.meta, service.name)
    with PlanTransaction(target.meta, instant, target.options, report) as transaction:
        lease = transaction.lease
        run = service.open(target, lease)
        transaction.conditions.append(run)
        with report.phase("write"), _advising(instant):
            results = target.run_jobs(instant.requested, run.jobs(), run.operations)
        stats = [stat for result in results for stat in result.stats]
        with report.phase("commit"):
            lease.keep([path for stat in stats for path in stat.paths])
            metadata = run.metadata(stats)
            run.before_commit()
            staging = IndexStaging(target.engine, run.snapshot, run=lease.named)
            done = transaction.commit(Work(metadata, staging=staging, removed=run.removed, content=run.content()))
        with report.after_commit(CLEAN_UP):
            run.after_commit()
            lease.end()
    deleted = 0 if run.removed is None else sum(map(len, run.removed.files.values()))
    return report.result(done, metadata, deleted)
