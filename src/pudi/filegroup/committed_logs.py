"""Find the bytes of log files that completed instants wrote, and check that the files hold them.

The write statistics of commits tell the bytes. A log file of layout 2 belongs to the instant in its name: it has the
size that this instant states, and every byte belongs to one of its blocks. In layout 1 the name carries the slice's
base instant, and several instants may have written to the file; dead writers may have left byte ranges that are not
blocks. Readers skip such a range if the statistics of all completed instants show that none of them wrote any of its
bytes. Upgraded tables have files of layout 1: the statistics of commits tell the kind of a file, not the table's
version.

Headers of blocks have no checksum: a flipped bit in a header's key makes another header of it, and the block says
something else. So each header must be one that a block of its kind has.

Source: HoodieDeltaWriteStat (logOffset, and fileSizeInBytes: the length of the file when its writer closed it, see
HoodieAppendHandle.close).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from posixpath import basename

from pudi.context import Storage
from pudi.errors import CorruptError, NotFoundError
from pudi.filegroup.slices import UNNAMED, LogFile
from pudi.format import (
    CommitMetadata,
    Layout,
    MaxBytes,
    decode_commit_metadata,
    file_path,
    is_instant_time,
    parse_log_file,
)
from pudi.format.layout import rules_of
from pudi.format.log_block import BlockKind, Header, LogBlock, StoredLog, decode_blocks
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
            path = file_path(partition, name.name)
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


_POSITIONS = re.compile(r"[A-Za-z0-9+/]{10,}={0,2}")
_IDENTIFIER = re.compile(r"\d{0,9}(,\d{0,9})*")

_OF_COMMANDS = (Header.TARGET_INSTANT_TIME, Header.COMMAND_BLOCK_TYPE)


def check_headers(block: LogBlock) -> None:
    """Refuse a block with headers that its writer can't have written.

    Raises:
        CorruptError: a header is there, lacking, or of a form, that blocks of the kind can't have.
    """
    headers = block.headers
    if block.kind is BlockKind.COMMAND:
        if any(key not in headers for key in _OF_COMMANDS):
            raise block.corrupt("doesn't say what the command is")
    elif any(key in headers for key in _OF_COMMANDS):
        raise block.corrupt("has a header that only commands have")
    if (block.kind.is_data or block.kind is BlockKind.CDC) and Header.SCHEMA not in headers:
        raise block.corrupt("has no schema")
    for key, text in headers.items():
        if not _is_credible(key, text):
            raise block.corrupt(f"has a header {key.name} that can't be one: {text[:40]!r}")


def _is_credible(key: Header, text: str) -> bool:
    """Whether a text can be a header's; where Hudi sets no form, any can."""
    if key in {Header.INSTANT_TIME, Header.TARGET_INSTANT_TIME}:
        return text.isascii() and text.isdigit()
    if key is Header.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS:
        return is_instant_time(text)
    if key is Header.COMPACTED_BLOCK_TIMES:
        return all(each.isascii() and each.isdigit() for each in text.split(","))
    if key is Header.IS_PARTIAL:
        return text.lower() in {"true", "false"}
    if key is Header.SCHEMA:
        return text.lstrip()[:1] in {"{", '"', "["}
    if key is Header.RECORD_POSITIONS:
        return len(text) % 4 == 0 and _POSITIONS.fullmatch(text) is not None
    if key is Header.BLOCK_IDENTIFIER:
        return _IDENTIFIER.fullmatch(text) is not None
    return True


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DecodedLog:
    """A log file as it was found.

    Attributes:
        log: its name, and the size that is stated of it.
        size: its bytes.
        blocks: its blocks.
        damage: the stretches that are no block: offset of the first byte, and the one behind the last.
        called: what errors call the file.
        remedy: what the user can do about it.
    """

    log: LogFile
    size: int
    blocks: tuple[LogBlock, ...]
    damage: tuple[tuple[int, int], ...]
    called: str = "a log file"
    remedy: str = "restore it from a copy"

    @property
    def records(self) -> Iterator[LogBlock]:
        """The blocks but for commands."""
        return (block for block in self.blocks if block.kind is not BlockKind.COMMAND)

    @property
    def is_of_one(self) -> bool:
        """Whether all blocks name the instant that the file is named by."""
        return all(block.instant == self.log.instant for block in self.blocks)

    def corrupt(self, what: str, offset: int, instant: str | None = None) -> CorruptError:
        """Return the error for an invalid file."""
        return CorruptError(
            f"{self.called} {what}; {self.remedy}",
            path=self.log.path,
            instant=instant or self.log.instant,
            offset=offset,
        )


def decoded(log: LogFile, data: bytes | StoredLog, committed: CommittedLogs | None = None) -> DecodedLog:
    """Find the blocks of a log file and the ranges between them; `committed` gives its name in errors.

    Raises:
        CorruptError: a block is damaged although the length at its end is confirmed.
        NotSupportedError: a block that this release doesn't know.
    """
    damage: list[tuple[int, int]] = []
    blocks = tuple(decode_blocks(data, path=log.path, damaged=lambda start, end: damage.append((start, end))))
    for block in blocks:
        check_headers(block)
    found = DecodedLog(log, data.size if isinstance(data, StoredLog) else len(data), blocks, tuple(damage))
    return found if committed is None else replace(found, called=committed.called, remedy=committed.remedy)


def checked_blocks(
    storage: Storage, files: Sequence[DecodedLog], committed: CommittedLogs | None, sees: Callable[[str], bool]
) -> Iterator[LogBlock]:
    """Return the blocks of a slice's log files in order, after a check that none is missing.

    Where a file is as its name and its stated size say, nothing more is read. Else the commits' statistics decide.

    Args:
        storage: the table's files.
        files: the log files.
        committed: what completed instants wrote; None where nothing is known of it.
        sees: whether blocks of an instant count.

    Raises:
        CorruptError: a file lacks bytes that a completed instant wrote, or has others.
    """
    if committed is None:
        for file in files:
            check_alone(file)
        return _all(files)
    known: frozenset[str] = frozenset()
    if rules_of(committed.layout).logs_name_their_slice:
        known = committed.known.union(b.headers.get(Header.TARGET_INSTANT_TIME, "") for b in _all(files))
    twice = _in_several(files) if rules_of(committed.layout).logs_name_their_slice else frozenset()
    passed_over = False
    for file in files:
        if _is_doubtful(file, committed.layout, known, twice):
            _judge(storage, file, committed)
            passed_over |= bool(file.damage)
    if passed_over:
        _check_archived(storage, files, committed, sees)
    return _all(files)


def _in_several(files: Sequence[DecodedLog]) -> frozenset[str]:
    """Return the instants with blocks in several files of a slice: one file may be a copy of another."""
    seen: set[str] = set()
    twice: set[str] = set()
    for file in files:
        instants = {block.instant for block in file.records}
        twice |= instants & seen
        seen |= instants
    return frozenset(twice)


def _all(files: Sequence[DecodedLog]) -> Iterator[LogBlock]:
    return (block for file in files for block in file.blocks)


def check_alone(file: DecodedLog) -> None:
    """Check that every byte of a file belongs to a block, and that the file has its stated size.

    Raises:
        CorruptError: it isn't so.
    """
    for start, end in file.damage:
        raise file.corrupt(f"is damaged: bytes {start} to {end} are not a complete block", start)
    if file.log.stated not in {None, UNNAMED, file.size}:
        raise _wrong_size(file, file.log.stated or 0)


def _is_doubtful(file: DecodedLog, layout: Layout, known: Collection[str], twice: Collection[str]) -> bool:
    """Return whether name, stated size and block instants are not enough to trust a file.

    In layout 1 `twice` are instants that other files of the slice have too, as where a writer went on to a new file.

    Where no size was asked for, an empty file is doubtful, since every log file that a commit names has a block, and
    one that ends with the deletes of a log compaction, which are written before its records.
    """
    if file.damage or not file.blocks or file.log.stated not in {None, UNNAMED, file.size}:
        return True
    if file.log.stated is None and file.blocks[-1].kind is BlockKind.DELETE and file.blocks[-1].compacted:
        return True
    if rules_of(layout).logs_name_their_commit:
        return not file.is_of_one
    return any(block.instant not in known or block.instant in twice for block in file.records)


def _judge(storage: Storage, file: DecodedLog, committed: CommittedLogs) -> None:
    """Refuse a file unless the commits' statistics show that it has all that completed instants wrote."""
    log = file.log
    if rules_of(committed.layout).logs_name_their_commit:
        extents = committed.own(storage, log)
        own = None if extents is None else extents.get(log.path)
        if own is not None and own.end == file.size and file.is_of_one and not file.damage:
            return
        claims = committed.claims(storage, log)
        if not any(claim.instant != log.instant for claim in claims.extents) and (own is not None or file.is_of_one):
            _judge_own(file, None if own is None else own.end, claims, known=extents is not None)
            return
    else:
        claims = committed.claims(storage, log)
    _judge_shared(file, claims)


def _judge_own(file: DecodedLog, end: int | None, claims: Claims, *, known: bool) -> None:
    """A file of layout 2.

    Args:
        file: the file.
        end: the size that its instant states; None where it doesn't name the file.
        claims: what all instants state of it.
        known: whether its instant is known to have completed, and the statistics that it wrote.
    """
    if end and file.size != end:
        raise _wrong_size(file, end)
    if file.damage and not (known and end is None and claims.complete):
        start, behind = file.damage[0]
        raise file.corrupt(f"is damaged: bytes {start} to {behind} are not a complete block", start)
    for block in file.blocks:
        if block.instant != file.log.instant:
            raise file.corrupt(f"has a block of another instant, {block.instant}", block.offset)
    _warn(file, "its commit doesn't name the file: a failed task left it")


def _judge_shared(file: DecodedLog, claims: Claims) -> None:
    """A file of layout 1."""
    if file.size < claims.end:
        raise _wrong_size(file, claims.end)
    for start, end in file.damage:
        if claims.touch(start, end):
            writer = min((e for e in claims.extents if start < e.end and e.start < end), key=lambda e: e.start)
            raise file.corrupt(f"is damaged: bytes {start} to {end} are not a complete block", start, writer.instant)
        if not claims.complete:
            raise file.corrupt(
                f"has bytes {start} to {end}, which are not a complete block, and too few commits are "
                "left to tell whether they ever were",
                start,
            )
    for block in file.records:
        writers = claims.writers(block.offset)
        if writers and block.instant not in writers:
            raise file.corrupt(
                f"has a block of instant {block.instant} in bytes that commit {min(writers)} wrote", block.offset
            )
    _warn(file, "no completed instant wrote them")


def _check_archived(
    storage: Storage, files: Sequence[DecodedLog], committed: CommittedLogs, sees: Callable[[str], bool]
) -> None:
    """Check archived instants in a file with unreadable ranges, which may have been rollback blocks.

    An instant that is not on the active timeline counts as archived, unless a rollback block says that it failed.
    """
    known = committed.known
    for file in files:
        for block in file.records:
            if block.instant in known or not sees(block.instant):
                continue
            if not committed.has_archived(storage, block.instant):
                raise file.corrupt(f"has a block of instant {block.instant}, which isn't archived", block.offset)


def _wrong_size(file: DecodedLog, expected: int) -> CorruptError:
    what = "was cut off" if file.size < expected else "has extra bytes at its end"
    return file.corrupt(f"{what}: it has {file.size} bytes, but its commit states {expected}", min(file.size, expected))


def _warn(file: DecodedLog, why: str) -> None:
    for start, end in file.damage:
        _log.warning(
            "log file %s: bytes %d to %d are not a complete block; skipped: %s", file.log.path, start, end, why
        )
