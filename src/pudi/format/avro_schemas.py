"""Avro schemas of the instants that pudi writes, field by field as Hudi 1.2 embeds them in its files."""

from __future__ import annotations

from typing import Any, Final

Schema = dict[str, Any]

_JAVA_STRING: Schema = {"avro.java.string": "String"}
STRING: Final[Schema] = {"type": "string", **_JAVA_STRING}
"""A text, for Java's generated classes."""


def array(items: object, **more: object) -> Schema:
    """A list."""
    return {"type": "array", "items": items, **more}


def mapping(values: object, **more: object) -> Schema:
    """A map from texts."""
    return {"type": "map", "values": values, **_JAVA_STRING, **more}


def record(name: str, *fields: Schema, **more: object) -> Schema:
    """A record."""
    return {"type": "record", "name": name, **more, "fields": list(fields)}


def field(name: str, kind: object, **more: object) -> Schema:
    """A field of a record."""
    return {"name": name, "type": kind, **more}


def optional(name: str, kind: object, doc: str | None = None) -> Schema:
    """A field that may be null, and is by default."""
    return field(name, ["null", kind], **({} if doc is None else {"doc": doc}), default=None)


NAMESPACE: Final = "org.apache.hudi.avro.model"
"""Namespace of all of Hudi's own records."""

_VERSION = field("version", ["int", "null"], default=1)

_RUNTIME_STATS = record(
    "HoodieRuntimeStats", *(optional(f"total{phase}Time", "long") for phase in ("Scan", "Create", "Upsert"))
)

_WRITE_STAT = record(
    "HoodieWriteStat",
    optional("fileId", STRING),
    optional("path", STRING),
    optional("prevCommit", STRING),
    optional("numWrites", "long"),
    optional("numDeletes", "long"),
    optional("numUpdateWrites", "long"),
    optional("totalWriteBytes", "long"),
    optional("totalWriteErrors", "long"),
    optional("partitionPath", STRING),
    optional("totalLogRecords", "long"),
    optional("totalLogFiles", "long"),
    optional("totalUpdatedRecordsCompacted", "long"),
    optional("numInserts", "long"),
    optional("totalLogBlocks", "long"),
    optional("totalCorruptLogBlock", "long"),
    optional("totalRollbackBlocks", "long"),
    optional("fileSizeInBytes", "long"),
    optional("logVersion", "int"),
    optional("logOffset", "long"),
    optional("baseFile", STRING),
    optional("logFiles", array(STRING, default=None)),
    optional("cdcStats", mapping("long", default=None)),
    optional("prevBaseFile", STRING),
    optional("minEventTime", "long"),
    optional("maxEventTime", "long"),
    optional("runtimeStats", _RUNTIME_STATS),
    optional("totalLogFilesCompacted", "long"),
    optional("totalLogReadTimeMs", "long"),
    optional("totalLogSizeCompacted", "long"),
    optional("tempPath", STRING),
    optional("numUpdates", "long"),
)


def _commit_fields(extra_metadata: Schema) -> tuple[Schema, ...]:
    return (
        optional("partitionToWriteStats", mapping(array(_WRITE_STAT))),
        optional("compacted", "boolean"),
        optional("extraMetadata", extra_metadata),
        _VERSION,
        optional("operationType", STRING),
    )


COMMIT_METADATA: Final = record(
    "HoodieCommitMetadata", *_commit_fields(mapping(STRING, default=None)), namespace=NAMESPACE
)
"""A completed commit or deltacommit, and any inflight write."""

REPLACE_COMMIT_METADATA: Final = record(
    "HoodieReplaceCommitMetadata",
    *_commit_fields(mapping(STRING)),
    optional("partitionToReplaceFileIds", mapping(array(STRING))),
    namespace=NAMESPACE,
)
"""A completed replacecommit."""

_SLICE = record(
    "HoodieSliceInfo",
    optional("dataFilePath", STRING),
    optional("deltaFilePaths", array(STRING)),
    field("fileId", ["null", STRING]),
    optional("partitionPath", STRING),
    optional("bootstrapFilePath", STRING),
    _VERSION,
)

_CLUSTERING_GROUP = record(
    "HoodieClusteringGroup",
    optional("slices", array(_SLICE)),
    optional("metrics", mapping("double")),
    field("numOutputFileGroups", ["int", "null"], default=1),
    optional("extraMetadata", mapping(STRING)),
    _VERSION,
)

_CLUSTERING_STRATEGY = record(
    "HoodieClusteringStrategy",
    optional("strategyClassName", STRING),
    optional("strategyParams", mapping(STRING)),
    _VERSION,
)

_CLUSTERING_PLAN = record(
    "HoodieClusteringPlan",
    optional("inputGroups", array(_CLUSTERING_GROUP)),
    optional("strategy", _CLUSTERING_STRATEGY),
    optional("extraMetadata", mapping(STRING)),
    _VERSION,
    optional("preserveHoodieMetadata", "boolean"),
    optional("missingSchedulePartitions", array(STRING)),
)

REQUESTED_REPLACE_METADATA: Final = record(
    "HoodieRequestedReplaceMetadata",
    optional("operationType", STRING),
    optional("clusteringPlan", _CLUSTERING_PLAN),
    optional("extraMetadata", mapping(STRING)),
    _VERSION,
    namespace=NAMESPACE,
)
"""A requested replacecommit or clustering."""

_COMPACTION_OPERATION = record(
    "HoodieCompactionOperation",
    field("baseInstantTime", ["null", STRING]),
    optional("deltaFilePaths", array(STRING)),
    optional("dataFilePath", STRING),
    field("fileId", ["null", STRING]),
    optional("partitionPath", STRING),
    optional("metrics", mapping("double")),
    optional("bootstrapFilePath", STRING),
)

_COMPACTION_STRATEGY = record(
    "HoodieCompactionStrategy",
    optional(
        "compactorClassName",
        STRING,
        "The class name that is provided here should extend CompactionExecutionStrategy abstract class, idea is that "
        "the plan generator will also provide the execution strategy to use.",
    ),
    optional(
        "strategyParams",
        mapping(STRING),
        "These parameters play a key role in determining which action type it is i.e. compaction or logcompaction and "
        "it will also include configs that determine how compaction needs to be executed.",
    ),
    _VERSION,
)

COMPACTION_PLAN: Final = record(
    "HoodieCompactionPlan",
    optional("operations", array(_COMPACTION_OPERATION)),
    optional("extraMetadata", mapping(STRING)),
    _VERSION,
    optional("strategy", _COMPACTION_STRATEGY),
    field("preserveHoodieMetadata", ["boolean", "null"], default=False),
    optional("missingSchedulePartitions", array(STRING)),
    namespace=NAMESPACE,
)
"""A requested compaction or log compaction."""

_INSTANT_INFO = record("HoodieInstantInfo", field("commitTime", STRING), field("action", STRING))

_ROLLBACK_REQUEST = record(
    "HoodieRollbackRequest",
    field("partitionPath", STRING),
    optional("fileId", STRING),
    optional("latestBaseInstant", STRING),
    field("filesToBeDeleted", array(STRING, default=[]), default=[]),
    optional("logBlocksToBeDeleted", mapping("long")),
)

ROLLBACK_PLAN: Final = record(
    "HoodieRollbackPlan",
    optional("instantToRollback", _INSTANT_INFO, "Hoodie instant that needs to be rolled back"),
    optional("RollbackRequests", array(_ROLLBACK_REQUEST)),
    _VERSION,
    namespace=NAMESPACE,
)
"""A requested rollback."""

_ROLLBACK_PARTITION_METADATA = record(
    "HoodieRollbackPartitionMetadata",
    field("partitionPath", STRING),
    field("successDeleteFiles", array(STRING)),
    field("failedDeleteFiles", array(STRING)),
    optional("rollbackLogFiles", mapping("long")),
    optional("logFilesFromFailedCommit", mapping("long")),
)

ROLLBACK_METADATA: Final = record(
    "HoodieRollbackMetadata",
    field("startRollbackTime", STRING),
    field("timeTakenInMillis", "long"),
    field("totalFilesDeleted", "int"),
    field("commitsRollback", array(STRING)),
    field("partitionMetadata", mapping(_ROLLBACK_PARTITION_METADATA)),
    _VERSION,
    field("instantsRollback", array(_INSTANT_INFO, default=[]), default=[]),
    namespace=NAMESPACE,
)
"""A completed rollback."""

_SAVEPOINT_PARTITION = record(
    "HoodieSavepointPartitionMetadata",
    field("partitionPath", STRING),
    field("savepointDataFile", array(STRING)),
)

SAVEPOINT_METADATA: Final = record(
    "HoodieSavepointMetadata",
    field("savepointedBy", STRING),
    field("savepointedAt", "long"),
    field("comments", STRING),
    field("partitionMetadata", mapping(_SAVEPOINT_PARTITION)),
    _VERSION,
    namespace=NAMESPACE,
)
"""A completed savepoint."""

RESTORE_PLAN: Final = record(
    "HoodieRestorePlan",
    field("instantsToRollback", array(_INSTANT_INFO, default=None), default=[]),
    field("version", ["int", "null"], default=2),
    optional("savepointToRestoreTimestamp", STRING),
    namespace=NAMESPACE,
)
"""A requested restore."""

RESTORE_METADATA: Final = record(
    "HoodieRestoreMetadata",
    field("startRestoreTime", STRING),
    field("timeTakenInMillis", "long"),
    field("instantsToRollback", array(STRING)),
    field("hoodieRestoreMetadata", mapping(array(["null", ROLLBACK_METADATA], default=None))),
    _VERSION,
    field("restoreInstantInfo", array("HoodieInstantInfo", default=[]), default=[]),
    namespace=NAMESPACE,
)
"""A completed restore."""

_ACTION_INSTANT = record(
    "HoodieActionInstant", field("timestamp", STRING), field("action", STRING), field("state", STRING)
)

_CLEAN_FILE = record(
    "HoodieCleanFileInfo",
    optional("filePath", STRING),
    optional("isBootstrapBaseFile", "boolean"),
)

CLEANER_PLAN: Final = record(
    "HoodieCleanerPlan",
    optional("earliestInstantToRetain", _ACTION_INSTANT),
    field("lastCompletedCommitTimestamp", STRING, default=""),
    field("policy", STRING),
    optional("filesToBeDeletedPerPartition", mapping(array(STRING))),
    _VERSION,
    optional("filePathsToBeDeletedPerPartition", mapping(array(_CLEAN_FILE))),
    optional("partitionsToBeDeleted", array(STRING)),
    optional("extraMetadata", mapping(STRING)),
    namespace=NAMESPACE,
)
"""A requested clean."""

_CLEAN_PARTITION = record(
    "HoodieCleanPartitionMetadata",
    field("partitionPath", STRING),
    field("policy", STRING),
    field("deletePathPatterns", array(STRING)),
    field("successDeleteFiles", array(STRING)),
    field("failedDeleteFiles", array(STRING)),
    optional("isPartitionDeleted", "boolean"),
)

CLEAN_METADATA: Final = record(
    "HoodieCleanMetadata",
    field("startCleanTime", STRING),
    field("timeTakenInMillis", "long"),
    field("totalFilesDeleted", "int"),
    field("earliestCommitToRetain", STRING),
    field("lastCompletedCommitTimestamp", STRING, default=""),
    field("partitionMetadata", mapping(_CLEAN_PARTITION)),
    _VERSION,
    optional("bootstrapPartitionMetadata", mapping("HoodieCleanPartitionMetadata")),
    optional("extraMetadata", mapping(STRING)),
    namespace=NAMESPACE,
)
"""A completed clean."""

_INDEX_PARTITION = record(
    "HoodieIndexPartitionInfo",
    _VERSION,
    optional("metadataPartitionPath", STRING),
    optional("indexUptoInstant", STRING),
    optional("extraMetadata", mapping(STRING)),
    namespace=NAMESPACE,
)

INDEX_PLAN: Final = record(
    "HoodieIndexPlan", _VERSION, optional("indexPartitionInfos", array(_INDEX_PARTITION)), namespace=NAMESPACE
)
"""A requested indexing."""

INDEX_COMMIT_METADATA: Final = record(
    "HoodieIndexCommitMetadata",
    _VERSION,
    optional("operationType", STRING),
    optional("indexPartitionInfos", array(_INDEX_PARTITION)),
    namespace=NAMESPACE,
)
"""A completed indexing."""
