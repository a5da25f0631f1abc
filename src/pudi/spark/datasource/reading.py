"""Reading by the named format: each task reads a file slice in a Python worker."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from pudi.engine.spark.session import prepare_worker, struct_type
from pudi.errors import NotSupportedError, SchemaError
from pudi.filegroup import PathColumns, partitioned
from pudi.filegroup.clean_history import naming_retained_in
from pudi.plan import ReadPlan
from pudi.plan.change_data import ChangePlan
from pudi.scan.change_feed import ChangeFeed
from pudi.schema import arrow_to_spark_json
from pudi.spark.datasource.catalog import kept_options, options_of, with_options
from pudi.spark.read_request import ReadRequest
from pudi.spark.streaming.batches import ChangedRows
from pudi.storage import open_storage
from pudi.task import SliceReader
from pudi.task.change_reader import ChangeReader


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
