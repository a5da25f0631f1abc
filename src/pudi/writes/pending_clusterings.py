"""Resolve pending clusterings before a write: those of file groups that it updates, and those that expired.

Hudi asks its update strategy before a write, and its conflict resolution at the end. Run by a default Hudi, a plan that
an older write contradicts would lose that write. So here no plan outlives the write that it yields to, except one that
a process of pudi runs: that process finds the write when it completes.

Source: SparkAllowUpdateStrategy, PreferWriterConflictResolutionStrategy, BaseHoodieTableServiceClient
(isClusteringInstantEligibleForRollback).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from pudi.client import MetaClient, TableSnapshot
from pudi.commit.lease import is_available
from pudi.commit.rollback import abort
from pudi.concurrency import ConflictCheck, KeyScope, contradicted_clusterings, is_of_pudi, refuse_contradicted
from pudi.config import ALLOW_UPDATES, PREFER_WRITER, ClusteringOptions, LockSettings, Options, WriteOptions
from pudi.format import Action, FileGroupId, State, instant_to_millis
from pudi.services.failures import roll_back_plan
from pudi.timeline import Instant, Timeline


@dataclass(frozen=True, slots=True)
class UpdateStrategy:
    """Whether a write may update file groups of a pending clustering.

    Attributes:
        meta: the table.
        options: the writer's.
        updates: whether the options say that clusterings yield.
        rolls_back: whether plans are rolled back, by a rollback instant, instead of dropped.
        scope: where a key is in one file group; clusterings of hash rings yield to no write.
    """

    meta: MetaClient
    options: WriteOptions
    updates: bool
    rolls_back: bool
    scope: KeyScope | None

    @classmethod
    def of(cls, snapshot: TableSnapshot, scope: KeyScope | None) -> UpdateStrategy:
        """Return the strategy that the options of a snapshot ask for."""
        options = snapshot.options
        yields = options[ClusteringOptions.updates] == ALLOW_UPDATES
        yields = yields or LockSettings.of(options).resolution == PREFER_WRITER
        rolls_back = options[ClusteringOptions.rollback_on_conflict]
        return cls(snapshot.meta, snapshot.write_options, yields, rolls_back, scope)

    @property
    def allows(self) -> bool:
        """Whether clusterings yield."""
        return self.updates and self.scope is not KeyScope.RING

    def yields(self, plan: Instant) -> bool:
        """Return whether a pending clustering yields to the write, which is sure not to be lost."""
        return self.allows and (self._is_free(plan) or self._is_run_by_pudi(plan))

    def refuse(self, timeline: Timeline, groups: Collection[FileGroupId]) -> None:
        """Refuse a write before it writes files.

        Args:
            timeline: the timeline that the write was planned from.
            groups: the file groups that it is known to update.

        Raises:
            BlockedError: a clustering is pending on one, and doesn't yield.
        """
        for plan, group in contradicted_clusterings(self.meta.store, timeline, groups):
            if not self.yields(plan):
                raise refuse_contradicted(self.meta.store, plan, group, None)

    def roll_back(self, check: ConflictCheck) -> None:
        """Roll back the plans that a write contradicts, once its files are written, if the options ask for it.

        Args:
            check: the write's.
        """
        for plan, _ in check.contradicted(self.meta.store.load()) if self.allows and self.rolls_back else ():
            roll_back_plan(self.meta, plan, self.options)

    def under_lock(self, check: ConflictCheck, now: Timeline) -> None:
        """Drop the plans that a write contradicts, just before it completes; one that runs is left to its process.

        Args:
            check: the write's, which passed.
            now: the timeline under the table's lock.
        """
        for plan, _ in check.contradicted(now) if self.allows else ():
            if self._is_free(plan):
                abort(self.meta, plan, dead=True)

    def _is_free(self, plan: Instant) -> bool:
        return is_available(self.meta, plan, self.options)

    def _is_run_by_pudi(self, plan: Instant) -> bool:
        """Return whether the process that runs a plan compares its slices with the table before it completes."""
        return plan.state is State.INFLIGHT and is_of_pudi(self.meta.storage, plan.requested)


def roll_back_expired(meta: MetaClient, options: Options, timeline: Timeline) -> Timeline:
    """Roll back pending clusterings that no process runs, if the options let them expire.

    Args:
        meta: the table.
        options: the writer's options.
        timeline: the table's timeline.

    Returns:
        The timeline after it.
    """
    write_options = WriteOptions.of(options)
    if not options[ClusteringOptions.expires] or write_options.failed_writes_policy == "NEVER":
        return timeline
    zone, now_ms = meta.config.timezone, meta.context.clock.now_ms()
    least = options[ClusteringOptions.expires_after] * 60_000
    pending = timeline.pending_of(Action.CLUSTERING)
    old = [each for each in pending if now_ms - instant_to_millis(each.requested, zone) >= least]
    gone = [each for each in old if roll_back_plan(meta, each, write_options)]
    return meta.store.load() if gone else timeline
