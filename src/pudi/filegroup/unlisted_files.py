"""Data files that nothing lists: base files that no commit names, and files of a dead writer without markers.

A process that was taken for dead may write its file after another run of its plan has completed, and die before it
deletes the file. Beside the file that the commit names, readers pass over it. The commit may also name none of the file
group, if that was replaced meanwhile.

A loss of power may delete a marker and keep the file, on local disks only. Such files are found by listing all folders,
whether they are known as partitions or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from posixpath import basename

from pudi.context import FileInfo, Storage
from pudi.errors import CorruptError, NotFoundError
from pudi.filegroup.committed_logs import stated_sizes
from pudi.filegroup.log_scan import read_blocks
from pudi.filegroup.markers import Markers
from pudi.filegroup.nested import own_files
from pudi.filegroup.slices import UNNAMED, LogFile
from pudi.format import HOODIE_DIR, BaseFileName, Layout, LogFileName, parse_data_file
from pudi.format.layout import rules_of
from pudi.format.log_block import BlockKind
from pudi.storage import local_path
from pudi.timeline import Instant, Timeline, TimelineStore


@dataclass(frozen=True, slots=True)
class NamedFiles:
    """The files that commits name, of the active timeline and of the archive.

    Attributes:
        store: the timeline in storage.
        timeline: the active timeline.
    """

    store: TimelineStore
    timeline: Timeline
    _known: dict[str, frozenset[str] | None] = field(default_factory=dict, repr=False)

    def of(self, instant: str) -> frozenset[str] | None:
        """Return the names of the files that a commit names, without their folders.

        None where neither the timeline nor the archive tells.
        """
        if instant not in self._known:
            self._known[instant] = self._read(instant)
        return self._known[instant]

    def _read(self, instant: str) -> frozenset[str] | None:
        try:
            commit = self.timeline.commit(instant) or self._archived(instant)
            if commit is None:
                return None
            stats = self.store.read_commit_metadata(commit).partition_to_write_stats
        except (CorruptError, NotFoundError):  # a reader that needs the commit reports it
            return None
        return frozenset(basename(path) for group in stats.values() for stat in group for path in stat.paths)

    def _archived(self, instant: str) -> Instant | None:
        if self.timeline.start is None or instant >= self.timeline.start:
            return None
        found = self.store.archived(instant)
        return next((each for each in found if each.requested == instant and each.is_write), None)


def unnamed_files(
    folders: Mapping[str, Sequence[FileInfo]], named: NamedFiles, listed: Mapping[str, Sequence[FileInfo]] | None
) -> set[str]:
    """Return paths of base files that the commits of their instants don't name.

    Of the files that a metadata table lists, and of all where there's none, only those are looked at that share their
    file group and instant with another one: others would cost the metadata of each commit.

    Args:
        folders: the data files by partition path.
        named: the files that commits name.
        listed: the files that the metadata table lists, by partition path; None where there's none.
    """
    known = None if listed is None else {info.path for infos in listed.values() for info in infos}
    found: set[str] = set()
    for infos in folders.values():
        twins: dict[tuple[str, str], list[str]] = {}
        for info in infos:
            name = parse_data_file(basename(info.path))
            if isinstance(name, BaseFileName):
                twins.setdefault((name.file_id, name.instant), []).append(info.path)
        for (_, instant), paths in twins.items():
            if len(paths) > 1 or (known is not None and paths[0] not in known):
                ours = named.of(instant)
                found.update(path for path in paths if ours is not None and basename(path) not in ours)
    return found


def unmarked_files(storage: Storage, instant: str, layout: Layout) -> list[str]:
    """Paths of the data files that bear an instant and have no marker of it.

    In layout 1 base files alone: a log file bears its slice's instant there.

    Args:
        storage: the table's files.
        instant: requested time of a writer that is dead.
        layout: of the timeline.
    """
    found = []
    for info in _table_files(storage):
        name = parse_data_file(basename(info.path))
        if (
            name is not None
            and name.instant == instant
            and not (rules_of(layout).logs_name_their_slice and isinstance(name, LogFileName))
        ):
            found.append(info.path)
    return sorted(set(found) - set(Markers(storage, instant).all_files())) if found else []


def unmarked_logs(store: TimelineStore, instant: str) -> list[str]:
    """In layout 1, paths of log files that no completed commit states, with blocks of an instant or no whole one.

    Args:
        store: the timeline in storage.
        instant: requested time of a writer that is dead.
    """
    if store.rules.logs_name_their_commit:
        return []
    listed = ((info.path.rpartition("/")[0], info) for info in _table_files(store.storage))
    logs = {log.path: log for log in (LogFile.of(folder, info) for folder, info in listed) if log is not None}
    sizes = stated_sizes(store, store.load(), logs.values()) if logs else {}
    return [
        path for path in sorted(logs) if sizes.get(path) == UNNAMED and _may_hold(store.storage, logs[path], instant)
    ]


def _may_hold(storage: Storage, log: LogFile, instant: str) -> bool:
    try:
        blocks = read_blocks(storage, log)
    except CorruptError:
        return True
    except NotFoundError:
        return False
    return not blocks or any(block.instant == instant and block.kind is not BlockKind.COMMAND for block in blocks)


def _table_files(storage: Storage) -> Iterator[FileInfo]:
    """Yield the files below the table's root, without other tables and Hudi's own folder; on local disks only."""
    if local_path(storage, HOODIE_DIR) is None:
        return
    files, folders = storage.list_dir("")
    yield from files
    for folder in folders:
        if folder != HOODIE_DIR:
            yield from own_files(storage.list(folder))
