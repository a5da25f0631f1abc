"""Errors of readers that meet a file that is gone name what cleans left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import pyarrow as pa

from pudi.action import MetaClient
from pudi.errors import NotFoundError, PudiError
from pudi.filegroup.cleaned import cleans_after, retained_text


@contextmanager
def naming_retained(meta: MetaClient) -> Iterator[None]:
    """Add to the error of a file that is gone which states of the table are still readable.

    Args:
        meta: the table.
    """
    try:
        yield
    except NotFoundError as error:
        text = _text(meta) if type(error) is NotFoundError else ""
        if text and text not in error.message:
            error.message = f"{error.message}; {text}"
        raise


def stream_naming_retained(meta: MetaClient, batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Return a stream whose errors are those of `naming_retained`."""

    def read() -> Iterator[pa.RecordBatch]:
        with closing(batches), naming_retained(meta):
            yield from batches

    return pa.RecordBatchReader.from_batches(batches.schema, read())


def _text(meta: MetaClient) -> str:
    try:
        timeline = meta.store.load()
        return retained_text(timeline, cleans_after(meta.store, timeline))
    except PudiError:  # the first error says more
        return ""
