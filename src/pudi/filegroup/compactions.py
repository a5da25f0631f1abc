"""Read the plans of pending compactions."""

from __future__ import annotations

from pudi.errors import CorruptError, NotFoundError
from pudi.format import Action, CompactionPlan, FileGroupId, State, decode_compaction_plan
from pudi.timeline import Instant, Timeline, TimelineStore


def compaction_plan(store: TimelineStore, instant: Instant) -> CompactionPlan:
    """The plan of a pending compaction or log compaction.

    Raises:
        CorruptError: it can't be read.
        NotFoundError: it's gone, rolled back meanwhile.
    """
    path = store.path(instant, State.REQUESTED)
    return decode_compaction_plan(store.read(instant, State.REQUESTED), path=path)


def compacting_since(store: TimelineStore, timeline: Timeline) -> dict[FileGroupId, str]:
    """Return the requested time of each file group's pending compaction, by partition path and file id.

    Below version 8 this is the base instant that writers put into log file names: the slice that the compaction will
    create (HoodieFileGroup.addNewFileSliceAtInstant). From version 8 on, the completion time assigns log files to
    slices.

    Raises:
        CorruptError: a plan can't be read.
    """
    found, unreadable = known_compactions(store, timeline)
    for error in unreadable.values():
        raise error
    return found


def known_compactions(
    store: TimelineStore, timeline: Timeline
) -> tuple[dict[FileGroupId, str], dict[str, CorruptError]]:
    """Return what `compacting_since` returns, and the errors of plans that can't be read, by requested time.

    Readers need no plan: the instants in names of log files say that they belong to the slice before a pending one.
    Hudi's readers fail (CompactionUtils.getAllPendingCompactionOperations).
    """
    found: dict[FileGroupId, str] = {}
    unreadable: dict[str, CorruptError] = {}
    for instant in timeline.of(Action.COMPACTION, State.REQUESTED, State.INFLIGHT):
        try:
            plan = compaction_plan(store, instant)
        except NotFoundError:  # rolled back since the timeline was listed
            continue
        except CorruptError as error:
            unreadable[instant.requested] = error
            continue
        found.update({operation.group: instant.requested for operation in plan.operations})
    return found, unreadable
