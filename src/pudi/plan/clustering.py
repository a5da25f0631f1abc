"""Plan a clustering: which file slices are brought together, and into how many files.

Source: PartitionAwareClusteringPlanStrategy, SparkSizeBasedClusteringPlanStrategy, ClusteringPlanPartitionFilter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from pudi.config import ClusteringOptions, LayoutStrategy, PartitionFilter
from pudi.filegroup import FileSlice
from pudi.format import Action, State
from pudi.format.clustering_plan import ClusteringGroup, ClusteringPlan, group_sizes
from pudi.plan.compaction import operation_of
from pudi.timeline import Instant, Timeline

_HOURS = 24


def chosen_partitions(partitions: Iterable[str], options: ClusteringOptions, hour: int) -> list[str]:
    """Return the partitions that a plan looks at, by name.

    Args:
        partitions: those of the table.
        options: the filter.
        hour: of the day, from 0, for DAY_ROLLING.
    """
    known = sorted(partitions)
    if options.selected:
        wanted = {each.strip().strip("/") for each in options.selected.split(",")}
        known = [each for each in known if each in wanted]
    elif options.regex:
        pattern = re.compile(options.regex)
        known = [each for each in known if pattern.fullmatch(each)]
    mode = options.partition_filter
    if mode is PartitionFilter.RECENT_DAYS:
        newest = known[::-1][options.skip_recent :]
        return sorted(newest[: options.recent] if options.recent else newest)
    if mode is PartitionFilter.SELECTED_PARTITIONS:
        first, last = options.first_partition, options.last_partition
        return [p for p in known if (first is None or p >= first) and (last is None or p <= last)]
    if mode is PartitionFilter.DAY_ROLLING:
        return [each for number, each in enumerate(known) if number % _HOURS == hour]
    return known


def plan_clustering(
    slices: Sequence[FileSlice],
    options: ClusteringOptions,
    *,
    busy: Collection[tuple[str, str]],
    max_file_size: int,
    is_new: Callable[[FileSlice], bool] | None = None,
) -> ClusteringPlan:
    """Plan a clustering.

    Args:
        slices: the latest slices of the chosen partitions.
        options: sizes and order.
        busy: file groups under a pending compaction, log compaction or clustering.
        max_file_size: assumed bytes of a base file that a slice without one will get.
        is_new: which slices are taken by themselves though nothing changes but their file; None for none.
    """
    by_partition: dict[str, list[FileSlice]] = {}
    for each in slices:
        small = each.base is None or each.base.size < options.small_limit
        if small and (each.partition, each.file_id) not in busy:
            by_partition.setdefault(each.partition, []).append(each)
    groups: list[ClusteringGroup] = []
    for _, of_partition in sorted(by_partition.items()):
        groups += _groups(of_partition, options, max_file_size, is_new)
    params = {}
    if options.columns:
        params[ClusteringOptions.sort_columns.key] = ",".join(options.columns)
        if options.layout != LayoutStrategy.LINEAR.value:
            params[ClusteringOptions.layout.key] = options.layout
    return ClusteringPlan(tuple(groups[: options.max_groups]), options.execution_class, params)


def _groups(
    slices: list[FileSlice],
    options: ClusteringOptions,
    max_file_size: int,
    is_new: Callable[[FileSlice], bool] | None,
) -> list[ClusteringGroup]:
    """Return the groups of one partition."""
    size = _Size(max_file_size)
    keys: dict[str, Callable[[FileSlice], int | str]] = {
        "SIZE": lambda each: -size(each),
        "INSTANT_TIME": lambda each: "" if each.base is None else each.base.instant,
    }
    slices = sorted(slices, key=lambda each: (*(keys[name](each) for name in options.slice_order), each.file_id))
    groups: list[list[FileSlice]] = []
    size_so_far = 0
    for each in slices:
        if not groups or size_so_far + size(each) > options.max_group_bytes:
            groups.append([])
            size_so_far = 0
        groups[-1].append(each)
        size_so_far += size(each)
    target = options.target_bytes
    made = [group_of(group, max(1, -(-sum(map(size, group)) // target)), max_file_size) for group in groups]
    taken = [len(group) == 1 and is_new is not None and is_new(group[0]) for group in groups]
    return [
        each
        for each, anyway in zip(made, taken, strict=True)
        if anyway or len(each.slices) > 1 or each.outputs > 1 or _gains(each, options)
    ]


def _gains(group: ClusteringGroup, options: ClusteringOptions) -> bool:
    """Return whether something changes for a single slice that becomes a single file: its order, or its log files.

    With columns to order by, Hudi takes it whatever the option says (HoodieWriteConfig.shouldClusteringSingleGroup);
    without, it also rewrites files that stay as they are.
    """
    return bool(options.columns) or (options.single_group and bool(group.slices[0].log_files))


def group_of(slices: Sequence[FileSlice], outputs: int, new_base: int) -> ClusteringGroup:
    """Return a group of a plan.

    Args:
        slices: the slices.
        outputs: number of file groups to make of them.
        new_base: assumed bytes of a base file that a slice without one will get.
    """
    sizes = [(s.base.size if s.base else 0, sum(log.size for log in s.logs), len(s.logs)) for s in slices]
    operations = tuple(replace(operation_of(each, new_base), metrics={}) for each in slices)
    return ClusteringGroup(operations, outputs, group_sizes(sizes, new_base))


class _Size:
    """The size by which slices are put together: that of their base files."""

    def __init__(self, max_file_size: int) -> None:
        self._new = max_file_size

    def __call__(self, file_slice: FileSlice) -> int:
        return self._new if file_slice.base is None else file_slice.base.size


def is_clustering_due(timeline: Timeline, options: ClusteringOptions, is_clustering: Callable[[Instant], bool]) -> bool:
    """Return whether enough commits completed since the last clustering (ClusteringPlanActionExecutor).

    Args:
        timeline: the active timeline.
        options: the number of commits.
        is_clustering: tells a completed clustering from other replacecommits.
    """
    last = max((i.requested for i in timeline.of(Action.CLUSTERING, State.REQUESTED, State.INFLIGHT)), default="")
    for instant in reversed(timeline.of(Action.REPLACECOMMIT)):
        if instant.requested > last and is_clustering(instant):
            last = instant.requested
            break
    least = options.max_commits if options.inline else options.schedule_commits
    return sum(instant.requested > last for instant in timeline.commits) >= least
