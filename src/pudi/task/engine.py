"""The protocol of engines, which run independent tasks and bring records to the task of their file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa

from pudi.context import Context, Storage
from pudi.errors import InvalidArgumentError, NotSupportedError, SchemaError, UnavailableError, naming
from pudi.merge import DELETED, MergeRule
from pudi.merge.deletes import check_given_columns
from pudi.plan import (
    Change,
    FileTask,
    MergeJoin,
    MergeUpsert,
    PartitionTask,
    ReadPlan,
    WholeLimits,
    WritePlan,
    WriteProfile,
    WriteSpec,
)
from pudi.record import KeyGenerator
from pudi.schema import RECORD_KEY, FixedColumns, written_schema
from pudi.tagging import Buckets
from pudi.task.jobs import FileJob, FileResult
from pudi.task.key_search import KeyLookup, KeySearch


@dataclass(frozen=True, slots=True)
class InputSpec:
    """The requirements of a write on its input; picklable.

    Attributes:
        table: location of the table, for errors.
        schema: the table's columns without meta fields.
        keys: makes record keys and partition paths.
        keys_only: whether only key and partition columns are needed (deletes).
        combine: the rule that first combines versions of one key across partitions (global indexes); None doesn't.
        fill_missing: whether missing columns become null.
        ordering: ordering fields.
        buckets: computes the buckets of keys early, if all records are asked for them more than once.
        stored_keys: whether records bring their stored keys in `_hoodie_record_key`, null in new ones: a table that
            generates its keys has no other way to tell which record a row is (Hudi's prepped writes).
        unique: whether two records of one key and partition are a `RepeatedKeysError`; of one key, if versions are
            combined across partitions.
        as_text: partition columns that files leave out: values of other types become text, as Hudi's do.
    """

    table: str
    schema: pa.Schema
    keys: KeyGenerator
    keys_only: bool = False
    combine: MergeRule | None = None
    fill_missing: bool = False
    ordering: tuple[str, ...] = ()
    buckets: Buckets | None = None
    stored_keys: bool = False
    unique: bool = False
    as_text: tuple[str, ...] = ()

    def check_stored_keys(self, names: Iterable[str]) -> None:
        """Refuse data that should bring stored keys and doesn't.

        Args:
            names: the data's columns.

        Raises:
            NotSupportedError: `_hoodie_record_key` isn't among them.
        """
        if self.stored_keys and RECORD_KEY not in names:
            raise NotSupportedError(
                "the table has no record key: Hudi generates keys for each write. Upsert and delete rows that were "
                f"read from the table with their {RECORD_KEY}, or use insert, update(…, where=…), delete(where=…) or "
                "merge(…)",
                table=self.table,
            )

    def check_key_columns(self, names: Collection[str]) -> None:
        """Refuse a delete whose data lacks a record key or partition column; one in other case is refused later.

        Args:
            names: the data's columns.

        Raises:
            SchemaError: columns are missing.
        """
        missing = [f.name for f in self.schema if f.name in self.keys.columns and f.name not in names]
        if self.keys_only and missing and not {n.casefold() for n in missing} & {n.casefold() for n in names}:
            raise SchemaError(
                f"columns missing from the data: {', '.join(missing)}; a delete needs the record key and partition "
                "columns of its records; to delete by other columns, write delete(where=…)",
                table=self.table,
            )

    @property
    def kept_columns(self) -> frozenset[str]:
        """Return the columns whose type never changes with the data: record key, partition and ordering columns."""
        return frozenset() if self.keys_only else frozenset({*self.keys.columns, *self.ordering})

    def evolved(self, data: pa.Schema) -> InputSpec:
        """Return the spec with the columns that the table has after writing data with these columns.

        Raises:
            SchemaError: as `written_schema`.
        """
        if self.keys_only:
            return self
        check_given_columns(data, self.schema.names, self.table)
        if DELETED in self.schema.names and DELETED not in data.names:  # such records are no deletes
            data = data.append(pa.field(DELETED, pa.bool_()))
        fixed = FixedColumns(
            keys=self.keys.record_key_fields, partitions=self.keys.partition_fields, ordering=self.ordering
        )
        with naming(None, self.table):
            return replace(self, schema=written_schema(self.schema, data, fixed, fill_missing=self.fill_missing))


class KeyedInput(Protocol):
    """The checked records of one write, with record key and partition path. The input is evaluated once."""

    @property
    def schema(self) -> pa.Schema:
        """The table's columns after the write, without meta fields."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Number of records by partition path."""

    @property
    def record_bytes(self) -> float | None:
        """Bytes of an average record in memory; None if the engine doesn't know."""

    def release(self) -> None:
        """Release cached records."""


class Tagged(Protocol):
    """Records with the file group that holds their key, if there is one."""

    @property
    def profile(self) -> WriteProfile:
        """Counts for the planner."""

    @property
    def movers(self) -> bool:
        """Whether a key that was looked up in the whole table may be in another partition than its record's."""

    def new_only(self) -> Any:
        """Return the records without those whose key exists already."""

    def known_only(self) -> Any:
        """Return the records whose key exists already."""


class MergedRows(Protocol):
    """The records that a merge writes."""

    @property
    def data(self) -> Any:
        """The records, in the form that `prepare` takes."""

    @property
    def read(self) -> ReadPlan:
        """The read of the table."""

    def release(self) -> None:
        """Release cached records."""


class TableRows(Protocol):
    """Rows of a table that a validator looks at."""

    @property
    def data(self) -> Any:
        """The rows as a user's function gets them: an object with an Arrow stream, or a Spark DataFrame."""

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the result of a SQL query, in the dialect of the engine.

        Args:
            sql: the query, which calls the rows `TABLE_VARIABLE`.
        """


TABLE_VARIABLE = "<TABLE_NAME>"
"""Name of the rows that a query reads (HoodiePreCommitValidatorConfig.VALIDATOR_TABLE_VARIABLE)."""


class EvaluatedAgainError(UnavailableError):
    """Records that were not counted first may have been lost or doubled; the write must count them and start again."""


class RepeatedKeysError(InvalidArgumentError):
    """Records share a key where each must have its own; nothing was written."""


class Engine(Protocol):
    """Runs tasks in threads or on Spark. Task functions are the same on both; only statistics come back."""

    @property
    def whole_limits(self) -> WholeLimits | None:
        """Limits below which `write_partitions` is faster than `tag` and `write`; None if it never is."""

    @property
    def spark_version(self) -> str:
        """Return the release of the Spark session; empty on this machine alone."""

    @property
    def metastore(self) -> str:
        """Return the URIs of the Hive Metastore of the Spark session, separated by commas; empty if it names none."""

    def check_ready(self, table: str) -> None:
        """Make sure that the engine can run tasks.

        Args:
            table: location of the table, for errors.

        Raises:
            SetupError: a package is missing where tasks run, or is another one there.
            UnavailableError: no task can be run.
        """

    @property
    def counts_separately(self) -> bool:
        """Whether counting records costs a query; `bulk_write` then writes the buckets of new tables uncounted."""

    def repeatable(self, data: Any, table: str) -> Any:
        """Return the data in a form that `prepare` can take more than once.

        Raises:
            InvalidArgumentError: the type of the data is not supported.
        """

    def prepare(self, data: Any, spec: InputSpec) -> KeyedInput:
        """Check the input and add record keys and partition paths.

        Raises:
            InvalidArgumentError: a key is null, or a partition path leaves the table's root.
            SchemaError: a column is missing, is unknown or has another type.
        """

    def tag(self, records: Any, storage: Storage, lookups: Sequence[KeyLookup], search: KeySearch) -> Any:
        """Find the file group of each record, by look-up in file slices, or its bucket, from the key alone.

        Args:
            records: the result of `prepare`.
            storage: the table's files.
            lookups: slices that may hold keys; empty if no look-up is needed (inserts, buckets).
            search: the index, and the facts of the write that it needs.
        """

    def finds_movers(self, records: Any, storage: Storage, lookups: Sequence[KeyLookup], search: KeySearch) -> bool:
        """Return whether a slice of another partition than a record's may hold its key.

        Args:
            records: the result of `prepare`.
            storage: the table's files.
            lookups: all slices of the table.
            search: a global index that moves nothing.
        """

    def write(self, tagged: Any, storage: Storage, spec: WriteSpec, plan: WritePlan) -> Sequence[FileResult]:
        """Bring each record to the task of its file group, or of its partition's insert route, and write the files."""

    def write_partitions(
        self, records: Any, storage: Storage, spec: WriteSpec, tasks: Sequence[PartitionTask], context: Context
    ) -> Sequence[FileResult]:
        """Bring the records of each partition to one task, which finds their file groups and writes the files.

        Args:
            records: the result of `prepare`.
            storage: the table's files.
            spec: the write.
            tasks: one for each partition with records.
            context: makes ids.
        """

    def change(
        self, storage: Storage, spec: WriteSpec, tasks: Sequence[FileTask], change: Change
    ) -> Sequence[FileResult]:
        """Write the next versions of the files with rows that a change matches; takes no records.

        Args:
            storage: the table's files.
            spec: the write.
            tasks: the files to search.
            change: the predicate and the new values.
        """

    def merge_source(self, data: Any, table: str, known: Callable[[], pa.Schema]) -> tuple[Any, pa.Schema]:
        """Return the source rows of a merge in the form that `merge_rows` takes, and their schema.

        Args:
            data: the rows, as the user gives them.
            table: location of the table, for errors.
            known: gives the table's columns, whose types columns have that have none of their own (nulls alone).
        """

    def merge_rows(self, source: Any, storage: Storage, join: MergeJoin) -> MergedRows:
        """Compute the records that a merge writes; see `MergeJoin`.

        Args:
            source: the result of `merge_source`.
            storage: the table's files.
            join: how source rows match table rows, and the outcome of each match.

        Raises:
            InvalidArgumentError: several source rows match one row of the table, or a row would change its partition.
        """

    def merge_records(self, source: Any, merge: MergeUpsert) -> Any:
        """Return the records of a merge that is an upsert, in the form that `prepare` takes.

        Args:
            source: the result of `merge_source`.
            merge: what the records are made of.
        """

    def bulk_write(self, records: Any, storage: Storage, spec: WriteSpec, context: Context) -> Sequence[FileResult]:
        """Write all records to new file groups, without reading the table.

        Raises:
            EvaluatedAgainError: only with `counts_separately`: records of buckets may have been lost or doubled.
        """

    def check_sql(self) -> None:
        """Raise an error if `TableRows.query` can't work.

        Raises:
            SetupError: a package is missing.
        """

    def rows(self, storage: Storage, plan: ReadPlan) -> TableRows:
        """Return the rows of a read; they are read when they are used."""

    def run_jobs(self, storage: Storage, instant: str, jobs: Sequence[FileJob]) -> Sequence[FileResult]:
        """Run independent jobs. Small jobs that are `Weighed` may share a task.

        Args:
            storage: the table's files.
            instant: requested time of their instant, which has a heartbeat.
            jobs: numbered from 0.
        """
