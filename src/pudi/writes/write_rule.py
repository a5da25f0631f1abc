"""The merge rule of one write: the table's rule, if the write merges versions."""

from __future__ import annotations

from pudi.client.meta_client import MetaClient
from pudi.client.write_settings import combines
from pudi.config import IndexOptions, Options, WriteOptions
from pudi.errors import NotSupportedError
from pudi.merge import MergeMode, MergeRule, merge_rule
from pudi.plan import Operation


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
