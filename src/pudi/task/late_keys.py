"""Keys that only log files of a slice hold, since a write and a compaction of its file group were under way together.

The write found a key in the base file before, deleted by a log file, and appended the record. The compaction dropped
the deleted key, so that the new base file lacks it. An index that searches base files (Hudi's simple and bloom index
read nothing else) wouldn't find the key again, and the next upsert would add it a second time, in another file group.
So it looks into such log files too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.context import Storage
from pudi.filegroup import FileSlice, LogFile
from pudi.format import Action, FileGroupId
from pudi.task.index_keys import KeyReading
from pudi.timeline import Timeline, TimelineStore


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
        known = self.reading.keys(storage, replace(file_slice, base=None, logs=logs)).cast(keys.type)
        return np.flatnonzero(np.asarray(pc.is_in(keys, value_set=known)))


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
