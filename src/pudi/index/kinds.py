"""The index that writes use, as one value."""

from __future__ import annotations

from dataclasses import dataclass

from pudi.index.bucket import AnyBuckets, Buckets


@dataclass(frozen=True, slots=True)
class Index:
    """How a write finds the file group of a key (HoodieIndex.IndexType); picklable. The default is the simple index.

    Attributes:
        is_global: whether a key is unique in the whole table; otherwise in its partition.
        moves: whether a record with another partition path moves there; otherwise it is updated in its old partition.
            For global indexes (hoodie.simple.index.update.partition.path and the options of other indexes).
        bloom: whether to check bloom filters and key ranges in footers before reading keys.
        records: whether to look up keys in the metadata table's record index, which also knows keys in log files.
        buckets: for the bucket index: computes the bucket of a key; None for others.
    """

    is_global: bool = False
    moves: bool = False
    bloom: bool = False
    records: bool = False
    buckets: AnyBuckets | None = None

    @property
    def fixed_buckets(self) -> Buckets | None:
        """The buckets, if all partitions have the same number; otherwise None."""
        return self.buckets if isinstance(self.buckets, Buckets) else None
