"""Verbs of a `Table` that show what it is and what happened to it; they change nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from pudi.action import MetaClient
from pudi.config import Options, resolve
from pudi.context.lazy import lazy_module
from pudi.scan import snapshot_scan

if TYPE_CHECKING:
    from pudi.table import description, slices
    from pudi.table import history as history_verb
else:
    description = lazy_module("pudi.table.description")
    history_verb = lazy_module("pudi.table.history")
    slices = lazy_module("pudi.table.slices")


class Overview:
    """What `Table` inherits these verbs from."""

    _meta: MetaClient
    _options: dict[str, str]

    def _for_call(self, options: Mapping[str, str] | None) -> tuple[MetaClient, Options]:
        raise NotImplementedError

    def describe(self, *, options: Mapping[str, str] | None = None) -> description.TableDescription:
        """Return what the table is: properties, columns, indexes, sizes, last commits, what is pending and what is due.

        No data file is read. Files are listed once, by the metadata table where there is one.

        Args:
            options: this call's options, over those of the `Table`: what is due.

        Raises:
            CorruptError: its properties or its timeline can't be read. What else can't be read is in `problems`.
        """
        meta, resolved = self._for_call(options)
        meta.reload()
        return description.describe(meta, resolved)

    def head(
        self,
        n: int = 10,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        *,
        as_of: str | datetime | None = None,
        meta_fields: bool = False,
    ) -> pa.Table:
        """Return some rows, whichever are found first; reading ends with them.

        Without `where` as many files are read as it takes to have the rows, one after the other, each row group by row
        group, or wholly where log files are merged over it.

        Args:
            n: how many rows at most.
            columns: as in `scan`.
            where: as in `scan`.
            as_of: as in `scan`.
            meta_fields: whether the meta fields come with all columns.

        Raises:
            InvalidArgumentError: an unknown column, a wrong predicate, `as_of` no point in time, `n` below 0.
            NotSupportedError: the predicate uses SQL beyond the subset.
            NotFoundError: the cleaner has removed what the table was then.
            CorruptError: a file can't be read.
        """
        options = resolve(self._options)
        return snapshot_scan(self._meta, columns, where, as_of, meta_fields, options=options, limit=n).to_arrow()

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

        What holds a slice follows from the rules of cleaning: the policy, a pending plan, savepoints. Files of writes
        that haven't completed belong to no slice; `doctor` tells of those that were left behind.

        Args:
            everything: older slices and replaced file groups too, as long as their files are there.
            as_of: instead of now, the moment at which slices are those of the table; as in `scan`. Below table
                version 8 slices have their later log files too, whose later blocks readers pass over.
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
