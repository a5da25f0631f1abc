"""Writing by the named format: tasks stage their rows in the table's folder, and a process on the driver commits them.

Spark calls `commit` in a Python process of its own, without a session, so the commit is the local engine's, and there
is a limit to what it takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import datasource as api

from pudi.config import CompactionOptions, FormatOptions, TableConfig, WriteOptions, resolve
from pudi.config.table_options import MERGE_ON_READ
from pudi.context import Context
from pudi.engine.spark.session import prepare_worker
from pudi.errors import CorruptError, InvalidArgumentError, NotSupportedError
from pudi.format import TEMP_DIR
from pudi.plan import Operation
from pudi.schema import spark_struct_to_arrow
from pudi.spark.job import WriteJob
from pudi.spark.read_request import ReadRequest, options_of
from pudi.spark.streaming.sink import make_writer, query_of_task
from pudi.storage import delete_folder, open_storage

_CHECKPOINT = "checkpointlocation"


class StagedRows(api.WriterCommitMessage):  # type: ignore[misc]
    """Rows that a task staged.

    Attributes:
        file: the file, relative to the table's root; None for no rows.
        size: bytes of Arrow data.
        query: the id of the streaming query; None for a batch write.
    """

    def __init__(self, file: str | None, size: int, query: str | None) -> None:
        self.file = file
        self.size = size
        self.query = query


@dataclass(frozen=True, slots=True)
class StagedWrite:
    """A write whose rows are staged; picklable.

    Attributes:
        job: the write.
        folder: where its rows are staged, relative to the table's root.
        schema: the rows' columns.
        most: bytes that it takes at most.
    """

    job: WriteJob
    folder: str
    schema: pa.Schema
    most: int

    def stage(self, batches: Iterator[pa.RecordBatch]) -> StagedRows:
        """Stage the rows of a task, in its worker."""
        prepare_worker()
        context = TaskContext.get()
        query = query_of_task(context._localProperties)
        buffered: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            size += batch.nbytes
            self._check(size)
            buffered.append(batch)
        if not sum(map(len, buffered)):
            return StagedRows(None, 0, query)
        sink = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_stream(sink, buffered[0].schema, options=options) as stream:
            for batch in buffered:
                stream.write_batch(batch)
        file = f"{self.folder}/{context.partitionId()}-{context.taskAttemptId()}.arrow"
        open_storage(self.job.path, self.job.storage_options).put(file, sink.getvalue().to_pybytes())
        return StagedRows(file, size, query)

    def rows(self, messages: Sequence[StagedRows | None]) -> pa.Table:
        """Read what all tasks staged."""
        known = [message for message in messages if message is not None]
        self._check(sum(message.size for message in known))
        storage = open_storage(self.job.path, self.job.storage_options)
        parts = []
        for message in known:
            if message.file is not None:
                content = storage.read(message.file, 2 * self.most + (1 << 20))
                try:
                    parts.append(pa.ipc.open_stream(content).read_all())
                except pa.ArrowInvalid as error:
                    reason = "staged rows can't be read"
                    raise CorruptError(reason, table=self.job.path, path=message.file) from error
        found = pa.concat_tables(parts) if parts else self.schema.empty_table()
        return found.cast(self.schema)

    def clean_up(self) -> None:
        """Delete what is staged."""
        delete_folder(open_storage(self.job.path, self.job.storage_options), self.folder)

    def _check(self, size: int) -> None:
        if size > self.most:
            raise NotSupportedError(
                f"format('pudi') writes at most {self.most} bytes per write ({WriteOptions.format_bytes}), since they "
                "pass through a process on the driver, and these are more: use pudi.spark.write(df).options(**options)"
                ".mode('append').save(path), or pudi.spark.stream_writer(df) for a stream, which have no limit",
                table=self.job.path,
            )


class PudiWriter(api.DataSourceArrowWriter):  # type: ignore[misc]
    """Writes a frame in one commit.

    Args:
        write: the write.
    """

    def __init__(self, write: StagedWrite) -> None:
        self._write = write

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedRows:
        """Stage the rows of a task."""
        return self._write.stage(iterator)

    def commit(self, messages: Sequence[StagedRows | None]) -> None:
        """Commit them."""
        try:
            self._write.job.append(self._write.rows(messages))
        finally:
            self._write.clean_up()

    def abort(self, messages: Sequence[StagedRows | None]) -> None:
        """Forget them."""
        self._write.clean_up()


class _StreamWriter:
    """Writes each batch of a query in one commit, once.

    Args:
        write: the write; each batch stages its rows in a folder of its own.
    """

    def __init__(self, write: StagedWrite) -> None:
        self._write = write

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedRows:
        """Stage the rows of a task."""
        return self._write.stage(iterator)

    def commit(self, messages: Sequence[StagedRows | None], batch_id: int) -> None:
        """Commit them, unless the batch was committed already."""
        job = self._write.job
        query = next((message.query for message in messages if message is not None), None)
        writer = make_writer(job.path, job.options, job.storage_options)
        try:
            writer.write_rows(lambda: self._write.rows(messages), batch_id, query)
        finally:
            self._clean_up(messages)

    def abort(self, messages: Sequence[StagedRows | None], batch_id: int) -> None:
        """Forget them."""
        self._clean_up(messages)

    def _clean_up(self, messages: Sequence[StagedRows | None]) -> None:
        # this object isn't the one that staged them, and has another folder
        folders = {message.file.rpartition("/")[0] for message in messages if message is not None and message.file}
        for folder in folders:
            replace(self._write, folder=folder).clean_up()


def writer_of(given: Mapping[str, str], schema: Any, overwrite: bool) -> PudiWriter:
    """Return the writer of a frame.

    An overwrite replaces all rows in one commit; the table, its history and its properties stay.

    Raises:
        InvalidArgumentError: an option is wrong, or Spark doesn't tell the table's location.
        NotSupportedError: an option asks for what this release lacks.
    """
    return PudiWriter(_staged_write(options_of(given, schema), schema, overwrite, creates=True))


def stream_writer_of(given: Mapping[str, str], schema: Any, overwrite: bool) -> Any:
    """Return the writer of a query's batches; raises as `writer_of`.

    Raises:
        NotSupportedError: before Spark 4.1; output mode complete.
    """
    base = getattr(api, "DataSourceStreamArrowWriter", None)
    if base is None:
        raise NotSupportedError("writeStream.format('pudi') needs Spark 4.1: use pudi.spark.stream_writer(df)")
    options = {key: text for key, text in options_of(given, schema).items() if key.lower() != _CHECKPOINT}
    if overwrite:
        raise NotSupportedError("writeStream.format('pudi') has no output mode complete: use pudi.spark.stream_writer")
    compaction = {CompactionOptions.run_async.key: "false"}
    if _merges_without_service(options):
        options = {CompactionOptions.inline.key: "true", **options}  # no process lives on to compact beside batches
    kind = type("PudiStreamWriter", (_StreamWriter, base), {})
    # the batch makes the table: one that was deleted since the last batch must not be there again, and empty
    return kind(_staged_write({**options, **compaction}, schema, overwrite, creates=False))


def _merges_without_service(options: Mapping[str, str]) -> bool:
    """Return whether batches go to a merge-on-read table, and no option asks for a compaction beside them.

    The table is that which is there, or that which the options describe.
    """
    request = ReadRequest.of(options)
    resolved = resolve(request.options, table=request.path)
    table = WriteJob(request.path, request.options, request.storage_options).table()
    kind = resolved[TableConfig.table_type] if table is None else table.config.table_type
    return bool(kind == MERGE_ON_READ) and not resolved.explicit(CompactionOptions.run_async)


def _staged_write(given: Mapping[str, str], schema: Any, overwrite: bool, *, creates: bool) -> StagedWrite:
    request = ReadRequest.of(given)
    reads = set(request.view.given) - {FormatOptions.meta_fields.key}
    if reads:
        raise InvalidArgumentError(f"{sorted(reads)[0]} is an option of reads", table=request.path)
    resolved = resolve(request.options, table=request.path)
    operation = Operation[resolved[WriteOptions.operation].upper()]
    options = dict(request.options)
    if overwrite and operation not in {Operation.INSERT_OVERWRITE, Operation.INSERT_OVERWRITE_TABLE}:
        if operation in {Operation.DELETE, Operation.DELETE_PARTITION}:
            raise InvalidArgumentError("append is the only mode for a delete", table=request.path)
        options[WriteOptions.operation.key] = Operation.INSERT_OVERWRITE_TABLE.value.lower()
    job = WriteJob(request.path, options, request.storage_options)
    columns = spark_struct_to_arrow(schema.json())
    if operation not in {Operation.DELETE, Operation.DELETE_PARTITION}:
        if creates:
            job.ensure_table(columns)
        else:
            job.check_columns(columns.names)
    return StagedWrite(job, f"{TEMP_DIR}/{Context().writer_id()}", columns, resolved[WriteOptions.format_bytes])
