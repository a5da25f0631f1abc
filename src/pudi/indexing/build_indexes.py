"""Make the metadata table and the indexes that the user's options ask for, before a write."""

from __future__ import annotations

import logging

from pudi.client.meta_client import MetaClient
from pudi.config import Options
from pudi.errors import ConflictError
from pudi.format.metadata_partitions import FILES
from pudi.indexes import registry
from pudi.indexing.indexing import build_index
from pudi.indexing.rebuild import finish_rebuild
from pudi.metadata_write.build import build_metadata
from pudi.task import Engine
from pudi.timeline import Timeline

_log = logging.getLogger(__name__)


def build_wanted(meta: MetaClient, engine: Engine, options: Options, timeline: Timeline | None = None) -> None:
    """Make the metadata table and the indexes that the user asks for and the table lacks, one by one.

    Before, rebuild what another process deleted and didn't rebuild.

    Args:
        meta: the table.
        engine: runs the jobs.
        options: the writer's; only explicitly given ones count.
        timeline: the table's timeline at the start of the write; None loads it.

    Raises:
        InvalidArgumentError: both kinds of record index are asked for, or the table can't have an index.
        NotFoundError: a file of the table is missing.
        CorruptError: a file of the table can't be read.
    """
    finish_rebuild(meta, engine, options)
    build_metadata(meta, options, timeline)
    for asked in [spec for kind in registry.KINDS for spec in kind.wanted(meta, options)]:
        if FILES in meta.config.metadata_partitions and asked.partition not in meta.config.metadata_partitions:
            try:
                build_index(meta, engine, asked, options)
            except ConflictError as error:
                _log.warning(
                    "the write goes on without the index %s, which the next one makes: %s", asked.partition, error
                )
