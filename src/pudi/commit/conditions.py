"""Conditions of a commit: what must hold, under the table's lock, when an instant completes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from pudi.client import MetaClient, TableSnapshot
from pudi.concurrency import ConflictCheck, Reads, Touched, Unchanged
from pudi.concurrency.touched import KeyScope, counts
from pudi.config import check_writable
from pudi.errors import ChangedSinceError, ConflictError, InvalidArgumentError, NotFoundError
from pudi.format import Action, millis_to_instant
from pudi.plan import WritePlan
from pudi.timeline import Instant, Timeline, TimelineStore, day_before


def unchanged_since(snapshot: TableSnapshot, since: str) -> Unchanged:
    """Return the check that nothing a write depends on changed since an instant.

    Args:
        snapshot: the table now.
        since: `Scan.instant`, or the requested or completion time of a commit; zeros for a table without commits.

    Raises:
        InvalidArgumentError: `since` is no instant, or lies in the future.
        NotFoundError: the history since then is neither on the timeline nor in the archive.
        ChangedSinceError: the commit of that instant was rolled back.
    """
    _check_instant(snapshot, since)
    store, whole = snapshot.meta.store, _with_history(snapshot, since)
    if whole.commit(since) is None:
        _check_not_undone(store, whole, since)
    _check_known(snapshot, whole, since)
    unseen = tuple(i for i in whole.unseen(since) if counts(i))
    return Unchanged(store, since, unseen, frozenset(i.requested for i in whole.instants if counts(i)))


def planned(plan: WritePlan, scope: KeyScope | None, reads: Reads | None) -> Touched:
    """Return what a planned write will touch.

    Args:
        plan: the files to write.
        scope: where a key is in one file group.
        reads: the partitions that the write reads.
    """
    known = frozenset(task.group for task in plan.tasks if task.location is not None)
    return Touched(known, frozenset(route.partition for route in plan.routes), scope, reads)


def _check_instant(snapshot: TableSnapshot, since: str) -> None:
    if not isinstance(since, str) or not (since.isascii() and since.isdigit() and len(since) in {14, 17}):
        raise InvalidArgumentError(
            f"if_unchanged_since={since!r} is no instant: give that of the scan that was read (Scan.instant)",
            table=snapshot.table,
        )
    now = millis_to_instant(snapshot.meta.context.clock.now_ms(), snapshot.config.timezone)
    if since > max(now, snapshot.timeline.newest_time or ""):
        raise InvalidArgumentError(
            f"if_unchanged_since={since} lies in the future, so that it's no instant that the table was read at",
            table=snapshot.table,
        )


def _with_history(snapshot: TableSnapshot, since: str) -> Timeline:
    """Return the timeline with archived commits that may be unseen.

    As Hudi's reads, it assumes that no commit takes longer than a day (CompletionTimeQueryViewV2).
    """
    timeline, store = snapshot.timeline, snapshot.meta.store
    earliest = day_before(since) if timeline.rules.has_completion_times else since
    if timeline.start is None or earliest >= timeline.start or not store.has_history():
        return timeline
    return timeline.with_archived(store.archived(None if since < timeline.start else earliest))


def _check_not_undone(store: TimelineStore, whole: Timeline, since: str) -> None:
    """Raise an error if the commit of the instant was rolled back."""
    for rollback in whole.of(Action.ROLLBACK):
        if rollback.requested > since and since in (store.decoded(rollback).get("commitsRollback") or ()):
            nothing = Unchanged(store, since, (), frozenset())
            raise nothing.changed(f"rollback {rollback.requested} took that commit itself back", rollback.requested)


def _check_known(snapshot: TableSnapshot, whole: Timeline, since: str) -> None:
    """Raise an error if commits since an instant may be missing from both timeline and archive.

    An archive that reaches back to the instant has them. Without one, the instant must be that of an existing commit
    (one with a savepoint stays when others are archived) or precede the first one, and no file may be of a missing
    commit.
    """
    start = snapshot.timeline.start
    if start is None or since >= start or any(i.archived and i.requested <= since for i in whole.commits):
        return
    if (whole.commit(since) is None and set(since) != {"0"}) or _has_files_of_others(snapshot.at(whole), start):
        raise NotFoundError(
            f"what was written since {since} can't be known: the timeline begins at {start}, and the archive holds "
            "nothing of before. Read the table again, and write the new result with the new scan's instant",
            table=snapshot.table,
            instant=since,
        )


def _has_files_of_others(snapshot: TableSnapshot, start: str) -> bool:
    """Return whether a file is of an instant before the timeline's start that isn't among the commits."""
    known = {each.requested for each in snapshot.timeline.commits}
    slices = snapshot.view(sizes=False).all_slices()
    instants = {time for each in slices for time in (each.instant, *(log.instant for log in each.logs))}
    return any(time < start for time in instants - known)


@dataclass(slots=True)
class SoleProgress:
    """Refuses a commit of a job if another process has committed for the same job since this one looked.

    Both began at one place, and would write the same records: an insert would count them twice.

    Attributes:
        states: whether a commit's extra metadata says how far the job has got.
        seen: requested times of the commits that this process knows; those that were archived since are forgotten.
    """

    states: Callable[[Mapping[str, str]], bool]
    seen: set[str]

    def check(self, meta: MetaClient, now: Timeline) -> None:
        """Check the commits that have completed meanwhile; called under the table's lock.

        Raises:
            ChangedSinceError: one of them is of the same job.
        """
        for instant in now.commits:
            if instant.requested in self.seen:
                continue
            if self.states(meta.store.read_commit_metadata(instant).extra_metadata or {}):
                raise ChangedSinceError(
                    f"commit {instant.requested} has gone on with this job meanwhile: another process runs it too; "
                    "nothing of this batch is visible. Run one at a time",
                    table=meta.storage.root,
                    instant=instant.requested,
                )
            self.seen.add(instant.requested)
        self.seen.intersection_update([instant.requested for instant in now.commits])


def is_gone(meta: MetaClient, timeline: Timeline, requested: str) -> bool:
    """Return whether a commit was rolled back, or its table created again; an archived commit is not gone.

    Args:
        meta: the table.
        timeline: its active timeline.
        requested: the requested time of a commit that completed.
    """
    if timeline.commit(requested) is not None:
        return False
    return timeline.start is None or requested > timeline.start or not meta.store.has_history()


class CommitCondition(Protocol):
    """A condition of a commit."""

    def check(self, now: Timeline) -> None:
        """Check it under the table's lock, before anything of the commit is visible.

        Args:
            now: the timeline, listed under the lock.

        Raises:
            PudiError: it doesn't hold; the commit doesn't complete.
        """


def refuse_changed_schema(seen: TableSnapshot, now: TableSnapshot) -> None:
    """Refuse to go on with an action when the table's schema isn't the one that the action began with.

    Args:
        seen: the table at the start of the action.
        now: the table now.

    Raises:
        ConflictError: another writer changed the schema.
    """
    if not _same_schema(seen, now):
        newest = max((i.requested for i in now.timeline.commits), default="none")
        raise ConflictError(
            f"another writer changed the table's schema meanwhile (the newest commit is {newest}); nothing of this "
            "write is visible; read the table again and retry",
            table=now.table,
        )


def _same_schema(one: TableSnapshot, other: TableSnapshot) -> bool:
    return one.schema == other.schema and one.schema_by_id == other.schema_by_id


def refuse_older_columns(ran: TableSnapshot, now: Timeline, instant: Instant) -> None:
    """Refuse to complete a plan that would state older columns than a write that was requested before it.

    Hudi's readers take the schema of the commit that was requested last, also of a table service.

    Args:
        ran: the table by which the plan ran.
        now: the timeline under the table's lock.
        instant: the plan's instant.

    Raises:
        ConflictError: a write changed the columns meanwhile.
    """
    before, after = (ran.at(each.until(instant.requested)) for each in (ran.timeline, now))
    if not _same_schema(before, after):
        raise ConflictError(
            f"a write that was under way changed the table's columns while the {instant.action.value} ran: run the "
            "plan again",
            table=ran.table,
            instant=instant.requested,
        )


@dataclass(frozen=True, slots=True)
class NothingCommitted:
    """No other writer has committed since the start.

    Files of a commit that was requested later and completed earlier would be read by a schema that they don't have.
    """

    meta: MetaClient
    conflicts: ConflictCheck

    def check(self, now: Timeline) -> None:
        """Look for commits that completed since the start.

        Raises:
            ConflictError: there is one.
        """
        if self.conflicts.new_commits(now):
            raise ConflictError(
                "another writer committed meanwhile; change the columns again", table=self.meta.storage.root
            )


@dataclass(frozen=True, slots=True)
class SchemaUnchanged:
    """The table has the schema that a write began with, and this release can still write the table.

    Attributes:
        seen: the table at the start of the write; its properties are read again if another writer may have changed
            them.
        conflicts: the conflict check of the write, which knows the commits since.
    """

    seen: TableSnapshot
    conflicts: ConflictCheck

    def check(self, now: Timeline) -> None:
        """Compare the schemas if there are commits since the start.

        Raises:
            ConflictError: another writer changed the schema.
            NotSupportedError: the table changed, and this release can't write it any more.
        """
        if self.conflicts.new_commits(now):
            refuse_changed_schema(self.seen, self.seen.at(now))
            self.seen.meta.reload()
            check_writable(self.seen.config, self.seen.table, self.seen.options)


@dataclass(frozen=True, slots=True)
class ProgressIsSole:
    """No other process has gone on with the job that a write belongs to."""

    meta: MetaClient
    progress: SoleProgress

    def check(self, now: Timeline) -> None:
        """Look at the commits that completed meanwhile; see `SoleProgress.check`."""
        self.progress.check(self.meta, now)
