"""Update or delete records by predicate. Only files that may hold such records are read and rewritten."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pudi.action.log_merging import merging_of
from pudi.action.meta_client import MetaClient
from pudi.action.no_input import WriteWithoutInput
from pudi.action.result import CommitResult
from pudi.action.retry import Retries
from pudi.concurrency import Reads
from pudi.config import Options, WriteOptions
from pudi.errors import InvalidArgumentError
from pudi.filegroup import FileSlice
from pudi.plan import Append, Change, FileTask, Operation, WritePlan, WriteSpec, plan_read
from pudi.plan.change import bind_assignments
from pudi.task import Engine, FileResult
from pudi.timeline import Timeline


def change_where(
    meta: MetaClient,
    engine: Engine,
    values: Mapping[str, object] | None,
    where: str | None,
    resolved: Options,
    since: str | None = None,
) -> CommitResult | None:
    """Update or delete the records that a predicate is true for.

    Args:
        meta: the table.
        engine: runs the tasks.
        values: by column, SQL text of its new value or a constant that is no text; None deletes.
        where: SQL predicate; None for all records, which only an update takes.
        resolved: the writer's options.
        since: the instant since which the records that it reads must not have changed; None for no condition.

    Returns:
        What was done, or None when the predicate is true for no record.

    Raises:
        InvalidArgumentError: an unknown column, one of the key or the partition is set, a wrong expression.
        NotSupportedError: SQL beyond the subset, or a table that this release can't write.
        ConflictError: other writers won, at each attempt; nothing of this write is visible.
        ChangedSinceError: the table has changed since `since`; nothing was written.
    """
    if where is None and values is None:
        raise InvalidArgumentError("delete by predicate needs where", table=meta.storage.root)
    operation = Operation.DELETE if values is None else Operation.UPSERT
    options = WriteOptions.of(resolved)
    retries = Retries.of(meta, options, by_default=True)
    return retries.run(
        lambda: _Change(meta, engine, operation, resolved, options, {}, since=since, values=values, where=where).run(
            None
        )
    )


@dataclass
class _Change(WriteWithoutInput):
    values: Mapping[str, object] | None = None
    where: str | None = None
    _change: Change | None = None

    def _plan(self, timeline: Timeline, records: Any) -> tuple[Any, WritePlan]:
        meta = self.meta
        root, config, schema = meta.storage.root, meta.config, meta.schema(timeline)
        merging = merging_of(meta, timeline, timeline)
        history = self.history if meta.merges_on_read else None
        read = plan_read(
            root,
            schema,
            wanted=(),
            where=self.where,
            meta_fields=True,
            populated=True,
            history=history,
            merging=merging,
        )
        fixed = (*config.record_key_fields, *config.partition_fields)
        values = None if self.values is None else bind_assignments(self.values, schema, schema, fixed, root)
        self._change = Change(read, values)
        with self._phase("list"):
            slices = read.with_slices(self._slices(timeline, None), meta.keys).slices
        return records, WritePlan(tuple(self._task(n, s) for n, s in enumerate(slices)))

    @property
    def _reads(self) -> Reads | None:
        assert self._change is not None
        return partial(self._change.read.prune_partitions, keys=self.meta.keys)

    def _task(self, number: int, file_slice: FileSlice) -> FileTask:
        if self.meta.merges_on_read:
            return FileTask(number, file_slice.partition, file_slice.file_id, append=Append(file_slice))
        return FileTask(number, file_slice.partition, file_slice.file_id, file_slice.base_file)

    def _write_files(self, records: Any, spec: WriteSpec, plan: Any) -> Sequence[FileResult]:
        assert self._change is not None
        return self.engine.change(self.meta.storage, spec, plan.tasks, self._change)
