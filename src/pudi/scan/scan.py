"""The `Scan`: a lazy read pinned to the timeline of the moment it was made."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pudi.client import MetaClient
from pudi.context.lazy import lazy_module
from pudi.engine.local import read_batches
from pudi.errors import NotSupportedError
from pudi.filegroup import PathColumns, open_base_file, path_columns
from pudi.filegroup.clean_history import naming_retained
from pudi.plan import ReadPlan
from pudi.scan.fields import Fields
from pudi.scan.lazy_rows import LazyRows, stream_naming_retained
from pudi.scan.planning import Planner
from pudi.task import SliceReader
from pudi.timeline import TimelinePlace

if TYPE_CHECKING:
    from pudi.engine.spark import reader as spark_reader
    from pudi.scan import export
else:
    export = lazy_module("pudi.scan.export")
    spark_reader = lazy_module("pudi.engine.spark.reader")


@dataclass(slots=True)
class Scan(LazyRows):
    """A read of a table. It is an Arrow stream itself: pyarrow, polars, pandas and DuckDB take it as it is.

    The snapshot is fixed when the scan is created; later commits don't change it. Nothing is read until it's requested.
    """

    _meta: MetaClient
    _plan: ReadPlan
    _planner: Planner
    _instant: str | None
    _fields: Fields | None = None
    _planned: ReadPlan | None = field(default=None, repr=False)

    @property
    def schema(self) -> pa.Schema:
        """Schema of the rows: timestamps in microseconds, UTC where they are points in time."""
        read = self._plan.output_schema
        return read if self._fields is None else self._fields.schema(read)

    @property
    def instant(self) -> str:
        """The instant that the scan is at: what a write of rows computed from it takes as `if_unchanged_since`.

        This is the requested time of the commit that completed last; its completion time if another commit was
        requested later; zeros for a table without commits. Below table version 8, whose timeline has no completion
        times, it precedes the oldest write that was pending when the scan was created.

        Raises:
            NotSupportedError: the scan is read-optimized, so it ignores log files and matches no instant.
        """
        if self._instant is None:
            raise NotSupportedError(
                "a read-optimized scan has no instant, since it ignores log files; to write back the result of a "
                "scan, scan without read_optimized",
                table=self._plan.table,
            )
        return self._instant

    @property
    def path_columns(self) -> PathColumns | None:
        """The partition columns that the table's files leave out; None if they have all columns."""
        return path_columns(self._meta.storage)

    @property
    def plan(self) -> ReadPlan:
        """The files that will be read; listed once."""
        if self._planned is None:
            with naming_retained(self._meta.store):
                self._planned = self._planner.plan(replace(self._plan, timeline=TimelinePlace.of(self._meta.store)))
        return self._planned

    def to_batches(self) -> pa.RecordBatchReader:
        """The rows as a stream of Arrow batches.

        Raises:
            CorruptError: a file can't be read.
            NotFoundError: a file is gone, cleaned since the scan was made.
        """
        batches = stream_naming_retained(self._meta, read_batches(self._meta.storage, self.plan))
        fields = self._fields
        if fields is None:
            return batches
        return pa.RecordBatchReader.from_batches(self.schema, (fields.of_batch(batch) for batch in batches))

    def to_spark(self, spark: Any) -> Any:
        """The rows as a lazy Spark DataFrame, read by Spark's own Parquet reader.

        Args:
            spark: a session, classic or Connect; it must reach the table's files by the same path.

        Raises:
            SetupError: pyspark is missing or too old.
        """
        with naming_retained(self._meta.store):
            frame = spark_reader.read_frame(self._meta.storage, self.plan, spark)
        return frame if self._fields is None else self._fields.of_frame(frame)

    def to_files(
        self, out: str | os.PathLike[str], *, format: str = "parquet", storage_options: Mapping[str, str] | None = None
    ) -> export.Exported:
        """Write the rows as plain files `part-00000.parquet`, …; `_SUCCESS` comes last and says that all are there.

        Memory holds as much as `to_batches` and one file need. On Spark, write `to_spark(spark)` by its own writer.

        Args:
            out: an empty folder, or one that isn't there.
            format: `parquet`, `orc`, `csv`, `json` (one row a line) or `arrow`.
            storage_options: credentials and settings of the folder's storage.

        Raises:
            InvalidArgumentError: another format, or the folder has files.
            SchemaError: the format has no such columns: CSV has no lists and structs.
        """
        return export.export(self.to_batches(), self.schema, os.fspath(out), format, storage_options)

    def explain(self) -> str:
        """Return the plan of the read as text: partitions, files, row groups and bytes, read and pruned.

        It also compares how many files the filter keeps of those that the last clustering made, and of those that it
        replaced, if column statistics of both are still there.
        """
        plan = self._planner.counted(self.plan, self._plan)
        reader = SliceReader(self._meta.storage, plan)
        kept = total = 0
        for file_slice in plan.slices:
            if file_slice.base is None:
                continue
            file = open_base_file(self._meta.storage, file_slice.base)
            if file_slice.logs:  # no row may be left out before it's merged
                kept, total = kept + file.num_groups, total + file.num_groups
                continue
            total += file.num_groups
            kept += len(reader.candidate_groups(file, plan.names(file_slice.instant)))
        skipped = sum(count for _, count, _ in plan.skipped)
        lines = [
            f"table       {plan.table}",
            f"columns     {', '.join(self.schema.names)}",
            f"where       {plan.where if plan.where is not None else '-'}",
            f"partitions  {len(plan.partitions)}",
            f"files       {len(plan.slices)} of {len(plan.slices) + skipped + plan.pruned} "
            f"({plan.pruned} pruned by partition)",
            *(f"index       {name} kept {of - count} of {of}" for name, count, of in plan.skipped),
            *self._planner.gain(self._plan),
            f"row groups  {kept} of {total} ({total - kept} pruned by statistics)",
            f"log files   {sum(len(s.logs) for s in plan.slices)}",
            f"bytes       {sum(s.size for s in plan.slices)}",
        ]
        if plan.unused is not None:
            lines.insert(5, f"index       {plan.unused[0]} not used: {plan.unused[1]}")
        if plan.keys is not None:
            lines.insert(3, f"keys        {plan.keys.rows.num_rows:,} of {', '.join(plan.keys.rows.column_names)}")
        if plan.limit is not None:
            lines.insert(3, f"limit       {plan.limit}")
        if plan.commit_times is not None:
            lines.insert(3, f"commits     {len(plan.commit_times)}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        where = "" if self._plan.where is None else f", where={str(self._plan.where)!r}"
        return f"Scan({self._plan.table}, columns={list(self.schema.names)}{where})"
