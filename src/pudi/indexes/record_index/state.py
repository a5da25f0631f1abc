"""The state of a table's record index, for writers: global or per partition, its file groups, and repeated keys.

Hudi lets a write put a key into a second file group, and so does pudi. Its record index then finds fewer records than
there are; as in Hudi, writers by that index go on using it. Readers of pudi don't.

Source: HoodieBackedTableMetadataWriter.initializeRecordIndexPartition.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pudi.client import MetaClient, TableSnapshot
from pudi.client.find_index import key_scope
from pudi.client.properties import read_properties
from pudi.concurrency import KeyScope, TimelineBehindError
from pudi.config import IndexOptions, TableConfig, WriteOptions
from pudi.errors import InvalidArgumentError
from pudi.filegroup import FileSlice
from pudi.format import CommitMetadata
from pudi.format.metadata_partitions import RECORD_INDEX, group_prefix, partition_type
from pudi.metadata.record_index import RecordShards
from pudi.metadata.validity import is_known_to, scope_of
from pudi.metadata_write.client import open_metadata
from pudi.metadata_write.index_defs import IndexSpec, defined_index
from pudi.plan import Operation
from pudi.tagging import Index
from pudi.task.staged_keys import Repeated

_log = logging.getLogger(__name__)

_KEY = TableConfig.repeated_keys.key
_ADDING = {each.value: each for each in Operation if each not in {Operation.DELETE, Operation.DELETE_PARTITION}}
"""Operations that bring keys, by their names in commits; table services only move some."""

_PARTITIONED = "isPartitioned"


def record_index_spec(*, partitioned: bool) -> IndexSpec:
    """Return the definition of a record index, per partition or global."""
    options = {_PARTITIONED: "true" if partitioned else "false"}
    return IndexSpec(partition_type(RECORD_INDEX), RECORD_INDEX, options=options)


def is_defined_by_partition(spec: IndexSpec) -> bool:
    """Return whether an index's definition states that it is per partition."""
    return spec.options.get(_PARTITIONED, "false").lower() == "true"


def is_partitioned(meta: MetaClient, slices: Sequence[FileSlice]) -> bool:
    """Return whether the table's record index is per partition: by its file groups or, without any, its definition."""
    for each in slices:
        return each.file_id.removeprefix(group_prefix(RECORD_INDEX)).count("-") > 1
    return is_defined_by_partition(defined_index(meta, RECORD_INDEX))


def may_repeat(config: TableConfig, index: Index, written: CommitMetadata, *, partitioned: bool) -> bool:
    """Return whether a commit may bring a key that another file group has, as far as the record index reaches.

    Args:
        config: the table's properties.
        index: the index that located the commit's records.
        written: the commit's metadata.
        partitioned: whether the record index is kept for each partition by itself.
    """
    operation = _ADDING.get(written.operation_type or "")
    if operation is None:
        return False
    scope = key_scope(index, operation)
    return scope is None or (scope is not KeyScope.TABLE and config.is_partitioned and not partitioned)


def has_repeated_keys(meta: MetaClient) -> bool:
    """Return whether the table's properties, as they are now, say that keys are in several file groups.

    A commit is visible only after it has said so. So a reader that asks after it has loaded the timeline isn't misled.
    """
    said = read_properties(meta.storage, meta.context).get(_KEY)
    return said is not None and bool(TableConfig.repeated_keys.parse(said))


def note_repeated(snapshot: TableSnapshot, found: Sequence[Repeated]) -> None:
    """Say in the table's properties that keys are in several file groups, under the table's lock.

    Args:
        snapshot: the table. An old file group that it doesn't show doesn't count: the index may lag behind.
        found: the keys.
    """
    if snapshot.config.repeated_keys:
        return
    partitions = sorted({each.old[0] for each in found if not each.within_commit})
    slices = snapshot.view().slices_of(partitions) if partitions else ()
    there = {each.group for each in slices}
    counted = [each for each in found if each.within_commit or each.old in there]
    if not counted:
        return
    first = counted[0]
    snapshot.meta.change_properties(lambda old: {**old, _KEY: "true"})
    _log.warning(
        "table %s: record key %r is in two file groups now, %s and %s. The record index knows one of them, so reads "
        "don't use it any more. table.check() finds such keys. To end it, delete them and rebuild the index "
        "(drop_index, create_index); to avoid it, upsert by the record index (%s) or, if records stay in their "
        "partitions, insert with %s=true",
        snapshot.table,
        first.key,
        *("/".join(filter(None, place)) for place in (first.old, first.new)),
        IndexOptions.index_type,
        WriteOptions.drop_duplicates,
    )


def refuse_behind(snapshot: TableSnapshot) -> None:
    """Refuse to plan by a snapshot that isn't the newest one any more, where the metadata table has more commits.

    Raises:
        TimelineBehindError: the timeline has changed.
    """
    if snapshot.refreshed().timeline != snapshot.timeline:
        raise TimelineBehindError(
            "another process completed a commit while this write looked for its keys; retry", table=snapshot.table
        )


def open_shards(snapshot: TableSnapshot) -> RecordShards | None:
    """Return the record index as a writer of a snapshot sees it; None if the table has none.

    It makes sure that no commit has completed since: the index may send a key of a file group that was clustered since
    to one that the timeline doesn't show, as if the key were new.

    Args:
        snapshot: the table, loaded before: the index is read without commits that are pending on its timeline.

    Raises:
        CorruptError: the index is damaged.
        TimelineBehindError: a commit has completed since.
    """
    if RECORD_INDEX not in snapshot.config.metadata_partitions:
        return None
    own = TableSnapshot.load(open_metadata(snapshot.meta))
    shards = shards_of(snapshot, own)
    if not is_known_to(shards.scope, own.timeline, snapshot.timeline):
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
    meta, shards = snapshot.meta, open_shards(snapshot)
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
