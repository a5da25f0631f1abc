"""Which record keys a file slice holds, as a task."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from pudi.context import Storage
from pudi.filegroup import FileSlice
from pudi.index import BloomKeys, Index, SimpleKeys
from pudi.merge import MergeRule
from pudi.metadata.shards import WHOLE_TABLE, RecordShards
from pudi.plan import Merging, Operation
from pudi.schema.internal import SchemaHistory
from pudi.task.located import RecordKeys

Spread = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""`map`, or one that spreads the calls over threads."""


@dataclass(frozen=True, slots=True)
class KeyLookup:
    """Look for keys in one file slice.

    Attributes:
        file_slice: the slice's base file: the indexes that look keys up in files don't see log files.
        merged: the slice with its log files, where versions are compared; None where it has none.
    """

    file_slice: FileSlice
    merged: FileSlice | None = None


def lookups_in(slices: Iterable[FileSlice], index: Index | None = None) -> list[KeyLookup]:
    """Where to look for keys among some slices: in their base files, none where there are log files alone.

    Args:
        slices: the slices.
        index: how it's done: a record index knows keys in log files too.
    """
    every = index is not None and index.records
    return [
        KeyLookup(replace(s, logs=()), s) if s.logs else KeyLookup(s) for s in slices if every or s.base is not None
    ]


@dataclass(frozen=True, slots=True)
class KeySearch:
    """How the records of one write are brought to file groups; picklable.

    Attributes:
        index: the table's index.
        operation: what is done with the records.
        rule: which version of a record wins.
        schema: the table's columns without meta fields.
        merging: how log files are merged over base files; None in a copy-on-write table.
        history: the schemas by which files are read, in a table with schema on read.
        records: the record index, where keys are looked up in that.
    """

    index: Index
    operation: Operation
    rule: MergeRule
    schema: pa.Schema
    merging: Merging | None = None
    history: SchemaHistory | None = None
    records: RecordShards | None = None

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


def key_finder(
    keys: pa.Array,
    index: Index,
    records: RecordShards | None = None,
    partition: str | None = WHOLE_TABLE,
    spread: Spread = map,
) -> KeyFinder:
    """How an index looks for record keys, each given once.

    Args:
        keys: the record keys.
        index: the index.
        records: the record index, where it's asked.
        partition: the partition in which they're looked for, where keys are unique in partitions only.
        spread: runs the independent parts.
    """
    if records is not None:
        return RecordKeys(keys, records, partition, spread)
    return BloomKeys(keys) if index.bloom else SimpleKeys(keys)
