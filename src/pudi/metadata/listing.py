"""List partitions and files from the metadata table; folders are listed only if it can't be read."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.context import FileInfo, collector_paused
from pudi.errors import CorruptError, NotFoundError, NotSupportedError
from pudi.filegroup import FileListing
from pudi.format.metadata_partitions import FILES
from pudi.metadata.merge import entries_of
from pudi.metadata.record_schema import ALL_PARTITIONS, NO_PARTITION, partition_identifier, partition_path
from pudi.metadata.table import MetadataTable
from pudi.schema.arrays import one_array
from pudi.timeline import Timeline

_T = TypeVar("_T")


class MetadataWarning(UserWarning):
    """The metadata table can't be used; pudi gets the information in another way."""


Files = dict[str, list[FileInfo]]
"""Files by partition path."""


@dataclass(slots=True)
class KeptListing:
    """Listing read from the partition `files`, valid as long as the metadata table doesn't change.

    Attributes:
        stamp: the state of the metadata table at the time of reading.
        partitions: all partition paths, sorted; None if they weren't read.
        everything: the files of all partitions; None if they weren't read.
        some: the files of single partitions.
        damage: the state in which the list was last unreadable, and the reason; None if it was readable.
    """

    stamp: object = None
    partitions: list[str] | None = None
    everything: Files | None = None
    some: Files = field(default_factory=dict)
    damage: tuple[object, CorruptError] | None = None

    def for_state(self, stamp: object) -> KeptListing:
        """Return itself, emptied if the metadata table has changed."""
        if self.stamp != stamp:
            self.stamp, self.partitions, self.everything, self.some = stamp, None, None, {}
        return self


class MetadataListing:
    """The listing from the metadata table (HoodieBackedTableMetadata.fetchAllFilesInPartition).

    It opens the metadata table at first use. If the metadata table can't be read, is damaged or behind, it warns once
    and uses the other listing from then on.

    Args:
        open_table: opens the metadata table.
        otherwise: the listing of folders.
        kept: what earlier listings of the same table read.
        opened: the metadata table, if it is already open.
    """

    def __init__(
        self,
        open_table: Callable[[], MetadataTable],
        otherwise: FileListing,
        kept: KeptListing | None = None,
        opened: MetadataTable | None = None,
    ) -> None:
        self._open = open_table
        self._otherwise = otherwise
        self._kept = KeptListing() if kept is None else kept
        self._opened = opened
        self._failed = False

    @property
    def states_sizes(self) -> bool:
        """Whether the metadata table gave the listing: sizes are then the greatest that commits state."""
        return not self._failed

    def shows_later(self, timeline: Timeline) -> bool:
        """Whether the metadata table has commits that a timeline lacks; see `FileListing`."""
        if self._failed:
            return self._otherwise.shows_later(timeline)
        return self._opened is not None and not self._opened.is_known_to(timeline)

    def partitions(self) -> Sequence[str]:
        """Every partition path, sorted."""
        return self._ask(self._partitions, lambda listing: listing.partitions())

    def files(self, partition: str) -> Sequence[FileInfo]:
        """Files directly in a partition."""
        return self.files_of([partition])[partition]

    def files_of(self, partitions: Iterable[str]) -> Mapping[str, Sequence[FileInfo]]:
        """Files directly in some partitions."""
        wanted = list(partitions)
        return self._ask(lambda table: self._some(table, wanted), lambda listing: listing.files_of(wanted))

    def all_files(self) -> Mapping[str, Sequence[FileInfo]]:
        """Files of every partition."""
        return self._ask(self._all, lambda listing: listing.all_files())

    def _partitions(self, table: MetadataTable) -> Sequence[str]:
        kept = self._kept.for_state(table.stamp)
        if kept.partitions is None:
            kept.partitions = partitions_listed(table)
        return list(kept.partitions)

    def _some(self, table: MetadataTable, wanted: list[str]) -> Mapping[str, Sequence[FileInfo]]:
        kept = self._kept.for_state(table.stamp)
        if kept.everything is None:
            lacking = [partition for partition in wanted if partition not in kept.some]
            if lacking:
                keys = [partition_identifier(each) for each in lacking]
                few = table.few_files(keys)
                read = _listed(table.read(FILES, keys=keys)) if few is None else _of_few(few)
                kept.some.update({partition: read.get(partition, []) for partition in lacking})
        known = kept.some if kept.everything is None else kept.everything
        return {partition: known.get(partition, []) for partition in wanted}

    def _all(self, table: MetadataTable) -> Mapping[str, Sequence[FileInfo]]:
        kept = self._kept.for_state(table.stamp)
        if kept.everything is None:
            kept.everything, kept.some = files_listed(table), {}
            kept.partitions = list(kept.everything)
        return dict(kept.everything)

    def _ask(self, metadata: Callable[[MetadataTable], _T], folders: Callable[[FileListing], _T]) -> _T:
        """Query the metadata table; reopen it once if it was cleaned or compacted meanwhile."""
        for attempt in range(2):
            if self._failed:
                break
            try:
                if self._opened is None:
                    self._opened = self._open()
                answer = metadata(self._opened)
            except NotFoundError as error:
                self._opened = None
                if attempt:
                    self._fail(error)
            except (CorruptError, NotSupportedError) as error:
                if isinstance(error, CorruptError) and self._opened is not None:
                    self._kept.damage = self._opened.stamp, error
                self._fail(error)
            else:
                self._kept.damage = None
                return answer
        return folders(self._otherwise)

    def _fail(self, error: Exception) -> None:
        self._failed = True
        warnings.warn(
            f"the metadata table can't be read, folders are listed in its stead, which takes longer: {error}",
            MetadataWarning,
            stacklevel=2,
        )


def files_listed(table: MetadataTable) -> Files:
    """Return all partitions, sorted, with the files that the metadata table lists.

    Raises:
        CorruptError: the metadata table is damaged.
        NotFoundError: one of its files is gone, cleaned since it was opened.
    """
    records = table.read(FILES)
    listed = _listed(records)
    return {partition: listed.get(partition, []) for partition in _partitions(records)}


def partitions_listed(table: MetadataTable) -> list[str]:
    """Return all partition paths, sorted; raises as `files_listed`."""
    return _partitions(table.read(FILES, keys=[ALL_PARTITIONS]))


def _partitions(records: pa.Table) -> list[str]:
    """Sort partition paths by their texts."""
    named = records.filter(pc.equal(records["key"], ALL_PARTITIONS))
    return sorted(map(partition_path, entries_of(named["filesystemMetadata"]).names.to_pylist()))


def _of_few(files: Mapping[str, Mapping[str, int]]) -> Files:
    """Files by partition path."""
    found: Files = {}
    for key, sizes in files.items():
        folder = "" if key == NO_PARTITION else f"{key}/"
        found[partition_path(key)] = [FileInfo(folder + name, size, 0) for name, size in sizes.items()]
    return found


def _listed(records: pa.Table) -> Files:
    """Files by partition path."""
    records = records.filter(pc.not_equal(records["key"], ALL_PARTITIONS))
    entries = entries_of(records["filesystemMetadata"])
    keys = one_array(records["key"])
    folders = pc.if_else(pc.equal(keys, NO_PARTITION), "", pc.binary_join_element_wise(keys, "", "/"))
    paths = pc.binary_join_element_wise(folders.take(pa.array(entries.owner)), entries.names, "")
    with collector_paused():
        infos = list(map(FileInfo, paths.to_pylist(), entries.sizes.tolist(), repeat(0)))
    ends = np.searchsorted(entries.owner, np.arange(len(keys)), side="right").tolist()
    begins = [0, *ends][: len(ends)]
    spans = zip(keys.to_pylist(), begins, ends, strict=True)
    return {partition_path(key): infos[begin:end] for key, begin, end in spans}
