"""Which record keys a file slice holds, as a task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from pudi.context import Storage
from pudi.filegroup import FileSlice
from pudi.index import BloomKeys, Index, SimpleKeys
from pudi.merge import MergeRule
from pudi.plan import Operation


@dataclass(frozen=True, slots=True)
class KeyLookup:
    """Look for keys in one file slice.

    Attributes:
        file_slice: the slice.
    """

    file_slice: FileSlice


@dataclass(frozen=True, slots=True)
class KeySearch:
    """How the records of one write are brought to file groups; picklable.

    Attributes:
        index: the table's index.
        operation: what is done with the records.
        rule: which version of a record wins.
        schema: the table's columns without meta fields.
    """

    index: Index
    operation: Operation
    rule: MergeRule
    schema: pa.Schema

    @property
    def moves(self) -> bool:
        """Whether records move to another partition; deletes go wherever their key is."""
        return self.index.moves and self.operation is not Operation.DELETE


class KeyFinder(Protocol):
    """Some record keys, to be looked for in many slices; threads may share it."""

    def find(self, storage: Storage, file_slice: FileSlice) -> np.ndarray:
        """Places of the keys that a slice holds, ascending.

        Raises:
            CorruptError: the base file can't be read, or has no record keys in text.
        """


def key_finder(keys: pa.Array, index: Index) -> KeyFinder:
    """How an index looks for record keys, each given once."""
    return BloomKeys(keys) if index.bloom else SimpleKeys(keys)
