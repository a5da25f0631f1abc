"""Plan a clustering: which file slices are brought together, and into how many files.

Source: PartitionAwareClusteringPlanStrategy, SparkSizeBasedClusteringPlanStrategy, ClusteringPlanPartitionFilter,
BaseConsistentHashingBucketClusteringPlanStrategy, SparkConsistentBucketClusteringPlanStrategy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pudi.config import ClusteringOptions, LayoutStrategy, PartitionFilter
from pudi.errors import CorruptError
from pudi.filegroup import FileSlice, slices_by_partition
from pudi.format import Action, FileGroupId
from pudi.format.hashing import ChildNode, NodeTag, Ring, decode_children, encode_children
from pudi.format.plans import ClusteringGroup, ClusteringPlan, group_sizes
from pudi.services.compaction_plan import operation_of
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
    busy: Collection[FileGroupId],
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
    small = (each for each in slices if each.base is None or each.base.size < options.small_limit)
    by_partition = slices_by_partition(each for each in small if each.group not in busy)
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

    def size(file_slice: FileSlice) -> int:
        return max_file_size if file_slice.base is None else file_slice.base.size

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


def is_clustering_due(timeline: Timeline, options: ClusteringOptions, is_clustering: Callable[[Instant], bool]) -> bool:
    """Return whether enough commits completed since the last clustering (ClusteringPlanActionExecutor).

    Args:
        timeline: the active timeline.
        options: the number of commits.
        is_clustering: tells a completed clustering from other replacecommits.
    """
    last = max((i.requested for i in timeline.pending_of(Action.CLUSTERING)), default="")
    for instant in reversed(timeline.of(Action.REPLACECOMMIT)):
        if instant.requested > last and is_clustering(instant):
            last = instant.requested
            break
    least = options.max_commits if options.inline else options.schedule_commits
    return sum(instant.requested > last for instant in timeline.commits) >= least


_PARTITION, _CHILDREN, _SEQUENCE = (
    "clustering.group.partition",
    "clustering.group.child.node",
    "clustering.group.sequence.no",
)
"""Keys of the extra metadata of a group."""


@dataclass(frozen=True, slots=True)
class Resizing:
    """When buckets are split and merged.

    Attributes:
        least: number of buckets of a partition that merging leaves.
        most: number of buckets of a partition that splitting makes.
        split_bytes: a bucket with more bytes is split.
        merge_bytes: buckets of up to this many bytes are merged with their neighbours.
        new_base: assumed bytes of a base file that a slice without one will get.
    """

    least: int
    most: int
    split_bytes: int
    merge_bytes: int
    new_base: int


@dataclass(frozen=True, slots=True)
class GroupChange:
    """Change that a plan's group makes to the ring of its partition.

    Attributes:
        partition: partition path.
        children: the nodes that change.
        sequence: how often the ring had been changed when the plan was made.
    """

    partition: str
    children: tuple[ChildNode, ...]
    sequence: int

    @property
    def prefixes(self) -> tuple[str, ...]:
        """Beginnings of the file ids of the new buckets, in the order of their hashes."""
        made = sorted((child.value, child.prefix) for child in self.children if child.prefix is not None)
        return tuple(prefix for _, prefix in made)

    def extra_metadata(self) -> dict[str, str]:
        """Return the change as Hudi writes it into the group (constructExtraMetadata)."""
        children = encode_children(self.children)
        return {_PARTITION: self.partition, _CHILDREN: children, _SEQUENCE: str(self.sequence)}

    @classmethod
    def of(cls, group: ClusteringGroup, *, path: str | None = None) -> GroupChange | None:
        """Return the change that a group of a plan tells; None if it tells none.

        Raises:
            CorruptError: the change can't be read, is of another partition than the slices, or makes another number of
                file groups.
        """
        extra = group.extra_metadata
        if _CHILDREN not in extra:
            return None
        partition, sequence = extra.get(_PARTITION), extra.get(_SEQUENCE, "")
        if not sequence.isdecimal():
            raise CorruptError(f"a clustering plan for a ring that was changed {sequence!r} times", path=path)
        change = cls(partition or "", decode_children(extra[_CHILDREN], path=path), int(sequence))
        if {each.partition_path for each in group.slices} != {partition} or len(change.prefixes) != group.outputs:
            raise CorruptError("a clustering plan says of other buckets than its slices how they change", path=path)
        return change


def plan_resizing(
    slices: Iterable[FileSlice],
    rings: Mapping[str, Ring],
    resizing: Resizing,
    options: ClusteringOptions,
    new_prefix: Callable[[], str],
) -> ClusteringPlan:
    """Plan the buckets of some partitions.

    Unlike Hudi, a plan leaves buckets alone that are neither split nor merged, unless columns to order by are set.

    Args:
        slices: the latest slices of the chosen partitions that no compaction or log compaction is pending on.
        rings: the hash rings by partition path.
        resizing: when buckets are split and merged.
        options: columns to order by, and the number of groups.
        new_prefix: makes beginnings of file ids.
    """
    groups: list[ClusteringGroup] = []
    for partition, of_partition in sorted(slices_by_partition(slices).items()):
        groups += _Partition(partition, rings[partition], of_partition, resizing, new_prefix).groups(
            bool(options.columns)
        )
    params = {ClusteringOptions.sort_columns.key: ",".join(options.columns)} if options.columns else {}
    return ClusteringPlan(tuple(groups[: options.max_groups]), options.execution_class, params)


class _Partition:
    """Plan the buckets of one partition."""

    def __init__(
        self,
        partition: str,
        ring: Ring,
        slices: Sequence[FileSlice],
        resizing: Resizing,
        new_prefix: Callable[[], str],
    ) -> None:
        places = {prefix: place for place, prefix in enumerate(ring.prefixes)}
        self._slices = {places[each.file_id.rpartition("-")[0]]: each for each in slices}
        self._partition, self._ring, self._resizing, self._new_prefix = partition, ring, resizing, new_prefix

    def groups(self, sorts: bool) -> list[ClusteringGroup]:
        """Return the groups: first the buckets to split, then those to merge, then those to bring in order."""
        splits = self._splits()
        merges = self._merges(set(splits), len(splits))
        groups = [self._group([place], children) for place, children in splits.items()]
        groups += [self._group(places, self._ring.merge(places, self._new_prefix)) for places in merges]
        if sorts:
            taken = {*splits, *(place for places in merges for place in places)}
            for place in sorted(self._slices.keys() - taken):
                renewed = ChildNode(self._ring.values[place], self._new_prefix(), NodeTag.REPLACE)
                groups.append(self._group([place], [renewed]))
        return groups

    def _splits(self) -> dict[int, Sequence[ChildNode]]:
        """Return the new nodes by the place of the bucket that they divide, largest buckets first."""
        slots = self._resizing.most - len(self._ring.values)
        large = [place for place, each in self._slices.items() if each.size > self._resizing.split_bytes]
        found: dict[int, Sequence[ChildNode]] = {}
        for place in sorted(large, key=lambda place: (-self._slices[place].size, place)):
            nodes = self._ring.split(place, self._new_prefix) if len(found) < slots else None
            if nodes is not None:
                found[place] = nodes
        return found

    def _merges(self, taken: set[int], splits: int) -> list[list[int]]:
        """Return the places of buckets to merge: small ones, first with those before them, then with those after."""
        slots = len(self._ring.values) - self._resizing.least + splits
        found: list[list[int]] = []
        for place in sorted(self._slices.keys() - taken):
            if place in taken or not self._is_small(place):
                continue
            run, size = [place], self._slices[place].size
            for step in (-1, 1):
                while slots > 0 and size <= self._resizing.merge_bytes:
                    following = (run[0 if step < 0 else -1] + step) % len(self._ring.values)
                    if following in taken or following in run or not self._is_small(following):
                        break
                    run.insert(0 if step < 0 else len(run), following)
                    size += self._slices[following].size
                    slots -= 1
            if len(run) > 1:
                taken.update(run)
                found.append(run)
        return found

    def _is_small(self, place: int) -> bool:
        found = self._slices.get(place)
        return found is not None and found.size <= self._resizing.merge_bytes

    def _group(self, places: Sequence[int], children: Sequence[ChildNode]) -> ClusteringGroup:
        change = GroupChange(self._partition, tuple(children), self._ring.sequence)
        made = group_of([self._slices[place] for place in places], len(change.prefixes), self._resizing.new_base)
        return replace(made, extra_metadata=change.extra_metadata())
