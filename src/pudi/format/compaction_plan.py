"""Plans of compactions and log compactions: Avro bytes in, frozen values out, and back (HoodieCompactionPlan)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pudi.errors import CorruptError, NotSupportedError
from pudi.format import avro_schemas
from pudi.format.avro_file import RecordSchema, decode_avro_file, encode_avro_file
from pudi.format.damaged_plan import BUILT_ON, advising

PLAN_VERSION = 2
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
    def group(self) -> tuple[str, str]:
        """Partition path and file id."""
        return self.partition_path, self.file_id


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
        "version": PLAN_VERSION,
        "strategy": strategy if plan.logs_only else None,
        "preserveHoodieMetadata": plan.logs_only,
        "missingSchedulePartitions": list(plan.missing_partitions),
    }
    return encode_avro_file(_PLAN, record)


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
    record = decode_avro_file(data, (_PLAN,), path=path)[1]
    version = record.get("version")
    if version is not None and version > PLAN_VERSION:
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


_PLAN = RecordSchema.of(avro_schemas.COMPACTION_PLAN)


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
        base_file=_name(record.get("dataFilePath")),
        log_files=tuple(_name(each) or "" for each in record.get("deltaFilePaths") or ()),
        metrics=record.get("metrics") or {},
    )


def _name(path: str | None) -> str | None:
    """The file's name: in version 1 the path may be whole (CompactionV1MigrationHandler)."""
    return None if path is None else path.rpartition("/")[2]
