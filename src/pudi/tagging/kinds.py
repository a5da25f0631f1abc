"""The index that writes use, as one value."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from pudi.context import Storage
from pudi.filegroup import FileSlice
from pudi.tagging.bucket import AnyBuckets, Buckets

Spread = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""`map`, or a function like it that runs calls in threads."""


class KeysInSlices(Protocol):
    """Knows which keys slices hold, by other files than an index of base files reads; picklable."""

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
