"""Read a plan on this machine: slices in threads, a few ahead, as one stream of batches in plan order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Condition

import pyarrow as pa

from pudi.config import MergeMemory
from pudi.context import Storage
from pudi.filegroup import FileSlice
from pudi.plan import ReadPlan
from pudi.task import SliceReader


def read_batches(storage: Storage, plan: ReadPlan, threads: int | None = None) -> pa.RecordBatchReader:
    """The rows of a plan as a stream; memory holds as many slices as there are threads, of each as much as it may.

    Args:
        storage: the table's files.
        plan: what to read.
        threads: number of slices read concurrently; None for the machine's cores.
    """
    reader = SliceReader(storage, plan)
    batches = _stream(reader, plan, threads or os.cpu_count() or 1)
    return pa.RecordBatchReader.from_batches(plan.output_schema, batches)


@dataclass(slots=True)
class _Ahead:
    """The batches of one slice, read in a thread of the pool and waited for in another; as many as fit in memory.

    Args:
        most: bytes that wait at most, one batch apart.
    """

    most: int
    _batches: deque[pa.RecordBatch] = field(default_factory=deque)
    _bytes: int = 0
    _done: bool = False
    _closed: bool = False
    _error: BaseException | None = None
    _changed: Condition = field(default_factory=Condition)

    def fill(self, reader: SliceReader, file_slice: FileSlice) -> None:
        """Read the slice; errors are raised in the consumer of the batches."""
        error: BaseException | None = None
        try:
            if self._closed:
                return
            for batch in reader.read(file_slice):
                if not self._put(batch):
                    break
        except BaseException as raised:  # noqa: BLE001 - raised again where the batches are taken
            error = raised
        with self._changed:
            self._done, self._error = True, error
            self._changed.notify_all()

    def _put(self, batch: pa.RecordBatch) -> bool:
        """Have a batch wait; whether more are wanted."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or not self._batches or self._bytes < self.most)
            self._batches.append(batch)
            self._bytes += batch.nbytes
            self._changed.notify_all()
            return not self._closed

    def take(self) -> Iterator[pa.RecordBatch]:
        """The batches, in order; raises what reading raised."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._batches or self._done)
                if not self._batches:
                    if self._error is not None:
                        raise self._error
                    return
                batch = self._batches.popleft()
                self._bytes -= batch.nbytes
                self._changed.notify_all()
            yield batch
            del batch

    def close(self) -> None:
        """Stop reading."""
        with self._changed:
            self._closed = True
            self._batches.clear()
            self._changed.notify_all()


def _stream(reader: SliceReader, plan: ReadPlan, threads: int) -> Iterator[pa.RecordBatch]:
    if len(plan.slices) <= 1 or threads == 1:
        for file_slice in plan.slices:
            yield from reader.read(file_slice)
        return
    memory = MergeMemory() if plan.merging is None else plan.merging.memory
    with ThreadPoolExecutor(threads, thread_name_prefix="pudi-read") as pool:
        ahead: deque[_Ahead] = deque()
        waiting = iter(plan.slices)
        try:
            for file_slice in waiting:
                ahead.append(_Ahead(memory.share))
                pool.submit(ahead[-1].fill, reader, file_slice)
                if len(ahead) > threads:
                    yield from ahead[0].take()
                    ahead.popleft()
            while ahead:
                yield from ahead[0].take()
                ahead.popleft()
        finally:
            for each in ahead:
                each.close()
