"""Encode and decode savepoints, restore plans and restore metadata.

Source: HoodieSavepointMetadata, HoodieRestorePlan, HoodieRestoreMetadata.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pudi.errors import CorruptError
from pudi.format.avro_file import RecordSchema, encode_avro_file
from pudi.format.avro_schemas import RESTORE_METADATA, RESTORE_PLAN, SAVEPOINT_METADATA
from pudi.format.instants import InstantInfo, RollbackMetadata, decode_avro, rollback_record

_SAVEPOINT = RecordSchema.of(SAVEPOINT_METADATA)
_PLAN = RecordSchema.of(RESTORE_PLAN)
_RESTORE = RecordSchema.of(RESTORE_METADATA)
_PLAN_VERSION = 2


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """Plan of a restore (HoodieRestorePlan).

    Attributes:
        target: requested time of the instant to which the table is restored.
        instants: the instants to roll back, in the order in which that is done.
    """

    target: str
    instants: tuple[InstantInfo, ...]


def encode_savepoint(user: str, comment: str, made_ms: int, files: Mapping[str, Sequence[str]]) -> bytes:
    """Content of a completed savepoint.

    Args:
        user: who made it.
        comment: why.
        made_ms: when, in milliseconds since the epoch.
        files: names of the files that it keeps, by partition path.
    """
    partitions = {path: {"partitionPath": path, "savepointDataFile": list(names)} for path, names in files.items()}
    record = {
        "savepointedBy": user,
        "savepointedAt": made_ms,
        "comments": comment,
        "partitionMetadata": partitions,
        "version": 1,
    }
    return encode_avro_file(_SAVEPOINT, record)


def encode_restore_plan(plan: RestorePlan) -> bytes:
    """Content of a requested restore."""
    return encode_avro_file(
        _PLAN,
        {
            "instantsToRollback": [{"commitTime": each.commit_time, "action": each.action} for each in plan.instants],
            "version": _PLAN_VERSION,
            "savepointToRestoreTimestamp": plan.target,
        },
    )


def decode_restore_plan(data: bytes, *, path: str | None = None) -> RestorePlan:
    """Read the content of a requested restore.

    Args:
        data: the content.
        path: of the file, for messages.

    Raises:
        CorruptError: it's no plan of a restore, or names no instant to restore to.
    """
    record = decode_avro(data, path=path)
    try:
        target = record["savepointToRestoreTimestamp"]
        instants = tuple(InstantInfo(each["commitTime"], each["action"]) for each in record["instantsToRollback"])
    except (KeyError, TypeError) as error:
        raise CorruptError(f"the plan of a restore can't be read: {error!r}", path=path) from error
    if not isinstance(target, str) or not target:
        raise CorruptError("the plan of a restore names no instant to restore to", path=path)
    return RestorePlan(target, instants)


def encode_restore_metadata(restore: str, took_ms: int, done: Sequence[tuple[InstantInfo, RollbackMetadata]]) -> bytes:
    """Content of a completed restore.

    Args:
        restore: its requested time.
        took_ms: duration in milliseconds.
        done: the instants that were rolled back, each with what that did, in this order.
    """
    instants = [{"commitTime": each.commit_time, "action": each.action} for each, _ in done]
    record = {
        "startRestoreTime": restore,
        "timeTakenInMillis": took_ms,
        "instantsToRollback": [each["commitTime"] for each in instants],
        "hoodieRestoreMetadata": {each.commit_time: [rollback_record(metadata)] for each, metadata in done},
        "version": 1,
        "restoreInstantInfo": instants,
    }
    return encode_avro_file(_RESTORE, record)
