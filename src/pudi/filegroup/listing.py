"""List partitions and files: the `FileListing` protocol, and its plain form over storage."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pudi.context import FileInfo, Storage
from pudi.filegroup.nested import is_within, nested_roots, shows_table
from pudi.format import HOODIE_DIR, PARTITION_METADATA, describes_table
from pudi.storage import executor_of, tries_alone
from pudi.timeline import Timeline


class FileListing(Protocol):
    """Partitions of a table and the files in them."""

    @property
    def states_sizes(self) -> bool:
        """Whether the sizes that were listed last are those that commits state, and not the files' own."""

    def shows_later(self, timeline: Timeline) -> bool:
        """Whether what was listed last may be of a later time than a timeline, so that files of it may be missing."""

    def partitions(self) -> Sequence[str]:
        """Every partition path, sorted; the empty path for a table that isn't partitioned."""

    def files(self, partition: str) -> Sequence[FileInfo]:
        """Files directly in a partition; none when it's not there."""

    def files_of(self, partitions: Iterable[str]) -> Mapping[str, Sequence[FileInfo]]:
        """Files directly in some partitions, by partition path in the order given; none where it's not there."""

    def all_files(self) -> Mapping[str, Sequence[FileInfo]]:
        """Files of every partition, by partition path."""


@dataclass(frozen=True, slots=True)
class StorageListing:
    """The listing that storage itself gives. A folder is a partition if it holds `.hoodie_partition_metadata`.

    Folders that are the roots of other tables, and those below them, are no partitions.

    Args:
        storage: the table's files.
    """

    storage: Storage

    @property
    def states_sizes(self) -> bool:
        """See `FileListing`."""
        return False

    def shows_later(self, timeline: Timeline) -> bool:
        """See `FileListing`: folders don't tell."""
        return True

    def partitions(self) -> Sequence[str]:
        """Every partition path, sorted."""
        return sorted(self.all_files())

    def files(self, partition: str) -> Sequence[FileInfo]:
        """Files directly in a partition."""
        files, folders = self.storage.list_dir(partition)
        return () if partition and shows_table(folders) else files

    def files_of(self, partitions: Iterable[str]) -> Mapping[str, Sequence[FileInfo]]:
        """Files directly in some partitions: one listing for each."""
        names = list(partitions)
        quick = tries_alone(self.storage, len(names))
        return dict(zip(names, executor_of(self.storage).map(self.files, names, while_quick=quick), strict=True))

    def all_files(self) -> Mapping[str, Sequence[FileInfo]]:
        """Files of every partition: one listing of the root's own files and one for each folder in it."""
        files, folders = self.storage.list_dir("")
        others = [folder for folder in folders if folder != HOODIE_DIR]
        quick = tries_alone(self.storage, len(others))
        below = executor_of(self.storage).map(lambda f: list(self.storage.list(f)), others, while_quick=quick)
        return self._by_partition([files, *below])

    @staticmethod
    def _by_partition(listings: Iterable[Iterable[FileInfo]]) -> dict[str, list[FileInfo]]:
        folders: defaultdict[str, list[FileInfo]] = defaultdict(list)
        partitions, described = set(), []
        for listing in listings:
            for info in listing:
                folder, _, name = info.path.rpartition("/")
                folders[folder].append(info)
                # `.hoodie_partition_metadata.parquet` where hoodie.partition.metafile.use.base.format is set
                if name.startswith(PARTITION_METADATA):
                    partitions.add(folder)
                elif describes_table(name):
                    described.append(info.path)
        others = nested_roots([*(f"{folder}/" for folder in folders), *described])
        partitions = {folder for folder in partitions if not is_within(folder, others)}
        return {folder: folders[folder] for folder in sorted(partitions)}
