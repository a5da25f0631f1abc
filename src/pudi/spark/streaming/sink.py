"""`pudi.spark.batch_writer`: what `foreachBatch` of a streaming query takes; a batch that comes again is skipped.

Commits state the last batch of each query, and are searched for it before the next one is written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from pudi.client import CommitResult, MetaClient, TableSnapshot
from pudi.commit.conditions import SoleProgress, is_gone
from pudi.config import CompactionOptions, WriteOptions, resolve
from pudi.config.arguments import path_given
from pudi.config.option import given_text, text_of
from pudi.engine.spark.session import is_connect
from pudi.errors import ChangedSinceError, ConflictError, CorruptError, InvalidArgumentError, TableNotFoundError
from pudi.spark.job import SaveMode, WriteJob
from pudi.timeline import Timeline

_QUERY_ID = "sql.streaming.queryId"
"""Local property of Spark's jobs: the query's id, kept in its checkpoint (StreamExecution.QUERY_ID_KEY)."""
_stream: ContextVar[str | None] = ContextVar("pudi_stream", default=None)


@contextmanager
def of_stream(identity: str) -> Iterator[None]:
    """Let writes in this thread belong to a stream of changes."""
    token = _stream.set(identity)
    try:
        yield
    finally:
        _stream.reset(token)


def query_of(frame: Any) -> str | None:
    """Return the id of the query whose batch a frame is, None outside of one, or if Spark Connect doesn't tell."""
    stream = _stream.get()
    if stream is not None or is_connect(frame):
        return stream
    found = frame.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
    return None if found is None else str(found)


def query_of_task(properties: dict[str, str]) -> str | None:
    """Return the id of the query that a task of Spark belongs to, by the task's local properties."""
    return properties.get(_QUERY_ID)


CHECKPOINT_KEY = "_hudi_streaming_sink_checkpoint"
"""Key in a commit's extra metadata: a JSON map from identifier to batch (HoodieStreamingSink.SINK_CHECKPOINT_KEY)."""
QUERY_KEY = "_pudi_streaming_query"
"""Key in a commit's extra metadata, which Hudi's sink doesn't write: a JSON map from identifier to the query's id."""


@dataclass(frozen=True, slots=True)
class WrittenBatch:
    """The last batch that a query wrote.

    Attributes:
        batch: its number.
        query: the query's id; None if another writer, or Hudi's, didn't state it.
        instant: the commit.
    """

    batch: int
    query: str | None
    instant: str


@dataclass(slots=True)
class Progress:
    """Finds the last batch of one identifier; it reads each commit's metadata once.

    Args:
        identifier: the value of `WriteOptions.stream_identifier`.
    """

    identifier: str
    _last: WrittenBatch | None = field(default=None, init=False)
    _seen: frozenset[str] | None = field(default=None, init=False)

    def __getstate__(self) -> str:
        return self.identifier

    def __setstate__(self, identifier: str) -> None:
        self.identifier, self._last, self._seen = identifier, None, None

    def last(self, meta: MetaClient) -> WrittenBatch | None:
        """The last batch that was committed (CommitUtils.getValidCheckpointForCurrentWriter); None without one.

        Hudi reads only the active timeline. Here the archive is searched too, at the first look.

        Raises:
            CorruptError: a commit states no numbers.
        """
        snapshot = TableSnapshot.load(meta)
        if self._last is not None and is_gone(meta, snapshot.timeline, self._last.instant):
            self._seen = self._last = None
        first = self._seen is None
        seen = self._seen or frozenset()
        found = self._newest(snapshot, seen)
        if found is None and first and meta.store.has_history():
            found = self._newest(snapshot.at(Timeline(meta.store.archived(), snapshot.timeline.layout)), seen)
        self._last = found or self._last
        self._seen = frozenset(i.requested for i in snapshot.timeline.commits)
        return self._last

    def note(self, written: WrittenBatch) -> None:
        """Note what was written; its commit may be archived before the next look."""
        self._last = written

    def sole(self) -> SoleProgress:
        """Return the check that no other process has written a batch since the last look."""
        return SoleProgress(self._is_stated, set(self._seen or ()))

    def _is_stated(self, extra: Mapping[str, str]) -> bool:
        try:
            return self.identifier in json.loads(extra.get(CHECKPOINT_KEY) or "{}")
        except (ValueError, TypeError, RecursionError):
            return False  # the next look refuses it

    def _newest(self, snapshot: TableSnapshot, seen: frozenset[str]) -> WrittenBatch | None:
        """Return the batch that the newest commit states which states one, of those that weren't read before."""
        for instant in reversed(snapshot.commits):
            if instant.requested in seen:
                continue
            extra = snapshot.meta.store.read_commit_metadata(instant).extra_metadata or {}
            if not extra.get(CHECKPOINT_KEY):
                continue
            try:
                batches = dict(json.loads(extra[CHECKPOINT_KEY]))
                queries = dict(json.loads(extra.get(QUERY_KEY) or "{}"))
                if self.identifier in batches:
                    query = queries.get(self.identifier)
                    return WrittenBatch(int(batches[self.identifier]), query, instant.requested)
            except (ValueError, TypeError, RecursionError) as error:
                raise CorruptError(
                    f"the commit's {CHECKPOINT_KEY} is no JSON map of batch numbers: {extra[CHECKPOINT_KEY][:100]!r}",
                    table=snapshot.table,
                    instant=instant.requested,
                ) from error
        return None


def stated(identifier: str, batch: int, query: str | None) -> dict[str, str]:
    """Return what a commit states in its extra metadata."""
    found = {CHECKPOINT_KEY: _map({identifier: str(batch)})}
    return found if query is None else found | {QUERY_KEY: _map({identifier: query})}


def is_written(last: WrittenBatch | None, batch: int, query: str | None, identifier: str, table: str) -> bool:
    """Return whether a batch was committed already.

    A query that is restarted begins with its last batch at the earliest. So an earlier number, or another query's
    identity, is that of a query with a new checkpoint: its batches are others, and must not be taken for those that
    were written.

    Args:
        last: the last batch that was committed under the identifier.
        batch: the batch.
        query: its query's id; None outside of a query.
        identifier: the identifier.
        table: location of the table.

    Raises:
        ConflictError: another query wrote under the identifier.
    """
    if last is None:
        return False
    another = query is not None and last.query is not None and last.query != query
    unknown = query is not None and last.query is None and batch < last.batch
    if another or unknown:
        wrote = f"query {last.query}" if last.query else "another query"
        raise ConflictError(
            f"{wrote} has written batches up to {last.batch} of the streaming identifier {identifier!r}, and this is "
            f"batch {batch} of query {query}: it has a new checkpoint, or both have one identifier. Skipping its "
            "batches would lose them. Start it with the old checkpoint; or, if its source begins where the old query "
            f"ended, with a new {WriteOptions.stream_identifier}",
            table=table,
            instant=last.instant,
        )
    return batch <= last.batch


def _map(values: Mapping[str, str]) -> str:
    return json.dumps(values, separators=(",", ":"))


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
            ConflictError: as `is_written`.
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
