"""Markers: for each data file about to be written, a note that says so, for cleaning up after a failed write."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pudi.context import FileInfo, Storage
from pudi.errors import CorruptError
from pudi.format import (
    HOODIE_DIR,
    MARKERS_PREFIX,
    MARKERS_TYPE,
    IOType,
    marker_dir,
    marker_path,
    parse_data_file,
    parse_marker,
)
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
            CorruptError: a file among the markers is none, or names a file that the instant can't have written.
            NotSupportedError: one names a log file of a later Hudi.
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

    def owned(self, path: str, source: str | None = None) -> str:
        """Give `path` back when the instant may have written it, so that undoing the instant may delete it.

        From table version 8 on the name of every data file, log files too, holds the instant that wrote it.

        Args:
            path: path of a data file, relative to the table's root.
            source: the file that names it, for the error.

        Raises:
            CorruptError: it is no data file of this instant, or lies among Hudi's own files.
            NotSupportedError: it is a log file of a later Hudi.
        """
        folder, _, name = path.rpartition("/")
        folders = folder.split("/") if folder or path.startswith("/") else []
        data_file = parse_data_file(name)
        if (
            data_file is None
            or data_file.instant != self.instant
            or not {"", ".", ".."}.isdisjoint(folders)
            or folders[:1] == [HOODIE_DIR]
        ):
            raise CorruptError(
                f"{path!r} is named among the files of instant {self.instant}, which can't have written it; nothing "
                "was deleted. Remove the instant's files from the timeline and its markers by hand",
                table=self.storage.root,
                path=source or path,
                instant=self.instant,
            )
        return path

    def infos(self) -> list[FileInfo]:
        """The marker files themselves."""
        return list(self.storage.list(marker_dir(self.instant)))

    def delete(self) -> None:
        """Delete all markers of the instant."""
        delete_folder(self.storage, marker_dir(self.instant))

    def _listed(self, path: str) -> Iterable[str]:
        lines = self.storage.read(path).decode("utf-8", "replace").split("\n")  # a partition may hold U+2028
        return [self._data_path(line, path) for line in lines if line]

    def _data_path(self, marker: str, source: str) -> str:
        parsed = parse_marker(marker)
        if parsed is None:
            raise CorruptError(f"{marker!r} is not the name of a marker", table=self.storage.root, path=source)
        return self.owned(parsed.data_path, source)
