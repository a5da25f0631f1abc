"""`spark.readStream.format("pudi")`: a table's changes by Spark's streaming engine, offsets in Spark's checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from pudi.client import TableSnapshot
from pudi.config import FormatOptions
from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.scan.change_batches import (
    NO_LIMITS,
    BatchLimits,
    ChangeBatch,
    newest_offset,
    next_batch,
    refuse_other_history,
)
from pudi.spark.datasource.catalog import options_of
from pudi.spark.datasource.reading import part_reads, scan_as
from pudi.spark.read_request import ReadRequest
from pudi.spark.streaming.batches import start_offset
from pudi.storage import canonical_root

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
