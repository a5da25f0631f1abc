"""Readers of base files that add columns which the file leaves out: the part that they share."""

from __future__ import annotations

from typing import TypeAlias

from pudi.filegroup.basefile import BaseFileReader
from pudi.filegroup.hfilebase import HFileBaseReader
from pudi.filegroup.orcfile import OrcFileReader
from pudi.filegroup.slices import BaseFile

StoredReader: TypeAlias = "BaseFileReader | OrcFileReader | HFileBaseReader"
"""A reader of a base file with the columns that it stores."""


class WrappedReader:
    """A reader of a base file that adds columns to those of another reader.

    Args:
        stored: the reader of what the file holds.
        base: the file.
    """

    def __init__(self, stored: StoredReader, base: BaseFile) -> None:
        self.stored = stored
        self._base = base

    @property
    def path(self) -> str:
        """Path of the file, relative to the table's root."""
        return self._base.path

    @property
    def num_groups(self) -> int:
        """Number of groups of rows in the file."""
        return self.stored.num_groups

    @property
    def num_rows(self) -> int:
        """Number of rows in the file."""
        return self.stored.num_rows

    def group_rows(self, group: int) -> int:
        """Number of rows in a group."""
        return self.stored.group_rows(group)
