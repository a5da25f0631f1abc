"""The timeline in storage: loading it, reading instants, and the transitions requested → inflight → completed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from posixpath import basename
from types import TracebackType
from typing import Any, TypeVar

from pudi.context import Context, Lock, OneProcessLock, RecentValues, Storage
from pudi.errors import (
    ConflictError,
    CorruptError,
    NotFoundError,
    PudiError,
    RefusedError,
    TableExistsError,
    UnavailableError,
)
from pudi.format import (
    WRITE_ACTIONS,
    Action,
    BaseFileName,
    CommitMetadata,
    Layout,
    MaxBytes,
    State,
    TimelineZone,
    decode_avro,
    decode_commit_metadata,
    decode_requested_replace_metadata,
    encode_commit_metadata,
    parse_data_file,
)
from pudi.format.instants import CLUSTER
from pudi.format.layout import TimelineRules, rules_of
from pudi.storage import delete_for_good
from pudi.timeline.archive import Archive, archive_logs, open_archive
from pudi.timeline.guards import ClockCheck, note_own, refuse_moved, refuse_moving, refuse_strangers, refuse_taken
from pudi.timeline.instant import Instant, InstantTimes
from pudi.timeline.timeline import ListedTimeline, Timeline

_Plan = TypeVar("_Plan")

MOST_STATS = 100_000
"""Upper bound of cached file statistics: 850 bytes each, plus texts that commits share."""


def _weight(metadata: CommitMetadata) -> int:
    """Statistics that a commit holds; its schema and the like count as one."""
    return 1 + sum(map(len, metadata.partition_to_write_stats.values()))


def written_files(content: bytes | CommitMetadata) -> list[str]:
    """Paths of the files that a commit says it wrote.

    Other actions name none here: few as they write, they make it safe as they do.

    Args:
        content: what the completed instant's file is going to say.
    """
    if not isinstance(content, CommitMetadata):
        return []
    return list(dict.fromkeys(path for stat in content.stats for path in stat.paths))


_log = logging.getLogger(__name__)

_SMALL = 64 << 10
"""Bytes of commit metadata that the process that wrote it keeps, so that it needn't read them."""


@dataclass(frozen=True, slots=True)
class TimelineStore:
    """Reads and moves the instants of one table (spec 'Timeline').

    Every transition creates one file that must not be there; times are made, and completed files created, under the
    table's lock after a fresh listing, so requested and completion times increase strictly (TrueTime).

    In layout 1 files are named without completion times, commit metadata is JSON, and a clustering is pending under the
    name of a replacecommit.

    Args:
        storage: the table's files.
        folder: the timeline's folder, relative to the table's root.
        history: the folder of the archived history, relative to the table's root.
        timezone_name: `UTC` or `LOCAL`, the zone that instants are written in.
        context: the clock.
        lock: the table's lock.
        layout: layout of the timeline.
        clock_tolerance_ms: how far this machine's clock may be from the storage's when an instant is made,
            milliseconds; 0 for any difference.
        times: makes the times of instants.
        assumed: commit metadata by the file name of its completed instant: instants that are read as if they had
            completed (a commit that is validated first).
    """

    storage: Storage
    folder: str
    history: str
    timezone_name: TimelineZone
    context: Context
    lock: Lock
    layout: Layout = 2
    clock_tolerance_ms: int = 0
    times: InstantTimes = field(default_factory=InstantTimes)
    assumed: Mapping[str, CommitMetadata] = field(default_factory=dict, repr=False)
    _contents: RecentValues[str, CommitMetadata] = field(
        default_factory=lambda: RecentValues(MOST_STATS), repr=False, compare=False
    )
    _listed: ListedTimeline = field(default_factory=ListedTimeline, repr=False, compare=False)
    _archive: Archive = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_archive", open_archive(self.storage, self.history, self.layout))

    @property
    def rules(self) -> TimelineRules:
        """Rules of the timeline's layout."""
        return rules_of(self.layout)

    def load(self) -> Timeline:
        """The active timeline now: one listing; nothing of the archive is read.

        Raises:
            ConflictError: the table was upgraded or downgraded since it was opened, and its timeline is elsewhere.
        """
        timeline = self._listed.list(self.storage, self.folder, self.layout)
        if timeline.is_moving:
            refuse_moved(self.storage, self.layout)
        if self.layout == 2 or not timeline.pending_of(Action.REPLACECOMMIT):
            return timeline
        return replace(timeline, instants=tuple(self._classified(instant) for instant in timeline.instants))

    def has_history(self) -> bool:
        """Whether instants were archived: a file older than the active timeline may then be a committed one."""
        if self.layout == 2 or self.history != self.folder:
            files, _ = self.storage.list_dir(self.history)
            if files or self.layout == 2:
                return bool(files)
        return any(archive_logs(self.storage, self.folder))

    def had_history(self, timeline: Timeline) -> bool:
        """Whether instants were archived when a timeline was listed; the listing tells where it shows no folder."""
        below = self.history.removeprefix(f"{self.folder}/")
        if timeline.folders is not None and below != self.history and below.split("/")[0] not in timeline.folders:
            return False
        return self.has_history()

    def archived(self, since: str | None = None) -> tuple[Instant, ...]:
        """Completed instants in the archive that were requested at `since` or later, oldest first; None for all.

        Raises:
            CorruptError: the archive can't be read.
        """
        return self._archive.instants(since)

    def read(self, instant: Instant, state: State | None = None) -> bytes:
        """Content of an instant's timeline file, by default that of its own state.

        Raises:
            NotFoundError: the file is gone, as after archiving or a rollback.
        """
        return self.storage.read(self.path(instant, state), MaxBytes.INSTANT)

    def read_plan(self, instant: Instant, decode: Callable[..., _Plan]) -> _Plan:
        """Return the plan in an instant's requested file.

        Args:
            instant: the instant, in any state.
            decode: makes a plan of the file's content; takes the file's `path`, for errors.

        Raises:
            CorruptError: the plan can't be read.
            NotFoundError: the file is gone, as after archiving or a rollback.
        """
        return decode(self.read(instant, State.REQUESTED), path=self.path(instant, State.REQUESTED))

    def read_commit_metadata(self, instant: Instant) -> CommitMetadata:
        """Return the metadata of a completed commit, deltacommit or replacecommit.

        It never changes. What was read last is kept, up to a bound: a `Table` may live for months.

        Raises:
            CorruptError: the bytes are not commit metadata, or there are none.
        """
        name = instant.file_name()
        known = self.assumed.get(name) or self._contents.get(name)
        return known or self._keep(name, self._read_commit_metadata(instant))

    def kept(self, name: str, find: Callable[[], CommitMetadata | None]) -> CommitMetadata | None:
        """Return what the archive says under a name that no instant has; searched for once and then kept."""
        known = self._contents.get(name)
        found = find() if known is None else known
        return None if found is None else self._keep(name, found)

    def _keep(self, name: str, metadata: CommitMetadata) -> CommitMetadata:
        self._contents.keep(name, metadata, _weight(metadata))
        return metadata

    def has_read(self, instant: Instant) -> bool:
        """Return whether a completed commit's metadata is known without a call of the storage."""
        return self._contents.get(instant.file_name()) is not None

    def decoded(self, instant: Instant, state: State | None = None) -> dict[str, Any]:
        """Content of an instant's timeline file as plain values, for the kinds that pudi only reads.

        Raises:
            CorruptError: the bytes are no Avro file.
            NotFoundError: the file is gone.
        """
        if instant.archived:
            return self._archive.decoded(instant)
        try:
            return decode_avro(self.read(instant, state), path=self.path(instant, state))
        except NotFoundError:
            if state is not None or not instant.is_completed:
                raise
            return self._archive.decoded(self._archived_since(instant))

    def _read_commit_metadata(self, instant: Instant) -> CommitMetadata:
        if instant.archived:
            return self._archive.read_commit_metadata(instant)
        path = self.path(instant)
        try:
            data = self.storage.read(path, MaxBytes.INSTANT)
        except NotFoundError:
            return self._archive.read_commit_metadata(self._archived_since(instant))
        if not data and instant.is_completed:
            raise CorruptError(
                "the file of a completed instant is empty, so what it wrote and replaced is unknown; restore the file "
                "from a copy",
                table=self.storage.root,
                path=path,
                instant=instant.requested,
            )
        found = decode_commit_metadata(data, path=path)
        self._check_own(instant, found, path)
        return found

    def _check_own(self, instant: Instant, found: CommitMetadata, path: str) -> None:
        """Refuse what another instant did: base files bear the requested time of the instant that wrote them."""
        for stat in found.stats[:1]:
            name = parse_data_file(basename(stat.path or ""))
            if isinstance(name, BaseFileName) and name.instant != instant.requested:
                raise CorruptError(
                    f"the file of a completed instant says what instant {name.instant} wrote; restore it from a copy",
                    table=self.storage.root,
                    path=path,
                    instant=instant.requested,
                )

    def _archived_since(self, instant: Instant) -> Instant:
        """Return the archived form of an instant whose file is gone; raise if the archive has none."""
        for moved in self.archived(instant.requested):
            if (moved.requested, moved.action) == (instant.requested, instant.action):
                return moved
        raise NotFoundError(
            f"the {instant.action.value} of {instant.requested} is gone from the timeline, and isn't in the archive: "
            "it was rolled back or removed meanwhile; read the table again",
            table=self.storage.root,
            instant=instant.requested,
            path=self.path(instant),
        )

    def _classified(self, instant: Instant) -> Instant:
        """Classify a pending replacecommit of layout 1: its plan says whether it is a clustering."""
        if instant.action is not Action.REPLACECOMMIT or instant.is_completed:
            return instant
        try:
            is_clustering = self.is_clustering(instant)
        except CorruptError:  # a possible clustering is never treated as a dead write
            is_clustering = True
        return replace(instant, action=Action.CLUSTERING) if is_clustering else instant

    def is_clustering(self, instant: Instant) -> bool:
        """Return whether a replacecommit of layout 1 is a clustering by its plan; False if the plan no longer exists.

        Raises:
            CorruptError: the plan can't be read.
        """
        try:
            plan = self.read_plan(instant, decode_requested_replace_metadata)
        except NotFoundError:  # rolled back since the listing
            return False
        return plan.operation_type == CLUSTER or plan.clustering_plan is not None

    def _content(self, action: Action, content: bytes | CommitMetadata) -> bytes:
        if isinstance(content, CommitMetadata):
            return encode_commit_metadata(content, self.layout)
        if content and self.layout == 1 and action in WRITE_ACTIONS:
            raise TypeError("what a write did is given as CommitMetadata: its bytes depend on the timeline's layout")
        return content

    def request(
        self,
        action: Action,
        content: bytes = b"",
        on_requested: Callable[[str], None] | None = None,
        *,
        at: str | None = None,
        seen: Timeline | None = None,
        durable: bool = True,
        check: Callable[[Timeline], None] | None = None,
    ) -> Instant:
        """Put a new instant on the timeline in state REQUESTED.

        Args:
            action: the action to request.
            content: the plan, where the action has one.
            on_requested: called with the new requested time before its file is created (heartbeats).
            at: the requested time, where another timeline or a rule says it; None makes one.
            seen: the timeline that a plan in `content` was made from, listed under the lock that is still held; None
                where there's none to go wrong.
            durable: whether to flush it; `start` with content flushes it too.
            check: called, where the time is made here, with the timeline listed under the lock, before anything of the
                instant is there; raises to refuse.

        Raises:
            ConflictError: another process wrote meanwhile (see `refuse_strangers`); the instant is off the timeline.
            RefusedError: the time is made here, and this machine's clock is too far from the storage's; likewise.
            BlockedError: the time is made here, and an upgrade or downgrade of the table is pending.
        """
        with self.lock:
            requested = at or self._next_time(seen or self.load(), check)
            if on_requested is not None:
                on_requested(requested)
            instant = Instant(requested, action, State.REQUESTED, layout=self.layout)
            self.lock.verify()
            note_own(self.lock, instant)
            clocks = ClockCheck(self.storage, self.context, 0 if at else self.clock_tolerance_ms)
            self.storage.create(self.path(instant), content, durable=durable)  # nothing refers to it
            try:
                clocks.compare(self.path(instant))
                if seen is not None:
                    self.refuse_strangers(instant, seen)
            except (ConflictError, RefusedError):
                self.discard(instant)
                raise
        return instant

    def _next_time(self, timeline: Timeline, check: Callable[[Timeline], None] | None) -> str:
        refuse_moving(timeline, self.storage.root)
        if check is not None:
            check(timeline)
        return self.times.next(self.context.clock, timeline.newest_time, self.timezone_name)

    def start(self, instant: Instant, content: bytes | CommitMetadata = b"", *, shared: bool = False) -> Instant:
        """Move a requested instant to INFLIGHT.

        `shared`: any process may go on with it, so the file may be there, by one that lost the lock and will notice.
        """
        inflight = replace(instant, state=State.INFLIGHT)
        data = self._content(instant.action, content)
        with suppress(TableExistsError) if shared else nullcontext():  # without content requested says the same
            self.storage.create(self.path(inflight), data, durable=bool(data))
        return inflight

    def refuse_taken(self, instant: Instant, now: Timeline | None = None) -> None:
        """Refuse, under the table's lock, to go on with an instant that another process rolled back or completed."""
        refuse_taken(self.storage, self.folder, self.load() if now is None else now, instant)

    def complete(
        self,
        instant: Instant,
        content: bytes | CommitMetadata,
        check: Callable[[Timeline], None] | None = None,
        *,
        listed: Timeline | None = None,
        also: Sequence[str] | None = None,
    ) -> Instant:
        """Move an inflight instant to COMPLETED: the one step that makes its effects visible.

        Everything the commit refers to is durable before the completed file appears; that file is durable on return.

        Args:
            instant: the inflight instant.
            content: the completed file's content; of a write what it did, which the layout says how to encode.
            check: called with the timeline listed under the lock; raises to refuse (conflict resolution).
            listed: the timeline, the inflight instant on it, where the lock has been held since it was listed; None
                lists it now.
            also: paths of files that it relies on and that `content` doesn't name, or of folders full of them; None for
                the inflight file, which was flushed when it was created only if it has content.

        Raises:
            ConflictError: another process rolled the instant back or began to.
        """
        also = (self.path(instant, State.INFLIGHT),) if also is None else also
        self.storage.sync([*written_files(content), *also])
        with self.lock:
            timeline = self.load() if listed is None else listed
            refuse_taken(self.storage, self.folder, timeline, instant)
            if check is not None:
                check(timeline)
            completion = None
            if self.layout == 2:
                completion = self.times.next(self.context.clock, timeline.newest_time, self.timezone_name)
            done = Instant(instant.requested, instant.action.comparable, State.COMPLETED, completion, self.layout)
            data = self._content(done.action, content)
            # the next write asks for it; in layout 1 a plan that is run again completes under the same name
            keeps = isinstance(content, CommitMetadata) and len(data) <= _SMALL and self.layout == 2
            known = decode_commit_metadata(data, path=self.path(done)) if keeps else None
            self.lock.verify()
            self._create(self.path(done), data)
        if known is not None:
            self._keep(done.file_name(), known)
        return done

    def _create(self, path: str, content: bytes) -> None:
        """Create a completed instant's file; one that's there although the store gave no answer is created."""
        try:
            self.storage.create(path, content, durable=True)
        except UnavailableError:
            if not self._holds(path, content):
                raise
            try:
                self.storage.sync([path])
            except PudiError as error:  # the commit is visible: reporting a failure would make the caller commit twice
                _log.error("%s is completed, and may be lost with the power: %s", path, error)

    def _holds(self, path: str, content: bytes) -> bool:
        try:
            return self.storage.read(path) == content
        except PudiError:
            return False

    def refuse_strangers(self, own: Instant | None, seen: Timeline, now: Timeline | None = None) -> None:
        """Under a lock that doesn't keep other processes out, raise where one did something meanwhile.

        Args:
            own: the action's instant; None where it has none.
            seen: the timeline that the action was planned from.
            now: the timeline now; None loads it.

        Raises:
            ConflictError: another process did.
        """
        if isinstance(self.lock, OneProcessLock):
            refuse_strangers(self.lock, own, seen, self.load() if now is None else now, self.storage.root)

    def discard(self, instant: Instant) -> None:
        """Take a pending instant off the timeline, its inflight file first, so that no state is ever skipped."""
        for state in (State.INFLIGHT, State.REQUESTED):
            self.lock.verify()
            delete_for_good(self.storage, [self.path(instant, state)])

    def path(self, instant: Instant, state: State | None = None) -> str:
        """Path of an instant's timeline file, by default that of its own state."""
        return f"{self.folder}/{instant.file_name(state)}"


class _NoLock:
    """The lock of a timeline that is only read."""

    def __enter__(self) -> _NoLock:
        raise AssertionError("tasks change no timeline")

    def verify(self) -> None:
        """Never asked for."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return


@dataclass(frozen=True, slots=True)
class TimelinePlace:
    """Location of a table's timeline; picklable.

    Attributes:
        folder: its folder, relative to the table's root.
        history: the folder of the archived history.
        timezone: the zone of instants.
        layout: the timeline's layout.
    """

    folder: str
    history: str
    timezone: TimelineZone
    layout: Layout

    @classmethod
    def of(cls, store: TimelineStore) -> TimelinePlace:
        """Return where a timeline is."""
        return cls(store.folder, store.history, store.timezone_name, store.layout)

    def open(self, storage: Storage) -> TimelineStore:
        """Return the timeline of a table's files, for reading."""
        return TimelineStore(storage, self.folder, self.history, self.timezone, Context(), _NoLock(), self.layout)
