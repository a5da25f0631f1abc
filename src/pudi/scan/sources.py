"""Scans from what a user asks: a snapshot, a moment in the past, or what changed since one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date

import pyarrow as pa

from pudi.client import (
    MetaClient,
    TableSnapshot,
    files_written,
    merging_of,
    read_history,
    verify_committed_files,
    verify_committed_logs,
)
from pudi.client.lost_instants import refuse_losses
from pudi.config import Options
from pudi.errors import NotSupportedError, naming
from pudi.filegroup import FileSlice
from pudi.format import Action
from pudi.metadata import MetadataTable
from pudi.plan import plan_read
from pudi.scan.cleaned_moments import refuse_cleaned
from pudi.scan.planning import Groups, Planner, skipper
from pudi.scan.ranges import bounds_of, cleaned_after, day_of, schema_at, warn_before_first
from pudi.scan.scan import Scan, chosen_columns
from pudi.timeline import Instant, Timeline, parse_time


def base_files_only(slices: Sequence[FileSlice]) -> list[FileSlice]:
    """The slices of a read-optimized query: their base files, none where there are log files alone."""
    return [replace(s, logs=()) if s.logs else s for s in slices if s.base is not None]


def snapshot_scan(
    meta: MetaClient,
    columns: Sequence[str] | None,
    where: str | None,
    as_of: str | date | None,
    meta_fields: bool,
    read_optimized: bool = False,
    options: Options | None = None,
    limit: int | None = None,
    keys: pa.Table | None = None,
) -> Scan:
    """Return a read of the table now or at a requested time (spec 'time travel'); of base files only if read-optimized.

    Raises:
        InvalidArgumentError: unknown column, bad predicate, `as_of` no point in time, a limit below 0,
            `keys` that don't fit.
        NotFoundError: the cleaner has removed what the table was then.
        NotSupportedError: the table has a merger that this release doesn't know.
    """
    timeline = seen = meta.store.load()
    instant = None
    if as_of is not None:
        with naming(None, meta.storage.root):
            instant = parse_time(as_of, meta.config.timezone, what="as_of")
        if timeline.start is not None and instant < timeline.start and meta.store.has_history():
            timeline = timeline.with_archived(meta.store.archived())
        refuse_cleaned(meta, timeline, instant)
        seen = _as_saved(meta, timeline, timeline.until(instant), instant)
        warn_before_first(meta, timeline, seen, "as_of", as_of)
    schema = schema_at(meta, seen, timeline)
    wanted, fields = chosen_columns(columns, schema)
    plan = plan_read(
        meta.storage.root,
        schema,
        wanted=wanted,
        where=where,
        meta_fields=meta_fields,
        populated=meta.config.populate_meta_fields,
        history=read_history(TableSnapshot(meta, timeline).seeing(seen)),
        merging=None if read_optimized else merging_of(TableSnapshot(meta, timeline).seeing(seen), until=instant),
        limit=limit,
        keys=keys,
    )
    base_only = read_optimized and meta.merges_on_read
    # indexes say where records are with their log files; a base file alone may hold what has moved or gone since
    by_index = skipper(meta, timeline, seen, options or Options(), newest=as_of is None and not base_only)
    planner = Planner(meta, _Snapshot(meta, timeline, seen, instant, base_only), by_index, seen)
    return Scan(meta, plan, planner, None if base_only else seen.shown(timeline.pending, instant), fields)


def _as_saved(meta: MetaClient, timeline: Timeline, seen: Timeline, instant: str) -> Timeline:
    """Return what a reader of a savepoint sees of a timeline: no compaction that completed after it.

    A compaction that was requested before the saved commit, and completed after the savepoint, brings no records. Its
    files aren't among those that the savepoint keeps: these are the ones that it merged.
    """
    saved = next((each for each in timeline.of(Action.SAVEPOINT) if each.requested == instant), None)
    if saved is None or saved.completion is None or not timeline.rules.logs_name_their_commit:
        return seen
    later = [each for each in seen.of(Action.COMMIT) if (each.completion or "") > saved.completion]
    gone = {each.requested for each in later if meta.store.read_commit_metadata(each).operation_type == "COMPACT"}
    return replace(seen, instants=tuple(i for i in seen.instants if i.requested not in gone)) if gone else seen


def changes_scan(
    meta: MetaClient,
    since: str | date | None,
    until: str | date | None,
    columns: Sequence[str] | None,
    where: str | None,
    meta_fields: bool,
    options: Options | None = None,
    *,
    late: bool = True,
) -> Scan:
    """Records that commits completed after `since` and up to `until` brought, in their last version among these.

    Rows come from the table as it was after the last of these commits; a record changed twice comes once, deletes
    don't come (Hudi's incremental query, IncrementalRelationV2, and below version 8 MergeOnReadIncrementalRelationV1).
    Times are completion times, below version 8 requested times. Commits that were archived count as well.

    Args:
        meta: the table.
        since: see `Table.changes`.
        until: see `Table.changes`.
        columns: see `Table.changes`.
        where: see `Table.changes`.
        meta_fields: see `Table.changes`.
        options: write and read options.
        late: whether records in log files come that lost, by their ordering values, against one from before the range
            or its delete. In Hudi they do, until a compaction; without them rows are those that the table has.

    Raises:
        InvalidArgumentError: `since` is later than `until`, or no point in time.
        NotSupportedError: the rows don't say which commit brought them.
        NotFoundError: the cleaner has removed files of the range.
    """
    if not meta.config.populate_meta_fields:
        raise NotSupportedError(
            "the table has no meta fields, so that nothing says which commit wrote a record; Apache Hudi answers no "
            "incremental queries of it either",
            table=meta.storage.root,
        )
    timeline = meta.store.load()
    low, high = bounds_of(meta, since, until)
    reaches = reaches_archive(meta, timeline, low)
    end = timeline if high is None else timeline.completed_until(high)
    everything = low is None and (reaches if high is None else bool(end.commits) and not cleaned_after(timeline, high))
    if reaches and not everything:
        timeline = timeline.with_archived(meta.store.archived(day_of(timeline, low)))
        end = timeline if high is None else timeline.completed_until(high)
    if until is not None and low is None:
        warn_before_first(meta, timeline, end, "until", until)
    chosen = [i for i in end.commits if low is None or end.order(i) > low]
    commit_times = None if everything else frozenset(i.requested for i in chosen)
    schema = schema_at(meta, end, timeline)
    wanted, fields = chosen_columns(columns, schema)
    plan = plan_read(
        meta.storage.root,
        schema,
        wanted=wanted,
        where=where,
        meta_fields=meta_fields,
        populated=True,
        commit_times=commit_times,
        history=read_history(TableSnapshot(meta, timeline).seeing(end)),
        merging=merging_of(TableSnapshot(meta, timeline).seeing(end), among=commit_times if late else None),
    )
    by_index = skipper(meta, timeline, end, options or Options())
    shown = end.shown(timeline.pending)
    if everything or (high is None and any(i.archived for i in chosen)):
        return Scan(meta, plan, Planner(meta, _Snapshot(meta, timeline, end, high), by_index), shown, fields)
    return Scan(meta, plan, Planner(meta, _Touched(meta, timeline, end, chosen, low, high), by_index), shown, fields)


def reaches_archive(meta: MetaClient, timeline: Timeline, low: str | None) -> bool:
    """Whether commits that readers see after `low`, None for all, may have been archived."""
    if not timeline.instants:
        return False
    oldest = timeline.start  # a commit with a savepoint may be older, and what came right after it archived
    earliest = day_of(timeline, low)
    return (earliest is None or oldest is None or earliest < oldest) and meta.store.has_history()


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """Latest slices of the table; that those of its newest commit are there is sure.

    Args:
        meta: the table.
        timeline: its whole timeline.
        seen: the part of it that the scan sees.
        until: a time before which commits that it sees were requested; None for all of them.
        base_only: whether it sees base files alone.
    """

    meta: MetaClient
    timeline: Timeline
    seen: Timeline
    until: str | None = None
    base_only: bool = False

    def __call__(self, opened: MetadataTable | None = None, groups: Groups | None = None) -> Sequence[FileSlice]:
        meta = self.meta
        view = meta.view(
            self.timeline,
            seen=self.seen,
            archived_until=self.until,
            opened=opened,
            sizes=not self.base_only,
            whole=True,
        )
        slices = view.all_slices() if groups is None else view.slices_of_groups(groups)
        newest = meta.commits_by_completion(self.seen)[-1:]
        refuse_losses(TableSnapshot(meta, self.timeline), newest, until=self.until)
        verify_committed_files(meta, view, slices, files_written(meta, newest, groups))
        if meta.merges_on_read:
            verify_committed_logs(meta, view, slices, newest, groups)
        return base_files_only(slices) if self.base_only else slices


@dataclass(frozen=True, slots=True)
class _Touched:
    """Latest slices, at the end of a range of commits, of the file groups that these wrote.

    Args:
        meta: the table.
        timeline: its whole timeline.
        seen: the part of it up to the end of the range.
        chosen: the commits.
        after: completion time after which the range begins; None for the first instant.
        until: completion time at which it ends; None where it doesn't.
    """

    meta: MetaClient
    timeline: Timeline
    seen: Timeline
    chosen: Sequence[Instant]
    after: str | None = None
    until: str | None = None

    def __call__(self, opened: MetadataTable | None = None, groups: Groups | None = None) -> Sequence[FileSlice]:
        meta = self.meta
        view = meta.view(self.timeline, seen=self.seen, opened=opened)
        later = [i for i in self.timeline.commits if self.after is None or self.timeline.order(i) > self.after]
        refuse_losses(TableSnapshot(meta, self.timeline), later, after=self.after, until=self.until)
        written = files_written(meta, self.chosen, groups)
        slices = [s for s in view.slices_of(sorted({p for p, _ in written})) if s.group in written]
        verify_committed_files(meta, view, slices, written)
        if meta.merges_on_read:
            verify_committed_logs(meta, view, slices, self.chosen, groups)
        return slices
