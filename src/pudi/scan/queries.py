"""Scans from what a user asks: a snapshot, a moment in the past, or what changed since one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date

import pyarrow as pa

from pudi.client import (
    TableSnapshot,
    merging_of,
    read_history,
)
from pudi.client.lost_instants import refuse_losses
from pudi.errors import NotSupportedError, naming
from pudi.filegroup import FileSlice
from pudi.filegroup.committed_files import ListedSlices, files_written, verify_committed_files, verify_committed_logs
from pudi.format import Action
from pudi.format.instants import COMPACT
from pudi.metadata import MetadataTable
from pudi.plan import Merging, ReadableTable, Selection, plan_read
from pudi.scan.moments import (
    CommitSpan,
    bounds_of,
    cleaned_after,
    columns_seen,
    day_of,
    reaches_archive,
    refuse_cleaned,
    seen_until,
    warn_before_first,
)
from pudi.scan.planning import Groups, Planner, chosen_columns, skipper
from pudi.scan.scan import Scan
from pudi.timeline import Timeline, parse_time


def base_files_only(slices: Sequence[FileSlice]) -> list[FileSlice]:
    """The slices of a read-optimized query: their base files, none where there are log files alone."""
    return [replace(s, logs=()) if s.logs else s for s in slices if s.base is not None]


def snapshot_scan(
    snapshot: TableSnapshot,
    selection: Selection,
    *,
    as_of: str | date | None = None,
    read_optimized: bool = False,
) -> Scan:
    """Return a read of the table now or at a requested time (spec 'time travel'); of base files only if read-optimized.

    Args:
        snapshot: the table now, with the reader's options.
        selection: the rows and columns that are asked for.
        as_of: a moment in the past; None for now.
        read_optimized: leave log files out.

    Raises:
        InvalidArgumentError: unknown column, bad predicate, `as_of` no point in time, a limit below 0,
            `keys` that don't fit.
        NotFoundError: the cleaner has removed what the table was then.
        NotSupportedError: the table has a merger that this release doesn't know.
    """
    meta, instant = snapshot.meta, None
    if as_of is not None:
        with naming(None, snapshot.table):
            instant = parse_time(as_of, meta.config.timezone, what="as_of")
        snapshot = _then(snapshot, instant)
        warn_before_first(snapshot, "as_of", as_of)
    columns = columns_seen(snapshot)
    wanted, fields = chosen_columns(selection.columns, columns)
    merging = None if read_optimized else merging_of(snapshot, until=instant)
    plan = plan_read(_readable(snapshot, columns, merging), replace(selection, columns=wanted))
    base_only = read_optimized and meta.merges_on_read
    # indexes say where records are with their log files; a base file alone may hold what has moved or gone since
    by_index = skipper(snapshot, newest=as_of is None and not base_only)
    planner = Planner(meta, _LatestSlices(snapshot, instant, base_only), by_index)
    shown = None if base_only else snapshot.seen.shown(snapshot.timeline.pending, instant)
    return Scan(snapshot, plan, planner, shown, fields, _is_state=True)


def _then(snapshot: TableSnapshot, instant: str) -> TableSnapshot:
    """Return the table as it was at a requested time, with archived instants where it lies before the active ones.

    Raises:
        NotFoundError: the cleaner has removed what the table was then.
    """
    timeline, store = snapshot.timeline, snapshot.meta.store
    if timeline.start is not None and instant < timeline.start and store.has_history():
        timeline = timeline.with_archived(store.archived())
    snapshot = snapshot.at(timeline)
    refuse_cleaned(snapshot, instant)
    return snapshot.seeing(_as_saved(snapshot, instant))


def _as_saved(snapshot: TableSnapshot, instant: str) -> Timeline:
    """Return what a reader of a moment, or of a savepoint, sees: no compaction that completed after the savepoint.

    A compaction that was requested before the saved commit, and completed after the savepoint, brings no records. Its
    files aren't among those that the savepoint keeps: these are the ones that it merged.
    """
    timeline, store = snapshot.timeline, snapshot.meta.store
    seen = timeline.until(instant)
    saved = next((each for each in timeline.of(Action.SAVEPOINT) if each.requested == instant), None)
    if saved is None or saved.completion is None or not timeline.rules.logs_name_their_commit:
        return seen
    later = [each for each in seen.of(Action.COMMIT) if (each.completion or "") > saved.completion]
    gone = {each.requested for each in later if store.read_commit_metadata(each).operation_type == COMPACT}
    return replace(seen, instants=tuple(i for i in seen.instants if i.requested not in gone)) if gone else seen


def _readable(snapshot: TableSnapshot, columns: pa.Schema, merging: Merging | None) -> ReadableTable:
    history = read_history(snapshot)
    return ReadableTable(snapshot.table, columns, snapshot.config.populate_meta_fields, history, merging)


def changes_scan(
    snapshot: TableSnapshot,
    selection: Selection,
    since: str | date | None,
    until: str | date | None,
    *,
    late: bool = True,
) -> Scan:
    """Records that commits completed after `since` and up to `until` brought, in their last version among these.

    Rows come from the table as it was after the last of these commits; a record changed twice comes once, deletes
    don't come (Hudi's incremental query, IncrementalRelationV2, and below version 8 MergeOnReadIncrementalRelationV1).
    Times are completion times, below version 8 requested times. Commits that were archived count as well.

    Args:
        snapshot: the table now, with the reader's options.
        selection: the rows and columns that are asked for.
        since: see `Table.changes`.
        until: see `Table.changes`.
        late: whether records in log files come that lost, by their ordering values, against one from before the range
            or its delete. In Hudi they do, until a compaction; without them rows are those that the table has.

    Raises:
        InvalidArgumentError: `since` is later than `until`, or no point in time.
        NotSupportedError: the rows don't say which commit brought them.
        NotFoundError: the cleaner has removed files of the range.
    """
    meta = snapshot.meta
    if not meta.config.populate_meta_fields:
        raise NotSupportedError(
            "the table has no meta fields, so that nothing says which commit wrote a record; Apache Hudi answers no "
            "incremental queries of it either",
            table=snapshot.table,
        )
    low, high = bounds_of(meta, since, until)
    reaches = reaches_archive(snapshot, low)
    end = seen_until(snapshot, high)
    everything = low is None and (
        reaches if high is None else bool(end.seen.commits) and not cleaned_after(snapshot.timeline, high)
    )
    if reaches and not everything:
        archived = meta.store.archived(day_of(snapshot.timeline, low))
        end = seen_until(snapshot.at(snapshot.timeline.with_archived(archived)), high)
    if until is not None and low is None:
        warn_before_first(end, "until", until)
    chosen = [i for i in end.seen.commits if low is None or end.seen.order(i) > low]
    commit_times = None if everything else frozenset(i.requested for i in chosen)
    columns = columns_seen(end)
    wanted, fields = chosen_columns(selection.columns, columns)
    merging = merging_of(end, among=commit_times if late else None)
    plan = plan_read(_readable(end, columns, merging), replace(selection, columns=wanted), commit_times)
    latest = everything or (high is None and any(i.archived for i in chosen))
    slices = _LatestSlices(end, high) if latest else _TouchedSlices(end, CommitSpan(chosen, low, high))
    return Scan(end, plan, Planner(meta, slices, skipper(end)), end.seen.shown(end.timeline.pending), fields)


@dataclass(frozen=True, slots=True)
class _LatestSlices:
    """Latest slices of the table; that those of its newest commit are there is sure.

    Attributes:
        snapshot: the table, as the scan sees it.
        until: a time before which commits that it sees were requested; None for all of them.
        base_only: whether it sees base files alone.
    """

    snapshot: TableSnapshot
    until: str | None = None
    base_only: bool = False

    def __call__(self, opened: MetadataTable | None = None, groups: Groups | None = None) -> Sequence[FileSlice]:
        snapshot, meta = self.snapshot, self.snapshot.meta
        view = snapshot.view(archived_until=self.until, opened=opened, sizes=not self.base_only, whole=True)
        slices = view.all_slices() if groups is None else view.slices_of_groups(groups)
        newest = snapshot.commits[-1:]
        refuse_losses(snapshot, newest, until=self.until)
        listed = ListedSlices(slices, view.replaced, groups=groups)
        verify_committed_files(meta.store, files_written(meta.store, newest, groups), listed)
        if meta.merges_on_read:
            verify_committed_logs(meta.store, newest, listed)
        return base_files_only(slices) if self.base_only else slices


@dataclass(frozen=True, slots=True)
class _TouchedSlices:
    """Latest slices, at the end of a span of commits, of the file groups that these wrote.

    Attributes:
        snapshot: the table at the end of the span.
        span: the commits.
    """

    snapshot: TableSnapshot
    span: CommitSpan

    def __call__(self, opened: MetadataTable | None = None, groups: Groups | None = None) -> Sequence[FileSlice]:
        meta, commits = self.snapshot.meta, self.span.commits
        view = self.snapshot.view(opened=opened)
        self.span.refuse_losses(self.snapshot)
        written = files_written(meta.store, commits, groups)
        slices = [s for s in view.slices_of(sorted({p for p, _ in written})) if s.group in written]
        listed = ListedSlices(slices, view.replaced, groups=groups)
        verify_committed_files(meta.store, written, listed)
        if meta.merges_on_read:
            verify_committed_logs(meta.store, commits, listed)
        return slices
