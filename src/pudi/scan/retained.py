"""Streams of rows whose errors name what cleans left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pyarrow as pa

from pudi.client import MetaClient
from pudi.filegroup.clean_history import naming_retained


def stream_naming_retained(meta: MetaClient, batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Return a stream whose errors are those of `naming_retained`."""

    def read() -> Iterator[pa.RecordBatch]:
        with closing(batches), naming_retained(meta.store):
            yield from batches

    return pa.RecordBatchReader.from_batches(batches.schema, read())
