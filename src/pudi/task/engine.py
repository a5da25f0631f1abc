"""The protocol of engines: how independent tasks and the one exchange of records by file are spread over work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from pudi.context import Context, Storage
from pudi.errors import UnavailableError
from pudi.index import Buckets
from pudi.merge import MergeRule
from pudi.plan.change import Change
from pudi.plan.merge import MergeJoin
from pudi.plan.read import ReadPlan
from pudi.plan.write import FileTask, PartitionTask, WholeLimits, WritePlan, WriteProfile, WriteSpec
from pudi.record import KeyGenerator
from pudi.schema import written_schema
from pudi.task.tag import KeyLookup, KeySearch
from pudi.task.write import FileResult


@dataclass(frozen=True, slots=True)
class InputSpec:
    """What a write takes in; picklable.

    Attributes:
        table: location of the table, for errors.
        schema: the table's columns without meta fields.
        keys: how record key and partition path are made.
        keys_only: only key and partition columns are needed (deletes); others are ignored.
        combine: by this rule versions of one key are combined first, whatever their partitions (global indexes).
        fill_missing: whether columns that the data lacks become null.
        ordering: ordering fields.
        buckets: by what the keys' buckets are told, where all of many records will be asked for them more than once.
    """

    table: str
    schema: pa.Schema
    keys: KeyGenerator
    keys_only: bool = False
    combine: MergeRule | None = None
    fill_missing: bool = False
    ordering: tuple[str, ...] = ()
    buckets: Buckets | None = None

    @property
    def kept_columns(self) -> frozenset[str]:
        """Columns that keep their type whatever the data's: those of record key, partition path and ordering."""
        return frozenset() if self.keys_only else frozenset({*self.keys.columns, *self.ordering})

    def evolved(self, data: pa.Schema) -> InputSpec:
        """The same with the columns that the table has after a write of data with such columns.

        Raises:
            SchemaError: as `written_schema`.
        """
        if self.keys_only:
            return self
        schema = written_schema(
            self.schema,
            data,
            keys=self.keys.record_key_fields,
            partitions=self.keys.partition_fields,
            ordering=self.ordering,
            fill_missing=self.fill_missing,
            root=self.table,
        )
        return replace(self, schema=schema)


class KeyedInput(Protocol):
    """Records of one write, checked, with record key and partition path, evaluated once however often they're used."""

    @property
    def schema(self) -> pa.Schema:
        """The table's columns as they are once the records are in, without meta fields."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Records by partition path."""

    @property
    def record_bytes(self) -> float | None:
        """Bytes of an average record in memory, where the engine knows."""

    def release(self) -> None:
        """Give back what keeps the records."""


class Tagged(Protocol):
    """Records with the file group that holds their key, if one does."""

    @property
    def profile(self) -> WriteProfile:
        """Counts for the planner."""

    def new_only(self) -> Any:
        """Without the records whose key was found."""


class MergedRows(Protocol):
    """Records that a merge writes."""

    @property
    def data(self) -> Any:
        """The records, in the form that `prepare` takes."""

    @property
    def read(self) -> ReadPlan:
        """What was read of the table."""

    def release(self) -> None:
        """Give back what keeps them."""


class FileJob(Protocol):
    """Work on one file group that takes no records in; picklable."""

    @property
    def number(self) -> int:
        """Place among the jobs that run together, from 0."""

    def run(self, storage: Storage, attempt: int) -> FileResult:
        """Do it.

        Args:
            storage: the table's files.
            attempt: number of the attempt at this job, another one for each.
        """


@runtime_checkable
class Weighed(Protocol):
    """A job that says how much there is to do, so that small ones may share a task."""

    @property
    def weight(self) -> int:
        """Bytes that it reads and writes, about."""


class JobRunner(Protocol):
    """What does jobs; an engine, where that is all that's needed of it."""

    def run_jobs(self, storage: Storage, instant: str, jobs: Sequence[FileJob]) -> Sequence[FileResult]:
        """See `Engine.run_jobs`."""


class EvaluatedAgainError(UnavailableError):
    """Records that weren't counted first may have been lost or doubled; counted first, they can be written."""


class Engine(Protocol):
    """Spreads tasks over threads or over Spark. Task functions are the same; only statistics come back."""

    @property
    def whole_limits(self) -> WholeLimits | None:
        """Up to where `write_partitions` is faster than `tag` and `write`; None if never."""

    @property
    def counts_apart(self) -> bool:
        """Whether it's worth while to write without counting first; `bulk_write` takes buckets of new tables then."""

    def repeatable(self, data: Any, table: str) -> Any:
        """The data in a form that `prepare` can be given more than once.

        Raises:
            InvalidArgumentError: it's nothing that `prepare` takes.
        """

    def prepare(self, data: Any, spec: InputSpec) -> KeyedInput:
        """Check the input and give its records their keys.

        Raises:
            InvalidArgumentError: null keys, a partition value that leaves the table's root.
            SchemaError: a column is missing, is unknown or has another type.
        """

    def tag(self, records: Any, storage: Storage, lookups: Sequence[KeyLookup], search: KeySearch) -> Any:
        """Find the records' file groups, or buckets: by their keys in file slices, or by their keys alone.

        Args:
            records: what `prepare` gave.
            storage: the table's files.
            lookups: slices that may hold keys; none where nothing is to be found (inserts, buckets).
            search: the index, and what it needs to know of the write.
        """

    def write(self, tagged: Any, storage: Storage, spec: WriteSpec, plan: WritePlan) -> Sequence[FileResult]:
        """Bring each record to the task that its file group or its partition's route names, and write the files."""

    def write_partitions(
        self, records: Any, storage: Storage, spec: WriteSpec, tasks: Sequence[PartitionTask], context: Context
    ) -> Sequence[FileResult]:
        """Bring each partition's records to one task that finds their file groups and writes the files.

        Args:
            records: what `prepare` gave.
            storage: the table's files.
            spec: the write.
            tasks: one for each partition that has records.
            context: makes ids.
        """

    def change(
        self, storage: Storage, spec: WriteSpec, tasks: Sequence[FileTask], change: Change
    ) -> Sequence[FileResult]:
        """Write the next versions of the files in which a change finds rows; no records come in.

        Args:
            storage: the table's files.
            spec: the write.
            tasks: the files to look into.
            change: what becomes of which rows.
        """

    def merge_source(self, data: Any, table: str) -> tuple[Any, pa.Schema]:
        """Rows to merge in the form that `merge_rows` takes, without meta fields, and their columns."""

    def merge_rows(self, source: Any, storage: Storage, join: MergeJoin) -> MergedRows:
        """The records that a merge writes; see `MergeJoin`.

        Args:
            source: what `merge_source` gave.
            storage: the table's files.
            join: how source and table meet, and what comes of it.

        Raises:
            InvalidArgumentError: several source rows meet one of the table, or one would change its partition.
        """

    def bulk_write(self, records: Any, storage: Storage, spec: WriteSpec, context: Context) -> Sequence[FileResult]:
        """Write all records to new file groups, without looking at what is there.

        Raises:
            EvaluatedAgainError: where `counts_apart`, records of buckets may have been lost or doubled.
        """

    def run_jobs(self, storage: Storage, instant: str, jobs: Sequence[FileJob]) -> Sequence[FileResult]:
        """Do jobs that don't depend on each other; those that are `Weighed` and small may share a task.

        Args:
            storage: the table's files.
            instant: requested time of the instant that they're part of, which has a heartbeat.
            jobs: numbered from 0.
        """
