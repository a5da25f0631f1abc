"""Partitions of the metadata table: their names and types, with each type's rules for names, keys and records.

Source: MetadataPartitionType, HoodieIndexVersion.getCurrentVersion.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from pudi.config.metadata_options import maintain_partitions
from pudi.errors import NotSupportedError

FILES: Final = "files"
"""Partition with the list of partitions and the files of each."""
COLUMN_STATS: Final = "column_stats"
"""Partition with minimum, maximum and counts of each indexed column in each file."""
PARTITION_STATS: Final = "partition_stats"
"""Partition with the same statistics over all files of a partition."""
BLOOM_FILTERS: Final = "bloom_filters"
"""Partition with the bloom filter of each base file's record keys."""
RECORD_INDEX: Final = "record_index"
"""Partition with the location of each record key."""
SECONDARY_INDEX_PREFIX: Final = "secondary_index_"
"""Partitions with the record keys of each value of a column; the index's name follows."""
EXPRESSION_INDEX_PREFIX: Final = "expr_index_"
"""Partitions with column statistics or bloom filters of an expression; the index's name follows."""


@dataclass(frozen=True, slots=True)
class MetadataPartitionType:
    """A type of partitions of the metadata table (MetadataPartitionType).

    Attributes:
        name: the partition's name, or its prefix if a table may have several.
        payload: the columns with the content of a record, besides key and type.
        is_named: whether a table may have several partitions of the type with names of their own.
        group_prefix: prefix of file ids, if it doesn't follow from the name.
        keys_begin_with_value: whether the value at the start of a key determines its file group.
        has_owners: whether each partition of the table may have its own file groups.
        first_v2: the first table version in which the index has version 2; None for never.
        since: the first table version that has such partitions.
        companions: partitions that are made and dropped together with the index.
        is_defined: whether `.hoodie/.index_defs/index.json` has an entry of the index.
        has_methods: whether the `indexType` of that entry says how values are stored, instead of the kind of index.
        function: the `indexFunction` that Hudi writes there; None for the index's own.
    """

    name: str
    payload: tuple[str, ...]
    is_named: bool = False
    group_prefix: str | None = None
    keys_begin_with_value: bool = False
    has_owners: bool = False
    first_v2: int | None = None
    since: int = 6
    companions: tuple[str, ...] = ()
    is_defined: bool = True
    has_methods: bool = False
    function: str | None = None

    def includes(self, partition: str) -> bool:
        """Return whether a partition of the metadata table is of this type."""
        return partition == self.name or (self.is_named and partition.startswith(self.name))

    @property
    def index_name(self) -> str:
        """The kind of index by name, as users and definitions spell it."""
        return self.name.rstrip("_")

    def version(self, table_version: int) -> int:
        """Return the version of a new index of the type in a table of some version."""
        return 2 if self.first_v2 is not None and table_version >= self.first_v2 else 1


_TYPES: list[MetadataPartitionType] = [
    MetadataPartitionType(FILES, ("filesystemMetadata",)),
    MetadataPartitionType(
        COLUMN_STATS,
        ("ColumnStatsMetadata",),
        group_prefix="col-stats-",
        first_v2=9,
        companions=(PARTITION_STATS,),
        function=COLUMN_STATS,
    ),
    MetadataPartitionType(PARTITION_STATS, ("ColumnStatsMetadata",), since=8),
    MetadataPartitionType(BLOOM_FILTERS, ("BloomFilterMetadata",), is_defined=False),
    MetadataPartitionType(RECORD_INDEX, ("recordIndexMetadata",), has_owners=True),
    MetadataPartitionType(
        SECONDARY_INDEX_PREFIX,
        ("SecondaryIndexMetadata",),
        is_named=True,
        keys_begin_with_value=True,
        first_v2=9,
        since=8,
    ),
    MetadataPartitionType(
        EXPRESSION_INDEX_PREFIX,
        ("BloomFilterMetadata", "ColumnStatsMetadata"),
        is_named=True,
        first_v2=9,
        since=8,
        has_methods=True,
    ),
]


def register_partition_type(added: MetadataPartitionType) -> None:
    """Register another partition type in this process; it replaces one of the same name."""
    _TYPES[:] = [*(each for each in _TYPES if each.name != added.name), added]
    maintain_partitions(added.name, is_named=added.is_named)


def find_partition_type(partition: str) -> MetadataPartitionType | None:
    """Return the type of a partition of the metadata table; None if this release doesn't know it."""
    return next((each for each in _TYPES if each.includes(partition)), None)


def partition_type(partition: str) -> MetadataPartitionType:
    """Return the type of a partition of the metadata table.

    Raises:
        NotSupportedError: the partition comes from a later Hudi.
    """
    found = find_partition_type(partition)
    if found is None:
        raise NotSupportedError(f"the metadata table's partition {partition!r}: this release of pudi doesn't know it")
    return found


def companions_of(partition: str) -> tuple[str, ...]:
    """Return the partitions that come with an index."""
    known = find_partition_type(partition)
    return () if known is None else known.companions


def with_companions(partitions: Collection[str]) -> set[str]:
    """Return partitions, and those that are made and dropped together with them."""
    found = set(partitions)
    for each in _TYPES:
        family = {each.name, *each.companions}
        if each.companions and family & found:
            found |= family
    return found


def group_prefix(partition: str) -> str:
    """Return the prefix of the file ids of a partition (MetadataPartitionType.getFileIdPrefix)."""
    known = find_partition_type(partition)
    own = None if known is None else known.group_prefix
    return f"{partition.replace('_', '-')}-" if own is None else own


def group_id(partition: str, number: int, owner: str = "") -> str:
    """Return the file id of a file group of the metadata table (HoodieTableMetadataUtil.getFileIDForFileGroup).

    Args:
        partition: the metadata table's partition.
        number: the file group's number.
        owner: for an index per partition of the data table, that partition's path, escaped and followed by a dash.
    """
    return f"{group_prefix(partition)}{owner}{number:04}-0"
