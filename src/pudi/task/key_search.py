"""The search for record keys of a write: which slices, and how. Log files correct what base files say of keys.

Hudi's simple and bloom index read nothing but base files.

A key may be only in log files of a slice, if a write and a compaction of its file group were under way together: the
write found the key in the base file before, deleted by a log file, and appended the record; the compaction dropped the
deleted key. A look-up that misses it would let the next upsert add it a second time, in another file group. So
`LateKeys` looks into such log files too.

A key may also be in a base file though a log file deleted it. After a later insert, which looks nothing up, a new file
group holds the key again. An update of both would bring the deleted copy back, beside the new one; see docs/indexes.md.
So if a look-up finds one key in several file groups, `live_places` merges these with their log files, and leaves out
those that no longer hold the key. If none holds it, the newest one counts, in the record's own partition if there is
one: a late record meets the delete there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from pudi.context import Storage
from pudi.filegroup import FileSlice, LogFile
from pudi.format import Action, FileGroupId
from pudi.merge import MergeRule
from pudi.metadata.record_index import RecordShards
from pudi.plan import Merging, Operation
from pudi.schema.internal import SchemaHistory
from pudi.tagging import Index
from pudi.tagging.index import Spread
from pudi.task.index_keys import KeyReading
from pudi.timeline import Timeline, TimelineStore


@dataclass(frozen=True, slots=True)
class KeyLookup:
    """A look-up of keys in one file slice.

    Attributes:
        file_slice: the slice with its base file only: indexes that search files ignore log files.
        merged: the slice with its log files, to compare versions; None if it has no log files.
    """

    file_slice: FileSlice
    merged: FileSlice | None = None


def lookups_in(slices: Iterable[FileSlice], index: Index | None = None) -> list[KeyLookup]:
    """Return the look-ups for some slices. Indexes that search files skip slices without a base file.

    Args:
        slices: the slices.
        index: the table's index; a record index also knows keys in log files.
    """
    every = index is not None and index.records
    return [
        KeyLookup(replace(s, logs=()), s) if s.logs else KeyLookup(s) for s in slices if every or s.base is not None
    ]


@dataclass(frozen=True, slots=True)
class KeySearch:
    """The way in which a write finds the file groups of its records; picklable.

    Attributes:
        index: the table's index.
        operation: the operation on the records.
        rule: which version of a record wins.
        schema: the table's columns without meta fields.
        merging: how log files are merged over base files; None in a copy-on-write table.
        history: the schemas of older files, in a table with schema on read.
        positions: whether to return rows in base files, if the index knows them.
        records: the record index, if keys are looked up in it.
    """

    index: Index
    operation: Operation
    rule: MergeRule
    schema: pa.Schema
    merging: Merging | None = None
    history: SchemaHistory | None = field(kw_only=True)
    positions: bool = False
    records: RecordShards | None = None

    @property
    def moves(self) -> bool:
        """Whether records move to another partition; deletes apply in any partition."""
        return self.index.moves and self.operation is not Operation.DELETE


@dataclass(frozen=True, slots=True)
class TableSearch:
    """A search for keys in the file slices of a table.

    Attributes:
        storage: the table's files.
        lookups: slices that may hold keys.
        how: the way of the search.
        spread: runs independent parts, a form of `map`.
    """

    storage: Storage
    lookups: Sequence[KeyLookup]
    how: KeySearch
    spread: Spread = map


@dataclass(frozen=True, slots=True)
class LateKeys:
    """The log files to look into, and how; picklable.

    Attributes:
        logs: the log files, by partition path and file id.
        reading: reads their keys.
    """

    logs: Mapping[FileGroupId, tuple[LogFile, ...]]
    reading: KeyReading

    def find(self, storage: Storage, file_slice: FileSlice, keys: pa.Array) -> np.ndarray:
        """Return the positions of those keys that the late log files of a slice hold, ascending.

        Raises:
            CorruptError: a log file can't be read.
        """
        logs = self.logs.get(file_slice.group)
        if not logs:
            return np.empty(0, dtype=np.int64)
        return self.reading.find(storage, replace(file_slice, base=None, logs=logs), keys)


def late_logs(
    store: TimelineStore, timeline: Timeline, slices: Iterable[FileSlice]
) -> dict[FileGroupId, tuple[LogFile, ...]]:
    """Return the log files that may be the only ones to hold a key, by file group.

    From version 8 on those whose write was requested before the compaction of their base file completed. Below, nothing
    says when it completed: all log files over a compacted base file.

    Args:
        store: reads archived instants, if base files are older than the active timeline.
        timeline: the table's.
        slices: slices of a merge-on-read table.

    Raises:
        CorruptError: the archive can't be read.
    """
    logged = [(each, each.base.instant) for each in slices if each.base is not None and each.logs]
    known = timeline.instants
    start = timeline.start
    older = [instant for _, instant in logged if start is not None and instant < start]
    if older:
        known = (*store.archived(min(older)), *known)
    compactions = {each.requested: each for each in known if each.action is Action.COMMIT and each.is_completed}
    found: dict[FileGroupId, tuple[LogFile, ...]] = {}
    for file_slice, instant in logged:
        compaction = compactions.get(instant)
        if compaction is None:
            continue
        done = compaction.completion
        if done is None or timeline.rules.logs_name_their_slice:
            late = file_slice.logs
        else:
            late = tuple(log for log in file_slice.logs if log.name.instant < done)
        if late:
            found[file_slice.group] = late
    return found


def live_places(
    keys: pa.Array,
    found: Sequence[tuple[KeyLookup, np.ndarray]],
    search: TableSearch,
    home: Callable[[KeyLookup, np.ndarray], np.ndarray] | None = None,
) -> list[np.ndarray]:
    """Return for each look-up which of its keys count there: one mask of its hits each.

    Args:
        keys: the record keys, without duplicates.
        found: each look-up with the positions of the keys that it found.
        search: the search that found them.
        home: tells which of a look-up's hits are in the partition of their record; None for all.
    """
    counts = [np.ones(len(hits), dtype=bool) for _, hits in found]
    live = search.how.index.live
    if live is None or len(found) < 2:
        return counts
    times = np.bincount(np.concatenate([hits for _, hits in found]), minlength=len(keys))
    if not (times > 1).any():
        return counts

    def deleted(one: tuple[KeyLookup, np.ndarray]) -> np.ndarray:
        lookup, hits = one
        several = np.flatnonzero(times[hits] > 1)
        if lookup.merged is None or not len(several):
            return several[:0]
        return np.delete(several, live.find(search.storage, lookup.merged, keys.take(pa.array(hits[several]))))

    gone = list(search.spread(deleted, found))
    left = times.copy()
    for (_, hits), places in zip(found, gone, strict=True):
        left[hits[places]] -= 1
    newest_first = sorted(range(len(found)), key=lambda number: age(found[number][0].file_slice), reverse=True)
    for number in newest_first:
        counts[number][gone[number]] = False
    for at_home in (True, False):
        for number in newest_first:
            lookup, hits = found[number]
            places = gone[number]
            if at_home and home is not None:
                places = places[home(lookup, hits[places])]
            places = places[left[hits[places]] == 0]
            left[hits[places]] = 1
            counts[number][places] = True
    return counts


def age(file_slice: FileSlice) -> tuple[str, str, str]:
    """Return what orders the slices that hold deleted copies of one key: the greatest was written last."""
    return file_slice.instant, file_slice.partition, file_slice.file_id
