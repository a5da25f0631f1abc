"""Look up record keys: in a file slice, or through the record index."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.context import Storage
from pudi.filegroup import FileSlice
from pudi.format import FileGroupId
from pudi.merge import MergeRule
from pudi.metadata.record_index import FILE_ID, WHOLE_TABLE, RecordShards
from pudi.plan import Merging, Operation
from pudi.schema import PARTITION_PATH, RECORD_KEY
from pudi.schema.arrays import encoded_column, one_array, places_of
from pudi.schema.internal import SchemaHistory
from pudi.tagging import BloomKeys, Index, KeysInLogs, SimpleKeys


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
        spread: Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]] = map,
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
    own = places[np.asarray(pc.index_in(one_array(rows[RECORD_KEY]), value_set=keys))]
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


Spread = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""`map`, or a function like it that runs calls in threads."""


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
    late: KeysInLogs

    def find(self, storage: Storage, file_slice: FileSlice) -> np.ndarray:
        """See `KeyFinder.find`."""
        late = self.late.find(storage, file_slice, self.keys)
        found = self.finder.find(storage, file_slice)
        return np.union1d(found, late) if len(late) else found
