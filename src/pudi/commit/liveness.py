"""Tell who lives: keep the instant of a running action alive, and find out which other writers are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from pudi.client import MetaClient, TableSnapshot
from pudi.client.result import CLEAN_UP, ActionReport, after_commit
from pudi.concurrency import Heartbeat, Liveness, liveness
from pudi.config import LockSettings, WriteOptions
from pudi.errors import NotFoundError, PudiError
from pudi.filegroup import Markers
from pudi.filegroup.markers import EarlyDetection
from pudi.format import Action
from pudi.timeline import Instant, TimelinePlace


@contextmanager
def keep_alive(
    meta: MetaClient,
    hearts: Sequence[Heartbeat],
    undo: Callable[[BaseException], None],
    report: ActionReport | None = None,
) -> Iterator[None]:
    """Run an action whose heartbeats the caller starts; stop them at its end, and undo the action on an error.

    If undoing fails too, the first error is raised. The heartbeat files stay then, so that the next writer finds the
    instant dead and rolls it back.

    Args:
        meta: the table.
        hearts: the heartbeats; more may be added while the action runs.
        undo: undoes what the action did so far. It isn't called if the process is about to end.
        report: notes what failed after the commit. The heartbeat files stay if the clean-up is among it: by them the
            next writer finds the markers that are left.
    """
    try:
        yield
    except BaseException as error:
        _stop(hearts)
        if isinstance(error, (Exception, KeyboardInterrupt, SystemExit)):
            with suppress(PudiError):
                undo(error)
        raise
    _stop(hearts)
    failed = {} if report is None else report.failed
    if CLEAN_UP in failed:
        return
    with after_commit(CLEAN_UP, meta.storage.root, failed):
        for heart in hearts:
            heart.stop()


def liveness_of(meta: MetaClient, requested: str, options: WriteOptions, last_seen_ms: int) -> Liveness:
    """Return whether the process of a pending instant is alive.

    Args:
        meta: the table.
        requested: requested time of the instant.
        options: the heartbeat's limits.
        last_seen_ms: when its files were last touched, for a process without heartbeat; see `last_touched_ms`.
    """
    return liveness(
        meta.storage,
        requested,
        meta.context,
        expires_after_ms=options.heartbeat_expiry_ms,
        last_seen_ms=last_seen_ms,
    )


def last_touched_ms(meta: MetaClient, instant: Instant) -> int:
    """Return when the process of a pending instant last wrote a marker or the instant, in ms since 1970; else 0."""
    times = [info.modified_ms for info in Markers(meta.storage, instant.requested).infos()]
    with suppress(NotFoundError):
        times.append(meta.storage.head(meta.store.path(instant)).modified_ms)
    return max(times, default=0)


def _stop(hearts: Sequence[Heartbeat]) -> None:
    for heart in hearts:
        heart.stop(delete=False)


_WRITES = (Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT)


def living_writes(snapshot: TableSnapshot) -> list[str]:
    """Return the requested times of pending writes whose processes give signs of life."""
    meta, options = snapshot.meta, snapshot.write_options
    pending = [each for action in _WRITES for each in snapshot.timeline.pending_of(action)]
    return [
        each.requested
        for each in pending
        if liveness_of(meta, each.requested, options, last_touched_ms(meta, each)) is Liveness.ALIVE
    ]


def early_detection(snapshot: TableSnapshot, requested: str) -> EarlyDetection | None:
    """Return what tasks ask before they work on a file group; None without early detection.

    Args:
        snapshot: the table that the write was planned from, with the writer's options.
        requested: requested time of the write.
    """
    settings = LockSettings.of(snapshot.options)
    if not settings.early_detection:
        return None
    alive = [each for each in living_writes(snapshot.refreshed()) if each < requested]
    known = frozenset(each.requested for each in snapshot.timeline.commits) if settings.early_commits else None
    return EarlyDetection(requested, tuple(alive), known, TimelinePlace.of(snapshot.meta.store))
