"""Services of a hard deletion: compact some file groups, and clean all that isn't the newest slice of a file group."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import date

from pudi.action.services.clean import Clean
from pudi.action.services.clean_plan import plan_clean
from pudi.action.services.compaction import Compaction
from pudi.action.services.target import ServiceTarget
from pudi.concurrency import busy_groups
from pudi.config import CleanOptions, CleanPolicy, CompactionOptions
from pudi.config.option import Value
from pudi.format import Action, encode_compaction_plan
from pudi.format.clean import encode_clean_plan
from pudi.plan.compaction import plan_compaction
from pudi.timeline import Timeline

_NO_WRITES = frozenset({Action.CLEAN, Action.ROLLBACK, Action.INDEXING})


class CompactGroups(Compaction):
    """Compacts some file groups, whatever a compaction's strategy would choose.

    Args:
        groups: the file groups, as partition path and file id.
    """

    def __init__(self, groups: Collection[tuple[str, str]]) -> None:
        self._groups = frozenset(groups)

    def plan(self, target: ServiceTarget, timeline: Timeline) -> bytes | None:
        """Plan those of the file groups that have log files, except those under another plan."""
        meta = target.meta
        given: dict[str, Value] = {CompactionOptions.strategy.key: "UnBoundedCompactionStrategy"}
        plan = plan_compaction(
            meta.view(timeline).slices_of_groups(self._groups),
            CompactionOptions.of(replace(target.options, given={**target.options.given, **given})),
            busy=busy_groups(meta.store, timeline, log_compactions=False),
            max_file_size=target.write_options.max_file_size,
            today=date.min,
        )
        return encode_compaction_plan(plan) if plan.operations else None


class CleanHistory(Clean):
    """Deletes all slices but the newest ones, except those that a savepoint or a pending plan needs.

    The clean states the newest commit as the earliest that stays, so that no reader takes what is left of earlier
    states for all of it. While a write is pending it states none, as a clean that counts slices: its commit may be
    requested earlier, and a later clean would not look for what it replaces.
    """

    def plan(self, target: ServiceTarget, timeline: Timeline) -> bytes | None:
        """Plan the deletion of all older slices."""
        given: dict[str, Value] = {
            CleanOptions.policy.key: CleanPolicy.VERSIONS.value,
            CleanOptions.versions_retained.key: 1,
            CleanOptions.regex.key: "",
            CleanOptions.selected.key: "",
        }
        options = CleanOptions.of(replace(target.options, given={**target.options.given, **given}))
        plan = plan_clean(target.meta, timeline, options)
        if plan is None:
            return None
        if not target.is_metadata and all(each.action in _NO_WRITES for each in timeline.pending):
            newest = timeline.commits[-1]
            plan = replace(plan, retained=(newest.requested, newest.action.value), policy=CleanPolicy.COMMITS.value)
        return encode_clean_plan(plan)
