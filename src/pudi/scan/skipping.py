"""Where a scan asks the metadata table which file slices it may leave out: a plan in, one over fewer slices out."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from pudi.action import MetaClient
from pudi.config import Options, metadata_switched_off
from pudi.errors import PudiError
from pudi.format import INIT_INSTANT, Action
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
        newest: whether the scan reads the table's newest state.
    """

    meta: MetaClient
    timeline: Timeline
    seen: Timeline
    newest: bool

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
            # Hudi 1.2 leaves files that have no statistics out of their partition's, and calls these tight all the same
            current=False,
            millis=millis,
        )


def skipper(meta: MetaClient, timeline: Timeline, seen: Timeline, options: Options, *, newest: bool) -> Skipper | None:
    """What leaves slices out; None where the table has no statistics, or the user wants none of it."""
    if COLUMN_STATS not in meta.config.metadata_partitions:
        return None
    if metadata_switched_off(options) or not options.flag(SKIPPING):
        return None
    return Skipper(meta, timeline, seen, newest)


def _is_ahead(metadata: Timeline, data: Timeline) -> bool:
    """Whether the metadata table may tell of commits that the scan doesn't see."""
    known = {i.requested for i in data.instants if i.is_completed}
    return any(
        i.requested not in known and (data.start is None or i.requested >= data.start)
        for i in metadata.commits
        if i.action is Action.DELTACOMMIT and not i.requested.startswith(INIT_INSTANT)
    )
