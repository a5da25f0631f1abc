"""Keys of the metadata table's records, and the number of the file group of each key.

Sources: HoodieMetadataPayload, HashID, BaseFileUtils, SecondaryIndexKeyUtils, and
HoodieTableMetadataUtil.mapRecordKeyToFileGroupIndex.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pudi.errors import CorruptError
from pudi.filegroup import FileSlice
from pudi.format.hashes import hash_code, md5_hash, portions, xx_hash
from pudi.format.metadata_partitions import group_prefix, partition_type
from pudi.metadata.record_schema import partition_identifier
from pudi.schema.arrays import one_array

EXPRESSION_PARTITION: Final = "__partition_stat__"
"""Separator between column and partition in an expression index's keys of partition statistics."""

_SPLIT_SECONDARY = r"(?s)^(?P<secondary>(?:[^\\$]|\\.)*)\$(?P<key>.*)$"
_NULL_SECONDARY = "\0"

_FEW = 64
"""Number of keys up to which hashing them one by one takes less time than the calls of Arrow and numpy."""


def column_stats_keys(columns: pa.Array, partitions: pa.Array, files: pa.Array) -> pa.Array:
    """Return the keys of statistics of columns in files, row by row of string arrays.

    Args:
        columns: names of the columns; dots separate fields of structs.
        partitions: paths of the data table's partitions, empty for none.
        files: names of the files without folders.
    """
    return _joined(_each(columns, xx_hash), _each(partitions, _of_partition), _each(files, md5_hash))


def partition_stats_key(column: str, partition: str) -> str:
    """Return the key of a column's statistics in a partition of the data table."""
    return xx_hash(column) + xx_hash(partition_identifier(partition))


def partition_stats_keys(columns: pa.Array, partitions: pa.Array) -> pa.Array:
    """Return `partition_stats_key` of each row of two string arrays."""
    return _joined(_each(columns, xx_hash), _each(partitions, _of_partition))


def column_prefix(column: str) -> str:
    """Return the prefix of the keys of all statistics of a column."""
    return xx_hash(column)


def expression_partition_keys(columns: pa.Array, partitions: pa.Array) -> pa.Array:
    """Return an expression index's keys of statistics in partitions; arguments as of `column_stats_keys`."""
    return _joined(_each(columns, xx_hash), pa.scalar(xx_hash(EXPRESSION_PARTITION)), _each(partitions, _of_partition))


def bloom_key(partition: str, file: str) -> str:
    """Return the key of a base file's bloom filter; arguments as of `column_stats_keys`."""
    return xx_hash(partition_identifier(partition)) + md5_hash(file)


def bloom_keys(partitions: pa.Array, files: pa.Array) -> pa.Array:
    """Return `bloom_key` of each row of two string arrays."""
    return _joined(_each(partitions, _of_partition), _each(files, md5_hash))


def secondary_keys(secondary: pa.Array, record_keys: pa.Array) -> pa.Array:
    """Return the keys of records in a secondary index, row by row of two string arrays.

    Args:
        secondary: the indexed column's values as text; null for null.
        record_keys: the records' keys.
    """
    return pc.binary_join_element_wise(_secondary(secondary), _escaped(record_keys), "$")


def secondary_prefixes(secondary: pa.Array) -> pa.Array:
    """Return for each value the prefix of the keys of all records with it."""
    return pc.binary_join_element_wise(_secondary(secondary), pa.scalar("$"), "")


def split_secondary_keys(keys: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Split keys of a secondary index into the indexed column's values (null for null) and record keys.

    Raises:
        CorruptError: a key has no separator.
    """
    parts = _split(keys)
    secondary, record_keys = (parts.field(place) for place in (0, 1))
    is_null = pc.equal(secondary, _NULL_SECONDARY)
    return pc.if_else(is_null, pa.scalar(None, pa.string()), _unescaped(secondary)), _unescaped(record_keys)


def shard_of(keys: pa.Array, shards: int) -> npt.NDArray[np.int64]:
    """Return the number of the file group of each key.

    Args:
        keys: strings.
        shards: number of file groups of the partition, at least one.
    """
    if shards == 1:
        return np.zeros(len(keys), dtype=np.int64)
    if len(keys) <= _FEW:
        return np.array([_shard_of_hash(hash_code(key or ""), shards) for key in keys.to_pylist()], np.int64)
    found = [each.hash_codes(each.starts, each.stops) for each in portions(keys)]
    signed = np.concatenate([np.zeros(0, np.uint32), *found]).view(np.int32)
    # Java's abs of the minimum int is negative, and so is its remainder before the second abs
    positive = np.where(signed == -(2**31), signed, np.abs(signed)).astype(np.int64)
    shard: npt.NDArray[np.int64] = np.abs(np.fmod(positive, shards))
    return shard


def _shard_of_hash(code: int, shards: int) -> int:
    """Return the number of the file group of a key by its hash code; see `shard_of` for the least integer."""
    return abs(int(math.fmod(code if code == -(2**31) else abs(code), shards)))


def secondary_shard_of(keys: pa.Array, shards: int, *, whole_key: bool) -> npt.NDArray[np.int64]:
    """Return the number of the file group of each key of a secondary index.

    Args:
        keys: whole keys, or the result of `secondary_prefixes` if only the value is hashed.
        shards: number of file groups of the index.
        whole_key: whether the whole key is hashed, as in version 1; later versions hash the part before the record key,
            including the separator.

    Raises:
        CorruptError: a key has no separator.
    """
    if whole_key or shards == 1:
        return shard_of(keys, shards)
    return shard_of(pc.binary_join_element_wise(_split(keys).field(0), pa.scalar("$"), ""), shards)


def _of_partition(partition: str) -> str:
    return xx_hash(partition_identifier(partition))


def _each(texts: pa.Array | pa.ChunkedArray, encode: Callable[[str], str]) -> pa.Array:
    """Encode texts; each distinct text is encoded once."""
    if len(texts) <= _FEW:
        plain = texts.to_pylist()
        known = {text: encode(text) for text in dict.fromkeys(plain) if text is not None}
        return pa.array(map(known.get, plain), pa.string())
    if isinstance(texts, pa.ChunkedArray):
        texts = one_array(texts)
    coded = pc.dictionary_encode(texts)
    return pa.array([encode(text) for text in coded.dictionary.to_pylist()], pa.string()).take(coded.indices)


def _joined(*parts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(*parts, "")


def _secondary(values: pa.Array) -> pa.Array:
    return pc.fill_null(_escaped(values), _NULL_SECONDARY)


def _escaped(texts: pa.Array) -> pa.Array:
    for char in ("\\", "$", "\0"):
        texts = pc.replace_substring(texts, char, f"\\{char}")
    return texts


def _unescaped(texts: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(texts, r"(?s)\\(.)", r"\1")


def _split(keys: pa.Array) -> pa.StructArray:
    if isinstance(keys, pa.ChunkedArray):
        keys = one_array(keys)
    parts = pc.extract_regex(keys, _SPLIT_SECONDARY)
    if parts.null_count > keys.null_count:
        raise CorruptError("a key of a secondary index has no '$' between the value and the record key")
    return parts


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
