"""Indexes that are listed as ready although another writer rolled their entries back: commits add nothing to them."""

from __future__ import annotations

from collections.abc import Sequence

from pudi.client.meta_client import MetaClient
from pudi.filegroup import FileSlice
from pudi.metadata.groups import are_empty
from pudi.metadata.invalidated import invalidated_partitions
from pudi.timeline import Timeline


def is_invalidated(mdt: MetaClient, own: Timeline, partition: str, slices: Sequence[FileSlice]) -> bool:
    """Return whether an index lost all its entries: further ones would look complete to readers.

    Args:
        mdt: the metadata table.
        own: its timeline.
        partition: the index's partition.
        slices: its file groups.
    """
    return bool(slices) and are_empty(slices) and partition in invalidated_partitions(own, mdt.store)
