"""How reads of a merge-on-read table merge its log files, those of a writer too."""

from __future__ import annotations

from pudi.action.meta_client import MetaClient
from pudi.filegroup import CommittedLogs, LogScope
from pudi.merge import MergeRule, merge_rule
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
        NotSupportedError: the table names a payload class that pudi doesn't know.
        MergerError: the table's merger is not registered.
    """
    if not meta.merges_on_read:
        return None
    completed = frozenset(i.requested for i in seen.commits)
    pending = frozenset(i.requested for i in timeline.pending)
    start = timeline.start if meta.store.has_history() else None
    committed = CommittedLogs.of(meta.store, timeline, start)
    scope = LogScope(completed, pending, start, until, among, committed)
    keys = None if meta.config.populate_meta_fields else meta.keys
    return Merging(_rule(meta, seen), scope, keys, meta.memory, meta.by_position)


def _rule(meta: MetaClient, seen: Timeline) -> MergeRule:
    return merge_rule(meta.config, table=meta.storage.root, avro_schema=meta.schema_json(seen))
