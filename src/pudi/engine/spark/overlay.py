"""Apply log files to base files that Spark reads: slices in; frames whose union is the merged records out.

Python workers decode the logs, merge them, and look up their keys in the key columns of the base files. They return the
row numbers of replaced and deleted base rows, which are broadcast (as bits, 64 rows together) and removed by an
anti-join, and the records that replace them or are new.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Sequence
from functools import reduce
from typing import Any

import pyarrow as pa

from pudi.engine.spark.columns import (
    DEAD_BITS,
    DEAD_FILE,
    DEAD_GROUP,
    DEAD_PLACE,
    FILE,
    GROUP_BITS,
    MOST_SIZE,
    PLACE,
    PLACE_BY_SIZE,
    ROW_NUMBER,
)
from pudi.engine.spark.files import NativeFiles
from pudi.engine.spark.read_tasks import TableTask, WinnerTasks, task_count
from pudi.engine.spark.session import functions, in_workers, struct_type
from pudi.expr import to_spark_sql
from pudi.filegroup import FileSlice
from pudi.plan import ReadPlan
from pudi.plan.keys import WantedKeys
from pudi.plan.read import needed_columns
from pudi.schema import COMMIT_TIME, arrow_to_spark_json
from pudi.schema.spark_types import quote
from pudi.storage import StorageKind, storage_kind

_Sides = tuple[Any, Any, Any]
"""Base rows, replaced rows, and a condition beside equal places; None for none."""

_BROADCAST_LOG_BYTES = 2 << 30
"""Logs up to this size say few enough rows for a broadcast: a row takes some 50 bytes there, and more in the logs."""

_LOOKED_AT_OF_BYTES = 8
"""Divisor of base file bytes that merging reads: only keys, or less where log files have row numbers."""


def overlaid(files: NativeFiles, plan: ReadPlan, slices: Sequence[FileSlice], schema: Any) -> list[Any]:
    """The wanted records of slices with base and log files, as frames to be put together.

    Args:
        files: the native reader.
        plan: the read, without a filter on commits.
        slices: at least one, each with a base file that Spark reads right and log files.
        schema: Spark's schema of the plan's result.

    Raises:
        CannotReadNatively: Spark can't read the base files, or can't tell them apart by their names.
    """
    tasks = WinnerTasks(files.storage, plan, slices)
    log_bytes = sum(log.size for s in slices for log in s.logs)
    base_bytes = sum(s.size for s in slices) // _LOOKED_AT_OF_BYTES
    numbers = files.spark.range(0, len(slices), 1, task_count(len(slices), log_bytes + base_bytes))
    base, dead, same_file = (_by_size if _have_sizes(files, slices) else _by_name)(files, plan, slices, numbers, tasks)
    sql = functions(dead)
    if log_bytes <= _BROADCAST_LOG_BYTES:
        dead = sql.broadcast(dead)
    bit = base[ROW_NUMBER].bitwiseAND((1 << GROUP_BITS) - 1).cast("int")
    gone = (base[PLACE] == dead[DEAD_PLACE]) & (sql.getbit(dead[DEAD_BITS], bit) == 1)
    staying = chosen(base.join(dead, gone if same_file is None else gone & same_file, "left_anti"), plan)
    return [staying, in_workers(numbers, tasks.winners, schema)]


def _have_sizes(files: NativeFiles, slices: Sequence[FileSlice]) -> bool:
    """Whether sizes tell the base files apart: on a local disk, where `NativeFiles` compares them with those stated."""
    sizes = {file_slice.base.size for file_slice in slices if file_slice.base is not None}
    different = len(sizes) == len(slices) and all(0 < size < MOST_SIZE for size in sizes)
    return different and storage_kind(files.storage.root) is StorageKind.LOCAL


def _by_size(
    files: NativeFiles, plan: ReadPlan, slices: Sequence[FileSlice], numbers: Any, tasks: WinnerTasks
) -> _Sides:
    """Both sides of the join with places by the files' sizes: without a text for each row."""
    dead = in_workers(numbers, tasks.replaced_by_size, f"{DEAD_PLACE} bigint, {DEAD_BITS} bigint")
    base = files.located(slices, physical_columns(plan), {FILE: "file_size", ROW_NUMBER: "row_index"})
    return base.withColumn(PLACE, functions(base).expr(PLACE_BY_SIZE)), dead, None


def _by_name(
    files: NativeFiles, plan: ReadPlan, slices: Sequence[FileSlice], numbers: Any, tasks: WinnerTasks
) -> _Sides:
    """Both sides of the join with places by the files' names: hashes, so that names are compared where they are equal.

    And not by an equality, for which Spark would add a join key. No file name is a prefix of another.
    """
    dead = in_workers(numbers, tasks.replaced, f"{DEAD_FILE} string, {DEAD_GROUP} bigint, {DEAD_BITS} bigint")
    sql = functions(dead)
    base = files.located(slices, physical_columns(plan), {FILE: "file_name", ROW_NUMBER: "row_index"})
    base = base.withColumn(PLACE, _hash_of(sql, FILE, sql.shiftright(ROW_NUMBER, GROUP_BITS)))
    dead = dead.withColumn(DEAD_PLACE, _hash_of(sql, DEAD_FILE, sql.col(DEAD_GROUP)))
    return base, dead, base[FILE].startswith(dead[DEAD_FILE])


def _joined(frame: Any, keys: WantedKeys) -> Any:
    """The rows that match some keys: by a predicate if it says all, else by a join with a broadcast frame of them."""
    if keys.exact and keys.rows.num_rows:
        return frame.where(to_spark_sql(keys.implied))
    sql, spark = functions(frame), frame.sparkSession
    names = [f"_pudi_key_{number}" for number in range(keys.rows.num_columns)]
    rows = keys.rows.rename_columns(names)
    schema = struct_type(json.loads(arrow_to_spark_json(rows.schema)))
    side = sql.broadcast(in_workers(spark.range(0, 1, 1, 1), TableTask(rows).run, schema))
    same = [frame[quote(name)] == side[own] for name, own in zip(keys.rows.column_names, names, strict=True)]
    return frame.join(side, reduce(operator.and_, same), "left_semi")


def _hash_of(sql: Any, file: str, group: Any) -> Any:
    """A long for file and number of a group of its rows: different within a file, and almost always beyond it."""
    return sql.xxhash64(sql.col(file)).bitwiseXOR(group)


def physical_columns(plan: ReadPlan) -> pa.Schema:
    """Return the columns to read from base files; all if none is needed, since Spark's reader requires a schema."""
    columns = pa.schema([plan.schema.field(name) for name in needed_columns(plan)])
    return columns if columns.names else plan.schema


def chosen(frame: Any, plan: ReadPlan) -> Any:
    """The rows of base files that a plan keeps, and the columns that it names."""
    if plan.commit_times is not None:
        frame = frame.where(functions(frame).col(COMMIT_TIME).isin(sorted(plan.commit_times)))
    if plan.where is not None:
        frame = frame.where(to_spark_sql(plan.where))
    if plan.keys is not None:
        frame = _joined(frame, plan.keys)
    return frame.selectExpr(*map(quote, plan.columns))  # as texts: for each column object Spark is asked once
