"""Base files and file slices as values."""

from __future__ import annotations

from dataclasses import dataclass

from pudi.context import FileInfo
from pudi.errors import NotSupportedError
from pudi.format import BaseFileName, LogFileName, is_instant_time, parse_data_file

_FORMATS = frozenset({"parquet", "orc"})
_OTHER_FORMATS = frozenset({"hfile", "lance"})
"""Extensions of Hudi's other base file formats (HoodieFileFormat)."""


@dataclass(frozen=True, slots=True)
class BaseFile:
    """One base file.

    Attributes:
        partition: partition path relative to the table's root, empty when the table isn't partitioned.
        name: its name, which says file group, write token and instant.
        size: bytes.
    """

    partition: str
    name: BaseFileName
    size: int

    @property
    def path(self) -> str:
        """Path relative to the table's root."""
        return f"{self.partition}/{self.name.name}" if self.partition else self.name.name

    @property
    def file_id(self) -> str:
        """Id of the file group."""
        return self.name.file_id

    @property
    def instant(self) -> str:
        """Requested time of the commit that wrote the file."""
        return self.name.instant

    @classmethod
    def of(cls, partition: str, info: FileInfo) -> BaseFile | None:
        """The base file that a listing entry of a partition is, or None for any other file.

        Raises:
            NotSupportedError: a data file of a kind that this release can't read: a log file, or a base file in another
                format than Parquet and ORC. Passing it over would lose rows.
        """
        name = info.path.rpartition("/")[2]
        parsed = parse_data_file(name)
        if parsed is None or (isinstance(parsed, LogFileName) and parsed.cdc):  # change data is no part of a snapshot
            return None
        if isinstance(parsed, LogFileName):
            raise NotSupportedError(
                "the table has log files; pudi reads and writes copy-on-write tables so far", path=info.path
            )
        if not is_instant_time(parsed.instant):  # a stranger's file whose name happens to have three parts
            return None
        if parsed.extension in _OTHER_FORMATS:
            raise NotSupportedError(
                f"base files of the format {parsed.extension!r}: this release of pudi reads Parquet and ORC",
                path=info.path,
                instant=parsed.instant,
            )
        return cls(partition, parsed, info.size) if parsed.extension in _FORMATS else None


@dataclass(frozen=True, slots=True)
class FileSlice:
    """One version of a file group: a base file (log files come with merge-on-read tables).

    Attributes:
        partition: partition path relative to the table's root.
        file_id: id of the file group.
        base: the base file.
    """

    partition: str
    file_id: str
    base: BaseFile

    @property
    def instant(self) -> str:
        """Requested time of the slice's base instant."""
        return self.base.instant

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return self.base.size
