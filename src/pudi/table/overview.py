"""Verbs of a `Table` that show what it is and what happened to it; they change nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from pudi.action import MetaClient
from pudi.config import Options
from pudi.context.lazy import lazy_module

if TYPE_CHECKING:
    from pudi.table import history as history_verb
    from pudi.table import slices
else:
    history_verb = lazy_module("pudi.table.history")
    slices = lazy_module("pudi.table.slices")


class Overview:
    """What `Table` inherits these verbs from."""

    _meta: MetaClient

    def _for_call(self, options: Mapping[str, str] | None) -> tuple[MetaClient, Options]:
        raise NotImplementedError

    def history(self, limit: int | None = None, *, archived: bool = False) -> list[history_verb.HistoryEntry]:
        """Return what happened to the table: its instants, newest first, pending ones too.

        An instant whose content can't be read has the reason in `problem`. Memory grows with the number of entries, not
        with the archive.

        Args:
            limit: how many; archived ones too where the active timeline has fewer. None for the active timeline.
            archived: without a limit, all of the archive too.

        Raises:
            InvalidArgumentError: the limit is below 1.
            CorruptError: the archive can't be read.
        """
        return history_verb.history(self._meta, limit, archived=archived)

    def files(
        self,
        *,
        everything: bool = False,
        as_of: str | datetime | None = None,
        partitions: str | Sequence[str] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> list[slices.SliceInfo]:
        """Return the table's file slices with their files, sizes and numbers of records, and what holds older ones.

        What holds a slice is told by the rules of cleaning: the policy, a pending plan, savepoints. Files of writes
        that haven't completed belong to no slice; `doctor` tells of those that were left behind.

        Args:
            everything: older slices and replaced file groups too, as long as their files are there.
            as_of: instead of now, the moment at which slices are those of the table; as in `scan`. Below table
                version 8 slices have their later log files too, of which readers pass over later blocks.
            partitions: paths of the partitions to list; None for all.
            options: this call's options, over those of the `Table`: what a clean retains.

        Returns:
            The slices by partition path and file id, the newest one of a file group first.

        Raises:
            InvalidArgumentError: `everything` and `as_of` are both given, or a wrong option or time.
            NotFoundError: the cleaner has removed what the table was then.
            CorruptError: the timeline, a savepoint or a pending plan can't be read.
        """
        meta, resolved = self._for_call(options)
        chosen = [partitions] if isinstance(partitions, str) else partitions
        return slices.list_files(meta, resolved, everything=everything, as_of=as_of, partitions=chosen)
