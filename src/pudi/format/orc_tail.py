"""The end of ORC files: what writers note there, and time zones of stripes, which pyarrow neither reads nor writes.

A file ends with metadata, footer and postscript, protobuf messages; all but the postscript are compressed in chunks.
Only the few fields that pudi needs are decoded, the others are kept as they are. Blocks of LZ4 and LZO are decoded
here, byte by byte: of footers pyarrow doesn't tell the length that its decoder of LZ4 has to know.

Sources: https://orc.apache.org/specification/ORCv1 and orc_proto.proto; HoodieAvroOrcWriter for the notes;
https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md; Documentation/staging/lzo.rst of the Linux kernel.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from pudi.errors import CorruptError
from pudi.format.varints import BadVarint, encode_bytes, encode_number, read_fields, read_varint, without_field

_LONGEST_LITERAL_RUN = 4
"""The state of an LZO stream after four literals or more; below that, it's their number."""


def decode_lz4(block: bytes, most: int) -> bytes:
    """Decode a block of LZ4.

    Args:
        block: the block, without a frame.
        most: bytes that it decodes to at most.

    Raises:
        CorruptError: it's damaged, or decodes to more.
    """
    reader = _Reader(block, most)
    while not reader.is_over():
        token = reader.byte()
        reader.literals(reader.length(token >> 4, 15, ends_with=255))
        if reader.is_over():
            break
        distance = reader.byte() | reader.byte() << 8
        reader.copy(distance, 4 + reader.length(token & 15, 15, ends_with=255))
    return bytes(reader.out)


def decode_lzo(block: bytes, most: int) -> bytes:
    """Decode a block of LZO1X; arguments and errors as of `decode_lz4`."""
    reader, state = _Reader(block, most), 0
    if block and block[0] > 17:
        count = reader.byte() - 17
        reader.literals(count)
        state = min(count, _LONGEST_LITERAL_RUN)
    while not reader.is_over():
        code = reader.byte()
        if code < 16 and state == 0:
            reader.literals(3 + reader.length(code, 0, ends_with=0, base=15))
            state = _LONGEST_LITERAL_RUN
            continue
        distance, length, state = _match(reader, code, state)
        if not distance:  # the end of the stream
            break
        reader.copy(distance, length)
        reader.literals(state)
    return bytes(reader.out)


def _match(reader: _Reader, code: int, state: int) -> tuple[int, int, int]:
    """Return distance and length of a match, and how many literals follow it; distance 0 for the stream's end."""
    if code >= 64:
        length = 5 + (code >> 5 & 3) if code >= 128 else 3 + (code >> 5 & 1)
        return (reader.byte() << 3) + (code >> 2 & 7) + 1, length, code & 3
    if code < 16:
        far = state == _LONGEST_LITERAL_RUN
        return (reader.byte() << 2) + (code >> 2) + (2049 if far else 1), 3 if far else 2, code & 3
    near = code >= 32
    length = 2 + (
        reader.length(code & 31, 0, ends_with=0, base=31) if near else reader.length(code & 7, 0, ends_with=0, base=7)
    )
    word = reader.byte() | reader.byte() << 8
    distance = (word >> 2) + 1 if near else (code & 8) << 11 | word >> 2
    return (distance if near or not distance else distance + 16384), length, word & 3


class _Reader:
    """A block that is being decoded."""

    def __init__(self, block: bytes, most: int) -> None:
        self.out = bytearray()
        self._block = block
        self._most = most
        self._at = 0

    def is_over(self) -> bool:
        return self._at >= len(self._block)

    def byte(self) -> int:
        if self.is_over():
            raise CorruptError("a compressed block that is cut off")
        self._at += 1
        return self._block[self._at - 1]

    def length(self, said: int, continues: int, *, ends_with: int, base: int = 0) -> int:
        """A length whose first part is `said`; if that is `continues`, further bytes add to it and to `base`.

        LZ4's go on after bytes of 255, LZO's after bytes of 0, which stand for 255.
        """
        if said != continues:
            return said
        total = said + base
        while (added := self.byte()) == ends_with:
            total += 255
            self._within(total)
        return total + added

    def literals(self, count: int) -> None:
        end = self._at + count
        if end > len(self._block):
            raise CorruptError("a compressed block that is cut off")
        self._within(count)
        self.out += self._block[self._at : end]
        self._at = end

    def copy(self, distance: int, length: int) -> None:
        """Repeat what is `distance` bytes back; a match may overlap what it makes."""
        start = len(self.out) - distance
        if distance <= 0 or start < 0:
            raise CorruptError("a compressed block that refers to what lies before it")
        self._within(length)
        pattern = self.out[start : start + length]
        self.out += (pattern * (length // len(pattern) + 1))[:length] if len(pattern) < length else pattern

    def _within(self, count: int) -> None:
        if len(self.out) + count > self._most:
            raise CorruptError("a compressed block that decodes to more than its file says")


MOST_TAIL = 256 << 20
"""Bytes that a footer has at most; Hudi's hold a bloom filter of some hundred kilobytes."""
_MAGIC = b"ORC"
_MOST_POSTSCRIPT = 255
_NONE, _ZLIB, _SNAPPY, _LZO, _LZ4, _ZSTD = range(6)
_CHUNK_HEADER = 3
# fields of the messages
_FOOTER_LENGTH, _COMPRESSION, _BLOCK_SIZE, _METADATA_LENGTH = 1, 2, 3, 5
_STRIPES, _TYPES, _NOTES = 3, 4, 5
_STRIPE_OFFSET, _STRIPE_INDEX, _STRIPE_DATA, _STRIPE_FOOTER, _STRIPE_ROWS = 1, 2, 3, 4, 5
_ZONE = 3
_TYPE_KIND, _TYPE_PARTS, _MAP = 1, 2, 11
_STREAMS, _STREAM_KIND, _STREAM_COLUMN, _PRESENT = 1, 1, 2, 0


@dataclass(frozen=True, slots=True)
class OrcStripe:
    """Position and size of a stripe.

    Attributes:
        start: its first byte.
        body: bytes of its indexes and data.
        footer: bytes of its footer, which follows.
        rows: its number of rows.
    """

    start: int
    body: int
    footer: int
    rows: int


@dataclass(frozen=True, slots=True)
class OrcTail:
    """The end of a file.

    Attributes:
        size: bytes of the file.
        footer_start: first byte of the footer.
        footer: the footer, decompressed.
        postscript: the postscript.
        kind: number of the compression.
        block_size: bytes of a decompressed chunk at most.
        stripes: the stripes.
        notes: what the writer noted (user metadata), by name.
        map_keys: numbers of the columns that are keys of maps.
    """

    size: int
    footer_start: int
    footer: bytes
    postscript: bytes
    kind: int
    block_size: int
    stripes: tuple[OrcStripe, ...]
    notes: Mapping[str, bytes]
    map_keys: frozenset[int]


@contextmanager
def _decoding() -> Iterator[None]:
    """Report messages that can't be decoded as a damaged file."""
    try:
        yield
    except BadVarint as error:
        raise CorruptError(f"an ORC footer that is cut off, or is none: {error}") from error


@_decoding()
def tail_bytes(last: bytes) -> int:
    """The bytes of footer, postscript and its length, by the file's last bytes (at least 256, or all).

    Raises:
        CorruptError: they aren't the end of an ORC file.
    """
    postscript = _postscript(last)
    length = _number(dict(read_fields(postscript)), _FOOTER_LENGTH)
    if length > MOST_TAIL:
        raise CorruptError(f"an ORC footer of {length} bytes")
    return length + len(postscript) + 1


@_decoding()
def decode_tail(content: bytes, size: int) -> OrcTail:
    """Decode the end of a file.

    Args:
        content: the file's last bytes, as many as `tail_bytes` says or more.
        size: bytes of the file.

    Raises:
        CorruptError: it's damaged.
    """
    postscript = _postscript(content)
    said = dict(read_fields(postscript))
    length, kind = _number(said, _FOOTER_LENGTH), _number(said, _COMPRESSION)
    block_size = _number(said, _BLOCK_SIZE) or (256 << 10)
    end = len(content) - len(postscript) - 1
    if length > end:
        raise CorruptError("an ORC footer that is longer than the file")
    footer = _decompressed(content[end - length : end], kind, block_size)
    stripes, notes = [_stripe(value, size) for value in _messages(footer, _STRIPES)], {}
    for value in _messages(footer, _NOTES):
        note = dict(read_fields(value))
        name, text = note.get(1, b""), note.get(2, b"")
        if not isinstance(name, bytes) or not isinstance(text, bytes):
            raise CorruptError("an ORC footer with a note that is none")
        notes[name.decode("utf-8", "replace")] = text
    start = size - (len(content) - end) - length
    map_keys = frozenset(number for each in _messages(footer, _TYPES) for number in _map_key(each))
    return OrcTail(size, start, footer, postscript, kind, block_size, tuple(stripes), notes, map_keys)


def _map_key(kind: bytes) -> Iterator[int]:
    """Yield the number of a map's key column, which comes before that of its values; nothing of other types."""
    fields = read_fields(kind)
    if (_TYPE_KIND, _MAP) in fields:
        parts = next((value for field, value in fields if field == _TYPE_PARTS), None)
        yield parts if isinstance(parts, int) else read_varint(parts or b"")[0]


@_decoding()
def has_null_keys(content: bytes, tail: OrcTail) -> bool:
    """Return whether a stripe says that keys of maps may be null, at which Arrow's reader ends the process.

    Args:
        content: the stripe's footer as it is stored.
        tail: the end of the file.

    Raises:
        CorruptError: it's damaged.
    """
    for stream in _messages(_decompressed(content, tail.kind, tail.block_size), _STREAMS):
        said = dict(read_fields(stream))
        if _number(said, _STREAM_KIND) == _PRESENT and _number(said, _STREAM_COLUMN) in tail.map_keys:
            return True
    return False


@_decoding()
def zone_of_stripe(content: bytes, tail: OrcTail) -> str:
    """The time zone of a stripe's writer; empty where it says none.

    Args:
        content: the stripe's footer as it is stored.
        tail: the end of the file.

    Raises:
        CorruptError: it's damaged.
    """
    found = dict(read_fields(_decompressed(content, tail.kind, tail.block_size))).get(_ZONE, b"")
    if not isinstance(found, bytes):
        raise CorruptError("an ORC stripe whose time zone is none")
    return found.decode("utf-8", "replace")


def with_notes(content: pa.Buffer, notes: Mapping[str, bytes]) -> list[pa.Buffer | bytes]:
    """A file with further notes in its footer, in pieces to be written one after the other.

    Args:
        content: the whole file.
        notes: what to note, by name.
    """
    last = bytes(content[max(0, content.size - _MOST_POSTSCRIPT - 1) :])
    tail = decode_tail(bytes(content[content.size - tail_bytes(last) :]), content.size)
    added = b"".join(
        encode_bytes(_NOTES, encode_bytes(1, name.encode()) + encode_bytes(2, value)) for name, value in notes.items()
    )
    return [content.slice(0, tail.footer_start), *_ending(tail, tail.footer + added)]


@_decoding()
def in_zone_gmt(content: bytes, tail: OrcTail) -> bytes:
    """A whole file whose stripes say that their writer's time zone is GMT, with values as they are stored.

    Readers then take timestamps for seconds since 2015 in GMT that are ones since 2015 in another zone.

    Raises:
        CorruptError: a stripe is damaged.
    """
    pieces = [content[: tail.stripes[0].start if tail.stripes else len(_MAGIC)]]
    at, messages = len(pieces[0]), _messages(tail.footer, _STRIPES)
    moved = []
    for stripe, message in zip(tail.stripes, messages, strict=True):
        end = stripe.start + stripe.body
        decoded = _decompressed(content[end : end + stripe.footer], tail.kind, tail.block_size)
        footer = _chunks(without_field(decoded, _ZONE) + encode_bytes(_ZONE, b"GMT"), tail)
        pieces += [content[stripe.start : end], footer]
        moved.append(encode_bytes(_STRIPES, _moved(message, at, len(footer))))
        at += stripe.body + len(footer)
    # the metadata section, which has statistics of stripes, stays out
    return b"".join([*pieces, *_ending(tail, b"".join(moved) + without_field(tail.footer, _STRIPES), metadata=False)])


def _moved(stripe: bytes, start: int, footer: int) -> bytes:
    kept = without_field(without_field(stripe, _STRIPE_OFFSET), _STRIPE_FOOTER)
    return encode_number(_STRIPE_OFFSET, start) + kept + encode_number(_STRIPE_FOOTER, footer)


def _ending(tail: OrcTail, footer: bytes, *, metadata: bool = True) -> list[bytes]:
    """Footer, postscript and its length for a changed footer."""
    stored = _chunks(footer, tail)
    kept, said = without_field(tail.postscript, _FOOTER_LENGTH), encode_number(_FOOTER_LENGTH, len(stored))
    if not metadata:
        kept, said = without_field(kept, _METADATA_LENGTH), said + encode_number(_METADATA_LENGTH, 0)
    postscript = said + kept  # whose last bytes are the file's magic
    return [stored, postscript, bytes([len(postscript)])]


def _stripe(message: bytes, size: int) -> OrcStripe:
    said = dict(read_fields(message))
    start, index, data, footer, rows = (
        _number(said, field) for field in (_STRIPE_OFFSET, _STRIPE_INDEX, _STRIPE_DATA, _STRIPE_FOOTER, _STRIPE_ROWS)
    )
    if start + index + data + footer > size:
        raise CorruptError("an ORC stripe that lies beyond the file's end")
    return OrcStripe(start, index + data, footer, rows)


def _postscript(content: bytes) -> bytes:
    length = content[-1] if content else 0
    found = content[-1 - length : -1]
    if not length or len(found) != length or not found.endswith(_MAGIC):
        raise CorruptError("no ORC file: the magic bytes at its end are missing")
    return found


def _messages(message: bytes, field: int) -> list[bytes]:
    """Return the messages that a field holds."""
    found = [value for number, value in read_fields(message) if number == field]
    if not all(isinstance(value, bytes) for value in found):
        raise CorruptError("an ORC footer with a number for a message")
    return [bytes(value) for value in found]


def _number(said: Mapping[int, int | bytes], field: int) -> int:
    value = said.get(field, 0)
    if not isinstance(value, int):
        raise CorruptError("an ORC footer with a text for a number")
    return value


def _chunks(content: bytes, tail: OrcTail) -> bytes:
    """Content as a compressed file stores it: in chunks whose headers say that they aren't compressed."""
    if tail.kind == _NONE:
        return content
    most = min(tail.block_size, (1 << 23) - 1)
    parts = [content[start : start + most] for start in range(0, len(content), most)]
    return b"".join((len(part) << 1 | 1).to_bytes(_CHUNK_HEADER, "little") + part for part in parts)


def _decompressed(content: bytes, kind: int, block_size: int) -> bytes:
    if kind == _NONE:
        return content
    parts, at, size = [], 0, 0
    while at < len(content):
        header = int.from_bytes(content[at : at + _CHUNK_HEADER], "little")
        at += _CHUNK_HEADER
        part = content[at : at + (header >> 1)]
        if len(part) != header >> 1:
            raise CorruptError("an ORC footer that is cut off, or is none")
        at += len(part)
        parts.append(part if header & 1 else _chunk(part, kind, block_size))
        size += len(parts[-1])
        if size > MOST_TAIL:
            raise CorruptError("an ORC footer of more bytes than any writer makes")
    return b"".join(parts)


def _chunk(part: bytes, kind: int, block_size: int) -> bytes:
    try:
        if kind == _ZLIB:
            made = zlib.decompressobj(-zlib.MAX_WBITS)
            found = made.decompress(part, min(block_size, MOST_TAIL) + 1)
        elif kind in {_LZO, _LZ4}:
            found = (decode_lzo if kind == _LZO else decode_lz4)(part, min(block_size, MOST_TAIL))
        elif kind in {_SNAPPY, _ZSTD}:
            found = _by_arrow(part, kind, min(block_size, MOST_TAIL))
        else:
            raise CorruptError(f"an ORC file of the unknown compression {kind}")
    except (zlib.error, pa.ArrowException, OSError) as error:
        raise CorruptError(f"an ORC footer that can't be decompressed: {error}") from error
    if len(found) > block_size:
        raise CorruptError("an ORC footer with a chunk that is larger than its file says")
    return found


def _by_arrow(part: bytes, kind: int, most: int) -> bytes:
    if kind == _SNAPPY:  # says first how long it is
        size, _ = read_varint(part)
        if size > most:
            raise CorruptError("an ORC footer with a chunk that is larger than its file says")
        return bytes(pa.decompress(part, size, "snappy", asbytes=True))
    with pa.CompressedInputStream(pa.BufferReader(part), "zstd") as stream:
        return bytes(stream.read(most + 1))
