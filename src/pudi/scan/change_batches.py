"""A table's changes in batches: from the offset that a reader has reached to the next one.

An offset is a completion time, below table version 8 a requested time, as in `changes_scan`. No commit completes later
at an earlier offset, so two reads between the same offsets give the same rows, whatever was committed meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pudi.client import MetaClient, TableSnapshot
from pudi.client.schema_commit import SERVICE_OPERATIONS
from pudi.errors import InvalidArgumentError
from pudi.format import Action, WriteStat
from pudi.scan.moments import cleaned_after, day_of, reaches_archive
from pudi.timeline import Instant, Timeline

EARLIEST = "0" * 14
"""The offset before a table's first commit (HoodieSourceOffset.INIT_OFFSET, HoodieTimeline.INIT_INSTANT_TS)."""


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Limits of a batch, which takes at least one commit; None for no limit.

    Attributes:
        commits: number of commits.
        records: records that they inserted and updated.
        files: files that they wrote.
        size: bytes that they wrote.
    """

    commits: int | None = None
    records: int | None = None
    files: int | None = None
    size: int | None = None

    @property
    def some(self) -> bool:
        """Whether there is a limit."""
        return any(most is not None for most in (self.commits, self.records, self.files, self.size))

    def exceeded(self, commits: int, stats: list[WriteStat]) -> bool:
        """Whether that many commits, which wrote these files, are more than a batch takes."""
        taken = (
            (self.commits, commits),
            (self.records, sum(s.num_inserts + s.num_update_writes for s in stats)),
            (self.files, len(stats)),
            (self.size, sum(s.total_write_bytes for s in stats)),
        )
        return any(most is not None and count > most for most, count in taken)


NO_LIMITS = BatchLimits()


@dataclass(frozen=True, slots=True)
class ChangeBatch:
    """The commits after an offset that come next.

    Attributes:
        since: the offset that they come after.
        until: the offset of the last of them.
        brings_records: whether one of them may have changed records; table services change none.
    """

    since: str
    until: str
    brings_records: bool


def newest_offset(snapshot: TableSnapshot) -> str:
    """Return the offset that all commits that a reader sees now are at or before."""
    timeline = snapshot.timeline
    return max((timeline.order(each) for each in visible_commits(timeline)), default=EARLIEST)


def next_batch(
    snapshot: TableSnapshot,
    since: str,
    limits: BatchLimits = NO_LIMITS,
    *,
    until: str | None = None,
    has_read: bool = False,
) -> ChangeBatch | None:
    """Return the next batch after an offset; None if no commit has completed since.

    From `EARLIEST` it's the whole table. A batch isn't limited if a clean has run after the limit's offset: the file
    slices of that time may be gone, those of the newest commit are there, and hold the last version of each record.

    Args:
        snapshot: the table now.
        since: the offset that is reached.
        limits: how much a batch takes.
        until: the offset beyond which no batch goes; None for no such offset.
        has_read: whether the reader has read up to `since`; otherwise it's where it is to begin.

    Raises:
        InvalidArgumentError: the table hasn't come to `since` yet, or begins after what was read: it was created again,
            or restored from a copy.
    """
    meta, timeline = snapshot.meta, snapshot.timeline
    if has_read:
        refuse_other_history(snapshot, since)
    else:
        _refuse_ahead(snapshot, since)
    is_first = set(since) == {"0"}
    if not is_first and reaches_archive(snapshot, since):
        timeline = timeline.with_archived(meta.store.archived(day_of(timeline, since)))
    new = [each for each in visible_commits(timeline) if timeline.order(each) > since]
    new = [each for each in new if until is None or timeline.order(each) <= until]
    if not new:
        return None
    new.sort(key=timeline.order)
    if is_first:
        return ChangeBatch(since, timeline.order(new[-1]), brings_records=True)
    taken = list(_within(meta, new, limits)) if limits.some else new
    if len(taken) < len(new) and cleaned_after(timeline, timeline.order(taken[-1])):
        taken = new
    return ChangeBatch(since, timeline.order(taken[-1]), any(_brings_records(meta, each) for each in taken))


def refuse_other_history(snapshot: TableSnapshot, reached: str) -> None:
    """Refuse an offset that a reader has reached if the table's history doesn't reach it, or begins after it.

    Args:
        snapshot: the table now.
        reached: the end of what was read.

    Raises:
        InvalidArgumentError: the table was created again since, or restored from a copy.
    """
    _refuse_ahead(snapshot, reached)
    timeline = snapshot.timeline
    undone = timeline.of(Action.ROLLBACK) or timeline.of(Action.RESTORE)  # may have removed what was read
    first = min((each.requested for each in timeline.commits), default=reached)  # also one that a savepoint keeps
    if set(reached) != {"0"} and reached < first and not undone and not snapshot.meta.store.has_history():
        raise InvalidArgumentError(
            f"the table was read up to {reached}, and its first commit is {first}: the table was "
            "created again since; begin again with a new checkpoint",
            table=snapshot.table,
        )


def visible_commits(timeline: Timeline) -> list[Instant]:
    """Return the commits that have an offset.

    In layout 1 these are the ones before the oldest pending write, which may complete as the next one in order.
    """
    if timeline.rules.has_completion_times:
        return list(timeline.commits)
    open_from = min((i.requested for i in timeline.pending if i.is_write), default=None)
    return [each for each in timeline.commits if open_from is None or each.requested < open_from]


def _within(meta: MetaClient, new: list[Instant], limits: BatchLimits) -> Iterator[Instant]:
    stats: list[WriteStat] = []
    for number, instant in enumerate(new, start=1):
        if _brings_records(meta, instant):
            by_partition = meta.store.read_commit_metadata(instant).partition_to_write_stats
            stats += [stat for group in by_partition.values() for stat in group]
        if number > 1 and limits.exceeded(number, stats):
            return
        yield instant


def _brings_records(meta: MetaClient, instant: Instant) -> bool:
    if meta.merges_on_read and instant.action is Action.COMMIT:  # a compaction
        return False
    return meta.store.read_commit_metadata(instant).operation_type not in SERVICE_OPERATIONS


def _refuse_ahead(snapshot: TableSnapshot, since: str) -> None:
    newest = snapshot.timeline.newest_time
    if set(since) == {"0"} or (newest is not None and since <= newest):
        return
    raise InvalidArgumentError(
        f"the offset {since} is later than anything on the table's timeline ({newest or 'it is empty'}): the table was "
        "created again or restored from a copy since; begin again with a new checkpoint",
        table=snapshot.table,
    )
