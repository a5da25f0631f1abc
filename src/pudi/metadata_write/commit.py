"""Write the changes of one commit of the table to its metadata table, as log files of a deltacommit.

Source: HoodieBackedTableMetadataWriter.commitInternal, SparkHoodieBackedTableMetadataWriter.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pudi.client import MetaClient, TableSnapshot
from pudi.client.inflight_builds import with_inflight_builds
from pudi.config import MetadataOptions
from pudi.context import Storage
from pudi.errors import CorruptError
from pudi.filegroup import FileSlice
from pudi.format import Action, WriteStat
from pudi.metadata import MetadataTable
from pudi.metadata.changes import Changes
from pudi.metadata.decode import SMALL
from pudi.metadata.keys import shard_of
from pudi.metadata_write.client import begin_deltacommit, complete_update
from pudi.metadata_write.index_logs import IndexLogs
from pudi.metadata_write.rollback import discard_deltacommit
from pudi.storage import StorageWrapper, is_near
from pudi.task.metadata_files import LogTarget, append_changes
from pudi.timeline import Instant

_FEW = 1000
"""Number of changes up to which writing them to files on this machine takes less time than starting threads."""


@dataclass(frozen=True, slots=True)
class _Part:
    """The changes to one file group."""

    slice: FileSlice
    changes: Changes

    @property
    def planned(self) -> WriteStat:
        """The file group, as the inflight deltacommit announces it."""
        return WriteStat(
            file_id=self.slice.file_id, prev_commit=self.slice.instant, num_update_writes=len(self.changes)
        )


@dataclass(frozen=True, slots=True)
class LockedMetadata:
    """The metadata table as a commit finds it under the table's lock.

    Attributes:
        table: the metadata table, opened under the lock.
        maintained: the partitions that commits maintain.
        building: instants of index builds that are inflight: their file groups exist already.
        logs: the log files of record-level indexes, written before the lock was taken; the commit completes their
            inflight deltacommit. None for none.
    """

    table: MetadataTable
    maintained: frozenset[str]
    building: Collection[str]
    logs: IndexLogs | None


class _NotedWrites(StorageWrapper):
    """The metadata table's files; notes the content of small ones that are created."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self.created: dict[str, bytes] = {}

    def create(self, path: str, data: bytes, *, durable: bool = False) -> None:
        """Create a file."""
        super().create(path, data, durable=durable)
        if len(data) <= SMALL:
            self.created[path] = bytes(data)


def commit_changes(
    mdt: MetaClient,
    requested: str,
    changes: Mapping[str, Changes],
    locked: LockedMetadata | None = None,
    verify: Callable[[], None] = lambda: None,
) -> Instant:
    """Write a deltacommit; called under the table's lock, right before the table's own instant completes.

    The deltacommit of a failed attempt at the same instant is discarded first.

    Args:
        mdt: the metadata table.
        requested: the table's instant.
        changes: the changes by partition of the metadata table.
        locked: the metadata table as it was opened under the lock; None lists its timeline and file groups now.
        verify: called before each file is written.

    Returns:
        The completed instant.

    Raises:
        CorruptError: a partition has no file groups.
        IndexesChangedError: the log files of indexes must be prepared again.
    """
    table, logs = (None, None) if locked is None else (locked.table, locked.logs)
    building, maintained = ((), ()) if locked is None else (locked.building, locked.maintained)
    listed = mdt.store.load() if table is None else table.timeline
    timeline = with_inflight_builds(listed, building)
    if logs is None and listed.find(requested, Action.DELTACOMMIT) is not None:
        discard_deltacommit(mdt, requested)
        listed = mdt.store.load()
        timeline = with_inflight_builds(listed, building)
    own = TableSnapshot(mdt, timeline)
    of_indexes = {} if logs is None else logs.verify(own, maintained)
    found = _slices(own, None if table is None or timeline is not table.timeline else table, sorted(changes))
    parts = {p: _parts(mdt, p, found[p], changes[p]) for p in sorted(changes)}
    if logs is None:
        instant = begin_deltacommit(mdt, requested, {p: [one.planned for one in parts[p]] for p in parts})
        listed = listed.with_instant(instant)
    else:
        instant = logs.instant

    storage = _NotedWrites(mdt.storage)

    def append(one: tuple[int, _Part]) -> WriteStat:
        verify()
        number, part = one
        return append_changes(storage, LogTarget(requested, mdt.store.layout, part.slice, number), part.changes)

    written = mdt.context.executor.map(
        append,
        list(enumerate(part for of_groups in parts.values() for part in of_groups)),
        while_quick=is_near(mdt.storage) and sum(map(len, changes.values())) <= _FEW,
    )
    stats = {p: tuple(stat for stat in written if stat.partition_path == p) for p in parts}
    done = complete_update(mdt, instant, {**stats, **of_indexes}, listed)
    if table is not None:
        table.keep_written(storage.created, done)
    return done


def _slices(
    own: TableSnapshot, table: MetadataTable | None, partitions: Sequence[str]
) -> dict[str, Sequence[FileSlice]]:
    """Return the file groups of partitions by their numbers, as an open metadata table knows them, if there is one."""
    if table is not None:
        return {partition: table.shards(partition).all for partition in partitions}
    slices = own.view(sizes=False).slices_of(partitions)
    return {p: [each for each in slices if each.partition == p] for p in partitions}


def _parts(mdt: MetaClient, partition: str, slices: Sequence[FileSlice], changes: Changes) -> list[_Part]:
    """Return the changes by file group, without groups that have none; slices are in the order of their numbers."""
    if not slices:
        raise CorruptError(
            f"partition {partition} of the metadata table has no file groups; write with "
            f"{MetadataOptions.enabled}=false, which drops the metadata table",
            table=mdt.storage.root,
        )
    if len(slices) == 1:
        return [_Part(slices[0], changes.sorted())] if len(changes) else []
    shards, gone = shard_of(changes.keys, len(slices)), shard_of(changes.gone, len(slices))
    numbers = sorted(set(np.unique(shards)) | set(np.unique(gone)))
    return [
        _Part(slices[n], changes.part(pa.array(shards == n), pa.array(gone == n)).sorted()) for n in map(int, numbers)
    ]
