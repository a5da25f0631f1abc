"""Avro schemas of the instants that pudi writes, field by field as Hudi 1.2 embeds them in its files."""

from __future__ import annotations

from typing import Final

from pudi.format.avro_parts import STRING as _STRING
from pudi.format.avro_parts import Schema
from pudi.format.avro_parts import array as _array
from pudi.format.avro_parts import field as _field
from pudi.format.avro_parts import mapping as _map
from pudi.format.avro_parts import optional as _optional
from pudi.format.avro_parts import record as _record

NAMESPACE: Final = "org.apache.hudi.avro.model"
"""Namespace of all of Hudi's own records."""

_VERSION = _field("version", ["int", "null"], default=1)

_RUNTIME_STATS = _record(
    "HoodieRuntimeStats", *(_optional(f"total{phase}Time", "long") for phase in ("Scan", "Create", "Upsert"))
)

_WRITE_STAT = _record(
    "HoodieWriteStat",
    _optional("fileId", _STRING),
    _optional("path", _STRING),
    _optional("prevCommit", _STRING),
    _optional("numWrites", "long"),
    _optional("numDeletes", "long"),
    _optional("numUpdateWrites", "long"),
    _optional("totalWriteBytes", "long"),
    _optional("totalWriteErrors", "long"),
    _optional("partitionPath", _STRING),
    _optional("totalLogRecords", "long"),
    _optional("totalLogFiles", "long"),
    _optional("totalUpdatedRecordsCompacted", "long"),
    _optional("numInserts", "long"),
    _optional("totalLogBlocks", "long"),
    _optional("totalCorruptLogBlock", "long"),
    _optional("totalRollbackBlocks", "long"),
    _optional("fileSizeInBytes", "long"),
    _optional("logVersion", "int"),
    _optional("logOffset", "long"),
    _optional("baseFile", _STRING),
    _optional("logFiles", _array(_STRING, default=None)),
    _optional("cdcStats", _map("long", default=None)),
    _optional("prevBaseFile", _STRING),
    _optional("minEventTime", "long"),
    _optional("maxEventTime", "long"),
    _optional("runtimeStats", _RUNTIME_STATS),
    _optional("totalLogFilesCompacted", "long"),
    _optional("totalLogReadTimeMs", "long"),
    _optional("totalLogSizeCompacted", "long"),
    _optional("tempPath", _STRING),
    _optional("numUpdates", "long"),
)


def _commit_fields(extra_metadata: Schema) -> tuple[Schema, ...]:
    return (
        _optional("partitionToWriteStats", _map(_array(_WRITE_STAT))),
        _optional("compacted", "boolean"),
        _optional("extraMetadata", extra_metadata),
        _VERSION,
        _optional("operationType", _STRING),
    )


COMMIT_METADATA: Final = _record(
    "HoodieCommitMetadata", *_commit_fields(_map(_STRING, default=None)), namespace=NAMESPACE
)
"""A completed commit or deltacommit, and any inflight write."""

REPLACE_COMMIT_METADATA: Final = _record(
    "HoodieReplaceCommitMetadata",
    *_commit_fields(_map(_STRING)),
    _optional("partitionToReplaceFileIds", _map(_array(_STRING))),
    namespace=NAMESPACE,
)
"""A completed replacecommit."""

_SLICE = _record(
    "HoodieSliceInfo",
    _optional("dataFilePath", _STRING),
    _optional("deltaFilePaths", _array(_STRING)),
    _field("fileId", ["null", _STRING]),
    _optional("partitionPath", _STRING),
    _optional("bootstrapFilePath", _STRING),
    _VERSION,
)

_CLUSTERING_GROUP = _record(
    "HoodieClusteringGroup",
    _optional("slices", _array(_SLICE)),
    _optional("metrics", _map("double")),
    _field("numOutputFileGroups", ["int", "null"], default=1),
    _optional("extraMetadata", _map(_STRING)),
    _VERSION,
)

_CLUSTERING_STRATEGY = _record(
    "HoodieClusteringStrategy",
    _optional("strategyClassName", _STRING),
    _optional("strategyParams", _map(_STRING)),
    _VERSION,
)

_CLUSTERING_PLAN = _record(
    "HoodieClusteringPlan",
    _optional("inputGroups", _array(_CLUSTERING_GROUP)),
    _optional("strategy", _CLUSTERING_STRATEGY),
    _optional("extraMetadata", _map(_STRING)),
    _VERSION,
    _optional("preserveHoodieMetadata", "boolean"),
    _optional("missingSchedulePartitions", _array(_STRING)),
)

REQUESTED_REPLACE_METADATA: Final = _record(
    "HoodieRequestedReplaceMetadata",
    _optional("operationType", _STRING),
    _optional("clusteringPlan", _CLUSTERING_PLAN),
    _optional("extraMetadata", _map(_STRING)),
    _VERSION,
    namespace=NAMESPACE,
)
"""A requested replacecommit or clustering."""

_COMPACTION_OPERATION = _record(
    "HoodieCompactionOperation",
    _field("baseInstantTime", ["null", _STRING]),
    _optional("deltaFilePaths", _array(_STRING)),
    _optional("dataFilePath", _STRING),
    _field("fileId", ["null", _STRING]),
    _optional("partitionPath", _STRING),
    _optional("metrics", _map("double")),
    _optional("bootstrapFilePath", _STRING),
)

_COMPACTION_STRATEGY = _record(
    "HoodieCompactionStrategy",
    _optional(
        "compactorClassName",
        _STRING,
        "The class name that is provided here should extend CompactionExecutionStrategy abstract class, idea is that "
        "the plan generator will also provide the execution strategy to use.",
    ),
    _optional(
        "strategyParams",
        _map(_STRING),
        "These parameters play a key role in determining which action type it is i.e. compaction or logcompaction and "
        "it will also include configs that determine how compaction needs to be executed.",
    ),
    _VERSION,
)

COMPACTION_PLAN: Final = _record(
    "HoodieCompactionPlan",
    _optional("operations", _array(_COMPACTION_OPERATION)),
    _optional("extraMetadata", _map(_STRING)),
    _VERSION,
    _optional("strategy", _COMPACTION_STRATEGY),
    _field("preserveHoodieMetadata", ["boolean", "null"], default=False),
    _optional("missingSchedulePartitions", _array(_STRING)),
    namespace=NAMESPACE,
)
"""A requested compaction or log compaction."""

_INSTANT_INFO = _record("HoodieInstantInfo", _field("commitTime", _STRING), _field("action", _STRING))

_ROLLBACK_REQUEST = _record(
    "HoodieRollbackRequest",
    _field("partitionPath", _STRING),
    _optional("fileId", _STRING),
    _optional("latestBaseInstant", _STRING),
    _field("filesToBeDeleted", _array(_STRING, default=[]), default=[]),
    _optional("logBlocksToBeDeleted", _map("long")),
)

ROLLBACK_PLAN: Final = _record(
    "HoodieRollbackPlan",
    _optional("instantToRollback", _INSTANT_INFO, "Hoodie instant that needs to be rolled back"),
    _optional("RollbackRequests", _array(_ROLLBACK_REQUEST)),
    _VERSION,
    namespace=NAMESPACE,
)
"""A requested rollback."""

_ROLLBACK_PARTITION_METADATA = _record(
    "HoodieRollbackPartitionMetadata",
    _field("partitionPath", _STRING),
    _field("successDeleteFiles", _array(_STRING)),
    _field("failedDeleteFiles", _array(_STRING)),
    _optional("rollbackLogFiles", _map("long")),
    _optional("logFilesFromFailedCommit", _map("long")),
)

ROLLBACK_METADATA: Final = _record(
    "HoodieRollbackMetadata",
    _field("startRollbackTime", _STRING),
    _field("timeTakenInMillis", "long"),
    _field("totalFilesDeleted", "int"),
    _field("commitsRollback", _array(_STRING)),
    _field("partitionMetadata", _map(_ROLLBACK_PARTITION_METADATA)),
    _VERSION,
    _field("instantsRollback", _array(_INSTANT_INFO, default=[]), default=[]),
    namespace=NAMESPACE,
)
"""A completed rollback."""

_SAVEPOINT_PARTITION = _record(
    "HoodieSavepointPartitionMetadata",
    _field("partitionPath", _STRING),
    _field("savepointDataFile", _array(_STRING)),
)

SAVEPOINT_METADATA: Final = _record(
    "HoodieSavepointMetadata",
    _field("savepointedBy", _STRING),
    _field("savepointedAt", "long"),
    _field("comments", _STRING),
    _field("partitionMetadata", _map(_SAVEPOINT_PARTITION)),
    _VERSION,
    namespace=NAMESPACE,
)
"""A completed savepoint."""

RESTORE_PLAN: Final = _record(
    "HoodieRestorePlan",
    _field("instantsToRollback", _array(_INSTANT_INFO, default=None), default=[]),
    _field("version", ["int", "null"], default=2),
    _optional("savepointToRestoreTimestamp", _STRING),
    namespace=NAMESPACE,
)
"""A requested restore."""

RESTORE_METADATA: Final = _record(
    "HoodieRestoreMetadata",
    _field("startRestoreTime", _STRING),
    _field("timeTakenInMillis", "long"),
    _field("instantsToRollback", _array(_STRING)),
    _field("hoodieRestoreMetadata", _map(_array(["null", ROLLBACK_METADATA], default=None))),
    _VERSION,
    _field("restoreInstantInfo", _array("HoodieInstantInfo", default=[]), default=[]),
    namespace=NAMESPACE,
)
"""A completed restore."""

_ACTION_INSTANT = _record(
    "HoodieActionInstant", _field("timestamp", _STRING), _field("action", _STRING), _field("state", _STRING)
)

_CLEAN_FILE = _record(
    "HoodieCleanFileInfo",
    _optional("filePath", _STRING),
    _optional("isBootstrapBaseFile", "boolean"),
)

CLEANER_PLAN: Final = _record(
    "HoodieCleanerPlan",
    _optional("earliestInstantToRetain", _ACTION_INSTANT),
    _field("lastCompletedCommitTimestamp", _STRING, default=""),
    _field("policy", _STRING),
    _optional("filesToBeDeletedPerPartition", _map(_array(_STRING))),
    _VERSION,
    _optional("filePathsToBeDeletedPerPartition", _map(_array(_CLEAN_FILE))),
    _optional("partitionsToBeDeleted", _array(_STRING)),
    _optional("extraMetadata", _map(_STRING)),
    namespace=NAMESPACE,
)
"""A requested clean."""

_CLEAN_PARTITION = _record(
    "HoodieCleanPartitionMetadata",
    _field("partitionPath", _STRING),
    _field("policy", _STRING),
    _field("deletePathPatterns", _array(_STRING)),
    _field("successDeleteFiles", _array(_STRING)),
    _field("failedDeleteFiles", _array(_STRING)),
    _optional("isPartitionDeleted", "boolean"),
)

CLEAN_METADATA: Final = _record(
    "HoodieCleanMetadata",
    _field("startCleanTime", _STRING),
    _field("timeTakenInMillis", "long"),
    _field("totalFilesDeleted", "int"),
    _field("earliestCommitToRetain", _STRING),
    _field("lastCompletedCommitTimestamp", _STRING, default=""),
    _field("partitionMetadata", _map(_CLEAN_PARTITION)),
    _VERSION,
    _optional("bootstrapPartitionMetadata", _map("HoodieCleanPartitionMetadata")),
    _optional("extraMetadata", _map(_STRING)),
    namespace=NAMESPACE,
)
"""A completed clean."""

_INDEX_PARTITION = _record(
    "HoodieIndexPartitionInfo",
    _VERSION,
    _optional("metadataPartitionPath", _STRING),
    _optional("indexUptoInstant", _STRING),
    _optional("extraMetadata", _map(_STRING)),
    namespace=NAMESPACE,
)

INDEX_PLAN: Final = _record(
    "HoodieIndexPlan", _VERSION, _optional("indexPartitionInfos", _array(_INDEX_PARTITION)), namespace=NAMESPACE
)
"""A requested indexing."""

INDEX_COMMIT_METADATA: Final = _record(
    "HoodieIndexCommitMetadata",
    _VERSION,
    _optional("operationType", _STRING),
    _optional("indexPartitionInfos", _array(_INDEX_PARTITION)),
    namespace=NAMESPACE,
)
"""A completed indexing."""
