"""Open a table's record index, for writers: as a reader of a snapshot sees it.

Source: HoodieBackedTableMetadataWriter.initializeRecordIndexPartition.
"""

from __future__ import annotations

import logging

from pudi.client.snapshot import TableSnapshot
from pudi.concurrency import TimelineBehindError
from pudi.config import IndexOptions
from pudi.errors import InvalidArgumentError
from pudi.format.metadata_partitions import RECORD_INDEX
from pudi.indexes.record_index.properties import is_partitioned
from pudi.metadata.record_index import RecordShards
from pudi.metadata.validity import is_known_to, scope_of
from pudi.metadata_write.client import open_metadata
from pudi.tagging import Index

_log = logging.getLogger(__name__)


def refuse_behind(snapshot: TableSnapshot) -> None:
    """Refuse to plan by a snapshot that isn't the newest one any more, where the metadata table has more commits.

    Raises:
        TimelineBehindError: the timeline has changed.
    """
    if snapshot.refreshed().timeline != snapshot.timeline:
        raise TimelineBehindError(
            "another process completed a commit while this write looked for its keys; retry", table=snapshot.table
        )


def open_shards(snapshot: TableSnapshot, *, alone: bool = False) -> RecordShards | None:
    """Return the record index as a reader of a snapshot sees it; None if the table has none.

    Args:
        snapshot: the table, loaded before: the index is read without commits that are pending on its timeline.
        alone: whether to make sure that no commit has completed since. The index may send a key of a file group that
            was clustered since to one that the timeline doesn't show, as if the key were new.

    Raises:
        CorruptError: the index is damaged.
        TimelineBehindError: a commit has completed since.
    """
    if RECORD_INDEX not in snapshot.config.metadata_partitions:
        return None
    own = TableSnapshot.load(open_metadata(snapshot.meta))
    shards = shards_of(snapshot, own)
    if alone and not is_known_to(shards.scope, own.timeline, snapshot.timeline):
        refuse_behind(snapshot)
    return shards


def shards_for(snapshot: TableSnapshot, index: Index) -> RecordShards | None:
    """Return the record index that a write uses; None if it uses another index, or the table has none (yet).

    Raises:
        TimelineBehindError: a commit has completed since the timeline was loaded.
        InvalidArgumentError: the table has the other kind of record index.
        CorruptError: the index is damaged.
    """
    if not index.records:
        return None
    meta, shards = snapshot.meta, open_shards(snapshot, alone=True)
    if shards is None:
        _log.warning("table %s has no record index: keys are looked for in files", meta.storage.root)
        return None
    if meta.opened.table is not None and RECORD_INDEX in meta.opened.table[1].ever_invalidated:
        return None
    if shards.ranges and shards.partitioned == index.is_global:
        kind, other = ("RECORD_LEVEL_INDEX", "by partition") if shards.partitioned else ("RECORD_INDEX", "over it all")
        raise InvalidArgumentError(
            f"the table has a record index {other}: use {IndexOptions.index_type}={kind}", table=meta.storage.root
        )
    return shards


def shards_of(snapshot: TableSnapshot, own: TableSnapshot) -> RecordShards:
    """`open_shards` of an opened metadata table, `own`, as its own timeline has it."""
    slices = own.view().slices(RECORD_INDEX)
    scope = scope_of(snapshot.timeline, own.timeline, own.meta.store)
    partitioned = is_partitioned(snapshot.meta, slices)
    return RecordShards.of(own.meta.storage, slices, scope, partitioned=partitioned)
