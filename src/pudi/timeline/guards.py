"""Guards of a timeline: refuse writes after a move to the other layout, after a rollback, or by a wrong clock.

Where no lock excludes other processes, any instant of theirs that appears during an action refuses it. That's enough
among writers that all do so: each puts its instant on the timeline before it looks, so that of two which overlap the
later one to look sees the other's, pending or completed.
"""

from __future__ import annotations

from pudi.config import TableConfig, WriteOptions
from pudi.context import Context, Lock, OneProcessLock, Storage
from pudi.errors import BlockedError, ConflictError, CorruptError, NotFoundError, RefusedError
from pudi.format import (
    PROPERTIES,
    PROPERTIES_BACKUP,
    WRITE_ACTIONS,
    Action,
    Layout,
    MaxBytes,
    State,
    decode_rollback_plan,
    decode_table_properties,
)
from pudi.storage import has_own_clock
from pudi.timeline.instant import Instant
from pudi.timeline.timeline import Timeline


def refuse_moved(storage: Storage, layout: Layout) -> None:
    """Compare the layout that a table was opened with with the one that its properties say now.

    Raises:
        ConflictError: they differ.
    """
    for path in (PROPERTIES, PROPERTIES_BACKUP):
        try:
            found = decode_table_properties(storage.read(path, MaxBytes.PROPERTIES), path=path)
        except (NotFoundError, CorruptError):  # an update is under way, or was interrupted
            continue
        refuse_layout(found.get(TableConfig.layout_version.key), found.get(TableConfig.version.key), layout, storage)
        return


def refuse_moving(timeline: Timeline, table: str) -> None:
    """Refuse to add to a timeline while it's brought to another version.

    Raises:
        BlockedError: it is.
    """
    if timeline.is_moving:
        raise BlockedError(
            "an upgrade or downgrade of the table is pending: complete it by Table.upgrade or `pudi upgrade`",
            table=table,
        )


def refuse_layout(layout: object, version: object, opened: Layout, storage: Storage) -> None:
    """Raise an error if the table's timeline has moved to another layout.

    Args:
        layout: the layout that the table has now.
        version: the version that it has now.
        opened: the layout that it was opened with.
        storage: the table's files.

    Raises:
        ConflictError: the two layouts differ.
    """
    if str(layout) != str(opened):
        raise ConflictError(
            f"the table was brought to version {version} since it was opened: open it again, or call Table.refresh()",
            table=storage.root,
        )


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
    for rollback in now.pending_of(Action.ROLLBACK):
        path = f"{folder}/{rollback.file_name(State.REQUESTED)}"
        try:
            target = decode_rollback_plan(storage.read(path, MaxBytes.INSTANT), path=path).instant_to_rollback
        except NotFoundError:  # it completed, or was discarded, since the listing
            continue
        if target is not None and target.commit_time == instant.requested:
            raise taken_for_dead(instant, storage.root)


def note_own(lock: Lock, instant: Instant) -> None:
    """Remember, where the lock is one process's only, that this process made an instant."""
    if isinstance(lock, OneProcessLock):
        lock.note_own(_instant_name(instant))


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
    known, mine = {(_instant_name(i), i.state) for i in seen.instants}, None if own is None else _instant_name(own)
    for other in now.instants:
        if _instant_name(other) == mine or lock.is_own(_instant_name(other)):
            continue
        at_work = other.action in WRITE_ACTIONS and other.state is not State.COMPLETED
        if at_work or (_instant_name(other), other.state) not in known:
            raise ConflictError(
                f"another process writes this table: its {other.action.value} {other.requested} is "
                f"{other.state.name.lower()}, and {WriteOptions.concurrency_mode}=single_writer says that there "
                "is no other. Nothing of this write is visible. Leave out that option and "
                f"{WriteOptions.lock_provider}=InProcessLockProvider in all writers, and write again",
                table=table,
                instant=None if own is None else own.requested,
            )


def _instant_name(instant: Instant) -> str:
    return f"{instant.requested}.{instant.action.comparable.value}"


class ClockCheck:
    """Compares this machine's clock with that of the storage, by a file that is created in between.

    The time that a storage gives to the file must lie between the clock's readings before and after, give or take the
    tolerance. Where files' times come from this machine's own clock (local disks, memory), there is nothing to compare.

    Args:
        storage: the table's files.
        context: the clock.
        tolerance_ms: how far the clocks may be apart, milliseconds; 0 compares nothing.
    """

    def __init__(self, storage: Storage, context: Context, tolerance_ms: int) -> None:
        self._storage = storage
        self._clock = context.clock
        self._tolerance_ms = tolerance_ms
        self._before_ms = self._clock.now_ms()

    def compare(self, path: str) -> None:
        """Compare the clocks, once the file at `path` has been created.

        Raises:
            RefusedError: they are too far apart.
        """
        if not self._tolerance_ms or not has_own_clock(self._storage):
            return
        after_ms, stored_ms = self._clock.now_ms(), self._storage.head(path).modified_ms
        ahead_ms = max(self._before_ms - stored_ms, 0) or min(after_ms - stored_ms, 0)
        if abs(ahead_ms) > self._tolerance_ms:
            raise RefusedError(
                f"this machine's clock is {_duration(abs(ahead_ms))} {'ahead of' if ahead_ms > 0 else 'behind'} the "
                "storage's, so that reads by time (as_of, since) would be misled by what it writes; nothing was "
                f"written: set the clock, or allow for the difference with {WriteOptions.clock_tolerance_ms}",
                table=self._storage.root,
            )


def _duration(milliseconds: int) -> str:
    seconds = milliseconds / 1000
    for unit, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds:,.0f} seconds"
