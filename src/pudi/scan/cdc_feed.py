"""The `ChangeFeed`: what commits changed, record by record, with the records before and after (Hudi's CDC query)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pudi.client import MetaClient, TableSnapshot, read_history
from pudi.client.settings import merging_of_changes
from pudi.context.runtime import lazy_module
from pudi.engine.local.reader import read_changes
from pudi.errors import InvalidArgumentError, NotFoundError, NotSupportedError
from pudi.expr import bind_where
from pudi.filegroup import PathColumns, path_columns
from pudi.filegroup.clean_history import naming_retained
from pudi.format.cdc import LoggingMode
from pudi.plan import Selection
from pudi.plan.cdc import ChangeCase, ChangePlan, change_schema
from pudi.plan.read import list_columns
from pudi.scan.cdc_splits import SplitFinder
from pudi.scan.moments import (
    CommitSpan,
    bounds_of,
    columns_seen,
    completion_of,
    day_of,
    reaches_archive,
    seen_until,
    warn_before_first,
)
from pudi.scan.scan import LazyRows, stream_naming_retained
from pudi.schema import with_meta_fields
from pudi.timeline import TimelinePlace

if TYPE_CHECKING:
    from pudi.engine.spark import reader as spark_reader
else:
    spark_reader = lazy_module("pudi.engine.spark.reader")

IMAGES = ("json", "struct")
"""Forms of records before and after a change."""


@dataclass(slots=True)
class ChangeFeed(LazyRows):
    """The changes that commits of a span of time made; an Arrow stream itself, as a `Scan` is.

    The span is fixed when the feed is created, and the files that say what changed are looked up then. Nothing is read
    until it's requested.
    """

    _meta: MetaClient
    _plan: ChangePlan = field(repr=False)

    @property
    def schema(self) -> pa.Schema:
        """Schema of the rows."""
        return self._plan.output_schema

    @property
    def path_columns(self) -> PathColumns | None:
        """The partition columns that the table's files leave out; None if they have all columns."""
        return path_columns(self._meta.storage)

    @property
    def plan(self) -> ChangePlan:
        """The files that will be read."""
        return self._plan

    def to_batches(self) -> pa.RecordBatchReader:
        """The rows as a stream of Arrow batches, commit after commit.

        Raises:
            CorruptError: a file can't be read.
            NotFoundError: a file is gone, cleaned since the feed was created.
        """
        return stream_naming_retained(self._meta.store, read_changes(self._meta.storage, self._plan))

    def to_spark(self, spark: Any) -> Any:
        """The rows as a lazy Spark DataFrame, read in Python workers.

        Args:
            spark: a session, classic or Connect; it must reach the table's files by the same path.

        Raises:
            SetupError: pyspark is missing or too old.
        """
        return spark_reader.change_frame(self._meta.storage, self._plan, spark)

    def explain(self) -> str:
        """Return the plan of the read as text: commits, the way in which their changes are found, files, bytes."""
        plan = self._plan
        cases = Counter(split.case for split in plan.splits)
        logged = "CDC files" if plan.logged else "none: changes are computed by comparing files with those before"
        lines = [
            f"table       {plan.table}",
            f"columns     {', '.join(plan.columns)}",
            f"where       {plan.where if plan.where is not None else '-'}",
            f"logging     {plan.mode.value.lower() if plan.logged else '-'} ({logged})",
            f"commits     {plan.commits}",
            *(f"{'changes' if n == 0 else '':<12}{cases[case]} of case {case.value}" for n, case in enumerate(cases)),
            f"files       {sum(split.count for split in plan.splits)}",
            f"bytes       {sum(split.size for split in plan.splits)}",
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"ChangeFeed({self._plan.table}, columns={list(self._plan.columns)})"


def change_feed(
    snapshot: TableSnapshot,
    selection: Selection,
    since: str | date | None,
    until: str | date | None,
    images: str = "json",
) -> ChangeFeed:
    """Return the changes of commits that completed after `since`, up to `until` (Hudi's CDC query, HoodieCDCExtractor).

    Times are as of `changes_scan`; a commit's requested time stands for its completion time. Hudi compares requested
    times in every version, and so misses a commit that was requested before `since` and completed after it.

    Args:
        snapshot: the table now.
        selection: the rows and columns of the change data that are asked for.
        since: see `Table.changes`.
        until: see `Table.changes`.
        images: the form of records before and after a change, one of `IMAGES`.

    Raises:
        InvalidArgumentError: `since` is later than `until`, or no point in time; an unknown column; a wrong predicate.
        NotSupportedError: the rows don't say which commit brought them, and nothing was logged.
        NotFoundError: commits of the range were archived, or the cleaner has removed their files.
    """
    meta, table = snapshot.meta, snapshot.table
    if images not in IMAGES:
        raise InvalidArgumentError(f"images={images!r}: it is 'json' or 'struct'", table=table)
    logged = meta.config.cdc_enabled
    if not logged and not meta.config.populate_meta_fields:
        raise NotSupportedError(
            "the table has no meta fields and logs no changes, so pudi can't find them", table=table
        )
    low, high = (completion_of(snapshot.timeline, time) for time in bounds_of(meta, since, until))
    _refuse_archived(snapshot, low)
    end = seen_until(snapshot, high)
    if until is not None and low is None:
        warn_before_first(end, "until", until)
    span = CommitSpan([i for i in end.commits if low is None or end.seen.order(i) > low], low, high)
    columns_then = columns_seen(end)
    schema = with_meta_fields(columns_then) if meta.config.populate_meta_fields else columns_then
    whole = change_schema(schema, typed=images == "struct")
    mode = LoggingMode(meta.config.cdc_logging_mode.upper())
    plan = ChangePlan(
        table=table,
        schema=schema,
        mode=mode,
        typed=images == "struct",
        meta_fields=selection.meta_fields,
        columns=_columns(selection.columns, whole, table),
        where=None if selection.where is None else bind_where(selection.where, whole, table),
        merging=merging_of_changes(end),
        history=read_history(end),
        keys=meta.virtual_keys,
        logged=logged,
        commits=len(span.commits),
        timeline=TimelinePlace.of(meta.store),
    )
    with naming_retained(meta.store):
        splits = SplitFinder(end, span, mode).splits()
    compared = next((split for split in splits if split.case is ChangeCase.COMPARED), None)
    if compared is not None and not meta.config.populate_meta_fields:
        raise NotSupportedError(
            f"commit {compared.instant} logged no changes, and rows without meta fields don't say what it wrote",
            table=table,
        )
    return ChangeFeed(meta, replace(plan, splits=splits))


def _columns(wanted: Sequence[str] | None, whole: pa.Schema, table: str) -> tuple[str, ...]:
    names = tuple(whole.names if wanted is None else list_columns(wanted, table))
    unknown = [name for name in names if name not in whole.names]
    if unknown:
        raise InvalidArgumentError(
            f"there is no column {unknown[0]!r}; change data has {', '.join(whole.names)}", table=table
        )
    if len(set(names)) < len(names) or not names:
        raise InvalidArgumentError("columns names one twice, or none", table=table)
    return names


def _refuse_archived(snapshot: TableSnapshot, low: str | None) -> None:
    """Refuse a range with archived commits: their files may be cleaned, and Hudi reads none of them either."""
    if not reaches_archive(snapshot, low):
        return
    timeline = snapshot.timeline
    found = snapshot.meta.store.archived(day_of(timeline, low))
    archived = [i for i in found if i.is_write and timeline.commit(i.requested) is None]
    gone = [i for i in archived if low is None or timeline.order(i) > low]
    if gone:
        last = max(timeline.order(i) for i in gone)
        raise NotFoundError(
            f"commit {gone[-1].requested} of the range is archived, and what it changed can't be read any more; read "
            f"changes since {last} or later, or the table as it is",
            table=snapshot.table,
            instant=gone[-1].requested,
        )
