"""Change a table's columns by id, without touching a file (schema on read; BaseHoodieWriteClient.commitTableChange).

Refused are changes that a role of the column forbids, or that Hudi could not read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from pudi.client import CommitResult, MetaClient, TableSnapshot
from pudi.client.inflight_builds import maintained_partitions
from pudi.client.schema_commit import ALTER_SCHEMA, INTERNAL_SCHEMA_KEY, SCHEMA_KEY
from pudi.client.schema_history import read_history, refuse_ids_of_path_columns
from pudi.commit.conditions import NothingCommitted
from pudi.commit.dead_writers import repair_dead_writes
from pudi.commit.transaction import Work, WriteTransaction, begin_report
from pudi.concurrency import ConflictCheck
from pudi.config import Options, SyncOptions, check_consistent, check_writable
from pudi.context.runtime import lazy_module
from pudi.errors import ConflictError, NotSupportedError, SchemaError
from pudi.format import CommitMetadata
from pudi.format.metadata_partitions import EXPRESSION_INDEX_PREFIX, SECONDARY_INDEX_PREFIX
from pudi.metadata.value_types import leaf_type
from pudi.metadata_write.build import build_metadata, reconcile_metadata
from pudi.metadata_write.index_defs import defined_index
from pudi.record import field_of
from pudi.schema import field_at, without_meta_fields
from pudi.schema.internal import InternalSchema, SchemaHistory
from pudi.services.runner import run_on_metadata_table
from pudi.task import Engine

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
    _check_nameable(after.arrow(), root)
    _check_roles(meta, before, after)
    _check_indexed(meta, before, after)
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


def _check_nameable(schema: pa.Schema, root: str) -> None:
    """Refuse columns whose type Hudi can't read in a schema by ids.

    Args:
        schema: the table's columns after the change.
        root: the table's root.

    Raises:
        NotSupportedError: a column, or a part of one, holds timestamps without a time zone.
    """
    for field in schema:
        if _holds_local_time(field.type):
            raise NotSupportedError(
                f"column {field.name!r} holds timestamps without a time zone: Hudi 1.2 can't read the name of that "
                "type in a schema by ids, and could no longer read the table; write the data into a new table",
                table=root,
            )


def _holds_local_time(kind: pa.DataType) -> bool:
    if pa.types.is_timestamp(kind):
        return kind.tz is None
    return any(_holds_local_time(kind.field(number).type) for number in range(kind.num_fields))


def _is_text(kind: pa.DataType) -> bool:
    return bool(kind in {pa.string(), pa.binary()} or pa.types.is_date(kind))


def _check_indexed(meta: MetaClient, before: InternalSchema, after: InternalSchema) -> None:
    """Refuse to change columns of secondary and expression indexes, which know their values under the column's name.

    Args:
        meta: the table.
        before: the schema before the change.
        after: the schema after it.

    Raises:
        SchemaError: the column of an index changes.
    """
    old, new = before.arrow(), after.arrow()
    for partition in maintained_partitions(meta):
        if not partition.startswith((SECONDARY_INDEX_PREFIX, EXPRESSION_INDEX_PREFIX)):
            continue
        for name in defined_index(meta, partition).columns:
            kind = leaf_type(old, name)
            if kind is not None and kind != leaf_type(new, name):
                raise SchemaError(
                    f"the index {partition} is of column {name!r}: drop the index, change the column, and create the "
                    "index again",
                    table=meta.storage.root,
                )


def _check_roles(meta: MetaClient, before: InternalSchema, after: InternalSchema) -> None:
    """Refuse to drop or rename key, partition and ordering columns, and type changes that alter keys or order.

    Args:
        meta: the table.
        before: the schema before the change.
        after: the schema after it.

    Raises:
        SchemaError: the change is one of these.
    """
    config = meta.config
    fixed: Collection[str] = {*config.record_key_fields, *config.partition_fields}
    old, new = before.arrow(), after.arrow()
    for name in {*fixed, *config.ordering_fields}:
        if field_at(old, name) is None:
            continue  # the properties of some tables name an ordering field that no record has
        try:
            kinds = field_of(old, name).type, field_of(new, name).type
        except SchemaError as error:
            raise SchemaError(
                f"column {name!r} is a key, partition or ordering column: it can be neither renamed nor dropped",
                table=meta.storage.root,
            ) from error
        numbers = name not in fixed and not any(map(_is_text, kinds))
        if not numbers and not kinds[0].equals(kinds[1]) and not all(pa.types.is_integer(kind) for kind in kinds):
            raise SchemaError(
                f"column {name!r} is a key, partition or ordering column; as {kinds[1]} instead of {kinds[0]} the same "
                "values would make other keys or another order",
                table=meta.storage.root,
            )
