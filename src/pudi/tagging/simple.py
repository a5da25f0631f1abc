"""The simple index: read and compare the record keys of file slices (HoodieSimpleIndex)."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.context import Storage
from pudi.filegroup import AnyBaseFile, FileSlice, open_base_file
from pudi.schema import RECORD_KEY
from pudi.schema.arrays import one_array, places_among

KeySpan: TypeAlias = tuple[str, str]
"""Minimum and maximum of some record keys, ordered by their UTF-8 bytes."""


def key_span(keys: pa.Array) -> KeySpan | None:
    """Return the span of record keys; None if there are none."""
    span = pc.min_max(keys)
    low, high = span["min"].as_py(), span["max"].as_py()
    return None if low is None else (low, high)


def find_keys(storage: Storage, file_slice: FileSlice, keys: pa.Array, span: KeySpan | None = None) -> np.ndarray:
    """Find the keys that a slice holds.

    Args:
        storage: the table's files.
        file_slice: the slice.
        keys: record keys, without duplicates.
        span: `key_span` of the keys, for callers that search many slices; None computes it.

    Returns:
        Positions in `keys`, ascending. The file's key column is read only if its statistics allow a match.

    Raises:
        CorruptError: the base file can't be read, or has no text column of record keys.
    """
    span = span or key_span(keys)
    if span is None:
        return np.empty(0, dtype=np.int64)
    return find_in(open_base_file(storage, file_slice.base_file), keys, span)


def find_in(reader: AnyBaseFile, keys: pa.Array, span: KeySpan | None = None) -> np.ndarray:
    """Like `find_keys`, for an open file and at least one key."""
    span = span or key_span(keys)
    check_key_column(reader)
    groups = candidate_groups(reader, span) if span else []
    if not groups:
        return np.empty(0, dtype=np.int64)
    stored = reader.read([RECORD_KEY], groups)[RECORD_KEY].cast(keys.type)
    if len(stored) < len(keys):  # build the hash table from the smaller side
        found = pc.index_in(keys, value_set=one_array(stored))
        return np.flatnonzero(np.asarray(found.is_valid()))
    found = pc.index_in(stored, value_set=keys)
    found_here = np.zeros(len(keys), dtype=bool)  # copies of a key that plain inserts made count once
    found_here[np.asarray(found.drop_null())] = True
    return np.flatnonzero(found_here)


def locate_in(reader: AnyBaseFile, keys: pa.Array, span: KeySpan | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Like `find_in`, with the base row of each found key; -1 if it occurs in several rows."""
    span = span or key_span(keys)
    check_key_column(reader)
    groups = candidate_groups(reader, span) if span else []
    if not groups:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    stored = reader.read([RECORD_KEY], groups)[RECORD_KEY].cast(keys.type)
    found = places_among(stored, keys)
    places = np.flatnonzero(found >= 0)
    sizes = [reader.group_rows(number) for number in range(reader.num_groups)]
    starts = np.cumsum([0, *sizes])
    numbers = np.concatenate([np.arange(starts[group], starts[group + 1]) for group in groups])
    rows = np.full(len(keys), -1, dtype=np.int64)
    rows[found[places]] = numbers[places]
    times = np.bincount(found[places], minlength=len(keys))
    rows[times > 1] = -1
    hits = np.flatnonzero(times)
    return hits, rows[hits]


class SimpleKeys:
    """Looks up some record keys in many files.

    Args:
        keys: record keys, without duplicates.
    """

    def __init__(self, keys: pa.Array) -> None:
        self._keys = keys
        self._span = key_span(keys)

    def find(self, storage: Storage, file_slice: FileSlice) -> np.ndarray:
        """Return the positions of the keys in the slice, ascending; raises as `find_keys`."""
        return find_keys(storage, file_slice, self._keys, self._span)

    def locate(self, storage: Storage, file_slice: FileSlice) -> tuple[np.ndarray, np.ndarray]:
        """Like `find`, with the base row of each key; -1 if it occurs in several rows."""
        if self._span is None:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        return locate_in(open_base_file(storage, file_slice.base_file), self._keys, self._span)


def check_key_column(reader: AnyBaseFile) -> None:
    """Check that a base file has a text column of record keys.

    Raises:
        CorruptError: it has none.
    """
    schema = reader.schema
    if RECORD_KEY not in schema.names:
        raise reader.corrupt(f"no column {RECORD_KEY}")
    kind = schema.field(RECORD_KEY).type
    if not pa.types.is_string(kind) and not pa.types.is_large_string(kind):
        raise reader.corrupt(f"column {RECORD_KEY} is {kind}, and record keys are text")


def candidate_groups(reader: AnyBaseFile, span: KeySpan) -> list[int]:
    """Return the row groups whose key range overlaps `span`."""
    low, high = span
    bounds = reader.statistics(RECORD_KEY)
    return [
        number
        for number, known in enumerate(bounds)
        if known is None
        or known.minimum is None
        or known.maximum is None
        or (known.minimum <= high and low <= known.maximum)
    ]
