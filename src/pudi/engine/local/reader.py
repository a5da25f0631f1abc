"""Read a plan on this machine: slices in threads, a few ahead, as one stream of batches in plan order."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import closing
from functools import partial

import pyarrow as pa

from pudi.config import MergeMemory
from pudi.context import Storage
from pudi.plan import ReadPlan
from pudi.plan.cdc import ChangePlan
from pudi.storage import executor_of
from pudi.task import SliceReader
from pudi.task.cdc_reader import ChangeReader


def read_batches(storage: Storage, plan: ReadPlan) -> pa.RecordBatchReader:
    """The rows of a plan as a stream; memory holds as many slices as there are cores, of each as much as it may.

    With a limit, no slice is begun after it's reached; where nothing is filtered, one slice is read at a time.

    Args:
        storage: the table's files.
        plan: what to read.
    """
    reader = SliceReader(storage, plan)
    memory = MergeMemory() if plan.merging is None else plan.merging.memory
    few = plan.limit is not None and plan.narrowed is None  # then the first slices have enough rows
    batches = executor_of(storage).read_ahead(
        (partial(reader.read, file_slice) for file_slice in plan.slices),
        limit=1 if few else os.cpu_count() or 1,
        most=memory.share,
        size=lambda batch: batch.nbytes,
    )
    return pa.RecordBatchReader.from_batches(
        plan.output_schema, batches if plan.limit is None else _first(batches, plan.limit)
    )


def read_changes(storage: Storage, plan: ChangePlan) -> pa.RecordBatchReader:
    """The change data of a plan as a stream, commit after commit; memory as of `read_batches`."""
    reader, limit = ChangeReader(storage, plan), os.cpu_count() or 1
    batches = executor_of(storage).read_ahead(
        (partial(reader.read, split) for part in plan.divided(limit) for split in part),
        limit=limit,
        most=plan.merging.memory.share,
        size=lambda batch: batch.nbytes,
    )
    return pa.RecordBatchReader.from_batches(plan.output_schema, batches)


def _first(batches: Generator[pa.RecordBatch, None, None], rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the first `rows` rows, then stop reading."""
    with closing(batches):
        while rows > 0 and (batch := next(batches, None)) is not None:
            yield batch.slice(0, rows)
            rows -= batch.num_rows
