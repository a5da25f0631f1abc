"""Make the metadata table and the indexes that options ask for: before a write, and of a new table.

Source: HoodieMetadataConfig.getDefaultMetadataEnable and getDefaultColStatsEnable; HoodieBackedTableMetadataWriter
.initializeFromFilesystem of a table without commits.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from pudi.client import MetaClient, TableSnapshot
from pudi.config import MetadataOptions, Options
from pudi.errors import ConflictError, PudiError
from pudi.filegroup import StorageListing
from pudi.format import INDEX_DEFS, METADATA_DIR
from pudi.format.metadata_partitions import COLUMN_STATS, FILES, PARTITION_STATS
from pudi.indexes import registry
from pudi.indexing.indexing import build_index
from pudi.indexing.rebuild import finish_rebuild
from pudi.metadata.changes import files_changes
from pudi.metadata_write.build import (
    Building,
    NoEngine,
    build_metadata,
    make_empty,
    make_list,
    next_instant,
    set_partitions,
)
from pudi.metadata_write.client import create_metadata
from pudi.metadata_write.index_defs import DEFINITIONS_KEY, IndexSpec, put_definition
from pudi.storage import delete_folder
from pudi.task import Engine

_log = logging.getLogger(__name__)


def build_wanted(snapshot: TableSnapshot, engine: Engine) -> None:
    """Make the metadata table and the indexes that the user asks for and the table lacks, one by one.

    Before, rebuild what another process deleted and didn't rebuild.

    Args:
        snapshot: the table at the start of the write, with the writer's options; only explicitly given ones count.
        engine: runs the jobs.

    Raises:
        InvalidArgumentError: both kinds of record index are asked for, or the table can't have an index.
        NotFoundError: a file of the table is missing.
        CorruptError: a file of the table can't be read.
    """
    meta, options = snapshot.meta, snapshot.options
    finish_rebuild(meta, engine, options)
    build_metadata(snapshot)
    for asked in [spec for kind in registry.KINDS for spec in kind.wanted(meta, options)]:
        if FILES in meta.config.metadata_partitions and asked.partition not in meta.config.metadata_partitions:
            try:
                build_index(meta, engine, asked, options)
            except ConflictError as error:
                _log.warning(
                    "the write goes on without the index %s, which the next one makes: %s", asked.partition, error
                )


_BY_DEFAULT = {FILES, COLUMN_STATS, PARTITION_STATS}


def build_for_new(meta: MetaClient, options: Options) -> None:
    """Make the metadata table of a table that has just been made: `files`, statistics of columns and of partitions.

    The properties list all partitions in one step, once they are complete. A failure is logged and leaves a table
    without a metadata table, until a write asks for one.

    Args:
        meta: the table, without commits.
        options: the options of its creation. hoodie.metadata.enable=false means no metadata table,
            hoodie.metadata.index.column.stats.enable=false means that it only lists files.
    """
    if not options[MetadataOptions.enabled]:
        return
    try:
        with meta.lock:
            snapshot = TableSnapshot.load(meta, options)
            if not snapshot.timeline.instants:  # another process that writes already has other things to tell it
                _build(snapshot, (), _BY_DEFAULT)
    except PudiError as error:
        _log.warning(
            "the table was made without a metadata table; a write with %s=true makes it: %s",
            MetadataOptions.enabled,
            error,
        )


def list_added(meta: MetaClient, options: Options) -> None:
    """List partitions without records in the metadata table of a table without commits: make it anew.

    Hudi makes it at the first commit, and lists the partitions that it finds then. A failure leaves a table without
    a metadata table.

    Args:
        meta: the table.
        options: the writer's.
    """
    with meta.lock:
        meta.reload()
        snapshot, ready = TableSnapshot.load(meta, options), set(meta.config.metadata_partitions)
        if FILES not in ready or snapshot.timeline.instants or not ready <= _BY_DEFAULT:
            return
        set_partitions(meta, ready=(), building=())
        _build(snapshot, StorageListing(meta.storage).partitions(), ready)


def _build(snapshot: TableSnapshot, partitions: Collection[str], wanted: Collection[str]) -> None:
    meta = snapshot.meta
    delete_folder(meta.storage, METADATA_DIR)
    mdt = create_metadata(meta)
    make_list(mdt, next_instant(snapshot), files_changes({key: {} for key in partitions}, partitions=partitions))
    ready, more = {FILES}, {}
    for kind in registry.KINDS:
        if kind.type.name not in wanted or not kind.is_default(snapshot.options):
            continue
        asked = IndexSpec(kind.type, kind.type.name)
        work = Building(snapshot, NoEngine(), asked, next_instant(snapshot))
        builder = registry.open_builder(work)
        spec = builder.work.spec
        if kind.needs_columns and not spec.columns:
            continue
        ready |= {*make_empty(builder)}
        put_definition(meta, spec)
        more = {DEFINITIONS_KEY: INDEX_DEFS}
    set_partitions(meta, ready=ready, building=(), more=more)
