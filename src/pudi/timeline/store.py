"""The timeline in storage: loading it, reading instants, and the transitions requested → inflight → completed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from pudi.context import Context, Lock, Storage
from pudi.errors import ConflictError
from pudi.format import Action, CommitMetadata, State, TimelineZone, decode_avro, decode_commit_metadata
from pudi.timeline.instant import Instant, next_instant
from pudi.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class TimelineStore:
    """Reads and moves the instants of one table (timeline layout 2, spec 'Timeline').

    Every transition creates one file that must not be there; times are made, and completed files created, under the
    table's lock after a fresh listing, so requested and completion times increase strictly (TrueTime).

    Args:
        storage: the table's files.
        folder: the timeline's folder, relative to the table's root.
        history: the folder of the archived history, relative to the table's root.
        timezone_name: `UTC` or `LOCAL`, the zone that instants are written in.
        context: the clock.
        lock: the table's lock.
    """

    storage: Storage
    folder: str
    history: str
    timezone_name: TimelineZone
    context: Context
    lock: Lock
    _contents: dict[str, CommitMetadata] = field(default_factory=dict, repr=False)

    def load(self) -> Timeline:
        """The active timeline now: one listing."""
        files, _ = self.storage.list_dir(self.folder)
        return Timeline.from_names(info.path.rpartition("/")[2] for info in files)

    def has_history(self) -> bool:
        """Whether instants were archived: a file older than the active timeline may then be a committed one."""
        files, _ = self.storage.list_dir(self.history)
        return bool(files)

    def read(self, instant: Instant, state: State | None = None) -> bytes:
        """Content of an instant's timeline file, by default that of its own state.

        Raises:
            NotFoundError: the file is gone, as after archiving or a rollback.
        """
        return self.storage.read(self.path(instant, state))

    def commit_metadata(self, instant: Instant) -> CommitMetadata:
        """What a completed commit, deltacommit or replacecommit says of itself; kept, since it never changes.

        Raises:
            CorruptError: the bytes are not commit metadata.
        """
        name = instant.file_name()
        if name not in self._contents:
            path = self.path(instant)
            content = self.storage.read(path)
            self._contents[name] = decode_commit_metadata(content, path=path)
        return self._contents[name]

    def decoded(self, instant: Instant, state: State | None = None) -> dict[str, Any]:
        """Content of an instant's timeline file as plain values, for the kinds that pudi only reads.

        Raises:
            CorruptError: the bytes are no Avro file.
        """
        return decode_avro(self.read(instant, state), path=self.path(instant, state))

    def request(
        self, action: Action, content: bytes = b"", on_requested: Callable[[str], None] | None = None
    ) -> Instant:
        """Put a new instant on the timeline in state REQUESTED.

        Args:
            action: what is going to be done.
            content: the plan, where the action has one.
            on_requested: called with the new requested time before its file is created (heartbeats).
        """
        with self.lock:
            requested = next_instant(self.context.clock.now_ms(), self.load().newest_time, self.timezone_name)
            if on_requested is not None:
                on_requested(requested)
            instant = Instant(requested, action, State.REQUESTED)
            self.lock.verify()
            self.storage.create(self.path(instant), content)
        return instant

    def start(self, instant: Instant, content: bytes = b"") -> Instant:
        """Move a requested instant to INFLIGHT."""
        inflight = replace(instant, state=State.INFLIGHT)
        self.storage.create(self.path(inflight), content)
        return inflight

    def complete(
        self,
        instant: Instant,
        content: bytes,
        check: Callable[[Timeline], None] | None = None,
        *,
        action: Action | None = None,
    ) -> Instant:
        """Move an inflight instant to COMPLETED: the one step that makes its effects visible.

        Args:
            instant: the inflight instant.
            content: the completed file's content.
            check: called with the timeline listed under the lock; raises to refuse (conflict resolution).
            action: the completed action, where it differs from the pending one.

        Raises:
            ConflictError: the instant is no longer inflight: somebody rolled it back.
        """
        with self.lock:
            timeline = self.load()
            current = timeline.find(instant.requested, instant.action)
            if current is None or current.state is not State.INFLIGHT:
                raise ConflictError(
                    "another writer took this write for dead and rolled it back; nothing of it is visible: write "
                    "again, with the same failed-writes policy for both (hoodie.clean.failed.writes.policy=LAZY)",
                    table=self.storage.root,
                    instant=instant.requested,
                )
            if check is not None:
                check(timeline)
            completion = next_instant(self.context.clock.now_ms(), timeline.newest_time, self.timezone_name)
            done = Instant(instant.requested, action or instant.action, State.COMPLETED, completion)
            self.lock.verify()
            self.storage.create(self.path(done), content)
        return done

    def discard(self, instant: Instant) -> None:
        """Take a pending instant off the timeline, its inflight file first, so that no state is ever skipped."""
        for state in (State.INFLIGHT, State.REQUESTED):
            self.storage.delete([self.path(instant, state)])

    def modified_ms(self, instant: Instant) -> int:
        """When the file of the instant's own state was made.

        Raises:
            NotFoundError: it's gone.
        """
        return self.storage.head(self.path(instant)).modified_ms

    def path(self, instant: Instant, state: State | None = None) -> str:
        """Path of an instant's timeline file, by default that of its own state."""
        return f"{self.folder}/{instant.file_name(state)}"
