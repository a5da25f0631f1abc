"""Verbs of a `Table` that show what it is and what happened to it; they change nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pudi.action import MetaClient
from pudi.context.lazy import lazy_module

if TYPE_CHECKING:
    from pudi.table import history as history_verb
else:
    history_verb = lazy_module("pudi.table.history")


class Overview:
    """What `Table` inherits these verbs from."""

    _meta: MetaClient

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
