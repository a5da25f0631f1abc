"""File groups of the metadata table's partitions: find the file group of a key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from pudi.errors import CorruptError
from pudi.filegroup import FileSlice
from pudi.format.metadata_partitions import group_prefix, partition_type
from pudi.metadata.keys import secondary_shard_of, shard_of


def are_empty(slices: Iterable[FileSlice]) -> bool:
    """Return whether the file groups have only the empty log file that each begins with."""
    return all(each.base is None and len(each.logs) <= 1 for each in slices)


@dataclass(frozen=True, slots=True)
class Shards:
    """The file groups of a partition of the metadata table.

    Attributes:
        partition: the metadata table's partition.
        by_owner: file slices in the order of their numbers, under None; for a record index per partition, by the path
            of the data table's partition.
    """

    partition: str
    by_owner: Mapping[str | None, tuple[FileSlice, ...]]

    @classmethod
    def of(cls, partition: str, slices: Sequence[FileSlice]) -> Shards:
        """Return the file groups of some slices.

        Raises:
            CorruptError: there are none, or a number is missing.
        """
        found: dict[str | None, dict[int, FileSlice]] = {}
        for each in slices:
            owner, number = _parse(partition, each)
            found.setdefault(owner, {})[number] = each
        for groups in found.values():
            if sorted(groups) != list(range(len(groups))):
                raise CorruptError(
                    f"partition {partition!r} of the metadata table lacks file groups: it has {sorted(groups)}; "
                    "rebuild the metadata table (`pudi repair`)",
                    path=next(iter(groups.values())).path,
                )
        if not found:
            raise CorruptError(f"partition {partition!r} of the metadata table has no file group; rebuild it")
        return cls(partition, {owner: tuple(groups[n] for n in range(len(groups))) for owner, groups in found.items()})

    @property
    def partitioned(self) -> bool:
        """Whether the index is divided by partition of the data table."""
        return None not in self.by_owner

    @property
    def is_empty(self) -> bool:
        """Whether the partition has no entries."""
        return are_empty(self.all)

    @property
    def all(self) -> tuple[FileSlice, ...]:
        """Return all file groups."""
        return tuple(each for groups in self.by_owner.values() for each in groups)

    def holding(self, keys: pa.Array, *, whole_key: bool, owner: str | None = None) -> list[tuple[FileSlice, pa.Array]]:
        """Return the file groups that may hold some keys, each with its keys.

        Args:
            keys: strings.
            whole_key: see `secondary_shard_of`; ignored for other indexes.
            owner: the data table's partition, for an index per partition.

        Returns:
            File groups without keys are left out. A partition without an index has none.
        """
        if self.partitioned and owner is None:
            parts = [self._holding(keys, groups, whole_key) for groups in self.by_owner.values()]
            return [each for part in parts for each in part]
        return self._holding(keys, self.by_owner.get(owner if self.partitioned else None, ()), whole_key)

    def _holding(
        self, keys: pa.Array, groups: Sequence[FileSlice], whole_key: bool
    ) -> list[tuple[FileSlice, pa.Array]]:
        if not groups or not len(keys):
            return []
        if partition_type(self.partition).keys_begin_with_value:
            shard = secondary_shard_of(keys, len(groups), whole_key=whole_key)
        else:
            shard = shard_of(keys, len(groups))
        order = np.argsort(shard, kind="stable")
        used, begin = np.unique(shard[order], return_index=True)
        ends = [*begin[1:].tolist(), len(order)]
        return [
            (groups[number], keys.take(pa.array(order[start:end])))
            for number, start, end in zip(used.tolist(), begin.tolist(), ends, strict=True)
        ]


def _parse(partition: str, file_slice: FileSlice) -> tuple[str | None, int]:
    """Return the data table's partition (for an index per partition) and the number in a file id."""
    prefix = group_prefix(partition)
    parts = file_slice.file_id.removeprefix(prefix).removesuffix("-0").split("-")
    owned = partition_type(partition).has_owners and len(parts) == 2
    if not file_slice.file_id.startswith(prefix) or len(parts) != 1 + owned or not parts[-1].isdecimal():
        raise CorruptError(
            f"{file_slice.file_id!r} is no file group of the metadata table's partition {partition!r}",
            path=file_slice.path,
        )
    return (unquote(parts[0], "latin-1") if owned else None), int(parts[-1])
