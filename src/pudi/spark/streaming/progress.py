"""Read from commits the last batch that each streaming query has written to a table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from pudi.client import MetaClient, TableSnapshot
from pudi.commit.conditions import SoleProgress, is_gone
from pudi.config import WriteOptions
from pudi.errors import ConflictError, CorruptError
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


def is_connect(frame: Any) -> bool:
    """Return whether a frame is one of Spark Connect."""
    return type(frame).__module__.startswith("pyspark.sql.connect.")


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
