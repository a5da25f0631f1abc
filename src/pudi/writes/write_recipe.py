"""Describe the differences between verbs of writing: a recipe says how records are taken in and placed.

`pudi.writes.write` runs a recipe. The verbs make theirs in `write_records`, `change_where`, `merge` and
`replace_partitions`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa

from pudi.client import MetaClient, TableSnapshot
from pudi.client.result import ActionReport
from pudi.client.settings import log_options
from pudi.commit.conditions import CommitCondition, SoleProgress
from pudi.concurrency import Reads, Unchanged
from pudi.config import Options, WriteOptions
from pudi.format import CommitMetadata, FileGroupId
from pudi.merge import MergeRule
from pudi.plan import Change, LogOptions, Operation, PartitionTask, WritePlan
from pudi.plan.write import WriteSpec, with_flag
from pudi.record import KeyGenerator
from pudi.schema import TableSchema
from pudi.schema.internal import SchemaHistory
from pudi.tagging import Index
from pudi.task import Engine, FileResult, InputSpec
from pudi.timeline import Timeline


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """The part of a write request that all verbs share.

    Attributes:
        meta: the table.
        engine: runs the tasks.
        options: the writer's options.
        extra_metadata: more to say in the commit.
        since: the instant since which what the write touches must not have changed; None for no condition.
        progress: the job that the write is a batch of; None if it's none.
    """

    meta: MetaClient
    engine: Engine
    options: Options
    extra_metadata: Mapping[str, str] = field(default_factory=dict)
    since: str | None = None
    progress: SoleProgress | None = None

    @property
    def write_options(self) -> WriteOptions:
        """The typed view of the options."""
        return WriteOptions.of(self.options)


@dataclass(frozen=True, slots=True)
class WriteAttempt:
    """The table as one attempt at a write sees it, and the rules that the attempt goes by.

    Attributes:
        request: what the caller asks for.
        recipe: how the verb does it.
        report: times the phases, and notes what fails beside the commit.
        first: the table at the first look, before the input was taken; its schema must not change meanwhile.
        snapshot: the table that the attempt sees; later than `first` by what the repair changed.
        schema_after: the schema that the commit will state.
        history: the schemas by id; None in a table without schema on read.
        index: how record keys are found.
        rule: how versions of a record are merged.
        keys: the key generator.
        unchanged: checks that nothing changed since `WriteRequest.since`; None for no condition.
    """

    request: WriteRequest
    recipe: WriteRecipe
    report: ActionReport
    first: TableSnapshot
    snapshot: TableSnapshot
    schema_after: TableSchema
    history: SchemaHistory | None
    index: Index
    rule: MergeRule
    keys: KeyGenerator
    unchanged: Unchanged | None

    @property
    def meta(self) -> MetaClient:
        """The table."""
        return self.request.meta

    @property
    def timeline(self) -> Timeline:
        """The timeline that the attempt sees."""
        return self.snapshot.timeline

    @property
    def engine(self) -> Engine:
        """Return the engine that runs the tasks."""
        return self.request.engine

    @property
    def options(self) -> Options:
        """The writer's options."""
        return self.request.options

    @property
    def write_options(self) -> WriteOptions:
        """The typed view of the options."""
        return self.request.write_options

    @property
    def operation(self) -> Operation:
        """The operation of the commit."""
        return self.recipe.operation

    @property
    def table(self) -> str:
        """The table's root."""
        return self.meta.storage.root

    @property
    def schema(self) -> pa.Schema:
        """The table's columns without meta fields, as the attempt found them."""
        return self.first.schema.columns

    @property
    def logs(self) -> LogOptions | None:
        """Return the options of log files; None in a copy-on-write table."""
        return log_options(self.meta, self.write_options)

    @property
    def is_global(self) -> bool:
        """Whether keys are looked up in the whole table."""
        return looks_up_globally(self.operation, self.index)


def looks_up_globally(operation: Operation, index: Index) -> bool:
    """Return whether an operation looks its keys up in the whole table."""
    return index.is_global and operation in {Operation.UPSERT, Operation.DELETE}


@dataclass(frozen=True, slots=True)
class Placement:
    """Places of a write's records; decided before its instant exists.

    Attributes:
        records: the records, tagged with their tasks.
        plan: the files to write, or the partitions whose tasks find out the files; None if the engine decides while it
            writes (a bulk insert).
        index: the index by which the files are written.
        reads: which partitions the write reads; None if what it writes doesn't depend on the table's records.
        replaced: ids of the file groups that the commit replaces, by partition path; None for a plain commit.
        change: the change of the records that are there; None if the write brings records.
        requested: content of the requested file.
        inflight: content of the inflight file.
        by_jobs: writes the files, if neither records nor a change do; None otherwise.
        drops_empty: whether the commit drops partitions without records.
        stands: what must hold of the timeline as it is after the places were decided; None if they were decided by a
            timeline that was listed last.
    """

    records: Any
    plan: WritePlan | tuple[PartitionTask, ...] | None
    index: Index
    reads: Reads | None = None
    replaced: Mapping[str, tuple[str, ...]] | None = None
    change: Change | None = None
    requested: bytes = b""
    inflight: bytes | CommitMetadata = b""
    by_jobs: Callable[[WriteSpec], Sequence[FileResult]] | None = None
    drops_empty: bool = False
    stands: CommitCondition | None = None

    @property
    def replaces_some(self) -> bool:
        """Whether a file group is replaced, or a partition without records is dropped."""
        return self.drops_empty or any((self.replaced or {}).values())

    @property
    def known_groups(self) -> set[FileGroupId]:
        """The file groups that the write is known to update or replace, by partition path and file id."""
        tasks = self.plan.tasks if isinstance(self.plan, WritePlan) else ()
        replaced = (
            FileGroupId(partition, file_id) for partition, ids in (self.replaced or {}).items() for file_id in ids
        )
        return {task.group for task in tasks if task.location is not None}.union(replaced)


def take_records(write: WriteAttempt, data: Any, *, unique: bool = False) -> Any:
    """Return the caller's records, checked and with their keys.

    Args:
        write: the attempt.
        data: the records.
        unique: see `InputSpec`.
    """
    operation = write.operation
    spec = InputSpec(
        table=write.table,
        schema=with_flag(write.schema) if write.recipe.flagged else write.schema,
        keys=write.keys,
        keys_only=operation is Operation.DELETE,
        combine=write.rule if write.is_global else None,
        fill_missing=write.write_options.fill_missing,
        ordering=write.meta.config.ordering_fields,
        buckets=write.index.fixed_buckets if operation is Operation.BULK_INSERT else None,
        stored_keys=write.keys.generates and operation.looks_up,
        unique=unique,
        as_text=write.meta.path_columns,
    )
    return write.engine.prepare(data, spec)


@dataclass(frozen=True, slots=True)
class NoRecords:
    """Stands in for the records of a write that takes none."""

    counts: Mapping[str, int] = field(default_factory=dict)
    record_bytes: float | None = None

    def release(self) -> None:
        """Nothing is held."""


def take_nothing(write: WriteAttempt, data: Any) -> NoRecords:
    """Return no records: the write changes what is in the table."""
    return NoRecords()


def without_records(write: WriteAttempt, records: Any) -> bool:
    """Return whether there are no records."""
    return not records.counts


def never(write: WriteAttempt, records: Any) -> bool:
    """Return that only the placement can tell whether there is something to do."""
    return False


_Take: TypeAlias = Callable[[WriteAttempt, Any], Any]
_IsNoop: TypeAlias = Callable[[WriteAttempt, Any], bool]
_Place: TypeAlias = Callable[[WriteAttempt, Any], Placement]


@dataclass(frozen=True, slots=True)
class WriteRecipe:
    """A verb of writing.

    Attributes:
        operation: what is done, by Hudi's name.
        place: decides which files the records go to, and which file groups are replaced.
        take: takes the caller's data in; returns records with counts by partition path.
        is_noop: tells by the records whether there is nothing to do; raises if they don't fit the verb.
        flagged: whether records come with a flag for deletes, see `WriteSpec`.
        evolves: whether the records' columns may extend the table's schema.
        is_planned: whether a placement is always made; otherwise a bulk insert may do without.
    """

    operation: Operation
    place: _Place
    take: _Take = take_records
    is_noop: _IsNoop = without_records
    flagged: bool = False
    evolves: bool = True
    is_planned: bool = False
