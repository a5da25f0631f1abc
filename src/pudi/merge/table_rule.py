"""The rule of a table: its configuration in, a `MergeRule` for writers and readers out."""

from __future__ import annotations

from pudi.config import Options, TableConfig, check_mergeable, merge_semantics
from pudi.errors import MergerError
from pudi.merge.mergers import registered_merger
from pudi.merge.rule import MergeMode, MergeRule, PartialUpdate


def merge_rule(config: TableConfig, resolved: Options | None = None, *, table: str = "") -> MergeRule:
    """How versions of the table's records are decided, by whoever writes, compacts or reads it.

    Args:
        config: the table's configuration.
        resolved: options of the call; none of them changes what the table has persisted.
        table: location of the table's root, for messages.

    Raises:
        NotSupportedError: the table names a payload class that pudi doesn't know.
        MergerError: no merger is registered with the table's strategy id.
    """
    check_mergeable(config, table)
    merges = merge_semantics(config)
    merger = None
    if merges.mode == MergeMode.CUSTOM.value:
        identifier = str(merges.strategy_id)
        merger = registered_merger(identifier)
        if merger is None:
            raise MergerError(
                f"the table's records are merged by the merger with strategy id {identifier}, which is not registered: "
                "call pudi.register_merger with it first",
                table=table or None,
            )
    return MergeRule(
        MergeMode(merges.mode),
        merges.ordering_fields,
        config.delete_marker,
        partial_update=None if merges.partial_update is None else PartialUpdate(merges.partial_update),
        unavailable=merges.unavailable,
        merger=merger,
        properties=merges.properties,
        key_fields=tuple(name for name in config.record_key_fields if "." not in name),
        batches_by_order=merges.batches_by_order,
        binlog=merges.binlog,
    )
