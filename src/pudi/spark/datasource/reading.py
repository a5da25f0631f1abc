"""Reading by the named format: each task reads a file slice in a Python worker.

A stream reads a table's changes by Spark's streaming engine, with offsets in Spark's checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from pudi.client import TableSnapshot
from pudi.config import FormatOptions
from pudi.engine.spark.session import prepare_worker, struct_type
from pudi.errors import InvalidArgumentError, NotSupportedError, SchemaError
from pudi.filegroup import PathColumns, partitioned
from pudi.filegroup.clean_history import naming_retained_in
from pudi.plan import ReadPlan
from pudi.plan.cdc import ChangePlan
from pudi.scan import ChangeFeed
from pudi.scan.change_batches import (
    NO_LIMITS,
    BatchLimits,
    ChangeBatch,
    newest_offset,
    next_batch,
    refuse_other_history,
)
from pudi.schema import arrow_to_spark_json
from pudi.spark.read_request import ReadRequest, kept_options, options_of, with_options
from pudi.spark.streaming.batches import ChangedRows, start_offset
from pudi.storage import canonical_root, open_storage
from pudi.task import SliceReader
from pudi.task.cdc_reader import ChangeReader

try:
    from pyspark.sql.streaming import datasource as admission
except ImportError:  # before Spark 4.2
    admission = None

_OFFSET = "offsetCommitTime"
"""Name of the time in an offset, Hudi's (HoodieSourceOffset)."""
_TABLE = "table"

_BASES: tuple[Any, ...] = (
    (DataSourceStreamReader,) if admission is None else (DataSourceStreamReader, admission.SupportsTriggerAvailableNow)
)


@dataclass(frozen=True, slots=True)
class PartRead:
    """Part of a read for one task.

    Attributes:
        plan: the read, without slices or splits.
        part: a slice, or a split of change data.
        storage_options: credentials and settings of the storage.
        left_out: the partition columns that the table's files leave out; None if they have all columns.
    """

    plan: ReadPlan | ChangePlan
    part: Any
    storage_options: Mapping[str, str] | None
    left_out: PathColumns | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Read it, in a worker."""
        prepare_worker()
        plan = self.plan
        storage = partitioned(open_storage(plan.table, self.storage_options), self.left_out)
        reader = ChangeReader(storage, plan) if isinstance(plan, ChangePlan) else SliceReader(storage, plan)
        return naming_retained_in(storage, plan.timeline, reader.read(self.part))


class PudiReader(DataSourceReader):  # type: ignore[misc]
    """Reads the slices of one scan.

    Args:
        scan: the scan.
        storage_options: credentials and settings of the storage.
    """

    def __init__(self, scan: ChangedRows, storage_options: Mapping[str, str] | None) -> None:
        self._reads = part_reads(scan, storage_options)

    def partitions(self) -> list[Any]:
        """One for each slice."""
        return [InputPartition(read) for read in self._reads]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Read a slice; nothing if there is none."""
        return iter(()) if partition.value is None else partition.value.batches()

    def __getstate__(self) -> dict[str, Any]:
        return {"_reads": []}  # tasks get theirs with their partition


def part_reads(scan: ChangedRows, storage_options: Mapping[str, str] | None) -> list[PartRead]:
    """Return what tasks read of a scan."""
    left_out = scan.path_columns
    if isinstance(scan, ChangeFeed):
        changes = replace(scan.plan, splits=())
        return [PartRead(changes, split, storage_options, left_out) for split in scan.plan.splits]
    bare = replace(scan.plan, slices=())
    return [PartRead(bare, each, storage_options, left_out) for each in scan.plan.slices]


def schema_of(given: Mapping[str, str]) -> Any:
    """Return the schema of what options read."""
    request = ReadRequest.of(given)
    scan = request.scan()
    if request.columns is not None and list(request.columns) != scan.schema.names:
        raise NotSupportedError(
            "format('pudi') reads whole columns, no fields of structs: select these from the rows, or use "
            "pudi.spark.read",
            table=request.path,
        )
    found = json.loads(arrow_to_spark_json(scan.schema))
    if request.in_catalog:
        with_options(found["fields"], kept_options(given, request))
    return struct_type(found)


def reader_of(given: Mapping[str, str], schema: Any) -> PudiReader:
    """Return the reader of what options read; see `scan_as`."""
    request = ReadRequest.of(options_of(given, schema)).for_batch()
    return PudiReader(scan_as(request, schema), request.storage_options)


def scan_as(request: ReadRequest, schema: Any) -> ChangedRows:
    """Return a read with the columns of a schema: the table's, those a user states, or those that a catalog keeps.

    Raises:
        InvalidArgumentError: a column that the table doesn't have.
        SchemaError: a column has another type.
    """
    scan = request.scan([field.name for field in schema.fields])
    found = struct_type(json.loads(arrow_to_spark_json(scan.schema)))
    for stated, column in zip(schema.fields, found.fields, strict=True):
        if stated.dataType != column.dataType:
            raise SchemaError(
                f"column {column.name!r} has type {column.dataType.simpleString()}, and the schema that Spark has says "
                f"{stated.dataType.simpleString()}: create a catalog's table again after its columns have changed, and "
                "read without .schema(…)",
                table=request.path,
            )
    return scan


class PudiStreamReader(*_BASES):  # type: ignore[misc]
    """Reads a table's changes from offset to offset.

    Args:
        request: what is read.
        schema: its columns.
    """

    def __init__(self, request: ReadRequest, schema: Any) -> None:
        self._request = request.for_stream()
        self._changes = replace(request.changes, columns=[field.name for field in schema.fields])
        self._meta = request.meta
        self._root = canonical_root(self._meta.storage.root)
        self._target: str | None = None

    def initialOffset(self) -> dict[str, str]:  # noqa: N802 - Spark's name
        """Return the offset at which a query with a new checkpoint begins."""
        return self._offset(start_offset(self._meta, self._request.view.stream_start))

    def getDefaultReadLimit(self) -> Any:  # noqa: N802 - Spark's name
        """The limit that the options state."""
        limits = self._request.limits
        if limits.records is not None:
            return admission.ReadMaxRows(limits.records)
        if limits.files is not None:
            return admission.ReadMaxFiles(limits.files)
        return admission.ReadAllAvailable() if limits.size is None else admission.ReadMaxBytes(limits.size)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Read no further than what the table has now."""
        self._target = newest_offset(TableSnapshot.load(self._meta))

    def latestOffset(self, start: dict[str, str] | None = None, limit: Any = None) -> dict[str, str]:  # noqa: N802
        """The end of the next batch; before Spark 4.2, which doesn't say where it begins, that of the table."""
        self._meta = self._meta.reopen(self._request.options)
        snapshot = TableSnapshot.load(self._meta)
        if start is None:
            return self._offset(newest_offset(snapshot))
        since = self._time(start)
        while (batch := next_batch(snapshot, since, _limits(limit), until=self._target)) is not None:
            if batch.brings_records:
                return self._offset(batch.until)
            since = batch.until
        return start

    def reportLatestOffset(self) -> dict[str, str]:  # noqa: N802 - Spark's name
        """The newest offset, for the query's progress."""
        return self._offset(newest_offset(TableSnapshot.load(self._meta)))

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> list[Any]:
        """One for each file slice that holds changes of a batch.

        Raises:
            NotFoundError: the cleaner has removed what the batch reads.
            InvalidArgumentError: the table was created again since the last batch.
        """
        since, until = self._time(start), self._time(end)
        if since == until:
            return []
        if since != start_offset(self._meta, self._request.view.stream_start):  # else nothing has been read yet
            refuse_other_history(TableSnapshot.load(self._meta), since)
        batch = ChangeBatch(since, until, brings_records=True)
        found = self._changes.scan_what_is_left(self._request.table, self._meta, batch)
        if found is None:
            return []
        return [InputPartition(read) for read in part_reads(found[0], self._request.storage_options)]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Read a slice; runs in a worker."""
        return iter(()) if partition.value is None else partition.value.batches()

    def __getstate__(self) -> dict[str, Any]:
        return {}  # tasks get what they read with their partition

    def _offset(self, time: str) -> dict[str, str]:
        return {_OFFSET: time, _TABLE: self._root}

    def _time(self, offset: dict[str, str]) -> str:
        table, time = offset.get(_TABLE), offset.get(_OFFSET)
        if table != self._root or not isinstance(time, str):
            raise InvalidArgumentError(
                f"the query's checkpoint has an offset of table {table!r}: give each query a checkpoint folder of its "
                "own, and begin with a new one after a table was moved",
                table=self._root,
            )
        return time


def stream_reader_of(given: Mapping[str, str], schema: Any) -> PudiStreamReader:
    """Return the reader of a table's changes.

    Raises:
        NotSupportedError: an option that only batch reads have; a limit, before Spark 4.2.
    """
    request = ReadRequest.of(options_of(given, schema))
    stated = [option for option in _LIMITS if option.key in request.view.given]
    if stated and admission is None:
        raise NotSupportedError(
            f"{stated[0]} needs Spark 4.2: leave it out, or use pudi.spark.stream_changes", table=request.path
        )
    if len(stated) > 1:
        raise InvalidArgumentError(f"give one limit of a batch, not {stated[0]} and {stated[1]}", table=request.path)
    scan_as(request, schema)
    return PudiStreamReader(request, schema)


_LIMITS = (FormatOptions.max_rows, FormatOptions.max_files, FormatOptions.max_bytes)


def _limits(limit: Any) -> BatchLimits:
    if isinstance(limit, admission.ReadMaxRows):
        return BatchLimits(records=limit.max_rows)
    if isinstance(limit, admission.ReadMaxFiles):
        return BatchLimits(files=limit.max_files)
    return BatchLimits(size=limit.max_bytes) if isinstance(limit, admission.ReadMaxBytes) else NO_LIMITS
