"""The simple index: a slice's own record keys, read and compared (HoodieSimpleIndex)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.context import Storage
from pudi.filegroup import BaseFileReader, FileSlice
from pudi.format import column_statistics
from pudi.schema import RECORD_KEY


def find_keys(storage: Storage, file_slice: FileSlice, keys: pa.Array) -> np.ndarray:
    """Which of `keys` the slice holds.

    Args:
        storage: the table's files.
        file_slice: the slice.
        keys: record keys, each once.

    Returns:
        Positions in `keys`, ascending. The file's key column is read only if its statistics allow a match.

    Raises:
        CorruptError: the base file can't be read, or has no record keys.
    """
    reader = BaseFileReader(storage, file_slice.base)
    groups = _candidate_groups(reader, keys)
    if not groups:
        return np.empty(0, dtype=np.int64)
    if RECORD_KEY not in reader.schema.names:
        raise reader.corrupt(f"no column {RECORD_KEY}")
    stored = reader.read([RECORD_KEY], groups)
    found = pc.index_in(stored[RECORD_KEY], value_set=keys)
    hits = np.asarray(found.drop_null()).astype(np.int64, copy=False)
    return np.unique(hits)


def _candidate_groups(reader: BaseFileReader, keys: pa.Array) -> list[int]:
    """Row groups whose range of keys meets that of `keys`."""
    span = pc.min_max(keys)
    low, high = span["min"].as_py(), span["max"].as_py()
    if low is None:
        return []
    bounds = column_statistics(reader.metadata, RECORD_KEY)
    return [
        number
        for number, known in enumerate(bounds)
        if known is None
        or known.minimum is None
        or known.maximum is None
        or (known.minimum <= high and low <= known.maximum)
    ]
