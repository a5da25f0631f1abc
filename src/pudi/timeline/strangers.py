"""Instants of other processes, where no lock excludes them: any of them that appears during an action refuses it.

Why that's enough among writers that all do so: each puts its instant on the timeline before it looks, so that of two
which overlap the later one to look sees the other's, pending or completed.
"""

from __future__ import annotations

from pudi.config import WriteOptions
from pudi.context import Lock, OneProcessLock
from pudi.errors import ConflictError
from pudi.format import State
from pudi.timeline.instant import WRITE_ACTIONS, Instant
from pudi.timeline.timeline import Timeline


def note_own(lock: Lock, instant: Instant) -> None:
    """Remember, where the lock is one process's only, that this process made an instant."""
    if isinstance(lock, OneProcessLock):
        lock.note_own(_name(instant))


def refuse_strangers(lock: Lock, own: Instant | None, seen: Timeline, now: Timeline, table: str) -> None:
    """Raise where another process did something since an action was planned, and no lock orders the two.

    Args:
        lock: the table's lock; one that keeps other processes out makes this pass.
        own: the action's instant; None where it has none, as the making of an index has.
        seen: the timeline that it was planned from.
        now: the timeline after `own` was put on it.
        table: the table's root.

    Raises:
        ConflictError: naming the other instant.
    """
    if not isinstance(lock, OneProcessLock):
        return
    known, mine = {(_name(i), i.state) for i in seen.instants}, None if own is None else _name(own)
    for other in now.instants:
        if _name(other) == mine or lock.is_own(_name(other)):
            continue
        at_work = other.action in WRITE_ACTIONS and other.state is not State.COMPLETED
        if at_work or (_name(other), other.state) not in known:
            raise ConflictError(
                f"another process writes this table: its {other.action.value} {other.requested} is "
                f"{other.state.name.lower()}, and {WriteOptions.concurrency_mode}=single_writer says that there "
                "is no other. Nothing of this write is visible. Leave out that option and "
                f"{WriteOptions.lock_provider}=InProcessLockProvider in all writers, and write again",
                table=table,
                instant=None if own is None else own.requested,
            )


def _name(instant: Instant) -> str:
    return f"{instant.requested}.{instant.action.comparable.value}"
