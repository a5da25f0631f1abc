"""Plan a read: ask the metadata table which file slices it may leave out, and choose the slices to read."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from pudi.client import MetaClient
from pudi.config import Options, ReadOptions, metadata_switched_off
from pudi.context.lazy import lazy_module
from pudi.errors import PudiError
from pudi.expr import leaf_columns
from pudi.filegroup import FileSlice
from pudi.format import FileGroupId
from pudi.format.metadata_partitions import FILES
from pudi.indexes.kind import IndexRead, LookupResult
from pudi.metadata import MetadataTable
from pudi.plan import ReadPlan
from pudi.schema import unwritable_columns
from pudi.timeline import Timeline

if TYPE_CHECKING:
    from pudi.indexes import registry
    from pudi.services import clustering_gain
else:
    registry = lazy_module("pudi.indexes.registry")
    clustering_gain = lazy_module("pudi.services.clustering_gain")

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


Groups = Collection[FileGroupId]
"""File groups: partition path and file id of each."""


class Slices(Protocol):
    """Lists file slices."""

    def __call__(self, opened: MetadataTable | None = None, groups: Groups | None = None) -> Sequence[FileSlice]:
        """The slices that a scan sees.

        Args:
            opened: the metadata table, where it's open already.
            groups: the file groups that are wanted; None for all.
        """


@dataclass(frozen=True, slots=True)
class Planner:
    """Finds the slices of one scan, the fewest that surely hold all wanted rows.

    With an index that returns file groups, only these are listed. Otherwise all are listed, and statistics prune them.

    Args:
        meta: the table.
        slices: lists its slices.
        skipper: asks its indexes; None where there are none that help.
        seen: the part of its timeline that a snapshot sees; None for other scans.
    """

    meta: MetaClient
    slices: Slices
    skipper: Skipper | None = None
    seen: Timeline | None = None

    def plan(self, plan: ReadPlan) -> ReadPlan:
        """The plan with its slices.

        Raises:
            NotFoundError: a file is gone, cleaned since the scan was made.
        """
        if self.skipper is None or plan.narrowed is None:
            return plan.with_slices(self.slices(), self.meta.keys)
        table = self.skipper.open(plan)
        if table is None:
            return plan.with_slices(self.slices(), self.meta.keys)
        places = self.skipper.places(plan, table)
        groups = None if places is None else places.groups
        if places is not None and groups is None:
            plan = replace(plan, unused=(places.index, places.unused))
        elif places is not None and groups is not None:
            found = self._found(plan, table, places.index, groups)
            if found is not None:
                return found
        return self.skipper.skip(plan.with_slices(self.slices(table), self.meta.keys), table)

    def counted(self, planned: ReadPlan, plan: ReadPlan) -> ReadPlan:
        """Return the plan with its slices and the number of slices before pruning, which requires listing all.

        Args:
            planned: what `plan` gave.
            plan: the plan before `plan()`.
        """
        if planned.found_by is None:
            return planned
        whole = plan.with_slices(self.slices(), self.meta.keys)
        left = (planned.found_by, len(whole.slices) - len(planned.slices), len(whole.slices))
        return replace(planned, pruned=whole.pruned, skipped=(left,))

    def gain(self, plan: ReadPlan) -> Iterator[str]:
        """Yield what the last clustering gained for the filter of a plan, as a line of `explain`, if that is known.

        Args:
            plan: the plan without slices.
        """
        where, meta = plan.narrowed, self.meta
        done = None if where is None or self.seen is None else clustering_gain.last_clustering(meta, self.seen)
        if done is None:
            return
        assert where is not None
        assert self.seen is not None
        filtered = {".".join(column.path): column.type for column in leaf_columns(where)}
        types = {name: kind for name, kind in filtered.items() if kind is not None and "." not in name}
        sides = [(plan.with_slices(each, meta.keys).slices, len(each)) for each in (done.after, done.before)]
        stats = clustering_gain.LayoutStats.of(meta, self.seen, types, [each for side, _ in sides for each in side])
        kept = [None if stats is None else stats.kept(where, side) if side else 0 for side, _ in sides]
        if None not in kept:
            by = f" by {', '.join(done.columns)}" if done.columns else ""
            kept_of = [f"{count} of {of}" for count, (_, of) in zip(kept, sides, strict=True)]
            yield f"clustering  {done.instant}{by}: the filter keeps {kept_of[0]} of its files, {kept_of[1]} before it"

    def _found(self, plan: ReadPlan, table: MetadataTable, index: str, groups: Groups) -> ReadPlan | None:
        """The plan over the file groups that an index named; None where one of them isn't there."""
        slices = self.slices(table, groups) if groups else ()
        if {each.group for each in slices} != groups:
            return None
        return replace(plan.with_slices(slices, self.meta.keys), found_by=index)
