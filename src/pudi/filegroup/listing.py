"""List partitions and files, without the files of other tables below the table's root.

`FileListing` is the protocol, `StorageListing` its plain form over storage. The roots of other tables, of Hudi, Delta
or Iceberg, and all below them are no partitions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pudi.context import FileInfo, Storage
from pudi.errors import InvalidArgumentError, NotFoundError, NotSupportedError
from pudi.format import (
    DELTA_LOG_DIR,
    HOODIE_DIR,
    ICEBERG_METADATA_DIR,
    ICEBERG_METADATA_SUFFIX,
    PARTITION_METADATA,
    PROPERTIES,
    describes_table,
    nested_root,
)
from pudi.storage import executor_of, tries_alone
from pudi.timeline import Timeline


def nested_roots(paths: Iterable[str]) -> frozenset[str]:
    """Return the roots of other tables below a table's root.

    Args:
        paths: paths of the files below the table's root; folders with a slash at the end do for those of Hudi.
    """
    return frozenset(root for root in map(nested_root, paths) if root is not None)


def is_within(folder: str, roots: Collection[str]) -> bool:
    """Return whether a folder is one of the roots, or lies below one."""
    if not roots:
        return False
    while folder not in roots:
        folder, slash, _ = folder.rpartition("/")
        if not slash:
            return False
    return True


def own_files(infos: Iterable[FileInfo]) -> Iterator[FileInfo]:
    """Return the files of a table, of all that lie below its root: without those of other tables."""
    found = list(infos)
    roots = nested_roots(info.path for info in found)
    return (info for info in found if not is_within(info.path.rpartition("/")[0], roots))


def check_partition_apart(storage: Storage, partition: str) -> None:
    """Refuse a partition that a caller names if it is another table's root, or a folder in it.

    Raises:
        InvalidArgumentError: it is.
    """
    folder = ""
    for name in filter(None, partition.split("/")):
        folder = f"{folder}/{name}" if folder else name
        if is_table_root(storage, folder):
            raise InvalidArgumentError(
                f"{folder} is the root of another table, not a partition of this one",
                table=storage.root,
                path=partition,
            )


def check_is_loose(root: str, path: str) -> None:
    """Refuse a file of a table's metadata in a folder of loose files: only the metadata tells which files count.

    Raises:
        NotSupportedError: the folder, or one below, is a table of Hudi, Delta or Iceberg.
    """
    found = nested_root(f"./{path}")
    if found is None:
        return
    kind = next((kind for kind, name in _KINDS.items() if f"/{name}/" in f"/{path}"), "Hudi")
    way = (
        "open it with pudi.Table, or copy it with `pudi ingest --source table`"
        if kind == "Hudi"
        else ("its files alone don't tell its rows; read it as such a table")
    )
    folder = "the folder" if found == "." else f"the folder {found.removeprefix('./')} in it"
    raise NotSupportedError(f"{folder} is {'an' if kind == 'Iceberg' else 'a'} {kind} table: {way}", table=root)


_KINDS = {"Hudi": HOODIE_DIR, "Delta": DELTA_LOG_DIR, "Iceberg": ICEBERG_METADATA_DIR}


def check_none_below(storage: Storage) -> None:
    """Refuse a folder with other tables below, before all of it is deleted.

    Raises:
        InvalidArgumentError: there are tables of Hudi, Delta or Iceberg in its subfolders.
    """
    found = next(filter(None, (nested_root(info.path) for info in storage.list())), None)
    if found is not None:
        raise InvalidArgumentError(
            f"there is another table below, at {found}, which would be deleted too: move it first", table=storage.root
        )


def is_table_root(storage: Storage, folder: str) -> bool:
    """Return whether a folder is the root of a table of Hudi, Delta or Iceberg."""
    head = f"{folder}/" if folder else ""
    try:
        storage.head(f"{head}{PROPERTIES}")
    except NotFoundError:
        pass
    else:
        return True
    if storage.list_dir(f"{head}{DELTA_LOG_DIR}")[0]:
        return True
    files = storage.list_dir(f"{head}{ICEBERG_METADATA_DIR}")[0]
    return any(info.path.endswith(ICEBERG_METADATA_SUFFIX) for info in files)


def shows_table(folders: Collection[str]) -> bool:
    """Return whether the folders in a folder show that it is the root of a table of Hudi or Delta."""
    return HOODIE_DIR in folders or DELTA_LOG_DIR in folders


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
