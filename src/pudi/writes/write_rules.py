"""The rules of one write: how it merges versions, whether inserts look up keys, what happens where a key exists."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pudi.client.meta_client import MetaClient
from pudi.client.write_settings import combines
from pudi.config import IndexOptions, Options, WriteOptions
from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.filegroup import FileSlice
from pudi.merge import MergeMode, MergeRule, merge_rule
from pudi.plan import Operation
from pudi.tagging import Index
from pudi.task import Engine
from pudi.timeline import Timeline


def rule_of(
    meta: MetaClient, operation: Operation, options: WriteOptions, resolved: Options, *, is_global: bool, schema: str
) -> MergeRule:
    """Return the merge rule of a write.

    Args:
        meta: the table.
        operation: the operation. For deletes, which only have keys, any version wins; if versions are not compared, the
            table's rule isn't needed.
        options: the writer's.
        resolved: the same, by key.
        is_global: whether keys are looked up in the whole table.
        schema: the table's Avro schema as JSON.

    Raises:
        MergerError: the table's merger is not registered.
        NotSupportedError: the rule mixes versions, which pudi doesn't support with a global index.
    """
    if operation is Operation.DELETE:
        return MergeRule(MergeMode.COMMIT_TIME)
    config, root = meta.config, meta.storage.root
    meets = operation.looks_up or (operation is Operation.INSERT and not options.allow_duplicates)
    if not meets and not combines(operation, options):
        return MergeRule(MergeMode.COMMIT_TIME, config.ordering_fields, config.delete_marker)
    rule = merge_rule(config, resolved, table=root, avro_schema=schema)
    if is_global and (rule.mixes or rule.binlog or rule.batches_by_order):
        raise NotSupportedError(
            "a global index with partial updates, a merger or a change stream's payload class: versions of "
            f"a record would have to meet across partitions; use {IndexOptions.index_type}=SIMPLE, BLOOM or BUCKET",
            table=root,
        )
    return rule


def is_uncounted(operation: Operation, index: Index, engine: Engine, timeline: Timeline) -> bool:
    """Return whether a write needs no plan: a bulk insert, unless it could add to existing buckets."""
    if operation is not Operation.BULK_INSERT or index.buckets is None:
        return operation is Operation.BULK_INSERT
    fresh = not any(instant.is_completed for instant in timeline.instants)
    return fresh and index.fixed_buckets is not None and engine.counts_separately


def adds_new_only(
    operation: Operation, options: WriteOptions, index: Index, slices: Iterable[FileSlice], table: str
) -> bool:
    """Return whether an insert drops or refuses records whose key exists in one of the slices.

    Raises:
        NotSupportedError: the options ask for it, and the index can't find existing keys.
    """
    wanted = operation is Operation.INSERT and options.duplicates != "none"
    if wanted and any(s.logs for s in slices):
        raise NotSupportedError(
            "looking for duplicates of inserted records beside log files: a key that was deleted there would count as "
            "known; compact the table first, or upsert",
            table=table,
        )
    if wanted and (index.buckets is not None or index.is_global):
        raise NotSupportedError(
            "looking for duplicates of inserted records needs index SIMPLE or BLOOM; upsert with this index",
            table=table,
        )
    return wanted


def without_known(tagged: Any, options: WriteOptions, table: str) -> Any:
    """Return the records whose key does not exist in the table.

    Raises:
        InvalidArgumentError: keys exist, and the options refuse them.
    """
    known = sum(tagged.profile.updates.values())
    if known and options.duplicates == "fail":
        raise InvalidArgumentError(
            f"{known} records have a key that the table holds already; nothing was written. Use upsert, or "
            f"{WriteOptions.duplicate_policy}=drop to leave them out",
            table=table,
        )
    return tagged.new_only() if known else tagged
