"""One delta commit to the metadata table: changes by partition in, log files and a completed instant out.

Source: FORMAT 7.3; HoodieBackedTableMetadataWriter.commitInternal, SparkHoodieBackedTableMetadataWriter.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pudi.action.mdt.inflight_builds import with_inflight_builds
from pudi.action.mdt.record_index import ShardWork, Staged
from pudi.action.mdt.rollback import discard_deltacommit
from pudi.action.meta_client import SCHEMA_KEY, MetaClient
from pudi.config import MetadataOptions
from pudi.errors import CorruptError
from pudi.filegroup import FileSlice
from pudi.format import Action, CommitMetadata, WriteStat
from pudi.metadata.changes import Changes
from pudi.metadata.keys import shard_of
from pudi.metadata.records import RECORD_AVRO
from pudi.metadata.table import map_parallel
from pudi.schema import META_FIELDS
from pudi.task.metadata_files import append_changes
from pudi.timeline import NO_COMMIT, Instant, Timeline

UPSERT, BULK_INSERT = "UPSERT_PREPPED", "BULK_INSERT_PREPPED"
"""What the commits of the metadata table say that they did (WriteOperationType)."""


def _own_avro() -> str:
    """The records' schema without the meta fields, as commits say it."""
    schema: dict[str, Any] = json.loads(RECORD_AVRO)
    fields = [each for each in schema["fields"] if each["name"] not in META_FIELDS]
    return json.dumps({**schema, "fields": fields}, separators=(",", ":"))


_OWN_AVRO = _own_avro()


@dataclass(frozen=True, slots=True)
class _Part:
    """The changes to one file group."""

    slice: FileSlice
    changes: Changes


def commit_changes(
    mdt: MetaClient,
    requested: str,
    changes: Mapping[str, Changes],
    keys: Sequence[Staged] = (),
    building: Collection[str] = (),
    listed: Timeline | None = None,
) -> Instant:
    """Write a delta commit; called under the table's lock, just before the table's own instant completes.

    What an attempt at the same instant left, one of the table's that came to nothing, is taken back before.

    Args:
        mdt: the metadata table.
        requested: the instant of the table that the changes are of.
        changes: the changes by partition of the metadata table.
        keys: those of indexes of records, which tasks write.
        building: instants of indexes that are being built, whose file groups are there already.
        listed: its timeline, where it has been listed under the lock; None lists it now.

    Returns:
        The completed instant.

    Raises:
        CorruptError: a partition has no file groups.
    """
    listed = mdt.store.load() if listed is None else listed
    if listed.find(requested, Action.DELTACOMMIT) is not None:
        discard_deltacommit(mdt, requested)
        listed = mdt.store.load()
    timeline = with_inflight_builds(listed, building)
    slices = mdt.view(timeline, sizes=False).slices_of(sorted(changes))
    parts = {p: _parts(mdt, p, [s for s in slices if s.partition == p], changes[p]) for p in sorted(changes)}
    indexes = {each.partition: each.plan(mdt, timeline) for each in keys}
    instant = mdt.store.request(Action.DELTACOMMIT, at=requested)
    instant = mdt.store.start(instant, _profile(parts, indexes))
    written = map_parallel(
        lambda one: append_changes(mdt.storage, mdt.store.layout, requested, one[1].slice, one[1].changes, one[0]),
        list(enumerate(part for of_groups in parts.values() for part in of_groups)),
    )
    stats = {p: tuple(stat for stat in written if stat.partition_path == p) for p in parts}
    stats.update((partition, index.run(mdt)) for partition, index in indexes.items() if index.tasks)
    return mdt.store.complete(instant, metadata_deltacommit(stats, UPSERT), listed=listed)


def metadata_deltacommit(stats: Mapping[str, tuple[WriteStat, ...]], operation: str) -> CommitMetadata:
    """What a commit of the metadata table says of itself."""
    return CommitMetadata(stats, extra_metadata={SCHEMA_KEY: _OWN_AVRO}, operation_type=operation)


def _parts(mdt: MetaClient, partition: str, slices: Sequence[FileSlice], changes: Changes) -> list[_Part]:
    """The changes by file group, those that get none left out; the slices are in the order of their numbers."""
    if not slices:
        raise CorruptError(
            f"partition {partition} of the metadata table has no file groups; write with "
            f"{MetadataOptions.enabled}=false, which takes the metadata table away",
            table=mdt.storage.root,
        )
    shards, gone = shard_of(changes.keys, len(slices)), shard_of(changes.gone, len(slices))
    numbers = sorted(set(np.unique(shards)) | set(np.unique(gone)))
    return [
        _Part(slices[n], changes.part(pa.array(shards == n), pa.array(gone == n)).sorted()) for n in map(int, numbers)
    ]


def _profile(parts: Mapping[str, Iterable[_Part]], indexes: Mapping[str, ShardWork]) -> CommitMetadata:
    """What an inflight commit says that it's going to do (BaseCommitActionExecutor.saveWorkloadProfileMetadata)."""
    new = WriteStat(file_id="", prev_commit=NO_COMMIT)
    of_indexes = {partition: (new, *index.profile()) for partition, index in indexes.items() if index.tasks}
    return CommitMetadata(
        {
            partition: (
                new,
                *(
                    WriteStat(
                        file_id=part.slice.file_id,
                        prev_commit=part.slice.instant,
                        num_update_writes=len(part.changes),
                    )
                    for part in of_groups
                ),
            )
            for partition, of_groups in parts.items()
        }
        | of_indexes,
        operation_type=UPSERT,
    )
