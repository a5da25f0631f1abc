"""What a table's index is, as one value: where keys are looked for, and how."""

from __future__ import annotations

from dataclasses import dataclass

from pudi.index.bucket import AnyBuckets, Buckets


@dataclass(frozen=True, slots=True)
class Index:
    """How a write finds the file group of a key (HoodieIndex.IndexType); picklable. By default the simple index.

    Attributes:
        is_global: whether a key is one record in the whole table, else in its partition.
        moves: whether a record that comes with another partition path goes there, else it's updated where it is;
            for global indexes (hoodie.simple.index.update.partition.path and its like).
        bloom: whether bloom filters and key ranges in footers are asked before keys are read.
        records: whether the metadata table's record index says where keys are; it knows those in log files too.
        buckets: for the bucket index, which looks up nothing: how keys are placed.
    """

    is_global: bool = False
    moves: bool = False
    bloom: bool = False
    records: bool = False
    buckets: AnyBuckets | None = None

    @property
    def fixed_buckets(self) -> Buckets | None:
        """The buckets, where they're the same in all partitions."""
        return self.buckets if isinstance(self.buckets, Buckets) else None
