"""Log files as blocks: untrusted bytes in, blocks out, an error for stretches that are no block; and back.

Source: HoodieLogFormatWriter, HoodieLogFileReader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from struct import Struct
from typing import Protocol

from pudi.errors import CorruptError, NotSupportedError

_WINDOW = 64 << 10
"""Bytes fetched for the head of a block, which is most often smaller."""
_SEARCH = 4 << 20
"""Bytes per request while scanning for the start of a block."""


class LogSource(Protocol):
    """A log file's bytes."""

    @property
    def size(self) -> int:
        """Number of bytes."""

    def at(self, start: int, length: int) -> memoryview:
        """Some that are there."""

    def find(self, text: bytes, start: int) -> int:
        """Return the next position of `text`, or the file's size if there is none."""


class HeldLog:
    """A log file that is in memory as a whole.

    Args:
        data: its bytes.
    """

    def __init__(self, data: bytes | memoryview) -> None:
        self._view = memoryview(data)
        self._data = data if isinstance(data, bytes) else bytes(self._view)
        self.size = len(self._view)

    def at(self, start: int, length: int) -> memoryview:
        """Some bytes, without a copy."""
        return self._view[start : start + length]

    def find(self, text: bytes, start: int) -> int:
        """Return the next position of `text`, or the file's size if there is none."""
        found = self._data.find(text, start)
        return self.size if found < 0 else found


class StoredLog:
    """A log file that is read in windows.

    Args:
        read: reads a number of existing bytes from an offset on.
        size: the file's bytes.
    """

    def __init__(self, read: Callable[[int, int], bytes], size: int) -> None:
        self._read = read
        self._first = 0
        self._buffer = memoryview(b"")
        self.size = size

    def at(self, start: int, length: int) -> memoryview:
        """Some bytes, and those behind them for the next call."""
        begin = start - self._first
        if begin < 0 or begin + length > len(self._buffer):
            wanted = min(max(length, _WINDOW), self.size - start)
            self._first, self._buffer = start, memoryview(self._read(start, wanted))
            begin = 0
        return self._buffer[begin : begin + length]

    def find(self, text: bytes, start: int) -> int:
        """Return the next position of `text`, or the file's size if there is none."""
        while start < self.size:
            data = self._read(start, min(_SEARCH, self.size - start))
            found = data.find(text)
            if found >= 0:
                return start + found
            start += max(1, len(data) - len(text) + 1) if start + len(data) < self.size else len(data)
        return self.size


MAGIC = b"#HUDI#"
FORMAT_VERSION = 1
"""Version of the framing; blocks of version 0, without headers, are older than any table that pudi reads."""

_MAX_HEADERS = 1024
"""Most headers in one block; Hudi defines nine."""

_INT, _LONG = Struct(">i"), Struct(">q")
_BEGIN = Struct(">qii")
_LEAST = 4 + 4 + 4 + 8 + 4 + 8
"""Bytes of a block without headers and content, after the field of its length."""


ROLLBACK_COMMAND = "0"
"""COMMAND_BLOCK_TYPE of the only command there is (HoodieCommandBlockTypeEnum.ROLLBACK_BLOCK)."""


class BlockKind(IntEnum):
    """Kind of a log block (HoodieLogBlock.HoodieLogBlockType)."""

    COMMAND = 0
    DELETE = 1
    AVRO = 3
    HFILE = 4
    PARQUET = 5
    CDC = 6

    @property
    def is_data(self) -> bool:
        """Whether the block holds records."""
        return self in {BlockKind.AVRO, BlockKind.HFILE, BlockKind.PARQUET}


class Header(IntEnum):
    """Keys of a block's headers (HoodieLogBlock.HeaderMetadataType)."""

    INSTANT_TIME = 0
    TARGET_INSTANT_TIME = 1
    SCHEMA = 2
    COMMAND_BLOCK_TYPE = 3
    COMPACTED_BLOCK_TIMES = 4
    RECORD_POSITIONS = 5
    BLOCK_IDENTIFIER = 6
    IS_PARTIAL = 7
    BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS = 8


@dataclass(frozen=True, slots=True)
class Unread:
    """The location of a block's content, for a block of which only the headers were read.

    Attributes:
        start: offset in the file.
        size: bytes of the content.
        total: bytes of it and of what follows it in the block.
    """

    start: int
    size: int
    total: int


@dataclass(frozen=True, slots=True)
class LogBlock:
    """One block of a log file.

    Attributes:
        kind: what the content is.
        headers: texts by key.
        content: the bytes between headers and footers.
        offset: where the block begins in its file.
        path: the file, for messages.
        padded: the content and what follows it in the file, so that a decoder may look a few bytes further.
        unread: where the content is, when it's still to be read; then `content` is empty.
        path_columns: values of partition columns that the table's files leave out, whatever the content says of them.
    """

    kind: BlockKind
    headers: Mapping[Header, str] = field(default_factory=dict)
    content: memoryview = field(default=memoryview(b""), repr=False)
    offset: int = 0
    path: str | None = None
    padded: memoryview | None = field(default=None, repr=False, compare=False)
    unread: Unread | None = field(default=None, repr=False, compare=False)
    path_columns: Mapping[str, str | None] = field(default_factory=dict, repr=False, compare=False)

    @property
    def size(self) -> int:
        """Bytes of the content, read or not."""
        return len(self.content) if self.unread is None else self.unread.size

    def holding(self, data: bytes) -> LogBlock:
        """The block with its content, given the bytes that `unread` says."""
        assert self.unread is not None
        view = memoryview(data)
        return replace(self, content=view[: self.unread.size], padded=view, unread=None)

    @property
    def instant(self) -> str:
        """Requested time of the instant that wrote the block; empty if the block names none (archives)."""
        return self.headers.get(Header.INSTANT_TIME, "")

    @property
    def is_partial(self) -> bool:
        """Whether the block's records have only some of the table's columns."""
        return self.headers.get(Header.IS_PARTIAL, "").lower() == "true"

    @property
    def compacted(self) -> tuple[str, ...]:
        """Instants whose blocks this block, written by log compaction, replaces."""
        text = self.headers.get(Header.COMPACTED_BLOCK_TIMES)
        return tuple(text.split(",")) if text is not None else ()

    def corrupt(self, what: str) -> CorruptError:
        """The error for a content that is not what the block's kind demands."""
        return CorruptError(
            f"a {self.kind.name.lower()} block of a log file {what}; restore the file, or roll back its commit",
            path=self.path,
            instant=self.instant or None,
            offset=self.offset,
        )


def encode_block(kind: BlockKind, headers: Mapping[Header, str], content: bytes) -> bytes:
    """The bytes of one block (HoodieLogFormatWriter.appendBlocks), in format version 1, without footers."""
    texts = [(key, text.encode()) for key, text in sorted(headers.items())]
    head = b"".join([_INT.pack(key) + _INT.pack(len(text)) + text for key, text in texts])
    length = _LEAST + len(head) + len(content)
    return b"".join(
        [
            MAGIC,
            _BEGIN.pack(length, FORMAT_VERSION, kind),
            _INT.pack(len(texts)),
            head,
            _LONG.pack(len(content)),
            content,
            _INT.pack(0),
            _LONG.pack(length + len(MAGIC)),
        ]
    )


def decode_blocks(
    data: bytes | memoryview | LogSource,
    *,
    path: str | None = None,
    damaged: Callable[[int, int], None] | None = None,
) -> Iterator[LogBlock]:
    """The blocks of a log file, in order.

    Every byte must belong to a block. A stretch that doesn't (a writer that died, damage) is an error, or given to
    `damaged`, and goes as far as the next magic or the end of the file (HoodieLogFileReader.isBlockCorrupted). Lengths
    are believed only where the bytes are there, so that memory and time are bounded by the file.

    Args:
        data: the whole file; or where to read it, then contents stay unread.
        path: path of the file, for messages.
        damaged: called with the first offset of each stretch that's no block, and the one behind it; whoever gives it
            must find out whether records were in there.

    Raises:
        CorruptError: a range is not a block and `damaged` is not given, or a block is damaged although the length at
            its end is confirmed.
        NotSupportedError: a block of another format version, of a kind or with a header that this release doesn't know:
            passing it over could lose rows.
    """
    in_memory = isinstance(data, (bytes, memoryview))
    source: LogSource = HeldLog(data) if isinstance(data, (bytes, memoryview)) else data
    at = 0
    while at < source.size:
        length = _whole_block(source, at)
        if length is None:
            if damaged is None:
                raise CorruptError(
                    "a block of the log file is cut off or damaged; restore the file, or roll back its commit",
                    path=path,
                    offset=at,
                )
            following = _next_magic(source, at)
            damaged(at, following)
            at = following
            continue
        end = at + len(MAGIC) + _LONG.size + length
        yield _block(_Parts(source, at, end, path), in_memory=in_memory)
        at = end


def _whole_block(source: LogSource, at: int) -> int | None:
    """The length that a block at `at` gives itself, when the bytes agree with it; None when it's damaged."""
    body = at + len(MAGIC) + _LONG.size
    if body > source.size:
        return None
    head = source.at(at, body - at)
    if head[: len(MAGIC)] != MAGIC:
        return None
    (length,) = _LONG.unpack_from(head, len(MAGIC))
    end = body + length
    if length < _LEAST or end > source.size:
        return None
    behind = min(len(MAGIC), source.size - end)
    tail = source.at(end - _LONG.size, _LONG.size + behind)
    if _LONG.unpack_from(tail)[0] - len(MAGIC) != length:
        return None
    # fewer bytes than a magic behind a block don't speak against it: Hudi takes them for the end of the file
    return length if behind < len(MAGIC) or tail[_LONG.size :] == MAGIC else None


def _next_magic(source: LogSource, at: int) -> int:
    """Find the start of the next possible block after `at`."""
    begins = at + len(MAGIC) <= source.size and source.at(at, len(MAGIC)) == MAGIC
    return source.find(MAGIC, at + len(MAGIC) if begins else at + 1)


def _block(parts: _Parts, *, in_memory: bool) -> LogBlock:
    """Parse the parts of a block of confirmed length."""
    offset, path = parts.at, parts.path
    parts.take(len(MAGIC))
    _, version, kind = _BEGIN.unpack(parts.take(_BEGIN.size))
    if version != FORMAT_VERSION:
        raise NotSupportedError(
            f"log blocks of format version {version}: this release of pudi knows 1", path=path, offset=offset
        )
    try:
        known = BlockKind(kind)
    except ValueError:
        raise NotSupportedError(
            f"log blocks of type {kind}: this release of pudi knows 0 to 6", path=path, offset=offset
        ) from None
    headers = parts.texts()
    size = parts.number(_LONG)
    start = parts.at
    parts.skip(size)
    parts.texts()  # footers: Hudi defines no keys
    if parts.left != _LONG.size:
        raise parts.corrupt("its parts don't add up to its length")
    unknown = [key for key in headers if key not in Header._value2member_map_]
    if unknown:
        raise NotSupportedError(
            f"log blocks with a header {unknown[0]}: this release of pudi knows 0 to 8", path=path, offset=offset
        )
    named = {Header(key): text for key, text in headers.items()}
    if not in_memory:
        return LogBlock(known, named, offset=offset, path=path, unread=Unread(start, size, parts.end - start))
    padded = parts.source.at(start, parts.end - start)
    return LogBlock(known, named, padded[:size], offset, path, padded)


@dataclass(slots=True)
class _Parts:
    """Reads the parts of one block; every length is checked against the bytes that are there."""

    source: LogSource
    at: int
    end: int
    path: str | None

    @property
    def left(self) -> int:
        """Bytes from here to the end of the block."""
        return self.end - self.at

    def texts(self) -> dict[int, str]:
        """Headers or footers: a count, then keys and texts."""
        count = self.number(_INT)
        if not 0 <= count <= _MAX_HEADERS:
            raise self.corrupt(f"{count} headers are implausible")
        found = {}
        for _ in range(count):
            key = self.number(_INT)
            text = self.take(self.number(_INT))
            if key in found:
                raise self.corrupt(f"header {key} occurs twice")
            try:
                found[key] = bytes(text).decode()
            except UnicodeDecodeError as error:
                raise self.corrupt(f"header {key} is no text: {error}") from error
        return found

    def number(self, kind: Struct) -> int:
        """The next integer."""
        return int(kind.unpack(self.take(kind.size))[0])

    def take(self, size: int) -> memoryview:
        """The next bytes."""
        self.skip(size)
        return self.source.at(self.at - size, size)

    def skip(self, size: int) -> None:
        """Pass the next bytes over."""
        if not 0 <= size <= self.left:
            raise self.corrupt(f"{size} bytes are missing")
        self.at += size

    def corrupt(self, what: str) -> CorruptError:
        """The error for a block that isn't one inside."""
        return CorruptError(
            f"a block of the log file is damaged: {what}; restore the file, or roll back its commit",
            path=self.path,
            offset=self.at,
        )
