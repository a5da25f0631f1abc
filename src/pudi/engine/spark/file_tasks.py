"""Run tasks and jobs on files inside Spark's Python workers: records or numbers in, rows of statistics out."""

from __future__ import annotations

import pickle
import platform
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.context import Storage
from pudi.context.runtime import lazy_module
from pudi.engine.spark.columns import ARRIVAL, HASH, TASK
from pudi.engine.spark.session import task_ids
from pudi.errors import ConflictError, NotFoundError, PudiError, SetupError
from pudi.format import heartbeat_path, new_file_id, write_token
from pudi.plan import FileTask, Operation, PartitionTask, WriteSpec
from pudi.record import KeyGenerator, without_empty_texts
from pudi.schema import PARTITION_PATH, RECORD_KEY, conform
from pudi.schema.arrays import constant_text, take
from pudi.storage import StorageWrapper
from pudi.task import FileJob, FileResult, write_file
from pudi.task.bulk import RecordBuffer
from pudi.task.partition import Attempt, write_partition
from pudi.task.write import LEAVING
from pudi.version import __version__

if TYPE_CHECKING:  # a write task needs no expressions
    from pudi.plan import Change
    from pudi.task import change_where
else:
    change_where = lazy_module("pudi.task.change_where")


_LOW = (1 << 32) - 1

FINGERPRINT_SQL = (f"bit_xor({HASH})", f"sum({HASH} & {_LOW}L)")
"""Aggregates that give the parts of a `Fingerprint`."""


class Fingerprint(NamedTuple):
    """The compared facts of two record sets that must be equal.

    Attributes:
        xor: XOR of the records' hashes. A record that comes twice cancels itself out of it.
        total: sum of the lower halves of the hashes, which cannot overflow for two billion records.
    """

    xor: int = 0
    total: int = 0

    @classmethod
    def of(cls, hashes: pa.ChunkedArray) -> Fingerprint:
        """The fingerprint of some records."""
        if not len(hashes):
            return cls()
        values = hashes.to_numpy()
        return cls(int(np.bitwise_xor.reduce(values, dtype=np.int64)), int(np.sum(values & _LOW, dtype=np.int64)))

    def plus(self, other: Fingerprint) -> Fingerprint:
        """The fingerprint with other records too."""
        return Fingerprint(self.xor ^ other.xor, self.total + other.total)

    def minus(self, other: Fingerprint) -> Fingerprint:
        """The fingerprint without other records."""
        return Fingerprint(self.xor ^ other.xor, self.total - other.total)


NO_RECORDS = Fingerprint()


RESULT_COLUMNS = "task BIGINT, received BIGINT, xor BIGINT, total BIGINT, results BINARY, error BINARY"
"""Columns of a task's answer: its number, records that came in, their `Fingerprint`, a list of `FileResult` or a
`PudiError` (both pickled)."""

_RESULT_SCHEMA = pa.schema(
    [
        ("task", pa.int64()),
        ("received", pa.int64()),
        ("xor", pa.int64()),
        ("total", pa.int64()),
        ("results", pa.binary()),
        ("error", pa.binary()),
    ]
)

_STEP_BYTES = 64 << 20
"""Arrow bytes of incoming batches that a bulk insert takes in together."""


_seen: set[tuple[str, str]] = set()
"""Instants, by table root, that this worker process has seen already."""


@dataclass(frozen=True, slots=True)
class WorkerCheck:
    """Proof that a worker sees the very table and runs the very code that the driver does.

    Args:
        storage: the table's files.
        instant: requested time of the write; tasks check its heartbeat.
        version: the driver's pudi.
    """

    storage: Storage
    instant: str
    version: str = __version__

    def run(self) -> None:
        """Look.

        Raises:
            SetupError: another pudi, or the write's heartbeat isn't there.
        """
        root = self.storage.root
        if self.version != __version__:
            raise SetupError(
                f"the driver runs pudi {self.version} and the worker on {platform.node()} pudi {__version__}: "
                "install the same version on every node",
                table=root,
            )
        if (root, self.instant) in _seen:
            return
        try:
            self.storage.head(heartbeat_path(self.instant))
        except NotFoundError as error:
            raise SetupError(
                f"the worker on {platform.node()} does not see the table that this process writes: the path must name "
                "the same place on every node (a shared file system or an object store, not a client's own disk)",
                table=root,
                instant=self.instant,
            ) from error
        _seen.add((root, self.instant))


class FencedStorage(StorageWrapper):
    """The table's files for one attempt, which writes nothing once its write is over.

    Spark may go on running an attempt that it has given up; a file that it made after the commit would bear the name of
    a completed instant and be read.

    Args:
        inner: the table's files.
        instant: requested time of the write; its heartbeat is there until the write is over.
    """

    def __init__(self, inner: Storage, instant: str) -> None:
        super().__init__(inner)
        self._instant = instant

    def create(self, path: str, data: bytes, *, durable: bool = False) -> None:
        """Create a file that must not be there; ConflictError when the write is over."""
        self._check()
        super().create(path, data, durable=durable)

    def put(self, path: str, data: bytes, *, durable: bool = False) -> None:
        """Create or replace a file; ConflictError when the write is over."""
        self._check()
        super().put(path, data, durable=durable)

    def _check(self) -> None:
        try:
            self.inner.head(heartbeat_path(self._instant))
        except NotFoundError as error:
            raise ConflictError(
                "this attempt's write is over, committed or rolled back without it; it writes nothing more",
                table=self.root,
                instant=self._instant,
            ) from error


@dataclass(frozen=True, slots=True)
class FileTasks:
    """Does a plan's tasks, each for the records that an exchange brought here.

    Args:
        storage: the table's files.
        spec: the write.
        tasks: the plan's tasks, by number: files to write, or partitions.
        job: id of the write, from which file ids are made.
        check: done first.
    """

    storage: Storage
    spec: WriteSpec
    tasks: Sequence[FileTask | PartitionTask]
    job: str
    check: WorkerCheck

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Answers by `RESULT_COLUMNS` for records with `TASK`, `ARRIVAL`, `HASH`, key and the table's columns."""
        received = [batch for batch in batches if batch.num_rows]
        if not received:
            return
        try:
            self.check.run()
            table = pa.Table.from_batches(received)
            del received
            for number, places in _by_task(table):
                rows = take(table, places)
                yield answer(number, rows.num_rows, Fingerprint.of(rows[HASH]), self.write(self.tasks[number], rows))
        except PudiError as error:
            yield failure(error)

    def write(self, task: FileTask | PartitionTask, rows: pa.Table) -> list[FileResult]:
        """Do one task for its records."""
        keys = rows[RECORD_KEY].cast(pa.string())
        partition = constant_text(task.partition, rows.num_rows)
        leaving = rows[LEAVING] if LEAVING in rows.column_names else None
        if self.spec.operation is Operation.DELETE:
            rows = pa.table([keys, partition], names=[RECORD_KEY, PARTITION_PATH])
        else:
            wanted = self.spec.incoming
            data = conform(rows.select(wanted.names), wanted, table=self.storage.root, evolved=True)
            rows = data.add_column(0, RECORD_KEY, keys).add_column(1, PARTITION_PATH, partition)
        if leaving is not None and pc.any(leaving).as_py():
            rows = rows.append_column(LEAVING, leaving)
        storage = FencedStorage(self.storage, self.spec.instant)
        token = write_token(*task_ids())
        if isinstance(task, FileTask):
            return [write_file(storage, self.spec, task, rows, token)]
        attempt = Attempt(unique_id(self.job, task.partition), token)
        return write_partition(storage, self.spec, task, rows, attempt)


def _by_task(table: pa.Table) -> Iterator[tuple[int, pa.Array]]:
    """Each task's number with the places of its rows in order of arrival."""
    numbers = table[TASK].to_numpy()
    order = np.lexsort((table[ARRIVAL].to_numpy(), numbers))
    tasks, starts = np.unique(numbers[order], return_index=True)
    for number, places in zip(tasks.tolist(), np.split(order, starts[1:]), strict=True):
        yield number, pa.array(places)


@dataclass(slots=True)
class BulkTask:
    """Writes all records of one Spark task to new file groups of their partitions.

    Args:
        storage: the table's files.
        spec: the write.
        keys: how record key and partition path are made.
        job: id of the write, from which file ids are made.
        check: done first.
    """

    storage: Storage
    spec: WriteSpec
    keys: KeyGenerator
    job: str
    check: WorkerCheck
    _buffer: RecordBuffer = field(init=False)
    _files: int = 0
    _rows: int = 0
    _hashes: Fingerprint = NO_RECORDS

    def __post_init__(self) -> None:
        self._buffer = RecordBuffer(self.storage, self.spec)

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Answers by `RESULT_COLUMNS` for records with the table's columns, and `HASH` where they're to be counted."""
        try:
            for step in steps(batches):
                if not self._files and not self._buffer:
                    self.check.run()
                self._take_in(step)
                del step
                while not self.spec.deduplicate and (full := self._buffer.full()) is not None:
                    yield self._write(full)
            while self._buffer:
                yield self._write(self._buffer.next())
        except PudiError as error:
            yield failure(error)

    def _take_in(self, batches: list[pa.RecordBatch]) -> None:
        taken = pa.Table.from_batches(batches)
        if HASH in taken.column_names:
            self._hashes = self._hashes.plus(Fingerprint.of(taken[HASH]))
            taken = taken.drop_columns([HASH])
        data = conform(taken, self.spec.schema.columns, table=self.storage.root, evolved=True)
        keys, partitions = self.keys.record_keys(data, (task_ids()[0], self._rows)), self.keys.partition_paths(data)
        self._buffer.add(without_empty_texts(data, self.keys, self.spec.schema.columns), keys, partitions)
        self._rows += data.num_rows

    def _write(self, partition: str) -> pa.RecordBatch:
        rows = self._buffer.take(partition)
        spark_partition, stage, attempt = task_ids()
        number = (spark_partition << 20) | self._files
        task = FileTask(number, partition, new_file_id(unique_id(self.job, ""), self._files))
        self._files += 1
        storage = FencedStorage(self.storage, self.spec.instant)
        result = write_file(storage, self.spec, task, rows, write_token(spark_partition, stage, attempt))
        hashes, self._hashes = self._hashes, NO_RECORDS  # with the next file, whichever records are in it
        return answer(number, result.received, hashes, [result])


def unique_id(job: str, place: str) -> str:
    """Return the prefix of the file ids of this attempt.

    Another one for each attempt: what a lost attempt wrote must never pass for a version of the same file group.
    """
    return str(uuid.uuid5(uuid.UUID(job), f"{place}/{task_ids()}"))


def steps(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Batches in portions of some size."""
    step: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        step.append(batch)
        size += batch.nbytes
        if size >= _STEP_BYTES:
            yield step
            step, size = [], 0
    if step:
        yield step


@dataclass(frozen=True, slots=True)
class KeyColumns:
    """Adds record key and partition path to records, where Spark SQL can't say them.

    Args:
        keys: how they're made.
        schema: the columns they're made of, in the table's types.
        table: location of the table.
    """

    keys: KeyGenerator
    schema: pa.Schema
    table: str

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches with two columns more."""
        first = 0
        for batch in batches:
            rows = pa.Table.from_batches([batch])
            needed = conform(rows.select(self.schema.names), self.schema, table=self.table, evolved=True)
            keys = self.keys.record_keys(needed, (task_ids()[0], first))
            first += rows.num_rows
            partitions = self.keys.partition_paths(needed).cast(pa.string())
            yield from rows.append_column(RECORD_KEY, keys).append_column(PARTITION_PATH, partitions).to_batches()


def answer(task: int, received: int, fingerprint: Fingerprint, results: list[FileResult]) -> pa.RecordBatch:
    """Return the result of a task as a row of `RESULT_COLUMNS`."""
    return _row(task, received, *fingerprint, pickle.dumps(results), None)


def failure(error: PudiError) -> pa.RecordBatch:
    """An error as a value: raised in the driver with its type, and not retried by Spark."""
    return _row(0, 0, 0, 0, None, pickle.dumps(error))


def _row(*values: int | bytes | None) -> pa.RecordBatch:
    columns = [pa.array([value], field.type) for value, field in zip(values, _RESULT_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=_RESULT_SCHEMA)


@dataclass(frozen=True, slots=True)
class JobTasks:
    """Does jobs.

    Args:
        storage: the table's files.
        instant: requested time of the instant that they're part of.
        jobs: the jobs, by number.
        check: done first.
    """

    storage: Storage
    instant: str
    jobs: Sequence[FileJob]
    check: WorkerCheck

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Answers by `RESULT_COLUMNS` for numbers of jobs."""
        storage = FencedStorage(self.storage, self.instant)
        try:
            for batch in batches:
                for number in batch.column(0).to_pylist():  # files, not records
                    self.check.run()
                    yield answer(number, 0, NO_RECORDS, [self.jobs[number].run(storage, task_ids()[2])])
        except PudiError as error:
            yield failure(error)


@dataclass(frozen=True, slots=True)
class ChangeTasks:
    """Changes rows of files.

    Args:
        storage: the table's files.
        spec: the write.
        tasks: the files, by number.
        change: the rows to change and their new values.
        check: done first.
    """

    storage: Storage
    spec: WriteSpec
    tasks: Sequence[FileTask]
    change: Change
    check: WorkerCheck

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Answers by `RESULT_COLUMNS` for numbers of files."""
        storage = FencedStorage(self.storage, self.spec.instant)
        try:
            for batch in batches:
                for number in batch.column(0).to_pylist():  # files, not records
                    self.check.run()
                    token = write_token(*task_ids())
                    yield answer(
                        number,
                        0,
                        NO_RECORDS,
                        [change_where.change_file(storage, self.spec, self.tasks[number], self.change, token)],
                    )
        except PudiError as error:
            yield failure(error)
