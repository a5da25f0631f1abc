"""Services of a hard deletion: compact some file groups, and clean all that isn't the newest slice of a file group."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import date
from itertools import chain
from posixpath import basename

from pudi.client import TableSnapshot
from pudi.config import CleanOptions, CleanPolicy, CompactionOptions
from pudi.config.option import Value
from pudi.filegroup import busy_groups
from pudi.format import Action, FileGroupId, encode_compaction_plan
from pudi.format.plans import CleanPlan, encode_clean_plan
from pudi.services.clean import Clean
from pudi.services.clean_plan import plan_clean, savepointed_names
from pudi.services.compaction import Compaction
from pudi.services.compaction_plan import plan_compaction
from pudi.services.target import TargetSnapshot, clean_to

_NO_WRITES = frozenset({Action.CLEAN, Action.ROLLBACK, Action.INDEXING})


class CompactGroups(Compaction):
    """Compacts given file groups, regardless of the compaction strategy.

    Args:
        groups: the file groups, as partition path and file id.
    """

    def __init__(self, groups: Collection[FileGroupId]) -> None:
        self._groups = frozenset(groups)

    def plan(self, snapshot: TargetSnapshot) -> bytes | None:
        """Plan those of the file groups that have log files, except those under another plan."""
        given: dict[str, Value] = {CompactionOptions.strategy.key: "UnBoundedCompactionStrategy"}
        plan = plan_compaction(
            snapshot.view().slices_of_groups(self._groups),
            CompactionOptions.of(replace(snapshot.options, given={**snapshot.options.given, **given})),
            busy=busy_groups(snapshot.meta.store, snapshot.timeline, log_compactions=False),
            max_file_size=snapshot.write_options.max_file_size,
            today=date.min,
        )
        return encode_compaction_plan(plan) if plan.operations else None


class CleanHistory(Clean):
    """Deletes all slices but the newest ones, except those that a savepoint or a pending plan needs.

    The clean states the newest commit as the earliest that stays, so that no reader takes what is left of earlier
    states for all of it. While a write is pending it states none, as a clean that counts slices: its commit may be
    requested earlier, and a later clean would not look for what it replaces.

    Args:
        changes: paths of change data to delete too where it belongs to the newest slices: it holds what a delete has
            just taken out of them, and only `changes()` reads it.
    """

    def __init__(self, changes: Collection[str] = frozenset()) -> None:
        self._changes = frozenset(changes)

    def plan(self, snapshot: TargetSnapshot) -> bytes | None:
        """Plan the deletion of all older slices."""
        timeline, given = snapshot.timeline, snapshot.options.given
        options = CleanOptions.of(replace(snapshot.options, given={**given, **clean_to(1)}))
        plan = plan_clean(snapshot, options)
        changes = self._of_newest(snapshot)
        if plan is None and not changes:
            return None
        plan = plan or CleanPlan(None, timeline.commits[-1].requested, policy=options.policy)
        doomed = dict(plan.files)
        for partition, paths in changes.items():
            doomed[partition] = (*doomed.get(partition, ()), *paths)
        plan = replace(plan, files=doomed)
        if not snapshot.is_metadata and all(each.action in _NO_WRITES for each in timeline.pending):
            newest = timeline.commits[-1]
            plan = replace(plan, retained=(newest.requested, newest.action.value), policy=CleanPolicy.COMMITS.value)
        return encode_clean_plan(plan)

    def _of_newest(self, snapshot: TableSnapshot) -> dict[str, tuple[str, ...]]:
        """Return absolute locations of change data of the newest slices, by partition, but what savepoints keep."""
        if not self._changes:
            return {}
        saved = frozenset(chain.from_iterable(savepointed_names(snapshot).values()))
        view = snapshot.view(sizes=False)
        found: dict[str, tuple[str, ...]] = {}
        for group in view.groups_of(sorted({path.rpartition("/")[0] for path in self._changes})):
            newest = group.slices[0].files
            if group.id in view.replaced or saved & {basename(each) for each in newest}:
                continue
            paths = tuple(f"{snapshot.table}/{each}" for each in newest if each in self._changes)
            if paths:
                found[group.partition] = (*found.get(group.partition, ()), *paths)
        return found
