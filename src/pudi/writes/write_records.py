"""Write a user's records: insert, bulk insert, upsert and delete by key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pudi.client.meta_client import MetaClient
from pudi.client.result import CommitResult
from pudi.commit.conditions import SoleProgress
from pudi.commit.retry import Retries
from pudi.config import Options, WriteOptions
from pudi.errors import NotSupportedError
from pudi.plan import Operation
from pudi.task import Engine
from pudi.writes.place_records import place_by_key
from pudi.writes.write import run_write
from pudi.writes.write_recipe import WriteRecipe, WriteRequest

_ADDITIONS = frozenset({Operation.INSERT, Operation.BULK_INSERT})
"""Operations that bring new records and change none that are there."""


def write(
    meta: MetaClient,
    engine: Engine,
    data: Any,
    operation: Operation,
    resolved: Options,
    extra_metadata: Mapping[str, str] | None = None,
    since: str | None = None,
    progress: SoleProgress | None = None,
) -> CommitResult | None:
    """Write `data` in one commit.

    Args:
        meta: the table.
        engine: runs the tasks.
        data: the records, in a form that the engine takes.
        operation: what to do with them.
        resolved: the writer's options.
        extra_metadata: more to say in the commit.
        since: the instant since which the written records must not have changed; None for no condition.
        progress: the job that the write is a batch of; None if it's none.

    Returns:
        What was done, or None when there are no records.

    Raises:
        NotSupportedError: the table is of a kind that this release can't write.
        InvalidArgumentError: the data doesn't fit the table; nothing was written.
        ConflictError: other writers won, at each attempt; nothing of this write is visible.
        ChangedSinceError: the table has changed since `since`; nothing was written.
    """
    options, root = WriteOptions.of(resolved), meta.storage.root
    if operation is Operation.UPSERT and options.drop_duplicates:  # HoodieSparkSqlWriter.deduceOperation
        operation = Operation.INSERT
    if operation is Operation.BULK_INSERT and options.duplicates != "none":
        reason = "bulk_insert doesn't look for keys, so it can't leave out or refuse those that are there: use insert"
        raise NotSupportedError(reason, table=root)
    retries = Retries.of(meta, options, by_default=operation in _ADDITIONS)
    records = engine.repeatable(data, root) if retries.some else data
    request = WriteRequest(meta, engine, resolved, options, dict(extra_metadata or {}), since, progress)
    recipe = WriteRecipe(operation, place_by_key)
    return retries.run(lambda: run_write(request, recipe, records))
