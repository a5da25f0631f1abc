"""The file slices that a reader sees at an instant (AbstractTableFileSystemView)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from pudi.context import FileInfo
from pudi.errors import NotFoundError
from pudi.filegroup.listing import FileListing
from pudi.filegroup.slices import BaseFile, FileSlice
from pudi.format import Action
from pudi.timeline import NO_COMMIT, Timeline, TimelineStore


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
    """Latest file slices as a reader sees them.

    A base file counts when the instant in its name is a completed commit that the reader sees, or is older than the
    active timeline while a history of archived instants exists. A file of a pending, failed or unknown instant never
    counts.

    Args:
        timeline: the whole active timeline.
        listing: the files.
        store: for commit metadata and the history.
        seen: the part of the timeline that the reader sees; None for all of it.
        archived_until: greatest requested time of archived commits that the reader sees; None for all of them.
    """

    def __init__(
        self,
        timeline: Timeline,
        listing: FileListing,
        store: TimelineStore,
        *,
        seen: Timeline | None = None,
        archived_until: str | None = None,
    ) -> None:
        self._timeline = timeline
        self._listing = listing
        self._store = store
        self._seen = timeline if seen is None else seen
        self._archived_until = archived_until
        self._verdicts: dict[str, bool] = {}

    def slices(self, partition: str) -> list[FileSlice]:
        """Latest slice of each file group in a partition, by file id.

        Raises:
            NotFoundError: a file group's slice is gone that the reader should see, cleaned since the timeline was read.
        """
        return self._latest(partition, self._listing.files(partition))

    def all_slices(self) -> list[FileSlice]:
        """Latest slice of each file group in the table, by partition path and file id; raises as `slices`."""
        return [s for partition, files in self._listing.all_files().items() for s in self._latest(partition, files)]

    def slices_of(self, partitions: Iterable[str]) -> list[FileSlice]:
        """Latest slice of each file group in some partitions, one listing each; raises as `slices`."""
        listed = self._listing.files_of(partitions)
        return [s for partition, files in listed.items() for s in self._latest(partition, files)]

    def is_replaced(self, partition: str, file_id: str) -> bool:
        """Whether a file group was taken out of the table by a replacecommit."""
        return self._replacements.hides(partition, file_id)

    @cached_property
    def _replacements(self) -> Replacements:
        return Replacements.of(self._store, self._seen)

    @cached_property
    def _archived(self) -> bool:
        return self._store.has_history()

    @cached_property
    def _now(self) -> Timeline:
        """The timeline as it is when a doubt comes up, after the listing."""
        return self._store.load()

    def _latest(self, partition: str, files: Sequence[FileInfo]) -> list[FileSlice]:
        newest: dict[str, BaseFile] = {}
        hidden: dict[str, BaseFile] = {}
        for info in files:
            base = BaseFile.of(partition, info)
            if base is None:
                continue
            if not self._is_seen(base.instant):
                known = hidden.get(base.file_id)
                if known is None or base.instant < known.instant:
                    hidden[base.file_id] = base
                continue
            known = newest.get(base.file_id)
            if known is None or (known.instant, known.name.name) < (base.instant, base.name.name):
                newest[base.file_id] = base
        for file_id in hidden.keys() - newest.keys():
            self._check_new(hidden[file_id])
        replaced = self._replacements
        return [
            FileSlice(partition, file_id, base)
            for file_id, base in sorted(newest.items())
            if not replaced.hides(partition, file_id)
        ]

    def _is_seen(self, instant: str) -> bool:
        known = self._verdicts.get(instant)
        if known is None:
            known = self._verdicts[instant] = self._sees(instant)
        return known

    def _sees(self, instant: str) -> bool:
        if self._timeline.commit(instant) is not None:
            return self._seen.commit(instant) is not None
        start = self._timeline.start
        if start is None or instant >= start or self._timeline.is_pending(instant):
            return False
        return self._archived and (self._archived_until is None or instant <= self._archived_until)

    def _check_new(self, oldest: BaseFile) -> None:
        """Make sure that a file group of which the reader sees nothing has begun after what it sees."""
        commit = self._now.commit(oldest.instant) or self._timeline.commit(oldest.instant)
        if commit is None:
            return
        stats = self._store.commit_metadata(commit).partition_to_write_stats.get(oldest.partition, ())
        previous = next((s.prev_commit for s in stats if s.file_id == oldest.file_id), None)
        if previous in {None, NO_COMMIT} or self.is_replaced(oldest.partition, oldest.file_id):
            return
        if self._is_seen(previous):
            raise NotFoundError(
                f"the file that commit {previous} wrote to file group {oldest.file_id} of partition "
                f"{oldest.partition!r} is gone, removed by a cleaner; read the table as it is now",
                table=self._store.storage.root,
                instant=previous,
            )
