"""Pending plans of table services: read them, and tell the file groups that they are going to rewrite."""

from __future__ import annotations

from contextlib import suppress

from pudi.errors import CorruptError, NotFoundError
from pudi.format import (
    Action,
    CompactionPlan,
    FileGroupId,
    State,
    decode_compaction_plan,
    decode_requested_replace_metadata,
)
from pudi.format.plans import ClusteringPlan, decode_clustering_plan
from pudi.timeline import Instant, Timeline, TimelineStore


def compaction_plan(store: TimelineStore, instant: Instant) -> CompactionPlan:
    """The plan of a pending compaction or log compaction.

    Raises:
        CorruptError: it can't be read.
        NotFoundError: it's gone, rolled back meanwhile.
    """
    return store.read_plan(instant, decode_compaction_plan)


def clustering_plan(store: TimelineStore, instant: Instant) -> ClusteringPlan:
    """The plan of a pending or completed clustering; raises as `compaction_plan`."""
    return store.read_plan(instant, decode_clustering_plan)


def compacting_since(store: TimelineStore, timeline: Timeline, *, passes_over: bool = False) -> dict[FileGroupId, str]:
    """Return the requested time of each file group's pending compaction.

    Below version 8 this is the base instant that writers put into log file names: the slice that the compaction will
    create (HoodieFileGroup.addNewFileSliceAtInstant). From version 8 on, the completion time assigns log files to
    slices.

    Args:
        store: the timeline in storage.
        timeline: its instants.
        passes_over: whether to pass over plans that can't be read. Readers need no plan: the instants in names of log
            files say that they belong to the slice before a pending one. Hudi's readers fail
            (CompactionUtils.getAllPendingCompactionOperations).

    Raises:
        CorruptError: a plan can't be read.
    """
    found: dict[FileGroupId, str] = {}
    for instant in timeline.pending_of(Action.COMPACTION):
        try:
            plan = compaction_plan(store, instant)
        except NotFoundError:  # rolled back since the timeline was listed
            continue
        except CorruptError:
            if not passes_over:
                raise
            continue
        found.update({operation.group: instant.requested for operation in plan.operations})
    return found


def compacted_groups(store: TimelineStore, instant: Instant) -> set[FileGroupId]:
    """The file groups of a pending compaction or log compaction; raises as `compaction_plan`."""
    return {operation.group for operation in compaction_plan(store, instant).operations}


def clustered_groups(store: TimelineStore, instant: Instant) -> set[FileGroupId]:
    """The file groups of a pending clustering.

    Raises:
        CorruptError: its plan can't be read.
    """
    plan = store.read_plan(instant, decode_requested_replace_metadata).clustering_plan
    try:
        return {
            FileGroupId(s["partitionPath"] or "", s["fileId"])
            for group in (plan or {}).get("inputGroups") or ()
            for s in group["slices"] or ()
        }
    except (KeyError, TypeError) as error:
        path = store.path(instant, State.REQUESTED)
        raise CorruptError("the plan of a clustering names no slices", path=path, instant=instant.requested) from error


def closed_groups(store: TimelineStore, timeline: Timeline) -> frozenset[FileGroupId]:
    """File groups of pending clusterings, as far as their plans are there and can be read: no inserts go to them."""
    found: set[FileGroupId] = set()
    for instant in timeline.pending_of(Action.CLUSTERING):
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
        for instant in timeline.pending_of(action):
            groups |= compacted_groups(store, instant)
    for instant in timeline.pending_of(Action.CLUSTERING):
        groups |= clustered_groups(store, instant)
    return groups
