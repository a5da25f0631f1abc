"""Find keys through the record index: each file group of the index looks up its share of the keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.context import Storage
from pudi.filegroup import FileSlice
from pudi.metadata.shards import FILE_ID, WHOLE_TABLE, RecordShards
from pudi.schema import PARTITION_PATH, RECORD_KEY
from pudi.schema.arrays import encoded_column, one_array


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
        self._places: dict[tuple[str, str], list[np.ndarray]] = {}

        def find(shard: tuple[int, np.ndarray]) -> list[tuple[tuple[str, str], np.ndarray]]:
            number, places = shard
            own = keys.take(pa.array(places))
            return list(by_group(records.find(number, own), own, places))

        for found in spread(find, list(_by_value(records.shards_of(keys, partition)))):
            for group, places in found:
                self._places.setdefault(group, []).append(places)

    def find(self, storage: Storage, file_slice: FileSlice) -> np.ndarray:
        """Return the positions of the keys in a slice, ascending."""
        return self.of(file_slice.partition, file_slice.file_id)

    def of(self, partition: str, file_id: str) -> np.ndarray:
        """Return the positions of the keys in a file group, ascending."""
        parts = self._places.get((partition, file_id))
        return np.sort(np.concatenate(parts)) if parts else np.empty(0, dtype=np.int64)


def by_group(rows: pa.Table, keys: pa.Array, places: np.ndarray) -> Iterator[tuple[tuple[str, str], np.ndarray]]:
    """Return the rows of the record index by file group: partition path and file id, with the positions of their keys.

    Args:
        rows: the index rows found for some keys.
        keys: all requested keys.
        places: for each requested key its position.
    """
    if not rows.num_rows:
        return
    own = places[np.asarray(pc.index_in(one_array(rows[RECORD_KEY]), value_set=keys))]
    coded = [_coded(rows[name]) for name in (PARTITION_PATH, FILE_ID)]
    (partitions, first), (files, second) = coded
    pairs = first * len(files) + second
    for pair, rows_of in _by_value(pairs):
        group = partitions[pair // len(files)].as_py(), files[pair % len(files)].as_py()
        yield group, own[rows_of]


def _coded(column: pa.ChunkedArray) -> tuple[pa.Array, np.ndarray]:
    """Return the distinct texts of a column, and for each row the number of its text."""
    whole = encoded_column(column)
    return whole.dictionary, np.asarray(whole.indices).astype(np.int64)


def _by_value(values: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Return each distinct non-negative value with its positions, ascending."""
    order = np.argsort(values, kind="stable")
    distinct, starts = np.unique(values[order], return_index=True)
    if len(values):
        for value, places in zip(distinct.tolist(), np.split(order, starts[1:]), strict=True):
            if value >= 0:
                yield value, places
