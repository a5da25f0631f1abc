"""`if_unchanged_since`: find the commits that a reader of an instant hasn't seen, in the archive too."""

from __future__ import annotations

from pudi.client.meta_client import MetaClient
from pudi.concurrency import Reads, Touched, Unchanged
from pudi.concurrency.touched import KeyScope
from pudi.concurrency.unchanged import counts
from pudi.errors import InvalidArgumentError, NotFoundError
from pudi.format import Action, millis_to_instant
from pudi.plan import WritePlan
from pudi.timeline import Timeline, day_before


def unchanged_since(meta: MetaClient, timeline: Timeline, since: str) -> Unchanged:
    """Return the check that nothing a write depends on changed since an instant.

    Args:
        meta: the table.
        timeline: its timeline now.
        since: `Scan.instant`, or the requested or completion time of a commit; zeros for a table without commits.

    Raises:
        InvalidArgumentError: `since` is no instant, or lies in the future.
        NotFoundError: the history since then is neither on the timeline nor in the archive.
        ChangedSinceError: the commit of that instant was rolled back.
    """
    _check_instant(meta, timeline, since)
    whole = _with_history(meta, timeline, since)
    if whole.commit(since) is None:
        _check_not_undone(meta, whole, since)
    _check_known(meta, timeline, whole, since)
    unseen = tuple(i for i in whole.unseen(since) if counts(i))
    return Unchanged(meta.store, since, unseen, frozenset(i.requested for i in whole.instants if counts(i)))


def planned(plan: WritePlan, scope: KeyScope | None, reads: Reads | None) -> Touched:
    """Return what a planned write will touch.

    Args:
        plan: the files to write.
        scope: where a key is in one file group.
        reads: the partitions that the write reads.
    """
    known = frozenset((task.partition, task.file_id) for task in plan.tasks if task.location is not None)
    return Touched(known, frozenset(route.partition for route in plan.routes), scope, reads)


def _check_instant(meta: MetaClient, timeline: Timeline, since: str) -> None:
    if not isinstance(since, str) or not (since.isascii() and since.isdigit() and len(since) in {14, 17}):
        raise InvalidArgumentError(
            f"if_unchanged_since={since!r} is no instant: give that of the scan that was read (Scan.instant)",
            table=meta.storage.root,
        )
    now = millis_to_instant(meta.context.clock.now_ms(), meta.config.timezone)
    if since > max(now, timeline.newest_time or ""):
        raise InvalidArgumentError(
            f"if_unchanged_since={since} lies in the future, so that it's no instant that the table was read at",
            table=meta.storage.root,
        )


def _with_history(meta: MetaClient, timeline: Timeline, since: str) -> Timeline:
    """Return the timeline with archived commits that may be unseen.

    As Hudi's reads, it assumes that no commit takes longer than a day (CompletionTimeQueryViewV2).
    """
    earliest = day_before(since) if timeline.rules.has_completion_times else since
    if timeline.start is None or earliest >= timeline.start or not meta.store.has_history():
        return timeline
    return timeline.with_archived(meta.store.archived(None if since < timeline.start else earliest))


def _check_not_undone(meta: MetaClient, whole: Timeline, since: str) -> None:
    """Raise an error if the commit of the instant was rolled back."""
    for rollback in whole.of(Action.ROLLBACK):
        if rollback.requested > since and since in (meta.store.decoded(rollback).get("commitsRollback") or ()):
            nothing = Unchanged(meta.store, since, (), frozenset())
            raise nothing.changed(f"rollback {rollback.requested} took that commit itself back", rollback.requested)


def _check_known(meta: MetaClient, timeline: Timeline, whole: Timeline, since: str) -> None:
    """Raise an error if commits since an instant may be missing from both timeline and archive.

    An archive that reaches back to the instant has them. Without one, the instant must be that of an existing commit
    (one with a savepoint stays when others are archived) or precede the first one, and no file may be of a missing
    commit.
    """
    start = timeline.start
    if start is None or since >= start or any(i.archived and i.requested <= since for i in whole.commits):
        return
    if whole.commit(since) is None and set(since) != {"0"}:
        raise _unknown(meta, since, start)
    known = {i.requested for i in whole.commits}
    for each in meta.view(whole, sizes=False).all_slices():
        if any(file < start and file not in known for file in (each.instant, *(log.instant for log in each.logs))):
            raise _unknown(meta, since, start)


def _unknown(meta: MetaClient, since: str, start: str) -> NotFoundError:
    return NotFoundError(
        f"what was written since {since} can't be known: the timeline begins at {start}, and the archive holds nothing "
        "of before. Read the table again, and write the new result with the new scan's instant",
        table=meta.storage.root,
        instant=since,
    )
