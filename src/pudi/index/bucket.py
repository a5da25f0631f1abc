"""The bucket index: a key's hash says which of its partition's buckets it is in, a file id which one a file is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pudi.errors import CorruptError
from pudi.format import bucket_of_file_id
from pudi.format.java_hash import Int64, Texts, UInt32, portions

_BASE = np.uint32(31)
_NULL, _EMPTY = "__null__", "__empty__"
_SIGN = np.uint32(0x7FFFFFFF)
MAX_BUCKETS = 99_999_999
"""As many as eight digits of a file id can tell apart."""


@dataclass(frozen=True, slots=True)
class Buckets:
    """How a table's partitions are divided into buckets (HoodieSimpleBucketIndex).

    Attributes:
        count: buckets in each partition.
        fields: columns of the record key whose values are hashed.
    """

    count: int
    fields: tuple[str, ...]

    def of(self, keys: pa.Array[Any] | pa.ChunkedArray[Any]) -> npt.NDArray[np.int32]:
        """The bucket of each record key (BucketIdentifier.getBucketId)."""
        hashes = key_hashes(keys, self.fields)
        buckets: npt.NDArray[np.int32] = (hashes % np.uint32(self.count)).astype(np.int32)
        return buckets


def key_hashes(keys: pa.Array[Any] | pa.ChunkedArray[Any], fields: tuple[str, ...]) -> UInt32:
    """What the number of buckets divides: the hash of the list of a key's values, without its sign.

    Args:
        keys: record keys, none null.
        fields: columns of the record key whose values count.
    """
    parts = [_hashes(texts, fields) & _SIGN for texts in portions(keys)]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.uint32)


def bucket_of(file_id: str, *, table: str, path: str) -> int:
    """The bucket that a file of a bucket table holds.

    Raises:
        CorruptError: the file id doesn't begin with one.
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
    """`List.hashCode` of each key's values (BucketIdentifier.getHashKeys, KeyGenUtils.extractRecordKeysByFields)."""
    colons, commas = np.flatnonzero(texts.content == ord(":")), np.flatnonzero(texts.content == ord(","))
    whole: UInt32 = _BASE + texts.hash_codes(texts.starts, texts.stops)
    several = (_next(colons, texts.starts, texts.stops) < texts.stops) & (
        _next(commas, texts.starts, texts.stops) < texts.stops
    )
    rows = np.flatnonzero(several)
    if len(rows):
        whole[rows] = _hashes_of_several(texts, rows, colons, commas, fields, whole[rows])
    return whole


def _hashes_of_several(
    texts: Texts, rows: Int64, colons: Int64, commas: Int64, fields: tuple[str, ...], whole: UInt32
) -> UInt32:
    """Hashes of keys as `a:1,b:x`, field by field; `whole` where none of `fields` is among them.

    A value ends at the last comma before the first colon after the first comma in or after it: values may hold commas
    and colons.
    """
    begin, stops = texts.starts[rows], texts.stops[rows]
    found, result = np.zeros(len(rows), dtype=np.bool_), np.ones(len(rows), dtype=np.uint32)
    while (begin < stops).any():
        colon = _next(colons, begin, stops)
        following = _next(colons, _next(commas, colon, stops), stops)
        last_comma = commas[np.maximum(np.searchsorted(commas, following) - 1, 0)]
        value, end = np.minimum(colon + 1, stops), np.where(following < stops, last_comma, stops)
        wanted = np.zeros(len(rows), dtype=np.bool_)
        for field in fields:
            wanted |= texts.equal(begin, colon, field)
        wanted &= begin < stops
        blank = texts.equal(value, end, _NULL) | texts.equal(value, end, _EMPTY)
        element = np.where(blank, np.uint32(0), texts.hash_codes(value, end))
        result = np.where(wanted, result * _BASE + element, result)
        found |= wanted
        begin = np.where(following < stops, end + 1, stops)
    return np.where(found, result, whole)


def _next(places: Int64, begin: Int64, stops: Int64) -> Int64:
    """The first of some places at or after each beginning; the text's end where there is none before it."""
    at = np.searchsorted(places, begin)
    found = np.where(at < len(places), places[np.minimum(at, len(places) - 1)], stops) if len(places) else stops
    return np.minimum(found, stops)
