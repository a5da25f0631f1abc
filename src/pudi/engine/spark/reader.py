"""A read as a lazy Spark DataFrame: a read plan in, a frame by Spark's own Parquet reader out.

Log files are applied to the base files that Spark reads. Python workers decode the logs, merge them, and look up their
keys in the key columns of the base files. They return the row numbers of replaced and deleted base rows, which are
broadcast (as bits, 64 rows together) and removed by an anti-join, and the records that replace them or are new.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import pyarrow as pa

from pudi.context import Storage
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
from pudi.engine.spark.files import CannotReadNatively, NativeFiles
from pudi.engine.spark.read_tasks import SliceTasks, SplitTasks, TableTask, WinnerTasks, readers_of, task_count
from pudi.engine.spark.session import check_session, functions, in_workers, struct_type
from pudi.expr import to_spark_sql
from pudi.filegroup import BaseFileReader, FileSlice, open_base_file
from pudi.plan import ReadPlan
from pudi.plan.cdc import ChangePlan
from pudi.plan.read import WantedKeys, needed_columns
from pudi.schema import COMMIT_TIME, arrow_to_spark_json
from pudi.schema.spark_types import quote
from pudi.schema.types import is_any_list
from pudi.storage import StorageKind, executor_of, storage_kind

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


def read_frame(storage: Storage, plan: ReadPlan, spark: Any) -> Any:
    """The rows of a plan as a lazy DataFrame with the columns that it names.

    Spark's own reader reads files with the table's current column types. `SliceReader` reads others (written before a
    type change) in Python workers, with Hudi's conversions of old types. All files of one commit have one schema, so
    one footer per commit is enough.

    Args:
        storage: the table's files.
        plan: what to read.
        spark: a session, classic or Connect.

    Raises:
        SetupError: the session's Spark is too old.
        NotFoundError: a file is gone, or the cluster doesn't see the table by its path.
        CorruptError: a footer can't be read.
    """
    check_session(spark)
    if not plan.columns:  # what comes from Python workers has as many rows as its columns say
        return read_frame(storage, replace(plan, columns=tuple(plan.schema.names[:1])), spark).select()
    schema = struct_type(json.loads(arrow_to_spark_json(plan.output_schema)))
    if not plan.slices:
        return spark.createDataFrame([], schema)
    native, laid, other = _by_reader(storage, plan)
    frames = []
    if native or laid:
        files = NativeFiles(spark, storage)
        try:
            if native:
                frames.append(_native(files, plan, native))
            if laid:
                frames += overlaid(files, plan, laid, schema)
        except CannotReadNatively:
            frames, other = [], list(plan.slices)
    if other:
        numbers = spark.range(0, len(other), 1, task_count(len(other), sum(s.size for s in other)))
        frames.append(in_workers(numbers, SliceTasks(storage, plan, other).run, schema))
    whole = reduce(lambda one, more: one.union(more), frames)
    return whole if plan.limit is None else whole.limit(plan.limit)


def change_frame(storage: Storage, plan: ChangePlan, spark: Any) -> Any:
    """The change data of a plan as a lazy DataFrame, read in Python workers, a split at a time.

    Args:
        storage: the table's files.
        plan: what to read.
        spark: a session, classic or Connect.

    Raises:
        SetupError: the session's Spark is too old.
    """
    check_session(spark)
    schema = struct_type(json.loads(arrow_to_spark_json(plan.output_schema)))
    if not plan.splits:
        return spark.createDataFrame([], schema)
    parts = plan.divided(readers_of(sum(split.size for split in plan.splits)))
    tasks = SplitTasks(storage, replace(plan, splits=()), parts)
    return in_workers(spark.range(0, len(parts), 1, len(parts)), tasks.run, schema)


def _native(files: NativeFiles, plan: ReadPlan, slices: Sequence[FileSlice]) -> Any:
    # a count of rows needs no column, and Spark's reader a schema
    return chosen(files.frame(slices, physical_columns(plan)), plan)


def _by_reader(storage: Storage, plan: ReadPlan) -> tuple[list[FileSlice], list[FileSlice], list[FileSlice]]:
    """Split slices into those for Spark's reader, those with logs over Spark's base files, and others."""

    def may_be_native(file_slice: FileSlice) -> bool:
        return file_slice.base is not None and (not file_slice.logs or plan.commit_times is None)

    samples = {file_slice.instant: file_slice for file_slice in plan.slices if may_be_native(file_slice)}
    found = executor_of(storage).map(lambda s: _fits(storage, s, plan), samples.values())
    fits = dict(zip(samples, found, strict=True))
    native: list[FileSlice] = []
    laid: list[FileSlice] = []
    other: list[FileSlice] = []
    for file_slice in plan.slices:
        right = may_be_native(file_slice) and fits[file_slice.instant]
        (other if not right else laid if file_slice.logs else native).append(file_slice)
    return native, laid, other


def _fits(storage: Storage, file_slice: FileSlice, plan: ReadPlan) -> bool:
    """Whether Spark's reader reads a slice, and all of its commit, right: Parquet, of the table's names and types."""
    assert file_slice.base is not None
    file = open_base_file(storage, file_slice.base)
    if not isinstance(file, BaseFileReader) or plan.names(file_slice.base.instant) is not None:
        return False
    physical = file.schema
    for name in needed_columns(plan):
        field = plan.schema.field(name)
        place = physical.get_field_index(name)
        if place < 0:
            if not field.nullable or name == COMMIT_TIME:
                return False
        elif not same_type(physical.field(place).type, field.type):
            return False
    return True


def same_type(physical: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether Spark reads a column of a file as the table's type without a cast.

    Names of the fields inside lists and maps, which differ by writer, don't count; fields of structs meet by name.
    """
    if physical.equals(wanted):
        return True
    types = pa.types
    if is_any_list(wanted):
        return is_any_list(physical) and same_type(physical.value_type, wanted.value_type)
    if types.is_map(wanted):
        same = types.is_map(physical) and same_type(physical.key_type, wanted.key_type)
        return same and same_type(physical.item_type, wanted.item_type)
    if types.is_struct(wanted):
        return types.is_struct(physical) and all(
            physical.get_field_index(f.name) >= 0 and same_type(physical.field(f.name).type, f.type) for f in wanted
        )
    return bool(wanted == pa.string() and types.is_large_string(physical))
