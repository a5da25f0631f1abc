"""The record index: the metadata table says in which file group a key is (HoodieIndex.IndexType.RECORD_INDEX)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from pudi.context import Storage
from pudi.filegroup import FileSlice
from pudi.format import FileGroupId
from pudi.metadata.record_index import FILE_ID, WHOLE_TABLE, RecordShards
from pudi.schema import PARTITION_PATH, RECORD_KEY
from pudi.schema.arrays import encoded_column, one_array, places_among, places_of
from pudi.tagging.kinds import Spread


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
