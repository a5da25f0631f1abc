"""Cleaning: delete the file slices that no retained state of the table needs.

A requested clean is a plan that never changes. Any process runs it: it deletes the files, then takes them out of the
metadata table and completes. A file that isn't there any more was deleted by a run that died.

Source: SERVICES A1; CleanPlanActionExecutor, CleanActionExecutor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pudi.action.kinds.kind import RemovedFiles
from pudi.action.services.clean_plan import is_due, plan_clean
from pudi.action.services.lease import ServiceLease
from pudi.action.services.service import Inline, PlannedService, ServiceRun
from pudi.action.services.target import ServiceTarget
from pudi.config import CleanOptions
from pudi.errors import CorruptError
from pudi.format import Action, CommitMetadata, CompactionOperation, State, WriteStat, parse_data_file
from pudi.format.clean import CleanPlan, decode_clean_plan, encode_clean_metadata, encode_clean_plan
from pudi.task import FileJob
from pudi.task.delete_files import DeleteFiles
from pudi.timeline import Timeline

_FILES = 1000
"""Files that one job deletes."""


class Clean(PlannedService):
    """Deletes old file slices of data tables."""

    name = "clean"
    action = Action.CLEAN
    blocks = "later cleans, until it is run"

    def inline(self, target: ServiceTarget) -> Inline:
        """By hoodie.clean.automatic; metadata tables have a service of their own."""
        automatic = target.options[CleanOptions.automatic] and not target.is_metadata
        return Inline.RUN if automatic else Inline.NOTHING

    def check(self, target: ServiceTarget) -> None:
        """Refuse wrong options."""
        CleanOptions.of(target.options)

    def is_due(self, target: ServiceTarget, timeline: Timeline) -> bool:
        """By the number of commits since the last clean."""
        return is_due(target.meta, timeline, CleanOptions.of(target.options))

    def must_wait(self, target: ServiceTarget, timeline: Timeline) -> bool:
        """For a pending clean: its files would be planned again."""
        return bool(timeline.of(Action.CLEAN, State.REQUESTED, State.INFLIGHT))

    def plan(self, target: ServiceTarget, timeline: Timeline) -> bytes | None:
        """Plan the deletion of what the policy doesn't keep."""
        plan = plan_clean(target.meta, timeline, CleanOptions.of(target.options))
        return None if plan is None else encode_clean_plan(plan)

    def open(self, target: ServiceTarget, lease: ServiceLease) -> ServiceRun:
        """Read the plan."""
        store, requested, began_ms = target.meta.store, lease.instant, target.meta.context.clock.now_ms()
        path = store.path(requested, State.REQUESTED)
        plan = decode_clean_plan(store.read(requested, State.REQUESTED), path=path)
        return _Run(
            target, requested.requested, store.load(), plan, _names(plan, path, target.meta.storage.root), began_ms
        )


def _names(plan: CleanPlan, path: str, table: str) -> dict[str, tuple[str, ...]]:
    """Return the names of the files to delete, by partition path.

    Plans contain absolute paths, which may name the root differently and are not trusted.

    Raises:
        CorruptError: the plan names something else than data files.
    """
    names = {partition: tuple(file.rpartition("/")[2] for file in files) for partition, files in plan.files.items()}
    wrong = [name for each in names.values() for name in each if parse_data_file(name) is None]
    if wrong:
        raise CorruptError(
            f"the clean names {wrong[0]!r}, which is no data file; nothing was deleted", table=table, path=path
        )
    return names


@dataclass(frozen=True, slots=True)
class _Run:
    """One run of a plan.

    Attributes:
        target: the table.
        instant: requested time of the clean.
        timeline: the table's, as the run began with it.
        plan: the plan.
        names: the names of its files, by partition path.
        began_ms: when the run began, in milliseconds since the epoch.
    """

    target: ServiceTarget
    instant: str
    timeline: Timeline
    plan: CleanPlan
    names: dict[str, tuple[str, ...]]
    began_ms: int

    @property
    def operations(self) -> Sequence[CompactionOperation]:
        """None: no file is read."""
        return ()

    @property
    def removed(self) -> RemovedFiles:
        """The files of the plan."""
        return RemovedFiles(self.names)

    def jobs(self) -> Sequence[FileJob]:
        """The deletions."""
        paths = [f"{p}/{name}" if p else name for p, names in self.names.items() for name in names]
        starts = range(0, len(paths), _FILES)
        return [DeleteFiles(number, tuple(paths[start : start + _FILES])) for number, start in enumerate(starts)]

    def verify(self, now: Timeline) -> None:
        """Nothing can contradict it: commits never name files that a plan deletes."""

    def metadata(self, stats: Sequence[WriteStat]) -> CommitMetadata:
        """The operation, without files."""
        return CommitMetadata({}, operation_type="CLEAN")

    def content(self) -> bytes:
        """What the completed clean says."""
        took = self.target.meta.context.clock.now_ms() - self.began_ms
        return encode_clean_metadata(self.plan, self.instant, took)
