"""Plan and result of a clean: frozen values in, Avro bytes out (HoodieCleanerPlan, HoodieCleanMetadata)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from posixpath import basename

from pudi.config import CleanPolicy
from pudi.errors import CorruptError, NotSupportedError
from pudi.format.avro_file import RecordSchema, encode_avro_file
from pudi.format.avro_schemas import CLEAN_METADATA, CLEANER_PLAN
from pudi.format.instants import PLANNED_ANEW, advising, decode_avro

VERSION = 2
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
        "version": VERSION,
        "filePathsToBeDeletedPerPartition": {
            partition: [{"filePath": path, "isBootstrapBaseFile": False} for path in paths]
            for partition, paths in plan.files.items()
        },
        "partitionsToBeDeleted": [],
        "extraMetadata": dict(plan.extra),
    }
    return encode_avro_file(_PLAN, record)


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
        "version": VERSION,
        "bootstrapPartitionMetadata": {},
        "extraMetadata": dict(plan.extra),
    }
    return encode_avro_file(_METADATA, record)


_PLAN = RecordSchema.of(CLEANER_PLAN)
_METADATA = RecordSchema.of(CLEAN_METADATA)


def _text(value: object) -> str:
    """Return a text; the file's schema, by which a plan is decoded, may have any types."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value
