"""What every write goes through: an inflight instant with a heartbeat."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pudi.action.after import CLEAN_UP, behind_commit
from pudi.action.meta_client import MetaClient
from pudi.action.rollback import abort
from pudi.concurrency import Heartbeat
from pudi.config import WriteOptions
from pudi.errors import ConflictError, PudiError, RefusedError
from pudi.format import Action, CommitMetadata, State
from pudi.timeline import Instant


@contextmanager
def pending(
    meta: MetaClient,
    action: Action,
    options: WriteOptions,
    requested: bytes = b"",
    inflight: bytes | CommitMetadata = b"",
    failed: dict[str, str] | None = None,
) -> Iterator[Instant]:
    """An inflight instant with a heartbeat. On an error it's taken back, unless it completed all the same.

    Args:
        meta: the table.
        action: what is going to be done.
        options: the writer's.
        requested: content of the requested file.
        inflight: content of the inflight file.
        failed: where it's noted what failed behind a completed commit; markers that couldn't be deleted are left to the
            next writer, which finds them by the heartbeat.
    """
    hearts: list[Heartbeat] = []

    def beat(requested: str) -> None:
        hearts.append(Heartbeat(meta.storage, requested, meta.context, options.heartbeat_interval_ms))
        hearts[-1].start()

    instant: Instant | None = None
    try:
        instant = meta.store.request(action, requested, on_requested=beat)
        instant = meta.store.start(instant, inflight)
        yield instant
    except BaseException as error:
        nothing_there = instant is None and isinstance(error, (ConflictError, RefusedError))
        for heart in hearts:  # what a failing clean-up leaves behind, the next writer must find dead
            with suppress(PudiError):  # the first error is the one to tell
                heart.stop(delete=nothing_there)
        if isinstance(error, (Exception, KeyboardInterrupt, SystemExit)) and instant is not None:
            _undo(meta, instant)
        raise
    with behind_commit(CLEAN_UP, meta.storage.root, failed):
        for heart in hearts:
            heart.stop(delete=CLEAN_UP not in (failed or {}))


def _undo(meta: MetaClient, instant: Instant) -> None:
    try:
        found = meta.store.load().find(instant.requested, instant.action)
        if found is None or found.state is not State.COMPLETED:  # None: somebody took this writer for dead
            abort(meta, instant)
    except PudiError:
        return  # the first error is the one to tell; the next writer finds this instant dead and rolls it back
