"""The first bulk insert into buckets, inside Spark's Python workers: each bucket's records become its first file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pudi.context import Storage
from pudi.engine.spark.columns import ARRIVAL, BUCKET, GROUP
from pudi.engine.spark.fingerprint import NO_RECORDS
from pudi.engine.spark.session import task_ids
from pudi.engine.spark.tasks import FileTasks, WorkerCheck, answer, failure, steps, unique_id
from pudi.errors import PudiError
from pudi.plan import FileTask, WriteSpec
from pudi.record import check_paths
from pudi.schema import PARTITION_PATH
from pudi.schema.arrays import ordered_by, take
from pudi.tagging import Buckets
from pudi.task.groups import groups_of


@dataclass(frozen=True, slots=True)
class BucketTasks:
    """Writes records to the first files of their buckets, in a table that has no files yet.

    Args:
        storage: the table's files.
        spec: the write.
        buckets: how each partition is divided.
        job: id of the write, from which file ids are made.
        check: done first.
        checks_paths: whether partition paths are made of values, which could lead out of the table.
    """

    storage: Storage
    spec: WriteSpec
    buckets: Buckets
    job: str
    check: WorkerCheck
    checks_paths: bool

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Answers by `RESULT_COLUMNS` for what `bucket_frame` gives, all records of a `GROUP` in a row."""
        files = 0
        try:
            for rows in whole_groups(batches):
                if not files:
                    self.check.run()
                for (partition, bucket), places in groups_of(rows, [PARTITION_PATH, BUCKET]):
                    yield self._write(partition, bucket, take(rows, places), files)
                    files += 1
        except PudiError as error:
            yield failure(error)

    def _write(self, partition: str, bucket: int, rows: pa.Table, files: int) -> pa.RecordBatch:
        if self.checks_paths:
            check_paths(pa.array([partition]))
        rows = ordered_by(rows, ARRIVAL)
        name = self.buckets.names[bucket]
        number = (task_ids()[0] << 20) | files
        file_id = self.buckets.file_id(name, partition, unique_id(self.job, f"{partition}/{name}"))
        task = FileTask(number, partition, file_id, bucket=name)
        return answer(
            number, rows.num_rows, NO_RECORDS, FileTasks(self.storage, self.spec, (), "", self.check).write(task, rows)
        )


def whole_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Records in portions of some size that part no group."""
    pieces: list[pa.Table] = []
    for step in steps(batches):
        rows = pa.Table.from_batches(step)
        groups = rows[GROUP].to_numpy()
        begins = int(np.searchsorted(groups, groups[-1]))  # of the last group, which may go on
        if pieces and groups[0] != pieces[-1][GROUP][-1].as_py():
            yield pa.concat_tables(pieces)
            pieces = []
        if begins:
            yield pa.concat_tables([*pieces, rows.slice(0, begins)])
            pieces = []
        pieces.append(rows.slice(begins))
    if pieces:
        yield pa.concat_tables(pieces)
