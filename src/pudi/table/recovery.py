"""Verbs of a `Table` that take commits back: savepoints, rollback, restore."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pudi.client import TableSnapshot
from pudi.config.arguments import text_given
from pudi.context.runtime import lazy_module
from pudi.table.base import VerbGroup, engine_of

if TYPE_CHECKING:
    from pudi.recovery import restore as restore_action
    from pudi.recovery import savepoints
else:
    restore_action = lazy_module("pudi.recovery.restore")
    savepoints = lazy_module("pudi.recovery.savepoints")


class RecoveryVerbs(VerbGroup):
    """Verbs of `Table` about recovery."""

    def savepoint(self, instant: str | None = None, *, user: str = "", comment: str = "") -> savepoints.Savepoint:
        """Make a savepoint of a commit: no clean deletes its files, so that the table can be restored to it.

        Commits after it stay on the active timeline, and its files take space, until it's deleted.

        Args:
            instant: requested time of the commit; None for the newest one.
            user: who makes it.
            comment: why.

        Returns:
            The savepoint.

        Raises:
            NotFoundError: there is no such commit on the active timeline, or a clean may have deleted its files.
            InvalidArgumentError: the commit has a savepoint.
        """
        made = instant if instant is None else text_given(instant, "instant", self._path)
        meta = self._for_call(None)[0]
        said = (text_given(user, "user", self._path), text_given(comment, "comment", self._path))
        return savepoints.make_savepoint(meta, made, *said)

    def savepoints(self) -> list[savepoints.Savepoint]:
        """Return the savepoints, oldest commit first.

        Raises:
            CorruptError: one can't be read.
        """
        return savepoints.list_savepoints(TableSnapshot.load(self._for_call(None)[0]))

    def delete_savepoint(self, instant: str) -> None:
        """Delete a savepoint: the next clean may delete its files.

        Args:
            instant: requested time of its commit.

        Raises:
            NotFoundError: there is none.
        """
        savepoints.delete_savepoint(self._for_call(None)[0], text_given(instant, "instant", self._path))

    def rollback(
        self, instant: str, *, spark: Any = None, options: Mapping[str, str] | None = None
    ) -> restore_action.RollbackResult:
        """Roll back the newest commit: its files go, and readers see the state before it.

        A pending plan of a compaction, log compaction or clustering can be rolled back too, whenever it was made,
        unless a process runs it. Below version 8, one of a compaction can't be once log files build on it.

        Args:
            instant: requested time of the commit, or of the pending plan.
            spark: a session on which indexes are rebuilt if need be; None for this machine.
            options: this call's options, over those of the `Table`.

        Returns:
            What was done.

        Raises:
            NotFoundError: there is no such commit on the active timeline, and no such plan, or files that it replaced
                are gone.
            InvalidArgumentError: it has a savepoint, or a newer commit is there.
            NotSupportedError: the pending plan of another service, which can only be run.
            BlockedError: another process is writing or runs the plan, a restore is pending, or a clean died that had
                deleted files.
        """
        meta, resolved = self._for_call(options)
        return restore_action.roll_back_commit(
            meta, engine_of(None, spark), resolved, text_given(instant, "instant", self._path)
        )

    def restore(
        self, to: str | None = None, *, spark: Any = None, options: Mapping[str, str] | None = None
    ) -> restore_action.RollbackResult:
        """Restore the table to what it was when a commit completed: later commits are rolled back, newest first.

        Nothing is touched unless all files of that state are there. Readers see the states of the commits in between
        meanwhile. Other writers are refused until it's done. Indexes follow, or are rebuilt. If the
        process dies, the next call completes the restore.

        Args:
            to: requested time of the commit, with or without a savepoint; None only to complete a pending restore.
            spark: a session on which indexes are rebuilt if need be; None for this machine.
            options: this call's options, over those of the `Table`.

        Returns:
            What was done.

        Raises:
            NotFoundError: there is no such commit on the active timeline, or files of that state are gone.
            InvalidArgumentError: a later commit has a savepoint, or another restore is pending.
            BlockedError: another process is writing, an index is being built, or a clean died that had deleted files.
        """
        meta, resolved = self._for_call(options)
        wanted = to if to is None else text_given(to, "to", self._path)
        return restore_action.restore(meta, engine_of(None, spark), resolved, wanted)


def check_rollback(table: RecoveryVerbs, instant: str) -> None:
    """Refuse a rollback before anybody is asked about it.

    Args:
        table: the table.
        instant: requested time of a commit, or of a pending plan.

    Raises:
        NotFoundError: there is neither on the active timeline.
    """
    snapshot = table._snapshot()
    if instant not in {each.requested for each in snapshot.timeline.pending}:
        savepoints.commit_of(snapshot, instant)


def check_restore(table: RecoveryVerbs, to: str) -> None:
    """Refuse a restore before anybody is asked about it.

    Args:
        table: the table.
        to: requested time of the commit.

    Raises:
        NotFoundError: there is no such commit on the active timeline.
    """
    savepoints.commit_of(table._snapshot(), to)
