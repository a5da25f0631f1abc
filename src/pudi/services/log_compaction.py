"""Log compaction: merge the many log files of a file slice into one, and leave the base file alone."""

from __future__ import annotations

from dataclasses import dataclass

from pudi.client.log_merging import merging_of
from pudi.client.meta_client import MetaClient
from pudi.client.snapshot import TableSnapshot
from pudi.concurrency import busy_groups
from pudi.config import CompactionOptions
from pudi.errors import NotSupportedError
from pudi.filegroup import FileSlice, read_log_blocks
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
from pudi.services.target import ServiceTarget
from pudi.task.log_keys import late_logs
from pudi.timeline import Instant, Timeline

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

    def is_due(self, target: ServiceTarget, timeline: Timeline) -> bool:
        """Decide by the number of deltacommits since the last compaction and log compaction."""
        if target.is_metadata and not (
            target.options[CompactionOptions.log_inline] and timeline.rules.logs_name_their_commit
        ):
            return False
        if target.is_metadata and is_any_planned(timeline):
            return False
        store, options = target.meta.store, CompactionOptions.of(target.options)
        logs_only = OPERATIONS[self.action]
        if target.is_metadata:
            return _is_due_on_metadata(target.meta, timeline, options.log_blocks_threshold)
        deltas = timeline.of(Action.DELTACOMMIT)
        done = [i.requested for i in deltas if store.read_commit_metadata(i).operation_type == logs_only]
        return is_log_compaction_due(timeline, options, done)

    def need(self, target: ServiceTarget, timeline: Timeline) -> Need | None:
        """Return the need by the number of deltacommits, if the options ask for log compactions; else None."""
        if not (target.meta.merges_on_read and target.options[CompactionOptions.log_inline]):
            return None
        if target.is_metadata and holds_newest(target, timeline):
            return Need(False, LEFT_TO_WRITES)
        return TableService.need(self, target, timeline)

    def must_wait(self, target: ServiceTarget, timeline: Timeline) -> bool:
        """Wait for pending writes: the merged blocks, placed as the newest instant, would overtake theirs."""
        if target.is_metadata:
            return may_roll_back(target.data.store.load(), timeline)
        return is_write_pending(timeline)

    def plan(self, target: ServiceTarget, timeline: Timeline) -> bytes | None:
        """Plan the slices with many log files or blocks, except those under another plan."""
        meta = target.meta
        slices = meta.view(timeline, sizes=not target.is_metadata).all_slices()
        busy = busy_groups(meta.store, timeline, log_compactions=True) | self._aside(target)
        if not target.is_metadata:  # their keys must be found in log files that are known to be late
            busy |= late_logs(meta.store, timeline, slices).keys()
        plan = plan_log_compaction(
            slices,
            CompactionOptions.of(target.options),
            busy=busy,
            max_file_size=target.write_options.max_file_size,
            blocks=_log_files if target.is_metadata else _BlockCount(meta, timeline),
        )
        return encode_compaction_plan(plan) if plan.operations else None

    def requested_time(self, target: ServiceTarget, timeline: Timeline) -> str | None:
        """The time of now."""
        return None

    def is_obsolete(self, target: ServiceTarget, timeline: Timeline, instant: Instant) -> bool:
        """After a dead run or a later compaction: unlike a compaction's, the plan is then of no use.

        Source: BaseHoodieTableServiceClient.logCompact.
        """
        return instant.state is State.INFLIGHT or is_compacted_after(target.meta, timeline, instant)


@dataclass(frozen=True, slots=True)
class _BlockCount:
    """Counts the log blocks of a slice by reading them; 0 if some are partial updates."""

    meta: MetaClient
    timeline: Timeline

    def __call__(self, file_slice: FileSlice) -> int:
        merging = merging_of(TableSnapshot(self.meta, self.timeline))
        assert merging is not None
        blocks = read_log_blocks(self.meta.storage, file_slice.logs, merging.scope, merging.memory.share)
        return 0 if any(block.is_partial for block in blocks) else len(blocks)


def _log_files(file_slice: FileSlice) -> int:
    return len(file_slice.logs)


def _is_due_on_metadata(mdt: MetaClient, timeline: Timeline, least: int) -> bool:
    """Return whether enough deltacommits follow the last compaction, and none of the newest is a log compaction."""
    last = max((i.requested for i in timeline.of(Action.COMMIT)), default="")
    deltas = [i for i in timeline.of(Action.DELTACOMMIT) if timeline.order(i) > last]
    if len(deltas) < least:
        return False
    newest = sorted(deltas, key=timeline.order)[-least:]
    return all(mdt.store.read_commit_metadata(i).operation_type != OPERATIONS[Action.LOGCOMPACTION] for i in newest)
