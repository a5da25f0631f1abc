"""The finder of record keys of each index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from pudi.context import Storage
from pudi.filegroup import FileSlice
from pudi.metadata.record_index import WHOLE_TABLE, RecordShards
from pudi.tagging.bloom import BloomKeys
from pudi.tagging.kinds import Index, KeysInSlices, Spread
from pudi.tagging.record import RecordKeys
from pudi.tagging.simple import SimpleKeys


class KeyFinder(Protocol):
    """Looks up record keys in many slices; threads may share it."""

    def find(self, storage: Storage, file_slice: FileSlice) -> np.ndarray:
        """Return the positions of the keys in a slice, ascending.

        Raises:
            CorruptError: the base file can't be read, or has no text column of record keys.
        """


@runtime_checkable
class RowFinder(Protocol):
    """A key finder that also knows the base rows of keys."""

    def locate(self, storage: Storage, file_slice: FileSlice) -> tuple[np.ndarray, np.ndarray]:
        """Like `KeyFinder.find`, with the base row of each key; -1 if it occurs in several rows."""


def key_finder(
    keys: pa.Array,
    index: Index,
    records: RecordShards | None = None,
    partition: str | None = WHOLE_TABLE,
    spread: Spread = map,
) -> KeyFinder:
    """Return the finder of an index for record keys.

    Args:
        keys: the record keys, without duplicates.
        index: the index.
        records: the record index, if it is used.
        partition: the partition to search, if keys are unique only within partitions.
        spread: runs independent parts, a form of `map`.
    """
    if records is not None:
        return RecordKeys(keys, records, partition, spread)
    finder = BloomKeys(keys) if index.bloom else SimpleKeys(keys)
    return finder if index.late is None else _WithLate(finder, keys, index.late)


@dataclass(frozen=True, slots=True)
class _WithLate:
    """Finds keys in base files, and in the log files that hold keys which these lack."""

    finder: KeyFinder
    keys: pa.Array
    late: KeysInSlices

    def find(self, storage: Storage, file_slice: FileSlice) -> np.ndarray:
        """See `KeyFinder.find`."""
        late = self.late.find(storage, file_slice, self.keys)
        found = self.finder.find(storage, file_slice)
        return np.union1d(found, late) if len(late) else found
