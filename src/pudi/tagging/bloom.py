"""The bloom index: footers rule out files, key columns are read for the rest (HoodieBloomIndex)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pudi.context import Storage
from pudi.errors import NotSupportedError
from pudi.filegroup import AnyBaseFile, FileSlice, has_above_ffff, open_base_file
from pudi.format import BloomFilter
from pudi.format.bloom import BloomProbe
from pudi.tagging.simple import find_in, locate_in

Int64 = npt.NDArray[np.int64]


class BloomKeys:
    """Looks up some record keys in many files.

    The keys are sorted once, and a binary search finds a file's key range among them. So the cost of a file depends on
    the keys in its range; for a file without keys in its range only the footer is read.

    Footers order keys by UTF-16 units or by UTF-8 bytes, depending on the writer. The orders differ only for characters
    above U+FFFF. A key with one is checked against every filter, and a range bounded by one is ignored.

    Args:
        keys: record keys, without duplicates.
    """

    def __init__(self, keys: pa.Array[Any]) -> None:
        order = np.asarray(pc.sort_indices(keys)).astype(np.int64)
        wide = np.asarray(_wide(keys))[order] if has_above_ffff(keys) else np.zeros(len(order), dtype=np.bool_)
        self._places: Int64 = np.concatenate([order[~wide], order[wide]])
        self._ranged = int(np.count_nonzero(~wide))
        self._sorted = keys.take(pa.array(self._places))
        self._texts = _Texts(self._sorted, self._ranged)
        self._probe = BloomProbe(self._sorted)

    def find(self, storage: Storage, file_slice: FileSlice) -> Int64:
        """Return the positions of the keys in the slice, ascending.

        Reads the keys of a file without a range or a filter too.

        Raises:
            CorruptError: the base file or its filter can't be read, or it has no text column of record keys.
        """
        if not len(self._sorted):
            return np.empty(0, dtype=np.int64)
        reader = open_base_file(storage, file_slice.base_file)
        candidates = self._candidates(reader)
        if not len(candidates):
            return candidates
        every = len(candidates) == len(self._sorted)
        found = find_in(reader, self._sorted if every else self._sorted.take(pa.array(candidates)))
        return np.sort(self._places[candidates[found]])

    def locate(self, storage: Storage, file_slice: FileSlice) -> tuple[Int64, Int64]:
        """Like `find`, with the base row of each key; -1 if it occurs in several rows."""
        none = np.empty(0, dtype=np.int64)
        if not len(self._sorted):
            return none, none
        reader = open_base_file(storage, file_slice.base_file)
        candidates = self._candidates(reader)
        if not len(candidates):
            return none, none
        found, rows = locate_in(reader, self._sorted.take(pa.array(candidates)))
        places = self._places[candidates[found]]
        order = np.argsort(places)
        return places[order], rows[order]

    def _candidates(self, reader: AnyBaseFile) -> Int64:
        """Return the positions in `_sorted` of the keys that the file may contain, by its footer."""
        span = reader.key_range()
        first, last = 0, self._ranged
        if span is not None and not has_above_ffff(pa.array(span)):
            first, last = bisect_left(self._texts, span[0]), bisect_right(self._texts, span[1])
        spans = [(begin, end) for begin, end in ((first, last), (self._ranged, len(self._sorted))) if begin < end]
        bloom = _filter(reader) if spans else None
        found = [np.arange(*part) if bloom is None else self._probe.matches(bloom, *part) for part in spans]
        return np.concatenate(found) if found else np.empty(0, dtype=np.int64)


class _Texts(Sequence[str]):
    """The first keys of a sorted array as Python texts, converted one at a time."""

    def __init__(self, keys: pa.Array[Any], length: int) -> None:
        self._keys = keys
        self._length = length

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[str]: ...
    def __getitem__(self, place: int | slice) -> Any:
        return self._keys[place].as_py() if isinstance(place, int) else self._keys[place].to_pylist()


def _filter(reader: AnyBaseFile) -> BloomFilter | None:
    """Return the file's filter; None if it has none, or one of a type that only old releases of Hudi support."""
    try:
        return reader.bloom_filter()
    except NotSupportedError:
        return None


def _wide(keys: pa.Array[Any]) -> pa.Array[Any]:
    return pc.match_substring_regex(keys, r"[\x{10000}-\x{10FFFF}]")
