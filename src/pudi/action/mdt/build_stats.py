"""Make the statistics of columns of a table that has a metadata table, from the files that are there.

Source: FORMAT 7.3; HoodieBackedTableMetadataWriter.initializeColumnStatsPartition and initializePartitionStatsIndex.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from pudi.action.mdt.build import make_partition, next_instant, set_partitions
from pudi.action.mdt.client import open_metadata
from pudi.action.mdt.index_defs import write_definition
from pudi.action.mdt.statistics import default_version
from pudi.action.meta_client import MetaClient
from pudi.config import Options
from pudi.filegroup import BaseFile, BaseFileReader, LogFile
from pudi.format.log_block import decode_blocks
from pudi.format.log_data import decode_data
from pudi.metadata import (
    COLUMN_STATS,
    FILES,
    PARTITION_STATS,
    STATS,
    StatsSpec,
    base_file_stats,
    column_stats_records,
    leaf_values,
    log_file_stats,
    partition_stats,
    partition_stats_records,
    stats_of_files,
    stats_spec,
)
from pudi.metadata.changes import encode_changes
from pudi.metadata.table import at_once
from pudi.schema import with_meta_fields
from pudi.timeline import Timeline

_log = logging.getLogger(__name__)

_WANTED = "hoodie.metadata.index.column.stats.enable"
_NAMED = "hoodie.metadata.index.column.stats.column.list"
_MOST = "hoodie.metadata.index.column.stats.max.columns.to.index"
_GROUPS = "hoodie.metadata.index.column.stats.file.group.count"
_FIRST_WITH_PARTITIONS = 8
"""The table version from which on there are statistics of partitions."""


def build_statistics(meta: MetaClient, options: Options) -> None:
    """Before a write: make the statistics that the user asks for, where there are none.

    Below version 8 not while a write is pending, as with the metadata table itself.

    Args:
        meta: the table, with a metadata table; without one nothing is done.
        options: the writer's; hoodie.metadata.index.column.stats.enable=true, given explicitly, asks for them.
    """
    ready = meta.config.metadata_partitions
    if options.given.get(_WANTED) is not True or FILES not in ready or COLUMN_STATS in ready:
        return
    with meta.lock:
        meta.reload()
        ready = meta.config.metadata_partitions
        if COLUMN_STATS in ready or FILES not in ready:
            return
        timeline = meta.store.load()
        if meta.store.layout == 1 and timeline.pending:
            _log.warning("no statistics were made: %s is pending on the table", timeline.pending[0].requested)
            return
        _make(meta, timeline, options, ready)


def _make(meta: MetaClient, timeline: Timeline, options: Options, ready: Sequence[str]) -> None:
    schema = with_meta_fields(meta.schema(timeline))
    named = tuple(name.strip() for name in (options.optional_text(_NAMED) or "").split(",") if name.strip())
    version = default_version(meta)
    spec = stats_spec(
        schema, version, populated=meta.config.populate_meta_fields, named=named, most=options.integer(_MOST)
    )
    by_partition = meta.config.version >= _FIRST_WITH_PARTITIONS and meta.config.is_partitioned
    made = (COLUMN_STATS, PARTITION_STATS) if by_partition else (COLUMN_STATS,)
    set_partitions(meta, ready=ready, building=made)
    stats, mdt = _stats(meta, timeline, spec, schema), open_metadata(meta)
    records = encode_changes(column_stats_records(stats, version))
    make_partition(mdt, next_instant(meta, timeline), COLUMN_STATS, options.integer(_GROUPS), records)
    write_definition(
        meta,
        COLUMN_STATS,
        {
            "indexName": COLUMN_STATS,
            "indexType": COLUMN_STATS,
            "indexFunction": COLUMN_STATS,
            "sourceFields": list(spec.columns),
            "indexOptions": {},
            "version": f"V{version}",
        },
    )
    if by_partition:
        whole = partition_stats(_of_newest(meta, timeline, stats), schema)
        told = encode_changes(partition_stats_records(whole, version))
        make_partition(mdt, next_instant(meta, timeline), PARTITION_STATS, 1, told)
    set_partitions(meta, ready=(*ready, *made), building=())


def _stats(meta: MetaClient, timeline: Timeline, spec: StatsSpec, schema: pa.Schema) -> pa.Table:
    """Rows of `STATS` of all data files, but for those of pending instants, which tell of them when they complete."""
    pending = {instant.requested for instant in timeline.pending}
    files: list[BaseFile | LogFile] = []
    for partition, infos in meta.listing(timeline).all_files().items():
        found = (LogFile.of(partition, info) or BaseFile.of(partition, info) for info in infos)
        files += [file for file in found if file is not None and file.instant not in pending]
    tables = at_once(lambda file: _of_file(meta, file, spec, schema), files)
    return stats_of_files((file.partition, file.name.name, stats) for file, stats in zip(files, tables, strict=True))


def _of_file(meta: MetaClient, file: BaseFile | LogFile, spec: StatsSpec, schema: pa.Schema) -> pa.Table:
    if isinstance(file, BaseFile):
        reader = BaseFileReader(meta.storage, file)
        return base_file_stats(
            reader.metadata, spec, lambda name: leaf_values(reader.read([name.split(".", maxsplit=1)[0]]), name)
        )
    blocks = decode_blocks(meta.storage.read(file.path), path=file.path)
    rows = [decode_data(block) for block in blocks if block.kind.is_data]
    whole = pa.concat_tables(rows, promote_options="permissive") if rows else schema.empty_table()
    return log_file_stats(whole, spec)


def _of_newest(meta: MetaClient, timeline: Timeline, stats: pa.Table) -> pa.Table:
    """Statistics of the files that readers merge, of columns that all files of a partition have statistics of."""
    slices = meta.view(timeline).all_slices()
    names: dict[str, set[str]] = {}
    for each in slices:
        base = [] if each.base is None else [each.base.name.name]
        names.setdefault(each.partition, set()).update([*base, *(log.name.name for log in each.logs)])
    live = pa.array([f"{p}/{name}" for p, found in names.items() for name in found], pa.string())
    paths = pc.binary_join_element_wise(stats["partition"], stats["file"], "/")
    rows = stats.filter(pc.is_in(paths, value_set=live))
    counts = rows.group_by(["partition", "column"]).aggregate([("file", "count_distinct")])
    whole = {
        (row["partition"], row["column"])
        for row in counts.to_pylist()
        if row["file_count_distinct"] == len(names[row["partition"]])
    }
    pairs = zip(rows["partition"].to_pylist(), rows["column"].to_pylist(), strict=True)
    return rows.filter(pa.array([pair in whole for pair in pairs], pa.bool_())).select(STATS.names)
