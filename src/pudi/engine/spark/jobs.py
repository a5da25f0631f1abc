"""Jobs on file groups and changes of rows in Spark's Python workers: numbers of files in, statistics out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pudi.context import Storage
from pudi.engine.spark.file_tasks import NO_RECORDS, FencedStorage, WorkerCheck, answer, failure
from pudi.engine.spark.session import task_ids
from pudi.errors import PudiError
from pudi.format import write_token
from pudi.plan import Change, FileTask, WriteSpec
from pudi.task import FileJob
from pudi.task.change_where import change_file


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
                        number, 0, NO_RECORDS, [change_file(storage, self.spec, self.tasks[number], self.change, token)]
                    )
        except PudiError as error:
            yield failure(error)
