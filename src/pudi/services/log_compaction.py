"""Log compaction: merge the many log files of a file slice into one, and leave the base file alone."""

from __future__ import annotations

from functools import partial

from pudi.client import TableSnapshot, merging_of
from pudi.config import CompactionOptions
from pudi.errors import NotSupportedError
from pudi.filegroup import FileSlice, busy_groups, read_log_blocks
from pudi.format import Action, State, encode_compaction_plan
from pudi.services.compaction import (
    LEFT_TO_WRITES,
    OPERATIONS,
    Compaction,
    holds_newest,
    is_any_planned,
    is_compacted_after,
    is_write_pending,
    may_roll_back,
)
from pudi.services.compaction_plan import is_log_compaction_due, plan_log_compaction
from pudi.services.service import Inline, Need, TableService
from pudi.services.target import ServiceTarget, TargetSnapshot
from pudi.task.key_search import late_logs
from pudi.timeline import Instant

_FIRST_VERSION = 8


class LogCompaction(Compaction):
    """Merges log files into one log file."""

    name = "log_compaction"
    action = Action.LOGCOMPACTION
    blocks = "cleaning of its log files, and archiving"

    def inline(self, target: ServiceTarget) -> Inline:
        """Decide by hoodie.log.compaction.inline; in a metadata table always run, since Hudi may have planned some."""
        if not target.meta.merges_on_read:
            return Inline.NOTHING
        return Inline.RUN if target.options[CompactionOptions.log_inline] or target.is_metadata else Inline.NOTHING

    def prepare(self, target: ServiceTarget) -> None:
        """Refuse to plan below table version 8."""
        if target.meta.config.version < _FIRST_VERSION:
            raise NotSupportedError(
                f"log compaction in a table of version {target.meta.config.version}: readers before Hudi 1.0 lose "
                "writes that come between its plan and its end; compact(), or upgrade the table to version 8 or 9",
                table=target.meta.storage.root,
            )
        super().prepare(target)

    def is_due(self, snapshot: TargetSnapshot) -> bool:
        """Decide by the number of deltacommits since the last compaction and log compaction."""
        timeline, options = snapshot.timeline, CompactionOptions.of(snapshot.options)
        if snapshot.is_metadata:
            if not (snapshot.options[CompactionOptions.log_inline] and timeline.rules.logs_name_their_commit):
                return False
            return not is_any_planned(timeline) and _is_due_on_metadata(snapshot, options.log_blocks_threshold)
        deltas, store = timeline.of(Action.DELTACOMMIT), snapshot.meta.store
        logs_only = OPERATIONS[self.action]
        done = [i.requested for i in deltas if store.read_commit_metadata(i).operation_type == logs_only]
        return is_log_compaction_due(timeline, options, done)

    def need(self, snapshot: TargetSnapshot) -> Need | None:
        """Return the need by the number of deltacommits, if the options ask for log compactions; else None."""
        if not (snapshot.meta.merges_on_read and snapshot.options[CompactionOptions.log_inline]):
            return None
        if snapshot.is_metadata and holds_newest(snapshot):
            return Need(False, LEFT_TO_WRITES)
        return TableService.need(self, snapshot)

    def must_wait(self, snapshot: TargetSnapshot) -> bool:
        """Wait for pending writes: the merged blocks, placed as the newest instant, would overtake theirs."""
        if snapshot.is_metadata:
            return may_roll_back(snapshot.data_timeline, snapshot.timeline)
        return is_write_pending(snapshot.timeline)

    def plan(self, snapshot: TargetSnapshot) -> bytes | None:
        """Plan the slices with many log files or blocks, except those under another plan."""
        store, timeline, is_metadata = snapshot.meta.store, snapshot.timeline, snapshot.is_metadata
        slices = snapshot.view(sizes=not is_metadata).all_slices()
        busy = busy_groups(store, timeline, log_compactions=True) | self._aside(snapshot)
        if not is_metadata:  # their keys must be found in log files that are known to be late
            busy |= late_logs(store, timeline, slices).keys()
        plan = plan_log_compaction(
            slices,
            CompactionOptions.of(snapshot.options),
            busy=busy,
            max_file_size=snapshot.write_options.max_file_size,
            blocks=(lambda each: len(each.logs)) if is_metadata else partial(_count_blocks, snapshot),
        )
        return encode_compaction_plan(plan) if plan.operations else None

    def requested_time(self, snapshot: TargetSnapshot) -> str | None:
        """The time of now."""
        return None

    def is_obsolete(self, snapshot: TargetSnapshot, instant: Instant) -> bool:
        """After a dead run or a later compaction: unlike a compaction's, the plan is then of no use.

        Source: BaseHoodieTableServiceClient.logCompact.
        """
        return instant.state is State.INFLIGHT or is_compacted_after(snapshot, instant)


def _count_blocks(snapshot: TableSnapshot, file_slice: FileSlice) -> int:
    """Count the log blocks of a slice by reading them; 0 if some are partial updates."""
    merging = merging_of(snapshot)
    assert merging is not None
    blocks = read_log_blocks(snapshot.meta.storage, file_slice.logs, merging.scope, merging.memory.share)
    return 0 if any(block.is_partial for block in blocks) else len(blocks)


def _is_due_on_metadata(snapshot: TableSnapshot, least: int) -> bool:
    """Return whether enough deltacommits follow the last compaction, and none of the newest is a log compaction."""
    timeline, store = snapshot.timeline, snapshot.meta.store
    last = max((i.requested for i in timeline.of(Action.COMMIT)), default="")
    deltas = [i for i in timeline.of(Action.DELTACOMMIT) if timeline.order(i) > last]
    if len(deltas) < least:
        return False
    newest = sorted(deltas, key=timeline.order)[-least:]
    return all(store.read_commit_metadata(i).operation_type != OPERATIONS[Action.LOGCOMPACTION] for i in newest)
