"""Content of the timeline's files: Avro bytes (JSON in layout 1) in, frozen values out, and back.

Source: TimelineMetadataUtils.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache, lru_cache, wraps
from typing import Any, ParamSpec, TypeVar

import pyarrow as pa

from pudi.errors import CorruptError
from pudi.format import avro_schemas
from pudi.format.avro_file import RecordSchema, decode_avro_file, encode_avro_file
from pudi.format.avro_schemas import RESTORE_METADATA, RESTORE_PLAN, SAVEPOINT_METADATA
from pudi.format.instant_json import decode_json_commit, encode_json_commit
from pudi.format.names import FileGroupId, Layout

_P = ParamSpec("_P")
_T = TypeVar("_T")

CLUSTER, COMPACT, LOG_COMPACT = "CLUSTER", "COMPACT", "LOG_COMPACT"
"""Operations of table services that put the same records into other files (WriteOperationType)."""

PLANNED_ANEW = "delete the files of the instant: the next {0} makes another plan"
ROLLED_BACK = "roll it back (Table.rollback): no record is in it alone"
BUILT_ANEW = "delete the files of the instant, and create the index again: the build starts over"
BUILT_ON = (
    "roll it back (Table.rollback), then the next compaction makes another plan; that is refused below version 8 where "
    "log files build on the plan: then put it back from a copy"
)


def advising(advice: str) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Return a decorator of a plan's decoder that adds advice to its errors.

    Args:
        advice: what to do about a plan that can't be read.
    """

    def decorate(decode: Callable[_P, _T]) -> Callable[_P, _T]:
        @wraps(decode)
        def decoded(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            try:
                return decode(*args, **kwargs)
            except CorruptError as error:
                error.message = f"{error.message}; {advice}"
                raise

        return decoded

    return decorate


@dataclass(frozen=True, slots=True)
class RuntimeStats:
    """Durations of writing one file, in milliseconds (HoodieRuntimeStats)."""

    total_scan_time: int = 0
    total_create_time: int = 0
    total_upsert_time: int = 0


@dataclass(frozen=True, slots=True)
class WriteStat:
    """Statistics of one written file (HoodieWriteStat); fields, order and defaults are Hudi's.

    Counts are of records, sizes of bytes, times of milliseconds; `path` is relative to the table's root;
    `prev_commit` is the text "null" for the first file of a file group.

    Attributes:
        column_stats: statistics of the file's columns for the metadata table (`pudi.metadata.FILE_STATS`); not stored
            in commits. None if none were computed.
    """

    file_id: str | None = None
    path: str | None = None
    prev_commit: str | None = None
    num_writes: int = 0
    num_deletes: int = 0
    num_update_writes: int = 0
    total_write_bytes: int = 0
    total_write_errors: int = 0
    partition_path: str | None = None
    total_log_records: int = 0
    total_log_files: int | None = None
    total_updated_records_compacted: int = 0
    num_inserts: int = 0
    total_log_blocks: int = 0
    total_corrupt_log_block: int = 0
    total_rollback_blocks: int = 0
    file_size_in_bytes: int = 0
    log_version: int | None = None
    log_offset: int | None = None
    base_file: str | None = None
    log_files: tuple[str, ...] | None = None
    cdc_stats: Mapping[str, int] | None = None
    prev_base_file: str | None = None
    min_event_time: int | None = None
    max_event_time: int | None = None
    runtime_stats: RuntimeStats | None = None
    total_log_files_compacted: int = 0
    total_log_read_time_ms: int = 0
    total_log_size_compacted: int = 0
    temp_path: str | None = None
    num_updates: int = 0
    column_stats: pa.Table | None = field(default=None, compare=False, repr=False, metadata={"stored": False})

    def with_event_times(self, least: int, greatest: int) -> WriteStat:
        """Return it with the range of its records' event times, in milliseconds."""
        return replace(self, min_event_time=least, max_event_time=greatest)

    @property
    def paths(self) -> tuple[str, ...]:
        """Paths of the file and of CDC files beside it, relative to the table's root."""
        return (*([self.path] if self.path else []), *(self.cdc_stats or ()))


def stats_by_partition(stats: Iterable[WriteStat]) -> dict[str, tuple[WriteStat, ...]]:
    """Return the statistics of written files by partition path, in their order."""
    found: dict[str, list[WriteStat]] = {}
    for stat in stats:
        found.setdefault(stat.partition_path or "", []).append(stat)
    return {partition: tuple(group) for partition, group in found.items()}


@dataclass(frozen=True, slots=True)
class CommitMetadata:
    """Metadata of a completed write (HoodieCommitMetadata, HoodieReplaceCommitMetadata).

    Attributes:
        partition_to_write_stats: the files written, by partition path.
        compacted: whether it was a compaction.
        extra_metadata: free text by key; `schema` is the table's Avro schema, without meta fields.
        operation_type: WriteOperationType, like `UPSERT`; an empty file has None.
        partition_to_replace_file_ids: ids of the file groups that it replaced, by partition path; None unless it is
            a replacecommit.
        version: None, as Hudi 1.2 writes it.
    """

    partition_to_write_stats: Mapping[str, tuple[WriteStat, ...]] = field(default_factory=dict)
    compacted: bool = False
    extra_metadata: Mapping[str, str] = field(default_factory=dict)
    operation_type: str | None = None
    partition_to_replace_file_ids: Mapping[str, tuple[str, ...]] | None = None
    version: int | None = None

    @property
    def is_clustering(self) -> bool:
        """Whether it is a clustering, which moves records to other file groups."""
        return self.operation_type == CLUSTER

    @property
    def is_compaction(self) -> bool:
        """Whether it is a compaction or a log compaction, which keeps each record in its file group."""
        return self.operation_type in {COMPACT, LOG_COMPACT}

    @property
    def stats(self) -> list[WriteStat]:
        """Statistics of all files that it wrote."""
        return [stat for stats in self.partition_to_write_stats.values() for stat in stats]

    @property
    def partitions(self) -> set[str]:
        """Partitions that it wrote to, or replaced file groups of."""
        return {*self.partition_to_write_stats, *(self.partition_to_replace_file_ids or {})}

    @property
    def written_groups(self) -> set[FileGroupId]:
        """File groups that it wrote to."""
        stats_of = self.partition_to_write_stats
        return {FileGroupId(p, stat.file_id or "") for p, stats in stats_of.items() for stat in stats}

    @property
    def replaced_groups(self) -> set[FileGroupId]:
        """File groups that it took out of the table."""
        replaced = self.partition_to_replace_file_ids or {}
        return {FileGroupId(partition, file_id) for partition, ids in replaced.items() for file_id in ids}

    @property
    def touched_groups(self) -> set[FileGroupId]:
        """File groups that it wrote to or replaced."""
        return self.written_groups | self.replaced_groups


@dataclass(frozen=True, slots=True)
class RequestedReplaceMetadata:
    """Plan of a replacecommit or clustering (HoodieRequestedReplaceMetadata); all None for insert_overwrite.

    Attributes:
        operation_type: `CLUSTER`, `DELETE_PARTITION` or None.
        clustering_plan: the plan of a clustering as Avro's plain dict (HoodieClusteringPlan).
        extra_metadata: free text by key.
        version: 1 where the rest is filled.
    """

    operation_type: str | None = None
    clustering_plan: Mapping[str, Any] | None = None
    extra_metadata: Mapping[str, str] | None = None
    version: int | None = None


@dataclass(frozen=True, slots=True)
class InstantInfo:
    """An instant by requested time and action (HoodieInstantInfo)."""

    commit_time: str
    action: str


@dataclass(frozen=True, slots=True)
class RollbackRequest:
    """Files of one file group that a rollback deletes (HoodieRollbackRequest).

    Attributes:
        partition_path: partition concerned, relative to the table's root.
        file_id: file group concerned; empty where files are named.
        latest_base_instant: base instant of the slice; empty where files are named.
        files_to_be_deleted: absolute locations of files.
        log_blocks_to_be_deleted: sizes of log files by absolute location; only in version 6.
    """

    partition_path: str
    file_id: str | None = ""
    latest_base_instant: str | None = ""
    files_to_be_deleted: tuple[str, ...] = ()
    log_blocks_to_be_deleted: Mapping[str, int] | None = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RollbackPlan:
    """Plan of a rollback (HoodieRollbackPlan)."""

    instant_to_rollback: InstantInfo | None
    rollback_requests: tuple[RollbackRequest, ...] = ()
    version: int | None = 1


@dataclass(frozen=True, slots=True)
class RollbackPartitionMetadata:
    """Files that a rollback deleted in one partition, by absolute location (HoodieRollbackPartitionMetadata)."""

    partition_path: str
    success_delete_files: tuple[str, ...] = ()
    failed_delete_files: tuple[str, ...] = ()
    rollback_log_files: Mapping[str, int] | None = field(default_factory=dict)
    log_files_from_failed_commit: Mapping[str, int] | None = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RollbackMetadata:
    """Metadata of a completed rollback (HoodieRollbackMetadata).

    Attributes:
        start_rollback_time: instant of the rollback.
        time_taken_in_millis: duration.
        total_files_deleted: number of files.
        commits_rollback: requested times of the instants undone.
        partition_metadata: what was deleted, by partition path.
        version: 1.
        instants_rollback: the instants undone.
    """

    start_rollback_time: str
    time_taken_in_millis: int
    total_files_deleted: int
    commits_rollback: tuple[str, ...]
    partition_metadata: Mapping[str, RollbackPartitionMetadata] = field(default_factory=dict)
    version: int | None = 1
    instants_rollback: tuple[InstantInfo, ...] = ()


def encode_commit_metadata(metadata: CommitMetadata, layout: Layout = 2) -> bytes:
    """Content of a completed commit, deltacommit or replacecommit, or of an inflight one.

    The schema is HoodieReplaceCommitMetadata when `partition_to_replace_file_ids` is there, else HoodieCommitMetadata.

    Args:
        metadata: what the write did.
        layout: the timeline's layout: JSON in 1, Avro in 2.
    """
    record: dict[str, Any] = {
        "partitionToWriteStats": {
            partition: [stat_record(stat) for stat in stats]
            for partition, stats in metadata.partition_to_write_stats.items()
        },
        "compacted": metadata.compacted,
        "extraMetadata": metadata.extra_metadata,
        "version": metadata.version,
        "operationType": metadata.operation_type,
    }
    if metadata.partition_to_replace_file_ids is not None:
        replaced = metadata.partition_to_replace_file_ids.items()
        record["partitionToReplaceFileIds"] = {partition: list(file_ids) for partition, file_ids in replaced}
    if layout == 1:
        return encode_json_commit(record)
    schema = _COMMIT if metadata.partition_to_replace_file_ids is None else _REPLACE_COMMIT
    return encode_avro_file(schema, record)


def decode_commit_metadata(data: bytes, *, path: str | None = None) -> CommitMetadata:
    """Decode the content of a write's completed or inflight file.

    Args:
        data: content of the file, Avro or JSON in every layout, since a table may have been upgraded; empty content is
            empty metadata, as in Hudi.
        path: path of the file, for errors.

    Raises:
        CorruptError: not the Avro or JSON that it must be.
    """
    if not data:
        return CommitMetadata()
    if data.startswith(b"{"):
        return commit_metadata_of(decode_json_commit(data, path=path))
    return commit_metadata_of(_decode(data, (_COMMIT, _REPLACE_COMMIT), path))


def commit_metadata_of(record: Mapping[str, Any]) -> CommitMetadata:
    """Make commit metadata from its Avro record (HoodieCommitMetadata, HoodieReplaceCommitMetadata)."""
    replaced = record.get("partitionToReplaceFileIds")
    return CommitMetadata(
        partition_to_write_stats={
            partition: tuple(_stat(stat) for stat in stats)
            for partition, stats in (record.get("partitionToWriteStats") or {}).items()
        },
        compacted=bool(record.get("compacted")),
        extra_metadata=record.get("extraMetadata") or {},
        operation_type=record.get("operationType"),
        partition_to_replace_file_ids=(
            None if replaced is None else {partition: tuple(file_ids) for partition, file_ids in replaced.items()}
        ),
        version=record.get("version"),
    )


def encode_requested_replace_metadata(metadata: RequestedReplaceMetadata) -> bytes:
    """Content of a requested replacecommit or clustering."""
    return encode_avro_file(_REQUESTED_REPLACE, _record(metadata))


def decode_requested_replace_metadata(data: bytes, *, path: str | None = None) -> RequestedReplaceMetadata:
    """Decode the plan of a replacecommit or clustering. Empty content is all None. Raises `CorruptError`."""
    if not data:
        return RequestedReplaceMetadata()
    return RequestedReplaceMetadata(**_arguments(_decode(data, (_REQUESTED_REPLACE,), path)))


def encode_rollback_plan(plan: RollbackPlan) -> bytes:
    """Content of a requested rollback."""
    requests = [_record(request) for request in plan.rollback_requests]
    instant = None if plan.instant_to_rollback is None else _record(plan.instant_to_rollback)
    return encode_avro_file(
        _ROLLBACK_PLAN, {"instantToRollback": instant, "RollbackRequests": requests, "version": plan.version}
    )


@advising(PLANNED_ANEW.format("rollback"))
def decode_rollback_plan(data: bytes, *, path: str | None = None) -> RollbackPlan:
    """Decode the plan of a rollback; empty content names no instant. Raises as `decode_commit_metadata`."""
    if not data:
        return RollbackPlan(None)
    record = _decode(data, (_ROLLBACK_PLAN,), path)
    instant = record["instantToRollback"]
    return RollbackPlan(
        instant_to_rollback=None if instant is None else InstantInfo(**_arguments(instant)),
        rollback_requests=tuple(RollbackRequest(**_arguments(request)) for request in record["RollbackRequests"] or ()),
        version=record["version"],
    )


def encode_rollback_metadata(metadata: RollbackMetadata) -> bytes:
    """Content of a completed rollback."""
    return encode_avro_file(_ROLLBACK, rollback_record(metadata))


def rollback_record(metadata: RollbackMetadata) -> dict[str, Any]:
    """Return what a rollback did, by Avro's names."""
    record = _record(metadata)
    record["partitionMetadata"] = {name: _record(each) for name, each in metadata.partition_metadata.items()}
    record["instantsRollback"] = [_record(instant) for instant in metadata.instants_rollback]
    return record


def decode_rollback_metadata(data: bytes, *, path: str | None = None) -> RollbackMetadata:
    """Decode the metadata of a rollback; empty content is an empty value. Raises as `decode_commit_metadata`."""
    if not data:
        return RollbackMetadata("", 0, 0, ())
    arguments = _arguments(_decode(data, (_ROLLBACK,), path))
    arguments["partition_metadata"] = {
        name: RollbackPartitionMetadata(**_arguments(each)) for name, each in arguments["partition_metadata"].items()
    }
    arguments["instants_rollback"] = tuple(InstantInfo(**_arguments(each)) for each in arguments["instants_rollback"])
    return RollbackMetadata(**arguments)


def decode_avro(data: bytes, *, path: str | None = None) -> dict[str, Any]:
    """Content of any Avro file of the timeline as a plain dict with Avro's field names, by the file's own schema.

    For the kinds that pudi reads but doesn't write: clean and its plan, compaction and clustering plans, savepoint,
    restore, indexing. Empty content is an empty dict. Raises as `decode_commit_metadata`.
    """
    return _decode(data, (), path) if data else {}


_COMMIT = RecordSchema.of(avro_schemas.COMMIT_METADATA)
_REPLACE_COMMIT = RecordSchema.of(avro_schemas.REPLACE_COMMIT_METADATA)
_REQUESTED_REPLACE = RecordSchema.of(avro_schemas.REQUESTED_REPLACE_METADATA)
_ROLLBACK_PLAN = RecordSchema.of(avro_schemas.ROLLBACK_PLAN)
_ROLLBACK = RecordSchema.of(avro_schemas.ROLLBACK_METADATA)


def _decode(data: bytes, expected: tuple[RecordSchema, ...], path: str | None) -> dict[str, Any]:
    if data.startswith(b"{"):
        raise CorruptError("instant in JSON where all versions of Hudi write Avro", path=path)
    return decode_avro_file(data, expected, path=path)[1]


def _avro_name(attribute: str) -> str:
    first, *rest = attribute.split("_")
    return first + "".join(word.title() for word in rest)


@cache
def _names(kind: Any) -> tuple[tuple[str, str], ...]:
    stored = (each for each in fields(kind) if each.metadata.get("stored", True))
    return tuple((each.name, _avro_name(each.name)) for each in stored)


@lru_cache(maxsize=256)
def _attribute(avro_name: str) -> str:
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in avro_name)


def _record(value: Any) -> dict[str, Any]:
    """A dataclass, not its parts, as an Avro record; a tuple would be a typed value to fastavro."""
    kind: Any = type(value)
    values = ((avro_name, getattr(value, name)) for name, avro_name in _names(kind))
    return {avro_name: list(part) if isinstance(part, tuple) else part for avro_name, part in values}


def _arguments(record: Mapping[str, Any]) -> dict[str, Any]:
    """An Avro record, not its parts, as arguments of its dataclass."""
    return {_attribute(name): tuple(value) if isinstance(value, list) else value for name, value in record.items()}


# Hudi's own class holds these as primitive numbers, so that null becomes 0.
_COUNTS = tuple((each.name, _avro_name(each.name)) for each in fields(WriteStat) if each.default == 0)
_OTHERS = tuple(pair for pair in _names(WriteStat) if pair not in _COUNTS)
_MISSING = object()


def stat_record(stat: WriteStat) -> dict[str, Any]:
    """Return a write stat by the names of its Avro fields."""
    record = _record(stat)
    if stat.runtime_stats is not None:
        record["runtimeStats"] = _record(stat.runtime_stats)
    return record


def _stat(record: dict[str, Any]) -> WriteStat:
    read = record.get
    arguments: dict[str, Any] = {name: read(avro_name) or 0 for name, avro_name in _COUNTS}
    for name, avro_name in _OTHERS:
        value = read(avro_name, _MISSING)
        if value is not _MISSING:
            arguments[name] = tuple(value) if isinstance(value, list) else value
    times = arguments.get("runtime_stats")
    if times is not None:
        arguments["runtime_stats"] = RuntimeStats(**{_attribute(name): value or 0 for name, value in times.items()})
    return WriteStat(**arguments)


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
