"""Identify the streaming query of a batch: a batch that comes again is told from one of another query."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

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
