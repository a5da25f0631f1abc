"""The `Scan`: a lazy read pinned to the timeline of the moment it was made, its forms, and its export as files.

Errors of streams name what cleans left.
"""

from __future__ import annotations

import base64
import json
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field, replace
from functools import cache, partial
from types import FrameType
from typing import IO, TYPE_CHECKING, Any, Final, Literal, overload

import pyarrow as pa
import pyarrow.csv as pa_csv

from pudi.client import MetaClient, TableSnapshot
from pudi.config.arguments import path_given
from pudi.context import Storage
from pudi.context.runtime import lazy_module
from pudi.engine.local import read_batches
from pudi.errors import InvalidArgumentError, NotSupportedError, SchemaError, SetupError
from pudi.expr import Expr, conjunction, replace_columns
from pudi.filegroup import FileSlice, PathColumns, open_base_file, path_columns
from pudi.filegroup.clean_history import naming_retained
from pudi.format.parquet import parquet_writer
from pudi.plan import ReadPlan
from pudi.scan.planning import Fields, Planner
from pudi.storage import canonical_root, executor_of, open_storage, temporary_errors, temporary_file
from pudi.task import SliceReader
from pudi.timeline import TimelinePlace, TimelineStore

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow.dataset

    from pudi.engine.spark import reader as spark_reader
    from pudi.scan import clustering_gain, lazy_readers
else:
    clustering_gain = lazy_module("pudi.scan.clustering_gain")
    lazy_readers = lazy_module("pudi.scan.lazy_readers")
    spark_reader = lazy_module("pudi.engine.spark.reader")


def stream_naming_retained(store: TimelineStore, batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Return a stream whose errors are those of `naming_retained`."""

    def read() -> Iterator[pa.RecordBatch]:
        with closing(batches), naming_retained(store):
            yield from batches

    return pa.RecordBatchReader.from_batches(batches.schema, read())


class LazyRows:
    """The rows that `to_batches` gives, in other forms."""

    __slots__ = ()

    def to_batches(self) -> pa.RecordBatchReader:
        """The rows as a stream of Arrow batches."""
        raise NotImplementedError

    def to_arrow(self) -> pa.Table:
        """The rows as a `pyarrow.Table`; raises as `to_batches`."""
        return self.to_batches().read_all()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in Arrow batches; raises as `to_batches`."""
        with closing(self.to_batches()) as batches:
            yield from batches

    def __array__(self, *given: object, **options: object) -> Any:
        """Refuse to be an array, which `pd.DataFrame(scan)` asks for: it would make a row of each batch."""
        raise InvalidArgumentError("rows of a table are no array: take them by to_pandas() or to_arrow()")

    def count(self) -> int:
        """The number of rows; raises as `to_batches`."""
        return sum(batch.num_rows for batch in self)

    def to_pandas(self, *, types_mapper: Callable[[pa.DataType], Any] | None = None) -> pd.DataFrame:
        """The rows as a pandas DataFrame; raises as `to_batches`.

        Args:
            types_mapper: returns the pandas type of an Arrow type, or None for the usual one: `pd.ArrowDtype` keeps
                Arrow's types, `{pa.int64(): pd.Int64Dtype()}.get` makes integers nullable. None for the usual ones.

        Raises:
            SetupError: pandas isn't installed.
        """
        try:
            import pandas  # noqa: F401, PLC0415 - optional, and pyarrow's own error doesn't say how to install it
        except ImportError:
            raise SetupError("to_pandas needs pandas: pip install 'pudi[pandas]'") from None
        return self.to_arrow().to_pandas(types_mapper=types_mapper)

    def to_polars(self) -> pl.DataFrame:
        """The rows as a polars DataFrame; raises as `to_batches`.

        Raises:
            SetupError: polars isn't installed.
        """
        return _polars().from_arrow(self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as an Arrow C stream (the PyCapsule protocol)."""
        return self.to_batches().__arrow_c_stream__(requested_schema)


_MANY_BYTES = 16 << 20
"""Bytes of files from which on it matters that a reader's filter is lost."""
_LAZY_READERS = ("duckdb", "datafusion", "polars.lazyframe")
"""Modules whose code asks for a stream on behalf of a query that may have a filter."""


@cache
def _warn_once(reader: str) -> None:
    warnings.warn(
        f"{reader} reads all rows of the scan: an Arrow stream takes no filter. Pass scan.to_dataset() to DuckDB and "
        "DataFusion, scan.to_polars(lazy=True) is a LazyFrame, and scan(where=…) filters in pudi",
        stacklevel=4,
    )


def warn_of_whole_stream(plan: ReadPlan) -> None:
    """Warn, once for each reader, that a query engine reads a whole table of some size because its filter is lost."""
    if sum(each.size for each in plan.slices) < _MANY_BYTES:
        return
    frame: FrameType | None = sys._getframe(1)
    for _ in range(8):
        frame = None if frame is None else frame.f_back
        module = "" if frame is None else str(frame.f_globals.get("__name__"))
        reader = next((name for name in _LAZY_READERS if f"{module}.".startswith(f"{name}.")), None)
        if reader is not None:
            _warn_once(reader)
            return


def _polars() -> Any:
    try:
        import polars  # noqa: PLC0415 - optional
    except ImportError:
        raise SetupError("to_polars needs polars: pip install 'pudi[polars]'") from None
    return polars


SUCCESS: Final = "_SUCCESS"
"""The empty file that says that an export is whole, as Hudi's exporter and Spark write it."""
_ROUGHLY = 128 << 20
"""Arrow bytes of the rows of one file."""


@dataclass(frozen=True, slots=True)
class Exported:
    """Files that an export has written.

    Attributes:
        rows: number of rows.
        files: number of files.
    """

    rows: int
    files: int


class _JsonLines:
    """Writes rows as JSON, one a line."""

    def __init__(self, sink: IO[bytes]) -> None:
        self._sink = sink

    def __enter__(self) -> _JsonLines:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing is left to write."""

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write rows: moments and days as ISO text, decimals, NaN and infinities as text, bytes in base64."""
        for row in batch.to_pylist():
            try:
                line = json.dumps(row, default=_json, ensure_ascii=False, allow_nan=False)
            except ValueError:  # JSON has no such numbers
                line = json.dumps(_with_finite(row), default=_json, ensure_ascii=False)
            self._sink.write(line.encode() + b"\n")


def _with_finite(value: Any) -> Any:
    """Return a value with the texts of Spark's JSON in place of NaN and infinities."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {key: _with_finite(each) for key, each in value.items()}
    return [_with_finite(each) for each in value] if isinstance(value, (list, tuple)) else value


def _json(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    return str(value.isoformat() if hasattr(value, "isoformat") else value)


def _orc(sink: IO[bytes], schema: pa.Schema) -> Any:
    from pyarrow import orc  # noqa: PLC0415 - not in every build of pyarrow

    del schema
    return orc.ORCWriter(sink, compression="zstd")


_FORMATS: Mapping[str, Callable[[IO[bytes], pa.Schema], AbstractContextManager[Any]]] = {
    "parquet": lambda sink, schema: parquet_writer(sink, schema, "zstd"),
    "csv": pa_csv.CSVWriter,
    "json": lambda sink, schema: _JsonLines(sink),
    "arrow": pa.ipc.new_file,
    "orc": _orc,
}


def export(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, out: str, format: str, options: Mapping[str, str] | None
) -> Exported:
    """Write rows to files `part-00000.parquet`, … and `_SUCCESS` at last.

    Args:
        batches: the rows.
        schema: their columns.
        out: the folder.
        format: `parquet`, `orc`, `csv`, `json` (one row a line) or `arrow`.
        options: credentials and settings of the folder's storage.

    Raises:
        InvalidArgumentError: another format, or the folder has files.
        SchemaError: the format has no such columns.
    """
    if format not in _FORMATS:
        raise InvalidArgumentError(f"format={format!r}: it is {', '.join(_FORMATS)}")
    storage = open_storage(out, options)
    there = next(iter(storage.list()), None)
    if there is not None:
        raise InvalidArgumentError(
            f"the folder isn't empty: {there.path} is there; an export never mixes its files with others",
            table=storage.root,
        )
    rows = files = 0
    coming = iter(batches)
    first = next(coming, None)
    while first is not None or not files:
        written, first = _Files(storage, schema, format).write(f"part-{files:05}.{format}", first, coming)
        rows, files = rows + written, files + 1
    storage.create(SUCCESS, b"", durable=True)
    return Exported(rows, files)


@dataclass(frozen=True, slots=True)
class _Files:
    """The files of an export.

    Attributes:
        storage: their folder.
        schema: their columns.
        format: one of `_FORMATS`.
    """

    storage: Storage
    schema: pa.Schema
    format: str

    def write(
        self, name: str, first: pa.RecordBatch | None, coming: Iterable[pa.RecordBatch]
    ) -> tuple[int, pa.RecordBatch | None]:
        """Write one file; returns its rows, and the batch that the next one begins with."""
        rows = size = 0
        batch, is_orc = first, self.format == "orc"
        with temporary_file(None) as file, temporary_errors(None):
            try:
                sink = pa.PythonFile(file, "w") if self.format != "json" else file
                with _FORMATS[self.format](sink, self.schema) as writer:
                    while batch is not None and size < _ROUGHLY:
                        (writer.write if is_orc else writer.write_batch)(
                            pa.Table.from_batches([batch], self.schema) if is_orc else batch
                        )
                        rows, size = rows + batch.num_rows, size + batch.nbytes
                        batch = next(iter(coming), None)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise SchemaError(
                    f"the columns can't be written as {self.format}: {error}", table=self.storage.root
                ) from error
            file.flush()
            file.seek(0)
            self.storage.create(name, file.read(), durable=True)
        return rows, batch


@dataclass(slots=True)
class Scan(LazyRows):
    """A read of a table. It is an Arrow stream itself: pyarrow, polars, pandas and DuckDB take it as it is.

    The snapshot is fixed when the scan is created; later commits don't change it. Nothing is read until it's requested.
    """

    _snapshot: TableSnapshot
    _plan: ReadPlan
    _planner: Planner
    _instant: str | None
    _fields: Fields | None = None
    _is_state: bool = field(default=False, repr=False)
    _planned: ReadPlan | None = field(default=None, repr=False)

    @property
    def _meta(self) -> MetaClient:
        return self._snapshot.meta

    @property
    def schema(self) -> pa.Schema:
        """Schema of the rows: timestamps in microseconds, UTC where they are points in time."""
        read = self._plan.output_schema
        return read if self._fields is None else self._fields.schema(read)

    @property
    def instant(self) -> str:
        """The instant that the scan is at: what a write of rows computed from it takes as `if_unchanged_since`.

        This is the requested time of the commit that completed last; its completion time if another commit was
        requested later; zeros for a table without commits. Below table version 8, whose timeline has no completion
        times, it precedes the oldest write that was pending when the scan was created.

        Raises:
            NotSupportedError: the scan is read-optimized, so it ignores log files and matches no instant.
        """
        if self._instant is None:
            raise NotSupportedError(
                "a read-optimized scan has no instant, since it ignores log files; to write back the result of a "
                "scan, scan without read_optimized",
                table=self._plan.table,
            )
        return self._instant

    @property
    def path_columns(self) -> PathColumns | None:
        """The partition columns that the table's files leave out; None if they have all columns."""
        return path_columns(self._meta.storage)

    @property
    def plan(self) -> ReadPlan:
        """The files that will be read; listed once."""
        if self._planned is None:
            with naming_retained(self._meta.store):
                self._planned = self._planner.plan(replace(self._plan, timeline=TimelinePlace.of(self._meta.store)))
        return self._planned

    def to_batches(self) -> pa.RecordBatchReader:
        """The rows as a stream of Arrow batches.

        Raises:
            CorruptError: a file can't be read.
            NotFoundError: a file is gone, cleaned since the scan was made.
        """
        batches = stream_naming_retained(self._meta.store, read_batches(self._meta.storage, self.plan))
        fields = self._fields
        if fields is None:
            return batches
        return pa.RecordBatchReader.from_batches(self.schema, (fields.of_batch(batch) for batch in batches))

    def count(self) -> int:
        """The number of rows.

        Without a condition it comes from the footers of base files, where no log files change them. Otherwise the rows
        are read, without columns but those of the condition.

        Raises:
            CorruptError: a file can't be read.
            NotFoundError: a file is gone, cleaned since the scan was made.
        """
        plan, sure = self.plan, 0
        if plan.narrowed is None and plan.commit_times is None:
            merged = tuple(each for each in plan.slices if each.logs) if plan.merging is not None else ()
            stated = plan.slices if not merged else [each for each in plan.slices if not each.logs]
            with naming_retained(self._meta.store):
                storage = self._meta.storage
                sure = sum(executor_of(storage).map(partial(_rows_in_base, storage), stated))
            plan = replace(plan, slices=merged)
        rest = replace(self, _planned=replace(plan, columns=()), _fields=None)
        found = sure + sum(batch.num_rows for batch in rest.to_batches())
        return int(found if plan.limit is None else min(found, plan.limit))

    def narrowed(self, columns: Sequence[str] | None, where: Sequence[Expr], limit: int | None = None) -> Scan:
        """Return a scan of fewer columns and rows, for a filter that a query engine applies to this one.

        A scan with a limit stays at its rows, whose choice isn't the filter's: it takes no condition.

        Args:
            columns: names of columns of this scan; None for all.
            where: bound conditions over columns of this scan. Rows come back for which all are true.
            limit: greatest number of rows; None for this scan's.
        """
        plan, fields = self._plan, self._fields
        if plan.limit is None and where:
            own = where if fields is None else [replace_columns(part, fields.stored) for part in where]
            plan = replace(plan, where=conjunction([*(() if plan.where is None else (plan.where,)), *own]))
        if columns is not None:
            fields = None if fields is None else fields.chosen(columns)
            read = columns if fields is None else dict.fromkeys(path[0] for path in fields.paths)
            plan = replace(plan, columns=tuple(read))
        if limit is not None:
            plan = replace(plan, limit=limit if plan.limit is None else min(limit, plan.limit))
        return replace(self, _plan=plan, _fields=fields, _planned=None)

    @overload
    def to_polars(self, *, lazy: Literal[False] = False) -> pl.DataFrame: ...

    @overload
    def to_polars(self, *, lazy: Literal[True]) -> pl.LazyFrame: ...

    def to_polars(self, *, lazy: bool = False) -> pl.DataFrame | pl.LazyFrame:
        """The rows as a polars DataFrame; raises as `to_batches`.

        Args:
            lazy: a LazyFrame instead. Columns, filters and `head` of its queries reach the scan, which skips files and
                row groups by them; rows come in batches.

        Raises:
            SetupError: polars isn't installed, or older than its interface for readers.
        """
        if not lazy:
            return LazyRows.to_polars(self)
        _polars()
        try:
            return lazy_readers.scan_lazily(self)
        except ImportError as error:
            raise SetupError(f"to_polars(lazy=True) needs polars 1.22 or later: {error}") from None

    def to_dataset(self) -> pyarrow.dataset.Dataset:
        """The rows as a pyarrow dataset, for DuckDB, DataFusion, and what else reads one.

        Columns and filters of queries reach the scan, which skips files and row groups by them; rows come in batches,
        and reading ends with a limit. Each query reads anew, at this scan's instant.
        """
        return lazy_readers.ScanDataset(self)

    def to_duckdb(self, connection: Any, name: str) -> Any:
        """Register the rows as a view of DuckDB, as of `to_dataset`, and return its relation.

        Args:
            connection: a connection of DuckDB, or the module `duckdb` itself for its default one.
            name: the view's name; a view that has it is replaced.
        """
        connection.register(name, self.to_dataset())
        return connection.table(name)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as an Arrow C stream (the PyCapsule protocol), which takes no filter."""
        plan = self._plan
        if plan.narrowed is None and plan.limit is None:
            warn_of_whole_stream(self.plan)
        return LazyRows.__arrow_c_stream__(self, requested_schema)

    def to_spark(self, spark: Any) -> Any:
        """The rows as a lazy Spark DataFrame, read by Spark's own Parquet reader.

        Args:
            spark: a session, classic or Connect; it must reach the table's files by the same path.

        Raises:
            SetupError: pyspark is missing or too old.
        """
        with naming_retained(self._meta.store):
            frame = spark_reader.read_frame(self._meta.storage, self.plan, spark)
        return frame if self._fields is None else self._fields.of_frame(frame)

    def to_files(
        self, out: str | os.PathLike[str], *, format: str = "parquet", storage_options: Mapping[str, str] | None = None
    ) -> Exported:
        """Write the rows as plain files `part-00000.parquet`, …; `_SUCCESS` comes last and says that all are there.

        Memory holds as much as `to_batches` and one file need. On Spark, write `to_spark(spark)` by its own writer.

        Args:
            out: an empty folder, or one that isn't there.
            format: `parquet`, `orc`, `csv`, `json` (one row a line) or `arrow`.
            storage_options: credentials and settings of the folder's storage.

        Raises:
            InvalidArgumentError: another format, or the folder has files or lies in the table.
            SchemaError: the format has no such columns: CSV has no lists and structs.
        """
        folder, root = path_given(out, "out"), canonical_root(self._meta.storage.root)
        if f"{canonical_root(folder)}/".startswith(f"{root}/"):
            raise InvalidArgumentError(f"the folder {folder!r} is in the table: choose one outside of it", table=root)
        return export(self.to_batches(), self.schema, folder, format, storage_options)

    def explain(self) -> str:
        """Return the plan of the read as text: partitions, files, row groups and bytes, read and pruned.

        It also compares how many files the filter keeps of those that the last clustering made, and of those that it
        replaced, if column statistics of both are still there.
        """
        plan = self._planner.counted(self.plan, self._plan)
        reader = SliceReader(self._meta.storage, plan)
        kept = total = 0
        for file_slice in plan.slices:
            if file_slice.base is None:
                continue
            file = open_base_file(self._meta.storage, file_slice.base)
            if file_slice.logs:  # no row may be left out before it's merged
                kept, total = kept + file.num_groups, total + file.num_groups
                continue
            total += file.num_groups
            kept += len(reader.candidate_groups(file, plan.names(file_slice.instant)))
        skipped = sum(count for _, count, _ in plan.skipped)
        lines = [
            f"table       {plan.table}",
            f"columns     {', '.join(self.schema.names)}",
            f"where       {plan.where if plan.where is not None else '-'}",
            f"partitions  {len(plan.partitions)}",
            f"files       {len(plan.slices)} of {len(plan.slices) + skipped + plan.pruned} "
            f"({plan.pruned} pruned by partition)",
            *(f"index       {name} kept {of - count} of {of}" for name, count, of in plan.skipped),
            *(clustering_gain.describe_gain(self._snapshot, self._plan) if self._is_state else ()),
            f"row groups  {kept} of {total} ({total - kept} pruned by statistics)",
            f"log files   {sum(len(s.logs) for s in plan.slices)}",
            f"bytes       {sum(s.size for s in plan.slices)}",
        ]
        if plan.unused is not None:
            lines.insert(5, f"index       {plan.unused[0]} not used: {plan.unused[1]}")
        if plan.keys is not None:
            lines.insert(3, f"keys        {plan.keys.rows.num_rows:,} of {', '.join(plan.keys.rows.column_names)}")
        if plan.limit is not None:
            lines.insert(3, f"limit       {plan.limit}")
        if plan.commit_times is not None:
            lines.insert(3, f"commits     {len(plan.commit_times)}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        where = "" if self._plan.where is None else f", where={str(self._plan.where)!r}"
        return f"Scan({self._plan.table}, columns={list(self.schema.names)}{where})"


def _rows_in_base(storage: Storage, file_slice: FileSlice) -> int:
    """Return the number of rows that the footer of a slice's base file states."""
    return int(open_base_file(storage, file_slice.base_file).num_rows)
