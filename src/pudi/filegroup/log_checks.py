"""Whether log files hold what completed instants wrote to them: decoded files in, their blocks or an error out.

A log file of layout 2 belongs to the instant in its name: it has the size that this instant states, and every byte
belongs to one of its blocks. In layout 1 the name carries the slice's base instant, and several instants may have
written to the file; dead writers may have left byte ranges that are not blocks. Readers skip such a range if the
statistics of all completed instants show that none of them wrote any of its bytes. Upgraded tables have files of layout
1: the statistics of commits tell the kind of a file, not the table's version.

Headers of blocks have no checksum: a flipped bit in a header's key makes another header of it, and the block says
something else. So each header must be one that a block of its kind has.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from pudi.context import Storage
from pudi.errors import CorruptError
from pudi.filegroup.committed_logs import Claims, CommittedLogs
from pudi.filegroup.slices import UNNAMED, LogFile
from pudi.format import Layout, is_instant_time
from pudi.format.layout import rules_of
from pudi.format.log_block import BlockKind, Header, LogBlock, StoredLog, decode_blocks

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
