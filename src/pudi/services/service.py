"""Define the interface of a table service, and what runs that rewrite file slices share. `runner` does everything else.

A `PlannedService` defines when it is due, its plan, the jobs that carry the plan out, and the metadata of the completed
instant. The runner schedules, leases, runs, completes and aborts plans, and takes over those of dead processes. A
`DirectService` works without a plan.

Compactions and clusterings rewrite slices of a data table as of their plan: a `RewritingRun` says with which schema.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from pudi.client import CommitResult, read_history
from pudi.client.schema_commit import INTERNAL_SCHEMA_KEY, SCHEMA_KEY
from pudi.client.settings import file_options
from pudi.commit.lease import ServiceLease
from pudi.format import Action, CommitMetadata, CompactionOperation, FileGroupId, WriteStat, stats_by_partition
from pudi.indexes.column_stats.statistics import indexed_columns
from pudi.indexes.indexed_commit import RemovedFiles
from pudi.plan import Merging
from pudi.schema import avro_to_arrow
from pudi.services.target import ServiceTarget, TargetSnapshot
from pudi.task import FileJob
from pudi.task.compact import CompactSpec
from pudi.timeline import Instant, Timeline


class Inline(Enum):
    """The part of a service that runs after every commit.

    `SCHEDULE_AND_RUN_ASYNC` plans it right after the commit and runs the plan beside the following writes;
    `RUN_ASYNC` does both beside them.
    """

    NOTHING = "nothing"
    SCHEDULE = "schedule"
    RUN = "run"
    SCHEDULE_AND_RUN_ASYNC = "schedule and run async"
    RUN_ASYNC = "run async"

    @classmethod
    def of(cls, *, run: bool, run_async: bool, schedule: bool) -> Inline:
        """Return the part that three options of a service ask for, in the order in which Hudi looks at them."""
        if run:
            return cls.RUN
        if run_async:
            return cls.SCHEDULE_AND_RUN_ASYNC
        return cls.SCHEDULE if schedule else cls.NOTHING

    @property
    def is_async(self) -> bool:
        """Whether the service runs beside writes."""
        return self in {Inline.SCHEDULE_AND_RUN_ASYNC, Inline.RUN_ASYNC}

    @property
    def only_schedules(self) -> bool:
        """Whether the commit itself only plans the service."""
        return self in {Inline.SCHEDULE, Inline.SCHEDULE_AND_RUN_ASYNC}


@dataclass(frozen=True, slots=True)
class Need:
    """Whether a table needs a service now.

    Attributes:
        due: whether it does.
        reason: why, or why not, for people.
        backlog: number of commits that wait for the service, beyond those that the options leave to wait.
        blocked_by: requested time of the instant that keeps the service from doing all of them; None without one.
    """

    due: bool
    reason: str
    backlog: int = 0
    blocked_by: str | None = None

    @property
    def text(self) -> str:
        """The reason, with the backlog."""
        if not self.backlog:
            return self.reason
        blocked = f", blocked by {self.blocked_by}" if self.blocked_by else ""
        return f"{self.reason}; {self.backlog} commits wait for it{blocked}"


Backlog = tuple[int, str | None]
"""Number of commits, and the requested time of the instant that blocks the service; None where nothing does."""


def oldest_write(timeline: Timeline) -> str | None:
    """Return the oldest pending instant that isn't a clean, a rollback or a build of an index."""
    skipped = {Action.CLEAN, Action.ROLLBACK, Action.INDEXING}
    return min((each.requested for each in timeline.pending if each.action not in skipped), default=None)


class TableService(ABC):
    """A table service; one instance serves all tables, so it holds no state.

    Attributes:
        name: its name in `Table.schedule`, in `CommitResult.failed_services` and in messages.
    """

    name: str

    @abstractmethod
    def inline(self, target: ServiceTarget) -> Inline:
        """Return the part of the service that runs after every commit, by the table's options."""

    @abstractmethod
    def is_due(self, snapshot: TargetSnapshot) -> bool:
        """Return whether the table's options ask for the service after a commit.

        Args:
            snapshot: the table, perhaps as it was a moment ago.
        """

    def need(self, snapshot: TargetSnapshot) -> Need | None:
        """Return whether a maintenance runs the service now, and why; None if the table has no use for it.

        Unlike `inline`, it doesn't ask whether the service runs after commits.
        """
        due = self.is_due(snapshot)
        return Need(due, f"{'due' if due else 'not due'} by the options")


class DirectService(TableService):
    """A service without a plan: the process that finds it due does its work immediately."""

    @abstractmethod
    def run(self, target: ServiceTarget) -> int | CommitResult | None:
        """Do the work, if it is still due; take the table's lock where that is needed.

        Returns:
            What was done, or how many instants or files were changed; None or 0 if nothing was to do.
        """


class ServiceRun(ABC):
    """One run of a plan. By default it deletes no files, and its completed instant holds the commit metadata.

    Attributes:
        snapshot: the table as the run began with it.
    """

    snapshot: TargetSnapshot

    @property
    def operations(self) -> Sequence[CompactionOperation]:
        """The file slices that the jobs read."""
        return ()

    @abstractmethod
    def jobs(self) -> Sequence[FileJob]:
        """The jobs that write the files."""

    @abstractmethod
    def check(self, now: Timeline) -> None:
        """Check under the table's lock, just before completion, that the result still fits the table.

        Raises:
            ConflictError: it does not; nothing is published.
        """

    @abstractmethod
    def metadata(self, stats: Sequence[WriteStat]) -> CommitMetadata:
        """Return the commit metadata of the completed instant.

        Args:
            stats: the write statistics of the files.
        """

    def before_commit(self) -> None:
        """Write what must be there beside the data files when the instant completes, and is ignored until then."""
        return

    def after_commit(self) -> None:
        """Do what may follow the completed instant; it stands even if this fails."""
        return

    @property
    def removed(self) -> RemovedFiles | None:
        """The files that the jobs deleted; None for none."""
        return None

    def content(self) -> bytes | None:
        """Return the content of the completed instant; None for the commit metadata."""
        return None


class PlannedService(TableService):
    """A service whose plan is a requested instant that any process may run.

    Attributes:
        action: the action of its instants.
        blocks: what waits while an instant of the action is pending, as `Table.doctor` says it.
        is_set_aside: whether a plan of a data table that fails again and again is set aside (`set_aside`).
    """

    action: Action
    blocks: str
    is_set_aside: bool = False

    @abstractmethod
    def check(self, target: ServiceTarget) -> None:
        """Refuse tables and options that the service does not support.

        Raises:
            InvalidArgumentError: wrong options, or a table of the wrong type.
            NotSupportedError: a table that this release can't serve.
        """

    def prepare(self, target: ServiceTarget) -> None:
        """Get ready for planning, before the table's lock is taken."""

    def must_wait(self, snapshot: TargetSnapshot) -> bool:
        """Return whether a pending instant forbids a plan now, even one that a user asks for."""
        return False

    @abstractmethod
    def plan(self, snapshot: TargetSnapshot) -> bytes | None:
        """Make the plan, under the table's lock.

        Returns:
            The content of the requested file; None if there is nothing to do.
        """

    def requested_time(self, snapshot: TargetSnapshot) -> str | None:
        """Return the requested time of a new plan where a rule prescribes it; None for the time of now."""
        return None

    def groups_of(self, target: ServiceTarget, instant: Instant) -> Collection[FileGroupId]:
        """Return partition and file id of the file groups of a plan, for a service whose plans are set aside."""
        raise NotImplementedError

    def is_obsolete(self, snapshot: TargetSnapshot, instant: Instant) -> bool:
        """Return whether a pending plan that no process runs must be aborted and never run."""
        return False

    @abstractmethod
    def open(self, target: ServiceTarget, lease: ServiceLease) -> ServiceRun:
        """Read the plan of a leased instant.

        Raises:
            CorruptError: the plan can't be read.
        """


class RewritingRun(ServiceRun):
    """Base class of the runs of plans that rewrite file slices.

    Attributes:
        snapshot: the table as the run began with it.
        lease: the lease of the plan's instant.
    """

    snapshot: TargetSnapshot
    lease: ServiceLease

    @property
    def as_planned(self) -> TargetSnapshot:
        """The table for a reader of the run's instant: readers take files to have the columns of their instant."""
        return self.snapshot.seeing(self.snapshot.timeline.until(self.lease.instant.requested))

    def spec(self, merging: Merging) -> CompactSpec:
        """Return how the slices are rewritten.

        Args:
            merging: how a slice's log files are merged with its base file.
        """
        meta, then = self.snapshot.meta, self.as_planned
        return CompactSpec(
            instant=self.lease.instant.requested,
            run=self.lease.run,
            schema=then.schema,
            merging=replace(merging, memory=merging.memory.of_compaction, by_position=False),
            files=file_options(meta, self.snapshot.write_options, then.schema.columns.names),
            history=read_history(then),
            stats=indexed_columns(meta, avro_to_arrow(then.schema.avro)),
            layout=meta.store.layout,
        )

    def written(self, stats: Sequence[WriteStat], operation: str, of_plan: Mapping[str, str]) -> CommitMetadata:
        """Return the commit metadata of the run, which states the schema of the files.

        Args:
            stats: the write statistics of the files.
            operation: the operation type (WriteOperationType).
            of_plan: the plan's extra metadata.
        """
        then = self.as_planned
        by_id = then.schema_by_id
        extra = {**of_plan, SCHEMA_KEY: then.schema.avro}
        return CommitMetadata(
            stats_by_partition(stats),
            extra_metadata=extra if by_id is None else {**extra, INTERNAL_SCHEMA_KEY: by_id},
            operation_type=operation,
        )
