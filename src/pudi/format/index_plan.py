"""Plan and result of an index build: frozen values in, Avro bytes out, and back.

Source: HoodieIndexPlan, HoodieIndexCommitMetadata.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pudi.errors import CorruptError
from pudi.format.avro_file import RecordSchema, decode_avro_file, encode_avro_file
from pudi.format.avro_schemas import INDEX_COMMIT_METADATA, INDEX_PLAN
from pudi.format.damaged_plan import BUILT_ANEW, advising

_VERSION = 1


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
    return encode_avro_file(_PLAN, {"version": _VERSION, "indexPartitionInfos": _infos(partitions)})


def encode_index_commit(partitions: Sequence[IndexedPartition]) -> bytes:
    """Content of a completed indexing (HoodieIndexCommitMetadata)."""
    record = {"version": _VERSION, "operationType": None, "indexPartitionInfos": _infos(partitions)}
    return encode_avro_file(_COMMIT, record)


@advising(BUILT_ANEW)
def decode_index_plan(data: bytes, *, path: str | None = None) -> tuple[IndexedPartition, ...]:
    """Decode the plan of an index build.

    Raises:
        CorruptError: the bytes are no plan.
    """
    infos = decode_avro_file(data, (_PLAN,), path=path)[1].get("indexPartitionInfos") or ()
    try:
        return tuple(
            IndexedPartition(str(i["metadataPartitionPath"] or ""), i["indexUptoInstant"] or "") for i in infos
        )
    except (KeyError, TypeError) as error:
        raise CorruptError("the plan of an indexing names no partitions", path=path) from error


def _infos(partitions: Sequence[IndexedPartition]) -> list[dict[str, object]]:
    return [
        {
            "version": _VERSION,
            "metadataPartitionPath": each.partition,
            "indexUptoInstant": each.until,
            "extraMetadata": {},
        }
        for each in partitions
    ]


_PLAN = RecordSchema.of(INDEX_PLAN)
_COMMIT = RecordSchema.of(INDEX_COMMIT_METADATA)
