"""Merge semantics of a table in every version and form of declaration: mode, payload class, or merger id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pudi.config import merging
from pudi.config.table_config import TableConfig


@dataclass(frozen=True, slots=True)
class MergeSemantics:
    """Rule that decides between versions of a record, as version 9 states it.

    Attributes:
        mode: COMMIT_TIME_ORDERING, EVENT_TIME_ORDERING or CUSTOM.
        ordering_fields: columns that the ordering value is of.
        partial_update: how winners are completed, where they are.
        unavailable: the marker of FILL_UNAVAILABLE.
        strategy_id: for CUSTOM, the id of the merger that is to be registered; None where no merger can be.
        payload_class: a payload class that pudi doesn't know, for which a merger is to be registered.
        batches_by_order: whether versions in one batch are decided by ordering value where the rest isn't.
        deletes_win: whether deletes win regardless of their ordering value.
        binlog: whether the ordering field holds texts `file.position`.
        properties: properties passed to a merger, by key.
    """

    mode: str
    ordering_fields: tuple[str, ...]
    partial_update: str | None = None
    unavailable: str | None = None
    strategy_id: str | None = None
    payload_class: str | None = None
    batches_by_order: bool = False
    deletes_win: bool = False
    binlog: bool = False
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def is_known(self) -> bool:
        """Whether the rule is one of Hudi's that pudi has, or one that a user may register."""
        return self.mode != merging.CUSTOM or self.payload_class is not None or self.strategy_id is not None

    @property
    def lacks_merger(self) -> bool:
        """Whether no merger is registered for its payload class."""
        return self.payload_class is not None and not merging.has_merger(self.payload_class)


def merge_semantics(config: TableConfig) -> MergeSemantics:
    """Return the rule by which a table merges records.

    Versions 6 and 8 name payload classes; version 9 stores the equivalent rules instead. The delete markers of change
    streams come with the class (`HoodieTableConfig.getTableMergeProperties`).
    """
    properties = config.merge_properties
    named = config.compaction_payload_class if config.version >= 9 else config.payload_class
    strategy_id = config.merge_strategy_id
    custom_id = strategy_id if strategy_id and not merging.is_own_strategy(strategy_id) else None
    by_id = config.merge_mode == merging.CUSTOM and custom_id is not None and (config.version >= 8 or not named)
    if not by_id and named and merging.mode_of_payload(named) == merging.CUSTOM:
        known = merging.payload(named)
        if known is None:
            return MergeSemantics(merging.CUSTOM, config.ordering_fields, payload_class=named, properties=properties)
        return MergeSemantics(
            known.mode,
            known.older_ordering or config.ordering_fields,
            partial_update=known.partial_update,
            unavailable=known.unavailable,
            batches_by_order=known.batches_by_order,
            deletes_win=known.older_deletes_win,
            binlog=known.older_ordering == merging.BINLOG_ORDER,
            properties=properties,
        )
    return MergeSemantics(
        config.merge_mode,
        config.ordering_fields,
        partial_update=config.partial_update_mode if config.version >= 9 else None,
        unavailable=properties.get(merging.UNAVAILABLE),
        strategy_id=custom_id,
        properties=properties,
    )
