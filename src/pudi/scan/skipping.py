"""What a scan asks the metadata table: where wanted records are, and which file slices it may leave out."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from pudi.action import MetaClient
from pudi.action.mdt.expression import index_value
from pudi.action.mdt.index_defs import defined_index
from pudi.config import Options, ReadOptions, metadata_switched_off
from pudi.errors import PudiError
from pudi.format.metadata_partitions import BLOOM_FILTERS, COLUMN_STATS, EXPRESSION_INDEX_PREFIX, RECORD_INDEX
from pudi.metadata import MetadataTable
from pudi.plan import IndexSource, ReadPlan, skip_slices
from pudi.plan.expressions import ExpressionIndex, ReadKeys, skip_by_expressions, skip_by_keys
from pudi.plan.lookup import MOST_VALUES
from pudi.scan.lookup import LookupResult, keys_asked, look_up
from pudi.schema import unwritable_columns
from pudi.timeline import Timeline

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
        """Where the records are that a plan asks for by key or by an indexed value; None where that isn't known."""
        try:
            return look_up(plan, self.meta, table) if self.newest and table.tells_of(self.timeline) else None
        except PudiError as error:
            _warn(plan, error)
            return None

    def skip(self, plan: ReadPlan, table: MetadataTable) -> ReadPlan:
        """Return the plan with only those slices that may contain matching rows."""
        if plan.where is None or not plan.slices:
            return plan
        try:
            plan = skip_slices(plan, self._source(table))
            plan = skip_by_expressions(plan, self._expressions(plan, table), _by_keys(table))
            return self._by_bloom_filters(plan, table)
        except PudiError as error:
            _warn(plan, error)
            return replace(plan, skipped=())

    def _expressions(self, plan: ReadPlan, table: MetadataTable) -> list[ExpressionIndex]:
        """The expression indexes that pudi knows the expressions of."""
        names = [name for name in table.partitions if name.startswith(EXPRESSION_INDEX_PREFIX)]
        found = []
        for spec in (defined_index(self.meta, name) for name in names):
            value = index_value(spec, plan.schema)
            if value is not None and value.type is not None and spec.columns[0] not in self._millis:
                found.append(ExpressionIndex(spec.partition, spec.columns[0], value, spec.method == BLOOM_FILTERS))
        return found

    def _by_bloom_filters(self, plan: ReadPlan, table: MetadataTable) -> ReadPlan:
        """The plan over those of its slices that may hold the record keys that are asked for, if any are."""
        if BLOOM_FILTERS not in table.partitions or plan.where is None or plan.history is not None:
            return plan
        keys = keys_asked(plan.where, self.meta, plan.schema)
        if keys is None or len(keys) > MOST_VALUES or not plan.slices:
            return plan
        return skip_by_keys(plan, BLOOM_FILTERS, keys, _by_keys(table))

    @property
    def _millis(self) -> frozenset[str]:
        return frozenset(name.split(".")[0] for name in unwritable_columns(self.meta.schema_json(self.seen)))

    def _source(self, table: MetadataTable) -> IndexSource:
        return IndexSource(
            lambda partition, prefixes: table.read(partition, prefixes=prefixes),
            frozenset(table.partitions),
            millis=self._millis,
        )


def _warn(plan: ReadPlan, error: PudiError) -> None:
    _log.warning("no file is skipped by the metadata table of %s: %s", plan.table, error)


def _by_keys(table: MetadataTable) -> ReadKeys:
    return lambda partition, keys: table.read(partition, keys=keys)


def skipper(
    meta: MetaClient, timeline: Timeline, seen: Timeline, options: Options, *, newest: bool = False
) -> Skipper | None:
    """Return the pruning step; None if the table has no usable index or the user disabled it."""
    useful = {COLUMN_STATS, RECORD_INDEX, BLOOM_FILTERS}
    if not any(name in useful or name.startswith(EXPRESSION_INDEX_PREFIX) for name in meta.config.metadata_partitions):
        return None
    if metadata_switched_off(options) or not options[ReadOptions.data_skipping]:
        return None
    return Skipper(meta, timeline, seen, newest)
