"""The metadata table that a new table gets by default: the partitions that Hudi's Spark writers make.

Source: HoodieMetadataConfig.getDefaultMetadataEnable and getDefaultColStatsEnable; HoodieBackedTableMetadataWriter
.initializeFromFilesystem of a table without commits.
"""

from __future__ import annotations

import logging

from pudi.action.kinds import registry
from pudi.action.kinds.building import Building, NoEngine, make_empty
from pudi.action.mdt.build import make_list, next_instant, set_partitions
from pudi.action.mdt.client import create_metadata
from pudi.action.mdt.index_defs import DEFINITIONS_KEY, put_definition
from pudi.action.meta_client import MetaClient
from pudi.config import MetadataOptions, Options, metadata_by_default
from pudi.errors import PudiError
from pudi.format import INDEX_DEFS, METADATA_DIR
from pudi.format.metadata_partitions import FILES
from pudi.metadata.changes import files_changes
from pudi.metadata.index_spec import IndexSpec
from pudi.storage import delete_folder
from pudi.timeline import Timeline

_log = logging.getLogger(__name__)


def build_for_new(meta: MetaClient, options: Options) -> None:
    """Make the metadata table of a table that has just been made: `files`, statistics of columns and of partitions.

    The properties list all partitions in one step, once they are complete. A failure is logged and leaves a table
    without a metadata table, until a write asks for one.

    Args:
        meta: the table, without commits.
        options: the options of its creation. hoodie.metadata.enable=false means no metadata table,
            hoodie.metadata.index.column.stats.enable=false means that it only lists files.
    """
    if not metadata_by_default(options):
        return
    try:
        with meta.lock:
            timeline = meta.store.load()
            if not timeline.instants:  # another process that writes already has other things to tell it
                _build(meta, options, timeline)
    except PudiError as error:
        _log.warning(
            "the table was made without a metadata table; a write with %s=true makes it: %s",
            MetadataOptions.enabled,
            error,
        )


def _build(meta: MetaClient, options: Options, timeline: Timeline) -> None:
    delete_folder(meta.storage, METADATA_DIR)
    mdt = create_metadata(meta)
    make_list(mdt, next_instant(meta, timeline), files_changes({}))
    ready, more = {FILES}, {}
    for kind in registry.KINDS:
        if not kind.is_default(options):
            continue
        asked = IndexSpec(kind.type, kind.type.name)
        work = Building(meta, NoEngine(), options, asked, timeline, next_instant(meta, timeline))
        builder = registry.open_builder(work)
        spec = builder.work.spec
        if kind.needs_columns and not spec.columns:
            continue
        ready |= {*make_empty(builder)}
        put_definition(meta, spec)
        more = {DEFINITIONS_KEY: INDEX_DEFS}
    set_partitions(meta, ready=ready, building=(), more=more)
