"""Change a table's columns by id, without touching a file (schema on read; BaseHoodieWriteClient.commitTableChange)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from pudi.client.meta_client import MetaClient
from pudi.client.result import CommitResult
from pudi.client.schema_commit import ALTER_SCHEMA, INTERNAL_SCHEMA_KEY, SCHEMA_KEY
from pudi.client.schema_history import read_history, refuse_ids_of_path_columns
from pudi.client.snapshot import TableSnapshot
from pudi.commit.conditions import NothingCommitted
from pudi.commit.dead_writers import repair_dead_writes
from pudi.commit.transaction import Work, WriteTransaction, begin_report
from pudi.concurrency import ConflictCheck
from pudi.config import Options, SyncOptions, check_consistent, check_writable
from pudi.context.runtime import lazy_module
from pudi.errors import ConflictError, SchemaError
from pudi.format import CommitMetadata
from pudi.metadata_write.build import build_metadata, reconcile_metadata
from pudi.schema import without_meta_fields
from pudi.schema.internal import InternalSchema, SchemaHistory
from pudi.services.runner import run_on_metadata_table
from pudi.task import Engine
from pudi.writes.alter_rules import check_indexed, check_nameable, check_roles

if TYPE_CHECKING:
    from pudi.sync import after_write
else:
    after_write = lazy_module("pudi.sync.after_write")

Change: TypeAlias = Callable[[InternalSchema], InternalSchema]


def alter(meta: MetaClient, engine: Engine, change: Change, options: Options) -> CommitResult:
    """Commit a change of the table's columns.

    Args:
        meta: the table.
        engine: runs the jobs of the metadata table's services.
        change: the next schema of one.
        options: the writer's.

    Raises:
        SchemaError: Hudi's rules of schema evolution don't allow the change.
        NotSupportedError: this release can't write the table, or Hudi could not read the changed table.
        ConflictError: another writer changed the schema meanwhile; nothing was done.
    """
    report = begin_report(meta, ALTER_SCHEMA.lower())
    root = meta.storage.root
    meta.reload()
    check_writable(meta.config, root, options)
    check_consistent(meta.config, options, root)
    seen = TableSnapshot.load(meta, options)
    schema, history = seen.schema, _history(seen)
    before = history.current
    try:
        after = change(before)
    except SchemaError as error:
        raise SchemaError(error.message, table=root) from error
    check_nameable(after.arrow(), root)
    check_roles(meta, before, after)
    check_indexed(meta, before, after)
    if SyncOptions(options.given).is_on:
        after_write.check_sync(options)
    reconcile_metadata(meta, options)
    snapshot = repair_dead_writes(meta, options)
    if snapshot.schema != schema or _history(snapshot).current != before:
        raise ConflictError("another writer changed the table's schema meanwhile; try again", table=root)
    build_metadata(snapshot)
    text = schema.evolved(without_meta_fields(after.arrow()), meta.config.name).avro
    with WriteTransaction(snapshot, meta.commit_action, report) as transaction:
        instant = transaction.instant
        newest = replace(after, version=int(instant.requested))
        metadata = CommitMetadata(
            partition_to_write_stats={},
            extra_metadata={SCHEMA_KEY: text, INTERNAL_SCHEMA_KEY: newest.to_json()},
            operation_type=ALTER_SCHEMA,
        )
        conflicts = ConflictCheck(meta.store, instant, metadata, snapshot.timeline, None)
        transaction.conditions.append(NothingCommitted(meta, conflicts))
        services = partial(run_on_metadata_table, meta, engine, options, report)
        done = transaction.commit(Work(metadata, history.with_version(newest), before=services))
    result = report.result(done, metadata)
    syncs = after_write.sync_after_write(meta, options, report) if SyncOptions(options.given).is_on else ()
    return replace(result, syncs=syncs)


def _history(snapshot: TableSnapshot) -> SchemaHistory:
    """Return the table's schemas by id; assign column ids if it has none."""
    history = read_history(snapshot)
    if history is None:
        refuse_ids_of_path_columns(snapshot.meta)
        first = InternalSchema.of(snapshot.schema.stored)
        history = SchemaHistory(first, (first,))
    return history
