"""The lease of a planned table service: a heartbeat, started under the table's lock, marks the process that runs it.

A plan never changes, so a dead run leaves only files to delete: its instant is reverted to requested, and the next
process runs the plan again (BaseHoodieTableServiceClient.compact).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from posixpath import basename

from pudi.client import MetaClient, TableSnapshot
from pudi.client.measure import count_failures
from pudi.client.result import ActionReport
from pudi.commit.commit_hook import discard_metadata
from pudi.commit.liveness import keep_alive, last_touched_ms, liveness_of
from pudi.commit.transaction import Transaction
from pudi.concurrency import Heartbeat, Liveness
from pudi.config import Options, WriteOptions
from pudi.errors import ConflictError, NotFoundError, TableExistsError
from pudi.filegroup import Markers, unmarked_files
from pudi.format import State, heartbeat_path, parse_data_file, plan_run_path, write_token
from pudi.storage import delete_for_good
from pudi.timeline import Instant, Timeline
from pudi.timeline.plan_runs import PlanRun

_RUNS = 1 << 30
"""Number of run ids in write tokens: at most two runs of one plan overlap."""


class PlanTakenError(ConflictError):
    """Another process runs a plan, or has run it or removed it: there is nothing left to do for this one."""


class PlanDisplacedError(ConflictError):
    """A write or another plan came first and took away what a plan works on: it is dropped, and planned again later."""


@dataclass(slots=True)
class ServiceLease:
    """The right of this process to run a planned service.

    Attributes:
        meta: the table.
        instant: the service's instant, inflight.
        timeline: the table's timeline when this process took the lease.
        named: this run.
        written: paths of the files of this run.
    """

    meta: MetaClient
    instant: Instant
    timeline: Timeline
    named: PlanRun
    written: list[str] = field(default_factory=list)

    @property
    def run(self) -> int:
        """The id of this run, part of the write tokens of its files."""
        return self.named.number

    def check(self, now: Timeline) -> None:
        """Verify under the lock, just before completion, that no process declared this run dead.

        Such a process deletes its files, or has begun a run of its own.

        Raises:
            ConflictError: another process did.
        """
        del now
        markers = set(Markers(self.meta.storage, self.instant.requested).all_files())
        if not self.is_newest() or not markers.issuperset(self.written):
            raise self.named.displaced(self.meta.storage)

    @contextmanager
    def naming_displacement(self) -> Iterator[None]:
        """Say of a file that is gone, or there already, that another process runs the plan, if that is why.

        Raises:
            ConflictError: it is.
        """
        try:
            yield
        except (NotFoundError, TableExistsError) as error:
            if self.is_newest():
                raise
            raise self.named.displaced(self.meta.storage) from error

    def is_newest(self) -> bool:
        """Return whether no other process of pudi has leased the plan since."""
        return self.named.is_newest(self.meta.storage)

    def end(self) -> None:
        """Delete the note of this run, after its completion."""
        self.named.forget(self.meta.storage)

    def keep(self, written: Sequence[str]) -> None:
        """Record the files of this run and delete files of its failed attempts; files of other runs stay."""
        self.written[:] = written
        delete_for_good(self.meta.storage, sorted(set(self.own_files()) - set(written)))

    def own_files(self) -> list[str]:
        """Return the files that this run may have written, without those of other runs of the plan."""
        named = Markers(self.meta.storage, self.instant.requested).all_files()
        return sorted({*self.written, *(path for path in named if _run_of(path) == self.run)})


def is_available(meta: MetaClient, instant: Instant, options: WriteOptions) -> bool:
    """Return whether no process runs a pending service, as far as this process can tell.

    Args:
        meta: the table.
        instant: the service's instant.
        options: the failed-writes policy and the heartbeat's limits.
    """
    last_seen = last_touched_ms(meta, instant) if instant.state is State.INFLIGHT else 0
    found = liveness_of(meta, instant.requested, options, last_seen)
    if found is Liveness.UNKNOWN:  # inflight, by a writer that gives no heartbeat, as Hudi's single writers
        return options.failed_writes_policy == "EAGER"
    return found is Liveness.DEAD


class PlanTransaction(Transaction):
    """One run of a table service's plan: its instant is leased, and reverted to its plan unless it completes.

    Attributes:
        lease: the lease, from entering on. That it's held is the transaction's first condition.
    """

    lease: ServiceLease

    def __init__(self, meta: MetaClient, instant: Instant, options: Options, report: ActionReport) -> None:
        """Describe the run of a plan; entering it leases the plan.

        Args:
            meta: the table.
            instant: the service's instant, pending.
            options: those of heartbeats and failed writes.
            report: see `Transaction`.
        """
        super().__init__(meta, instant.action, report)
        self._planned, self._options = instant, options

    @contextmanager
    def held(self) -> Iterator[Instant]:
        """Yield the leased instant; see `lease`."""
        with lease(self.meta, self._planned, WriteOptions.of(self._options), self.report) as leased:
            self.lease = leased
            self.snapshot = TableSnapshot(self.meta, leased.timeline, self._options)
            self.conditions.append(leased)
            yield leased.instant
            if not self.is_committed:
                _undo(leased)


@contextmanager
def lease(
    meta: MetaClient, instant: Instant, options: WriteOptions, report: ActionReport | None = None
) -> Iterator[ServiceLease]:
    """Lease a pending service: inflight, with a heartbeat. An error deletes the run's files and reverts the instant.

    Args:
        meta: the table.
        instant: the service's instant, pending.
        options: as for `is_available`.
        report: notes what fails after the completion of the instant.

    Raises:
        PlanTakenError: another process runs it, has completed it or removed it from the timeline.
        ConflictError: another process took this run for dead.
    """
    heart = Heartbeat(meta.storage, instant.requested, meta.context, options.heartbeat_interval_ms)
    leased: ServiceLease | None = None

    def undo(error: BaseException) -> None:
        if leased is not None:
            _undo(leased)

    with keep_alive(meta, [heart], undo, report), count_failures(meta, instant.action):
        with meta.lock:
            timeline, current = _free(meta, instant, options)
            heart.start()
            number = int(meta.context.new_id().replace("-", "")[:12], 16) % _RUNS
            named = PlanRun(instant.requested, number)
            named.note(meta.storage)
            meta.lock.verify()
            leased = ServiceLease(meta, meta.store.start(current), timeline, named)
        with leased.naming_displacement():
            yield leased


def _free(meta: MetaClient, instant: Instant, options: WriteOptions) -> tuple[Timeline, Instant]:
    """Return the timeline now, and the instant, requested, if no other process runs it."""
    timeline = meta.store.load()
    current = timeline.find(instant.requested, instant.action)
    if current is None or current.is_completed or not is_available(meta, current, options):
        raise PlanTakenError(
            f"another process runs the {instant.action.value}, or has run it",
            table=meta.storage.root,
            instant=instant.requested,
        )
    if current.state is State.INFLIGHT or Markers(meta.storage, current.requested).infos():
        current = revert_to_requested(meta, current)
    meta.delete_locked(unmarked_files(meta.storage, current.requested, meta.store.layout))
    return timeline, current


def revert_to_requested(meta: MetaClient, instant: Instant) -> Instant:
    """Revert a dead run to its plan, under the table's lock: delete its inflight file and its files.

    The inflight file goes first: a run that lives after all can't complete without it, though this process dies before
    it has deleted all files. The markers go last: as long as there are some, the next lease reverts again.

    Raises:
        CorruptError: its markers can't be read; nothing was deleted.
    """
    with meta.lock:
        markers = Markers(meta.storage, instant.requested)
        files = markers.files()
        meta.delete_locked([meta.store.path(instant, State.INFLIGHT)])
        meta.delete_locked(files)
        discard_metadata(meta, instant.requested)
        markers.delete()
        meta.storage.delete([heartbeat_path(instant.requested), plan_run_path(instant.requested)])
    return Instant(instant.requested, instant.action, State.REQUESTED, layout=instant.layout)


def _undo(leased: ServiceLease) -> None:
    meta, instant = leased.meta, leased.instant
    with meta.lock:
        timeline = meta.store.load()
        done = timeline.commit(instant.requested)
        own = set(leased.own_files())
        if done is not None:  # by this run, if the answer was lost, or by another run of the plan
            own -= {path for stat in meta.store.read_commit_metadata(done).stats for path in stat.paths}
        delete_for_good(meta.storage, sorted(own))
        found = timeline.find(instant.requested, instant.action)
        others = set(Markers(meta.storage, instant.requested).all_files()) - own
        is_over = done is not None or others or not leased.is_newest()
        if not is_over and found is not None and found.state is State.INFLIGHT:
            revert_to_requested(meta, found)


def _run_of(path: str) -> int | None:
    """Return the run id in the write token of a file name."""
    parsed = parse_data_file(basename(path))
    token = None if parsed is None else parsed.write_token
    parts = (token or "").split("-")
    return int(parts[1]) if len(parts) == len(write_token(0, 0, 0).split("-")) and parts[1].isdigit() else None
