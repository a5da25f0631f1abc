"""Route records to tasks: in one exchange by a write plan, and in order for a bulk insert."""

from __future__ import annotations

import heapq
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pudi.engine.spark.columns import ARRIVAL, BUCKET, FILE_ID, GROUP, HASH, SPREAD, TASK
from pudi.engine.spark.records import SparkRecords, columns_of_data
from pudi.engine.spark.session import Observed, functions
from pudi.plan import SortMode, WriteSpec
from pudi.plan.write import SHARES, PartitionTask, WritePlan
from pudi.schema import PARTITION_PATH, RECORD_KEY
from pudi.schema.spark_types import quote

_ROUTE_COLUMNS = f"{PARTITION_PATH} STRING, {FILE_ID} STRING, {TASK} INT, {SPREAD} ARRAY<INT>"
"""Columns of the look-up rows; `file_id` is empty for inserts."""

MAX_GROUP_RECORDS = 200_000
"""Maximum number of records that one Spark task holds in memory for several small file tasks."""

_MIN_CELLS, _MAX_CELLS, _CELLS_PER_TASK = 1024, 1 << 18, 64


_FEW_ROUTES = 64
"""Rows up to which a map in the query, which is searched from its beginning, is faster than a join."""


def with_tasks(frame: Any, plan: WritePlan) -> Any:
    """Records with the number of their task, `TASK`; those that a plan has no task for are left out.

    Args:
        frame: records with partition path, hash, and `FILE_ID` if they were tagged.
        plan: the files that are written.
    """
    sql = functions(frame)
    if FILE_ID not in frame.columns:
        frame = frame.withColumn(FILE_ID, sql.lit(None).cast("string"))
    rows = _route_rows(plan)
    if len(rows) <= _FEW_ROUTES:
        place = f"concat(coalesce({FILE_ID}, ''), '/', {PARTITION_PATH})"

        def looked_up(name: str, kind: str) -> Any:
            values = {f"{row[FILE_ID]}/{row[PARTITION_PATH]}": row[name] for row in rows if name in row}
            return _looked_up(sql, values, kind, sql.expr(place)).alias(name)

        frame = frame.select("*", looked_up(TASK, "INT"), looked_up(SPREAD, "ARRAY<INT>"))
        found = frame.where(f"{TASK} IS NOT NULL OR {SPREAD} IS NOT NULL")
    else:
        text = sql.lit(json.dumps(rows, ensure_ascii=False))
        table = sql.inline(sql.from_json(text, f"ARRAY<STRUCT<{_ROUTE_COLUMNS}>>"))
        table = frame.sparkSession.range(0, 1, 1, 1).select(table)
        frame = frame.withColumn(FILE_ID, sql.coalesce(FILE_ID, sql.lit("")))
        found = frame.join(sql.broadcast(table), [PARTITION_PATH, FILE_ID])
    spread = f"element_at({SPREAD}, CAST(pmod({HASH}, size({SPREAD})) AS INT) + 1)"
    return found.withColumn(TASK, sql.expr(f"coalesce({TASK}, {spread})"))


def with_partition_tasks(frame: Any, tasks: Sequence[PartitionTask]) -> Any:
    """Records with the number of their partition's task, `TASK`."""
    sql = functions(frame)
    numbers = {task.partition: task.number for task in tasks}
    return frame.select("*", _looked_up(sql, numbers, "INT", sql.col(PARTITION_PATH)).alias(TASK))


def _looked_up(sql: Any, values: Mapping[str, object], kind: str, key: Any) -> Any:
    """Return the value of each key; null for unknown keys."""
    if not values:
        return sql.lit(None).cast(kind)
    text = sql.lit(json.dumps(values, ensure_ascii=False))
    return sql.element_at(sql.from_json(text, f"MAP<STRING, {kind}>"), key)


def _route_rows(plan: WritePlan) -> list[dict[str, Any]]:
    """Look-up rows for all records of a plan, of `_ROUTE_COLUMNS`.

    A row is found by partition path and file id (empty for records that are not in the table). It names the task, or,
    where a partition's inserts are spread over several, an array of task numbers that a hash of the key picks from.
    """
    rows: list[dict[str, Any]] = [
        {PARTITION_PATH: task.partition, FILE_ID: task.location, TASK: task.number}
        for task in plan.tasks
        if task.location is not None
    ]
    for route in plan.routes:
        row: dict[str, Any] = {PARTITION_PATH: route.partition, FILE_ID: ""}
        if len(route.tasks) == 1:
            row[TASK] = route.tasks[0]
        else:
            row[SPREAD] = _cells(route.tasks, route.upper).tolist()
        rows.append(row)
    return rows


def _cells(tasks: Sequence[int], upper: Sequence[int]) -> np.ndarray:
    """The task of each of equally many hashes; a power of two of cells, so fine that every task's share is met."""
    cells = _MIN_CELLS
    while cells < min(len(tasks) * _CELLS_PER_TASK, _MAX_CELLS):
        cells *= 2
    share = (np.arange(cells) * (SHARES // cells)) + SHARES // cells // 2
    return np.asarray(tasks)[np.searchsorted(np.asarray(upper), share, side="right")]


@dataclass(frozen=True, slots=True)
class Placement:
    """Assignment of file tasks to Spark tasks.

    Attributes:
        partitions: number of Spark tasks.
        salts: for each file task, by number, an integer that Spark's hash partitioning puts into its Spark task.
    """

    partitions: int
    salts: tuple[int, ...]

    @classmethod
    def of(cls, weights: Sequence[int], records: Sequence[int], at_least: int) -> Placement:
        """Spread file tasks evenly.

        Args:
            weights: work of each file task, in any one unit.
            records: records that each file task gets, about.
            at_least: Spark tasks wanted, if there are as many file tasks.
        """
        groups = min(len(weights), max(1, at_least))
        loads = [(0, 0, number) for number in range(groups)]  # work, records, Spark task
        heapq.heapify(loads)
        place = [0] * len(weights)
        for task in sorted(range(len(weights)), key=lambda number: -weights[number]):
            work, assigned, number = loads[0]
            if assigned and assigned + records[task] > MAX_GROUP_RECORDS:
                number, work, assigned = groups, 0, 0
                groups += 1
                heapq.heappush(loads, (weights[task], records[task], number))
            else:
                heapq.heapreplace(loads, (work + weights[task], assigned + records[task], number))
            place[task] = number
        by_group = salts(groups)
        return cls(groups, tuple(by_group[number] for number in place))


def salts(partitions: int) -> list[int]:
    """Return, for each of `partitions` partitions, an int that `repartition(partitions, column)` puts there.

    Spark places a row by `pmod(murmur3_x86_32(value, seed 42), partitions)` (HashPartitioning, Murmur3Hash). A wrong
    guess would cost balance, not correctness: equal salts always meet.
    """
    found: dict[int, int] = {}
    start = 0
    while len(found) < partitions:
        values = np.arange(start, start + 4 * partitions + 64, dtype=np.int32)
        places = murmur3(values).astype(np.int64) % partitions
        for value, place in zip(values.tolist(), places.tolist(), strict=True):
            found.setdefault(place, value)
        start += len(values)
    return [found[place] for place in range(partitions)]


def murmur3(values: np.ndarray, seed: int = 42) -> np.ndarray:
    """Spark's hash of each of some 32-bit integers (Murmur3_x86_32.hashInt), as signed 32-bit integers."""
    with np.errstate(over="ignore"):
        k = values.astype(np.int32).view(np.uint32) * np.uint32(0xCC9E2D51)
        k = _rotate(k, 15) * np.uint32(0x1B873593)
        h = _rotate(np.uint32(seed) ^ k, 13) * np.uint32(5) + np.uint32(0xE6546B64)
        h ^= np.uint32(4)
        h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        hashed: np.ndarray = (h ^ (h >> np.uint32(16))).view(np.int32)
    return hashed


def _rotate(values: np.ndarray, bits: int) -> np.ndarray:
    rotated: np.ndarray = (values << np.uint32(bits)) | (values >> np.uint32(32 - bits))
    return rotated


def planned_records(plan: WritePlan, updates: Mapping[tuple[str, str], int], inserts: Mapping[str, int]) -> list[int]:
    """About how many records each task of a plan gets."""
    numbers = {(task.partition, task.location): task.number for task in plan.tasks if task.location}
    counts = [0] * len(plan.tasks)
    for group, records in updates.items():
        if group in numbers:
            counts[numbers[group]] += records
    for route in plan.routes:
        below = 0
        for task, upper in zip(route.tasks, route.upper, strict=True):
            counts[task] += inserts.get(route.partition, 0) * (upper - below) // SHARES
            below = upper
    return counts


_EXCHANGED = {SortMode.GLOBAL_SORT, SortMode.PARTITION_PATH_REPARTITION, SortMode.PARTITION_PATH_REPARTITION_AND_SORT}

_FIRST = f"{ARRIVAL} & {(1 << 33) - 1} = 0"
"""Whether a record is the first of its Spark partition (`monotonically_increasing_id`)."""
_EVALUATED = f"collect_list(CASE WHEN {_FIRST} THEN shiftright({ARRIVAL}, 33) END)"


def is_exchanged(spec: WriteSpec) -> bool:
    """Whether `bulk_frame` brings records to other tasks than those that evaluate them."""
    return spec.sort in _EXCHANGED or spec.deduplicate


def bulk_frame(records: SparkRecords, spec: WriteSpec) -> Any:
    """The table's columns of records, those of one task in its order (BulkInsertInternalPartitionerWithRowsFactory).

    If the write combines versions, those of one key meet in one task. Shuffled records carry a column `HASH`.

    Args:
        records: the records.
        spec: the write.
    """
    tasks = (spec.bulk_tasks,) if spec.bulk_tasks else ()
    if spec.sort is SortMode.NONE and not spec.deduplicate:
        return records.frame.coalesce(*tasks) if tasks else records.frame
    keyed = records.keyed
    if spec.sort is SortMode.GLOBAL_SORT:
        placed = keyed.repartitionByRange(*tasks, PARTITION_PATH, RECORD_KEY)
    elif spec.sort in {SortMode.PARTITION_PATH_REPARTITION, SortMode.PARTITION_PATH_REPARTITION_AND_SORT}:
        placed = keyed.repartition(*tasks, PARTITION_PATH)
    elif spec.deduplicate:
        placed = keyed.repartition(*tasks, PARTITION_PATH, RECORD_KEY)
    else:
        placed = keyed.coalesce(*tasks) if tasks else keyed
    order = [ARRIVAL]
    if spec.sort.by_key:
        order = [PARTITION_PATH, RECORD_KEY, ARRIVAL]
    elif spec.sort is SortMode.PARTITION_PATH_REPARTITION_AND_SORT:
        order = [PARTITION_PATH, ARRIVAL]
    counted = [HASH] if is_exchanged(spec) else []
    return placed.sortWithinPartitions(*order).select(*counted, *columns_of_data(spec.schema.columns.names))


def bucket_frame(records: SparkRecords, spec: WriteSpec) -> tuple[Any, Observed]:
    """Keys, buckets and the table's columns of records; those of one bucket in one task, one after the other.

    The second value holds facts that are complete after the run: how many `records` were evaluated, and whether `once`,
    which means that Spark evaluated no input partition with records twice. It counts every successful evaluation, also
    those whose records a lost executor took along.

    Args:
        records: the records, of a table with a fixed number of buckets.
        spec: the write.
    """
    tasks = (spec.bulk_tasks,) if spec.bulk_tasks else ()
    frame = records.with_keys().selectExpr(
        RECORD_KEY,
        PARTITION_PATH,
        BUCKET,
        f"xxhash64({PARTITION_PATH}, {BUCKET}) AS {GROUP}",
        f"monotonically_increasing_id() AS {ARRIVAL}",
        *(quote(name) for name in spec.schema.columns.names),
    )
    seen = Observed.of(frame, records="count(1)", once=f"size({_EVALUATED}) = size(array_distinct({_EVALUATED}))")
    # one long: Spark sorts these by their digits
    return seen.frame.repartition(*tasks, GROUP).sortWithinPartitions(GROUP), seen
