"""Who runs a pending table service: a claim by heartbeat, taken under the table's lock.

A plan never changes, so that a run that died leaves nothing but files to delete: its instant goes back to requested,
and whoever comes runs the plan again (BaseHoodieTableServiceClient.compact).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from pudi.action.after import CLEAN_UP, behind_commit
from pudi.action.mdt.commit_hook import discard_metadata
from pudi.action.meta_client import MetaClient
from pudi.concurrency import Heartbeat, Liveness, liveness
from pudi.config import WriteOptions
from pudi.errors import ConflictError, NotFoundError, PudiError
from pudi.filegroup import Markers, unmarked_files
from pudi.format import State, heartbeat_path, parse_data_file, write_token
from pudi.storage import delete_for_good
from pudi.timeline import Instant

_RUNS = 1 << 30
"""How many runs of one plan write tokens tell apart; two of them at once is what may happen."""


@dataclass(slots=True)
class Claim:
    """A run of a pending service by this process.

    Attributes:
        meta: the table.
        instant: the service's instant, inflight.
        run: a number that the write tokens of all files of this run hold.
        written: paths of files that are known to be of this run.
        failed: what failed behind the completed instant, by service.
    """

    meta: MetaClient
    instant: Instant
    run: int
    written: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    def check_files(self) -> None:
        """Under the lock, just before completion: nobody took this run for dead and deleted its files.

        Raises:
            ConflictError: somebody did.
        """
        markers = set(Markers(self.meta.storage, self.instant.requested).all_files())
        if not markers.issuperset(self.written):
            raise ConflictError(
                "another process took this run for dead and runs the plan itself; nothing of this run is visible",
                table=self.meta.storage.root,
                instant=self.instant.requested,
            )

    def keep(self, written: Sequence[str]) -> None:
        """Note which files the run has made, and delete those of attempts that did not count; other runs' stay."""
        self.written[:] = written
        delete_for_good(self.meta.storage, sorted(set(self.own_files()) - set(written)))

    def own_files(self) -> list[str]:
        """The files that this run may have made; not those of another one of the same plan."""
        named = Markers(self.meta.storage, self.instant.requested).all_files()
        return sorted({*self.written, *(path for path in named if _run_of(path) == self.run)})


def is_claimable(meta: MetaClient, instant: Instant, options: WriteOptions) -> bool:
    """Whether nobody is at work on a pending service, as far as can be told.

    Args:
        meta: the table.
        instant: the service's instant.
        options: the failed-writes policy and the heartbeat's limits.
    """
    last_seen = 0
    if instant.state is State.INFLIGHT:
        times = [info.modified_ms for info in Markers(meta.storage, instant.requested).infos()]
        with contextlib.suppress(NotFoundError):
            times.append(meta.store.modified_ms(instant))
        last_seen = max(times, default=0)
    found = liveness(
        meta.storage,
        instant.requested,
        meta.context,
        expires_after_ms=options.heartbeat_expiry_ms,
        last_seen_ms=last_seen,
    )
    if found is Liveness.UNKNOWN:  # inflight, by a writer that gives no heartbeat, as Hudi's single writers
        return options.failed_writes_policy == "EAGER"
    return found is Liveness.DEAD


@contextmanager
def claimed(meta: MetaClient, instant: Instant, options: WriteOptions) -> Iterator[Claim]:
    """Run a pending service: inflight, with a heartbeat; on an error it's requested again, and the run's files go.

    Args:
        meta: the table.
        instant: the service's instant, pending.
        options: as for `is_claimable`.

    Raises:
        ConflictError: somebody else runs it, has run it or taken it off the timeline.
    """
    heart = Heartbeat(meta.storage, instant.requested, meta.context, options.heartbeat_interval_ms)
    claim: Claim | None = None
    try:
        with meta.lock:
            current = _free(meta, instant, options)
            heart.start()
            number = int(meta.context.new_id().replace("-", "")[:12], 16) % _RUNS
            claim = Claim(meta, meta.store.start(current), number)
        yield claim
    except BaseException as error:
        heart.stop(delete=False)  # what a failing clean-up leaves behind, the next one must find dead
        if isinstance(error, (Exception, KeyboardInterrupt, SystemExit)) and claim is not None:
            _undo(claim)
        raise
    with behind_commit(CLEAN_UP, meta.storage.root):
        heart.stop(delete=CLEAN_UP not in claim.failed)  # by it the next one finds markers that are still there


def _free(meta: MetaClient, instant: Instant, options: WriteOptions) -> Instant:
    """The instant as it is now, requested, when nobody else is at work on it."""
    current = meta.store.load().find(instant.requested, instant.action)
    if current is None or not is_claimable(meta, current, options):
        raise ConflictError(
            f"another process runs the {instant.action.value}, or has run it",
            table=meta.storage.root,
            instant=instant.requested,
        )
    if current.state is State.INFLIGHT:
        current = revert_to_requested(meta, current)
    delete_for_good(meta.storage, unmarked_files(meta.storage, current.requested, meta.store.layout))
    return current


def revert_to_requested(meta: MetaClient, instant: Instant) -> Instant:
    """Undo a run that died, under the table's lock: its files go, and its instant is requested again.

    Raises:
        CorruptError: its markers can't be read; nothing was deleted.
    """
    with meta.lock:
        markers = Markers(meta.storage, instant.requested)
        files = markers.files()
        delete_for_good(meta.storage, files)
        discard_metadata(meta, instant.requested)
        delete_for_good(meta.storage, [meta.store.path(instant, State.INFLIGHT)])
        markers.delete()
        meta.storage.delete([heartbeat_path(instant.requested)])
    return Instant(instant.requested, instant.action, State.REQUESTED, layout=instant.layout)


def _undo(claim: Claim) -> None:
    meta, instant = claim.meta, claim.instant
    try:
        with meta.lock:
            timeline = meta.store.load()
            done = timeline.commit(instant.requested)
            own = set(claim.own_files())
            if done is not None:  # by this run, whose answer was lost, or by another one of the same plan
                stats = meta.store.read_commit_metadata(done).partition_to_write_stats.values()
                own -= {stat.path or "" for group in stats for stat in group}
            delete_for_good(meta.storage, sorted(own))
            found = timeline.find(instant.requested, instant.action)
            others = set(Markers(meta.storage, instant.requested).all_files()) - own
            if done is None and not others and found is not None and found.state is State.INFLIGHT:
                revert_to_requested(meta, found)
    except PudiError:
        return  # the first error is the one to tell; the next one that comes finds this run dead


def _run_of(path: str) -> int | None:
    """The run that the write token in a file's name holds."""
    parsed = parse_data_file(path.rpartition("/")[2])
    token = None if parsed is None else parsed.write_token
    parts = (token or "").split("-")
    return int(parts[1]) if len(parts) == len(write_token(0, 0, 0).split("-")) and parts[1].isdigit() else None
