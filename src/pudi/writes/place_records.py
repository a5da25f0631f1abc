"""Decide which files the records of a write go to: look up their keys by the write's rules, then fill file groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from pudi.client.changed_groups import key_reading
from pudi.client.hash_rings import make_rings
from pudi.client.schema_commit import SERVICE_OPERATIONS
from pudi.client.settings import merging_of, sizing
from pudi.concurrency import TimelineBehindError
from pudi.config import WriteOptions
from pudi.errors import ConflictError, InvalidArgumentError, NotFoundError, NotSupportedError
from pudi.filegroup import FileSlice, FileSystemView, has_overtaken
from pudi.filegroup.committed_files import ListedSlices, files_written, verify_committed_files
from pudi.format import new_file_id
from pudi.indexes.record_index.state import refuse_behind, shards_for
from pudi.metadata.record_index import RecordShards
from pudi.plan import Operation, WriteProfile, place, place_buckets, whole_partitions
from pudi.plan.write import NO_INSERTS, BucketWrite, Sizing
from pudi.tagging import Index
from pudi.task import Engine, KeySearch
from pudi.task.key_search import LateKeys, late_logs, lookups_in
from pudi.timeline import Timeline
from pudi.writes.concurrency_modes import finds_groups_late
from pudi.writes.write_recipe import Placement, WriteAttempt


def is_uncounted(operation: Operation, index: Index, engine: Engine, timeline: Timeline) -> bool:
    """Return whether a write needs no plan: a bulk insert, unless it could add to existing buckets."""
    if operation is not Operation.BULK_INSERT or index.buckets is None:
        return operation is Operation.BULK_INSERT
    fresh = not any(instant.is_completed for instant in timeline.instants)
    return fresh and index.fixed_buckets is not None and engine.counts_separately


def adds_new_only(
    operation: Operation, options: WriteOptions, index: Index, slices: Iterable[FileSlice], table: str
) -> bool:
    """Return whether an insert drops or refuses records whose key exists in one of the slices.

    Raises:
        NotSupportedError: the options ask for it, and the index can't find existing keys.
    """
    wanted = operation is Operation.INSERT and options.duplicates != "none"
    if wanted and any(s.logs for s in slices):
        raise NotSupportedError(
            "looking for duplicates of inserted records beside log files: a key that was deleted there would count as "
            "known; compact the table first, or upsert",
            table=table,
        )
    if wanted and (index.buckets is not None or index.is_global):
        raise NotSupportedError(
            "looking for duplicates of inserted records needs index SIMPLE or BLOOM; upsert with this index",
            table=table,
        )
    return wanted


def without_known(tagged: Any, options: WriteOptions, table: str) -> Any:
    """Return the records whose key does not exist in the table.

    Raises:
        InvalidArgumentError: keys exist, and the options refuse them.
    """
    known = sum(tagged.profile.updates.values())
    if known and options.duplicates == "fail":
        raise InvalidArgumentError(
            f"{known} records have a key that the table holds already; nothing was written. Use upsert, or "
            f"{WriteOptions.duplicate_policy}=drop to leave them out",
            table=table,
        )
    return tagged.new_only() if known else tagged


def place_by_key(write: WriteAttempt, records: Any, choose: Callable[[Any], Any] | None = None) -> Placement:
    """Place records among the latest file slices of the partitions that they may belong to; see `place_records`."""
    view = write.snapshot.view(defers=True)
    with write.report.phase("list"):
        slices = latest_slices(write, None if write.is_global else sorted(records.counts), view)
    return replace(place_records(write, records, slices, choose), stands=ListedBefore(write, view))


def place_records(
    write: WriteAttempt, records: Any, slices: Sequence[FileSlice], choose: Callable[[Any], Any] | None = None
) -> Placement:
    """Place records among given file slices: tag them with the slice of their key, then assign the others.

    A large input of a partition stays untagged where the engine takes whole partitions: their tasks tag it.

    Args:
        write: the attempt.
        records: its records.
        slices: the slices that may hold their keys; no other slice is searched.
        choose: returns those of the tagged records that are written; None for all.

    Raises:
        InvalidArgumentError: the options of an insert refuse existing keys, and there are some.
        NotSupportedError: an insert must look for existing keys, and the index can't.
    """
    meta, engine, operation = write.meta, write.engine, write.operation
    shards = shards_for(write.snapshot, write.index)
    index = replace(write.index, records=shards is not None)  # without a record index keys are looked up in files
    if meta.merges_on_read and not index.records and index.buckets is None:
        late = late_logs(meta.store, write.timeline, slices)
        if any(each.logs for each in slices):
            reading = key_reading(write.snapshot)
            index = replace(index, late=LateKeys(late, reading) if late else None, live=reading)
    packs = operation is not Operation.DELETE and index.buckets is None
    new_only = adds_new_only(operation, write.write_options, index, slices, write.table)
    make_rings(meta, operation, index, records.counts)
    by_driver = write.is_global or index.records or finds_groups_late(index, operation)
    limits = None if by_driver else engine.whole_limits
    if limits is not None and records.counts and not new_only and choose is None:
        whole = whole_partitions(records.counts, slices, _sizing(write, records) if packs else NO_INSERTS, limits)
        if whole is not None:
            return Placement(records, whole, index)
    with write.report.phase("tag"):
        looks = (operation.looks_up or new_only) and index.buckets is None
        search = _search(write, records, index, shards)
        tagged = engine.tag(records, meta.storage, lookups_in(slices, index) if looks else [], search)
        if new_only:
            tagged = without_known(tagged, write.write_options, write.table)
        if choose is not None:
            tagged = choose(tagged)
        profile: WriteProfile = tagged.profile
    if index.buckets is not None:
        of_buckets = BucketWrite(operation, index.buckets, write.table, write.logs)
        plan = place_buckets(profile, slices, of_buckets, meta.context.new_id)
        return Placement(tagged, plan, index)
    if operation is Operation.DELETE:  # deletes of keys that don't exist are no error, and change nothing
        profile = WriteProfile(profile.updates, {})
    unique = meta.context.new_id()
    sizes = _sizing(write, records) if any(profile.inserts.values()) else NO_INSERTS
    plan = place(profile, slices, sizes, lambda number: new_file_id(unique, number), write.logs)
    return Placement(tagged, plan, index)


def finds_movers(write: WriteAttempt, records: Any) -> bool:
    """Return whether a base file of another partition than a record's holds its key, or may hold it."""
    with write.report.phase("list"):
        slices = latest_slices(write, None)
    if any(each.base is None for each in slices):  # of these log files alone have the keys
        return True
    with write.report.phase("tag"):
        index = replace(write.index, is_global=True, moves=False)
        search = _search(write, records, index, None)
        found: bool = write.engine.finds_movers(records, write.meta.storage, lookups_in(slices, index), search)
        return found


def latest_slices(
    write: WriteAttempt, partitions: Sequence[str] | None, view: FileSystemView | None = None
) -> list[FileSlice]:
    """Return the latest slices of some partitions, None for all, and verify that the newest commit's files exist.

    Args:
        write: the attempt.
        partitions: the partitions.
        view: a view of the attempt's snapshot that gives the slices; None makes one.

    Raises:
        TimelineBehindError: a commit has completed since the timeline was loaded.
        NotFoundError: a file is gone: lost, or cleaned since.
        CorruptError: a file isn't the one that its commit wrote.
    """
    meta = write.meta
    view = write.snapshot.view() if view is None else view
    slices = view.all_slices() if partitions is None else view.slices_of(partitions)
    listed = meta.opened.metadata if meta.lists_by_metadata else None  # else one that has been deleted since
    if listed is not None and not listed.is_known_to(write.timeline):  # a file group may have gone since
        refuse_behind(write.snapshot)
    newest = files_written(meta.store, write.snapshot.commits[-1:])
    seen = {group: t for group, t in newest.items() if partitions is None or group.partition in partitions}
    verify_committed_files(meta.store, seen, ListedSlices(slices, view.replaced))
    return slices


@dataclass(frozen=True, slots=True)
class ListedBefore:
    """The condition that no file which a write was placed by was deleted before the files were listed.

    Attributes:
        write: the attempt.
        view: gave the slices, and defers its check.
    """

    write: WriteAttempt
    view: FileSystemView

    def check(self, now: Timeline) -> None:
        """Compare with a timeline that was listed after the files; raises as `planned_again`."""
        with planned_again(self.write):
            self.view.check_overtaken(now)


@contextmanager
def planned_again(write: WriteAttempt) -> Iterator[None]:
    """Plan a write again if a clean deleted one of its files after its timeline was loaded.

    Raises:
        TimelineBehindError: in place of a `NotFoundError`, if only table services completed since.
        ConflictError: in place of it, if there were other writes too.
    """
    try:
        yield
    except NotFoundError as error:
        store, before = write.meta.store, write.timeline
        now = store.load()
        if not has_overtaken(before, now):  # the file is lost
            raise
        others = [each for each in now.commits if before.commit(each.requested) is None]
        changed = any(store.read_commit_metadata(each).operation_type not in SERVICE_OPERATIONS for each in others)
        kind = ConflictError if changed or any(before.rolled_back_in(now)) else TimelineBehindError
        raise kind(
            f"another process deleted files that this write was planned with ({error.message}); nothing of this write "
            "is visible; retry",
            table=error.table,
            path=error.path,
            instant=error.instant,
        ) from error


def _search(write: WriteAttempt, records: Any, index: Index, shards: RecordShards | None) -> KeySearch:
    merging = merging_of(write.snapshot) if write.is_global else None
    return KeySearch(
        index=index,
        operation=write.operation,
        rule=write.rule,
        schema=records.schema,
        merging=merging,
        history=write.history,
        positions=write.logs is not None and write.logs.positions,
        records=shards,
    )


def _sizing(write: WriteAttempt, records: Any) -> Sizing:
    return sizing(write.snapshot, write.write_options, records.record_bytes)
