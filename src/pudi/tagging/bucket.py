"""The bucket index: a key's hash determines its bucket in the partition, a file id names the bucket of a file."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from dataclasses import field as attribute
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pudi.errors import CorruptError
from pudi.format import (
    CONSISTENT_HASHING_DIR,
    FileGroupId,
    bucket_of_file_id,
    new_bucket_file_id,
    shared_bucket_file_id,
)
from pudi.format.hashes import Int64, Texts, UInt32, portions, xxh32
from pudi.format.hashing import Ring

_BASE = np.uint32(31)
_NULL, _EMPTY = "__null__", "__empty__"
_SIGN = np.uint32(0x7FFFFFFF)
_CONSISTENT_SUFFIX = "-0"
"""Suffix of file ids of consistent hashing: one bucket has one file group (FSUtils.createNewFileId)."""


@dataclass(frozen=True, slots=True)
class Buckets:
    """The division of partitions into a fixed number of buckets (HoodieSimpleBucketIndex).

    Attributes:
        count: number of buckets per partition.
        fields: the hashed columns of the record key.
        shared: whether all writers give a bucket's file group the same id, by which they begin it together.
        retired: file groups, by partition path and id, whose ids are used up, since they were replaced.
    """

    count: int
    fields: tuple[str, ...]
    shared: bool = False
    retired: frozenset[FileGroupId] = frozenset()

    def hashes(self, keys: pa.Array[Any] | pa.ChunkedArray[Any]) -> UInt32:
        """Return the hashes of record keys, from which their buckets follow."""
        return key_hashes(keys, self.fields)

    def of(self, keys: pa.Array[Any] | pa.ChunkedArray[Any]) -> npt.NDArray[np.int32]:
        """Return the bucket of each record key (BucketIdentifier.getBucketId)."""
        return self._numbers(self.hashes(keys))

    def named(self, hashes: UInt32, partition: str) -> tuple[list[str], Int64]:
        """Return the bucket names of a partition's records, and for each hash the position of its bucket."""
        numbers, places = np.unique(self._numbers(hashes), return_inverse=True)
        return [bucket_name(number) for number in numbers.tolist()], places.astype(np.int64)

    @property
    def names(self) -> list[str]:
        """Return the names of all buckets of a partition, by number."""
        return [bucket_name(number) for number in range(self.count)]

    def name_of(self, file_id: str, partition: str, *, table: str, path: str) -> str:
        """Return the name of a file group's bucket; raises as `bucket_of`."""
        return bucket_name(bucket_of(file_id, table=table, path=path))

    def file_id(self, name: str, partition: str, unique: str) -> str:
        """Return the id of a bucket's first file group."""
        if not self.shared:
            return new_bucket_file_id(unique, int(name))
        ids = (shared_bucket_file_id(int(name), number) for number in itertools.count())
        return next(each for each in ids if (partition, each) not in self.retired)

    def _numbers(self, hashes: UInt32) -> npt.NDArray[np.int32]:
        buckets: npt.NDArray[np.int32] = (hashes % np.uint32(self.count)).astype(np.int32)
        return buckets


@dataclass(frozen=True, slots=True)
class ConsistentBuckets:
    """Buckets by consistent hashing: a partition's ring assigns hashes to buckets (HoodieSparkConsistentBucketIndex).

    Attributes:
        count: initial number of buckets of a new partition.
        fields: the hashed columns of the record key.
        rings: the rings by partition path.
    """

    count: int
    fields: tuple[str, ...]
    rings: Mapping[str, Ring] = attribute(default_factory=dict)

    def renewed(self, partitions: Collection[str], seed: str) -> ConsistentBuckets:
        """Return the same buckets with new file group ids in some partitions; `seed` makes the ids unique."""
        rings = {p: ring.renewed(p, seed) if p in partitions else ring for p, ring in self.rings.items()}
        return replace(self, rings=rings)

    def ring(self, partition: str) -> Ring:
        """Return a partition's ring; for a partition without one, the ring that it will get."""
        return self.rings.get(partition) or Ring.first(partition, self.count)

    def hashes(self, keys: pa.Array[Any] | pa.ChunkedArray[Any]) -> UInt32:
        """Return the hashes of record keys, from which their buckets follow (ConsistentBucketIdentifier.getBucket)."""
        masked: UInt32 = xxh32(_hashed_texts(keys, self.fields)) & _SIGN
        return masked

    def named(self, hashes: UInt32, partition: str) -> tuple[list[str], Int64]:
        """See `Buckets`; a bucket's name is the prefix of its file ids."""
        ring = self.ring(partition)
        places = np.searchsorted(np.array(ring.values, np.int64), hashes.astype(np.int64))
        numbers, codes = np.unique(np.where(places < len(ring.values), places, 0), return_inverse=True)
        return [ring.prefixes[number] for number in numbers.tolist()], codes.astype(np.int64)

    def name_of(self, file_id: str, partition: str, *, table: str, path: str) -> str:
        """Return the name of a file group's bucket.

        Raises:
            CorruptError: the partition's ring lacks the bucket.
        """
        name = file_id.removesuffix(_CONSISTENT_SUFFIX)
        ring = self.ring(partition)
        if name not in ring.prefixes:
            raise CorruptError(
                f"file group {file_id} is none of the buckets of partition {partition!r}: its hashing metadata "
                f"({ring.path or f'none in {CONSISTENT_HASHING_DIR}/{partition}'}) is damaged, a newer one beside it "
                "was lost, or another index wrote the file",
                table=table,
                path=path,
            )
        return name

    def file_id(self, name: str, partition: str, unique: str) -> str:
        """Return the id of a bucket's file group, which never changes."""
        return f"{name}{_CONSISTENT_SUFFIX}"


AnyBuckets = Buckets | ConsistentBuckets


def bucket_name(bucket: int) -> str:
    """Return a bucket's name, as in tagged records and at the start of file ids."""
    return f"{bucket:08}"


def _hashed_texts(
    keys: pa.Array[Any] | pa.ChunkedArray[Any], fields: tuple[str, ...]
) -> pa.Array[Any] | pa.ChunkedArray[Any]:
    """Return the hashed text of each record key; like Hudi, split keys that look like `a:1,b:x`."""
    several = pc.and_(pc.match_substring(keys, ":"), pc.match_substring(keys, ","))
    if not pc.any(several).as_py():
        return keys
    return pa.chunked_array([_joined(texts, fields) for texts in portions(keys)], pa.large_string())


def _joined(texts: Texts, fields: tuple[str, ...]) -> pa.Array[Any]:
    """Return the values of some columns in keys like `a:1,b:x`, joined; other keys unchanged.

    A null becomes the text `null`, as in `String.join` (ConsistentBucketIdentifier.getBucket).
    """
    whole = texts.cut(texts.starts, texts.stops)
    places = _Places.of(texts)
    rows = places.several()
    pieces, found = [], np.zeros(len(rows), dtype=np.bool_)
    for wanted, value, end in places.values(rows, fields):
        null = wanted & texts.equal(value, end, _NULL)
        kept = wanted & ~null & ~texts.equal(value, end, _EMPTY)
        piece = texts.cut(np.where(kept, value, end), end)
        pieces.append(pc.if_else(pa.array(null), "null", piece))
        found |= wanted
    if not found.any():
        return whole
    joined = pc.binary_join_element_wise(*pieces, pa.scalar("", pa.large_string())).filter(pa.array(found))
    mask = np.zeros(len(whole), dtype=np.bool_)
    mask[rows[found]] = True
    return pc.replace_with_mask(whole, pa.array(mask), joined)


def key_hashes(keys: pa.Array[Any] | pa.ChunkedArray[Any], fields: tuple[str, ...]) -> UInt32:
    """Return the hash of the list of each key's values, without its sign; its remainder is the bucket.

    Args:
        keys: record keys, without nulls.
        fields: the hashed columns of the record key.
    """
    parts = [_hashes(texts, fields) & _SIGN for texts in portions(keys)]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.uint32)


def bucket_of(file_id: str, *, table: str, path: str) -> int:
    """Return the bucket number in a file id.

    Raises:
        CorruptError: the file id has no bucket number.
    """
    bucket = bucket_of_file_id(file_id)
    if bucket is None:
        raise CorruptError(
            f"file id {file_id!r} does not begin with the eight digits of a bucket: another index wrote this file; "
            "write the table with that index, or make a new one",
            table=table,
            path=path,
        )
    return bucket


def _hashes(texts: Texts, fields: tuple[str, ...]) -> UInt32:
    """Compute `List.hashCode` of each key's values.

    Source: BucketIdentifier.getHashKeys, KeyGenUtils.extractRecordKeysByFields.
    """
    whole: UInt32 = _BASE + texts.hash_codes(texts.starts, texts.stops)
    places = _Places.of(texts)
    rows = places.several()
    found, result = np.zeros(len(rows), dtype=np.bool_), np.ones(len(rows), dtype=np.uint32)
    for wanted, value, end in places.values(rows, fields):
        blank = texts.equal(value, end, _NULL) | texts.equal(value, end, _EMPTY)
        element = np.where(blank, np.uint32(0), texts.hash_codes(value, end))
        result = np.where(wanted, result * _BASE + element, result)
        found |= wanted
    whole[rows] = np.where(found, result, whole[rows])
    return whole


@dataclass(frozen=True, slots=True)
class _Places:
    """Record keys, with the positions of colons and commas."""

    texts: Texts
    colons: Int64
    commas: Int64

    @classmethod
    def of(cls, texts: Texts) -> _Places:
        return cls(texts, *(np.flatnonzero(texts.content == ord(sign)) for sign in ":,"))

    def several(self) -> Int64:
        """Return the positions of the keys that look like `a:1,b:x`."""
        starts, stops = self.texts.starts, self.texts.stops
        both = (_next(self.colons, starts, stops) < stops) & (_next(self.commas, starts, stops) < stops)
        return np.flatnonzero(both)

    def values(self, rows: Int64, fields: tuple[str, ...]) -> Iterator[tuple[npt.NDArray[np.bool_], Int64, Int64]]:
        """Yield for each column of the keys in turn: whether it is hashed, and start and end of its value.

        A value ends at the last comma before the colon that follows the first comma, since values may contain commas
        and colons.
        """
        texts, colons, commas = self.texts, self.colons, self.commas
        begin, stops = texts.starts[rows], texts.stops[rows]
        while (begin < stops).any():
            colon = _next(colons, begin, stops)
            following = _next(colons, _next(commas, colon, stops), stops)
            last_comma = commas[np.maximum(np.searchsorted(commas, following) - 1, 0)]
            value, end = np.minimum(colon + 1, stops), np.where(following < stops, last_comma, stops)
            wanted = np.zeros(len(rows), dtype=np.bool_)
            for field in fields:
                wanted |= texts.equal(begin, colon, field)
            yield wanted & (begin < stops), value, end
            begin = np.where(following < stops, end + 1, stops)


def _next(places: Int64, begin: Int64, stops: Int64) -> Int64:
    """Return the first of some positions at or after each start; the text's end if there is none before it."""
    at = np.searchsorted(places, begin)
    found = np.where(at < len(places), places[np.minimum(at, len(places) - 1)], stops) if len(places) else stops
    return np.minimum(found, stops)
