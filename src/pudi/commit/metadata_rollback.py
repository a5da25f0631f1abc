"""The effect of a rollback on the metadata table: a rollback of its own, or a rebuild where that is not enough.

Source: HoodieBackedTableMetadataWriter.update(HoodieRollbackMetadata), which rolls back the deltacommit of the same
instant, and update(HoodieRestoreMetadata), which restores the metadata table, compactions included.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from pudi.client.meta_client import MetaClient
from pudi.client.snapshot import TableSnapshot
from pudi.errors import CorruptError, PudiError
from pudi.filegroup import Markers
from pudi.format import Action
from pudi.format.metadata_partitions import BLOOM_FILTERS, COLUMN_STATS, FILES
from pudi.metadata_write.client import open_metadata
from pudi.storage import delete_for_good
from pudi.timeline import Instant, Timeline

_OF_FILES = frozenset({FILES, COLUMN_STATS, BLOOM_FILTERS})
"""Partitions with one entry for each file, which no other file changes."""
_DELETING = frozenset({Action.CLEAN, Action.ROLLBACK})
"""Actions of the table whose deltacommits say only which files are gone."""


@dataclass(frozen=True, slots=True)
class MetadataRollbackPlan:
    """Plan by which the metadata table follows a rollback of the table.

    Attributes:
        compactions: its compactions that contain what goes, newest first, with the files that they wrote.
    """

    compactions: tuple[tuple[Instant, tuple[str, ...]], ...] = ()


def plan_metadata_rollback(snapshot: TableSnapshot, going: Collection[str]) -> MetadataRollbackPlan | None:
    """Return how to follow by rolling back deltacommits; None if that doesn't leave what a rebuild would make.

    It does if what followed them in the metadata table doesn't contain their entries. Index builds and log compactions
    do. Compactions do too, but the file slices that they merged may still be there. Under the table's lock.

    Args:
        snapshot: the table now.
        going: requested times of the commits that are rolled back: all that completed since the first of them. Those
            that are off the timeline must be off that of the metadata table too.
    """
    config = snapshot.config
    if FILES not in config.metadata_partitions or config.metadata_partitions_inflight:
        return None
    if config.metadata_partitions_to_rebuild:
        return None
    try:
        if _changes_schema(snapshot, going):
            return None
        opened = snapshot.metadata_table()
        return None if opened.invalidated else _plan(snapshot, opened.timeline, going)
    except PudiError:  # a rebuild repairs it
        return None


def take_compactions_back(meta: MetaClient, plan: MetadataRollbackPlan) -> None:
    """Take compactions back, before the deltacommits that they contain are rolled back.

    Readers find the same entries in the file slices before. A crash leaves a compaction that is pending, or files that
    no instant completed.

    Args:
        meta: the table.
        plan: the plan.
    """
    mdt = open_metadata(meta)
    for instant, files in plan.compactions:
        delete_for_good(mdt.storage, [mdt.store.path(instant)])
        delete_for_good(mdt.storage, files)
        mdt.store.discard(replace(instant, action=Action.COMPACTION))


def _changes_schema(snapshot: TableSnapshot, going: Collection[str]) -> bool:
    """Return whether the table gets another schema: the indexes' definitions may name columns that go."""
    instants = tuple(each for each in snapshot.timeline.instants if each.requested not in going)
    left = snapshot.at(replace(snapshot.timeline, instants=instants))
    if not left.timeline.commits:
        return True
    return (left.schema.avro, left.schema_by_id) != (snapshot.schema.avro, snapshot.schema_by_id)


def _plan(snapshot: TableSnapshot, own: Timeline, going: Collection[str]) -> MetadataRollbackPlan | None:
    """Return how to follow, unless an instant of the metadata table contains entries of others that go."""
    gone = [each for each in own.commits if each.requested in going]
    there = {each.requested for each in snapshot.timeline.commits} & set(going)
    if own.pending or there != {each.requested for each in gone}:
        return None
    if any(each.action is not Action.DELTACOMMIT for each in gone):
        return None
    since = min(map(own.done, gone), default="")
    later = [each for each in own.instants if own.done(each) > since and each.requested not in going]
    compactions = [each for each in later if each.action is Action.COMMIT]
    others = [each for each in later if each.action is Action.DELTACOMMIT]
    if len(compactions) + len(others) < sum(each.is_write for each in later):
        return None
    if not all(_states_deletions(snapshot, each) for each in others):
        return None
    return _without(snapshot.meta, own, compactions)


def _without(meta: MetaClient, own: Timeline, compactions: Sequence[Instant]) -> MetadataRollbackPlan | None:
    """Return how to take compactions back, unless the file slices before them are incomplete to a reader.

    A clean may have deleted them. And Hudi counts a log block only while its deltacommit is on the active timeline
    (HoodieTableMetadataUtil.getValidInstantTimestamps), but once a compaction has merged them, they are archived.
    """
    if not compactions:
        return MetadataRollbackPlan()
    first = min(map(own.done, compactions))
    cleaned = any(own.done(each) > first for each in own.of(Action.CLEAN))
    if cleaned or meta.store.rules.logs_name_their_slice:  # there, later log files have the compaction in their names
        return None
    mdt = open_metadata(meta)
    archived = mdt.store.archived()
    kept = (each for each in (*archived, *own.of(Action.COMMIT)) if each.action is Action.COMMIT)
    merged = max((each.requested for each in kept if each not in compactions), default="")
    if any(each.action is Action.DELTACOMMIT and own.done(each) > merged for each in archived):
        return None
    newest_first = sorted(compactions, key=own.done, reverse=True)
    return MetadataRollbackPlan(tuple((each, _written_by(mdt, each)) for each in newest_first))


def _written_by(mdt: MetaClient, compaction: Instant) -> tuple[str, ...]:
    """Return the files that a compaction wrote.

    Raises:
        CorruptError: it says nothing, or names files of others.
    """
    markers = Markers(mdt.storage, compaction.requested)
    written = mdt.store.read_commit_metadata(compaction).partition_to_write_stats
    paths = tuple(markers.owned(stat.path or "") for stats in written.values() for stat in stats)
    if not paths:
        raise CorruptError("the compaction says of no file", table=mdt.storage.root, instant=compaction.requested)
    return paths


def _states_deletions(snapshot: TableSnapshot, instant: Instant) -> bool:
    """Return whether a deltacommit of the metadata table only says which files the table deleted."""
    origin = {
        each.action for each in snapshot.timeline.instants if each.requested == instant.requested and each.is_completed
    }
    if not origin or origin - _DELETING:
        return False
    written: Iterable[str] = open_metadata(snapshot.meta).store.read_commit_metadata(instant).partition_to_write_stats
    return _OF_FILES.issuperset(written)
