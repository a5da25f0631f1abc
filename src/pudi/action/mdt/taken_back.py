"""Indexes that are said to be ready, and whose entries another writer took back: they aren't filled."""

from __future__ import annotations

from collections.abc import Sequence

from pudi.action.meta_client import MetaClient
from pudi.filegroup import FileSlice
from pudi.metadata.groups import hold_nothing
from pudi.metadata.taken_back import taken_back
from pudi.timeline import Timeline


def stays_empty(mdt: MetaClient, own: Timeline, partition: str, slices: Sequence[FileSlice]) -> bool:
    """Whether an index that lost all its entries gets no others, of which readers would think that they're all.

    Args:
        mdt: the metadata table.
        own: its timeline.
        partition: the index's partition.
        slices: its file groups.
    """
    return bool(slices) and hold_nothing(slices) and partition in taken_back(own, mdt.store)
