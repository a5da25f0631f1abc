"""Move a table that is at rest to another version: its timeline's layout, its properties, its indexes."""

from __future__ import annotations

from pudi.client.meta_client import MetaClient
from pudi.client.properties import update_properties
from pudi.client.snapshot import TableSnapshot
from pudi.config import (
    ArchiveOptions,
    TableConfig,
)
from pudi.config.table_options import MERGE_ON_READ, layout_of_version
from pudi.errors import PudiError
from pudi.format.metadata_partitions import FILES, with_companions
from pudi.metadata_write.build import drop_partitions
from pudi.metadata_write.client import open_metadata
from pudi.metadata_write.index_defs import delete_definition, read_definitions, set_first_version
from pudi.timeline.layout_change import convert, discard, mark, unmark
from pudi.upgrade.upgrade_intent import (
    UpgradeIntent,
    as_in_version,
    current_indexes,
    delete_intent,
    read_intent,
    with_noted,
    write_intent,
)
from pudi.upgrade.version_properties import with_version


def columns_of(snapshot: TableSnapshot) -> list[str]:
    """Return the names of a table's columns; none of a table without commits and without a stated schema."""
    return snapshot.schema.columns.names if snapshot.timeline.commits or snapshot.config.create_schema else []


def changes_layout(config: TableConfig, version: int) -> bool:
    """Return whether a version has another layout of the timeline than the table."""
    return layout_of_version(version) != config.layout_version


def drops_logs(config: TableConfig, version: int) -> bool:
    """Return whether a table must lose all log files, since an older version can't read them."""
    return changes_layout(config, version) and version < config.version and config.table_type == MERGE_ON_READ


def intent_of(meta: MetaClient, version: int) -> UpgradeIntent:
    """Return the indexes to rebuild: all, or those of an index version that the table can't have."""
    config, specs = meta.config, current_indexes(meta)
    if changes_layout(config, version):
        has_metadata = FILES in config.metadata_partitions
        return UpgradeIntent(config.version, version, has_metadata, as_in_version(specs, version))
    newer = [spec for spec in specs if spec.version > spec.type.version(version)]
    return UpgradeIntent(config.version, version, False, as_in_version(newer, version))


def move(snapshot: TableSnapshot, version: int) -> tuple[MetaClient, UpgradeIntent]:
    """Move a table to a version, under the table's lock; indexes that differ are gone afterwards.

    Args:
        snapshot: the table, at rest.
        version: the version.

    Returns:
        The table as it is then, and what is left to do.

    Raises:
        CorruptError: the timeline can't be read; the table stays as it was.
    """
    meta, root, old = snapshot.meta, snapshot.table, snapshot.config
    crosses = changes_layout(old, version)
    intent = with_noted(intent_of(meta, version), read_intent(meta))
    columns = columns_of(snapshot)
    write_intent(meta, intent)
    if crosses:
        _convert(snapshot, with_version(old, version, columns, root), intent)
        if {*old.metadata_partitions, *old.metadata_partitions_inflight}:
            drop_partitions(meta, {FILES})
        for partition in read_definitions(meta):
            delete_definition(meta, partition)
    else:
        gone = with_companions({spec.partition for spec in intent.indexes}) & set(old.metadata_partitions)
        if gone:
            drop_partitions(meta, gone)
        if FILES in meta.config.metadata_partitions:
            set_first_version(meta)
            _set_metadata_version(meta, version)

    def change(properties: dict[str, str]) -> dict[str, str]:
        return with_version(TableConfig.parse(properties, table=root), version, columns, root).to_properties()

    moved = meta.with_config(
        TableConfig.parse(update_properties(meta.storage, meta.context, meta.lock, change), table=root)
    )
    return moved, intent


def _convert(snapshot: TableSnapshot, new: TableConfig, intent: UpgradeIntent) -> None:
    """Write the timeline in the other layout beside the old one, before anything of the table is touched.

    If it can't be read, the table stays as it was, and writers go on.
    """
    meta = snapshot.meta
    target = meta.with_config(new).store
    mark(meta.store)
    try:
        convert(meta.store, target, ArchiveOptions.of(snapshot.options))
    except PudiError:
        discard(target)
        unmark(meta.store)
        if not intent.has_metadata or FILES in meta.config.metadata_partitions:  # else it states what to rebuild
            delete_intent(meta)
        raise


def _set_metadata_version(meta: MetaClient, version: int) -> None:
    """Give the metadata table the version of its table."""
    mdt = open_metadata(meta)
    key = TableConfig.version.key
    update_properties(mdt.storage, meta.context, meta.lock, lambda old: {**old, key: str(version)})
    meta.opened.client = None
