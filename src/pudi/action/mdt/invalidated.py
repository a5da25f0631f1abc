"""Indexes that are said to be ready, and whose entries another writer took back: they aren't filled."""

from __future__ import annotations

from collections.abc import Sequence

from pudi.action.meta_client import MetaClient
from pudi.filegroup import FileSlice
from pudi.metadata.groups import are_empty
from pudi.metadata.invalidated import invalidated_partitions
from pudi.timeline import Timeline


def is_invalidated(mdt: MetaClient, own: Timeline, partition: str, slices: Sequence[FileSlice]) -> bool:
    """Whether an index that lost all its entries gets no others, of which readers would think that they're all.

    Args:
        mdt: the metadata table.
        own: its timeline.
        partition: the index's partition.
        slices: its file groups.
    """
    return bool(slices) and are_empty(slices) and partition in invalidated_partitions(own, mdt.store)
