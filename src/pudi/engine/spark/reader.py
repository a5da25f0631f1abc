"""A read as a lazy Spark DataFrame: a read plan in, a frame by Spark's own Parquet reader out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import pyarrow as pa

from pudi.context import Storage
from pudi.engine.spark.files import CannotReadNatively, NativeFiles
from pudi.engine.spark.overlay import chosen, overlaid, physical_columns
from pudi.engine.spark.read_tasks import SliceTasks, SplitTasks, readers_of, task_count
from pudi.engine.spark.session import check_session, in_workers, struct_type
from pudi.filegroup import BaseFileReader, FileSlice, open_base_file
from pudi.plan import ReadPlan
from pudi.plan.changes import ChangePlan
from pudi.plan.read import needed_columns
from pudi.schema import COMMIT_TIME, arrow_to_spark_json
from pudi.schema.types import is_any_list
from pudi.storage import executor_of


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
