"""A read as a lazy Spark DataFrame: a read plan in, a frame by Spark's own Parquet reader out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa

from pudi.context import Storage
from pudi.engine.spark.files import CannotReadNatively, NativeFiles
from pudi.engine.spark.read_tasks import SliceTasks
from pudi.engine.spark.session import check_session, functions, struct_type
from pudi.expr import to_spark_sql
from pudi.filegroup import BaseFileReader, FileSlice, open_base_file
from pudi.plan import ReadPlan
from pudi.plan.read import needed_columns
from pudi.schema import COMMIT_TIME, arrow_to_spark_json
from pudi.schema.types import is_any_list

_FOOTER_THREADS = 16


def read_frame(storage: Storage, plan: ReadPlan, spark: Any) -> Any:
    """The rows of a plan as a lazy DataFrame with the columns that it names.

    Files whose columns are of the table's types are read by Spark's own reader; others (written before a column's type
    changed) by `SliceReader` in Python workers, which knows how Hudi turns the old type into the new one. All files of
    one commit have one schema, so one footer of each commit is looked at.

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
    schema = struct_type(json.loads(arrow_to_spark_json(plan.output_schema)))
    if not plan.slices:
        return spark.createDataFrame([], schema)
    native, other = _by_reader(storage, plan)
    frames = []
    if native:
        try:
            frames.append(_native(NativeFiles(spark, storage), plan, native))
        except CannotReadNatively:
            other = list(plan.slices)
    if other:
        numbers = spark.range(0, len(other), 1, len(other))
        frames.append(numbers.mapInArrow(SliceTasks(storage, plan, other).run, schema))
    return frames[0] if len(frames) == 1 else frames[0].union(frames[1])


def _native(files: NativeFiles, plan: ReadPlan, slices: Sequence[FileSlice]) -> Any:
    columns = pa.schema([plan.schema.field(name) for name in needed_columns(plan)])
    # a count of rows needs no column, and Spark's reader a schema
    frame = files.frame(slices, columns if columns.names else plan.schema)
    sql = functions(frame)
    if plan.commit_times is not None:
        frame = frame.filter(sql.col(COMMIT_TIME).isin(sorted(plan.commit_times)))
    if plan.where is not None:
        frame = frame.filter(sql.expr(to_spark_sql(plan.where)))
    return frame.select(*plan.columns)


def _by_reader(storage: Storage, plan: ReadPlan) -> tuple[list[FileSlice], list[FileSlice]]:
    """The slices that Spark's reader reads right, and the others."""
    plain = [file_slice for file_slice in plan.slices if not file_slice.logs]
    samples = {file_slice.instant: file_slice for file_slice in plain}
    if not samples:
        return [], list(plan.slices)
    with ThreadPoolExecutor(min(len(samples), _FOOTER_THREADS)) as pool:
        fits: Mapping[str, bool] = dict(
            zip(samples, pool.map(lambda s: _fits(storage, s, plan), samples.values()), strict=True)
        )
    native = [s for s in plain if fits[s.instant]]
    return native, [s for s in plan.slices if s.logs or not fits[s.instant]]


def _fits(storage: Storage, file_slice: FileSlice, plan: ReadPlan) -> bool:
    """Whether Spark's reader reads a slice, and all of its commit, right: Parquet, of the table's names and types."""
    file = open_base_file(storage, file_slice.base_file)
    if not isinstance(file, BaseFileReader) or plan.names(file_slice.instant) is not None:
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
