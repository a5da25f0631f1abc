"""The metadata table as a table of its own: opened if there is one, created otherwise; its deltacommits.

Source: HoodieBackedTableMetadataWriter.commitInternal, BaseCommitActionExecutor.saveWorkloadProfileMetadata,
HoodieBackedTableMetadataWriter.initializeMetaClient.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pudi.client import MetaClient, TableProperties
from pudi.client.properties import create_properties, read_properties
from pudi.client.schema_commit import SCHEMA_KEY
from pudi.config import MergeMode, MetadataOptions, MetricsOptions, TableConfig
from pudi.context.runtime import lazy_module
from pudi.errors import ConflictError, CorruptError, TableExistsError, TableNotFoundError
from pudi.format import (
    HISTORY_FOLDER,
    METADATA_DIR,
    PROPERTIES,
    TIMELINE_FOLDER,
    Action,
    CommitMetadata,
    State,
    WriteStat,
)
from pudi.format.layout import rules_of
from pudi.format.metadata_partitions import FILES
from pudi.metadata.record_schema import RECORD_AVRO
from pudi.schema import META_FIELDS
from pudi.storage import StorageBelow
from pudi.timeline import NO_COMMIT, Instant, InstantTimes, Timeline, TimelineStore

if TYPE_CHECKING:
    from pudi.metrics import metered as metrics
else:
    metrics = lazy_module("pudi.metrics.metered")

_UPSERT = "UPSERT_PREPPED"
_BULK_INSERT = "BULK_INSERT_PREPPED"
_NEW_GROUPS = WriteStat(file_id="", prev_commit=NO_COMMIT)

Stats = Mapping[str, tuple[WriteStat, ...]]
"""Write statistics by partition of the metadata table."""


def _own_avro() -> str:
    """Return the records' schema without meta fields, as commits state it."""
    schema: dict[str, Any] = json.loads(RECORD_AVRO)
    fields = [each for each in schema["fields"] if each["name"] not in META_FIELDS]
    return json.dumps({**schema, "fields": fields}, separators=(",", ":"))


_OWN_AVRO = _own_avro()


def begin_deltacommit(
    mdt: MetaClient, requested: str, profile: Mapping[str, Sequence[WriteStat]] | None = None
) -> Instant:
    """Request and start a deltacommit, under the table's lock.

    Args:
        mdt: the metadata table.
        requested: the instant.
        profile: the file groups that it may update, by partition; None for a deltacommit that makes partitions.

    Returns:
        The inflight instant.

    Raises:
        ConflictError: a process that was taken for dead has come back and begun it meanwhile; it can't complete it.
    """
    planned: bytes | CommitMetadata = b""
    if profile is not None:
        groups = {partition: (_NEW_GROUPS, *stats) for partition, stats in profile.items()}
        planned = CommitMetadata(groups, operation_type=_UPSERT)
    request = mdt.store.request(Action.DELTACOMMIT, at=requested, durable=profile is None)
    try:
        return mdt.store.start(request, planned)
    except TableExistsError as error:
        raise ConflictError(
            "another process, which was taken for dead, has come back to this instant and will notice: try again",
            table=mdt.storage.root,
            instant=requested,
        ) from error


def complete_update(mdt: MetaClient, instant: Instant, stats: Stats, listed: Timeline) -> Instant:
    """Complete the deltacommit of a commit of the table, under the table's lock.

    Args:
        mdt: the metadata table.
        instant: the inflight deltacommit.
        stats: what it wrote.
        listed: the metadata table's timeline, with the instant.
    """
    done = metadata_deltacommit(stats, _UPSERT)
    return mdt.store.complete(instant, done, listed=listed, also=())  # its inflight file has a plan


def complete_partitions(mdt: MetaClient, instant: Instant, stats: Stats, partitions: Collection[str]) -> Instant:
    """Complete a deltacommit that makes partitions, under the table's lock.

    Args:
        mdt: the metadata table.
        instant: the inflight deltacommit.
        stats: what it wrote.
        partitions: the partitions, which may have file groups without records: `stats` don't name these.
    """
    relied_on = [*partitions, mdt.store.path(instant, State.INFLIGHT)]
    return mdt.store.complete(instant, metadata_deltacommit(stats, _BULK_INSERT), also=relied_on)


def metadata_deltacommit(stats: Stats, operation: str) -> CommitMetadata:
    """Return the commit metadata of an instant of the metadata table."""
    return CommitMetadata(stats, extra_metadata={SCHEMA_KEY: _OWN_AVRO}, operation_type=operation)


_PAYLOAD = "org.apache.hudi.metadata.HoodieMetadataPayload"
_PAYLOAD_STRATEGY = "00000000-0000-0000-0000-000000000000"


def open_metadata(meta: MetaClient) -> MetaClient:
    """Open the metadata table of a table that has one.

    It shares the table's lock, since it changes only with the table, and its time zone, since its instants are
    the table's.

    Args:
        meta: the table.

    Raises:
        CorruptError: it is missing, or its properties can't be read or contradict the table's.
    """
    depends = _depends(meta.config)
    if meta.opened.client is not None and meta.opened.client[0] == depends:
        return meta.opened.client[1]
    storage = StorageBelow(meta.storage, METADATA_DIR)
    try:
        config = TableConfig.parse(read_properties(storage, meta.context), table=meta.storage.root)
    except CorruptError as error:
        raise CorruptError(
            f"the metadata table's properties are damaged: {error.message}; restore them from a copy, or write with "
            f"{MetadataOptions.enabled}=false, which drops the metadata table; the next "
            "write with true rebuilds it",
            table=meta.storage.root,
            path=f"{METADATA_DIR}/{PROPERTIES}",
            offset=error.offset,
        ) from error
    except TableNotFoundError as error:
        raise CorruptError(
            f"the properties name a metadata table that isn't there; write with {MetadataOptions.enabled}=false, which "
            "removes it from the properties; the next write with true rebuilds it",
            table=meta.storage.root,
            path=f"{METADATA_DIR}/{error.path or PROPERTIES}",
        ) from error
    if config.layout_version != meta.config.layout_version:
        raise CorruptError(
            f"the metadata table has a timeline of layout {config.layout_version}, the table one of "
            f"{meta.config.layout_version}; write with {MetadataOptions.enabled}=false, which drops the metadata "
            "table; the next write with true rebuilds it",
            table=meta.storage.root,
        )
    opened = _client(meta, storage, config)
    meta.opened.client = depends, opened
    return opened


def create_metadata(meta: MetaClient) -> MetaClient:
    """Create a metadata table without partitions. Its folder must be empty."""
    storage = StorageBelow(meta.storage, METADATA_DIR)
    config = TableConfig.parse(_properties(meta.config), table=storage.root)
    create_properties(storage, config.to_properties(), meta.context)
    opened = _client(meta, storage, config)
    meta.opened.client = _depends(meta.config), opened
    return opened


def _depends(config: TableConfig) -> tuple[object, ...]:
    """Return what determines a metadata table's properties: if it is unchanged, they needn't be read again."""
    return config.version, config.layout_version, config.timezone, FILES in config.metadata_partitions


def _client(meta: MetaClient, storage: StorageBelow, config: TableConfig) -> MetaClient:
    rules = meta.store.rules
    folder = rules.folder(config.timeline_path)
    history = rules.history(config.timeline_path, config.archive_path, config.history_path)
    zone, times = meta.config.timezone, InstantTimes(generator=meta.store.times.generator)  # under the table's lock
    store = TimelineStore(storage, folder, history, zone, meta.context, meta.lock, rules.layout, times=times)
    if meta.options[MetricsOptions.on]:
        store = metrics.metered(store, meta.options, config.name)
    return MetaClient(storage, TableProperties(config), meta.context, meta.lock, store, options=meta.options)


def _properties(config: TableConfig) -> dict[str, str]:
    """Return the properties that Hudi 1.2 gives a metadata table of the table's version."""
    properties = {
        TableConfig.table_name.key: f"{config.name}_metadata",
        TableConfig.table_type.key: "MERGE_ON_READ",
        TableConfig.version.key: str(config.version),
        TableConfig.layout_version.key: str(config.layout_version),
        TableConfig.timeline_path.key: TIMELINE_FOLDER,
        TableConfig.history_path.key: HISTORY_FOLDER,
        TableConfig.archive_path.key: rules_of(1 if config.layout_version == 1 else 2).default_history,
        TableConfig.base_file_format.key: "HFILE",
        TableConfig.record_key.key: "key",
        TableConfig.key_generator.key: "HOODIE_TABLE_METADATA",
        TableConfig.populate_meta_fields.key: "false",
        TableConfig.drop_partition_columns.key: "false",
        TableConfig.compaction_payload_class.key: _PAYLOAD,
        TableConfig.merge_strategy_id.key: _PAYLOAD_STRATEGY,
    }
    if config.version >= 8:
        properties[TableConfig.first_version.key] = str(config.version)
        properties[TableConfig.record_merge_mode.key] = MergeMode.CUSTOM.value
    return properties
