"""Bring a table to rest and move it to another version: its timeline's layout, its properties, its indexes."""

from __future__ import annotations

from collections.abc import Callable
from posixpath import basename
from typing import TypeVar

from pudi.client import MetaClient, TableSnapshot
from pudi.client.properties import update_properties
from pudi.commit.dead_writers import repair_dead_writes
from pudi.config import (
    ArchiveOptions,
    CompactionOptions,
    Options,
    TableConfig,
)
from pudi.config.table_options import MERGE_ON_READ, layout_of_version
from pudi.errors import BlockedError, ConflictError, PudiError
from pudi.filegroup import StorageListing
from pudi.format import LogFileName, parse_data_file
from pudi.format.metadata_partitions import FILES, with_companions
from pudi.indexing.rebuild import finish_rebuild
from pudi.metadata_write.build import drop_partitions
from pudi.metadata_write.client import open_metadata
from pudi.metadata_write.index_defs import delete_definition, read_definitions, set_first_version
from pudi.services.clean import Clean
from pudi.services.compaction import Compaction
from pudi.services.runner import run, run_pending
from pudi.services.target import ServiceTarget, clean_to
from pudi.task import Engine
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

_T = TypeVar("_T")

_ATTEMPTS = 3
"""Number of times that the table is brought to rest before the caller gives way to other writers."""


def at_rest(
    meta: MetaClient, engine: Engine, options: Options, *, logs: bool, act: Callable[[TableSnapshot], _T]
) -> _T:
    """Complete what is pending, compact and clean; then, while no process writes, do something under the table's lock.

    Args:
        meta: the table.
        engine: runs the jobs.
        options: the caller's options.
        logs: whether older file slices may keep their log files.
        act: what to do.

    Returns:
        The result of `act`.

    Raises:
        ConflictError: other writers don't let the table come to rest.
    """
    given = {CompactionOptions.strategy.key: "UnBoundedCompactionStrategy"} | ({} if logs else clean_to(1))
    target = ServiceTarget.of_table(meta, engine, options.having(given))
    busy: ConflictError | None = None
    for _ in range(_ATTEMPTS):
        repair_dead_writes(meta, options)
        finish_rebuild(meta, engine, options)  # definitions may go with the old layout
        run_pending(target)
        if meta.merges_on_read:
            run(Compaction(), target)
        if not logs:
            run(Clean(), target)
        with meta.lock:
            meta.reload()
            snapshot = TableSnapshot.load(meta, options)
            busy = _busy(snapshot, logs=logs)
            if busy is None:
                return act(snapshot)
    assert busy is not None
    raise busy


def _busy(snapshot: TableSnapshot, *, logs: bool) -> ConflictError | None:
    """Return why a table can't be moved now; None if it can.

    Args:
        snapshot: the table, loaded under its lock.
        logs: whether older file slices may have log files.
    """
    meta, root = snapshot.meta, snapshot.table
    for each in snapshot.timeline.pending:
        return BlockedError(
            f"a {each.action.value} is pending: wait until it's over, or stop its process",
            table=root,
            instant=each.requested,
        )
    if not meta.merges_on_read:
        return None
    if any(each.logs for each in snapshot.view(sizes=False).all_slices()):
        return BlockedError("other writers add log files faster than they are compacted: stop them", table=root)
    if logs:
        return None
    for infos in StorageListing(meta.storage).all_files().values():
        for info in infos:
            if isinstance(parse_data_file(basename(info.path)), LogFileName):
                return BlockedError(
                    "a log file of an older file slice is left, which version 6 can't read: see what keeps it from "
                    "being cleaned (`pudi doctor`)",
                    table=root,
                    path=info.path,
                )
    return None


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
