"""Keys of the metadata table's records, and the file group that holds each: texts in, texts and numbers out.

Sources: FORMAT 7.2; HoodieMetadataPayload, HashID, BaseFileUtils, SecondaryIndexKeyUtils, and
HoodieTableMetadataUtil.mapRecordKeyToFileGroupIndex.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from pudi.errors import CorruptError
from pudi.format.java_hash import portions
from pudi.metadata.records import partition_identifier

EXPRESSION_PARTITION: Final = "__partition_stat__"
"""What stands between column and partition in keys of an expression index about a whole partition."""

_SEED = 0xFFFFFFFFDABADABA
"""HashID's seed, an int, as Java widens it to a long."""

_SPLIT_SECONDARY = r"(?s)^(?P<secondary>(?:[^\\$]|\\.)*)\$(?P<key>.*)$"
_NULL_SECONDARY = "\0"


def column_stats_key(column: str, partition: str, file: str) -> str:
    """Key of a column's statistics in a file.

    Args:
        column: name of the column, nested ones with dots.
        partition: path of the data table's partition, empty where there is none.
        file: name of the file without folders.
    """
    return _xx(column) + _xx(partition_identifier(partition)) + _md5(file)


def column_stats_keys(columns: pa.Array, partitions: pa.Array, files: pa.Array) -> pa.Array:
    """`column_stats_key` of each row of three string arrays."""
    return _joined(_each(columns, _xx), _each(partitions, _of_partition), _each(files, _md5))


def partition_stats_key(column: str, partition: str) -> str:
    """Key of a column's statistics in a partition of the data table."""
    return _xx(column) + _xx(partition_identifier(partition))


def partition_stats_keys(columns: pa.Array, partitions: pa.Array) -> pa.Array:
    """`partition_stats_key` of each row of two string arrays."""
    return _joined(_each(columns, _xx), _each(partitions, _of_partition))


def column_prefix(column: str) -> str:
    """What the keys of all statistics of a column begin with."""
    return _xx(column)


def expression_partition_key(column: str, partition: str) -> str:
    """Key of an expression's statistics in a partition of the data table, in an expression index."""
    return _xx(column) + _xx(EXPRESSION_PARTITION) + _xx(partition_identifier(partition))


def expression_partition_keys(columns: pa.Array, partitions: pa.Array) -> pa.Array:
    """`expression_partition_key` of each row of two string arrays."""
    return _joined(_each(columns, _xx), pa.scalar(_xx(EXPRESSION_PARTITION)), _each(partitions, _of_partition))


def bloom_key(partition: str, file: str) -> str:
    """Key of the bloom filter of a base file; arguments as in `column_stats_key`."""
    return _xx(partition_identifier(partition)) + _md5(file)


def bloom_keys(partitions: pa.Array, files: pa.Array) -> pa.Array:
    """`bloom_key` of each row of two string arrays."""
    return _joined(_each(partitions, _of_partition), _each(files, _md5))


def secondary_key(secondary: str | None, record_key: str) -> str:
    """Key of a record in a secondary index.

    Args:
        secondary: the indexed column's value as text; None where it's null.
        record_key: the record's key.
    """
    key: str = secondary_keys(pa.array([secondary], pa.string()), pa.array([record_key], pa.string()))[0].as_py()
    return key


def secondary_keys(secondary: pa.Array, record_keys: pa.Array) -> pa.Array:
    """`secondary_key` of each row of two string arrays."""
    return pc.binary_join_element_wise(_secondary(secondary), _escaped(record_keys), "$")


def secondary_prefixes(secondary: pa.Array) -> pa.Array:
    """What the keys of all records with a value begin with, for each value."""
    return pc.binary_join_element_wise(_secondary(secondary), pa.scalar("$"), "")


def split_secondary_keys(keys: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The values of the indexed column, null where it's null, and the record keys that keys of a secondary index hold.

    Raises:
        CorruptError: a key without the sign that parts them.
    """
    parts = _split(keys)
    secondary, record_keys = (parts.field(place) for place in (0, 1))
    is_null = pc.equal(secondary, _NULL_SECONDARY)
    return pc.if_else(is_null, pa.scalar(None, pa.string()), _unescaped(secondary)), _unescaped(record_keys)


def shard_of(keys: pa.Array, shards: int) -> npt.NDArray[np.int64]:
    """Number of the file group that holds each key.

    Args:
        keys: strings.
        shards: how many file groups the partition of the metadata table has, at least one.
    """
    if shards == 1:
        return np.zeros(len(keys), dtype=np.int64)
    found = [each.hash_codes(each.starts, each.stops) for each in portions(keys)]
    signed = np.concatenate([np.zeros(0, np.uint32), *found]).view(np.int32)
    # Java's abs of the least int is itself; its remainder is negative then, as Java's is, before the second abs
    positive = np.where(signed == -(2**31), signed, np.abs(signed)).astype(np.int64)
    shard: npt.NDArray[np.int64] = np.abs(np.fmod(positive, shards))
    return shard


def secondary_shard_of(keys: pa.Array, shards: int, *, whole_key: bool) -> npt.NDArray[np.int64]:
    """Number of the file group that holds each key of a secondary index.

    Args:
        keys: whole keys, or what `secondary_prefixes` gives where only the value is hashed.
        shards: how many file groups the index has.
        whole_key: the index is of version 1, which hashes the whole key; later ones hash what goes before the record
            key, the sign that parts them included.

    Raises:
        CorruptError: a key without the sign that parts them.
    """
    if whole_key or shards == 1:
        return shard_of(keys, shards)
    return shard_of(pc.binary_join_element_wise(_split(keys).field(0), pa.scalar("$"), ""), shards)


def _xx(text: str) -> str:
    return base64.b64encode(xxhash.xxh64_digest(text.encode(), _SEED)).decode()


def _md5(text: str) -> str:
    return base64.b64encode(hashlib.md5(text.encode(), usedforsecurity=False).digest()).decode()


def _of_partition(partition: str) -> str:
    return _xx(partition_identifier(partition))


def _each(texts: pa.Array | pa.ChunkedArray, encode: Callable[[str], str]) -> pa.Array:
    """Texts encoded; each distinct one is so once."""
    if isinstance(texts, pa.ChunkedArray):
        texts = texts.combine_chunks()
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
        keys = keys.combine_chunks()
    parts = pc.extract_regex(keys, _SPLIT_SECONDARY)
    if parts.null_count > keys.null_count:
        raise CorruptError("a key of a secondary index has no '$' between the value and the record key")
    return parts
