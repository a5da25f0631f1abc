"""Where a scan asks the metadata table which file slices it may leave out: a plan in, one over fewer slices out."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from pudi.action import MetaClient
from pudi.config import Options, metadata_switched_off
from pudi.errors import PudiError
from pudi.metadata import COLUMN_STATS, MetadataTable
from pudi.plan import IndexSource, ReadPlan, skip_slices
from pudi.schema import unwritable_columns
from pudi.timeline import Timeline

SKIPPING = "hoodie.enable.data.skipping"

_log = logging.getLogger("pudi.scan")


@dataclass(frozen=True, slots=True)
class Skipper:
    """Leaves slices out of a plan by the metadata table of one table.

    Args:
        meta: the table.
        timeline: its timeline, as the scan sees it.
        seen: the part of it that the scan reads.
    """

    meta: MetaClient
    timeline: Timeline
    seen: Timeline

    def skip(self, plan: ReadPlan) -> ReadPlan:
        """The plan over those of its slices that may hold wanted rows.

        A metadata table that can't be read, or hasn't kept up, is said in the log; then the plan stays as it is.
        """
        if plan.where is None or not plan.slices:
            return plan
        try:
            return skip_slices(plan, self._source())
        except PudiError as error:
            _log.warning("no file is skipped by the metadata table of %s: %s", plan.table, error)
            return replace(plan, skipped=())

    def _source(self) -> IndexSource:
        meta = self.meta
        table = MetadataTable.open(meta.storage, meta.config, meta.store, self.timeline)
        millis = frozenset(name.split(".")[0] for name in unwritable_columns(meta.schema_json(self.seen)))
        return IndexSource(
            lambda partition, prefixes: table.read(partition, prefixes=prefixes),
            frozenset(table.partitions),
            millis=millis,
        )


def skipper(meta: MetaClient, timeline: Timeline, seen: Timeline, options: Options) -> Skipper | None:
    """What leaves slices out; None where the table has no statistics, or the user wants none of it."""
    if COLUMN_STATS not in meta.config.metadata_partitions:
        return None
    if metadata_switched_off(options) or not options.flag(SKIPPING):
        return None
    return Skipper(meta, timeline, seen)
