"""Plan what a stream reads of a table's changes: its beginning, and the scan of each batch."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeAlias

from pudi.client import MetaClient, TableSnapshot
from pudi.config import CleanOptions
from pudi.errors import NotFoundError, naming
from pudi.scan import ChangeFeed, Scan
from pudi.scan.change_batches import EARLIEST, ChangeBatch, newest_offset
from pudi.table import Table
from pudi.timeline import parse_time

ChangedRows: TypeAlias = Scan | ChangeFeed
"""Rows of a batch: records in their last version, or change data."""

_log = logging.getLogger("pudi.spark")


@dataclass(frozen=True, slots=True)
class ChangesRequest:
    """Request for a table's changes.

    Attributes:
        columns: the columns; None for all.
        where: a SQL predicate.
        format: `latest` or `cdc`.
        meta_fields: whether the meta fields come with all columns.
        fail_on_data_loss: whether a batch that the cleaner has removed is an error.
    """

    columns: Sequence[str] | None = None
    where: str | None = None
    format: str = "latest"
    meta_fields: bool = True
    fail_on_data_loss: bool = True

    def scan(self, table: Table, batch: ChangeBatch) -> ChangedRows:
        """The changes of a batch, planned.

        Raises:
            NotFoundError: files of it are gone.
        """
        scan = self.scan_from(table, batch.since, batch.until)
        _ = scan.plan
        return scan

    def scan_from(self, table: Table, since: str, until: str | None = None) -> ChangedRows:
        """The changes after an offset, up to another one; raises as `Table.changes`."""
        return table.changes(
            since,
            until,
            columns=self.columns,
            where=self.where,
            format=self.format,
            meta_fields=self.meta_fields,
        )

    def scan_what_is_left(
        self, table: Table, meta: MetaClient, batch: ChangeBatch
    ) -> tuple[ChangedRows, ChangeBatch] | None:
        """The changes of a batch, or of a longer one if the cleaner has removed its files.

        Returns:
            The scan and its batch. None if the cleaner has removed all of it, and that is no error.

        Raises:
            NotFoundError: files are gone, and that is an error.
        """
        try:
            return self.scan(table, batch), batch
        except NotFoundError as error:
            if self.fail_on_data_loss:
                raise NotFoundError(
                    f"the changes after {batch.since} up to {batch.until} can't be read any more: {error.message}. "
                    f"Keep more commits than readers are behind ({CleanOptions.commits_retained}). To go on with what "
                    "is left, set fail_on_data_loss=False (failOnDataLoss of the named format)",
                    table=error.table,
                    path=error.path,
                    instant=error.instant,
                ) from error
            _log.warning(
                "table %s: changes after %s up to %s are gone: %s", table.path, batch.since, batch.until, error
            )
        longer = replace(batch, until=newest_offset(TableSnapshot.load(meta)))
        try:
            return self.scan(table, longer), longer
        except NotFoundError as error:
            _log.warning("table %s: changes up to %s are skipped: %s", table.path, longer.until, error)
            return None


def start_offset(meta: MetaClient, since: str | datetime) -> str:
    """Return the offset that a new stream begins after.

    Args:
        meta: the table.
        since: `earliest`, `latest`, or a point in time.

    Raises:
        InvalidArgumentError: it's none of these.
    """
    if since == "earliest":
        return EARLIEST
    if since == "latest":
        return newest_offset(TableSnapshot.load(meta))
    with naming(None, meta.storage.root):
        return parse_time(since, meta.config.timezone, what="since")
