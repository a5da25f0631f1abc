"""Build the early conflict detection of a write from the pending instants of live writers."""

from __future__ import annotations

from pudi.client.meta_client import MetaClient
from pudi.commit.heartbeats import last_touched_ms, liveness_of
from pudi.concurrency import Liveness
from pudi.config import LockSettings, Options, WriteOptions
from pudi.filegroup.early_detection import EarlyDetection
from pudi.format import Action, State
from pudi.timeline import Timeline, TimelinePlace

_WRITES = (Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT)


def living_writes(meta: MetaClient, options: WriteOptions, timeline: Timeline) -> list[str]:
    """Return the requested times of pending writes whose processes give signs of life."""
    pending = [each for action in _WRITES for each in timeline.of(action, State.REQUESTED, State.INFLIGHT)]
    return [
        each.requested
        for each in pending
        if liveness_of(meta, each.requested, options, last_touched_ms(meta, each)) is Liveness.ALIVE
    ]


def early_detection(meta: MetaClient, resolved: Options, seen: Timeline, requested: str) -> EarlyDetection | None:
    """Return what tasks ask before they work on a file group; None without early detection.

    Args:
        meta: the table.
        resolved: the writer's options.
        seen: the timeline that the write was planned from.
        requested: requested time of the write.
    """
    settings, options = LockSettings.of(resolved), WriteOptions.of(resolved)
    if not settings.early_detection:
        return None
    alive = [each for each in living_writes(meta, options, meta.store.load()) if each < requested]
    known = frozenset(each.requested for each in seen.commits) if settings.early_commits else None
    return EarlyDetection(requested, tuple(alive), known, TimelinePlace.of(meta.store))
