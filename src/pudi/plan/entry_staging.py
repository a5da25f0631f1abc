"""How the tasks of a write stage the entries of indexes together with the files that they write, as values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from pudi.context import Storage
from pudi.filegroup import BaseFile
from pudi.merge import Overlay

Columns = Callable[[Sequence[str]], pa.Table]
"""Reads columns of rows by their names, in the table's types."""


@dataclass(frozen=True, slots=True)
class WrittenBase:
    """A base file that a task has written, and how its rows differ from those of the version before.

    Attributes:
        file: the file.
        rows: new versions of records, among others that lost.
        laid: which of them are in the file, and what happened to old rows that may have the same keys.
        old: reads columns of these old rows.
        columns: reads columns of the file.
    """

    file: BaseFile
    rows: pa.Table
    laid: Overlay
    old: Columns
    columns: Columns

    @property
    def replacing(self) -> np.ndarray:
        """Numbers of the rows that replace old ones."""
        return np.asarray(self.laid.taken_from[self.laid.taken_from >= 0])


class StagedEntries(Protocol):
    """What a task has staged of one index."""

    @property
    def index(self) -> str:
        """The index's partition of the metadata table."""


class EntryStaging(Protocol):
    """How tasks stage the entries of one index; picklable."""

    @property
    def index(self) -> str:
        """The index's partition of the metadata table."""

    def of_base(self, storage: Storage, written: WrittenBase) -> StagedEntries:
        """Stage the entries that change by a base file."""
