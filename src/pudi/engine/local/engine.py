"""The local engine: each task in a thread of a small pool, records as one Arrow table."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from pudi.context import Context, Storage
from pudi.context.executor import WAITING
from pudi.context.progress import advance
from pudi.context.runtime import lazy_module
from pudi.engine.local.merge_into import MergedRows, merge_records, merge_rows, source_of
from pudi.engine.local.reader import read_batches
from pudi.engine.local.records import LocalRecords, LocalTagged, check_unique, is_rereadable, keyed, take_rows, to_arrow
from pudi.errors import SetupError
from pudi.format import new_file_id, write_token
from pudi.merge import latest_per_key
from pudi.plan import (
    Change,
    FileTask,
    MergeJoin,
    MergeUpsert,
    PartitionTask,
    ReadPlan,
    WholeLimits,
    WritePlan,
    WriteSpec,
)
from pudi.schema import RECORD_KEY
from pudi.storage import OpenFiles, executor_of
from pudi.task import FileJob, FileResult, KeyLookup, KeySearch, write_file
from pudi.task.bulk import file_bytes, sorted_places
from pudi.task.change_where import change_file
from pudi.task.engine import TABLE_VARIABLE, InputSpec
from pudi.task.global_index import tag_global
from pudi.task.jobs import Waiting
from pudi.task.key_search import TableSearch
from pudi.task.partition import Attempt, assign, tag_buckets, tag_partitions, with_base_rows, write_partition
from pudi.task.write import LEAVING, WriteRows

if TYPE_CHECKING:
    import duckdb
else:
    duckdb = lazy_module("duckdb")

_NAME = "pudi_rows"


@dataclass(slots=True)
class LocalRows:
    """The rows of a read: an Arrow stream itself, which pyarrow, polars, pandas and DuckDB take as it is.

    Args:
        storage: the table's files.
        plan: what to read.
    """

    storage: Storage = field(repr=False)
    plan: ReadPlan = field(repr=False)
    _loaded: Any = field(default=None, init=False, repr=False)

    @property
    def schema(self) -> pa.Schema:
        """Schema of the rows."""
        return self.plan.output_schema

    @property
    def data(self) -> LocalRows:
        """The rows themselves."""
        return self

    def to_batches(self) -> pa.RecordBatchReader:
        """The rows as a stream of Arrow batches."""
        return read_batches(self.storage, self.plan)

    def to_arrow(self) -> pa.Table:
        """The rows as a `pyarrow.Table`."""
        return self.to_batches().read_all()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as an Arrow C stream (the PyCapsule protocol)."""
        return self.to_batches().__arrow_c_stream__(requested_schema)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the result of a query in DuckDB's dialect; see `TableRows`. The rows are read once for all queries."""
        if self._loaded is None:
            self._loaded = duckdb.connect(config={"temp_directory": str(Path(gettempdir(), "pudi-duckdb"))})
            self._loaded.execute("SET TimeZone = 'UTC'")
            self._loaded.register("stream", self.to_batches())
            self._loaded.execute(f"CREATE TABLE {_NAME} AS SELECT * FROM stream")
            self._loaded.unregister("stream")
        found = self._loaded.sql(sql.replace(TABLE_VARIABLE, _NAME))
        if found is None:
            return []
        columns = found.to_arrow_table().columns
        return list(zip(*(column.to_pylist() for column in columns), strict=True))


def check_duckdb() -> None:
    """Raise an error if DuckDB isn't installed.

    Raises:
        SetupError: it isn't.
    """
    try:
        _ = duckdb.connect
    except ImportError:
        raise SetupError("SQL validators on this machine need DuckDB: pip install 'pudi[duckdb]'") from None


_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")


class _Assigned:
    """The records of a write by task; a task that no record's hash leads to is left out."""

    def __init__(self, tagged: LocalTagged, spec: WriteSpec, plan: WritePlan) -> None:
        self._partitions = tagged.partitions
        self._places = assign(tagged.partitions, plan)
        self._records = with_base_rows(tagged.records.rows, tagged.partitions, spec)
        self.tasks = [task for task in plan.tasks if task.number in self._places]

    def rows(self, task: FileTask) -> pa.Table:
        """Return the records of a task as `write_file` takes them."""
        places = self._places[task.number]
        rows = take_rows(self._records, pa.array(places))
        leaving = self._partitions[task.partition].leaving
        return rows.append_column(LEAVING, pa.array(np.isin(places, leaving))) if len(leaving) else rows


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Runs tasks on this machine's cores.

    Args:
        threads: number of concurrent tasks; memory holds as many file groups.
    """

    threads: int = field(default_factory=lambda: os.cpu_count() or 1)

    def repeatable(self, data: Any, table: str) -> Any:
        """The data, read into memory where it may be readable once; see `pudi.task.engine.Engine`."""
        return data if is_rereadable(data) else to_arrow(data, table)

    def prepare(self, data: Any, spec: InputSpec) -> LocalRecords:
        """Check the input and give its records their keys; see `pudi.task.engine.Engine`."""
        rows = to_arrow(data, spec.table)
        spec = spec.evolved(rows.schema)
        rows = keyed(rows, spec)
        if spec.unique:
            check_unique(rows, spec)
        return LocalRecords(
            rows if spec.combine is None else latest_per_key(rows, RECORD_KEY, spec.combine), spec.schema
        )

    def keyed_records(self, rows: pa.Table, schema: pa.Schema) -> LocalRecords:
        """Return rows that have record key and partition path already as records.

        Args:
            rows: record key, partition path, and the table's columns.
            schema: the table's columns as they are once the records are in.
        """
        return LocalRecords(rows, schema)

    def tag(
        self, records: LocalRecords, storage: Storage, lookups: Sequence[KeyLookup], search: KeySearch
    ) -> LocalTagged:
        """Find the records' file groups; see `pudi.task.engine.Engine`."""
        partitions = {partition: np.asarray(places) for partition, places in records.partitions.items()}
        keys, index = records.rows[RECORD_KEY], search.index
        if index.buckets is not None:
            return LocalTagged(records, tag_buckets(keys, partitions, index.buckets))
        opened = OpenFiles(storage)
        whole = TableSearch(opened, lookups, search, partial(self._map, storage))
        if index.is_global and lookups:
            return LocalTagged(records, tag_global(records.rows, partitions, whole), opened)
        return LocalTagged(records, tag_partitions(keys, partitions, whole), opened)

    def finds_movers(
        self, records: LocalRecords, storage: Storage, lookups: Sequence[KeyLookup], search: KeySearch
    ) -> bool:
        """Whether a key may be in another partition; see `pudi.task.engine.Engine`."""
        return self.tag(records, storage, lookups, search).movers

    def write(self, tagged: LocalTagged, storage: Storage, spec: WriteSpec, plan: WritePlan) -> Sequence[FileResult]:
        """Bring each record to its task and write the files."""
        rows_of = _Assigned(tagged, spec, plan)
        opened = storage if tagged.opened is None else tagged.opened
        return self._map(
            storage,
            lambda task: write_file(opened, spec, task, rows_of.rows(task), write_token(task.number, 0, 0)),
            rows_of.tasks,
        )

    def write_jobs(self, tagged: LocalTagged, spec: WriteSpec, plan: WritePlan) -> Sequence[WriteRows]:
        """Return the work of `write` as jobs that hold their records, which another engine may run."""
        rows_of = _Assigned(tagged, spec, plan)
        return [WriteRows(number, spec, task, rows_of.rows(task)) for number, task in enumerate(rows_of.tasks)]

    @property
    def whole_limits(self) -> WholeLimits | None:
        """Records are in memory, so that looking for their keys first costs nothing."""
        return None

    def write_partitions(
        self, records: LocalRecords, storage: Storage, spec: WriteSpec, tasks: Sequence[PartitionTask], context: Context
    ) -> Sequence[FileResult]:
        """Write partition by partition; see `pudi.task.engine.Engine`."""

        def run(task: PartitionTask) -> list[FileResult]:
            rows = take_rows(records.rows, records.partitions[task.partition])
            attempt = Attempt(context.new_id(), write_token(task.number, 0, 0))
            return write_partition(storage, spec, task, rows, attempt)

        return [result for results in self._map(storage, run, tasks) for result in results]

    def change(
        self, storage: Storage, spec: WriteSpec, tasks: Sequence[FileTask], change: Change
    ) -> Sequence[FileResult]:
        """Change rows in files; see `pudi.task.engine.Engine`."""
        return self._map(storage, lambda t: change_file(storage, spec, t, change, write_token(t.number, 0, 0)), tasks)

    def merge_source(self, data: Any, table: str, known: Callable[[], pa.Schema]) -> tuple[pa.Table, pa.Schema]:
        """Rows to merge; see `pudi.task.engine.Engine`."""
        return source_of(to_arrow(data, table), table, known)

    def merge_rows(self, source: pa.Table, storage: Storage, join: MergeJoin) -> MergedRows:
        """The records that a merge writes; see `pudi.task.engine.Engine`."""
        return merge_rows(source, storage, join, partial(self._map, storage))

    def merge_records(self, source: pa.Table, merge: MergeUpsert) -> pa.Table:
        """The records of a merge that is an upsert; see `pudi.task.engine.Engine`."""
        return merge_records(source, merge)

    def bulk_write(
        self, records: LocalRecords, storage: Storage, spec: WriteSpec, context: Context
    ) -> Sequence[FileResult]:
        """Write all records to new file groups: one for each partition, more where it holds many records."""
        unique = context.new_id()
        most = max(1, int(file_bytes(storage, spec, records.rows) / (records.record_bytes or 1)))
        if spec.deduplicate:  # versions of one key must meet in one file to be combined
            most = max(1, records.rows.num_rows)
        keys = records.rows[RECORD_KEY]
        parts = [
            (partition, rows.slice(start, most))
            for partition, rows in sorted_places(records.partitions, keys, spec.sort).items()
            for start in range(0, len(rows), most)
        ]
        tasks = [FileTask(n, partition, new_file_id(unique, n)) for n, (partition, _) in enumerate(parts)]

        def run(task: FileTask) -> FileResult:
            whole = len(parts) == 1 and not spec.sort.by_key
            rows = records.rows if whole else take_rows(records.rows, parts[task.number][1])
            return write_file(storage, spec, task, rows, write_token(task.number, 0, 0))

        return self._map(storage, run, tasks)

    @property
    def spark_version(self) -> str:
        """No session."""
        return ""

    @property
    def metastore(self) -> str:
        """No session, and no metastore of its own."""
        return ""

    def check_ready(self, table: str) -> None:
        """Tasks run in this process; see `pudi.task.engine.Engine`."""

    @property
    def counts_separately(self) -> bool:
        """Records are in memory, and counted."""
        return False

    def check_sql(self) -> None:
        """Refuse SQL without DuckDB; see `pudi.task.engine.Engine`."""
        check_duckdb()

    def rows(self, storage: Storage, plan: ReadPlan) -> LocalRows:
        """Return the rows of a read; see `pudi.task.engine.Engine`."""
        return LocalRows(storage, plan)

    def run_jobs(self, storage: Storage, instant: str, jobs: Sequence[FileJob]) -> Sequence[FileResult]:
        """Do jobs; see `pudi.task.engine.Engine`."""
        waiting = all(isinstance(job, Waiting) for job in jobs)
        limit = max(self.threads, WAITING) if waiting else self.threads
        return self._map(storage, lambda job: job.run(storage, 0), jobs, limit)

    def _map(
        self,
        storage: Storage,
        function: Callable[[_Item], _Answer],
        items: Iterable[_Item],
        limit: int | None = None,
    ) -> list[_Answer]:
        return executor_of(storage).map(function, items, limit=limit or self.threads, report=advance)
