"""The changes of another table, commit by commit (HoodieIncrSource)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from pudi.client import TableSnapshot
from pudi.config.arguments import count_given, path_given
from pudi.errors import InvalidArgumentError, NotFoundError
from pudi.ingest.source import Batch, Checkpoint
from pudi.plan import Selection
from pudi.scan import changes_scan
from pudi.scan.cdc_splits import NO_CHANGES
from pudi.scan.change_batches import refuse_other_history, visible_commits
from pudi.scan.moments import cleaned_after
from pudi.table import Table
from pudi.table.base import client_of
from pudi.timeline import Instant, Timeline


@dataclass(frozen=True, slots=True)
class TableSource:
    """Records that commits of another table brought or changed, and those that they deleted.

    A late record, which lost against a stored one or its delete by its ordering value, doesn't come, since the table
    doesn't have it; Hudi Streamer takes it in from log files.

    Hudi Streamer takes no deletes in. They are looked up by the table's change data, only in ranges with a commit that
    deleted or replaced something. The first batch of a table has none: it's the table as it is.

    The checkpoint is the completion time of the last commit that was taken in, below table version 8 its requested
    time. A checkpoint that a Hudi Streamer left under its first key is a requested time, and is translated.

    Args:
        path: the table's root.
        max_commits: commits that one batch takes; None for all. Where a clean has run since, it takes all: older file
            slices may be gone, and the newest ones have each record's last version.
        deletes: whether deletes are taken in.
        storage_options: credentials and settings of the storage.

    Raises:
        InvalidArgumentError: no path, or no number of commits above 0.
    """

    path: str | os.PathLike[str]
    max_commits: int | None = None
    storage_options: Mapping[str, str] | None = None
    deletes: bool = True

    def __post_init__(self) -> None:
        path_given(self.path)
        if self.max_commits is not None:
            count_given(self.max_commits, "max_commits")

    def next(self, after: Checkpoint, schema: pa.Schema | None, spark: Any) -> Batch | None:
        """Return the records of the next commits; see `Source`.

        Raises:
            NotFoundError: the cleaner has removed files of commits that follow the checkpoint, or commits that may
                have deleted are archived.
            InvalidArgumentError: the checkpoint isn't of this table: of another source, or of the time before the table
                was created again or restored from a copy.
        """
        del schema  # a table has types
        table = Table(self.path, storage_options=self.storage_options)
        snapshot = TableSnapshot.load(client_of(table))
        timeline = snapshot.timeline
        since = self._since(table, timeline, after)
        if since is not None and after.value != after.reset:  # else a user gives a time, whenever commits are
            refuse_other_history(snapshot, since)
        requested = {timeline.order(each): each.requested for each in visible_commits(timeline)}
        ends = sorted(requested)
        following = [each for each in ends if since is None or each > since]
        if not following:
            return None
        until = following[-1] if self.max_commits is None else following[: self.max_commits][-1]
        if cleaned_after(timeline, until):  # the file slices of that time may be gone, as for `next_batch`
            until = following[-1]
        scan = changes_scan(snapshot, Selection(meta_fields=False), since, until, late=False)
        data = scan.to_arrow() if spark is None else scan.to_spark(spark)
        count = following.index(until) + 1
        origin = f"{count} commit{'' if count == 1 else 's'} of {table.path}"
        deleted = None if since is None or not self.deletes else self._deleted(table, timeline, since, until, spark)
        reached = replace(after, value=until, version=2, seen=(), requested=requested[until])
        return Batch(data, reached, (), until != following[-1], origin, deleted)

    def _deleted(self, table: Table, timeline: Timeline, since: str, until: str, spark: Any) -> Any:
        """Return the records that commits of a range deleted, as they were; None if there are none."""
        chosen = [each for each in timeline.commits if since < timeline.order(each) <= until]
        if since >= (timeline.start or "") and not any(_may_delete(table, each) for each in chosen):
            return None
        try:
            feed = table.changes(since, until, columns=["before"], where="op = 'd'", format="cdc", images="struct")
        except NotFoundError as error:
            raise NotFoundError(
                f"{error.message} (to leave out what it deleted: TableSource(deletes=False), --no-deletes)",
                table=error.table,
                instant=error.instant,
            ) from error
        if spark is not None:
            return feed.to_spark(spark).select("before.*")
        records = feed.to_arrow()["before"]
        return pa.Table.from_struct_array(records) if len(records) else None

    def _since(self, table: Table, timeline: Timeline, after: Checkpoint) -> str | None:
        if after.value is None or set(after.value) == {"0"}:
            return None
        if not after.value.isdecimal() or len(after.value) < len("yyyyMMddHHmmss"):
            raise InvalidArgumentError(
                f"the checkpoint {after.value!r} isn't the time of a commit: it's that of another source",
                table=table.path,
            )
        if after.version == 2 or not timeline.rules.has_completion_times:
            return after.value
        found = _requested_at(timeline, after.value) or _requested_at(
            timeline.with_archived(client_of(table).store.archived()), after.value
        )
        if found is None:
            raise InvalidArgumentError(
                f"the checkpoint {after.value} is no commit of this table: give the completion time to begin after",
                table=table.path,
            )
        return timeline.order(found)


def _may_delete(table: Table, commit: Instant) -> bool:
    """Return whether a commit may have deleted records, by what it states."""
    written = client_of(table).store.read_commit_metadata(commit)
    if written.operation_type in NO_CHANGES:
        return False
    return bool(written.partition_to_replace_file_ids) or any(stat.num_deletes for stat in written.stats)


def _requested_at(timeline: Timeline, requested: str) -> Instant | None:
    return next((each for each in timeline.commits if each.requested == requested), None)
