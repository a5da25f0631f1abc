"""Clustering of a table with consistent hashing: its groups split and merge buckets, and so change hash rings.

The plan says by child nodes how the ring of each partition changes. The new rings are written before the instant
completes, and take effect with it; `pudi.client.hash_rings` says which ring counts.

Source: HoodieSparkConsistentBucketIndex.updateLocation, SingleSparkJobConsistentHashingExecutionStrategy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pudi.client import MetaClient, TableSnapshot
from pudi.client.find_index import find_index
from pudi.config import ClusteringOptions, IndexOptions
from pudi.errors import ConflictError, CorruptError, InvalidArgumentError, NotSupportedError
from pudi.filegroup import FileSlice, busy_groups, closed_groups
from pudi.format import CONSISTENT_HASHING_DIR
from pudi.format.plans import ClusteringGroup, ClusteringPlan
from pudi.services.clustering_plan import GroupChange, Resizing, plan_resizing
from pudi.services.target import TargetSnapshot
from pudi.tagging import ConsistentBuckets
from pudi.timeline import Instant


def consistent_buckets(snapshot: TableSnapshot) -> ConsistentBuckets | None:
    """Return the buckets of a table with consistent hashing; None if the table has another index."""
    meta = snapshot.meta
    if not meta.merges_on_read or next(iter(meta.storage.list(CONSISTENT_HASHING_DIR)), None) is None:
        return None
    buckets = find_index(snapshot).buckets
    return buckets if isinstance(buckets, ConsistentBuckets) else None


def check_strategies(snapshot: TableSnapshot) -> None:
    """Refuse strategies that aren't for the table's index, and tables whose buckets never change.

    Raises:
        InvalidArgumentError: a strategy for buckets in a table without consistent hashing, or another one in one with.
        NotSupportedError: the table has a fixed number of buckets.
    """
    if consistent_buckets(snapshot) is not None:
        ClusteringOptions.bucket_execution(snapshot.options)
        return
    if find_index(snapshot).buckets is not None:
        raise NotSupportedError(
            "clustering of a table with a fixed number of buckets: its file groups are the buckets of record keys, "
            "which neither Apache Hudi nor pudi splits or merges",
            table=snapshot.table,
        )
    options = ClusteringOptions.of(snapshot.options)
    if options.names_buckets:
        raise InvalidArgumentError(
            f"{ClusteringOptions.plan_class}={options.plan_class} and {ClusteringOptions.execution_class}="
            f"{options.execution_class}: the strategies for buckets are for tables with consistent hashing",
            table=snapshot.table,
        )


def plan_buckets(snapshot: TargetSnapshot, buckets: ConsistentBuckets, slices: Sequence[FileSlice]) -> ClusteringPlan:
    """Plan the buckets of partitions that no other clustering is pending on.

    Args:
        snapshot: the table.
        buckets: its buckets.
        slices: the latest slices of the chosen partitions.
    """
    meta, timeline, options = snapshot.meta, snapshot.timeline, ClusteringOptions.of(snapshot.options)
    index, most = IndexOptions.of(snapshot.options), snapshot.write_options.max_file_size
    resizing = Resizing(
        least=min(index.min_buckets or buckets.count, buckets.count),
        most=max(index.max_buckets or buckets.count, buckets.count),
        split_bytes=int(most * index.split_threshold),
        merge_bytes=int(most * index.merge_threshold),
        new_base=most,
    )
    clustered = {partition for partition, _ in closed_groups(meta.store, timeline)}
    free = [each for each in slices if each.partition not in clustered]
    for each in free:
        buckets.name_of(each.file_id, each.partition, table=snapshot.table, path=each.path)
    busy = busy_groups(meta.store, timeline, log_compactions=True)
    free = [each for each in free if each.group not in busy]
    plan = plan_resizing(free, buckets.rings, resizing, options, meta.context.new_id)
    return replace(plan, execution=ClusteringOptions.bucket_execution(snapshot.options))


@dataclass(frozen=True, slots=True)
class ResizedBuckets:
    """The buckets of a table as a clustering plan changes them.

    Attributes:
        buckets: the buckets, with the new rings.
        partitions: paths of the partitions that get new rings.
    """

    buckets: ConsistentBuckets
    partitions: tuple[str, ...]

    @classmethod
    def of(
        cls, meta: MetaClient, instant: Instant, plan: ClusteringPlan, buckets: ConsistentBuckets | None
    ) -> ResizedBuckets | None:
        """Return what a plan makes of the buckets; None if it is for another index.

        Args:
            meta: the table.
            instant: the clustering.
            plan: its plan.
            buckets: the table's buckets; None if it has another index.

        Raises:
            CorruptError: the plan isn't for the table's index, or can't be.
            ConflictError: a ring was changed since the plan was made.
        """
        root = meta.storage.root
        changes = [GroupChange.of(group, path=root) for group in plan.groups]
        if buckets is None and not any(changes):
            return None
        if buckets is None or None in changes:
            raise CorruptError(
                "the clustering plan isn't for the table's index: it must say how the buckets of consistent hashing "
                "change, if and only if the table has it; roll it back",
                table=root,
                instant=instant.requested,
            )
        by_partition: dict[str, list[GroupChange]] = {}
        for change in changes:
            if change is not None:
                by_partition.setdefault(change.partition, []).append(change)
        rings = dict(buckets.rings)
        for partition, own in by_partition.items():
            ring = buckets.ring(partition)
            if {change.sequence for change in own} != {ring.sequence}:
                raise ConflictError(
                    f"the hash ring of partition {partition!r} was changed since the clustering was planned; roll the "
                    "plan back",
                    table=root,
                    instant=instant.requested,
                )
            rings[partition] = ring.with_children(child for change in own for child in change.children)
        return cls(replace(buckets, rings=rings), tuple(sorted(by_partition)))

    def file_ids(self, group: ClusteringGroup) -> tuple[str, ...]:
        """Return the ids of the file groups that a group becomes, in the order of their hashes."""
        change = GroupChange.of(group)
        prefixes = () if change is None else change.prefixes
        return tuple(self.buckets.file_id(prefix, group.slices[0].partition_path, "") for prefix in prefixes)
