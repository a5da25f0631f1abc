"""Leave out the file groups that hold only a deleted copy of a key, where another file group holds the key too.

An index that searches base files finds a key there although a log file deleted it. After a later insert, which looks
nothing up, a new file group holds the key again. An update of both would bring the deleted copy back, beside the new
one. Hudi's simple and bloom index do so; see docs/indexes.md. So if a look-up finds one key in several file groups, it
merges these with their log files, and leaves out those that no longer hold the key. If none holds it, the newest one
counts, in the record's own partition if there is one: a late record meets the delete there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.context import Storage
from pudi.filegroup import FileSlice
from pudi.tagging import Index
from pudi.task.index_keys import KeyReading
from pudi.task.tag import KeyLookup, Spread


@dataclass(frozen=True, slots=True)
class LiveKeys:
    """Tells which keys a slice holds after its log files are merged; picklable.

    Attributes:
        reading: reads the keys of a slice.
    """

    reading: KeyReading

    def find(self, storage: Storage, file_slice: FileSlice, keys: pa.Array) -> np.ndarray:
        """Return the positions of those keys that a slice holds, ascending.

        Raises:
            CorruptError: a file can't be read.
        """
        known = self.reading.keys(storage, file_slice).cast(keys.type)
        return np.flatnonzero(np.asarray(pc.is_in(keys, value_set=known)))


def live_places(
    keys: pa.Array,
    found: Sequence[tuple[KeyLookup, np.ndarray]],
    index: Index,
    storage: Storage,
    spread: Spread = map,
    home: Callable[[KeyLookup, np.ndarray], np.ndarray] | None = None,
) -> list[np.ndarray]:
    """Return for each look-up which of its keys count there: one mask of its hits each.

    Args:
        keys: the record keys, without duplicates.
        found: each look-up with the positions of the keys that it found.
        index: the index that found them.
        storage: the table's files.
        spread: runs independent parts, a form of `map`.
        home: tells which of a look-up's hits are in the partition of their record; None for all.
    """
    counts = [np.ones(len(hits), dtype=bool) for _, hits in found]
    live = index.live
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
        return np.delete(several, live.find(storage, lookup.merged, keys.take(pa.array(hits[several]))))

    gone = list(spread(deleted, found))
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
