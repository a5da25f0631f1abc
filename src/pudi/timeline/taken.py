"""Writes that other writers take for dead: what they find when they come back."""

from __future__ import annotations

from pudi.config import WriteOptions
from pudi.context import Storage
from pudi.errors import ConflictError, NotFoundError
from pudi.format import Action, MaxBytes, State, decode_rollback_plan
from pudi.timeline.instant import Instant
from pudi.timeline.timeline import Timeline


def taken_for_dead(instant: Instant, table: str) -> ConflictError:
    """Return the error of a write whose instant another writer has rolled back, or is about to.

    Args:
        instant: the write's instant.
        table: the table's root.
    """
    return ConflictError(
        "another writer took this write for dead and rolled it back; nothing of it is visible: write "
        f"again, with the same failed-writes policy for both ({WriteOptions.failed_writes_policy}=LAZY)",
        table=table,
        instant=instant.requested,
    )


def refuse_taken(storage: Storage, folder: str, now: Timeline, instant: Instant) -> None:
    """Refuse to complete an instant that isn't inflight any more, or that a pending rollback names.

    Whoever completes that rollback would undo the instant, though it had completed. An instant that was rolled back
    before its writer created the inflight file has no requested file any more.

    Args:
        storage: the table's files.
        folder: the timeline's folder.
        now: the timeline, listed under the table's lock.
        instant: the instant.

    Raises:
        ConflictError: it is so.
        CorruptError: the plan of a pending rollback can't be read.
    """
    current = now.find(instant.requested, instant.action)
    if current is None or current.state is not State.INFLIGHT or instant.requested in now.unrequested:
        raise taken_for_dead(instant, storage.root)
    for rollback in now.of(Action.ROLLBACK, State.REQUESTED, State.INFLIGHT):
        path = f"{folder}/{rollback.file_name(State.REQUESTED)}"
        try:
            target = decode_rollback_plan(storage.read(path, MaxBytes.INSTANT), path=path).instant_to_rollback
        except NotFoundError:  # it completed, or was discarded, since the listing
            continue
        if target is not None and target.commit_time == instant.requested:
            raise taken_for_dead(instant, storage.root)
