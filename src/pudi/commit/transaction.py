"""One instant beside other writers: requested, inflight, work in phases, check under the lock, completed.

`pending` creates the instant, keeps it alive during the work, and discards it if the work fails. `complete_action` does
everything after the work. A table service takes its instant by `commit.lease` instead of `pending`. Rollbacks,
restores, savepoints and index builds complete by themselves: see decision 31.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count

from pudi.client.meta_client import MetaClient
from pudi.client.result import CLEAN_UP, CommitResult, after_commit
from pudi.client.schema_commit import INTERNAL_SCHEMA_KEY, SCHEMA_KEY
from pudi.client.schema_history import write_history
from pudi.commit.commit_hook import complete_with_metadata
from pudi.commit.conditions import CommitCondition
from pudi.commit.heartbeats import keep_alive
from pudi.commit.rollback import abort
from pudi.concurrency import Heartbeat
from pudi.config import WriteOptions
from pudi.context import Clock
from pudi.context.progress import phase
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
from pudi.hooks.measure import count_failures, note_start
from pudi.hooks.validators import ValidatedStateChangedError, Validation, validate
from pudi.indexes.kind import IndexedCommit, IndexStaging, RemovedFiles
from pudi.plan import Operation
from pudi.schema.internal import SchemaHistory
from pudi.storage import delete_for_good
from pudi.timeline import Instant, Timeline
from pudi.timeline.guards import taken_for_dead

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Phases:
    """The seconds that each phase of an action takes; a phase may come more than once.

    Attributes:
        table: the table's root.
        action: the action's name in the log and in progress reports.
        clock: the table's clock.
        began: when the action began, on that clock.
        seconds: by phase.
    """

    table: str
    action: str
    clock: Clock
    began: float
    seconds: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, meta: MetaClient, action: str) -> Phases:
        """Return the phases of an action that begins now."""
        clock = meta.context.clock
        note_start(meta)
        return cls(meta.storage.root, action, clock, clock.monotonic())

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time a block as a phase, and report it."""
        began = self.clock.monotonic()
        with phase(self.table, self.action, name):
            yield
        seconds = self.clock.monotonic() - began
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds
        _log.info("table %s: %s: %s took %.2f s", self.table, self.action, name, seconds)

    def result(self, done: Instant, written: CommitMetadata, removed: RemovedFiles | None = None) -> CommitResult:
        """Return the result of the completed action, and log it."""
        deleted = 0 if removed is None else sum(map(len, removed.files.values()))
        result = CommitResult.of(done, written, self.clock.monotonic() - self.began, self.seconds, deleted)
        _log.info("table %s: %s", self.table, result)
        return result


def reconcile_markers(meta: MetaClient, instant: Instant, stats: Sequence[WriteStat]) -> None:
    """Delete the files of failed or duplicate task attempts (HoodieTable.reconcileAgainstMarkers).

    A writer that stood still for long may have been rolled back, markers and all, before it wrote its files. It
    marks them again then: whoever undoes the write finds them, also if this process dies first.

    Raises:
        ConflictError: another writer rolled the instant back.
    """
    markers = Markers(meta.storage, instant.requested)
    named = [*markers.files(), *markers.appended()]
    written = {path for stat in stats for path in stat.paths}
    unmarked = written - set(named)
    if unmarked and meta.store.load().find(instant.requested, instant.action) is None:
        markers.create_missing(unmarked)
        raise taken_for_dead(instant, meta.storage.root)
    delete_for_good(meta.storage, sorted(set(named) - written))


def add_partitions(meta: MetaClient, instant: Instant, stats: Sequence[WriteStat]) -> None:
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


def build_commit_metadata(
    operation: Operation,
    stats: Sequence[WriteStat],
    schema_json: str,
    history: SchemaHistory | None,
    replaced: Mapping[str, tuple[str, ...]] | None,
    extra: Mapping[str, str],
) -> CommitMetadata:
    """Return the commit metadata of a write.

    Args:
        operation: what was done.
        stats: the files that were written.
        schema_json: the table's schema as Avro.
        history: the schemas by id, in a table with schema on read.
        replaced: ids of the replaced file groups, by partition path.
        extra: extra metadata, by key.
    """
    by_partition: dict[str, list[WriteStat]] = {}
    for stat in stats:
        by_partition.setdefault(stat.partition_path or "", []).append(stat)
    by_id = {} if history is None else {INTERNAL_SCHEMA_KEY: history.current.to_json()}
    return CommitMetadata(
        partition_to_write_stats={p: tuple(group) for p, group in by_partition.items()},
        extra_metadata={**extra, SCHEMA_KEY: schema_json, **by_id},
        operation_type=operation.value,
        partition_to_replace_file_ids=replaced,
    )


_VALIDATIONS = 3
"""Number of times that a commit is validated while other commits change the same partitions."""


@dataclass(frozen=True, slots=True)
class Completion:
    """The work of an action, done, and what completes it.

    Attributes:
        written: what was done.
        conditions: what must hold under the table's lock, in the order of the checks; a check changes nothing.
        seen: the timeline that the action was planned from.
        history: the schemas by id that the action leaves, in a table with schema on read.
        staging: how indexes find out what changed; None where no file did.
        action: the completed action, where it differs from the pending one.
        removed: the files that the action deleted; None for none.
        content: content of the completed file; None for `written`.
        passed: called under the lock when all conditions hold, right before the commit becomes visible.
        before: called right before the metadata table gets the action's deltacommit, without the lock, with a function
            that raises what the conditions raise now; it must not fail by itself.
    """

    written: CommitMetadata
    conditions: Sequence[CommitCondition]
    seen: Timeline
    history: SchemaHistory | None = None
    staging: IndexStaging | None = None
    action: Action | None = None
    removed: RemovedFiles | None = None
    content: bytes | None = None
    passed: Callable[[Timeline], None] | None = None
    before: Callable[[Callable[[], None]], None] | None = None


def complete_action(
    meta: MetaClient, instant: Instant, done: Completion, failed: dict[str, str] | None = None
) -> Instant:
    """Complete an inflight instant whose files are written, on a table or on its metadata table.

    New folders become partitions, schemas are stored, validators run, the metadata table's services run before a write,
    indexes are prepared. Then, under the table's lock, the action is checked, and the metadata table's deltacommit and
    the instant complete. Markers are deleted and callbacks called after that; what fails then is only noted.

    Args:
        meta: the table.
        instant: the inflight instant.
        done: the work.
        failed: where it's noted that the clean-up or a callback failed.

    Raises:
        ConflictError: another writer got in the way; the instant is pending still.
        ValidationError: a validator refused; likewise.
    """
    if not meta.is_metadata:
        add_partitions(meta, instant, [s for group in done.written.partition_to_write_stats.values() for s in group])
    if done.history is not None:
        write_history(meta, instant.requested, done.history)
    commit = IndexedCommit(meta, instant, done.written, done.staging, done.removed)
    completed = _complete_validated(commit, done)
    with after_commit(CLEAN_UP, meta.storage.root, failed):
        Markers(meta.storage, instant.requested).delete()
    if done.content is None:
        announce(meta, completed, done.written, failed)
    return completed


def _complete_validated(commit: IndexedCommit, done: Completion) -> Instant:
    """Validate a commit and complete it; validate it again if another commit changed what the validators saw."""
    meta, instant = commit.meta, commit.instant
    validation: Validation | None = None

    def check(now: Timeline) -> None:
        for condition in (*done.conditions, *([] if validation is None else [validation])):
            condition.check(now)

    def check_now() -> None:
        with meta.lock:
            now = meta.store.load()
            meta.store.refuse_taken(instant, now)
            check(now)

    def check_and_pass(now: Timeline) -> None:
        check(now)
        if done.passed is not None:
            done.passed(now)

    for attempt in count(1):
        if done.staging is not None and done.content is None:
            validation = validate(meta, instant, done.action or instant.action, done.written, done.staging.engine)
        try:
            if done.before is not None:
                done.before(check_now)
            return complete_with_metadata(commit, check_and_pass, done.seen, done.action, done.content)
        except ValidatedStateChangedError:
            if attempt == _VALIDATIONS:
                raise
        except NotFoundError:  # of its own files, if another process took it for dead and rolled it back
            meta.store.refuse_taken(instant)
            raise
    raise AssertionError("the loop ends by a return or an error")


@contextmanager
def pending(
    meta: MetaClient,
    action: Action,
    options: WriteOptions,
    requested: bytes = b"",
    inflight: bytes | CommitMetadata = b"",
    failed: dict[str, str] | None = None,
    written: Sequence[str] = (),
) -> Iterator[Instant]:
    """Yield an inflight instant with a heartbeat. On an error it is discarded, unless it completed.

    Args:
        meta: the table.
        action: the action.
        options: the writer's.
        requested: content of the requested file.
        inflight: content of the inflight file.
        failed: where it's noted what failed behind a completed commit; markers that couldn't be deleted are left to the
            next writer, which finds them by the heartbeat.
        written: paths of the files that the action has written; it may add to them while it runs. They are deleted even
            if another process rolled the action back and deleted their markers before they were there.
    """
    hearts: list[Heartbeat] = []

    def beat(requested: str) -> None:
        hearts.append(Heartbeat(meta.storage, requested, meta.context, options.heartbeat_interval_ms))
        hearts[-1].start()

    instant: Instant | None = None

    def undo(error: BaseException) -> None:
        if instant is not None:
            found = meta.store.load().find(instant.requested, instant.action)
            if found is None or found.state is not State.COMPLETED:  # None: another writer took this one for dead
                abort(meta, instant, written=written)
        elif isinstance(error, (ConflictError, RefusedError)):  # there is no instant
            for heart in hearts:
                heart.stop()

    with keep_alive(meta, hearts, undo, failed), count_failures(meta, action):
        instant = meta.store.request(action, requested, on_requested=beat)
        instant = meta.store.start(instant, inflight)
        try:
            yield instant
        except (NotFoundError, TableExistsError):
            found = meta.store.load().find(instant.requested, instant.action)
            if found is None or not found.is_completed:  # its files go with it when it's rolled back
                meta.store.refuse_taken(instant)
            raise
