"""Plans of clusterings: Avro bytes in, frozen values out, and back (HoodieClusteringPlan)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pudi.errors import CorruptError, NotSupportedError
from pudi.format.compaction_plan import CompactionOperation
from pudi.format.damaged_plan import ROLLED_BACK, advising
from pudi.format.instants import (
    RequestedReplaceMetadata,
    decode_requested_replace_metadata,
    encode_requested_replace_metadata,
)
from pudi.format.names import parse_base_file, parse_log_file

OPERATION = "CLUSTER"
"""The operation of a clustering (WriteOperationType)."""

SORT_AND_SIZE = "org.apache.hudi.client.clustering.run.strategy.SparkSortAndSizeExecutionStrategy"
"""Execution strategy that Hudi runs plans with: sort the records of a group and divide them among files."""

_VERSION = 1


@dataclass(frozen=True, slots=True)
class ClusteringGroup:
    """File slices whose records are brought together (HoodieClusteringGroup).

    Attributes:
        slices: the slices, of one partition.
        outputs: number of file groups to make of them.
        metrics: sizes, by Hudi's names.
        extra_metadata: free text by key; for buckets of consistent hashing how the ring changes.
    """

    slices: tuple[CompactionOperation, ...]
    outputs: int
    metrics: Mapping[str, float] = field(default_factory=dict)
    extra_metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusteringPlan:
    """Plan of a clustering. It never changes after it was requested.

    Attributes:
        groups: the groups, each done by itself.
        execution: Hudi's class that runs the plan; pudi only compares its name.
        params: the strategy's parameters, such as the columns to sort by.
        extra_metadata: free text by key.
    """

    groups: tuple[ClusteringGroup, ...]
    execution: str = SORT_AND_SIZE
    params: Mapping[str, str] = field(default_factory=dict)
    extra_metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def slices(self) -> tuple[CompactionOperation, ...]:
        """The slices of all groups."""
        return tuple(each for group in self.groups for each in group.slices)


def encode_clustering_plan(plan: ClusteringPlan, root: str) -> bytes:
    """Content of a requested clustering.

    Args:
        plan: the plan.
        root: location of the table: the plan names files by their whole paths.
    """
    groups = [
        {
            "slices": [_slice_record(each, root) for each in group.slices],
            "metrics": dict(group.metrics),
            "numOutputFileGroups": group.outputs,
            "extraMetadata": dict(group.extra_metadata) or None,
            "version": _VERSION,
        }
        for group in plan.groups
    ]
    strategy = {"strategyClassName": plan.execution, "strategyParams": dict(plan.params), "version": _VERSION}
    record = {
        "inputGroups": groups,
        "strategy": strategy,
        "extraMetadata": dict(plan.extra_metadata),
        "version": _VERSION,
        "preserveHoodieMetadata": True,
        "missingSchedulePartitions": [],
    }
    return encode_requested_replace_metadata(RequestedReplaceMetadata(OPERATION, record, {}, _VERSION))


@advising(ROLLED_BACK)
def decode_clustering_plan(data: bytes, *, path: str | None = None) -> ClusteringPlan:
    """Decode the plan of a clustering.

    Args:
        data: content of the requested file.
        path: path of that file, for errors.

    Raises:
        CorruptError: it isn't the Avro that it must be, or it names something else than data files of its groups.
        NotSupportedError: slices of a bootstrapped table, a plan of a later Hudi, or one that gives records new commit
            times.
    """
    record = decode_requested_replace_metadata(data, path=path).clustering_plan
    if record is None:
        raise CorruptError("a requested clustering without a plan", path=path)
    if (record.get("version") or _VERSION) > _VERSION:
        raise NotSupportedError(
            f"a clustering plan of version {record['version']}: this release of pudi knows {_VERSION}", path=path
        )
    if record.get("preserveHoodieMetadata") is False:
        raise NotSupportedError(
            "a clustering plan that gives records new commit times, as releases of Hudi before 0.14 made them; run it "
            "with that release, or roll it back",
            path=path,
        )
    strategy = record.get("strategy") or {}
    return ClusteringPlan(
        groups=tuple(_group(each, path) for each in record.get("inputGroups") or ()),
        execution=strategy.get("strategyClassName") or SORT_AND_SIZE,
        params=strategy.get("strategyParams") or {},
        extra_metadata=record.get("extraMetadata") or {},
    )


def _slice_record(operation: CompactionOperation, root: str) -> dict[str, Any]:
    folder = f"{root}/{operation.partition_path}" if operation.partition_path else root
    return {
        "dataFilePath": f"{folder}/{operation.base_file}" if operation.base_file else "",
        "deltaFilePaths": [f"{folder}/{name}" for name in reversed(operation.log_files)],  # Hudi's order here
        "fileId": operation.file_id,
        "partitionPath": operation.partition_path,
        "bootstrapFilePath": "",
        "version": _VERSION,
    }


def _group(record: Mapping[str, Any], path: str | None) -> ClusteringGroup:
    slices = tuple(_slice(each, path) for each in record.get("slices") or ())
    outputs = record.get("numOutputFileGroups") or 1
    if len({each.partition_path for each in slices}) > 1:
        raise CorruptError("a clustering plan has a group of several partitions", path=path)
    if outputs < 1:
        raise CorruptError(f"a clustering plan makes {outputs} file groups of a group", path=path)
    return ClusteringGroup(slices, int(outputs), record.get("metrics") or {}, record.get("extraMetadata") or {})


def _slice(record: Mapping[str, Any], path: str | None) -> CompactionOperation:
    if record.get("bootstrapFilePath"):
        raise NotSupportedError("a clustering plan over the files of a bootstrapped table", path=path)
    file_id, base = record.get("fileId"), _name(record.get("dataFilePath"))
    parsed = parse_base_file(base)
    named = [parse_log_file(_name(each)) for each in record.get("deltaFilePaths") or ()]
    logs = sorted((log for log in named if log is not None), key=lambda log: log.sort_key)
    first = parsed or (logs[0] if logs else None)
    if not file_id or first is None or (base and parsed is None) or len(logs) < len(named):
        raise CorruptError("a clustering plan has a slice without file group, or names no data file", path=path)
    partition = record.get("partitionPath") or ""
    if partition and not {"", ".", ".."}.isdisjoint(partition.split("/")):
        raise CorruptError(f"a clustering plan names partition {partition!r}, which can't be one", path=path)
    names = tuple(log.name for log in logs)
    return CompactionOperation(partition, file_id, first.instant, base or None, names)


def _name(path: str | None) -> str:
    """The file's name: plans name whole paths, which may name the root differently and are not trusted."""
    return (path or "").rpartition("/")[2]


def group_sizes(sizes: Sequence[tuple[int, int, int]], new_base: int) -> dict[str, float]:
    """Return the metrics of a group (FileSliceMetricUtils).

    Args:
        sizes: for each slice the bytes of its base file, 0 without one, the bytes of its log files, and their number.
        new_base: assumed bytes of a base file that a slice without one will get.
    """
    logs = sum(size for _, size, _ in sizes)
    read = sum(base for base, _, _ in sizes) + logs
    written = sum(base or new_base for base, _, _ in sizes)
    metrics = {
        "TOTAL_LOG_FILES": sum(count for _, _, count in sizes),
        "TOTAL_IO_MB": (read >> 20) + (written >> 20),
        "TOTAL_IO_READ_MB": read >> 20,
        "TOTAL_LOG_FILES_SIZE": logs,
        "TOTAL_IO_WRITE_MB": written >> 20,
    }
    return {name: float(value) for name, value in metrics.items()}
