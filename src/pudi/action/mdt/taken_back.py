"""An index that is said to be ready, and whose entries another writer took back.

Hudi's CREATE INDEX, right behind the building of another index, rolls that back and leaves it named as ready.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pudi.action.mdt.client import open_metadata
from pudi.action.meta_client import MetaClient
from pudi.filegroup import FileSlice
from pudi.format import Action
from pudi.metadata.groups import hold_nothing
from pudi.timeline import Timeline

_log = logging.getLogger(__name__)


def is_taken_back(meta: MetaClient, timeline: Timeline, partition: str, slices: Sequence[FileSlice]) -> bool:
    """Whether an index has no entries since they were rolled back, though the table has files.

    It's not to be asked then, and nothing to be added: of an index with a few entries readers would think that it has
    all. It stays as it is until it's made anew.

    Args:
        meta: the table.
        timeline: the table's.
        partition: the index's partition of the metadata table.
        slices: its file groups.
    """
    if not slices or not hold_nothing(slices) or partition not in meta.config.metadata_partitions:
        return False
    if not open_metadata(meta).store.load().of(Action.ROLLBACK):
        return False  # one that had nothing to index when it was made
    if not meta.view(timeline).all_slices():
        return False
    _log.warning(
        "table %s: the entries of its index %s were taken back, so that it isn't used; `pudi repair` makes it anew",
        meta.storage.root,
        partition,
    )
    return True
