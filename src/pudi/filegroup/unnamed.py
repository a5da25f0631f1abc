"""Base files of completed instants whose commits don't name them.

A process that was taken for dead may write its file after another run of its plan has completed, and die before it
deletes the file. Beside the file that the commit names, readers pass over it. The commit may also name none of the file
group, if that was replaced meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pudi.context import FileInfo
from pudi.errors import CorruptError, NotFoundError
from pudi.format import BaseFileName, parse_data_file
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
        return frozenset(_name(path) for group in stats.values() for stat in group for path in stat.paths)

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
            name = parse_data_file(_name(info.path))
            if isinstance(name, BaseFileName):
                twins.setdefault((name.file_id, name.instant), []).append(info.path)
        for (_, instant), paths in twins.items():
            if len(paths) > 1 or (known is not None and paths[0] not in known):
                ours = named.of(instant)
                found.update(path for path in paths if ours is not None and _name(path) not in ours)
    return found


def _name(path: str) -> str:
    return path.rpartition("/")[2]
