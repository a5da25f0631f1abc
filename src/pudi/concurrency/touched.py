"""File groups that commits touch, and those that pending table services are going to rewrite."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

from pudi.errors import BlockedError, CorruptError, NotFoundError
from pudi.filegroup import compaction_plan
from pudi.format import Action, CommitMetadata, FileGroupId, State, bucket_of_file_id, decode_requested_replace_metadata
from pudi.format.instants import ROLLED_BACK
from pudi.timeline import Instant, Timeline, TimelineStore

COMPACT = "COMPACT"
"""The operation of a compaction, which keeps the records of file groups unchanged."""
CLUSTER = "CLUSTER"
"""The operation of a clustering, which puts the same records into other file groups."""

Reads: TypeAlias = Callable[[Collection[str]], Collection[str]]
"""Selects of given partitions those that a write read, or would have read if they existed."""


class KeyScope(Enum):
    """Within what a record key lives in one file group."""

    BUCKET = auto()
    """The partition, in which the key's hash determines the file group."""
    RING = auto()
    """Likewise, by consistent hashing: a write that replaces a partition's file groups gives new ones to its hashes."""
    PARTITION = auto()
    TABLE = auto()


@dataclass(frozen=True, slots=True)
class Touched:
    """Changes of a write to a table, as far as they are known.

    Attributes:
        groups: file groups that it writes or replaces.
        inserts: partitions that get new keys.
        scope: where a key lives in one file group; None where that isn't promised.
        reads: which partitions it reads; None for none.
    """

    groups: frozenset[FileGroupId]
    inserts: frozenset[str]
    scope: KeyScope | None
    reads: Reads | None = None

    @classmethod
    def of(cls, written: CommitMetadata, scope: KeyScope | None, reads: Reads | None) -> Touched:
        """Return the changes that a commit made."""
        groups = frozenset(written.touched_groups)
        return cls(groups, frozenset(insert_partitions(written)), scope, reads)

    @property
    def partitions(self) -> set[str]:
        """Partitions that it writes to."""
        return {partition for partition, _ in self.groups} | self.inserts


def insert_partitions(metadata: CommitMetadata) -> set[str]:
    """Partitions that got new keys by a commit; a clustering only moves records."""
    if metadata.operation_type == CLUSTER:
        return set()
    return {p for p, stats in metadata.partition_to_write_stats.items() if any(s.num_inserts for s in stats)}


def owned(groups: Collection[FileGroupId], scope: KeyScope | None) -> set[tuple[str, str]]:
    """Return what no concurrent commit may write: file groups, or the buckets of a bucket table, by partition."""
    if scope is not KeyScope.BUCKET:
        return set(groups)
    return {(p, file_id if (b := bucket_of_file_id(file_id)) is None else f"{b:08}") for p, file_id in groups}


def compacted_groups(store: TimelineStore, instant: Instant) -> set[FileGroupId]:
    """The file groups of a pending compaction or log compaction; raises as `compaction_plan`."""
    return {operation.group for operation in compaction_plan(store, instant).operations}


def clustered_groups(store: TimelineStore, instant: Instant) -> set[FileGroupId]:
    """The file groups of a pending clustering.

    Raises:
        CorruptError: its plan can't be read.
    """
    path = store.path(instant, State.REQUESTED)
    plan = decode_requested_replace_metadata(store.read(instant, State.REQUESTED), path=path).clustering_plan
    try:
        return {
            FileGroupId(s["partitionPath"] or "", s["fileId"])
            for group in (plan or {}).get("inputGroups") or ()
            for s in group["slices"] or ()
        }
    except (KeyError, TypeError) as error:
        raise CorruptError("the plan of a clustering names no slices", path=path, instant=instant.requested) from error


def contradicted_clusterings(
    store: TimelineStore, timeline: Timeline, groups: Collection[FileGroupId]
) -> Iterator[tuple[Instant, FileGroupId]]:
    """Yield the pending clusterings whose plans name some of these file groups, each with one of them.

    A plan that another process has dropped since the timeline was loaded contradicts nothing.

    Raises:
        BlockedError: a plan can't be read.
        NotFoundError: the file of a plan is missing.
    """
    for instant in timeline.of(Action.CLUSTERING, State.REQUESTED, State.INFLIGHT):
        try:
            both = clustered_groups(store, instant).intersection(groups)
        except NotFoundError:
            if all(each.requested != instant.requested for each in store.load().pending):
                continue
            raise
        except CorruptError as error:
            what = (
                f"clustering {instant.requested} is pending and its plan can't be read; nothing was written: "
                f"{ROLLED_BACK}"
            )
            raise BlockedError(what, table=store.storage.root, instant=instant.requested) from error
        if both:
            yield instant, min(both)


def refuse_contradicted(store: TimelineStore, clustering: Instant, group: FileGroupId, own: str | None) -> BlockedError:
    """Return the error for a write to a file group of a pending clustering.

    Args:
        store: the table's timeline.
        clustering: the pending clustering.
        group: the file group.
        own: requested time of the write; None before it has one.
    """
    partition, file_id = group
    return BlockedError(
        f"clustering {clustering.requested} is pending on file group {file_id} of partition {partition!r}, and a write "
        "to it would be lost: run the plan (run_pending, or Apache Hudi), or roll it back (rollback), then write "
        "again. Nothing of this write is visible",
        table=store.storage.root,
        instant=own or clustering.requested,
    )


def closed_groups(store: TimelineStore, timeline: Timeline) -> frozenset[FileGroupId]:
    """File groups of pending clusterings, as far as their plans are there and can be read: no inserts go to them."""
    found: set[FileGroupId] = set()
    for instant in timeline.of(Action.CLUSTERING, State.REQUESTED, State.INFLIGHT):
        with suppress(NotFoundError, CorruptError):  # rolled back meanwhile; or the conflict check reports it
            found |= clustered_groups(store, instant)
    return frozenset(found)


def busy_groups(store: TimelineStore, timeline: Timeline, *, log_compactions: bool) -> set[FileGroupId]:
    """File groups that a plan must leave out: those of pending compactions and clusterings.

    Args:
        store: the table's timeline.
        timeline: its instants.
        log_compactions: whether those of pending log compactions are left out too.

    Raises:
        CorruptError: a plan can't be read.
    """
    actions = [Action.COMPACTION, *([Action.LOGCOMPACTION] if log_compactions else [])]
    groups: set[FileGroupId] = set()
    for action in actions:
        for instant in timeline.of(action, State.REQUESTED, State.INFLIGHT):
            groups |= compacted_groups(store, instant)
    for instant in timeline.of(Action.CLUSTERING, State.REQUESTED, State.INFLIGHT):
        groups |= clustered_groups(store, instant)
    return groups
