"""A toy table service in one module: it counts the records of a table and states the number in a commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pudi.client.schema_commit import SCHEMA_KEY
from pudi.commit.lease import ServiceLease
from pudi.context import Storage
from pudi.filegroup import compaction_plan
from pudi.format import (
    Action,
    CommitMetadata,
    CompactionOperation,
    CompactionPlan,
    WriteStat,
    encode_compaction_plan,
)
from pudi.services.compaction_plan import operation_of
from pudi.services.service import Inline, PlannedService, ServiceRun
from pudi.services.target import ServiceTarget, TargetSnapshot
from pudi.task import FileResult
from pudi.timeline import Timeline

EVERY = 3
COUNTED = "toy.log.files"


@dataclass(frozen=True, slots=True)
class CountTask:
    """Count the log files of one slice."""

    number: int
    operation: CompactionOperation

    def run(self, storage: Storage, attempt: int) -> FileResult:
        """Count."""
        return FileResult(self.number, len(self.operation.log_files), None)


@dataclass(frozen=True)
class CountRun(ServiceRun):
    """One run of the plan."""

    snapshot: TargetSnapshot
    plan: CompactionPlan
    during: Callable[[], None]

    @property
    def operations(self) -> Sequence[CompactionOperation]:
        """The slices."""
        return self.plan.operations

    def jobs(self) -> Sequence[CountTask]:
        """One for each slice."""
        self.during()
        return [CountTask(number, each) for number, each in enumerate(self.plan.operations)]

    def check(self, now: Timeline) -> None:
        """Nothing can contradict it."""

    def metadata(self, stats: Sequence[WriteStat]) -> CommitMetadata:
        """The number of slices, and no files."""
        said = {COUNTED: str(len(self.operations))}
        if not self.snapshot.is_metadata:
            said[SCHEMA_KEY] = self.snapshot.schema.avro
        return CommitMetadata({}, extra_metadata=said, operation_type="LOG_COMPACT")


class CountService(PlannedService):
    """Plans all slices every few commits."""

    name = "count"
    blocks = "later counts"
    action = Action.LOGCOMPACTION  # the toy takes the place of a service that is not registered meanwhile

    def __init__(self) -> None:
        self.during: Callable[[], None] = lambda: None

    def inline(self, target: ServiceTarget) -> Inline:
        """After every commit."""
        return Inline.RUN

    def check(self, target: ServiceTarget) -> None:
        """Any table will do."""

    def is_due(self, snapshot: TargetSnapshot) -> bool:
        """Every few commits."""
        return len(snapshot.timeline.commits) % EVERY == 0 and len(snapshot.timeline.commits) > 0

    def plan(self, snapshot: TargetSnapshot) -> bytes | None:
        """All slices."""
        slices = snapshot.view(sizes=False).all_slices()
        return encode_compaction_plan(CompactionPlan(tuple(operation_of(each, 1) for each in slices), logs_only=True))

    def open(self, target: ServiceTarget, lease: ServiceLease) -> CountRun:
        """Read the plan."""
        return CountRun(target.load(), compaction_plan(target.meta.store, lease.instant), self.during)
