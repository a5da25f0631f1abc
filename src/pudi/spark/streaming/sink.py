"""`pudi.spark.batch_writer`: what `foreachBatch` of a streaming query takes; a batch that comes again is skipped."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pudi.client import CommitResult, MetaClient
from pudi.commit.conditions import SoleProgress
from pudi.config import CompactionOptions, WriteOptions, resolve
from pudi.config.arguments import path_given
from pudi.config.option import given_text, text_of
from pudi.errors import ChangedSinceError, InvalidArgumentError, TableNotFoundError
from pudi.spark.job import SaveMode, WriteJob
from pudi.spark.streaming.progress import Progress, WrittenBatch, is_connect, is_written, query_of, stated


@dataclass(frozen=True, slots=True)
class BatchWriter:
    """Writes each batch of a query in one commit.

    Args:
        job: the write.
        progress: finds the last batch that was written.
        query: the query's id, where the options state it.
    """

    job: WriteJob
    progress: Progress
    query: str | None = None

    def __call__(self, frame: Any, batch_id: int) -> CommitResult | None:
        """Write one batch, unless it was committed already."""
        query = self._query_of(frame)
        if self._is_written(batch_id, query):
            return None
        return self._once(
            lambda extra, progress: self.job.run(frame, SaveMode.APPEND, extra, progress=progress), batch_id, query
        )

    def write_rows(self, rows: Callable[[], pa.Table], batch_id: int, query: str | None) -> CommitResult | None:
        """Write one batch that is brought into memory, unless it was committed already.

        Args:
            rows: brings it.
            batch_id: its number.
            query: the query's id.
        """
        query = self.query or query
        if self._is_written(batch_id, query):
            return None
        return self._once(lambda extra, progress: self.job.append(rows(), extra, progress), batch_id, query)

    def _once(
        self,
        write: Callable[[Mapping[str, str], SoleProgress], CommitResult | None],
        batch_id: int,
        query: str | None,
    ) -> CommitResult | None:
        """Write a batch, unless another process commits it first: the query's run before this one, which still ends."""
        try:
            result = write(stated(self.progress.identifier, batch_id, query), self.progress.sole())
        except ChangedSinceError:
            if self._is_written(batch_id, query):
                return None
            raise
        if result is not None:
            self.progress.note(WrittenBatch(batch_id, query, result.instant))
        return result

    def _is_written(self, batch_id: int, query: str | None) -> bool:
        """Whether a batch of a query was committed already.

        Raises:
            ConflictError: as `progress.is_written`.
            TableNotFoundError: there is no table, and the query has written batches: even an empty batch 0 creates it.
        """
        try:
            meta = MetaClient.open(self.job.path, self.job.storage_options, self.job.options)
        except TableNotFoundError as error:
            if batch_id == 0 or query is None:  # without a query the numbers are the caller's own
                return False
            raise TableNotFoundError(
                f"there is no table, and this is batch {batch_id} of query {query}: its checkpoint says that the "
                "batches before are written, and a new table would lack their rows. Restore the table; or start the "
                "query with a new checkpoint, so that it takes in all that its source has; or, if the table shall "
                "begin with this batch, create it first (pudi.create, CREATE TABLE)",
                table=error.table,
            ) from error
        last = self.progress.last(meta)
        return is_written(last, batch_id, query, self.progress.identifier, meta.storage.root)

    def _query_of(self, frame: Any) -> str | None:
        query = self.query or query_of(frame)
        if query is None and is_connect(frame):
            raise InvalidArgumentError(
                "Spark Connect doesn't tell which query a batch belongs to: use pudi.spark.stream_writer(df), which "
                f"finds it by the checkpoint, or set {WriteOptions.stream_query} to an id that stays with it",
                table=self.job.path,
            )
        return query


def batch_writer(
    path: str | os.PathLike[str],
    *,
    storage_options: Mapping[str, str] | None = None,
    **options: str | bool | int | float,
) -> Callable[[Any, int], CommitResult | None]:
    """A function for `foreachBatch`: `df.writeStream.foreachBatch(pudi.spark.batch_writer(path, **hudi)).start()`.

    Each batch is one commit that stores the batch id, as Apache Hudi's streaming sink does, and the id of the query. A
    batch that is repeated after a restart is skipped, whichever of the two wrote it. A batch of another query under
    the same identifier is an error. An empty batch makes no commit. Batch 0 creates the table if it does not exist; a
    later batch of a query is refused without a table, since the rows of the former ones are gone. Compactions of
    merge-on-read tables run beside the batches, unless the options say otherwise; `Table.wait_for_services` waits for
    them after the end of the query.

    Args:
        path: the table's root.
        storage_options: credentials and settings of the storage.
        options: Hudi's option keys; several queries that write one table need
            `hoodie.datasource.write.streaming.checkpoint.identifier`, each its own.

    Raises:
        InvalidArgumentError: an option is wrong.
        NotSupportedError: an option asks for what this release lacks.
    """
    return make_writer(path, {key: given_text(key, value) for key, value in options.items()}, storage_options)


def make_writer(
    path: str | os.PathLike[str], options: Mapping[str, str], storage_options: Mapping[str, str] | None
) -> BatchWriter:
    """Return the writer of a query's batches; arguments and errors as `batch_writer`."""
    root = path_given(path)
    given = _with_compaction(options, root)
    resolved = resolve(given)
    job = WriteJob(root, given, storage_options)
    return BatchWriter(job, Progress(resolved[WriteOptions.stream_identifier]), resolved[WriteOptions.stream_query])


def _with_compaction(given: Mapping[str, str], table: str) -> dict[str, str]:
    """Options with those by which streams compact beside their batches (HoodieStreamingSink, ASYNC_COMPACT_ENABLE)."""
    resolved = resolve(given, table=table)
    compacts = resolved[CompactionOptions.services] and not resolved[CompactionOptions.not_in_streams]
    asked = resolved.explicit(CompactionOptions.run_async)
    wanted = compacts if asked is None else asked and not resolved[CompactionOptions.not_in_streams]
    return {**given, CompactionOptions.run_async.key: text_of(wanted)}
