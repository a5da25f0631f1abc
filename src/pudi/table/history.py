"""List a table's instants, newest first, with what each did, from the timeline and its archive."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from pudi.client import CommitResult, MetaClient, TableSnapshot
from pudi.client.schema_commit import INTERNAL_SCHEMA_KEY, SCHEMA_KEY
from pudi.errors import CorruptError, InvalidArgumentError, NotFoundError, PudiError
from pudi.filegroup import clustering_plan, compaction_plan
from pudi.format import (
    Action,
    CommitMetadata,
    FileGroupId,
    State,
    TimelineZone,
    decode_commit_metadata,
    decode_rollback_plan,
    instant_to_millis,
)
from pudi.format.instants import decode_restore_plan
from pudi.format.plans import decode_clean_plan, decode_index_plan
from pudi.plan.read import check_limit
from pudi.timeline import Instant
from pudi.timeline.newest import ArchivedContent, newest_archived

_SCHEMAS = frozenset({SCHEMA_KEY, INTERNAL_SCHEMA_KEY})
_NAMED = 3
"""Instants or partitions that a note names at most."""


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One instant of a table.

    Attributes:
        instant: requested time, what `as_of` takes.
        action: what was done, by Hudi's name: `commit`, `clean`, `rollback`, ….
        state: `completed`; of what is pending `inflight` or `requested`.
        operation: the kind of write (`UPSERT`, `CLUSTER`, …); empty where the action says it all.
        requested: when it was requested, in UTC; None for instants that are no date.
        completed: when it completed, in UTC; None while it's pending, and where the archive doesn't say. Below table
            version 8 it's the time of the instant's file, which a copy of the table changes.
        seconds: from requested to completed; None where either isn't known.
        records_inserted: new records; None where the action writes none. Of a compaction: as its commit states.
        records_updated: records replaced by a newer version; likewise.
        records_deleted: deleted records; likewise.
        partitions: partitions that it wrote to or deleted files in.
        files_written: data files.
        files_deleted: data files that a clean, rollback or restore deleted.
        files_replaced: file groups that it took out of the table.
        bytes_written: bytes of the written files.
        min_event_time: the least event time of the written records, in UTC, where the writer tracks it.
        max_event_time: the greatest.
        note: more of it as a text: what a rollback undid, who made a savepoint and why, what a pending plan is about.
        extra_metadata: what the writer added to the commit, without the schema: who wrote, checkpoints.
        archived: whether it's in the archive.
        problem: why its content can't be read; empty if it can.
    """

    instant: str
    action: str
    state: str
    operation: str = ""
    requested: datetime | None = None
    completed: datetime | None = None
    seconds: float | None = None
    records_inserted: int | None = None
    records_updated: int | None = None
    records_deleted: int | None = None
    partitions: int | None = None
    files_written: int | None = None
    files_deleted: int | None = None
    files_replaced: int | None = None
    bytes_written: int | None = None
    min_event_time: datetime | None = None
    max_event_time: datetime | None = None
    note: str = ""
    extra_metadata: Mapping[str, str] = field(default_factory=dict)
    archived: bool = False
    problem: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes as JSON values, times as ISO text."""
        times = {name: value for name, value in asdict(self).items() if isinstance(value, datetime)}
        return asdict(self) | {name: at.isoformat(timespec="milliseconds") for name, at in times.items()}


def history(snapshot: TableSnapshot, limit: int | None = None, *, archived: bool = False) -> list[HistoryEntry]:
    """Return the newest instants of a table, newest requested time first.

    Memory grows with the number of entries, not with that of the archived instants.

    Args:
        snapshot: the table.
        limit: how many; archived ones too where the active timeline has fewer. None for the active timeline.
        archived: without a limit, all of the archive too.

    Raises:
        InvalidArgumentError: the limit is below 1.
        CorruptError: the timeline can't be listed, or the archive can't be read.
    """
    if limit is not None:
        check_limit(limit, snapshot.table, least=1)
    meta, timeline = snapshot.meta, snapshot.timeline
    active = sorted(timeline.instants, key=_place, reverse=True)[:limit]
    entries = [describe_instant(meta, instant) for instant in active]
    if not _reaches_archive(snapshot, active, limit, archived=archived):
        return entries

    def described(instant: Instant, content: ArchivedContent) -> HistoryEntry:
        return _described(meta, instant, lambda: _of_archived(instant, content))

    known = {(instant.requested, instant.action.comparable) for instant in timeline.instants}
    older = [entry for _, entry in newest_archived(meta.store, limit, described, known)]
    placed = {id(entry): _place(instant) for entry, instant in zip(entries, active, strict=True)}
    placed |= {id(entry): (entry.instant, entry.action == Action.SAVEPOINT.value, entry.action) for entry in older}
    return sorted((*entries, *older), key=lambda entry: placed[id(entry)], reverse=True)[:limit]


def describe_instant(meta: MetaClient, instant: Instant) -> HistoryEntry:
    """Return what an instant of the active timeline says; where it can't be read, the entry says why."""
    if instant.is_completed:
        return _described(meta, instant, lambda: _of_completed(meta, instant))
    return _described(meta, instant, lambda: _of_pending(meta, instant))


def _place(instant: Instant) -> tuple[str, bool, str]:
    """A savepoint bears the requested time of its commit, and is younger."""
    return instant.requested, instant.action is Action.SAVEPOINT, instant.action.value


def _reaches_archive(snapshot: TableSnapshot, active: Sequence[Instant], limit: int | None, *, archived: bool) -> bool:
    """Whether archived instants belong to the answer: older ones than what is on the active timeline without a gap.

    Commits with a savepoint stay there while later ones are archived.
    """
    if limit is None:
        return archived and snapshot.meta.store.has_history()
    start = snapshot.timeline.start
    whole = len(active) == limit and start is not None and active[-1].requested >= start
    return not whole and snapshot.meta.store.has_history()


def _described(meta: MetaClient, instant: Instant, read: Callable[[], dict[str, Any]]) -> HistoryEntry:
    zone = meta.config.timezone
    requested = _moment(instant.requested, zone)
    completed = None
    if instant.completion is not None and instant.completion != instant.requested:
        completed = _moment(instant.completion, instant.completion_zone(zone))
    if requested is not None and completed is not None:  # below version 8 a file's time, which lags the clock
        completed = max(completed, requested)
    seconds = None if requested is None or completed is None else (completed - requested).total_seconds()
    try:
        said, problem = read(), ""
    except NotFoundError:
        said, problem = {}, "" if instant.archived else "it completed, was rolled back or archived meanwhile"
    except PudiError as error:
        said, problem = {}, str(error)
    return HistoryEntry(
        instant=instant.requested,
        action=instant.action.value,
        state=instant.state.name.lower(),
        requested=requested,
        completed=completed,
        seconds=seconds,
        archived=instant.archived,
        problem=problem,
        **said,
    )


def _moment(instant: str, zone: TimelineZone) -> datetime | None:
    try:
        return datetime.fromtimestamp(instant_to_millis(instant, zone) / 1000, timezone.utc)
    except (InvalidArgumentError, ValueError, OverflowError, OSError):  # reserved instants are no dates
        return None


def _of_archived(instant: Instant, content: ArchivedContent) -> dict[str, Any]:
    if instant.is_write:
        return _of_write(instant, content.commit_metadata())
    return _of_record(None, instant, content.decoded())


def _of_completed(meta: MetaClient, instant: Instant) -> dict[str, Any]:
    if instant.is_write:
        return _of_write(instant, meta.store.read_commit_metadata(instant))
    return _of_record(meta.storage.root, instant, meta.store.decoded(instant))


def _of_write(instant: Instant, metadata: CommitMetadata) -> dict[str, Any]:
    done = CommitResult.of(instant, metadata, 0, {})
    touched = {p for p, stats in metadata.partition_to_write_stats.items() if stats}
    touched |= {p for p, ids in (metadata.partition_to_replace_file_ids or {}).items() if ids}
    return {
        "operation": done.operation,
        "records_inserted": done.records_inserted,
        "records_updated": done.records_updated,
        "records_deleted": done.records_deleted,
        "partitions": len(touched),
        "files_written": done.files_written,
        "files_replaced": done.files_replaced,
        "bytes_written": done.bytes_written,
        **_event_times(metadata),
        "extra_metadata": {key: text for key, text in metadata.extra_metadata.items() if key not in _SCHEMAS},
    }


def _event_times(metadata: CommitMetadata) -> dict[str, datetime]:
    least = [stat.min_event_time for stat in metadata.stats if stat.min_event_time is not None]
    greatest = [stat.max_event_time for stat in metadata.stats if stat.max_event_time is not None]
    found = {"min_event_time": min(least, default=None), "max_event_time": max(greatest, default=None)}
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
    return {name: epoch + timedelta(milliseconds=millis) for name, millis in found.items() if millis is not None}


def _of_record(table: str | None, instant: Instant, record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an action that writes no records did, by Avro's names."""
    try:
        describe = _SAID.get(instant.action)
        return {} if describe is None or not record else describe(record)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise CorruptError(
            f"the {instant.action.value} doesn't say what it did ({error!r})",
            table=table,
            instant=instant.requested,
        ) from error


def _of_clean(record: Mapping[str, Any]) -> dict[str, Any]:
    retained = record.get("earliestCommitToRetain")
    return {
        "files_deleted": int(record["totalFilesDeleted"]),
        "partitions": len(record["partitionMetadata"]),
        "note": f"retained the commits from {retained} on" if retained else "",
    }


def _of_rollback(record: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "files_deleted": int(record["totalFilesDeleted"]),
        "partitions": len(record["partitionMetadata"]),
        "note": f"of {_some(record['commitsRollback'])}",
    }


def _of_restore(record: Mapping[str, Any]) -> dict[str, Any]:
    done = [each for found in record["hoodieRestoreMetadata"].values() for each in found if each is not None]
    return {
        "files_deleted": sum(int(each["totalFilesDeleted"]) for each in done),
        "note": f"rolled back {_some(record['instantsToRollback'])}",
    }


def _of_savepoint(record: Mapping[str, Any]) -> dict[str, Any]:
    files = sum(len(each["savepointDataFile"]) for each in record["partitionMetadata"].values())
    by, why = record["savepointedBy"] or "", record["comments"] or ""
    note = f"keeps {files:,} files" + (f", by {by}" if by else "") + (f": {why}" if why else "")
    return {"partitions": len(record["partitionMetadata"]), "note": note}


def _of_indexing(record: Mapping[str, Any]) -> dict[str, Any]:
    names = [str(each["metadataPartitionPath"]) for each in record["indexPartitionInfos"] or ()]
    return {"note": f"of {_some(names)}"}


_SAID: Mapping[Action, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    Action.CLEAN: _of_clean,
    Action.ROLLBACK: _of_rollback,
    Action.RESTORE: _of_restore,
    Action.SAVEPOINT: _of_savepoint,
    Action.INDEXING: _of_indexing,
}


def problem_of_pending(meta: MetaClient, instant: Instant) -> str:
    """Return why the plan of a pending instant can't be read; empty if it can, or if the instant is over by now."""
    try:
        _of_pending(meta, instant)
    except NotFoundError:
        return ""
    except PudiError as error:
        return str(error)
    return ""


def _of_pending(meta: MetaClient, instant: Instant) -> dict[str, Any]:
    """Return the plan of a pending instant, or for a write the operation that its inflight instant states."""
    store, action = meta.store, instant.action
    if instant.is_write:
        if instant.state is not State.INFLIGHT:
            return {}
        data = store.read(instant)
        return {"operation": decode_commit_metadata(data, path=store.path(instant)).operation_type or ""}
    if action in {Action.COMPACTION, Action.LOGCOMPACTION}:
        return _plan_over([each.group for each in compaction_plan(store, instant).operations])
    if action is Action.SAVEPOINT:
        return {}
    if action is Action.CLUSTERING:
        return _plan_over([each.group for each in clustering_plan(store, instant).slices])
    if action is Action.CLEAN:
        files = store.read_plan(instant, decode_clean_plan).files
        return {"partitions": len(files), "note": f"plans to delete {sum(map(len, files.values())):,} files"}
    if action is Action.ROLLBACK:
        undone = store.read_plan(instant, decode_rollback_plan).instant_to_rollback
        return {"note": f"of {undone.commit_time}"} if undone is not None else {}
    if action is Action.RESTORE:
        return {"note": f"to {store.read_plan(instant, decode_restore_plan).target}"}
    if action is Action.INDEXING:
        return {"note": f"of {_some([each.partition for each in store.read_plan(instant, decode_index_plan)])}"}
    store.decoded(instant, State.REQUESTED)
    return {}


def _plan_over(groups: Sequence[FileGroupId]) -> dict[str, Any]:
    return {"partitions": len({p for p, _ in groups}), "note": f"a plan over {len(groups):,} file slices"}


def _some(names: Sequence[str]) -> str:
    """Some names as a text, the rest as a number."""
    more = len(names) - _NAMED
    return ", ".join(map(str, names[:_NAMED])) + (f" and {more} more" if more > 0 else "") if names else "nothing"
