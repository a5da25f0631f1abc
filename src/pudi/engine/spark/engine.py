"""The Spark engine: `Engine`'s steps as DataFrame queries; only statistics come back to the driver."""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pudi.context import Context, Storage
from pudi.engine.spark.columns import ARRIVAL, FILE_ID, HASH, SALT, SPREAD, TASK
from pudi.engine.spark.records import SparkRecords, columns_of_data, prepare
from pudi.engine.spark.routing import ROUTE_COLUMNS, Placement, planned_records, route_rows
from pudi.engine.spark.session import functions, spark_errors
from pudi.engine.spark.tagging import SparkTagged, tag
from pudi.engine.spark.tasks import RESULT_COLUMNS, BulkTask, FileTasks, WorkerCheck
from pudi.errors import PudiError, UnavailableError
from pudi.plan import Operation, WritePlan, WriteSpec
from pudi.schema import PARTITION_PATH, RECORD_KEY
from pudi.task import FileResult, KeyLookup
from pudi.task.engine import InputSpec

_LEAST_GROUPS, _MOST_GROUPS = 16, 64
"""Spark tasks that files are spread over, if there are as many files, whatever `spark.sql.shuffle.partitions` says."""
_GROUP_WEIGHT = 16 << 20
"""Work that a Spark task should have, so that starting its Python worker is worth it."""
_RECORD_WEIGHT, _FILE_WEIGHT = 200, 1 << 20
"""Work of a record and of a file beside its old bytes, as bytes of an old file that would take as long."""


@dataclass(frozen=True, slots=True)
class SparkEngine:
    """Runs tasks in Python workers of a Spark session, 3.5 or newer, classic or Connect.

    Args:
        spark: the session.
    """

    spark: Any

    def prepare(self, data: Any, spec: InputSpec) -> SparkRecords:
        """Check the input; see `pudi.task.engine.Engine`. Null keys show when records are counted or written."""
        return prepare(data, spec)

    def tag(self, records: SparkRecords, storage: Storage, lookups: Sequence[KeyLookup]) -> SparkTagged:
        """Find the records' keys in file slices."""
        return tag(records, storage, lookups)

    def write(self, tagged: SparkTagged, storage: Storage, spec: WriteSpec, plan: WritePlan) -> Sequence[FileResult]:
        """Bring each record to its task and write the files.

        Raises:
            UnavailableError: Spark failed, or records were lost or doubled on the way, which happens when an input
                that isn't deterministic was evaluated again.
        """
        routed = _routed(tagged, spec)
        unplanned = set(routed) - _places(plan)
        if unplanned:
            raise ValueError(f"the plan has no place for records of {sorted(unplanned)[0]}")
        placed = self._exchange(tagged, spec, plan)
        tasks = FileTasks(storage, spec, plan.tasks, WorkerCheck(storage, spec.instant))
        answers = _collect(placed.mapInArrow(tasks.run, RESULT_COLUMNS), storage.root)
        _check_complete(tagged, routed, plan, answers, storage.root)
        return [answer.result for answer in answers]

    def bulk_write(
        self, records: SparkRecords, storage: Storage, spec: WriteSpec, context: Context
    ) -> Sequence[FileResult]:
        """Write all records to new file groups in one job, without counting them first."""
        frame = records.frame
        if spec.deduplicate:
            frame = records.keyed.repartition(PARTITION_PATH, RECORD_KEY)
            frame = frame.sortWithinPartitions(ARRIVAL).select(*columns_of_data(spec.schema.names))
        task = BulkTask(storage, spec, records.spec.keys, context.new_id(), WorkerCheck(storage, spec.instant))
        return [answer.result for answer in _collect(frame.mapInArrow(task.run, RESULT_COLUMNS), storage.root)]

    def _exchange(self, tagged: SparkTagged, spec: WriteSpec, plan: WritePlan) -> Any:
        """The records with their task's number, those of one task in one Spark partition."""
        frame, sql = tagged.frame, functions(tagged.frame)
        if FILE_ID not in frame.columns:
            frame = frame.withColumn(FILE_ID, sql.lit(None).cast("string"))
        routes = sql.inline(sql.from_json(sql.lit(route_rows(plan)), f"ARRAY<STRUCT<{ROUTE_COLUMNS}>>"))
        routes = self.spark.range(0, 1, 1, 1).select(routes)
        frame = frame.withColumn(FILE_ID, sql.coalesce(FILE_ID, sql.lit("")))
        found = frame.join(sql.broadcast(routes), [PARTITION_PATH, FILE_ID])
        spread = sql.expr(f"element_at({SPREAD}, CAST(pmod({HASH}, size({SPREAD})) AS INT) + 1)")
        found = found.withColumn(TASK, sql.coalesce(TASK, spread))
        profile = tagged.profile
        records = planned_records(plan, profile.updates, profile.inserts)
        weights = [
            count * _RECORD_WEIGHT + (task.base.size if task.base else 0) + _FILE_WEIGHT
            for task, count in zip(plan.tasks, records, strict=True)
        ]
        placement = Placement.of(weights, records, self._groups(sum(weights)))
        salts = sql.from_json(sql.lit(str(list(placement.salts))), "ARRAY<INT>")
        salt = sql.element_at(salts, sql.col(TASK) + 1)
        data = [] if spec.operation is Operation.DELETE else columns_of_data(spec.schema.names)
        found = found.withColumn(SALT, salt).repartition(placement.partitions, SALT)
        return found.select(TASK, ARRIVAL, HASH, RECORD_KEY, *data)

    def _groups(self, weight: int) -> int:
        """How many Spark tasks files of that weight are spread over."""
        with spark_errors("", "asking for its settings"):
            wanted = str(self.spark.conf.get("spark.sql.shuffle.partitions", "200"))
        most = max(_MOST_GROUPS, int(wanted) if wanted.isdigit() else 0)
        return min(most, max(_LEAST_GROUPS, weight // _GROUP_WEIGHT))


@dataclass(frozen=True, slots=True)
class _Answer:
    received: int
    fingerprint: int
    result: FileResult


def _collect(frame: Any, table: str) -> list[_Answer]:
    """The answers of all tasks, by number; the first error that one gave is raised."""
    with spark_errors(table, "writing the files"):
        rows = frame.collect()
    for row in rows:
        if row["error"] is not None:
            error = pickle.loads(bytes(row["error"]))
            if isinstance(error, PudiError):
                raise error
    answers = [_Answer(row["received"], row["fingerprint"], pickle.loads(bytes(row["result"]))) for row in rows]
    return sorted(answers, key=lambda answer: answer.result.task)


def _routed(tagged: SparkTagged, spec: WriteSpec) -> list[tuple[str, str]]:
    """The groups of records that are written: all, but for keys to delete that aren't there."""
    deletes = spec.operation is Operation.DELETE
    return [(p, f or "") for (p, f), group in tagged.groups.items() if group.records and (f is not None or not deletes)]


def _places(plan: WritePlan) -> set[tuple[str, str]]:
    """Partition path and file id (empty for inserts) that a plan has a task for."""
    return {(t.partition, t.file_id) for t in plan.tasks if t.base is not None} | {
        (r.partition, "") for r in plan.routes
    }


def _check_complete(
    tagged: SparkTagged, routed: Iterable[tuple[str, str]], plan: WritePlan, answers: Sequence[_Answer], table: str
) -> None:
    """Compare, partition by partition, what was counted before the write with what the tasks got.

    Raises:
        UnavailableError: they differ; the write is rolled back.
    """
    balance: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for partition, file_id in routed:
        group = tagged.groups[partition, file_id or None]
        balance[partition][0] += group.records
        balance[partition][1] ^= group.fingerprint
    for answer in answers:
        partition = plan.tasks[answer.result.task].partition
        balance[partition][0] -= answer.received
        balance[partition][1] ^= answer.fingerprint
    for partition, (records, fingerprint) in balance.items():
        if records or fingerprint:
            kind = "fewer" if records > 0 else "more"
            raise UnavailableError(
                f"partition {partition!r}: the tasks got {abs(records)} records {kind} than were counted, or others: "
                "an executor was lost and the input evaluated again, and it gives other records each time. Nothing "
                "was written; save the input as files first, and write these",
                table=table,
            )
