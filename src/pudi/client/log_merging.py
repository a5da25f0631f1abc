"""Settings by which readers, and writers that read, merge the log files of a merge-on-read table."""

from __future__ import annotations

import logging

from pudi.client.snapshot import TableSnapshot
from pudi.config import merge_semantics
from pudi.filegroup import CommittedLogs, LogScope
from pudi.format.delete_encode import can_order_deletes
from pudi.merge import merge_rule
from pudi.plan import Merging, Operation
from pudi.schema import field_at

_log = logging.getLogger(__name__)


def merging_of(
    snapshot: TableSnapshot, *, until: str | None = None, among: frozenset[str] | None = None
) -> Merging | None:
    """Return how a read merges log files with base files; None in a copy-on-write table.

    Args:
        snapshot: the table, as the reader sees it.
        until: log blocks of later requested times are ignored; None for no bound.
        among: in incremental reads, the instants whose log blocks are merged; None for all.

    Raises:
        NotSupportedError: the table names a payload class that pudi doesn't know.
        MergerError: the table's merger is not registered.
    """
    return _merging(snapshot, until, among) if snapshot.meta.merges_on_read else None


def merging_of_changes(snapshot: TableSnapshot) -> Merging:
    """Return how change data merges log files with base files, in tables of both types; see `merging_of`."""
    return _merging(snapshot, None, None)


def _merging(snapshot: TableSnapshot, until: str | None, among: frozenset[str] | None) -> Merging:
    meta, timeline = snapshot.meta, snapshot.timeline
    completed = frozenset(i.requested for i in snapshot.seen.commits)
    pending = frozenset(i.requested for i in timeline.pending)
    start = timeline.start if meta.store.had_history(timeline) else None
    committed = CommittedLogs.of(meta.store, timeline, start)
    scope = LogScope(completed, pending, start, until, among, committed)
    rule = merge_rule(meta.config, table=snapshot.table, avro_schema=snapshot.schema.avro)
    return Merging(rule, scope, meta.virtual_keys, meta.memory, meta.by_position)


def merging_of_deletes(snapshot: TableSnapshot, operation: Operation) -> Merging | None:
    """Return how a delete reads the stored records whose ordering values its log records copy.

    None for other operations, in copy-on-write tables, and if no ordering value decides between versions. If log
    files can't store the values, or readers ignore them, deletes have none, and a warning states the consequence.
    """
    meta = snapshot.meta
    merges = merge_semantics(meta.config)
    if operation is not Operation.DELETE or not meta.merges_on_read or not merges.compares:
        return None
    schema = snapshot.schema.columns
    fields = [(name, field_at(schema, name)) for name in merges.ordering_fields]
    unfit = [f"{path}: {each.type}" for path, each in fields if each is not None and not can_order_deletes(each.type)]
    if not unfit and not merges.deletes_win:
        return merging_of(snapshot)
    _log.warning(
        "%s: deletes in log files %s: until a compaction, a record that comes after its delete with a lower value of "
        "%s than the deleted one's brings the deleted one back, for pudi and Hudi alike",
        snapshot.table,
        f"hold no values of {unfit[0]}" if unfit else "of this table's payload class have no order",
        ", ".join(merges.ordering_fields),
    )
    return None
