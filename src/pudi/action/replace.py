"""Replace what partitions hold: overwrites and deletes of partitions, each one replacecommit.

Nothing is deleted: the replacecommit names the file groups that are out of the table from then on, and a cleaner
removes their files later (SparkInsertOverwriteCommitActionExecutor, SparkDeletePartitionCommitActionExecutor).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pudi.action.after import CLEAN_UP, behind_commit
from pudi.action.hashing import reconcile_hash_rings, renewed_index, write_rings
from pudi.action.log_merging import merging_of
from pudi.action.meta_client import MetaClient
from pudi.action.no_input import WriteWithoutInput
from pudi.action.result import CommitResult
from pudi.action.retry import Retries
from pudi.action.write import Write
from pudi.concurrency import Reads
from pudi.config import Options, WriteOptions
from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.expr import Expr, bind, columns, evaluate, parse
from pudi.filegroup import FileSlice
from pudi.format import (
    CommitMetadata,
    RequestedReplaceMetadata,
    WriteStat,
    encode_requested_replace_metadata,
)
from pudi.plan import Operation, ReadPlan, WritePlan
from pudi.plan.write import WriteSpec
from pudi.record import check_paths, partition_values
from pudi.schema import with_meta_fields
from pudi.task import Engine, FileResult, SliceReader
from pudi.timeline import NO_COMMIT, Instant, Timeline

STATIC = "STATIC"
"""The value of hoodie.datasource.overwrite.mode that isn't the default."""


def overwrite(
    meta: MetaClient,
    engine: Engine,
    data: Any,
    operation: Operation,
    resolved: Options,
    partitions: Iterable[str] | None = None,
    extra_metadata: Mapping[str, str] | None = None,
    since: str | None = None,
) -> CommitResult | None:
    """Write records in place of what the partitions hold that they fall into, or all of the table.

    Args:
        meta: the table.
        engine: runs the tasks.
        data: the records, in a form that the engine takes.
        operation: INSERT_OVERWRITE or INSERT_OVERWRITE_TABLE.
        resolved: the writer's options; hoodie.datasource.overwrite.mode=static without partitions means all of the
            table, as Spark's static mode does (ProvidesHoodieConfig.deduceOverwriteConfig).
        partitions: partition paths that are replaced whether records fall into them or not, and no others.
        extra_metadata: more to say in the commit.
        since: the instant since which the replaced records must not have changed; None for no condition.

    Returns:
        What was done, or None when there was nothing to write and nothing to replace.

    Raises:
        InvalidArgumentError: a record falls outside of `partitions`; otherwise as `pudi.action.records.write`.
    """
    options = WriteOptions.of(resolved)
    chosen = None if partitions is None else _paths(partitions, meta.storage.root)
    if operation is Operation.INSERT_OVERWRITE and chosen is None:
        chosen = options.static_partitions
        if chosen is None and options.overwrite_mode == STATIC:
            operation = Operation.INSERT_OVERWRITE_TABLE
    extra = dict(extra_metadata or {})
    retries = Retries.of(meta, options, by_default=False)
    records = engine.repeatable(data, meta.storage.root) if retries.some else data

    def attempt() -> CommitResult | None:
        job = _Overwrite(meta, engine, operation, resolved, options, extra, since=since, partitions=chosen)
        return job.run(records)

    return retries.run(attempt)


def delete_partitions(
    meta: MetaClient,
    engine: Engine,
    partitions: Iterable[str] | None,
    where: str | None,
    resolved: Options,
    extra_metadata: Mapping[str, str] | None = None,
    since: str | None = None,
) -> CommitResult | None:
    """Take all that some partitions hold out of the table.

    Args:
        meta: the table.
        engine: runs the tasks, if any.
        partitions: partition paths; those that aren't there are no error.
        where: in their place, a predicate over partition columns alone.
        resolved: the writer's options.
        extra_metadata: more to say in the commit.
        since: the instant since which the replaced records must not have changed; None for no condition.

    Returns:
        What was done, or None when the partitions hold nothing.

    Raises:
        InvalidArgumentError: neither or both are given, the table isn't partitioned, the predicate names another
            column or is true for some records of a partition only.
    """
    root = meta.storage.root
    if (partitions is None) == (where is None):
        raise InvalidArgumentError("delete_partitions takes either partition paths or where", table=root)
    if not meta.config.partition_fields:
        raise InvalidArgumentError(
            "the table isn't partitioned; to empty it, overwrite it with no records (insert_overwrite_table)",
            table=root,
        )
    chosen = None if partitions is None else _paths(partitions, root)
    operation, options = Operation.DELETE_PARTITION, WriteOptions.of(resolved)
    extra = dict(extra_metadata or {})

    def attempt() -> CommitResult | None:
        job = _DeletePartitions(
            meta, engine, operation, resolved, options, extra, since=since, partitions=chosen, where=where
        )
        return job.run(None)

    return Retries.of(meta, options, by_default=False).run(attempt)


def _paths(partitions: Iterable[str], table: str) -> tuple[str, ...]:
    if isinstance(partitions, str):
        raise InvalidArgumentError(f"partitions is one text; give a list: [{partitions!r}]", table=table)
    paths = tuple(dict.fromkeys(path.strip("/") for path in partitions))
    check_paths(pa.array(paths, pa.string()))
    return paths


@dataclass
class _Replace(Write):
    """A write whose commit replaces file groups.

    Args:
        partitions: partition paths named by the caller.
    """

    partitions: tuple[str, ...] | None = None
    _groups: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def _replaced(self) -> Mapping[str, tuple[str, ...]]:
        return self._groups

    @property
    def _reads(self) -> Reads:
        whole = self.operation is Operation.INSERT_OVERWRITE_TABLE
        return lambda partitions: [each for each in partitions if whole or each in self._groups]

    def _take_out(self, partitions: Iterable[str], slices: Sequence[FileSlice]) -> None:
        """Note the file groups of `slices`; partitions without any are named too, as Hudi does."""
        by_partition: dict[str, list[str]] = {partition: [] for partition in partitions}
        for file_slice in slices:
            by_partition.setdefault(file_slice.partition, []).append(file_slice.file_id)
        self._groups = {partition: tuple(ids) for partition, ids in sorted(by_partition.items())}
        self.index = renewed_index(self.meta, self.index, self._groups)

    def _write_files(self, records: Any, spec: WriteSpec, plan: Any) -> Sequence[FileResult]:
        write_rings(self.meta, spec.instant, self.index, self._groups)
        return super()._write_files(records, spec, plan)

    def _commit(
        self, timeline: Timeline, schema_json: str, records: Any, plan: Any
    ) -> tuple[Instant, CommitMetadata] | None:
        done = super()._commit(timeline, schema_json, records, plan)
        if done is not None:
            with behind_commit(CLEAN_UP, self.meta.storage.root, self.failed):
                reconcile_hash_rings(self.meta, done[0].requested, self.index, self._groups)
        return done


@dataclass
class _Overwrite(_Replace):
    _counts: Mapping[str, int] = field(default_factory=dict)

    def _is_noop(self, records: Any) -> bool:
        self._counts = records.counts
        if self.partitions is None:
            return self.operation is Operation.INSERT_OVERWRITE and not records.counts
        outside = sorted(set(records.counts) - set(self.partitions))
        if outside:
            raise InvalidArgumentError(
                f"records fall into partition {outside[0]!r}, which is not among those to overwrite: "
                f"{', '.join(map(repr, self.partitions))}",
                table=self.meta.storage.root,
            )
        return False

    def _slices(self, timeline: Timeline, partitions: Sequence[str] | None) -> list[FileSlice]:
        """None: records go to new file groups. On the way the file groups to replace are noted."""
        named = list(partitions or ()) if self.partitions is None else list(self.partitions)
        whole = self.operation is Operation.INSERT_OVERWRITE_TABLE
        self._take_out(named, super()._slices(timeline, None if whole else named))
        return []

    def _pending_contents(self) -> tuple[bytes, CommitMetadata]:
        profile = CommitMetadata(
            partition_to_write_stats={
                partition: (WriteStat(file_id="", prev_commit=NO_COMMIT, num_inserts=count),)
                for partition, count in self._counts.items()
            },
            operation_type=self.operation.value,
        )
        return encode_requested_replace_metadata(RequestedReplaceMetadata()), profile


@dataclass
class _DeletePartitions(WriteWithoutInput, _Replace):
    where: str | None = None

    def _plan(self, timeline: Timeline, records: Any) -> tuple[Any, WritePlan]:
        with self._phase("list"):
            slices = self._slices(timeline, self.partitions)
            if self.where is not None:
                slices = self._chosen(timeline, slices, self.where)
        self._take_out((), slices)
        return records, WritePlan(())

    def _pending_contents(self) -> tuple[bytes, CommitMetadata]:
        operation = self.operation.value
        plan = RequestedReplaceMetadata(operation_type=operation, extra_metadata={}, version=1)
        profile = CommitMetadata(operation_type=operation)
        return encode_requested_replace_metadata(plan), profile

    def _chosen(self, timeline: Timeline, slices: Sequence[FileSlice], where: str) -> list[FileSlice]:
        """Return the slices of partitions in which `where` is true for all records."""
        meta = self.meta
        schema, fields = meta.schema(timeline), meta.config.partition_fields
        bound = bind(parse(where), schema)
        others = sorted(columns(bound) - set(fields))
        if others:
            raise InvalidArgumentError(
                f"{others[0]!r} is no partition column ({', '.join(fields)} are); to delete single records, use "
                f"delete(where={where!r})",
                table=meta.storage.root,
            )
        by_partition: dict[str, list[FileSlice]] = {}
        for file_slice in slices:
            by_partition.setdefault(file_slice.partition, []).append(file_slice)
        merging = merging_of(meta, timeline, timeline)
        history = self.history if meta.merges_on_read else None
        read = ReadPlan(
            meta.storage.root, with_meta_fields(schema), tuple(columns(bound)), history=history, merging=merging
        )
        reader = SliceReader(meta.storage, read)
        verdicts = {p: self._verdict(p, group, bound, schema, reader) for p, group in by_partition.items()}
        return [s for s in slices if verdicts[s.partition]]

    def _verdict(
        self, partition: str, slices: Sequence[FileSlice], where: Expr, schema: pa.Schema, reader: SliceReader
    ) -> bool:
        """Whether `where` is true for a partition: by its path, or, where that can't tell, by its records."""
        known = partition_values(partition, self.meta.keys, schema) or {}
        if columns(where) <= known.keys():
            row = pa.table({"": [True]} | {name: pa.array([known[name]], schema.field(name).type) for name in known})
            return bool(evaluate(where, row)[0].as_py())
        found: set[bool] = set()
        for file_slice in slices:
            for batch in reader.read(file_slice):
                found |= set(pc.fill_null(evaluate(where, batch), False).unique().to_pylist())
        if len(found) > 1:
            raise NotSupportedError(
                f"where is true for some records of partition {partition!r} and not for others, as different values "
                "share the folder; use delete(where=…)",
                table=self.meta.storage.root,
            )
        return found == {True}
