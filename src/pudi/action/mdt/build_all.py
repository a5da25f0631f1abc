"""Make what the user asks for of the metadata table, before a write."""

from __future__ import annotations

from pudi.action.mdt.build import build_metadata
from pudi.action.mdt.build_index import build_record_index
from pudi.action.mdt.build_named import build_named_indexes
from pudi.action.mdt.build_stats import build_statistics
from pudi.action.meta_client import MetaClient
from pudi.config import Options
from pudi.task import Engine


def build_wanted(meta: MetaClient, engine: Engine, options: Options) -> None:
    """Make the metadata table, the record index, statistics of columns and indexes with names that the user asks for.

    Args:
        meta: the table.
        engine: who does the work.
        options: the writer's.
    """
    build_metadata(meta, options)
    build_record_index(meta, engine, options)
    build_statistics(meta, engine, options)
    build_named_indexes(meta, engine, options)
