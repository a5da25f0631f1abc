"""Find the bytes of log files that completed instants wrote, by the write statistics of their commits.

Source: HoodieDeltaWriteStat (logOffset, and fileSizeInBytes: the length of the file when its writer closed it, see
HoodieAppendHandle.close).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from posixpath import basename

from pudi.context import Storage
from pudi.errors import CorruptError, NotFoundError
from pudi.filegroup.slices import UNNAMED, LogFile
from pudi.format import CommitMetadata, Layout, MaxBytes, decode_commit_metadata, parse_log_file
from pudi.timeline import Instant, Timeline, TimelineStore, open_archive


@dataclass(frozen=True, slots=True)
class Extent:
    """The bytes of one log file that one instant wrote.

    Attributes:
        instant: its requested time.
        start: offset of the first.
        end: offset behind the last; the file was as long when the instant completed.
    """

    instant: str
    start: int
    end: int


Extents = Mapping[str, Extent]
"""Writes of one instant, by path of the log file."""


def log_extents(metadata: CommitMetadata, instant: str) -> dict[str, Extent]:
    """Return the log files that a commit names, without change data; of several sizes of a file the largest."""
    found: dict[str, Extent] = {}
    for partition, stats in metadata.partition_to_write_stats.items():
        for stat in stats:
            name = parse_log_file(basename(stat.path or ""))
            if name is None or name.cdc:
                continue
            path = f"{partition}/{name.name}" if partition else name.name
            known = found.get(path)
            start, end = stat.log_offset or 0, stat.file_size_in_bytes or 0
            if known is not None:
                start, end = min(start, known.start), max(end, known.end)
            found[path] = Extent(instant, start, end)
    return found


@dataclass(frozen=True, slots=True)
class Claims:
    """Writes of completed instants to one log file.

    Attributes:
        extents: the bytes, one extent for each instant.
        complete: whether the statistics of all instants that may have written to the file were read.
    """

    extents: tuple[Extent, ...]
    complete: bool

    @property
    def end(self) -> int:
        """The least size that the file may have."""
        return max((extent.end for extent in self.extents), default=0)

    def touch(self, start: int, end: int) -> bool:
        """Whether a completed instant wrote a byte of a stretch."""
        return any(start < extent.end and extent.start < end for extent in self.extents)

    def writers(self, offset: int) -> set[str]:
        """The instants that may have written the byte at an offset."""
        return {extent.instant for extent in self.extents if extent.start <= offset < extent.end}


@dataclass(frozen=True, slots=True)
class CommittedLogs:
    """The completed instants of a table, as evidence for what its log files must hold; picklable.

    It's asked where a log file isn't what the listing says, or not every byte of it decodes, which is rare: then the
    statistics of all commits that may have written to the file are read.

    Attributes:
        folder: the timeline's folder.
        history: the archive's folder.
        layout: layout of the timeline.
        instants: the completed writes on the active timeline, oldest first.
        pending: requested times of the instants that didn't complete.
        start: where the active timeline begins, when instants were archived.
        called: what errors call a log file.
        remedy: what the user can do about a damaged file.
    """

    folder: str
    history: str
    layout: Layout
    instants: tuple[Instant, ...]
    pending: frozenset[str] = frozenset()
    start: str | None = None
    called: str = "a log file"
    remedy: str = "restore the file from a copy, or roll back this commit and all later ones"
    _read: dict[str, Extents | None] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, store: TimelineStore, timeline: Timeline, start: str | None) -> CommittedLogs:
        """The evidence of a table.

        Args:
            store: its timeline in storage.
            timeline: its timeline.
            start: as of `LogScope`.
        """
        pending = frozenset(i.requested for i in timeline.pending)
        return cls(store.folder, store.history, timeline.layout, timeline.commits, pending, start)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle without the commits read so far: they are large, and tasks seldom need them."""
        known = (self.instants, self.pending, self.start, self.called, self.remedy)
        return CommittedLogs, (self.folder, self.history, self.layout, *known)

    @property
    def known(self) -> frozenset[str]:
        """Requested times of the writes on the active timeline."""
        return self.pending.union(i.requested for i in self.instants)

    def with_pending(self, instant: str) -> CommittedLogs:
        """Return a copy that includes one pending instant."""
        return replace(self, pending=self.pending | {instant})

    def own(self, storage: Storage, log: LogFile) -> Extents | None:
        """Return what the instant in a log file's name wrote; None if its commit states nothing."""
        try:
            since = self._since(storage, log)
            return next((self._extents(storage, i) for i in since if i.requested == log.instant), None)
        except (CorruptError, NotFoundError):
            return None

    def claims(self, storage: Storage, log: LogFile) -> Claims:
        """Return what completed instants wrote to a log file, from the instant in its name on."""
        found = []
        complete = True
        try:
            instants: Iterable[Instant] = self._since(storage, log)
        except (CorruptError, NotFoundError):  # the archive can't be read
            instants, complete = (i for i in self.instants if i.requested >= log.instant), False
        for instant in instants:
            try:
                extent = (self._extents(storage, instant) or {}).get(log.path)
            except (CorruptError, NotFoundError):
                complete = False
                continue
            if extent is not None and extent.end:
                found.append(extent)
        return Claims(tuple(found), complete)

    def has_archived(self, storage: Storage, instant: str) -> bool:
        """Whether an instant that's no longer on the active timeline completed."""
        try:
            return any(i.requested == instant for i in self._archived(storage, instant))
        except (CorruptError, NotFoundError):
            return False

    def _since(self, storage: Storage, log: LogFile) -> list[Instant]:
        """The instants that may have written to a log file."""
        active = {i.requested: i for i in self.instants if i.requested >= log.instant}
        if self.start is not None and log.instant < self.start:
            active = {i.requested: i for i in self._archived(storage, log.instant)} | active
        return [active[requested] for requested in sorted(active)]

    def _archived(self, storage: Storage, since: str) -> list[Instant]:
        archive = open_archive(storage, self.history, self.layout)
        return [i for i in archive.instants(since) if i.is_write]

    def _extents(self, storage: Storage, instant: Instant) -> Extents | None:
        """Return what one instant wrote; None if its commit has no statistics, as an empty file has none."""
        name = instant.file_name()
        if name not in self._read:
            metadata = self._metadata(storage, instant)
            known = bool(metadata.partition_to_write_stats)
            self._read[name] = log_extents(metadata, instant.requested) if known else None
        return self._read[name]

    def _metadata(self, storage: Storage, instant: Instant) -> CommitMetadata:
        path = f"{self.folder}/{instant.file_name()}"
        if not instant.archived:
            try:
                return decode_commit_metadata(storage.read(path, MaxBytes.INSTANT), path=path)
            except NotFoundError:  # archived meanwhile
                pass
        archive = open_archive(storage, self.history, self.layout)
        for moved in archive.instants(instant.requested):
            if (moved.requested, moved.action) == (instant.requested, instant.action):
                return archive.read_commit_metadata(moved)
        raise NotFoundError("a commit is gone from the timeline", path=path, instant=instant.requested)


def stated_sizes(store: TimelineStore, timeline: Timeline, logs: Iterable[LogFile]) -> dict[str, int]:
    """Return the size of each log file that commits state; `UNNAMED` if the commit that should name it does not.

    A file is left out where no commit that says something of it can be read.

    Args:
        store: the timeline in storage, which keeps the commits that were read before.
        timeline: the table's timeline.
        logs: the log files.
    """
    logs = list(logs)
    if not logs:
        return {}
    wanted, complete = _writers(store, timeline, logs)
    found = _all_extents(store, wanted)
    sizes: dict[str, int] = {}
    for extents in found:
        for path, extent in (extents or {}).items():
            sizes[path] = max(extent.end, sizes.get(path, 0))
    unnamed = [log for log in logs if log.path not in sizes]
    if timeline.rules.logs_name_their_commit:
        read = {i.requested for i, extents in zip(wanted, found, strict=True) if extents is not None}
        unnamed = [log for log in unnamed if log.instant in read]
    elif not complete or None in found:
        unnamed = []
    return {path: size for path, size in sizes.items() if size} | {log.path: UNNAMED for log in unnamed}


def _writers(store: TimelineStore, timeline: Timeline, logs: Sequence[LogFile]) -> tuple[list[Instant], bool]:
    """Return the instants that state sizes of log files, and whether archived instants are included."""
    first = min(log.instant for log in logs)
    names = {log.instant for log in logs}
    known = {i.requested: i for i in timeline.commits}
    complete = True
    begins = timeline.start is not None and first >= timeline.start
    there = begins if timeline.rules.logs_name_their_slice else known.keys() >= names
    if not there and store.has_history():
        try:
            known = {i.requested: i for i in store.archived(first) if i.is_write} | known
        except (CorruptError, NotFoundError):  # a reader that needs the archive reports it
            complete = False
    if timeline.rules.logs_name_their_slice:
        return [known[requested] for requested in sorted(known) if requested >= first], complete
    return [known[requested] for requested in sorted(names & known.keys())], complete


def _all_extents(store: TimelineStore, instants: Sequence[Instant]) -> list[Extents | None]:
    """Return what each instant wrote; instants of the active timeline are read in parallel."""
    active = [instant for instant in instants if not instant.archived]
    extents = store.context.executor.map(lambda instant: _read_extents(store, instant), active)
    found = dict(zip(active, extents, strict=True))
    return [found[each] if each in found else _read_extents(store, each) for each in instants]


def _read_extents(store: TimelineStore, instant: Instant) -> Extents | None:
    try:
        metadata = store.read_commit_metadata(instant)
    except (CorruptError, NotFoundError):
        return None
    return log_extents(metadata, instant.requested)
