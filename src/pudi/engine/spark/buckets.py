"""Buckets on Spark: numbers of records' buckets by Arrow code, and the first bulk insert in Python workers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pudi.context import Storage
from pudi.engine.spark.columns import ARRIVAL, BUCKET, GROUP
from pudi.engine.spark.file_tasks import NO_RECORDS, FileTasks, WorkerCheck, answer, failure, steps, unique_id
from pudi.engine.spark.session import functions, task_ids
from pudi.errors import PudiError
from pudi.plan import FileTask, WriteSpec
from pudi.record import check_paths
from pudi.schema import PARTITION_PATH, RECORD_KEY
from pudi.schema.arrays import groups_of, one_array, ordered_by, take
from pudi.tagging import AnyBuckets, Buckets


def bucket_numbers(frame: Any, buckets: Buckets) -> Any:
    """A column with the bucket number of each record of a frame, an int.

    Args:
        frame: records with their keys.
        buckets: how each partition is divided.
    """
    import pandas as pd  # noqa: PLC0415 - optional

    def numbered(keys: pd.Series) -> pd.Series:
        return pd.Series(buckets.of(pa.array(keys, pa.string())))

    # Spark goes by the types, and doesn't find them by their names here
    numbered.__annotations__ = {"keys": pd.Series, "return": pd.Series}
    return functions(frame).pandas_udf(numbered, "int")(RECORD_KEY)


def bucket_of(frame: Any, buckets: AnyBuckets) -> Any:
    """A column with the name of the bucket of each record of a frame, as its location.

    Args:
        frame: records with their keys, perhaps with `BUCKET`.
        buckets: how the table is divided.
    """
    sql = functions(frame)
    if isinstance(buckets, Buckets):
        names = sql.from_json(sql.lit(json.dumps(buckets.names)), "ARRAY<STRING>")
        number = sql.col(BUCKET) if BUCKET in frame.columns else bucket_numbers(frame, buckets)
        return sql.element_at(names, number + 1)
    import pandas as pd  # noqa: PLC0415 - optional

    def named(partitions: pd.Series, keys: pd.Series) -> pd.Series:
        rows = pa.table([pa.array(partitions, pa.string()), pa.array(keys, pa.string())], [PARTITION_PATH, RECORD_KEY])
        return pd.Series(_names(rows, buckets).to_numpy(zero_copy_only=False))

    named.__annotations__ = {"partitions": pd.Series, "keys": pd.Series, "return": pd.Series}
    return sql.pandas_udf(named, "string")(PARTITION_PATH, RECORD_KEY)


def _names(rows: pa.Table, buckets: AnyBuckets) -> pa.Array:
    """The bucket of each record, by partition path and record key."""
    hashes = buckets.hashes(one_array(rows[RECORD_KEY]))
    names: list[str] = []
    codes = np.zeros(rows.num_rows, np.int64)
    for (partition,), numbers in groups_of(rows, [PARTITION_PATH]):
        places = np.asarray(numbers)
        own, found = buckets.named(hashes[places], partition)
        codes[places] = found + len(names)
        names += own
    return pa.array(names, pa.string()).take(pa.array(codes))


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
