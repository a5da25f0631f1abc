"""One run of a clustering plan: the jobs, the check that its slices still are the latest ones, and the commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import NAMESPACE_URL, uuid5

from pudi.client import TableSnapshot, merging_of
from pudi.client.hash_rings import reconcile_hash_rings, write_rings
from pudi.commit.conditions import refuse_older_columns
from pudi.commit.lease import PlanDisplacedError, ServiceLease
from pudi.commit.liveness import living_writes
from pudi.config import (
    PREFER_WRITER,
    ClusteringOptions,
    LayoutStrategy,
    LockSettings,
    MergeMode,
    names_in,
)
from pudi.errors import ConflictError
from pudi.filegroup import FileSlice, LogScope, stated_sizes
from pudi.filegroup.markers import marked_groups
from pudi.filegroup.slices import UNNAMED
from pudi.format import CommitMetadata, CompactionOperation, FileGroupId, WriteStat, new_file_id
from pudi.format.instants import CLUSTER
from pudi.format.plans import (
    ClusteringGroup,
    ClusteringPlan,
)
from pudi.merge import MergeRule
from pudi.plan import Merging
from pudi.services.resizing import ResizedBuckets
from pudi.services.service import RewritingRun
from pudi.services.target import TargetSnapshot
from pudi.task import FileJob
from pudi.task.cluster import ClusterTask, RecordOrder
from pudi.task.compact import sizes_of
from pudi.timeline import Timeline

_SWELLS = 12
"""Approximate ratio of the memory that sorting takes to bytes of base and log files."""
_LARGE, _LEAST_JOBS = 64 << 20, 2
"""A group of as many bytes is divided among jobs, which each read all of it, until there are as many jobs."""


@dataclass(frozen=True, slots=True)
class ClusteringRun(RewritingRun):
    """One run of a plan.

    Attributes:
        snapshot: the table.
        lease: the lease of its instant.
        plan: the groups.
        resized: the buckets as the plan changes them; None in a table without consistent hashing.
    """

    snapshot: TargetSnapshot
    lease: ServiceLease
    plan: ClusteringPlan
    resized: ResizedBuckets | None = None

    @property
    def operations(self) -> Sequence[CompactionOperation]:
        """The slices of the plan."""
        return self.plan.slices

    def jobs(self) -> Sequence[FileJob]:
        """One job for each group, or several if there are few groups."""
        meta = self.snapshot.meta
        sizes = iter(sizes_of(meta.store, self.snapshot.timeline, self.plan.slices))
        spec, order = self.spec(self._merging()), self._order()
        buckets = None if self.resized is None else self.resized.buckets
        jobs: list[FileJob] = []
        for group in self.plan.groups:
            stated = {path: size for _ in group.slices for path, size in next(sizes).items()}
            ids = self._file_ids(group)
            parts = min(group.outputs, -(-_LEAST_JOBS // len(self.plan.groups)) if _bytes_of(group) >= _LARGE else 1)
            memory = max(1, meta.memory.of_compaction.limit)
            portions = max(1, -(-_SWELLS * _bytes_of(group) // memory))
            for part in range(parts):
                first, end = group.outputs * part // parts, group.outputs * (part + 1) // parts
                weight = 2 * _bytes_of(group) // parts
                jobs.append(
                    ClusterTask(
                        spec, len(jobs), group.slices, stated, order, ids, first, end - first, portions, weight, buckets
                    )
                )
        return jobs

    def _file_ids(self, group: ClusteringGroup) -> tuple[str, ...]:
        if self.resized is not None:
            return self.resized.file_ids(group)
        # The same in each run of the plan: a file that comes too late then belongs to the new run's file group, where
        # readers pass over it.
        first = group.slices[0]
        name = "/".join((self.lease.instant.requested, first.partition_path or "", first.file_id or ""))
        unique = str(uuid5(NAMESPACE_URL, name))
        return tuple(new_file_id(unique, number) for number in range(group.outputs))

    def before_commit(self) -> None:
        """Write the new hash rings; they take effect when the instant completes."""
        if self.resized is not None:
            write_rings(self.snapshot.meta, self.lease.instant.requested, self.resized.buckets, self.resized.partitions)

    def after_commit(self) -> None:
        """Mark the new hash rings as valid, also after the instant is archived."""
        if self.resized is not None:
            meta, instant = self.snapshot.meta, self.lease.instant.requested
            reconcile_hash_rings(meta, instant, self.resized.buckets, self.resized.partitions)

    def check(self, now: Timeline) -> None:
        """Check that the slices are still the latest ones; see `ServiceRun.check`."""
        changed = outdated_groups(self.snapshot.at(now), self.plan)
        if changed:
            raise PlanDisplacedError(
                f"{min(changed).text} was written to, or rolled back, although the clustering was pending on it; "
                "nothing of the clustering is visible, and its plan will be dropped",
                table=self.snapshot.table,
                instant=self.lease.instant.requested,
            )

        refuse_older_columns(self.snapshot, now, self.lease.instant)
        self._yield_to_writes(now)
        start, commits = now.start, {i.requested for i in now.commits}
        gone = [i.requested for i in self.snapshot.timeline.commits if i.requested not in commits]
        undone = [requested for requested in gone if start is None or requested >= start]
        if undone:
            raise ConflictError(
                f"commit {undone[0]} was rolled back while the clustering read its records; run the plan again",
                table=self.snapshot.table,
                instant=self.lease.instant.requested,
            )

    def _yield_to_writes(self, now: Timeline) -> None:
        """With PreferWriterConflictResolutionStrategy give way to writes that have marked file groups of the plan."""
        if LockSettings.of(self.snapshot.options).resolution != PREFER_WRITER:
            return
        groups = {each.group for each in self.plan.slices}
        for write in living_writes(self.snapshot.at(now)):
            both = groups & marked_groups(self.snapshot.meta.storage, write)
            if both:
                raise PlanDisplacedError(
                    f"write {write} is at work on {min(both).text}, and {LockSettings.conflict_strategy} prefers "
                    "writes; nothing of the clustering is visible, and its plan will be dropped",
                    table=self.snapshot.table,
                    instant=self.lease.instant.requested,
                )

    def metadata(self, stats: Sequence[WriteStat]) -> CommitMetadata:
        """The commit metadata with the replaced file groups; see `ServiceRun.metadata`."""
        replaced: dict[str, tuple[str, ...]] = {}
        for each in self.plan.slices:
            replaced[each.partition_path] = (*replaced.get(each.partition_path, ()), each.file_id)
        written = self.written(stats, CLUSTER, self.plan.extra_metadata)
        return replace(written, partition_to_replace_file_ids=replaced)

    def _order(self) -> RecordOrder:
        params, options = self.plan.params, ClusteringOptions.of(self.snapshot.options)
        columns = names_in(params.get(ClusteringOptions.sort_columns.key))
        layout = params.get(ClusteringOptions.layout.key) or options.layout
        return RecordOrder(columns, LayoutStrategy(str(ClusteringOptions.layout.parse(layout))))

    def _merging(self) -> Merging:
        meta = self.snapshot.meta
        return merging_of(self.snapshot) or Merging(
            MergeRule(MergeMode.COMMIT_TIME), LogScope(frozenset()), meta.virtual_keys, meta.memory
        )


def outdated_groups(snapshot: TableSnapshot, plan: ClusteringPlan) -> set[FileGroupId]:
    """Return the file groups of a plan whose latest slices aren't those that it names."""
    groups = {each.group for each in plan.slices}
    latest = {s.group: s for s in snapshot.view(sizes=False).slices_of_groups(groups)}
    return {each.group for each in plan.slices if not _is_latest(snapshot, each, latest.get(each.group))}


def _is_latest(snapshot: TableSnapshot, named: CompactionOperation, found: FileSlice | None) -> bool:
    """Return whether a slice is the one that a plan names; below version 8 log files of refused writes stay in it."""
    base = None if found is None or found.base is None else found.base.name.name
    if found is None or base != (named.base_file or None):
        return False
    logs = {log.name.name: log for log in found.logs}
    more = [log for name, log in logs.items() if name not in named.log_files]
    if more and snapshot.timeline.rules.logs_name_their_slice:
        stated = stated_sizes(snapshot.meta.store, snapshot.timeline, more)
        more = [log for log in more if stated.get(log.path) != UNNAMED]
    return not more and logs.keys() >= set(named.log_files)


def _bytes_of(group: ClusteringGroup) -> int:
    metrics = group.metrics
    return (int(metrics.get("TOTAL_IO_READ_MB", 0)) + 1) << 20
