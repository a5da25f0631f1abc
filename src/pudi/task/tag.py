"""Which record keys a file slice holds, as a task."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pudi.context import Storage
from pudi.filegroup import FileSlice
from pudi.index import simple
from pudi.index.simple import KeySpan


@dataclass(frozen=True, slots=True)
class KeyLookup:
    """Look for keys in one file slice.

    Attributes:
        file_slice: the slice.
    """

    file_slice: FileSlice


def key_span(keys: pa.Array) -> KeySpan | None:
    """Least and greatest of some record keys, None without any, to hand to `find_keys` for each slice."""
    return simple.key_span(keys)


def find_keys(storage: Storage, lookup: KeyLookup, keys: pa.Array, span: KeySpan | None = None) -> np.ndarray:
    """Positions in `keys`, ascending, of those that the slice holds; see `pudi.index.simple.find_keys`."""
    return simple.find_keys(storage, lookup.file_slice, keys, span)
