"""The index of a write, as one value, and the finder of record keys that each index has.

Bloom and simple index read files (`pudi.tagging.bloom`, `pudi.tagging.simple`). The record index (HoodieIndex.IndexType
RECORD_INDEX) asks the metadata table in which file group a key is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from pudi.context import Storage
from pudi.filegroup import FileSlice
from pudi.format import FileGroupId
from pudi.metadata.record_index import FILE_ID, WHOLE_TABLE, RecordShards
from pudi.schema import PARTITION_PATH, RECORD_KEY
from pudi.schema.arrays import encoded_column, one_array, places_among, places_of
from pudi.tagging.bloom import BloomKeys
from pudi.tagging.bucket import AnyBuckets, Buckets
from pudi.tagging.simple import SimpleKeys

Spread = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""`map`, or a function like it that runs calls in threads."""


class KeysInSlices(Protocol):
    """Tells which keys a slice holds by files that an index of base files doesn't read; picklable."""

    def find(self, storage: Storage, file_slice: FileSlice, keys: pa.Array) -> np.ndarray:
        """Return the positions of those keys that a slice holds, ascending."""


@dataclass(frozen=True, slots=True)
class Index:
    """Index by which a write finds the file group of a key (HoodieIndex.IndexType); picklable.

    Attributes:
        is_global: whether a key is unique in the whole table; otherwise in its partition.
        moves: whether a record with another partition path moves there; otherwise it is updated in its old partition.
            For global indexes (hoodie.simple.index.update.partition.path and the options of other indexes).
        bloom: whether to check bloom filters and key ranges in footers before reading keys.
        records: whether to look up keys in the metadata table's record index, which also knows keys in log files.
        buckets: for the bucket index: computes the bucket of a key; None for others.
        late: keys in log files that the base file lacks, for an index that searches base files; None for none.
        live: keys that slices hold after their log files are merged: they tell which of several copies are deleted;
            None without log files.
    """

    is_global: bool = False
    moves: bool = False
    bloom: bool = False
    records: bool = False
    buckets: AnyBuckets | None = None
    late: KeysInSlices | None = field(default=None, compare=False)
    live: KeysInSlices | None = field(default=None, compare=False)

    @property
    def fixed_buckets(self) -> Buckets | None:
        """The buckets, if all partitions have the same number; otherwise None."""
        return self.buckets if isinstance(self.buckets, Buckets) else None


class RecordKeys:
    """Record keys with the file groups that the record index returned. Used like finders that read files.

    Args:
        keys: record keys, without duplicates.
        records: the index.
        partition: the partition of the keys, if the index is per partition.
        spread: runs the look-ups of its file groups, a form of `map`.

    Raises:
        CorruptError: a file group of the index can't be read.
    """

    def __init__(
        self,
        keys: pa.Array,
        records: RecordShards,
        partition: str | None = WHOLE_TABLE,
        spread: Spread = map,
    ) -> None:
        keys = keys.cast(pa.string())
        self._places: dict[FileGroupId, list[np.ndarray]] = {}

        def find(shard: tuple[int, np.ndarray]) -> list[tuple[FileGroupId, np.ndarray]]:
            number, places = shard
            own = keys.take(pa.array(places))
            return list(by_group(records.find(number, own), own, places))

        shards = [(number, places) for number, places in places_of(records.shards_of(keys, partition)) if number >= 0]
        for found in spread(find, shards):
            for group, places in found:
                self._places.setdefault(group, []).append(places)

    def find(self, storage: Storage, file_slice: FileSlice) -> np.ndarray:
        """Return the positions of the keys in a slice, ascending."""
        return self.of(file_slice.group)

    def of(self, group: FileGroupId) -> np.ndarray:
        """Return the positions of the keys in a file group, ascending."""
        parts = self._places.get(group)
        return np.sort(np.concatenate(parts)) if parts else np.empty(0, dtype=np.int64)


def by_group(rows: pa.Table, keys: pa.Array, places: np.ndarray) -> Iterator[tuple[FileGroupId, np.ndarray]]:
    """Return the rows of the record index by file group: partition path and file id, with the positions of their keys.

    Args:
        rows: the index rows found for some keys.
        keys: all requested keys.
        places: for each requested key its position.
    """
    if not rows.num_rows:
        return
    own = places[places_among(one_array(rows[RECORD_KEY]), keys)]
    groups, numbers = groups_in(rows)
    for number, rows_of in places_of(numbers):
        yield groups[number], own[rows_of]


def groups_in(rows: pa.Table) -> tuple[list[FileGroupId], np.ndarray]:
    """Return the file groups that rows of the record index name, each once, and for each row the number of its own."""
    (partitions, first), (files, second) = (_coded(rows[name]) for name in (PARTITION_PATH, FILE_ID))
    count = max(1, len(files))
    pairs, numbers = np.unique(first * count + second, return_inverse=True)
    paths, ids = partitions.to_pylist(), files.to_pylist()
    return [FileGroupId(paths[pair // count], ids[pair % count]) for pair in pairs.tolist()], numbers.reshape(-1)


def _coded(column: pa.ChunkedArray) -> tuple[pa.Array, np.ndarray]:
    """Return the distinct texts of a column, and for each row the number of its text."""
    whole = encoded_column(column)
    return whole.dictionary, np.asarray(whole.indices).astype(np.int64)


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
