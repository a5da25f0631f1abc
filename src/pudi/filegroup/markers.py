"""Markers: notes of the data files that a write is about to write, for cleaning up and for early conflict detection.

After a failed write its markers name the files to delete. While a write runs, others find by its markers that it
works on a file group, and give up before they do the same work.

Source of early detection: EarlyConflictDetectionStrategy, SimpleDirectMarkerBasedDetectionStrategy and MarkerUtils of
Apache Hudi 1.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from posixpath import basename

from pudi.context import FileInfo, Storage
from pudi.errors import ConflictError, CorruptError, NotFoundError, NotSupportedError
from pudi.format import (
    HOODIE_DIR,
    MARKERS_PREFIX,
    MARKERS_TYPE,
    FileGroupId,
    IOType,
    LogFileName,
    MarkerName,
    MaxBytes,
    is_staged,
    marker_dir,
    marker_path,
    parse_data_file,
    parse_marker,
)
from pudi.storage import delete_folder
from pudi.timeline import TimelinePlace


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
            io_type: CREATE for a new file group or log file, MERGE for a new version of one; below version 8 APPEND for
                a log file.
        """
        self.storage.put(marker_path(self.instant, partition, file_name, io_type), b"")

    def create_missing(self, written: Iterable[str]) -> None:
        """Mark files of the instant that have no marker any more, since another process rolled the instant back.

        Args:
            written: paths of files that were written, relative to the table's root.
        """
        for path in sorted(set(written) - set(self.all_files())):
            partition, _, name = path.rpartition("/")
            self.create(partition, name, IOType.CREATE if self.instant in name else IOType.APPEND)

    def files(self) -> list[str]:
        """Paths of the data files bearing the instant's name that it may have written, relative to the table's root.

        Raises:
            CorruptError: a file among the markers is none, or names a file that the instant can't have written.
            NotSupportedError: one names a log file of a later Hudi.
        """
        named = [(marker, source) for marker, source in self._markers() if not self._is_appended(marker)]
        return sorted({self.owned(marker.data_path, source) for marker, source in named})

    def appended(self) -> list[str]:
        """Paths of the log files that the instant may have written blocks to and that bear the instant of their base.

        Only below version 8. By an older Hudi they may hold blocks of other instants too.

        Raises:
            CorruptError: as `files`.
        """
        named = [(marker, source) for marker, source in self._markers() if self._is_appended(marker)]
        return sorted({self.within(marker.data_path, source) for marker, source in named})

    def all_files(self, known: Sequence[FileInfo] | None = None) -> list[str]:
        """Return the paths of `files` and `appended` from one listing of the markers.

        Args:
            known: that listing, by `infos`; None makes one.

        Raises:
            CorruptError: as `files`.
        """
        named = list(self._markers(known))
        return sorted(
            {(self.within if self._is_appended(marker) else self.owned)(marker.data_path, s) for marker, s in named}
        )

    def owned(self, path: str, source: str | None = None) -> str:
        """Return `path` if the instant may have written it, so that a rollback may delete it.

        The name of every data file holds the instant that wrote it, but for log files below version 8.

        Args:
            path: path of a data file, relative to the table's root.
            source: the file that names it, for the error.

        Raises:
            CorruptError: it is no data file of this instant, or lies among Hudi's own files.
            NotSupportedError: it is a log file of a later Hudi.
        """
        data_file = parse_data_file(basename(path))
        if data_file is None or data_file.instant != self.instant:
            raise self._stranger(path, source)
        return self.within(path, source)

    def within(self, path: str, source: str | None = None) -> str:
        """Return the path of a data file; refuse one outside of the table or in Hudi's own folder.

        Args:
            path: path relative to the table's root.
            source: the file that names it, for the error.

        Raises:
            CorruptError: it does.
        """
        folder = path.rpartition("/")[0]
        folders = folder.split("/") if folder or path.startswith("/") else []
        if not {"", ".", ".."}.isdisjoint(folders) or folders[:1] == [HOODIE_DIR]:
            raise self._stranger(path, source)
        return path

    def _is_appended(self, marker: MarkerName) -> bool:
        """Whether a marker is of a log file that bears another instant."""
        data_file = parse_data_file(marker.file_name)
        return (
            marker.io_type is IOType.APPEND and isinstance(data_file, LogFileName) and data_file.instant != self.instant
        )

    def _stranger(self, path: str, source: str | None) -> CorruptError:
        return CorruptError(
            f"{path!r} is listed as a file of instant {self.instant}, which can't have written it; nothing was "
            "deleted. Remove the instant's timeline files and markers by hand",
            table=self.storage.root,
            path=source or path,
            instant=self.instant,
        )

    def infos(self) -> list[FileInfo]:
        """The marker files themselves."""
        return list(self.storage.list(marker_dir(self.instant)))

    def delete(self, known: Sequence[FileInfo] | None = None) -> None:
        """Delete all markers of the instant.

        Args:
            known: `infos` since the instant's tasks ended; None lists them. A marker that comes later, of a task that
                was given up, names a file that nobody counts, and stays beside it.
        """
        delete_folder(self.storage, marker_dir(self.instant), None if known is None else [info.path for info in known])

    def _markers(self, known: Sequence[FileInfo] | None = None) -> Iterator[tuple[MarkerName, str]]:
        """All markers, each with the file that names it."""
        folder = marker_dir(self.instant)
        for info in self.infos() if known is None else known:
            name = info.path[len(folder) + 1 :]
            if name == MARKERS_TYPE or is_staged(name):
                continue
            if name.startswith(MARKERS_PREFIX) and "/" not in name:
                yield from self._listed(info.path)
            else:
                yield self._marker(name, info.path), info.path

    def _listed(self, path: str) -> Iterator[tuple[MarkerName, str]]:
        text = self.storage.read(path, MaxBytes.MARKERS).decode("utf-8", "replace")
        lines = text.split("\n")  # a partition may hold U+2028
        yield from ((self._marker(line, path), path) for line in lines if line)

    def _marker(self, marker: str, source: str) -> MarkerName:
        parsed = parse_marker(marker)
        if parsed is None:
            raise CorruptError(f"{marker!r} is not the name of a marker", table=self.storage.root, path=source)
        return parsed


def marked_groups(storage: Storage, instant: str) -> set[FileGroupId]:
    """File groups that a write has marked, by partition and file id; none if its markers can't be read."""
    paths: list[str] = []
    with suppress(CorruptError, NotFoundError, NotSupportedError):  # what is wrong with them its commit tells
        paths = Markers(storage, instant).all_files()
    split = (path.rpartition("/") for path in paths)
    parsed = ((folder, parse_data_file(name)) for folder, _, name in split)
    return {FileGroupId(folder, name.file_id) for folder, name in parsed if name is not None}


@dataclass(frozen=True, slots=True)
class EarlyDetection:
    """Check of a task before it works on a file group; picklable.

    Attributes:
        instant: requested time of the write.
        earlier: requested times of the writes that were pending, with heartbeats, when this one began. Of two
            writers the later one gives way, as in Hudi.
        completed: requested times of the commits that this write was planned from; None where commits aren't compared.
        timeline: where the timeline is.
    """

    instant: str
    earlier: tuple[str, ...]
    completed: frozenset[str] | None
    timeline: TimelinePlace

    def check(self, storage: Storage, group: FileGroupId) -> None:
        """Look for another writer of a file group.

        Raises:
            ConflictError: there is one.
        """
        for instant in self.earlier:
            if group in marked_groups(storage, instant):
                raise self._conflict(storage, group, f"write {instant}, which began earlier, also writes")
        if self.completed is not None:
            self._check_commits(storage, self.completed, group)

    def _check_commits(self, storage: Storage, completed: frozenset[str], group: FileGroupId) -> None:
        store = self.timeline.open(storage)
        for each in store.load().commits:
            if each.requested in completed or each.requested == self.instant:
                continue
            done = store.read_commit_metadata(each)
            if done.is_compaction:
                continue
            if group in done.touched_groups:
                raise self._conflict(storage, group, f"commit {each.requested}, completed meanwhile, also wrote")

    def _conflict(self, storage: Storage, group: FileGroupId, who: str) -> ConflictError:
        return ConflictError(
            f"{who} {group.text}: found early, so that this write needn't go on; nothing of it is visible; read the "
            "table again and retry",
            table=storage.root,
            instant=self.instant,
        )
