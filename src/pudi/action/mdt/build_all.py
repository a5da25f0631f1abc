"""Make what the user asks for of the metadata table, before a write, under the table's lock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pudi.action.mdt.build import build_metadata, drop_if_disturbed, next_instant, set_partitions
from pudi.action.mdt.build_named import named_indexes_asked
from pudi.action.mdt.builders import builder_of
from pudi.action.mdt.building import Building, build_whole
from pudi.action.mdt.index_defs import write_definition
from pudi.action.mdt.inflight_builds import inflight_partitions
from pudi.action.meta_client import MetaClient
from pudi.concurrency import Heartbeat
from pudi.config import MetadataOptions, Option, Options, WriteOptions
from pudi.errors import InvalidArgumentError
from pudi.format import staging_dir
from pudi.metadata.index_spec import IndexKind, IndexSpec, record_index_spec
from pudi.metadata.records import FILES
from pudi.storage import delete_folder
from pudi.task import Engine
from pudi.timeline import Timeline

_SWITCHES: dict[Option[Any], IndexKind] = {
    MetadataOptions.column_stats: IndexKind.COLUMN_STATS,
    MetadataOptions.bloom_filters: IndexKind.BLOOM_FILTERS,
}
"""Options that ask for an index of one kind."""


def build_wanted(meta: MetaClient, engine: Engine, options: Options, timeline: Timeline | None = None) -> None:
    """Make the metadata table and the indexes that the user asks for, where there are none, one by one.

    Args:
        meta: the table.
        engine: who does the work.
        options: the writer's; those count that are given explicitly.
        timeline: the table's as the write begins with it; None loads it.

    Raises:
        InvalidArgumentError: both kinds of record index are asked for, or the table can't have an index.
        NotFoundError: a file of the table is gone.
        CorruptError: one can't be read.
    """
    build_metadata(meta, options, timeline)
    for asked in (*_asked(options, meta.storage.root), *named_indexes_asked(meta, options)):
        if _lacks(meta, asked.partition):
            with meta.lock:
                meta.reload()
                if _lacks(meta, asked.partition) and asked.partition not in inflight_partitions(meta):
                    _build(meta, engine, options, asked)


def _asked(options: Options, table: str) -> Iterator[IndexSpec]:
    """The indexes that options ask for."""
    by_partition, of_table = MetadataOptions.partitioned_record_index, MetadataOptions.record_index
    of_partitions, of_all = (options.explicit(option) is True for option in (by_partition, of_table))
    if of_partitions and of_all:
        raise InvalidArgumentError(f"{by_partition} and {of_table}: choose one of them", table=table)
    if of_partitions or of_all:
        yield record_index_spec(partitioned=of_partitions)
    for option, kind in _SWITCHES.items():
        if options.explicit(option) is True:
            yield IndexSpec(kind, kind.value)


def _lacks(meta: MetaClient, partition: str) -> bool:
    ready = meta.config.metadata_partitions
    return FILES in ready and partition not in ready


def _build(meta: MetaClient, engine: Engine, options: Options, asked: IndexSpec) -> None:
    """Build an index in one go."""
    timeline = meta.store.load()
    requested = next_instant(meta, timeline)
    work = Building(meta, engine, options, asked, timeline, requested)
    builder = builder_of(work)
    spec = builder.spec()
    builder = builder_of(Building(meta, engine, options, spec, timeline, requested))
    ready, others = meta.config.metadata_partitions, meta.config.metadata_partitions_inflight
    set_partitions(meta, ready=ready, building={*others, spec.partition})
    heart = Heartbeat(meta.storage, requested, meta.context, options[WriteOptions.heartbeat_interval_ms])
    heart.start()
    try:
        made = build_whole(builder)
    finally:
        heart.stop()
        delete_folder(meta.storage, staging_dir(requested))
    write_definition(meta, spec)
    set_partitions(meta, ready={*ready, *made}, building=set(others) - set(made))
    drop_if_disturbed(meta, timeline, made)
