"""HFile base files, for reading: a file in, Arrow tables out."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from pudi.context import Storage
from pudi.errors import CorruptError
from pudi.filegroup.basefile import corrupt_file
from pudi.filegroup.slices import BaseFile
from pudi.format import ColumnStatistics
from pudi.format.hfile import HFileReader
from pudi.format.hfile_rows import read_rows
from pudi.schema import avro_to_arrow

HFILE_EXTENSION = "hfile"
"""Extension of HFile base files (HoodieFileFormat)."""


class HFileBaseReader:
    """One HFile base file opened for reading, as `BaseFileReader` is for Parquet; it's one group.

    Args:
        storage: the table's files.
        base: the file.

    Raises:
        NotFoundError: the file is gone.
        CorruptError: it isn't an HFile.
    """

    def __init__(self, storage: Storage, base: BaseFile) -> None:
        self._storage = storage
        self._base = base

        def ranged(offset: int, length: int) -> bytes:
            return bytes(storage.read_ranges(base.path, [(offset, length)])[0])

        self._file = HFileReader.open(ranged, base.size or storage.head(base.path).size, path=base.path)
        self._avro = self._file.avro_schema

    @property
    def num_groups(self) -> int:
        """One."""
        return 1

    @property
    def num_rows(self) -> int:
        """How many records there are."""
        return self._file.entry_count

    @property
    def schema(self) -> pa.Schema:
        """The file's columns."""
        return avro_to_arrow(self._avro)

    def statistics(self, column: str) -> list[ColumnStatistics | None]:
        """What the file says of a column: nothing."""
        return [None]

    def read(self, columns: Sequence[str] | None = None, groups: Sequence[int] | None = None) -> pa.Table:
        """Rows in the order of their keys.

        Args:
            columns: top-level columns that the file has; None for all.
            groups: none, or the one there is; None for that.

        Raises:
            CorruptError: the file is damaged.
        """
        names = self.schema.names if columns is None else list(columns)
        if groups is not None and not list(groups):
            return pa.schema([self.schema.field(name) for name in names]).empty_table()
        return read_rows(self._file, self._avro, set(names), path=self._base.path).select(names)

    def corrupt(self, reason: object) -> CorruptError:
        """The error for a file that can't be read."""
        return corrupt_file(self._storage, self._base, reason)
