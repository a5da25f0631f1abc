"""Plan and result of a clean: frozen values in, Avro bytes out (FORMAT 2.4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pudi.format.avro_file import RecordSchema, encode_avro_file
from pudi.format.avro_schemas import CLEAN_METADATA, CLEANER_PLAN

VERSION = 2
"""Version of both in which plans name whole paths and metadata bare names."""

BY_COMMITS = "KEEP_LATEST_COMMITS"
"""The policy that keeps what the newest commits saw (HoodieCleaningPolicy)."""

BY_VERSIONS = "KEEP_LATEST_FILE_VERSIONS"
"""The policy that keeps a number of file slices of each file group."""


@dataclass(frozen=True, slots=True)
class CleanPlan:
    """What a clean is to delete (HoodieCleanerPlan).

    Attributes:
        retained: requested time and action of the oldest commit whose files all stay; None where the policy counts file
            slices.
        last_completed: requested time of the newest completed commit.
        files: absolute locations, by partition path.
        policy: the cleaning policy.
    """

    retained: tuple[str, str] | None
    last_completed: str
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    policy: str = BY_COMMITS


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
        "version": VERSION,
        "filePathsToBeDeletedPerPartition": {
            partition: [{"filePath": path, "isBootstrapBaseFile": False} for path in paths]
            for partition, paths in plan.files.items()
        },
        "partitionsToBeDeleted": [],
        "extraMetadata": {},
    }
    return encode_avro_file(_PLAN, record)


def encode_clean_metadata(plan: CleanPlan, started: str, took_ms: int) -> bytes:
    """Content of a completed clean that deleted all that its plan names.

    Args:
        plan: the plan.
        started: when it began, as an instant.
        took_ms: how long it took, in milliseconds.
    """
    names = {partition: [_name(path) for path in paths] for partition, paths in plan.files.items()}
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
        "version": VERSION,
        "bootstrapPartitionMetadata": {},
        "extraMetadata": {},
    }
    return encode_avro_file(_METADATA, record)


_PLAN = RecordSchema.of(CLEANER_PLAN)
_METADATA = RecordSchema.of(CLEAN_METADATA)


def _name(path: str) -> str:
    return path.rpartition("/")[2]
