"""Names of markers: files that announce the data files of a write."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pudi.errors import CorruptError, InvalidArgumentError


class IOType(str, Enum):
    """Kind of the marked file (IOType): a new base or log file, a new version of a base file, an append (v6)."""

    CREATE = "CREATE"
    MERGE = "MERGE"
    APPEND = "APPEND"


_MARKER_SUFFIX = ".marker."


@dataclass(frozen=True, slots=True)
class MarkerName:
    """A marker: an empty file that is made before the data file it names (WriteMarkers).

    Attributes:
        partition: path of the partition, relative to the table's root; empty without partitions.
        file_name: name of the data file.
        io_type: what the data file is.
    """

    partition: str
    file_name: str
    io_type: IOType

    def __post_init__(self) -> None:
        parts = [*(self.partition.split("/") if self.partition else ()), self.file_name]
        if "/" in self.file_name or any(part in {"", ".", ".."} for part in parts):
            raise InvalidArgumentError(f"{'/'.join(parts)!r} can't be the path of a data file within the table")

    @property
    def path(self) -> str:
        """Path of the marker, relative to the marker folder of its instant."""
        return f"{self.data_path}{_MARKER_SUFFIX}{self.io_type.value}"

    @property
    def data_path(self) -> str:
        """Path of the data file, relative to the table's root."""
        return f"{self.partition}/{self.file_name}" if self.partition else self.file_name


def parse_marker(path: str) -> MarkerName | None:
    """The marker at `path`, relative to its instant's marker folder, or None when it is no marker.

    Raises:
        CorruptError: the path would leave the table.
    """
    data_path, suffix, io_type = path.rpartition(_MARKER_SUFFIX)
    if not suffix or io_type not in _IO_TYPES:
        return None
    partition, _, file_name = data_path.rpartition("/")
    try:
        return MarkerName(partition, file_name, IOType(io_type))
    except InvalidArgumentError as error:
        raise CorruptError(f"a marker names {data_path!r}, which is no path within the table", path=path) from error


_IO_TYPES = frozenset(io_type.value for io_type in IOType)
