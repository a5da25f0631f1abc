"""Base files and file slices as values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from posixpath import basename
from typing import Generic, TypeVar

from pudi.config import TableConfig
from pudi.context import FileInfo
from pudi.errors import NotSupportedError
from pudi.format import BaseFileName, FileGroupId, LogFileName, file_path, is_instant_time, parse_data_file
from pudi.record import KeyGenerator

_FORMATS = frozenset({"parquet", "orc", "hfile"})
_OTHER_FORMATS = frozenset({"lance"})
"""Extensions of Hudi's other base file formats (HoodieFileFormat)."""


UNNAMED = -1
"""Sentinel size: the completed commit doesn't list this log file, which a failed attempt of a task left."""

_Name = TypeVar("_Name", BaseFileName, LogFileName)


@dataclass(frozen=True, slots=True)
class _DataFile(Generic[_Name]):
    """One file of a file group.

    Attributes:
        partition: partition path relative to the table's root, empty when the table isn't partitioned.
        name: its name.
        size: bytes.
    """

    partition: str
    name: _Name
    size: int

    @property
    def path(self) -> str:
        """Path relative to the table's root."""
        return file_path(self.partition, self.name.name)

    @property
    def file_id(self) -> str:
        """Id of the file group."""
        return self.name.file_id

    @property
    def group(self) -> FileGroupId:
        """The file group."""
        return FileGroupId(self.partition, self.file_id)

    @property
    def instant(self) -> str:
        """The instant in the name."""
        return self.name.instant


@dataclass(frozen=True, slots=True)
class BaseFile(_DataFile[BaseFileName]):
    """One base file. Its name says file group, write token and instant: the requested time of what wrote it.

    Attributes:
        keys: makes record keys of its columns, in a table without meta fields; None where the file holds them.
    """

    keys: KeyGenerator | None = field(default=None, compare=False)

    @classmethod
    def of(cls, partition: str, info: FileInfo, keys: KeyGenerator | None = None) -> BaseFile | None:
        """The base file that a listing entry of a partition is, or None for any other file.

        Args:
            partition: partition path.
            info: the entry.
            keys: see `BaseFile`.

        Raises:
            NotSupportedError: a log file, or a base file that is neither Parquet nor ORC nor HFile: to pass it over
                would lose rows.
        """
        name = basename(info.path)
        parsed = parse_data_file(name)
        if parsed is None or (isinstance(parsed, LogFileName) and parsed.cdc):  # change data is no part of a snapshot
            return None
        if isinstance(parsed, LogFileName):
            raise NotSupportedError(
                "a copy-on-write table has log files, which Hudi never writes there: move them away, or set "
                f"{TableConfig.table_type} to MERGE_ON_READ if the table is one",
                path=info.path,
            )
        if not is_instant_time(parsed.instant):  # a foreign file whose name happens to have three parts
            return None
        if parsed.extension in _OTHER_FORMATS:
            raise NotSupportedError(
                f"base files of the format {parsed.extension!r}: this release of pudi reads Parquet, ORC and HFile",
                path=info.path,
                instant=parsed.instant,
            )
        return cls(partition, parsed, info.size, keys) if parsed.extension in _FORMATS else None


@dataclass(frozen=True, slots=True)
class LogFile(_DataFile[LogFileName]):
    """One log file. Its name says file group, instant, version and write token.

    From version 8 on the instant is that of the delta commit, before that of the slice's base.

    Attributes:
        stated: the size that commits or the metadata table state; `UNNAMED` if they don't name the file, None if they
            weren't read. Readers compare the file with it.
    """

    stated: int | None = None

    @classmethod
    def of(cls, partition: str, info: FileInfo, *, states: bool = False) -> LogFile | None:
        """The log file that a listing entry of a partition is; None for any other file, one of change data too.

        Args:
            partition: partition path.
            info: the entry.
            states: whether its size is what commits state, and not the file's own.

        Raises:
            NotSupportedError: a log file of a later Hudi.
        """
        parsed = parse_data_file(basename(info.path))
        if not isinstance(parsed, LogFileName) or parsed.cdc or parsed.extension != "log":
            return None
        stated = info.size if states else None
        return cls(partition, parsed, info.size, stated) if is_instant_time(parsed.instant) else None


@dataclass(frozen=True, slots=True)
class FileSlice:
    """One version of a file group: a base file and its log files; either may be missing.

    Attributes:
        partition: partition path relative to the table's root.
        file_id: id of the file group.
        base: the base file; None where records went to log files first.
        logs: the log files, in the order in which they are merged; none in a copy-on-write table.
        compacting: requested time of a compaction that is pending on the file group: new log files in tables below
            version 8 carry it in their names.
    """

    partition: str
    file_id: str
    base: BaseFile | None
    logs: tuple[LogFile, ...] = ()
    compacting: str | None = None

    @property
    def group(self) -> FileGroupId:
        """The file group."""
        return FileGroupId(self.partition, self.file_id)

    @property
    def files(self) -> tuple[BaseFile | LogFile, ...]:
        """The base file, if there is one, and the log files."""
        return self.logs if self.base is None else (self.base, *self.logs)

    def with_stated(self, sizes: Mapping[str, int]) -> FileSlice:
        """Return the slice with stated sizes added to its files, by path; the base file must exist."""
        base = self.base
        if base is not None and base.path in sizes:
            base = replace(base, size=sizes[base.path])
        return replace(self, base=base, logs=tuple(replace(log, stated=sizes.get(log.path)) for log in self.logs))

    def with_logs(self, logs: Iterable[LogFile]) -> FileSlice:
        """Return the slice with further log files."""
        return replace(self, logs=(*self.logs, *logs))

    @property
    def instant(self) -> str:
        """Requested time of the slice's base instant; without a base file, of the first log file's."""
        return self.files[0].instant

    @property
    def newest(self) -> str:
        """The greatest instant in the names of its files."""
        return max(file.instant for file in self.files)

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(file.size for file in self.files)

    @property
    def path(self) -> str:
        """Path of its first file relative to the table's root."""
        return self.files[0].path

    @property
    def base_file(self) -> BaseFile:
        """Return the base file if the slice can't have log files: a copy-on-write table, or a slice without logs.

        Raises:
            NotSupportedError: there are log files, which must not be passed over.
        """
        if self.base is None or self.logs:
            raise NotSupportedError(
                f"{self.group.text} has log files, which this operation doesn't support", path=self.path
            )
        return self.base


def slices_by_partition(slices: Iterable[FileSlice]) -> dict[str, list[FileSlice]]:
    """Return file slices by partition path, partitions and slices in the order given."""
    found: dict[str, list[FileSlice]] = {}
    for each in slices:
        found.setdefault(each.partition, []).append(each)
    return found
