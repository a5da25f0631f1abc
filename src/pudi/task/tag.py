"""The search for record keys of a write: which slices, and how."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from pudi.context import Storage
from pudi.filegroup import FileSlice
from pudi.merge import MergeRule
from pudi.metadata.record_index import RecordShards
from pudi.plan import Merging, Operation
from pudi.schema.internal import SchemaHistory
from pudi.tagging import Index
from pudi.tagging.index import Spread


@dataclass(frozen=True, slots=True)
class KeyLookup:
    """A look-up of keys in one file slice.

    Attributes:
        file_slice: the slice with its base file only: indexes that search files ignore log files.
        merged: the slice with its log files, to compare versions; None if it has no log files.
    """

    file_slice: FileSlice
    merged: FileSlice | None = None


def lookups_in(slices: Iterable[FileSlice], index: Index | None = None) -> list[KeyLookup]:
    """Return the look-ups for some slices. Indexes that search files skip slices without a base file.

    Args:
        slices: the slices.
        index: the table's index; a record index also knows keys in log files.
    """
    every = index is not None and index.records
    return [
        KeyLookup(replace(s, logs=()), s) if s.logs else KeyLookup(s) for s in slices if every or s.base is not None
    ]


@dataclass(frozen=True, slots=True)
class KeySearch:
    """The way in which a write finds the file groups of its records; picklable.

    Attributes:
        index: the table's index.
        operation: the operation on the records.
        rule: which version of a record wins.
        schema: the table's columns without meta fields.
        merging: how log files are merged over base files; None in a copy-on-write table.
        history: the schemas of older files, in a table with schema on read.
        positions: whether to return rows in base files, if the index knows them.
        records: the record index, if keys are looked up in it.
    """

    index: Index
    operation: Operation
    rule: MergeRule
    schema: pa.Schema
    merging: Merging | None = None
    history: SchemaHistory | None = field(kw_only=True)
    positions: bool = False
    records: RecordShards | None = None

    @property
    def moves(self) -> bool:
        """Whether records move to another partition; deletes apply in any partition."""
        return self.index.moves and self.operation is not Operation.DELETE


@dataclass(frozen=True, slots=True)
class TableSearch:
    """A search for keys in the file slices of a table.

    Attributes:
        storage: the table's files.
        lookups: slices that may hold keys.
        how: the way of the search.
        spread: runs independent parts, a form of `map`.
    """

    storage: Storage
    lookups: Sequence[KeyLookup]
    how: KeySearch
    spread: Spread = map
