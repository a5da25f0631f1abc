"""Clustering: bring the records of many file slices in order, in new file groups that replace the old ones.

A requested clustering is a plan that never changes. Any process runs it; it completes as a replacecommit. Records keep
their record keys, commit times and sequence numbers. File groups of a pending plan belong to it: a write to one of them
fails (Hudi's SparkRejectUpdateStrategy), and inserts go elsewhere.

Source: ClusteringPlanActionExecutor, MultipleSparkJobExecutionStrategy.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime, timezone

from pudi.client import MetaClient, TableSnapshot
from pudi.client.settings import writable_schema
from pudi.commit.lease import ServiceLease
from pudi.config import (
    ClusteringOptions,
    check_consistent,
    check_writable,
)
from pudi.errors import NotSupportedError, SchemaError
from pudi.filegroup import FileSlice, busy_groups, clustering_plan
from pudi.format import Action, FileGroupId
from pudi.format.plans import (
    encode_clustering_plan,
)
from pudi.plan.curves import check_sortable
from pudi.services.clustering_plan import chosen_partitions, is_clustering_due, plan_clustering
from pudi.services.clustering_run import ClusteringRun, outdated_groups
from pudi.services.failures import groups_aside
from pudi.services.resizing import ResizedBuckets, check_strategies, consistent_buckets, plan_buckets
from pudi.services.service import Inline, Need, PlannedService, TableService
from pudi.services.target import ServiceTarget, TargetSnapshot
from pudi.timeline import Instant


class Clustering(PlannedService):
    """Brings records of data tables in order, and small files to size."""

    name = "clustering"
    action = Action.CLUSTERING
    blocks = "writes to its file groups, and cleaning of them"
    is_set_aside = True

    def inline(self, target: ServiceTarget) -> Inline:
        """Decide by the options of inline, async and scheduled clustering, in Hudi's order."""
        if target.is_metadata:
            return Inline.NOTHING
        options = target.options
        return Inline.of(
            run=options[ClusteringOptions.inline],
            run_async=bool(options[ClusteringOptions.run_async]),
            schedule=options[ClusteringOptions.schedule_inline],
        )

    def check(self, target: ServiceTarget) -> None:
        """Refuse tables that pudi can't write, and wrong options."""
        ClusteringOptions.of(target.options)
        meta = target.meta
        meta.reload()
        check_writable(meta.config, meta.storage.root, target.options)
        check_consistent(meta.config, target.options, meta.storage.root)
        if meta.config.base_file_format == "HFILE":
            raise NotSupportedError(
                "clustering of HFILE base files: records of an HFile are always in the order of their keys",
                table=meta.storage.root,
            )

    def prepare(self, target: ServiceTarget) -> None:
        """Check the columns to order by, and that the strategies are for the table's index."""
        snapshot = target.load()
        columns = writable_schema(snapshot.schema, snapshot.table)
        for name in ClusteringOptions.of(target.options).columns:
            if name not in columns.names:
                raise SchemaError(
                    f"there is no column {name!r} to order records by: the table has {', '.join(columns.names)}",
                    table=snapshot.table,
                )
            check_sortable(columns.field(name))
        check_strategies(snapshot)

    def is_due(self, snapshot: TargetSnapshot) -> bool:
        """Decide by the number of commits since the last clustering."""
        store = snapshot.meta.store
        return is_clustering_due(
            snapshot.timeline,
            ClusteringOptions.of(snapshot.options),
            lambda instant: store.read_commit_metadata(instant).is_clustering,
        )

    def need(self, snapshot: TargetSnapshot) -> Need | None:
        """Return the need by the number of commits, if options ask for clustering; None in a metadata table."""
        if snapshot.is_metadata:
            return None
        if self.inline(snapshot.target) is Inline.NOTHING:
            return Need(False, f"runs by Table.cluster(), or with {ClusteringOptions.inline}=true")
        return TableService.need(self, snapshot)

    def plan(self, snapshot: TargetSnapshot) -> bytes | None:
        """Plan the small files, or the buckets, of the chosen partitions, except those under another plan."""
        meta, options = snapshot.meta, ClusteringOptions.of(snapshot.options)
        partitions = chosen_partitions(snapshot.listing().partitions(), options, _hour(meta))
        slices = snapshot.view().slices_of(partitions)
        buckets = consistent_buckets(snapshot)
        if buckets is not None:
            plan = plan_buckets(snapshot, buckets, slices)
        else:
            busy = busy_groups(meta.store, snapshot.timeline, log_compactions=True)
            busy |= groups_aside(meta.storage, self.name)
            is_new = _unclustered(snapshot) if snapshot.options.explicit(ClusteringOptions.single_group) else None
            most = snapshot.write_options.max_file_size
            plan = plan_clustering(slices, options, busy=busy, max_file_size=most, is_new=is_new)
        return encode_clustering_plan(plan, snapshot.table) if plan.groups else None

    def must_wait(self, snapshot: TargetSnapshot) -> bool:
        """While writes to buckets of consistent hashing are pending, as in Hudi: they would go to the old ones."""
        pending = snapshot.timeline.pending_of(Action.DELTACOMMIT)
        return bool(pending) and consistent_buckets(snapshot) is not None

    def is_obsolete(self, snapshot: TargetSnapshot, instant: Instant) -> bool:
        """Whether another writer ignored the plan: its slices are no longer the latest ones."""
        return bool(outdated_groups(snapshot, clustering_plan(snapshot.meta.store, instant)))

    def groups_of(self, target: ServiceTarget, instant: Instant) -> Collection[FileGroupId]:
        """Return the file groups that the plan replaces."""
        return {each.group for each in clustering_plan(target.meta.store, instant).slices}

    def open(self, target: ServiceTarget, lease: ServiceLease) -> ClusteringRun:
        """Read the plan; see `PlannedService.open`.

        Raises:
            NotSupportedError: a plan that Hudi runs by another strategy than sorting.
        """
        snapshot = target.at(lease.timeline)
        plan = clustering_plan(target.meta.store, lease.instant)
        if plan.execution not in ClusteringOptions.execution_class.choices:
            raise NotSupportedError(
                f"a clustering plan for {plan.execution}: have Apache Hudi run it, or roll it back",
                table=target.meta.storage.root,
                instant=lease.instant.requested,
            )
        resized = ResizedBuckets.of(target.meta, lease.instant, plan, consistent_buckets(snapshot))
        return ClusteringRun(snapshot, lease, plan, resized)


def _unclustered(snapshot: TableSnapshot) -> Callable[[FileSlice], bool]:
    """Return what tells whether a slice has changed since a clustering wrote its base file."""
    replaced, meta = snapshot.timeline.of(Action.REPLACECOMMIT), snapshot.meta
    clustered = {i.requested for i in replaced if meta.store.read_commit_metadata(i).is_clustering}
    return lambda each: each.base is None or bool(each.logs) or each.base.instant not in clustered


def _hour(meta: MetaClient) -> int:
    return datetime.fromtimestamp(meta.context.clock.now_ms() / 1000, timezone.utc).astimezone().hour
