"""Choose the blocks of a slice's log files that a reader merges, and their order (BaseHoodieLogRecordReader).

Every byte that a completed instant wrote must be there, see `log_checks`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from pudi.context import Storage
from pudi.errors import CorruptError, NotSupportedError
from pudi.filegroup.committed_logs import CommittedLogs, DecodedLog, check_alone, checked_blocks, decoded
from pudi.filegroup.formats import values_of
from pudi.filegroup.slices import LogFile
from pudi.format.log_block import ROLLBACK_COMMAND, BlockKind, Header, LogBlock, StoredLog
from pudi.storage import executor_of, is_near, read_tail

_SMALL, _TAIL = 64 << 10, 8 << 20
"""Minimum and maximum of bytes to fetch from a file of unknown size: small files arrive in one request."""

_QUICK = 4 << 20
"""Bytes of files on this machine up to which they are read one after the other: threads would take longer to start."""

_SLACK = 64 << 20
"""Number of bytes by which a file may exceed its listed size; longer files are refused."""


@dataclass(frozen=True, slots=True)
class LogScope:
    """Instants whose blocks a reader sees.

    Blocks of instants that never completed, or were rolled back, don't count: below version 8 one file holds blocks of
    many instants, and a restore of an upgraded table leaves such files behind.

    Attributes:
        completed: the completed instants that the reader sees.
        pending: the instants that never completed.
        start: first instant of the active timeline, if there is an archive: older instants were completed and archived.
        until: greatest requested time; None for any.
        among: the instants whose blocks count, in incremental reads; None for all.
        committed: what completed instants wrote; None where nothing is known of it, then every byte must decode.
    """

    completed: frozenset[str]
    pending: frozenset[str] = frozenset()
    start: str | None = None
    until: str | None = None
    among: frozenset[str] | None = None
    committed: CommittedLogs | None = field(default=None, repr=False, compare=False)

    def with_instant(self, instant: str) -> LogScope:
        """Return the scope of a reader that also sees one pending instant."""
        committed = None if self.committed is None else self.committed.with_pending(instant)
        return replace(self, completed=self.completed | {instant}, committed=committed)

    def sees(self, instant: str) -> bool:
        """Whether blocks of an instant count."""
        if self.until is not None and instant > self.until:
            return False
        return self.knows(instant) and (self.among is None or instant in self.among)

    def knows(self, instant: str) -> bool:
        """Whether an instant is completed, or was before it was archived."""
        if instant in self.completed:
            return True
        return self.start is not None and instant < self.start and instant not in self.pending

    def misses(self, instant: str) -> bool:
        """Whether an instant isn't completed that is pending, or no older than the completed ones."""
        if self.knows(instant):
            return False
        return instant in self.pending or instant >= min(self.completed, default="")


def read_log_blocks(
    storage: Storage, logs: Sequence[LogFile], scope: LogScope, hold: int | None = None
) -> list[LogBlock]:
    """The data and delete blocks of a slice's log files that a reader merges, oldest first.

    Args:
        storage: the table's files.
        logs: the files, in the order of their names.
        scope: the instants that count.
        hold: bytes of files that are held at most; contents of the others stay unread, see `read_content`. None holds
            all of them, and reads them side by side.

    Raises:
        NotFoundError: a file is gone.
        CorruptError: a file lacks bytes that a completed instant wrote, or has others; or a block lies over a base file
            of an instant that isn't completed.
        NotSupportedError: a block or a command that this release doesn't know.
    """
    found = visible_blocks(_slice_blocks(storage, logs, scope, hold), scope)
    for block in found:
        base = block.headers.get(Header.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS)
        if base and scope.misses(base):
            raise CorruptError(
                f"readers can't see the base file that instant {base} wrote, but block {block.instant} of a log file "
                f"applies to it: the completed file of {base} is gone from the timeline; restore it from a backup, or "
                "roll the table back to a state before it",
                table=storage.root,
                path=block.path,
                instant=base,
            )
    return found


def bases_under(storage: Storage, log: LogFile) -> set[str]:
    """Return the instants of the base files that the headers of a log file's blocks name.

    Raises:
        NotFoundError: the file is gone.
    """
    blocks = (block for found in _decoded(storage, [log], 0, None) for block in found.blocks)
    return {b for block in blocks if (b := block.headers.get(Header.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS))}


def read_all_blocks(storage: Storage, logs: Sequence[LogFile], scope: LogScope) -> list[LogBlock]:
    """Return all blocks of a slice's log files, ignored ones too; arguments and errors as of `read_log_blocks`."""
    return list(_slice_blocks(storage, logs, scope, None))


def read_blocks(storage: Storage, log: LogFile) -> tuple[LogBlock, ...]:
    """Return the blocks of one log file for which only the stated size is known.

    Raises:
        NotFoundError: the file is gone.
        CorruptError: not every byte belongs to a block, or it has another size.
    """
    found = decoded(log, storage.read(log.path))
    check_alone(found)
    return tuple(_partitioned(storage, [log], found.blocks))


def _slice_blocks(storage: Storage, logs: Sequence[LogFile], scope: LogScope, hold: int | None) -> Iterator[LogBlock]:
    if hold is None:
        small = sum(log.size for log in logs) <= _QUICK and is_near(storage)
        contents = executor_of(storage).map(lambda log: storage.read(log.path), logs, while_quick=small)
        found = [decoded(log, data, scope.committed) for log, data in zip(logs, contents, strict=True)]
    else:
        found = list(_decoded(storage, logs, hold, scope.committed))
    return _partitioned(storage, logs, checked_blocks(storage, found, scope.committed, scope.sees))


def _partitioned(storage: Storage, logs: Sequence[LogFile], blocks: Iterable[LogBlock]) -> Iterator[LogBlock]:
    """Yield blocks of one file group's log files with the partition columns that files leave out."""
    values = values_of(storage, logs[0].partition) if logs else {}
    return (replace(block, path_columns=values) if values else block for block in blocks)


def read_content(storage: Storage, block: LogBlock) -> LogBlock:
    """A block with its content.

    Raises:
        NotFoundError: the file is gone.
        CorruptError: its content changed.
    """
    if block.unread is None:
        return block
    assert block.path is not None
    return block.holding(storage.read_ranges(block.path, [(block.unread.start, block.unread.total)])[0])


def _decoded(
    storage: Storage, logs: Sequence[LogFile], hold: int, committed: CommittedLogs | None
) -> Iterator[DecodedLog]:
    left = hold
    for log in logs:
        found = _open(storage, log, left)
        if isinstance(found, bytes):
            left = max(0, left - len(found))
        yield decoded(log, found, committed)


def _open(storage: Storage, log: LogFile, most: int) -> bytes | StoredLog:
    """Fetch a log file; its bytes if there are at most `most`."""
    path = log.path
    if 0 < log.size <= most:
        return storage.read(path, log.size + _SLACK)
    data, size = b"", 0
    if not log.size:  # a plan names files without their sizes
        data, size = read_tail(storage, path, max(_SMALL, min(most, _TAIL)))
        if len(data) == size:
            return data
    elif log.size == log.stated:  # this is the listed size; the file itself may have another one
        size = storage.head(path).size
    return StoredLog(lambda start, length: storage.read_ranges(path, [(start, length)])[0], size or log.size)


def visible_blocks(blocks: Iterable[LogBlock], scope: LogScope) -> list[LogBlock]:
    """Return the data and delete blocks that readers merge, out of all blocks of a slice, oldest first.

    A rollback takes out the blocks of its target that came before it. Blocks of log compaction stand in the place of
    the newest instant that they were made of.

    Raises:
        CorruptError: a block doesn't say which instant wrote it.
        NotSupportedError: a command other than a rollback, or a block of change data.
    """
    by_instant: dict[str, list[LogBlock]] = {}  # in the order in which instants are first seen
    for block in blocks:
        if block.kind is BlockKind.COMMAND:
            by_instant.pop(_rolled_back(block), None)
            continue
        if block.kind is BlockKind.CDC:
            raise NotSupportedError("a CDC block in a log file of a slice", path=block.path, offset=block.offset)
        if not block.instant:
            raise block.corrupt("doesn't say which instant wrote it")
        if scope.sees(block.instant):
            by_instant.setdefault(block.instant, []).append(block)
    return [block for instant in _merge_order(by_instant) for block in by_instant[instant]]


def _rolled_back(block: LogBlock) -> str:
    target = block.headers.get(Header.TARGET_INSTANT_TIME)
    if block.headers.get(Header.COMMAND_BLOCK_TYPE) != ROLLBACK_COMMAND or target is None:
        raise NotSupportedError(
            f"a log file has a command of type {block.headers.get(Header.COMMAND_BLOCK_TYPE)!r}: this release of pudi "
            "knows rollbacks",
            path=block.path,
            offset=block.offset,
        )
    return target


def _merge_order(by_instant: dict[str, list[LogBlock]]) -> list[str]:
    """Instants whose blocks are merged, oldest first."""
    stands_for: dict[str, str] = {}  # an instant, and the log compaction that holds its records in the end
    order: list[str] = []
    for instant in reversed(by_instant):
        compacted = by_instant[instant][0].compacted
        final = stands_for.get(instant)
        if compacted:
            for original in compacted:
                stands_for[original] = final or instant
        elif final is None:
            order.append(instant)
        elif final not in order:
            order.append(final)
    return order[::-1]
