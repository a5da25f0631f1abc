"""Derive what a commit touches: file groups, partitions that get new keys, partitions that were read."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

from pudi.format import CommitMetadata, bucket_of_file_id

_CLUSTER = "CLUSTER"

Group: TypeAlias = tuple[str, str]
"""Partition path and file id."""

Reads: TypeAlias = Callable[[Collection[str]], Collection[str]]
"""Selects of given partitions those that a write read, or would have read if they existed."""


class KeyScope(Enum):
    """Within what a record key lives in one file group."""

    BUCKET = auto()
    """The partition, in which the key's hash determines the file group."""
    RING = auto()
    """Likewise, by consistent hashing: a write that replaces a partition's file groups gives new ones to its hashes."""
    PARTITION = auto()
    TABLE = auto()


@dataclass(frozen=True, slots=True)
class Touched:
    """Changes of a write to a table, as far as they are known.

    Attributes:
        groups: file groups that it writes or replaces.
        inserts: partitions that get new keys.
        scope: where a key lives in one file group; None where that isn't promised.
        reads: which partitions it reads; None for none.
    """

    groups: frozenset[Group]
    inserts: frozenset[str]
    scope: KeyScope | None
    reads: Reads | None = None

    @classmethod
    def of(cls, written: CommitMetadata, scope: KeyScope | None, reads: Reads | None) -> Touched:
        """Return the changes that a commit made."""
        groups = frozenset(groups_of(written) | replaced_groups(written))
        return cls(groups, frozenset(insert_partitions(written)), scope, reads)

    @property
    def partitions(self) -> set[str]:
        """Partitions that it writes to."""
        return {partition for partition, _ in self.groups} | self.inserts


def groups_of(metadata: CommitMetadata) -> set[Group]:
    """File groups that a commit wrote."""
    return {(p, s.file_id or "") for p, stats in metadata.partition_to_write_stats.items() for s in stats}


def replaced_groups(metadata: CommitMetadata) -> set[Group]:
    """File groups that a commit took out of the table."""
    replaced = metadata.partition_to_replace_file_ids or {}
    return {(partition, file_id) for partition, ids in replaced.items() for file_id in ids}


def insert_partitions(metadata: CommitMetadata) -> set[str]:
    """Partitions that got new keys by a commit; a clustering only moves records."""
    if metadata.operation_type == _CLUSTER:
        return set()
    return {p for p, stats in metadata.partition_to_write_stats.items() if any(s.num_inserts for s in stats)}


def owned(groups: Collection[Group], scope: KeyScope | None) -> set[Group]:
    """Return what no concurrent commit may write: file groups, or the buckets of a bucket table."""
    if scope is not KeyScope.BUCKET:
        return set(groups)
    return {(p, file_id if (b := bucket_of_file_id(file_id)) is None else f"{b:08}") for p, file_id in groups}
