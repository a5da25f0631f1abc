"""The Spark engine: `Engine`'s steps as DataFrame queries; only statistics come back to the driver."""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from pudi.context import Context, Storage
from pudi.context.progress import advance
from pudi.engine.spark.buckets import BucketTasks
from pudi.engine.spark.columns import ARRIVAL, HASH, SALT, TASK
from pudi.engine.spark.file_tasks import (
    RESULT_COLUMNS,
    BulkTask,
    ChangeTasks,
    FileTasks,
    Fingerprint,
    JobTasks,
    WorkerCheck,
)
from pudi.engine.spark.hive_catalog import metastore_of
from pudi.engine.spark.lookups import is_small
from pudi.engine.spark.merge_into import MergedRows, merge_records, merge_rows, source_of
from pudi.engine.spark.read_tasks import TASK_BYTES, task_count
from pudi.engine.spark.reader import read_frame
from pudi.engine.spark.records import Group, SparkRecords, columns_of_data, prepare
from pudi.engine.spark.routing import (
    Placement,
    bucket_frame,
    bulk_frame,
    is_exchanged,
    planned_records,
    with_partition_tasks,
    with_tasks,
)
from pudi.engine.spark.session import can_observe, check_workers, describe_jobs_of, in_workers, spark_errors
from pudi.engine.spark.tagging import SparkTagged, finds_movers, tag
from pudi.errors import PudiError, UnavailableError
from pudi.plan import (
    Change,
    FileTask,
    MergeJoin,
    MergeUpsert,
    Operation,
    PartitionTask,
    ReadPlan,
    WholeLimits,
    WritePlan,
    WriteSpec,
)
from pudi.schema import RECORD_KEY
from pudi.tagging import Buckets
from pudi.task import FileJob, FileResult, KeyLookup, KeySearch
from pudi.task.engine import TABLE_VARIABLE, EvaluatedAgainError, InputSpec
from pudi.task.jobs import Waiting, Weighed
from pudi.task.write import LEAVING, WriteRows


@dataclass(frozen=True, slots=True)
class SparkRows:
    """The rows of a read.

    Args:
        data: the rows as a DataFrame.
    """

    data: Any

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the result of a query in Spark's dialect; see `TableRows`."""
        spark, name = self.data.sparkSession, f"pudi_rows_{id(self)}"  # other threads have views of their own
        self.data.createOrReplaceTempView(name)
        try:
            return [tuple(row) for row in spark.sql(sql.replace(TABLE_VARIABLE, name)).collect()]
        finally:
            spark.catalog.dropTempView(name)


class DriverEngine(Protocol):
    """An engine whose records are in memory; the methods are those of `pudi.task.engine.Engine`."""

    def keyed_records(self, rows: pa.Table, schema: pa.Schema) -> Any:
        """Return rows that have record key and partition path in the form that `tag` takes."""

    def tag(self, records: Any, storage: Storage, lookups: Sequence[KeyLookup], search: KeySearch) -> Any:
        """Find the file group of each record."""

    def write_jobs(self, tagged: Any, spec: WriteSpec, plan: WritePlan) -> Sequence[WriteRows]:
        """Return the files of a plan as jobs that hold their records."""

    def write_partitions(
        self, records: Any, storage: Storage, spec: WriteSpec, tasks: Sequence[PartitionTask], context: Context
    ) -> Sequence[FileResult]:
        """Find the records' file groups, partition by partition, and write the files."""

    def run_jobs(self, storage: Storage, instant: str, jobs: Sequence[FileJob]) -> Sequence[FileResult]:
        """Run independent jobs."""


_LEAST_GROUPS, _MOST_GROUPS = 16, 64
"""Number of Spark tasks that files are spread over, if there are as many files, regardless of
`spark.sql.shuffle.partitions`."""
_WHOLE: WholeLimits | None = WholeLimits(partitions=64, files=16, base_bytes=32 << 20, records=50_000)
_DRIVER_RECORDS, _FEW_RECORDS = 10_000, 500
"""Records whose keys the driver finds: with a small record index, or with any."""
_DRIVER_BYTES = 64 << 20
"""Bytes that the driver holds of records, and that it rewrites."""
_DRIVER_REWRITES = 16 << 20
"""Bytes of records and of whole partitions that the driver rewrites."""
_DRIVER_JOBS, _WAITING_WEIGHT = 64 << 20, 4 << 20
"""Work of jobs below which the driver does them; what a job that computes nothing counts for."""
_MOST_CHANGES = 10_000
"""Spark tasks that files to change are spread over, at most."""
_GROUP_WEIGHT = 16 << 20
"""Work that a Spark task should have, so that starting its Python worker is worth it."""
_RECORD_WEIGHT, _FILE_WEIGHT = 200, 1 << 20
"""Cost of a record and of a file in addition to its old bytes, expressed in bytes of an old file."""


@dataclass(frozen=True, slots=True)
class SparkEngine:
    """Runs tasks in Python workers of a Spark session, 3.5 or newer, classic or Connect.

    Args:
        spark: the session.
        driver: does what isn't worth a job: it finds the keys of few records, and rewrites few bytes; None to leave all
            to Spark.
    """

    spark: Any
    driver: DriverEngine | None = None

    def __post_init__(self) -> None:
        describe_jobs_of(self.spark)

    def repeatable(self, data: Any, table: str) -> Any:
        """Return the frame unchanged, since Spark evaluates it again for each use; see `pudi.task.engine.Engine`."""
        return data

    def prepare(self, data: Any, spec: InputSpec) -> SparkRecords:
        """Check the input; see `pudi.task.engine.Engine`. Null keys show when records are counted or written."""
        return prepare(data, spec)

    def tag(self, records: SparkRecords, storage: Storage, lookups: Sequence[KeyLookup], search: KeySearch) -> Any:
        """Find the records' file groups, those of few on the driver; see `pudi.task.engine.Engine`."""
        rows = self._collected(records, lookups, search)
        if rows is None:
            return tag(records, storage, lookups, search)
        assert self.driver is not None
        return self.driver.tag(self.driver.keyed_records(rows, records.schema), storage, lookups, search)

    def finds_movers(
        self, records: SparkRecords, storage: Storage, lookups: Sequence[KeyLookup], search: KeySearch
    ) -> bool:
        """Whether a key may be in another partition; see `pudi.task.engine.Engine`."""
        return finds_movers(records, storage, [lookup.file_slice for lookup in lookups])

    def _collected(self, records: SparkRecords, lookups: Sequence[KeyLookup], search: KeySearch) -> pa.Table | None:
        """Return few records whose file groups the driver finds without reading key columns; None for others."""
        count = sum(records.counts.values())
        by_index = search.records is not None and (count <= _FEW_RECORDS or is_small(search.records))
        if self.driver is None or not 0 < count <= _DRIVER_RECORDS or (lookups and not by_index):
            return None
        return records.collected() if count * (records.record_bytes or 0) <= _DRIVER_BYTES else None

    def _near(self, records: SparkRecords, tasks: Sequence[PartitionTask]) -> pa.Table | None:
        """Return few records of partitions that the driver rewrites faster than jobs start; None for others."""
        count, old = sum(records.counts.values()), sum(s.size for task in tasks for s in task.slices)
        new = count * (records.record_bytes or 0)
        if self.driver is None or count > _DRIVER_RECORDS or old + new > _DRIVER_REWRITES:
            return None
        return records.collected()

    @property
    def whole_limits(self) -> WholeLimits | None:
        """Below these, finding keys where the files are written takes less time than the queries to find them first."""
        return _WHOLE

    def write(self, tagged: Any, storage: Storage, spec: WriteSpec, plan: WritePlan) -> Sequence[FileResult]:
        """Bring each record to its task and write the files: on the driver if it found the keys and they're small.

        Raises:
            UnavailableError: Spark failed, or records were lost or doubled on the way, which happens when an input
                that isn't deterministic was evaluated again.
        """
        if self.driver is not None and not isinstance(tagged, SparkTagged):
            jobs = self.driver.write_jobs(tagged, spec, plan)
            near = sum(job.weight for job in jobs) <= _DRIVER_BYTES
            return (self.driver if near else self).run_jobs(storage, spec.instant, jobs)
        places = _places(plan)
        groups = _routed(tagged, spec, places)
        unplanned = set(groups) - places
        if unplanned:
            raise ValueError(f"the plan has no place for records of {sorted(unplanned)[0]}")
        records = planned_records(plan, tagged.profile.updates, tagged.profile.inserts)
        weights = [
            count * _RECORD_WEIGHT + (task.base.size if task.base else 0) + _FILE_WEIGHT
            for task, count in zip(plan.tasks, records, strict=True)
        ]
        placed = self._exchange(with_tasks(tagged.frame, plan), spec, weights, records)
        tasks = FileTasks(storage, spec, plan.tasks, "", WorkerCheck(storage, spec.instant))
        answers = _collect(in_workers(placed, tasks.run, RESULT_COLUMNS), storage.root)
        expected = [(partition, group) for (partition, _), group in groups.items()]
        _check_complete(expected, [task.partition for task in plan.tasks], answers, storage.root)
        return [result for answer in answers for result in answer.results]

    def write_partitions(
        self, records: SparkRecords, storage: Storage, spec: WriteSpec, tasks: Sequence[PartitionTask], context: Context
    ) -> Sequence[FileResult]:
        """Bring each partition's records to one task; raises as `write`."""
        counts = [records.counts[task.partition] for task in tasks]
        rows = self._near(records, tasks)
        if rows is not None:
            assert self.driver is not None
            near = self.driver.keyed_records(rows, records.schema)
            return self.driver.write_partitions(near, storage, spec, tasks, context)
        weights = [
            count * _RECORD_WEIGHT + sum(s.size for s in task.slices) + _FILE_WEIGHT
            for task, count in zip(tasks, counts, strict=True)
        ]
        frame = with_partition_tasks(records.keyed, tasks)
        placed = self._exchange(frame, spec, weights, counts)
        run = FileTasks(storage, spec, tasks, context.new_id(), WorkerCheck(storage, spec.instant)).run
        answers = _collect(in_workers(placed, run, RESULT_COLUMNS), storage.root)
        _check_complete(records.groups.items(), [task.partition for task in tasks], answers, storage.root)
        return [result for answer in answers for result in answer.results]

    def change(
        self, storage: Storage, spec: WriteSpec, tasks: Sequence[FileTask], change: Change
    ) -> Sequence[FileResult]:
        """Change rows in files, each in a task of its own; see `pudi.task.engine.Engine`."""
        numbers = self.spark.range(0, len(tasks), 1, min(len(tasks), _MOST_CHANGES))
        run = ChangeTasks(storage, spec, tasks, change, WorkerCheck(storage, spec.instant)).run
        answers = _collect(in_workers(numbers, run, RESULT_COLUMNS), storage.root)
        if [answer.task for answer in answers] != list(range(len(tasks))):
            raise UnavailableError(
                "Spark lost or doubled tasks that change files; nothing was written", table=storage.root
            )
        return [result for answer in answers for result in answer.results]

    def merge_source(self, data: Any, table: str, known: Callable[[], pa.Schema]) -> tuple[Any, pa.Schema]:
        """Rows to merge; see `pudi.task.engine.Engine`."""
        return source_of(data, table, known)

    def merge_rows(self, source: Any, storage: Storage, join: MergeJoin) -> MergedRows:
        """The records that a merge writes; see `pudi.task.engine.Engine`."""
        return merge_rows(source, storage, join)

    def merge_records(self, source: Any, merge: MergeUpsert) -> Any:
        """The records of a merge that is an upsert; see `pudi.task.engine.Engine`."""
        return merge_records(source, merge)

    def bulk_write(
        self, records: SparkRecords, storage: Storage, spec: WriteSpec, context: Context
    ) -> Sequence[FileResult]:
        """Write all records to new file groups, counted first only where they're exchanged for a sort mode.

        Raises:
            EvaluatedAgainError: records of buckets may have been lost or doubled, as an executor was lost.
            UnavailableError: as `write`.
        """
        if records.spec.buckets is not None:
            buckets = spec.index.fixed_buckets or records.spec.buckets  # the index says by which ids files begin
            return self._write_buckets(records, storage, spec, buckets, context)
        expected = records.groups.values() if is_exchanged(spec) else ()
        task = BulkTask(storage, spec, records.spec.keys, context.new_id(), WorkerCheck(storage, spec.instant))
        answers = _collect(in_workers(bulk_frame(records, spec), task.run, RESULT_COLUMNS), storage.root)
        if is_exchanged(spec):
            _check_complete((("", group) for group in expected), None, answers, storage.root)
        return [result for answer in answers for result in answer.results]

    def _write_buckets(
        self, records: SparkRecords, storage: Storage, spec: WriteSpec, buckets: Buckets, context: Context
    ) -> Sequence[FileResult]:
        """Write the first files of buckets in one job, and find out afterwards whether that went well."""
        frame, seen = bucket_frame(records, spec)
        made_of_values = bool(records.spec.keys.partition_fields)
        check = WorkerCheck(storage, spec.instant)
        run = BucketTasks(storage, spec, buckets, context.new_id(), check, made_of_values).run
        answers = _collect(in_workers(frame, run, RESULT_COLUMNS), storage.root)
        if not answers and not records.counts:
            return []
        received, found = sum(answer.received for answer in answers), seen.found(context.executor) if answers else {}
        if not found.get("once") or found.get("records") != received:
            raise EvaluatedAgainError(
                f"{received} records were written, and Spark doesn't say that these are all that were evaluated",
                table=storage.root,
            )
        return [result for answer in answers for result in answer.results]

    @property
    def spark_version(self) -> str:
        """The session's."""
        return str(self.spark.version)

    @property
    def metastore(self) -> str:
        """The one of the session's Hive catalog."""
        return metastore_of(self.spark)

    def check_ready(self, table: str) -> None:
        """Run a task in a worker, once in a session; see `pudi.task.engine.Engine`."""
        check_workers(self.spark, table)

    @property
    def counts_separately(self) -> bool:
        """Counting is a query of its own; the records are cached for it."""
        return can_observe(self.spark)

    def check_sql(self) -> None:
        """Spark has SQL; see `pudi.task.engine.Engine`."""

    def rows(self, storage: Storage, plan: ReadPlan) -> SparkRows:
        """Return the rows of a read; see `pudi.task.engine.Engine`."""
        return SparkRows(read_frame(storage, plan, self.spark))

    def run_jobs(self, storage: Storage, instant: str, jobs: Sequence[FileJob]) -> Sequence[FileResult]:
        """Do jobs, small ones some in a task; see `pudi.task.engine.Engine`."""
        weight = sum(job.weight if isinstance(job, Weighed) else TASK_BYTES for job in jobs)
        if self.driver is not None and sum(map(_near_weight, jobs)) < _DRIVER_JOBS:
            return self.driver.run_jobs(storage, instant, jobs)
        numbers = self.spark.range(0, len(jobs), 1, min(task_count(len(jobs), weight), _MOST_CHANGES))
        run = JobTasks(storage, instant, jobs, WorkerCheck(storage, instant)).run
        answers = _collect(in_workers(numbers, run, RESULT_COLUMNS), storage.root)
        if [answer.task for answer in answers] != list(range(len(jobs))):
            raise UnavailableError("Spark lost or doubled tasks; nothing was published", table=storage.root)
        advance(len(jobs), len(jobs))
        return [result for answer in answers for result in answer.results]

    def _exchange(self, frame: Any, spec: WriteSpec, weights: Sequence[int], records: Sequence[int]) -> Any:
        """Records that have their task's number, those of one task in one Spark partition."""
        placement = Placement.of(weights, records, self._groups(sum(weights)))
        salt = f"element_at(from_json('{list(placement.salts)}', 'ARRAY<INT>'), {TASK} + 1) AS {SALT}"
        data = [] if spec.operation is Operation.DELETE else columns_of_data(spec.incoming.names)
        found = frame.selectExpr("*", salt).repartition(placement.partitions, SALT)
        leaving = [LEAVING] if LEAVING in frame.columns else []
        return found.selectExpr(TASK, ARRIVAL, HASH, RECORD_KEY, *leaving, *data)

    def _groups(self, weight: int) -> int:
        """Return the number of Spark tasks for files of some weight."""
        with spark_errors("", "asking for its settings"):
            wanted = str(self.spark.conf.get("spark.sql.shuffle.partitions", "200"))
        most = max(_MOST_GROUPS, int(wanted) if wanted.isdigit() else 0)
        return min(most, max(_LEAST_GROUPS, weight // _GROUP_WEIGHT))


def _near_weight(job: FileJob) -> int:
    """The work of a job for the driver; all that it may do, where the job doesn't say."""
    return _WAITING_WEIGHT if isinstance(job, Waiting) else job.weight if isinstance(job, Weighed) else _DRIVER_JOBS


@dataclass(frozen=True, slots=True)
class _Answer:
    task: int
    received: int
    fingerprint: Fingerprint
    results: Sequence[FileResult]


def _collect(frame: Any, table: str) -> list[_Answer]:
    """The answers of all tasks, by number; the first error that one gave is raised."""
    with spark_errors(table, "writing the files"):
        rows = frame.collect()
    for row in rows:
        if row["error"] is not None:
            error = pickle.loads(bytes(row["error"]))
            if isinstance(error, PudiError):
                raise error
    answers = [
        _Answer(
            row["task"], row["received"], Fingerprint(row["xor"], row["total"]), pickle.loads(bytes(row["results"]))
        )
        for row in rows
    ]
    return sorted(answers, key=lambda answer: answer.task)


def _routed(tagged: SparkTagged, spec: WriteSpec, places: set[tuple[str, str]]) -> dict[tuple[str, str], Group]:
    """The groups of records that are written: all, but for keys to delete that aren't there."""
    deletes = spec.operation is Operation.DELETE
    return {
        (partition, file_id or ""): group
        for (partition, file_id), group in tagged.groups.items()
        if group.records and (not deletes or (partition, file_id) in places)
    }


def _places(plan: WritePlan) -> set[tuple[str, str]]:
    """Partition path and file id or bucket (empty for inserts) that a plan has a task for."""
    return {(t.partition, t.location) for t in plan.tasks if t.location is not None} | {
        (r.partition, "") for r in plan.routes
    }


def _check_complete(
    expected: Iterable[tuple[str, Group]], partitions: Sequence[str] | None, answers: Sequence[_Answer], table: str
) -> None:
    """Compare, partition by partition, what was counted before the write with what the tasks got.

    Args:
        expected: what was counted, by partition path.
        partitions: partition path of each task, by number; None where all is counted as of one that is empty.
        answers: what the tasks got.
        table: location of the table.

    Raises:
        UnavailableError: they differ; the write is rolled back.
    """
    balance: defaultdict[str, tuple[int, Fingerprint]] = defaultdict(lambda: (0, Fingerprint()))
    for partition, group in expected:
        records, fingerprint = balance[partition]
        balance[partition] = records + group.records, fingerprint.plus(group.fingerprint)
    for answer in answers:
        partition = "" if partitions is None else partitions[answer.task]
        records, fingerprint = balance[partition]
        balance[partition] = records - answer.received, fingerprint.minus(answer.fingerprint)
    for partition, (records, fingerprint) in balance.items():
        if records or any(fingerprint):
            kind = "fewer" if records > 0 else "more"
            place = "" if partitions is None else f"partition {partition!r}: "
            raise UnavailableError(
                f"{place}the tasks got {abs(records)} records {kind} than were counted, or others: "
                "an executor was lost and the input evaluated again, and it gives other records each time. Nothing "
                "was written; save the input as files first, and write these",
                table=table,
            )
