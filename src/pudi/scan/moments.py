"""The moments and spans of time that reads name: their commits, the columns then, and what cleans left of them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

import pyarrow as pa

from pudi.client import MetaClient, TableSnapshot
from pudi.client.lost_instants import refuse_losses
from pudi.errors import InvalidArgumentError, NotFoundError, naming
from pudi.filegroup.clean_history import Cleaned, cleans_after, naming_retained, retained_text
from pudi.format import Action, FileGroupId, parse_data_file
from pudi.timeline import Instant, Timeline, day_before, parse_time

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CommitSpan:
    """The commits of a span of time.

    Attributes:
        commits: these commits.
        after: completion time after which the span begins; None for the first instant.
        until: completion time at which it ends; None where it doesn't.
    """

    commits: Sequence[Instant]
    after: str | None = None
    until: str | None = None

    def refuse_losses(self, snapshot: TableSnapshot) -> None:
        """Raise an error if a read of the span would miss a lost instant; see `lost_instants.refuse_losses`."""
        timeline = snapshot.timeline
        later = [i for i in timeline.commits if self.after is None or timeline.order(i) > self.after]
        refuse_losses(snapshot, later, after=self.after, until=self.until)


def bounds_of(meta: MetaClient, since: str | date | None, until: str | date | None) -> tuple[str | None, str | None]:
    """Return the times after which, and up to which, commits count; None for all.

    Raises:
        InvalidArgumentError: `since` is later than `until`, or no point in time.
    """
    zone = meta.config.timezone
    with naming(None, meta.storage.root):
        low = None if since is None or since == "earliest" else parse_time(since, zone, what="since")
        high = None if until is None else parse_time(until, zone, what="until")
    if low is not None and high is not None and low > high:
        raise InvalidArgumentError(f"since={since!r} is later than until={until!r}", table=meta.storage.root)
    return (None if low is not None and set(low) == {"0"} else low), high


def warn_before_first(snapshot: TableSnapshot, what: str, moment: object) -> None:
    """Log a warning if a moment lies before the first commit: it's read as an empty table, as by Hudi.

    Args:
        snapshot: the table as it was then, with archived instants where the moment may be older than the active ones.
        what: the argument that gave the moment.
        moment: its value.
    """
    if snapshot.timeline.commits and not snapshot.seen.commits:
        _log.warning(
            "table %s: %s=%r lies before the table's first commit, %s: there are no rows. pudi.Table.history() lists "
            "the commits",
            snapshot.table,
            what,
            str(moment),
            snapshot.timeline.commits[0].requested,
        )


def completion_of(timeline: Timeline, time: str | None) -> str | None:
    """Return when a commit completed, given its requested time; any other time as it is.

    Hudi compares requested times in change data queries: there a commit's own requested time leaves it behind.
    """
    commits = [] if time is None or not timeline.rules.has_completion_times else timeline.commits
    if time is None or any(commit.completion == time for commit in commits):
        return time
    return next((commit.completion for commit in commits if commit.requested == time and commit.completion), time)


def day_of(timeline: Timeline, low: str | None) -> str | None:
    """Return the earliest requested time of instants that may have completed after `low`; None for any.

    Like Hudi's, that takes it that no commit lasts longer than a day (CompletionTimeQueryViewV2).
    """
    return day_before(low) if low is not None and timeline.rules.has_completion_times else low


def cleaned_after(timeline: Timeline, time: str) -> bool:
    """Return whether a clean completed after a time: file slices of that time may be gone."""
    return any(timeline.order(clean) > time for clean in timeline.of(Action.CLEAN))


def reaches_archive(snapshot: TableSnapshot, low: str | None) -> bool:
    """Return whether commits that readers see after `low`, None for all, may have been archived."""
    timeline = snapshot.timeline
    if not timeline.instants:
        return False
    oldest = timeline.start  # a commit with a savepoint may be older, and what came right after it archived
    earliest = day_of(timeline, low)
    return (earliest is None or oldest is None or earliest < oldest) and snapshot.meta.store.has_history()


def seen_until(snapshot: TableSnapshot, completion: str | None) -> TableSnapshot:
    """Return the table for a reader of what completed up to a time; None for all."""
    return snapshot if completion is None else snapshot.seeing(snapshot.timeline.completed_until(completion))


def columns_seen(snapshot: TableSnapshot) -> pa.Schema:
    """Return the columns that a reader sees; before the table's first commit, those it was made with or has now."""
    if snapshot.seen.commits or snapshot.config.create_schema:
        return snapshot.schema.columns
    return snapshot.seeing(snapshot.timeline).schema.columns


def refuse_cleaned(snapshot: TableSnapshot, instant: str) -> None:
    """Refuse a moment that cleans did not keep (TimelineUtils.validateTimestampAsOf, which looks at the last clean).

    The files of a commit with a savepoint are all kept; Hudi refuses to read them by time travel.

    Raises:
        NotFoundError: a clean kept no commit of the moment, or deleted files that the moment needs.
    """
    meta, timeline = snapshot.meta, snapshot.timeline
    seen = timeline.until(instant)
    newest = max((each.requested for each in seen.commits), default=None)
    if newest in timeline.savepoints:
        return
    cleans = cleans_after(meta.store, timeline, instant)
    if not any(each.retained > instant for each in cleans):
        cleans = cleans_after(meta.store, timeline, instant, archived=True)
    earliest = max((each.retained for each in cleans), default="")
    if cleans and not earliest:  # they keep this many versions of each file: all of the active timeline counts as kept
        earliest = next((i.requested for i in timeline.commits if not i.archived), "")
    if earliest and instant < earliest:
        text = retained_text(timeline, cleans) or f"the earliest commit that cleans kept is {earliest}"
        raise NotFoundError(
            f"the cleaner has removed the table's state at {instant}; {text}", table=snapshot.table, instant=instant
        )
    _refuse_lost_slices(snapshot.seeing(seen), instant, cleans)


def _refuse_lost_slices(snapshot: TableSnapshot, instant: str, cleans: Sequence[Cleaned]) -> None:
    """Refuse a moment of which a cleaner that counts slices kept some file groups and not others.

    Such a cleaner states no earliest commit, and deletes replaced file groups immediately.
    """
    deleted = _deleted_files(snapshot.meta, snapshot.seen, [each for each in cleans if not each.retained], instant)
    if not deleted:
        return
    with naming_retained(snapshot.meta.store):
        slices = snapshot.view(archived_until=instant).all_slices()
    there = {each.group: each.instant for each in slices}
    for group, newest in deleted.items():
        if there.get(group, "") <= newest:
            raise NotFoundError(
                f"the cleaner has removed files of the table's state at {instant}: those of {group.text} "
                f"that {newest} wrote; read a later state; {retained_text(snapshot.timeline, cleans)}",
                table=snapshot.table,
                instant=instant,
            )


def _deleted_files(meta: MetaClient, seen: Timeline, cleans: Sequence[Cleaned], instant: str) -> dict[FileGroupId, str]:
    """Return the greatest instant among deleted files of each file group that the table had at a moment.

    What was replaced by then, or whose commit wasn't completed, no reader of that moment needs.
    """
    committed, first = {each.requested for each in seen.commits}, seen.start or ""
    found: dict[FileGroupId, str] = {}
    for partition, names in (pair for each in cleans for pair in each.deleted.items()):
        for name in (parsed for parsed in map(parse_data_file, names) if parsed is not None):
            if name.instant in committed or name.instant < first:
                group = FileGroupId(partition, name.file_id)
                found[group] = max(found.get(group, ""), name.instant)
    if not found:
        return {}
    oldest = min(found.values())
    archived = meta.store.archived(oldest) if oldest < first and meta.store.has_history() else ()
    replaced = {
        group
        for each in (*archived, *seen.instants)
        if each.action is Action.REPLACECOMMIT and each.is_completed and each.requested <= instant
        for group in meta.store.read_commit_metadata(each).replaced_groups
    }
    return {group: newest for group, newest in found.items() if group not in replaced}
