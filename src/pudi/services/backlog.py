"""Measure a service's backlog: overdue commits, and the instant that blocks it."""

from __future__ import annotations

from dataclasses import replace

from pudi.config import ArchiveOptions, CleanOptions, CleanPolicy
from pudi.format import Action, State
from pudi.services.archive_plan import ArchivePlan
from pudi.services.clean_plan import earliest_to_retain, last_clean
from pudi.services.target import ServiceTarget
from pudi.timeline import Timeline

_PENDING = (State.REQUESTED, State.INFLIGHT)
Backlog = tuple[int, str | None]
"""Number of commits, and the requested time of the instant that blocks the service; None where nothing does."""


def clean_backlog(target: ServiceTarget, timeline: Timeline) -> Backlog:
    """Return how many commits a clean could pass since the last one; it is blocked by a pending clean or write.

    A clean passes the commits before the earliest one that stays readable, which a pending instant holds back. Slices
    that savepoints keep don't block it.

    Args:
        target: the table; a metadata table has no backlog, since its cleans follow its compactions.
        timeline: its timeline.

    Raises:
        CorruptError: the last clean can't be read.
    """
    if target.is_metadata:
        return 0, None
    meta, options = target.meta, CleanOptions.of(target.options)
    last = last_clean(meta, timeline)
    pending = min((each.requested for each in timeline.of(Action.CLEAN, *_PENDING)), default=None)
    if options.policy == CleanPolicy.VERSIONS:
        cleaned = last.get("lastCompletedCommitTimestamp") or ""
        return sum(each.requested > cleaned for each in timeline.commits), pending
    settled = replace(timeline, instants=tuple(each for each in timeline.instants if each.is_completed))
    wanted = earliest_to_retain(meta, settled, options)
    if wanted is None:
        return 0, None
    reached = earliest_to_retain(meta, timeline, options)
    if pending is None and (reached is None or reached.requested < wanted.requested):
        pending = _oldest_write(timeline)
    before = last.get("earliestCommitToRetain") or ""
    return sum(before <= each.requested < wanted.requested for each in timeline.commits), pending


def compaction_backlog(target: ServiceTarget, timeline: Timeline, waiting: int, *, waits: bool) -> Backlog:
    """Return the deltacommits since the last compaction; it is blocked by a pending plan, or by pending writes.

    Args:
        target: the table.
        timeline: its timeline.
        waiting: number of these deltacommits.
        waits: whether a pending write forbids a plan (`Compaction.must_wait`).
    """
    plans = [each.requested for each in timeline.of(Action.COMPACTION, *_PENDING)]
    if plans:
        return waiting, min(plans)
    return waiting, _oldest_write(target.data.store.load() if target.is_metadata else timeline) if waits else None


def archive_backlog(target: ServiceTarget, timeline: Timeline, plan: ArchivePlan) -> Backlog:
    """Return how many commits archiving should move; it is blocked by what keeps the first one that stays.

    Args:
        target: the table.
        timeline: its timeline.
        plan: what an archiving moves now.

    Raises:
        InvalidArgumentError: wrong options.
        CorruptError: the last clean can't be read.
    """
    if plan.wanted:
        return plan.wanted, None if plan.bound is None else plan.bound.instant or None
    options, number = ArchiveOptions.of(target.options), len(timeline.commits)
    if number <= options.keep_max_commits:
        return 0, None
    _, blocked_by = clean_backlog(target, timeline)  # what cleaning can't pass, archiving can't either
    return (0, None) if blocked_by is None else (number - options.keep_min_commits, blocked_by)


def _oldest_write(timeline: Timeline) -> str | None:
    """Return the oldest pending instant that isn't a clean, a rollback or a build of an index."""
    skipped = {Action.CLEAN, Action.ROLLBACK, Action.INDEXING}
    return min((each.requested for each in timeline.pending if each.action not in skipped), default=None)
