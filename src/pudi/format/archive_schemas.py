"""Avro schemas of what archives hold: entries of layout 1, rows of layout 2.

Source: HoodieArchivedMetaEntry, HoodieLSMTimelineInstant.
"""

from __future__ import annotations

from typing import Any, Final

from pudi.format.avro_parts import STRING, Schema, array, field, mapping, optional, record
from pudi.format.avro_schemas import (
    CLEAN_METADATA,
    CLEANER_PLAN,
    COMMIT_METADATA,
    COMPACTION_PLAN,
    NAMESPACE,
    REPLACE_COMMIT_METADATA,
    REQUESTED_REPLACE_METADATA,
    ROLLBACK_METADATA,
    SAVEPOINT_METADATA,
)

_VERSION = field("version", ["int", "null"], default=1)

_INDEX_PARTITION = record(
    "HoodieIndexPartitionInfo",
    _VERSION,
    optional("metadataPartitionPath", STRING),
    optional("indexUptoInstant", STRING),
    optional("extraMetadata", mapping(STRING)),
)

_INDEX = record(
    "HoodieIndexCommitMetadata",
    _VERSION,
    optional("operationType", STRING),
    optional("indexPartitionInfos", array(_INDEX_PARTITION)),
)

_COMPACTION_STAT = record(
    "HoodieCompactionWriteStat",
    optional("partitionPath", STRING),
    optional("totalLogRecords", "long"),
    optional("totalLogFiles", "long"),
    optional("totalUpdatedRecordsCompacted", "long"),
    field("hoodieWriteStat", ["null", "HoodieWriteStat"]),
)

_COMPACTION_METADATA = record(
    "HoodieCompactionMetadata",
    field("partitionToCompactionWriteStats", ["null", mapping(array(_COMPACTION_STAT))]),
)


def _named_once(schema: Any, seen: set[str]) -> Any:
    """A schema in which named types are defined where they come first, in the namespace of the whole."""
    if isinstance(schema, list):
        return [_named_once(branch, seen) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") != "record":
        return {key: _named_once(each, seen) if key in {"type", "items", "values"} else each
                for key, each in schema.items()}  # fmt: skip
    if schema["name"] in seen:
        return schema["name"]
    seen.add(schema["name"])
    inner = {key: each for key, each in schema.items() if key != "namespace"}
    return {**inner, "fields": [_named_once(each, seen) for each in schema["fields"]]}


def _entry() -> Schema:
    fields = (
        optional("hoodieCommitMetadata", COMMIT_METADATA),
        optional("hoodieCleanMetadata", CLEAN_METADATA),
        optional("hoodieCompactionMetadata", _COMPACTION_METADATA),
        optional("hoodieRollbackMetadata", ROLLBACK_METADATA),
        optional("hoodieSavePointMetadata", SAVEPOINT_METADATA),
        optional("commitTime", STRING),
        optional("actionType", STRING),
        _VERSION,
        optional("hoodieCompactionPlan", COMPACTION_PLAN),
        optional("hoodieCleanerPlan", CLEANER_PLAN),
        optional("actionState", STRING),
        optional("hoodieReplaceCommitMetadata", REPLACE_COMMIT_METADATA),
        optional("hoodieRequestedReplaceMetadata", REQUESTED_REPLACE_METADATA),
        optional("HoodieInflightReplaceMetadata", COMMIT_METADATA),
        optional("hoodieIndexCommitMetadata", _INDEX),
        optional("stateTransitionTime", STRING),
    )
    made: Schema = _named_once(record("HoodieArchivedMetaEntry", *fields), set())
    return {**made, "namespace": NAMESPACE}


ARCHIVED_ENTRY: Final = _entry()
"""One state of an instant in an archive of layout 1."""

HISTORY_ROW: Final = record(
    "HoodieLSMTimelineInstant",
    optional("instantTime", STRING),
    optional("completionTime", STRING),
    optional("action", STRING),
    optional("metadata", "bytes"),
    optional("plan", "bytes"),
    field("version", "int", default=1),
    namespace=NAMESPACE,
)
"""One instant in an archive of layout 2."""
