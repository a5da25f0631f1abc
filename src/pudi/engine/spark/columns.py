"""Columns that ride along with records inside Spark: their names, and the places by which frames are joined.

A place is a number for a group of 64 base rows, by which frames of base rows and of replaced rows are joined. Spark
looks up one long several times as fast as the name of a file and the number of a row. Consecutive rows share it, so
that it is still in the processor's cache.
"""

from __future__ import annotations

import numpy as np

ARRIVAL = "_pudi_arrival"
"""Order of arrival, a long that grows from record to record of the input."""
HASH = "_pudi_hash"
"""Hash of partition path and record key, a long."""
DATA = "_pudi_data"
"""All that a record is, as one struct: key, partition path, hash, order of arrival, the table's columns."""
FILE_ID = "_pudi_file_id"
"""File group that holds the record's key."""
THERE = "_pudi_there"
"""Partition path of the file group that holds the record's key."""
BUCKET = "_pudi_bucket"
"""Number of the bucket that the record's key belongs to, an int."""
GROUP = "_pudi_group"
"""Hash of partition path and bucket number, a long."""
TASK = "_pudi_task"
"""Number of the file task that the record goes to."""
SPREAD = "_pudi_spread"
"""Tasks that new records of one partition are spread over, an array that a hash picks from."""
SALT = "_pudi_salt"
"""Column by which the exchange places records."""
DEAD_FILE = "_pudi_dead_file"
"""Name of a base file that has rows which log files replace or delete."""
DEAD_GROUP = "_pudi_dead_group"
"""Number of a group of 64 rows of that file in which some of these are, from 0."""
DEAD_BITS = "_pudi_dead_bits"
"""Column that tells a group's records apart: a long with a bit for each."""
DEAD_PLACE = "_pudi_dead_place"
"""A long for file and group, see `place_by_size`."""
FILE = "_pudi_file"
"""Name or size of the base file that a row stands in."""
ROW_NUMBER = "_pudi_row_number"
"""Number of the row in that file, from 0."""
PLACE = "_pudi_place"
"""A long for the file and the row's group of 64, see `place_by_size`."""


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
