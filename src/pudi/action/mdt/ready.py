"""Make what options ask of the metadata table and isn't there yet, before a write begins."""

from __future__ import annotations

from pudi.action.mdt.build import build_metadata
from pudi.action.mdt.build_index import build_record_index
from pudi.action.mdt.build_stats import build_statistics
from pudi.action.meta_client import MetaClient
from pudi.config import Options
from pudi.task import Engine


def ready_metadata(meta: MetaClient, engine: Engine, options: Options) -> None:
    """Before a write, after the repair: make the metadata table and its partitions that the user asks for.

    Args:
        meta: the table.
        engine: who does the work where it's much.
        options: the writer's.

    Raises:
        CorruptError: there is a metadata table that hasn't been kept in step.
        InvalidArgumentError: options contradict each other.
    """
    build_metadata(meta, options)
    build_statistics(meta, options)
    build_record_index(meta, engine, options)
