"""Make the statistics of columns of a table that has a metadata table, by the engine's tasks.

Source: FORMAT 7.2 and 7.3; HoodieBackedTableMetadataWriter.initializeColumnStatsPartition and
initializePartitionStatsIndex.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pyarrow as pa

from pudi.action.mdt.build import make_partition, next_instant, set_partitions
from pudi.action.mdt.client import open_metadata
from pudi.action.mdt.index_defs import column_stats_definition, write_definition
from pudi.action.mdt.statistics import default_version, of_whole_partitions
from pudi.action.meta_client import MetaClient
from pudi.concurrency import Heartbeat
from pudi.config import Options
from pudi.filegroup import BaseFile, LogFile, StorageListing
from pudi.format import Action, parse_data_file, staging_dir
from pudi.metadata import (
    COLUMN_STATS,
    FILES,
    PARTITION_STATS,
    StatsSpec,
    column_stats_records,
    partition_stats_records,
    stats_of_files,
    stats_spec,
)
from pudi.metadata.changes import encode_changes
from pudi.schema import avro_to_arrow, with_meta_fields
from pudi.storage import delete_folder
from pudi.task import Engine
from pudi.task.index_stats import StatsTask
from pudi.timeline import Timeline

_WANTED = "hoodie.metadata.index.column.stats.enable"
_COLUMNS = "hoodie.metadata.index.column.stats.column.list"
_MOST_COLUMNS = "hoodie.metadata.index.column.stats.max.columns.to.index"
_GROUPS = "hoodie.metadata.index.column.stats.file.group.count"
_PARTITION_GROUPS = "hoodie.metadata.index.partition.stats.file.group.count"
_TASKS = 64
"""Most tasks that look at files."""
_FIRST_WITH_PARTITIONS = 8
"""The table version from which on there are statistics of partitions, where the table has some."""

_log = logging.getLogger(__name__)


def build_statistics(meta: MetaClient, engine: Engine, options: Options) -> None:
    """Before a write: make the statistics that the user asks for, where there are none.

    Below version 8 not while a write is pending, whose log files can't be told from others.

    Args:
        meta: the table, with a metadata table; without one nothing is done.
        engine: who does the work.
        options: the writer's; hoodie.metadata.index.column.stats.enable=true, given explicitly, asks for them.

    Raises:
        NotFoundError: a file of the table is gone.
        CorruptError: one can't be read.
    """
    if options.given.get(_WANTED) is not True or not _lacks(meta):
        return
    with meta.lock:
        meta.reload()
        if not _lacks(meta):
            return
        timeline = meta.store.load()
        if meta.store.layout == 1 and timeline.pending:
            _log.warning(
                "no statistics of columns were made: %s is pending on the table", timeline.pending[0].requested
            )
            return
        ready = meta.config.metadata_partitions
        parted = meta.config.is_partitioned and meta.config.version >= _FIRST_WITH_PARTITIONS
        made = [COLUMN_STATS, *([PARTITION_STATS] if parted else [])]
        set_partitions(meta, ready=ready, building=made)
        schema = with_meta_fields(avro_to_arrow(meta.schema_json(timeline)))
        spec = _spec(meta, schema, options)
        stats = _of_files(meta, engine, options, timeline, spec)
        mdt = open_metadata(meta)
        groups = options.integer(_GROUPS)
        changes = encode_changes(column_stats_records(stats, spec.version))
        make_partition(mdt, next_instant(meta, timeline), COLUMN_STATS, groups, changes)
        if PARTITION_STATS in made:
            whole = of_whole_partitions(stats, meta.view(timeline).all_slices(), schema)
            changes = encode_changes(partition_stats_records(whole, spec.version))
            groups = options.integer(_PARTITION_GROUPS)
            make_partition(mdt, next_instant(meta, timeline), PARTITION_STATS, groups, changes)
        write_definition(meta, COLUMN_STATS, column_stats_definition(spec.columns, spec.version))
        set_partitions(meta, ready=(*ready, *made), building=())


def _lacks(meta: MetaClient) -> bool:
    ready = meta.config.metadata_partitions
    return FILES in ready and COLUMN_STATS not in ready


def _spec(meta: MetaClient, schema: pa.Schema, options: Options) -> StatsSpec:
    named = tuple(name.strip() for name in (options.optional_text(_COLUMNS) or "").split(",") if name.strip())
    return stats_spec(
        schema,
        default_version(meta),
        populated=meta.config.populate_meta_fields,
        named=named,
        most=options.integer(_MOST_COLUMNS),
    )


def _of_files(meta: MetaClient, engine: Engine, options: Options, timeline: Timeline, spec: StatsSpec) -> pa.Table:
    """Statistics of the data files that are there, but for those of pending instants, which bring them along."""
    files = _present(meta, timeline)
    if not files:
        return stats_of_files([])
    requested = next_instant(meta, timeline)
    count = min(_TASKS, len(files))
    jobs = [StatsTask(number, spec, tuple(files[number::count])) for number in range(count)]
    heart = Heartbeat(meta.storage, requested, meta.context, options.integer("hoodie.client.heartbeat.interval_in_ms"))
    heart.start()
    try:
        results = engine.run_jobs(meta.storage, requested, jobs)
    finally:
        heart.stop()
        delete_folder(meta.storage, staging_dir(requested))
    return stats_of_files(
        (stat.partition_path or "", (stat.path or "").rpartition("/")[2], stat.column_stats)
        for result in results
        for stat in result.stats
        if stat.column_stats is not None
    )


def _present(meta: MetaClient, timeline: Timeline) -> Sequence[BaseFile | LogFile]:
    pending = {instant.requested for instant in timeline.pending if instant.action is not Action.INDEXING}
    found: list[BaseFile | LogFile] = []
    for partition, infos in StorageListing(meta.storage).all_files().items():
        for info in infos:
            parsed = parse_data_file(info.path.rpartition("/")[2])
            if parsed is None or parsed.instant in pending:
                continue
            file = (LogFile.of(partition, info) if meta.merges_on_read else None) or BaseFile.of(partition, info)
            if file is not None:
                found.append(file)
    return found
