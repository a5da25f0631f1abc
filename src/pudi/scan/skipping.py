"""Ask the metadata table where wanted records are, and which file slices a scan may leave out."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pudi.client import MetaClient
from pudi.config import Options, ReadOptions, metadata_switched_off
from pudi.context.lazy import lazy_module
from pudi.errors import PudiError
from pudi.format.metadata_partitions import FILES
from pudi.indexes.reading import IndexRead, LookupResult
from pudi.metadata import MetadataTable
from pudi.plan import ReadPlan
from pudi.schema import unwritable_columns
from pudi.timeline import Timeline

if TYPE_CHECKING:
    from pudi.indexes import registry
else:
    registry = lazy_module("pudi.indexes.registry")

_log = logging.getLogger("pudi.scan")


@dataclass(frozen=True, slots=True)
class Skipper:
    """Finds the slices that a read needs by the metadata table of one table.

    A metadata table that can't be read, or hasn't kept up, is said in the log; then it finds nothing out.

    Args:
        meta: the table.
        timeline: its timeline, as the scan sees it.
        seen: the part of it that the scan reads.
        newest: whether that is the table's newest state, which the metadata table's indexes describe.
    """

    meta: MetaClient
    timeline: Timeline
    seen: Timeline
    newest: bool = False

    def open(self, plan: ReadPlan) -> MetadataTable | None:
        """The metadata table; None where it's of no use."""
        try:
            return self.meta.metadata_table(self.timeline)
        except PudiError as error:
            _warn(plan, error)
            return None

    def places(self, plan: ReadPlan, table: MetadataTable) -> LookupResult | None:
        """Return the places of the records that a plan asks for by key or indexed value; None if they aren't known."""
        try:
            if plan.narrowed is None or not self.newest or not table.is_known_to(self.timeline):
                return None
            read = self._read(table)
            return next((found for kind in registry.KINDS if (found := kind.locate(read, plan)) is not None), None)
        except PudiError as error:
            _warn(plan, error)
            return None

    def skip(self, plan: ReadPlan, table: MetadataTable) -> ReadPlan:
        """Return the plan with only those slices that may contain matching rows."""
        if plan.narrowed is None or not plan.slices:
            return plan
        try:
            read = self._read(table)
            for kind in registry.KINDS:
                plan = kind.skip(read, plan)
        except PudiError as error:
            _warn(plan, error)
            return replace(plan, skipped=())
        return plan

    def _read(self, table: MetadataTable) -> IndexRead:
        millis = (name.split(".")[0] for name in unwritable_columns(self.meta.schema_json(self.seen)))
        # Hudi's statistics of columns that files leave out are about the nulls that some files have in their place
        return IndexRead(self.meta, table, frozenset(millis) | frozenset(self.meta.path_columns))


def _warn(plan: ReadPlan, error: PudiError) -> None:
    _log.warning("data skipping is off for %s, since its metadata table can't be used: %s", plan.table, error)


def skipper(
    meta: MetaClient, timeline: Timeline, seen: Timeline, options: Options, *, newest: bool = False
) -> Skipper | None:
    """Return the pruning step; None if the table has no usable index or the user disabled it."""
    if not set(meta.config.metadata_partitions) - {FILES}:
        return None
    if metadata_switched_off(options) or not options[ReadOptions.data_skipping]:
        return None
    return Skipper(meta, timeline, seen, newest)
