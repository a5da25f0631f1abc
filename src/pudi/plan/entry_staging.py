"""Describe, as values, how the tasks of a write stage the entries of indexes with the files that they write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from pudi.context import Storage
from pudi.filegroup import BaseFile, FileSlice, LogFile
from pudi.merge import Overlay

Columns = Callable[[Sequence[str]], pa.Table]
"""Reads columns of rows by their names, in the table's types."""


@dataclass(frozen=True, slots=True)
class WrittenBase:
    """A base file that a task has written, and how its rows differ from those of the version before.

    Attributes:
        file: the file.
        rows: new versions of records, among others that lost.
        merged: which of them are in the file, and what happened to old rows that may have the same keys.
        old: reads columns of these old rows.
        columns: reads columns of the file.
    """

    file: BaseFile
    rows: pa.Table
    merged: Overlay
    old: Columns
    columns: Columns


@dataclass(frozen=True, slots=True)
class WrittenLog:
    """A log file that a task has written.

    Attributes:
        file: the file.
        names: the columns of its records; a partial update writes only some.
        columns: reads columns of its records, deletes not among them.
    """

    file: LogFile
    names: frozenset[str]
    columns: Columns


@dataclass(frozen=True, slots=True)
class WrittenLogs:
    """The log files that a task has appended to one file group.

    Attributes:
        partition: partition path.
        file_id: the file group's id.
        before: its file slice before the write; None for a new file group.
        files: the log files.
        keys: the record keys of new versions.
        deleted: the record keys of deletes.
    """

    partition: str
    file_id: str
    before: FileSlice | None
    files: tuple[WrittenLog, ...]
    keys: pa.Array
    deleted: pa.Array

    @property
    def after(self) -> FileSlice:
        """The file slice after the write."""
        before = self.before or FileSlice(self.partition, self.file_id, None)
        return before.with_logs(each.file for each in self.files)


class StagedEntries(Protocol):
    """Entries of one index that a task has staged."""

    @property
    def index(self) -> str:
        """The index's partition of the metadata table."""


class EntryStaging(Protocol):
    """Recipe by which tasks stage the entries of one index; picklable."""

    @property
    def index(self) -> str:
        """The index's partition of the metadata table."""

    def of_base(self, storage: Storage, written: WrittenBase) -> StagedEntries:
        """Stage the entries that change by a base file."""

    def of_logs(self, storage: Storage, written: WrittenLogs) -> Sequence[StagedEntries]:
        """Stage the entries that change by log files."""
