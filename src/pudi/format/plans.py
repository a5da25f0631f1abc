"""Encode and decode plans of compactions, clusterings, index builds and cleans, and the results of the last two.

Source: HoodieCompactionPlan, HoodieClusteringPlan, HoodieIndexPlan, HoodieIndexCommitMetadata, HoodieCleanerPlan,
HoodieCleanMetadata.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from posixpath import basename
from typing import Any

from pudi.config import CleanPolicy
from pudi.errors import CorruptError, NotSupportedError
from pudi.format import FileGroupId, avro_schemas
from pudi.format.avro_file import RecordSchema, decode_avro_file, encode_avro_file
from pudi.format.avro_schemas import CLEAN_METADATA, CLEANER_PLAN, INDEX_COMMIT_METADATA, INDEX_PLAN
from pudi.format.instants import (
    BUILT_ANEW,
    BUILT_ON,
    CLUSTER,
    PLANNED_ANEW,
    ROLLED_BACK,
    RequestedReplaceMetadata,
    advising,
    decode_avro,
    decode_requested_replace_metadata,
    encode_requested_replace_metadata,
)
from pudi.format.names import parse_base_file, parse_log_file

COMPACTION_VERSION = 2
"""Version in which files are bare names; in version 1 they are whole paths (CompactionPlanMigrator)."""

LOG_COMPACTOR = "org.apache.hudi.table.action.compact.LogCompactionExecutionHelper"
"""Strategy name in the plan of a log compaction."""


@dataclass(frozen=True, slots=True)
class CompactionOperation:
    """One file slice to compact (HoodieCompactionOperation).

    Attributes:
        partition_path: partition path, relative to the table's root.
        file_id: the file group.
        base_instant: base instant of the slice.
        base_file: name of the base file; None where there are log files alone.
        log_files: names of the log files, in the order in which they are merged.
        metrics: what strategies decide by, by Hudi's names.
    """

    partition_path: str
    file_id: str
    base_instant: str
    base_file: str | None
    log_files: tuple[str, ...]
    metrics: Mapping[str, float] = field(default_factory=dict)

    @property
    def group(self) -> FileGroupId:
        """The file group."""
        return FileGroupId(self.partition_path, self.file_id)


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """The plan of a compaction or log compaction (HoodieCompactionPlan); immutable once requested.

    Attributes:
        operations: the slices.
        extra_metadata: free text by key, to be said in the commit too.
        logs_only: whether it's that of a log compaction.
        missing_partitions: partitions with slices that a strategy left for later (incremental table services).
    """

    operations: tuple[CompactionOperation, ...]
    extra_metadata: Mapping[str, str] = field(default_factory=dict)
    logs_only: bool = False
    missing_partitions: tuple[str, ...] = ()


def encode_compaction_plan(plan: CompactionPlan) -> bytes:
    """Content of a requested compaction or log compaction, in version 2."""
    strategy = {"compactorClassName": LOG_COMPACTOR, "strategyParams": {}, "version": 1}
    record = {
        "operations": [_operation_record(operation) for operation in plan.operations],
        "extraMetadata": dict(plan.extra_metadata),
        "version": COMPACTION_VERSION,
        "strategy": strategy if plan.logs_only else None,
        "preserveHoodieMetadata": plan.logs_only,
        "missingSchedulePartitions": list(plan.missing_partitions),
    }
    return encode_avro_file(_COMPACTION_PLAN, record)


@advising(BUILT_ON)
def decode_compaction_plan(data: bytes, *, path: str | None = None) -> CompactionPlan:
    """Decode the plan of a compaction or log compaction. Empty content is an empty plan.

    Args:
        data: content of the requested file.
        path: path of that file, for errors.

    Raises:
        CorruptError: not the Avro that it must be, or an operation that names no file group.
        NotSupportedError: the slice of a bootstrapped table, or a plan of a later Hudi.
    """
    if not data:
        return CompactionPlan(())
    record = decode_avro_file(data, (_COMPACTION_PLAN,), path=path)[1]
    version = record.get("version")
    if version is not None and version > COMPACTION_VERSION:
        raise NotSupportedError(
            f"a compaction plan of version {version}: this release of pudi knows 1 and 2", path=path
        )
    strategy = record.get("strategy") or {}
    return CompactionPlan(
        operations=tuple(_operation(each, path) for each in record.get("operations") or ()),
        extra_metadata=record.get("extraMetadata") or {},
        logs_only=strategy.get("compactorClassName") == LOG_COMPACTOR,
        missing_partitions=tuple(record.get("missingSchedulePartitions") or ()),
    )


_COMPACTION_PLAN = RecordSchema.of(avro_schemas.COMPACTION_PLAN)


def _operation_record(operation: CompactionOperation) -> dict[str, Any]:
    return {
        "baseInstantTime": operation.base_instant,
        "deltaFilePaths": list(operation.log_files),
        "dataFilePath": operation.base_file,
        "fileId": operation.file_id,
        "partitionPath": operation.partition_path,
        "metrics": dict(operation.metrics),
        "bootstrapFilePath": None,
    }


def _operation(record: Mapping[str, Any], path: str | None) -> CompactionOperation:
    if record.get("bootstrapFilePath"):
        raise NotSupportedError("a compaction plan over the files of a bootstrapped table", path=path)
    file_id, base_instant = record.get("fileId"), record.get("baseInstantTime")
    if not file_id or not base_instant:
        raise CorruptError("a compaction plan has an operation without file group or base instant", path=path)
    return CompactionOperation(
        partition_path=record.get("partitionPath") or "",
        file_id=file_id,
        base_instant=base_instant,
        base_file=None if record.get("dataFilePath") is None else _file_name(record["dataFilePath"]),
        log_files=tuple(_file_name(each) for each in record.get("deltaFilePaths") or ()),
        metrics=record.get("metrics") or {},
    )


SORT_AND_SIZE = "org.apache.hudi.client.clustering.run.strategy.SparkSortAndSizeExecutionStrategy"
"""Execution strategy that Hudi runs plans with: sort the records of a group and divide them among files."""

_CLUSTERING_VERSION = 1


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
            "version": _CLUSTERING_VERSION,
        }
        for group in plan.groups
    ]
    strategy = {
        "strategyClassName": plan.execution,
        "strategyParams": dict(plan.params),
        "version": _CLUSTERING_VERSION,
    }
    record = {
        "inputGroups": groups,
        "strategy": strategy,
        "extraMetadata": dict(plan.extra_metadata),
        "version": _CLUSTERING_VERSION,
        "preserveHoodieMetadata": True,
        "missingSchedulePartitions": [],
    }
    return encode_requested_replace_metadata(RequestedReplaceMetadata(CLUSTER, record, {}, _CLUSTERING_VERSION))


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
    if (record.get("version") or _CLUSTERING_VERSION) > _CLUSTERING_VERSION:
        raise NotSupportedError(
            f"a clustering plan of version {record['version']}: this release of pudi knows {_CLUSTERING_VERSION}",
            path=path,
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
        "version": _CLUSTERING_VERSION,
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
    file_id, base = record.get("fileId"), _file_name(record.get("dataFilePath"))
    parsed = parse_base_file(base)
    named = [parse_log_file(_file_name(each)) for each in record.get("deltaFilePaths") or ()]
    logs = sorted((log for log in named if log is not None), key=lambda log: log.sort_key)
    first = parsed or (logs[0] if logs else None)
    if not file_id or first is None or (base and parsed is None) or len(logs) < len(named):
        raise CorruptError("a clustering plan has a slice without file group, or names no data file", path=path)
    partition = record.get("partitionPath") or ""
    if partition and not {"", ".", ".."}.isdisjoint(partition.split("/")):
        raise CorruptError(f"a clustering plan names partition {partition!r}, which can't be one", path=path)
    names = tuple(log.name for log in logs)
    return CompactionOperation(partition, file_id, first.instant, base or None, names)


def _file_name(path: str | None) -> str:
    """The file's name: plans may name whole paths (CompactionV1MigrationHandler), whose root isn't trusted."""
    return basename(path or "")


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


_INDEX_VERSION = 1


@dataclass(frozen=True, slots=True)
class IndexedPartition:
    """One partition of the metadata table that is to be built, or was (HoodieIndexPartitionInfo).

    Attributes:
        partition: its name.
        until: requested time of the newest commit that had completed when it was planned, or built.
    """

    partition: str
    until: str


def encode_index_plan(partitions: Sequence[IndexedPartition]) -> bytes:
    """Content of a requested indexing (HoodieIndexPlan)."""
    return encode_avro_file(_INDEX_PLAN, {"version": _INDEX_VERSION, "indexPartitionInfos": _infos(partitions)})


def encode_index_commit(partitions: Sequence[IndexedPartition]) -> bytes:
    """Content of a completed indexing (HoodieIndexCommitMetadata)."""
    record = {"version": _INDEX_VERSION, "operationType": None, "indexPartitionInfos": _infos(partitions)}
    return encode_avro_file(_COMMIT, record)


@advising(BUILT_ANEW)
def decode_index_plan(data: bytes, *, path: str | None = None) -> tuple[IndexedPartition, ...]:
    """Decode the plan of an index build.

    Raises:
        CorruptError: the bytes are no plan.
    """
    infos = decode_avro_file(data, (_INDEX_PLAN,), path=path)[1].get("indexPartitionInfos") or ()
    try:
        return tuple(
            IndexedPartition(str(i["metadataPartitionPath"] or ""), i["indexUptoInstant"] or "") for i in infos
        )
    except (KeyError, TypeError) as error:
        raise CorruptError("the plan of an indexing names no partitions", path=path) from error


def _infos(partitions: Sequence[IndexedPartition]) -> list[dict[str, object]]:
    return [
        {
            "version": _INDEX_VERSION,
            "metadataPartitionPath": each.partition,
            "indexUptoInstant": each.until,
            "extraMetadata": {},
        }
        for each in partitions
    ]


_INDEX_PLAN = RecordSchema.of(INDEX_PLAN)
_COMMIT = RecordSchema.of(INDEX_COMMIT_METADATA)


_CLEAN_VERSION = 2
"""Version of both in which plans name whole paths and metadata bare names."""


@dataclass(frozen=True, slots=True)
class CleanPlan:
    """Plan of a clean: the files to delete (HoodieCleanerPlan).

    Attributes:
        retained: requested time and action of the oldest commit whose files all stay; None where the policy counts file
            slices.
        last_completed: requested time of the newest completed commit.
        files: absolute locations, by partition path.
        policy: the cleaning policy.
        extra: extra metadata, which the completed clean repeats.
    """

    retained: tuple[str, str] | None
    last_completed: str
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    policy: str = CleanPolicy.COMMITS.value
    extra: Mapping[str, str] = field(default_factory=dict)


def encode_clean_plan(plan: CleanPlan) -> bytes:
    """Content of a requested clean."""
    retained = None
    if plan.retained is not None:
        time, action = plan.retained
        retained = {"timestamp": time, "action": action, "state": "COMPLETED"}
    record: dict[str, object] = {
        "earliestInstantToRetain": retained,
        "lastCompletedCommitTimestamp": plan.last_completed,
        "policy": plan.policy,
        "filesToBeDeletedPerPartition": {},
        "version": _CLEAN_VERSION,
        "filePathsToBeDeletedPerPartition": {
            partition: [{"filePath": path, "isBootstrapBaseFile": False} for path in paths]
            for partition, paths in plan.files.items()
        },
        "partitionsToBeDeleted": [],
        "extraMetadata": dict(plan.extra),
    }
    return encode_avro_file(_CLEAN_PLAN, record)


@advising(PLANNED_ANEW.format("clean"))
def decode_clean_plan(data: bytes, *, path: str | None = None) -> CleanPlan:
    """Read the content of a requested clean; partitions to delete are passed over, only their files count.

    Args:
        data: the content.
        path: of the file, for messages.

    Raises:
        CorruptError: it is no plan of a clean.
        NotSupportedError: the plan names files outside of the table (bootstrap base files).
    """
    record = decode_avro(data, path=path)
    files: dict[str, list[str]] = {}
    try:
        for partition, named in (record.get("filePathsToBeDeletedPerPartition") or {}).items():
            if any(each.get("isBootstrapBaseFile") for each in named):
                raise NotSupportedError("the clean deletes bootstrap base files; let Apache Hudi run it", path=path)
            files.setdefault(partition, []).extend(_text(each["filePath"]) for each in named)
        for partition, names in (record.get("filesToBeDeletedPerPartition") or {}).items():
            files.setdefault(partition, []).extend(_text(name) for name in names)
        earliest = record.get("earliestInstantToRetain")
        return CleanPlan(
            None if earliest is None else (_text(earliest["timestamp"]), _text(earliest["action"])),
            _text(record.get("lastCompletedCommitTimestamp") or ""),
            {partition: tuple(dict.fromkeys(named)) for partition, named in files.items()},
            _text(record["policy"]),
            {key: _text(value) for key, value in (record.get("extraMetadata") or {}).items()},
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise CorruptError(f"this is no plan of a clean ({error!r})", path=path) from error


def encode_clean_metadata(plan: CleanPlan, started: str, took_ms: int) -> bytes:
    """Content of a completed clean that deleted all that its plan names.

    Args:
        plan: the plan.
        started: when it began, as an instant.
        took_ms: how long it took, in milliseconds.
    """
    names = {partition: [basename(path) for path in paths] for partition, paths in plan.files.items()}
    record = {
        "startCleanTime": started,
        "timeTakenInMillis": took_ms,
        "totalFilesDeleted": sum(map(len, names.values())),
        "earliestCommitToRetain": "" if plan.retained is None else plan.retained[0],
        "lastCompletedCommitTimestamp": plan.last_completed,
        "partitionMetadata": {
            partition: {
                "partitionPath": partition,
                "policy": plan.policy,
                "deletePathPatterns": files,
                "successDeleteFiles": files,
                "failedDeleteFiles": [],
                "isPartitionDeleted": False,
            }
            for partition, files in names.items()
        },
        "version": _CLEAN_VERSION,
        "bootstrapPartitionMetadata": {},
        "extraMetadata": dict(plan.extra),
    }
    return encode_avro_file(_CLEAN, record)


_CLEAN_PLAN = RecordSchema.of(CLEANER_PLAN)
_CLEAN = RecordSchema.of(CLEAN_METADATA)


def _text(value: object) -> str:
    """Return a text; the file's schema, by which a plan is decoded, may have any types."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value
