"""Read file slices inside Spark's Python workers, where Spark's own reader can't."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pudi.context import Storage
from pudi.engine.spark.columns import DEAD_BITS, DEAD_FILE, DEAD_GROUP, DEAD_PLACE, FILE_ID, in_groups, place_by_size
from pudi.filegroup import BaseFile, FileSlice, open_base_file
from pudi.filegroup.clean_history import naming_retained_in
from pudi.plan import ReadPlan
from pudi.plan.cdc import ChangePlan, ChangeSplit
from pudi.schema import PARTITION_PATH, RECORD_KEY
from pudi.task import SliceReader
from pudi.task.cdc_reader import ChangeReader

TASK_BYTES = 64 << 20
"""Least that a task is worth starting for: tasks of less took most of an aggregate over logs to start."""
_LEAST_TASKS = 2


def task_count(count: int, size: int) -> int:
    """Return the number of Spark tasks for reading `count` files of `size` bytes in total."""
    return min(count, readers_of(size))


def readers_of(size: int) -> int:
    """Return the number of Spark tasks worth starting for reading `size` bytes."""
    return max(_LEAST_TASKS, size // TASK_BYTES)


@dataclass(frozen=True, slots=True)
class SliceTasks:
    """Reads file slices in Python, for files that Spark's own reader can't read right or can't reach.

    Args:
        storage: the table's files.
        plan: the read.
        slices: the slices, by number.
    """

    storage: Storage
    plan: ReadPlan
    slices: Sequence[FileSlice]

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the rows of the slices whose numbers come in."""
        reader = SliceReader(self.storage, self.plan)
        for batch in batches:
            for number in batch.column(0).to_pylist():  # files, not records
                yield from naming_retained_in(self.storage, self.plan.timeline, reader.read(self.slices[number]))


@dataclass(frozen=True, slots=True)
class SplitTasks:
    """Reads the change data of single commits in single file groups.

    Args:
        storage: the table's files.
        plan: the read.
        parts: the splits of each task, by its number.
    """

    storage: Storage
    plan: ChangePlan
    parts: Sequence[Sequence[ChangeSplit]]

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the changes of the parts whose numbers come in."""
        reader = ChangeReader(self.storage, self.plan)
        for batch in batches:
            for number in batch.column(0).to_pylist():  # parts, not records
                for split in self.parts[number]:
                    yield from naming_retained_in(self.storage, self.plan.timeline, reader.read(split))


@dataclass(frozen=True, slots=True)
class TableTask:
    """Gives the rows of a small table.

    Args:
        rows: the rows.
    """

    rows: pa.Table

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return the rows once for each row that comes in."""
        for batch in batches:
            for _ in range(batch.num_rows):
                yield from self.rows.to_batches()


@dataclass(frozen=True, slots=True)
class WinnerTasks:
    """Merges file slices in Python as far as their log files go, where Spark reads the base files.

    Args:
        storage: the table's files.
        plan: the read.
        slices: the slices, by number; each has a base file.
    """

    storage: Storage
    plan: ReadPlan
    slices: Sequence[FileSlice]

    def winners(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The wanted records that the log files bring."""
        reader = SliceReader(self.storage, self.plan)
        for batch in batches:
            for number in batch.column(0).to_pylist():  # files, not records
                yield from naming_retained_in(self.storage, self.plan.timeline, reader.winners(self.slices[number]))

    def replaced(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Base rows that don't stay as they are: name of the base file, and groups of its rows (`in_groups`)."""
        return self._replaced(batches, _by_name)

    def replaced_by_size(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Base rows that don't stay as they are: places of groups of rows (`place_by_size`), and their bits."""
        return self._replaced(batches, _by_size)

    def _replaced(
        self, batches: Iterable[pa.RecordBatch], found: Callable[[BaseFile, np.ndarray], dict[str, Any]]
    ) -> Iterator[pa.RecordBatch]:
        reader = SliceReader(self.storage, self.plan)

        def rows_of(file_slice: FileSlice) -> Iterator[pa.RecordBatch]:
            assert file_slice.base is not None
            yield pa.RecordBatch.from_pydict(found(file_slice.base, reader.replaced(file_slice)))

        for batch in batches:
            for number in batch.column(0).to_pylist():  # files, not records
                yield from naming_retained_in(self.storage, self.plan.timeline, rows_of(self.slices[number]))


def _by_name(base: BaseFile, rows: np.ndarray) -> dict[str, Any]:
    groups, bits = in_groups(rows)
    return {DEAD_FILE: pa.repeat(base.name.name, len(groups)), DEAD_GROUP: groups, DEAD_BITS: bits}


def _by_size(base: BaseFile, rows: np.ndarray) -> dict[str, Any]:
    groups, bits = in_groups(rows)
    return {DEAD_PLACE: place_by_size(base.size, groups), DEAD_BITS: bits}


@dataclass(frozen=True, slots=True)
class KeyTasks:
    """Reads the record keys of file slices in Python, for files that Spark's own reader can't reach.

    Args:
        storage: the table's files.
        slices: the slices, by number.
    """

    storage: Storage
    slices: Sequence[FileSlice]

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return partition path, record key and file id of every record of the slices whose numbers come in."""
        for batch in batches:
            for number in batch.column(0).to_pylist():  # files, not records
                file_slice = self.slices[number]
                keys = open_base_file(self.storage, file_slice.base_file).read([PARTITION_PATH, RECORD_KEY])
                file_id = pa.repeat(file_slice.file_id, keys.num_rows)
                yield from keys.append_column(FILE_ID, file_id).to_batches()
