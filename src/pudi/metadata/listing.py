"""Partitions and files as the metadata table lists them; folders are listed only where it can't be read."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.context import FileInfo
from pudi.errors import CorruptError, NotFoundError, NotSupportedError
from pudi.filegroup import FileListing
from pudi.metadata.merge_files import entries_of
from pudi.metadata.records import ALL_PARTITIONS, FILES, NO_PARTITION, partition_identifier, partition_path
from pudi.metadata.table import MetadataTable

_T = TypeVar("_T")


class MetadataWarning(UserWarning):
    """A metadata table can't be used; what it would have said is found out in another way."""


@dataclass(slots=True)
class KeptListing:
    """What was read of the partition `files`, for as long as the metadata table stays as it is.

    Attributes:
        stamp: the state of the metadata table that it was read in.
        everything: all records; None where they weren't read.
        some: records of single partitions.
    """

    stamp: object = None
    everything: pa.Table | None = None
    some: dict[str, pa.Table] = field(default_factory=dict)

    def for_state(self, stamp: object) -> KeptListing:
        """Itself, emptied if the metadata table is in another state."""
        if self.stamp != stamp:
            self.stamp, self.everything, self.some = stamp, None, {}
        return self


class MetadataListing:
    """The listing that the metadata table gives (HoodieBackedTableMetadata.fetchAllFilesInPartition).

    It's opened when something is asked of it. Where it can't be read, is damaged or behind, a warning says so once, and
    the listing given in its stead answers from then on.

    Args:
        open_table: opens the metadata table.
        otherwise: the listing of the folders.
        kept: what earlier listings of the same table read.
    """

    def __init__(
        self, open_table: Callable[[], MetadataTable], otherwise: FileListing, kept: KeptListing | None = None
    ) -> None:
        self._open = open_table
        self._otherwise = otherwise
        self._kept = KeptListing() if kept is None else kept
        self._opened: MetadataTable | None = None
        self._failed = False

    def partitions(self) -> Sequence[str]:
        """Every partition path, sorted."""
        return self._ask(
            lambda table: self._partitions(self._records(table, [ALL_PARTITIONS])),
            lambda listing: listing.partitions(),
        )

    def files(self, partition: str) -> Sequence[FileInfo]:
        """Files directly in a partition."""
        return self.files_of([partition])[partition]

    def files_of(self, partitions: Iterable[str]) -> Mapping[str, Sequence[FileInfo]]:
        """Files directly in some partitions."""
        wanted = list(partitions)
        if not wanted:
            return {}

        def found(table: MetadataTable) -> dict[str, list[FileInfo]]:
            listed = _listed(self._records(table, [partition_identifier(partition) for partition in wanted]))
            return {partition: listed.get(partition, []) for partition in wanted}

        return self._ask(found, lambda listing: listing.files_of(wanted))

    def all_files(self) -> Mapping[str, Sequence[FileInfo]]:
        """Files of every partition."""

        def found(table: MetadataTable) -> dict[str, list[FileInfo]]:
            records = self._records(table, None)
            listed = _listed(records)
            return {partition: listed.get(partition, []) for partition in self._partitions(records)}

        return self._ask(found, lambda listing: listing.all_files())

    def _ask(self, metadata: Callable[[MetadataTable], _T], folders: Callable[[FileListing], _T]) -> _T:
        """What the metadata table answers; where it's cleaned or compacted meanwhile, it's opened anew, once."""
        for attempt in range(2):
            if self._failed:
                break
            try:
                if self._opened is None:
                    self._opened = self._open()
                return metadata(self._opened)
            except NotFoundError as error:
                self._opened = None
                if attempt:
                    self._fail(error)
            except (CorruptError, NotSupportedError) as error:
                self._fail(error)
        return folders(self._otherwise)

    def _fail(self, error: Exception) -> None:
        self._failed = True
        warnings.warn(
            f"the metadata table can't be read, folders are listed in its stead, which takes longer: {error}",
            MetadataWarning,
            stacklevel=2,
        )

    def _records(self, table: MetadataTable, keys: list[str] | None) -> pa.Table:
        """Records of the partition `files`, read where they aren't kept."""
        kept = self._kept.for_state(table.stamp)
        if kept.everything is None and keys is None:
            kept.everything, kept.some = table.read(FILES), {}
        if kept.everything is not None:
            if keys is None:
                return kept.everything
            return kept.everything.filter(pc.is_in(kept.everything["key"], value_set=pa.array(keys, pa.string())))
        lacking = [key for key in keys or [] if key not in kept.some]
        if lacking:
            read = table.read(FILES, keys=lacking)
            places = {key: place for place, key in enumerate(read["key"].to_pylist())}
            for key in lacking:
                kept.some[key] = read.slice(places[key], 1) if key in places else read.slice(0, 0)
        return pa.concat_tables([kept.some[key] for key in keys or []])

    @staticmethod
    def _partitions(records: pa.Table) -> list[str]:
        named = records.filter(pc.equal(records["key"], ALL_PARTITIONS))
        return sorted(map(partition_path, entries_of(named["filesystemMetadata"]).names.to_pylist()))


def _listed(records: pa.Table) -> dict[str, list[FileInfo]]:
    """Files by partition path."""
    records = records.filter(pc.not_equal(records["key"], ALL_PARTITIONS))
    entries = entries_of(records["filesystemMetadata"])
    keys = records["key"].combine_chunks()
    folders = pc.if_else(pc.equal(keys, NO_PARTITION), "", pc.binary_join_element_wise(keys, "", "/"))
    paths = pc.binary_join_element_wise(folders.take(pa.array(entries.owner)), entries.names, "")
    was_on = gc.isenabled()
    gc.disable()  # many objects that hold no others are made at once
    try:
        infos = list(map(FileInfo, paths.to_pylist(), entries.sizes.tolist(), repeat(0)))
    finally:
        if was_on:
            gc.enable()
    ends = np.searchsorted(entries.owner, np.arange(len(keys)), side="right").tolist()
    begins = [0, *ends][: len(ends)]
    spans = zip(keys.to_pylist(), begins, ends, strict=True)
    return {partition_path(key): infos[begin:end] for key, begin, end in spans}
