"""Markers: for each data file about to be written, a note that says so, for cleaning up after a failed write."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pudi.context import FileInfo, Storage
from pudi.errors import CorruptError
from pudi.format import MARKERS_PREFIX, MARKERS_TYPE, IOType, marker_dir, marker_path, parse_marker
from pudi.storage import delete_folder


@dataclass(frozen=True, slots=True)
class Markers:
    """The markers of one instant (DirectWriteMarkers; those of Hudi's timeline server are read as well).

    Args:
        storage: the table's files.
        instant: requested time.
    """

    storage: Storage
    instant: str

    def create(self, partition: str, file_name: str, io_type: IOType) -> None:
        """Note that a data file is about to be written. A marker that is there already is no error.

        Args:
            partition: the file's partition path.
            file_name: the data file's name.
            io_type: CREATE for a new file group, MERGE for a new version of one.
        """
        self.storage.put(marker_path(self.instant, partition, file_name, io_type), b"")

    def files(self) -> list[str]:
        """Paths of all data files that the instant may have written, relative to the table's root.

        Raises:
            CorruptError: a file among the markers is none.
        """
        folder = marker_dir(self.instant)
        paths: set[str] = set()
        for info in self.infos():
            name = info.path[len(folder) + 1 :]
            if name == MARKERS_TYPE:
                continue
            if name.startswith(MARKERS_PREFIX) and "/" not in name:
                paths.update(self._listed(info.path))
            else:
                paths.add(self._data_path(name, info.path))
        return sorted(paths)

    def infos(self) -> list[FileInfo]:
        """The marker files themselves."""
        return list(self.storage.list(marker_dir(self.instant)))

    def delete(self) -> None:
        """Delete all markers of the instant."""
        delete_folder(self.storage, marker_dir(self.instant))

    def _listed(self, path: str) -> Iterable[str]:
        lines = self.storage.read(path).decode("utf-8", "replace").splitlines()
        return [self._data_path(line, path) for line in lines if line]

    def _data_path(self, marker: str, source: str) -> str:
        parsed = parse_marker(marker)
        if parsed is None:
            raise CorruptError(f"{marker!r} is not the name of a marker", table=self.storage.root, path=source)
        return parsed.data_path
