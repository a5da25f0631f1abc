"""One instant beside other writers: requested, inflight, work in phases, conditions under the lock, completed.

A `WriteTransaction` owns a new instant; a `PlanTransaction` (`commit.lease`) owns the run of a table service's plan.
Rollbacks, restores, savepoints and index builds complete by themselves: see decision 31.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING

from pudi.client import MetaClient, TableSnapshot
from pudi.client.measure import count_failures, note_start
from pudi.client.result import CLEAN_UP, ActionReport
from pudi.client.schema_history import write_history
from pudi.commit.commit_hook import complete_with_metadata
from pudi.commit.conditions import CommitCondition
from pudi.commit.liveness import keep_alive
from pudi.commit.rollback import abort
from pudi.concurrency import Heartbeat
from pudi.config import WriteOptions
from pudi.context import FileInfo
from pudi.errors import ConflictError, NotFoundError, RefusedError, TableExistsError
from pudi.filegroup import Markers
from pudi.format import (
    Action,
    CommitMetadata,
    PartitionMetadata,
    State,
    WriteStat,
    encode_partition_metadata,
    partition_metadata_path,
)
from pudi.hooks.callbacks import announce
from pudi.hooks.validators import ValidatedStateChangedError, Validation, validate
from pudi.indexes.indexed_commit import IndexedCommit, IndexStaging, RemovedFiles
from pudi.schema.internal import SchemaHistory
from pudi.storage import delete_for_good
from pudi.timeline import Instant, Timeline
from pudi.timeline.guards import taken_for_dead

if TYPE_CHECKING:
    from typing_extensions import Self

_VALIDATIONS = 3
"""Number of times that a commit is validated while other commits change the same partitions."""


def begin_report(meta: MetaClient, action: str) -> ActionReport:
    """Return the report of an action that begins now.

    Args:
        meta: the table.
        action: the action's name in the log, in progress reports and in metrics.
    """
    note_start(meta)
    clock = meta.context.clock
    return ActionReport(meta.storage.root, action, clock, clock.monotonic())


@dataclass(frozen=True, slots=True)
class Work:
    """The work of an action, done, and what its commit publishes.

    Attributes:
        written: what was done.
        history: the schemas by id that the action leaves, in a table with schema on read.
        staging: how indexes find out what changed; None where no file did.
        removed: the files that the action deleted; None for none.
        content: content of the completed file; None for `written`.
        passed: called under the lock when all conditions hold, right before the commit becomes visible.
        before: called right before the metadata table gets the action's deltacommit, without the lock, with a function
            that raises what the conditions raise now; it must not fail by itself.
    """

    written: CommitMetadata
    history: SchemaHistory | None = None
    staging: IndexStaging | None = None
    removed: RemovedFiles | None = None
    content: bytes | None = None
    passed: Callable[[Timeline], None] | None = None
    before: Callable[[Callable[[], None]], None] | None = None


class Transaction(ABC):
    """One instant from requested to completed, or nothing of it.

    Entering begins the instant and keeps it alive by a heartbeat. It stands open from then on: files that the action
    writes are invisible until `commit`, as long as that may take. Leaving without a commit, by an error or not,
    discards what was done.

    Attributes:
        meta: the table.
        action: the action.
        report: notes phases, and what fails beside the commit.
        snapshot: the table that the action was planned from.
        conditions: what must hold under the table's lock when the instant completes, in the order of the checks; the
            caller adds its own. A check changes nothing.
    """

    snapshot: TableSnapshot

    def __init__(self, meta: MetaClient, action: Action, report: ActionReport) -> None:
        """Describe a transaction; entering it begins it. Arguments as of `Transaction`."""
        self.meta = meta
        self.action = action
        self.report = report
        self.conditions: list[CommitCondition] = []
        self._instant: Instant | None = None
        self._completed: Instant | None = None
        self._marked: list[FileInfo] | None = None
        self._open = ExitStack()

    @property
    def instant(self) -> Instant:
        """The inflight instant, from entering on."""
        assert self._instant is not None, "the transaction hasn't begun"
        return self._instant

    def __enter__(self) -> Self:
        """Begin: create the instant, or take it over.

        Raises:
            ConflictError: another process is in the way.
            RefusedError: this machine's clock is too far from the storage's.
        """
        with ExitStack() as opening:
            self._instant = opening.enter_context(self.held())
            self._open = opening.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the heartbeat; without a commit discard the instant and its files."""
        self._open.__exit__(kind, error, trace)

    def commit(self, work: Work) -> Instant:
        """Complete the instant, whose files are written, on a table or on its metadata table.

        New folders become partitions, schemas are stored, validators run, the metadata table's services run before a
        write, indexes are prepared. Then, under the table's lock, the conditions are checked, and the metadata table's
        deltacommit and the instant complete. Markers are deleted and callbacks called after that; what fails then is
        only noted.

        Raises:
            ConflictError: another writer got in the way; the instant is pending still.
            ValidationError: a validator refused; likewise.
        """
        meta, instant = self.meta, self.instant
        if not meta.is_metadata:
            _add_partitions(meta, instant, work.written.stats)
        if work.history is not None:
            write_history(meta, instant.requested, work.history)
        done = self._completed = self._complete_validated(work)
        with self.report.after_commit(CLEAN_UP):
            Markers(meta.storage, instant.requested).delete(self._marked)
        if work.content is None:
            announce(meta, done, work.written, self.report)
        return done

    def _complete_validated(self, work: Work) -> Instant:
        """Validate and complete; validate again if another commit changed what the validators saw."""
        meta, instant = self.meta, self.instant
        commit = IndexedCommit(meta, instant, work.written, work.staging, work.removed, self._forget_marked)
        conditions = list(self.conditions)

        def check(now: Timeline) -> None:
            for condition in conditions:
                condition.check(now)

        def check_now() -> None:
            with meta.lock:
                now = meta.store.load()
                meta.store.refuse_taken(instant, now)
                check(now)

        def check_and_pass(now: Timeline) -> None:
            check(now)
            if work.passed is not None:
                work.passed(now)

        for attempt in count(1):
            validation = self._validate(work)
            conditions[len(self.conditions) :] = [] if validation is None else [validation]
            try:
                if work.before is not None:
                    work.before(check_now)
                return complete_with_metadata(commit, check_and_pass, self.snapshot.timeline, work.content)
            except ValidatedStateChangedError:
                if attempt == _VALIDATIONS:
                    raise
            except NotFoundError:  # of its own files, if another process took it for dead and rolled it back
                meta.store.refuse_taken(instant)
                raise
        raise AssertionError("the loop ends by a return or an error")

    def _forget_marked(self) -> None:
        """Have the files among the markers listed again before they are deleted."""
        self._marked = None

    def _validate(self, work: Work) -> Validation | None:
        """Run the validators that the options name; None where no file of the table changes by a write."""
        if work.staging is None or work.content is not None:
            return None
        return validate(self.meta, self.instant, self.action.comparable, work.written, work.staging.engine)

    @property
    def is_committed(self) -> bool:
        """Whether the instant has completed."""
        return self._completed is not None

    @abstractmethod
    def held(self) -> AbstractContextManager[Instant]:
        """Return a context that begins the instant, inflight, keeps it alive, and discards it unless it completes."""


class WriteTransaction(Transaction):
    """A new instant of a write. Without a commit the instant and its files go as if they had never been.

    Attributes:
        files: paths of the files that the write has written; the caller adds to them. They are deleted with the instant
            even if another process rolled it back and deleted their markers before they were there.
        stands: what must hold under the table's lock when the instant is requested; the caller sets it before entering.
    """

    def __init__(
        self,
        snapshot: TableSnapshot,
        action: Action,
        report: ActionReport,
        requested: bytes = b"",
        inflight: bytes | CommitMetadata = b"",
    ) -> None:
        """Describe a write; entering it creates its instant.

        Args:
            snapshot: the table, with the writer's options.
            action: see `Transaction`.
            report: likewise.
            requested: content of the requested file.
            inflight: content of the inflight file.
        """
        super().__init__(snapshot.meta, action, report)
        self.snapshot = snapshot
        self.files: list[str] = []
        self.stands: CommitCondition | None = None
        self._contents = (requested, inflight)

    def reconcile_markers(self, stats: Sequence[WriteStat]) -> None:
        """Delete the files of failed or duplicate task attempts (HoodieTable.reconcileAgainstMarkers).

        A writer that stood still for long may have been rolled back, markers and all, before it wrote its files. It
        marks them again then: whoever undoes the write finds them, also if this process dies first.

        Args:
            stats: the files that count.

        Raises:
            ConflictError: another writer rolled the instant back.
        """
        meta, instant = self.meta, self.instant
        markers = Markers(meta.storage, instant.requested)
        self._marked = markers.infos()
        named = set(markers.all_files(self._marked))
        written = {path for stat in stats for path in stat.paths}
        unmarked = written - named
        if unmarked and meta.store.load().find(instant.requested, instant.action) is None:
            markers.create_missing(unmarked)
            raise taken_for_dead(instant, meta.storage.root)
        delete_for_good(meta.storage, sorted(named - written))

    @contextmanager
    def held(self) -> Iterator[Instant]:
        """Yield the inflight instant with a heartbeat; discard it unless it completes."""
        meta, (requested, inflight) = self.meta, self._contents
        interval_ms = self.snapshot.options[WriteOptions.heartbeat_interval_ms]
        hearts: list[Heartbeat] = []
        instant: Instant | None = None

        def beat(requested: str) -> None:
            hearts.append(Heartbeat(meta.storage, requested, meta.context, interval_ms))
            hearts[-1].start()

        def undo(error: BaseException) -> None:
            if instant is not None:
                found = meta.store.load().find(instant.requested, instant.action)
                if found is None or found.state is not State.COMPLETED:  # None: another writer took this one for dead
                    abort(meta, instant, written=self.files)
            elif isinstance(error, (ConflictError, RefusedError)):  # there is no instant
                for heart in hearts:
                    heart.stop()

        with keep_alive(meta, hearts, undo, self.report), count_failures(meta, self.action):
            stands = None if self.stands is None else self.stands.check
            instant = meta.store.request(self.action, requested, on_requested=beat, check=stands)
            instant = meta.store.start(instant, inflight)
            try:
                yield instant
            except (NotFoundError, TableExistsError):
                found = meta.store.load().find(instant.requested, instant.action)
                if found is None or not found.is_completed:  # its files go with it when it's rolled back
                    meta.store.refuse_taken(instant)
                raise
            if not self.is_committed:
                abort(meta, instant, written=self.files)


def _add_partitions(meta: MetaClient, instant: Instant, stats: Sequence[WriteStat]) -> None:
    """Write the partition metadata file into each folder that may be new."""
    begun = [s for s in stats if s.prev_base_file is None and (s.num_inserts or s.log_version is None)]

    def add(file: tuple[str, bytes]) -> None:
        with suppress(TableExistsError):
            meta.storage.create(*file, durable=True)

    files = []
    for partition in sorted({s.partition_path or "" for s in begun}):
        depth = len(partition.split("/")) if partition else 0
        content = encode_partition_metadata(PartitionMetadata(instant.requested, depth), meta.context.clock.now_ms())
        files.append((partition_metadata_path(partition), content))
    meta.context.executor.map(add, files)
