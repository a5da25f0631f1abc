"""Make the metadata table and the indexes that the user's options ask for, before a write."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from pudi.action.indexing import build_index
from pudi.action.mdt.build import build_metadata
from pudi.action.mdt.build_named import named_indexes_asked
from pudi.action.meta_client import MetaClient
from pudi.config import MetadataOptions, Option, Options
from pudi.errors import ConflictError, InvalidArgumentError
from pudi.format.metadata_partitions import FILES
from pudi.metadata.index_spec import IndexKind, IndexSpec, record_index_spec
from pudi.task import Engine
from pudi.timeline import Timeline

_log = logging.getLogger(__name__)

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
        if FILES in meta.config.metadata_partitions and asked.partition not in meta.config.metadata_partitions:
            try:
                build_index(meta, engine, asked, options)
            except ConflictError as error:
                _log.warning(
                    "the write goes on without the index %s, which the next one makes: %s", asked.partition, error
                )


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
