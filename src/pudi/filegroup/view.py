"""The file slices that a reader sees at an instant (AbstractTableFileSystemView)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from pudi.context import FileInfo
from pudi.filegroup.listing import FileListing
from pudi.filegroup.slices import BaseFile, FileSlice
from pudi.format import Action
from pudi.timeline import Timeline, TimelineStore


@dataclass(frozen=True, slots=True)
class Replacements:
    """File groups that completed replacecommits took out of the table.

    Attributes:
        instants: requested time of the replacecommit, by partition path and file id.
    """

    instants: Mapping[tuple[str, str], str] = field(default_factory=dict)

    @classmethod
    def of(cls, store: TimelineStore, timeline: Timeline) -> Replacements:
        """Read them from the timeline's completed replacecommits (clustering included)."""
        replaced: dict[tuple[str, str], str] = {}
        for instant in timeline.of(Action.REPLACECOMMIT):
            metadata = store.commit_metadata(instant)
            for partition, file_ids in (metadata.partition_to_replace_file_ids or {}).items():
                for file_id in file_ids:
                    replaced.setdefault((partition, file_id), instant.requested)
        return cls(replaced)

    def hides(self, partition: str, file_id: str) -> bool:
        """Whether the file group is out of the table."""
        return (partition, file_id) in self.instants


class FileSystemView:
    """Latest file slices as of a timeline.

    A base file counts when the instant in its name is a completed commit of the timeline, or is older than the active
    timeline while a history of archived instants exists. A file of a pending, failed or unknown instant never counts.

    Args:
        timeline: instants that the reader sees, cut off already for time travel.
        listing: the files.
        store: for replacecommits and the history.
    """

    def __init__(self, timeline: Timeline, listing: FileListing, store: TimelineStore) -> None:
        self._timeline = timeline
        self._listing = listing
        self._store = store

    def slices(self, partition: str) -> list[FileSlice]:
        """Latest slice of each file group in a partition, by file id."""
        return self._latest(partition, self._listing.files(partition))

    def all_slices(self) -> list[FileSlice]:
        """Latest slice of each file group in the table, by partition path and file id."""
        return [s for partition, files in self._listing.all_files().items() for s in self._latest(partition, files)]

    def slices_of(self, partitions: Iterable[str]) -> list[FileSlice]:
        """Latest slice of each file group in some partitions, one listing each."""
        return [s for partition in partitions for s in self.slices(partition)]

    def is_replaced(self, partition: str, file_id: str) -> bool:
        """Whether a file group was taken out of the table by a replacecommit."""
        return self._replacements.hides(partition, file_id)

    @cached_property
    def _replacements(self) -> Replacements:
        return Replacements.of(self._store, self._timeline)

    @cached_property
    def _archived(self) -> bool:
        return self._store.has_history()

    def _latest(self, partition: str, files: Sequence[FileInfo]) -> list[FileSlice]:
        newest: dict[str, BaseFile] = {}
        for info in files:
            base = BaseFile.of(partition, info)
            if base is None or not self._is_committed(base.instant):
                continue
            known = newest.get(base.file_id)
            if known is None or (known.instant, known.name.name) < (base.instant, base.name.name):
                newest[base.file_id] = base
        return [
            FileSlice(partition, file_id, base)
            for file_id, base in sorted(newest.items())
            if not self._replacements.hides(partition, file_id)
        ]

    def _is_committed(self, instant: str) -> bool:
        if self._timeline.commit(instant) is not None:
            return True
        start = self._timeline.start
        if start is None or instant >= start or self._timeline.find(instant) is not None:
            return False
        return self._archived
