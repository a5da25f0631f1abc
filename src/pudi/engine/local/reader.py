"""Read a plan on this machine: slices in threads, a few ahead, as one stream of batches in plan order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa

from pudi.context import Storage
from pudi.plan import ReadPlan
from pudi.task import SliceReader


def read_batches(storage: Storage, plan: ReadPlan, threads: int | None = None) -> pa.RecordBatchReader:
    """The rows of a plan as a stream; memory holds as many slices as there are threads.

    Args:
        storage: the table's files.
        plan: what to read.
        threads: slices in work at once; None for the machine's cores.
    """
    reader = SliceReader(storage, plan)
    batches = _stream(reader, plan, threads or os.cpu_count() or 1)
    return pa.RecordBatchReader.from_batches(plan.output_schema, batches)


def _stream(reader: SliceReader, plan: ReadPlan, threads: int) -> Iterator[pa.RecordBatch]:
    if len(plan.slices) <= 1 or threads == 1:
        for file_slice in plan.slices:
            yield from reader.read(file_slice)
        return
    with ThreadPoolExecutor(threads, thread_name_prefix="pudi-read") as pool:
        ahead: deque[Future[list[pa.RecordBatch]]] = deque()
        waiting = iter(plan.slices)
        try:
            for file_slice in waiting:
                ahead.append(pool.submit(lambda s: list(reader.read(s)), file_slice))
                if len(ahead) > threads:
                    yield from ahead.popleft().result()
            while ahead:
                yield from ahead.popleft().result()
        finally:
            for future in ahead:
                future.cancel()
