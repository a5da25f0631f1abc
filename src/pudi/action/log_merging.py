"""How reads of a merge-on-read table merge its log files, those of a writer too."""

from __future__ import annotations

from pudi.action.meta_client import MetaClient
from pudi.errors import NotSupportedError
from pudi.filegroup import LogScope
from pudi.merge import MergeMode, MergeRule
from pudi.plan import Merging
from pudi.timeline import Timeline


def merging_of(
    meta: MetaClient,
    timeline: Timeline,
    seen: Timeline,
    *,
    until: str | None = None,
    among: frozenset[str] | None = None,
) -> Merging | None:
    """How a read merges log files over base files; None in a copy-on-write table.

    Args:
        meta: the table.
        timeline: the whole active timeline.
        seen: the part of it that the reader sees.
        until: greatest requested time of log blocks that count; None for any.
        among: the instants whose log blocks count, in incremental reads; None for all.

    Raises:
        NotSupportedError: the table's merger isn't one that this release knows.
    """
    if not meta.merges_on_read:
        return None
    completed = frozenset(i.requested for i in seen.commits)
    pending = frozenset(i.requested for i in timeline.pending)
    start = timeline.start if meta.store.has_history() else None
    scope = LogScope(completed, pending, start, until, among)
    return Merging(_rule(meta), scope, None if meta.config.populate_meta_fields else meta.keys)


def _rule(meta: MetaClient) -> MergeRule:
    config = meta.config
    known = {mode.value for mode in MergeMode}
    if config.merge_mode not in known or (config.partial_update_mode and config.version >= 9):
        how = config.partial_update_mode or config.merge_strategy_id or config.payload_class or config.merge_mode
        raise NotSupportedError(
            f"the table's records are merged by {how}, which this release of pudi doesn't know; "
            "scan(read_optimized=True) reads the base files alone",
            table=meta.storage.root,
        )
    return MergeRule(MergeMode(config.merge_mode), config.ordering_fields, config.delete_marker)
