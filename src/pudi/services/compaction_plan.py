"""Plan compactions: decide when one is due, and which file slices it merges.

Source: BaseHoodieCompactionPlanGenerator, ScheduleCompactionActionExecutor and Hudi's CompactionStrategy classes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from pudi.config import CompactionOptions
from pudi.errors import InvalidArgumentError
from pudi.filegroup import FileSlice, slices_by_partition
from pudi.format import Action, CompactionOperation, CompactionPlan, FileGroupId, State, instant_to_millis
from pudi.timeline import Instant, Timeline

_MIB = 1 << 20
_LOG_FILES, _LOG_SIZE = "TOTAL_LOG_FILES", "TOTAL_LOG_FILES_SIZE"
_READ, _WRITTEN, _ALL = "TOTAL_IO_READ_MB", "TOTAL_IO_WRITE_MB", "TOTAL_IO_MB"

_Chosen = tuple[list[CompactionOperation], list[str]]
"""Operations to do, and partitions of those that are left for later."""


def plan_compaction(
    slices: Iterable[FileSlice],
    options: CompactionOptions,
    *,
    busy: Collection[FileGroupId],
    max_file_size: int,
    today: date,
) -> CompactionPlan:
    """The plan of a compaction.

    Args:
        slices: the latest file slices, with the log files of completed delta commits alone.
        options: strategies and their limits.
        busy: file groups under a pending compaction or clustering.
        max_file_size: bytes that the base file of a slice without one is taken to become.
        today: for the strategies by day.

    Returns:
        A plan, perhaps of nothing.

    Raises:
        InvalidArgumentError: a strategy by day, on partitions that are no dates.
    """
    by_partition = slices_by_partition(each for each in slices if each.logs and each.group not in busy)
    partitions = list(by_partition)
    for name in options.strategies:
        partitions = _partitions(name, partitions, options, today)
    chosen = [operation_of(each, max_file_size) for partition in partitions for each in by_partition[partition]]
    missing: list[str] = []
    for name in options.strategies:
        chosen, left = _choose(name, chosen, options, today)
        missing += left
    return CompactionPlan(tuple(chosen), missing_partitions=tuple(dict.fromkeys(missing)))


def plan_log_compaction(
    slices: Iterable[FileSlice],
    options: CompactionOptions,
    *,
    busy: Collection[FileGroupId],
    max_file_size: int,
    blocks: Callable[[FileSlice], int],
) -> CompactionPlan:
    """The plan of a log compaction: the slices with many log files or blocks (HoodieLogCompactionPlanGenerator).

    Args:
        slices: as for `plan_compaction`.
        options: says how many are many.
        busy: file groups under a pending compaction, log compaction or clustering.
        max_file_size: as for `plan_compaction`.
        blocks: counts the log blocks of a slice; 0 where they can't be merged among themselves.
    """
    least = options.log_blocks_threshold
    chosen = []
    for file_slice in slices:
        if file_slice.logs and file_slice.group not in busy:
            count = blocks(file_slice)
            if count and max(count, len(file_slice.logs)) >= least:
                chosen.append(operation_of(file_slice, max_file_size))
    return CompactionPlan(tuple(chosen), logs_only=True)


def operation_of(file_slice: FileSlice, max_file_size: int) -> CompactionOperation:
    """Return a slice as an operation of a plan, with the metrics of strategies (FileSliceMetricUtils)."""
    base = 0 if file_slice.base is None else file_slice.base.size
    logs = sum(log.size for log in file_slice.logs)
    read, written = (base + logs) // _MIB, (base or max_file_size) // _MIB
    metrics = {_LOG_FILES: len(file_slice.logs), _ALL: read + written, _READ: read, _LOG_SIZE: logs, _WRITTEN: written}
    return CompactionOperation(
        partition_path=file_slice.partition,
        file_id=file_slice.file_id,
        base_instant=file_slice.instant,
        base_file=None if file_slice.base is None else file_slice.base.name.name,
        log_files=tuple(log.name.name for log in file_slice.logs),
        metrics={name: float(value) for name, value in metrics.items()},
    )


def _partitions(name: str, partitions: list[str], options: CompactionOptions, today: date) -> list[str]:
    """The partitions that a strategy looks at, in its order (CompactionStrategy.filterPartitionPaths)."""
    if name.startswith("PartitionRegex"):
        pattern = re.compile(options.partition_regex or "")
        return [p for p in partitions if pattern.search(p)]
    if name.startswith("DayBased"):
        return sorted(partitions, key=_day, reverse=True)[: options.days]
    if "PartitionAware" in name:
        old = _before(partitions, options, today)
        ordered = sorted(partitions, key=lambda p: p.replace("/", "-"), reverse=True)
        return [p for p in ordered if (p in old) == name.startswith("Bounded")]
    return partitions


def _choose(name: str, operations: list[CompactionOperation], options: CompactionOptions, today: date) -> _Chosen:
    """The operations that a strategy takes, in its order (CompactionStrategy.orderAndFilter)."""
    if "PartitionAware" in name:
        old = _before({op.partition_path for op in operations}, options, today)
        if name.startswith("UnBounded"):
            return [op for op in operations if op.partition_path not in old], []
        kept = [op for op in operations if op.partition_path in old]
        return sorted(kept, key=lambda op: _day(op.partition_path), reverse=True), []
    if name.startswith(("UnBounded", "PartitionRegex")):
        return operations, []
    metric, least = {
        "LogFileSizeBasedCompactionStrategy": (_LOG_SIZE, options.log_size_threshold),
        "LogFileNumBasedCompactionStrategy": (_LOG_FILES, options.log_files_threshold),
    }.get(name, ("", 0))
    small: list[str] = []
    if metric:
        small = [op.partition_path for op in operations if op.metrics[metric] < least]
        operations = [op for op in operations if op.metrics[metric] >= least]
        operations.sort(key=lambda op: op.metrics[metric], reverse=True)
    kept, left = _within_io(operations, options.target_io_mb)
    return kept, small + left


def _within_io(operations: Sequence[CompactionOperation], target: int) -> _Chosen:
    """Operations until they come up to an amount of I/O; the one that goes beyond is taken (BoundedIO…Strategy)."""
    remaining, count = target, 0
    for operation in operations:
        if remaining <= 0:
            break
        remaining -= int(operation.metrics[_ALL])
        count += 1
    return list(operations[:count]), [op.partition_path for op in operations[count:]]


def _before(partitions: Collection[str], options: CompactionOptions, today: date) -> set[str]:
    """Select the partitions that are at least a number of days old."""
    latest = today - timedelta(days=options.days)
    return {p for p in partitions if _day(p) <= latest}


_HIVE_STYLE = re.compile(r"(^|/)[^/=]*=")
_DATE = re.compile(r"(\d{4})/(\d{1,2})/(\d{1,2})")


def _day(partition: str) -> date:
    """The day that a partition path names, as 2026/11/21 or year=2026/month=11/day=21."""
    match = _DATE.match(_HIVE_STYLE.sub(r"\1", partition))
    try:
        if match is not None:
            return date(*map(int, match.groups()))
    except ValueError:
        pass
    raise InvalidArgumentError(
        f"partition {partition!r} is no date such as 2026/11/21: choose a "
        f"{CompactionOptions.strategy} that isn't by day"
    )


@dataclass(frozen=True, slots=True)
class _Since:
    """Delta commits since an instant."""

    count: int
    instant: Instant


def is_due(timeline: Timeline, options: CompactionOptions, now: Callable[[], str]) -> bool:
    """Whether a write has to plan a compaction (ScheduleCompactionActionExecutor.needCompact).

    Args:
        timeline: the active timeline.
        options: the trigger and its limits.
        now: returns an instant for now; called for triggers by time only.
    """
    since = _since_compaction(timeline)
    if since is None:
        return False
    if options.trigger == "NUM_COMMITS_AFTER_LAST_REQUEST":
        since = _since_request(timeline) or since
    many = since.count >= options.max_delta_commits
    if options.trigger.startswith("NUM_COMMITS"):
        return many
    late = _seconds(now()) - _seconds(since.instant.requested) >= options.max_delta_seconds
    return {
        "TIME_ELAPSED": late,
        "NUM_AND_TIME": many and late,
        "NUM_OR_TIME": many or late,
    }.get(options.trigger, many)


def is_log_compaction_due(timeline: Timeline, options: CompactionOptions, log_compactions: Collection[str]) -> bool:
    """Whether a write has to plan a log compaction (ScheduleCompactionActionExecutor.needLogCompact).

    Args:
        timeline: the active timeline.
        options: how many delta commits it takes, since the last compaction and since the last log compaction.
        log_compactions: requested times of log compactions, of completed ones too.
    """
    since = _since_compaction(timeline)
    if since is None or timeline.pending_of(Action.LOGCOMPACTION):
        return False
    counts = [since.count]
    if log_compactions:
        counts.append(len(_delta_commits_after(timeline, max(log_compactions))))
    return min(counts) >= options.log_blocks_threshold


def _since_compaction(timeline: Timeline) -> _Since | None:
    """Completed delta commits since the last completed commit, or all of them (CompactionUtils)."""
    commits = timeline.of(Action.COMMIT)
    if commits:
        return _Since(len(_delta_commits_after(timeline, commits[-1].requested)), commits[-1])
    deltas = timeline.of(Action.DELTACOMMIT)
    return _Since(len(deltas), deltas[0]) if deltas else None


def _since_request(timeline: Timeline) -> _Since | None:
    pending = timeline.pending_of(Action.COMPACTION)
    last = (pending or timeline.of(Action.COMMIT))[-1:]
    if not last:
        return None
    deltas = timeline.of(Action.DELTACOMMIT, *State)
    return _Since(sum(1 for i in deltas if i.requested > last[0].requested), last[0])


def _delta_commits_after(timeline: Timeline, time: str) -> list[Instant]:
    return [i for i in timeline.of(Action.DELTACOMMIT) if timeline.order(i) > time]


def _seconds(instant: str) -> int:
    return instant_to_millis(instant, "UTC") // 1000
