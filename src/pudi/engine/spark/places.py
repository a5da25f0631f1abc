"""Numbers for groups of 64 base rows, by which frames of base rows and of replaced rows are joined.

Spark looks up one long several times as fast as the name of a file and the number of a row. Consecutive rows share it,
so that it is still in the processor's cache.
"""

from __future__ import annotations

import numpy as np

from pudi.engine.spark.columns import FILE, ROW_NUMBER

GROUP_BITS = 6
"""Number of low bits of a row number: the rest is the number of a group of rows, which are the bits of one long."""
_NUMBER_BITS = 26
"""Number of bits for a group's number beside the size of its file: enough for four billion rows."""

MOST_SIZE = 1 << (63 - _NUMBER_BITS)
"""Files of this size or larger have no place by their size."""

PLACE_BY_SIZE = f"(shiftleft({FILE}, {_NUMBER_BITS}) | shiftright({ROW_NUMBER}, {GROUP_BITS})) ^ {FILE}"
"""SQL of `place_by_size`, for a row of a file whose size is in `FILE`."""


def place_by_size(size: int, groups: np.ndarray) -> np.ndarray:
    """Return a long for each group of a file: no other group of files of other sizes has the same.

    Spark hashes only the low half of a long, so the size is in both.

    Args:
        size: bytes of the file.
        groups: numbers of its groups.
    """
    places: np.ndarray = ((np.int64(size) << _NUMBER_BITS) | groups) ^ np.int64(size)
    return places


def in_groups(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct row numbers, ascending, by groups of 64 rows: numbers of the groups, and a bit for each row in them."""
    if not len(rows):
        return rows, rows
    groups = rows >> GROUP_BITS
    bits = np.uint64(1) << (rows & ((1 << GROUP_BITS) - 1)).astype(np.uint64)
    first = np.flatnonzero(np.diff(groups, prepend=-1))
    return groups[first], np.bitwise_or.reduceat(bits, first).view(np.int64)
