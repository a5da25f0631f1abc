"""The frame of actions that run beside other writers: requested, inflight, work, check under the lock, completed.

`pending` creates the instant, keeps it alive during the work, and discards it if the work fails. `complete_action` does
everything after the work. A table service takes its instant by `services.lease` instead of `pending`. Rollbacks,
restores, savepoints and index builds complete by themselves: see decision 31.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count

from pudi.client.after_commit import CLEAN_UP, after_commit
from pudi.client.meta_client import MetaClient
from pudi.client.schema_history import write_history
from pudi.commit.commit_hook import complete_with_metadata
from pudi.commit.commit_steps import add_partitions
from pudi.commit.conditions import CommitCondition
from pudi.commit.heartbeats import keep_alive
from pudi.commit.rollback import abort
from pudi.concurrency import Heartbeat
from pudi.config import WriteOptions
from pudi.errors import ConflictError, NotFoundError, RefusedError, TableExistsError
from pudi.filegroup import Markers
from pudi.format import Action, CommitMetadata, State
from pudi.hooks.callbacks import announce
from pudi.hooks.measure import count_failures
from pudi.hooks.validators import ValidatedStateChangedError, Validation, validate
from pudi.indexes.kind import IndexedCommit, IndexStaging, RemovedFiles
from pudi.schema.internal import SchemaHistory
from pudi.timeline import Instant, Timeline

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
