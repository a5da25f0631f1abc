"""The framing of HFiles, version 3: blocks and their entries, index, file info and trailer, decoded and encoded.

In a data block, an entry states only where the next one begins, so entries form a chain. Decoding follows it without a
step per entry: the ten bytes behind every key are equal and are located in one pass; key lengths are guessed and
verified for all entries together; the chain holds if each entry ends where the next begins. Where that fails (the ten
bytes occur within a value, or key lengths vary), entries are walked one by one.

Source: Hudi's own reader and writer in hudi-io (org.apache.hudi.io.hfile: HFileBlock, HFileRootIndexBlock,
HFileLeafIndexBlock, HFileFileInfoBlock, HFileTrailer), HFileDataBlock.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from struct import Struct

import numpy as np

from pudi.errors import CorruptError, NotSupportedError
from pudi.format.avro_values import Positions, Records
from pudi.format.varints import BadVarint, encode_bytes, encode_number, encode_varint, read_delimited, read_fields

DATA, META = b"DATABLK*", b"METABLKc"
ROOT_INDEX, LEAF_INDEX, INNER_INDEX = b"IDXROOT2", b"IDXLEAF2", b"IDXINTE2"
FILE_INFO, TRAILER = b"FILEINF2", b'TRABLK"$'

TRAILER_SIZE = 4096
VERSION = b"\0\0\0\3"
COMPARATOR = b"org.apache.hudi.io.storage.HoodieHBaseKVComparator"

HEADER = Struct(">8siiqBii")
"""Magic, size on disk behind the header, uncompressed size, offset of the block before, kind of checksum, bytes that
a checksum covers, size on disk of header and payload."""

CHECKSUM_BYTES = 16 * 1024
CODECS = {1: "gzip", 2: "none"}
"""Codecs by their ids; the others that Hudi knows by name (lzo, snappy, lz4, bz2, zstd) its own reader refuses."""

MAX_BLOCK = 512 << 20
"""Most uncompressed bytes of a block that are believed: blocks have a mebibyte, or one entry."""

_MOST_PACKED = 1100
"""A byte of gzip stands for 1032 bytes at most."""

_INT, _LONG, _SHORT = Struct(">i"), Struct(">q"), Struct(">H")
_INDEX = Struct(">qi")
_INFO_MAGIC = b"PBUF"


@dataclass(frozen=True, slots=True)
class Source:
    """The file's name in messages."""

    path: str

    def corrupt(self, what: str, offset: int) -> CorruptError:
        """The error for bytes that are not what an HFile has there."""
        return CorruptError(f"the HFile is damaged: {what}; restore the file", path=self.path, offset=offset)


@dataclass(frozen=True, slots=True)
class IndexEntries:
    """Blocks by the first key of each, in their order.

    Attributes:
        keys: the content of the first keys.
        offsets: where the blocks begin in the file.
        sizes: their bytes, headers included.
    """

    keys: Sequence[bytes] = ()
    offsets: Sequence[int] = ()
    sizes: Sequence[int] = ()

    def chosen(self, places: Sequence[int]) -> IndexEntries:
        """Some of the blocks."""
        return IndexEntries(
            [self.keys[i] for i in places], [self.offsets[i] for i in places], [self.sizes[i] for i in places]
        )


@dataclass(frozen=True, slots=True)
class Trailer:
    """Trailer of an HFile (TrailerProto).

    Attributes:
        file_info: offset of the file info.
        load_on_open: offset of the root index, where what's read on opening begins.
        data_blocks: entries of the root index.
        meta_blocks: entries of the meta index.
        entries: key-value pairs of the file.
        levels: levels of the data index.
        first_data: offset of the first data block; -1 without one.
        last_data: offset of the last one.
        payload: uncompressed bytes of the entries.
        codec: id of the codec, see `CODECS`.
    """

    file_info: int
    load_on_open: int
    data_blocks: int
    meta_blocks: int
    entries: int
    levels: int = 1
    first_data: int = -1
    last_data: int = -1
    payload: int = 0
    codec: int = 1


def checksum_size(on_disk: int) -> int:
    """Bytes of the checksums behind a block of header and payload of some size (HFileBlock.numChecksumBytes)."""
    return -(-on_disk // CHECKSUM_BYTES) * _INT.size


def encode_block(magic: bytes, payload: bytes | memoryview, codec: str, level: int, before: int = -1) -> bytes:
    """Encode one block: header, payload, and checksums of the type that readers skip.

    Args:
        magic: the kind of block.
        payload: the uncompressed content.
        codec: `gzip` or `none`.
        level: zlib's.
        before: the offset of the previous block, for the header.
    """
    stored = payload if codec == "none" else pack(payload, level)
    size = HEADER.size + len(stored)
    sums = checksum_size(size)
    head = HEADER.pack(magic, len(stored) + sums, len(payload), before, 0, CHECKSUM_BYTES, size)
    return b"".join([head, stored, bytes(sums)])


def pack(payload: bytes | memoryview, level: int) -> bytes:
    """Bytes as gzip."""
    packer = zlib.compressobj(level, zlib.DEFLATED, 31)
    return packer.compress(payload) + packer.flush()


def decode_block(data: memoryview, magic: bytes, codec: int, offset: int, source: Source) -> tuple[bytes, int]:
    """The content of the block that some bytes begin with, and how many bytes the block has.

    Memory is bounded by the actual number of bytes, whatever the header claims.

    Raises:
        CorruptError: it's another kind of block, cut off, or not what its header says.
    """
    if len(data) < HEADER.size:
        raise source.corrupt("it ends within the head of a block", offset)
    found, behind, unpacked, _, _, _, on_disk = HEADER.unpack_from(data)
    if found != magic:
        raise source.corrupt(f"there is {found!r} where a block {magic.decode()} begins", offset)
    size = behind + HEADER.size
    if not HEADER.size <= on_disk <= size <= len(data):
        raise source.corrupt("a block is longer than the bytes that are there", offset)
    stored = data[HEADER.size : on_disk]
    if CODECS[codec] == "none":
        if unpacked != len(stored):
            raise source.corrupt(f"a block of {len(stored)} bytes says that it has {unpacked}", offset)
        return bytes(stored), size
    if not 0 <= unpacked <= min(MAX_BLOCK, len(stored) * _MOST_PACKED):
        raise source.corrupt(f"{len(stored)} bytes can't be {unpacked} bytes packed", offset)
    return unpack(stored, unpacked, offset, source), size


def unpack(stored: memoryview, size: int, offset: int, source: Source) -> bytes:
    """Decompress gzip bytes; the result must have `size` bytes."""
    unpacker = zlib.decompressobj(31)
    try:
        content = unpacker.decompress(stored, size + 1)
    except zlib.error as error:
        raise source.corrupt(f"a block can't be unpacked: {error}", offset) from error
    if len(content) != size or not unpacker.eof:
        raise source.corrupt(f"a block doesn't unpack to its {size} bytes", offset)
    return content


def root_entries(
    content: bytes, count: int, with_size: bool, offset: int, source: Source, behind: int = 0
) -> IndexEntries:
    """The entries of a root index.

    Args:
        content: the block's.
        count: how many there must be.
        with_size: whether the keys are those of data (their length before them), or names of meta blocks.
        offset: where the block begins, for messages.
        source: the file, for messages.
        behind: bytes that may stand behind the entries.
    """
    keys, offsets, sizes, at = [], [], [], 0
    if not 0 <= count <= len(content) // (_INDEX.size + 1):
        raise source.corrupt(f"an index of {len(content)} bytes can't have {count} entries", offset)
    for _ in range(count):
        if at + _INDEX.size + 1 > len(content):
            raise source.corrupt("an index ends within an entry", offset)
        block, size = _INDEX.unpack_from(content, at)
        length, at = _hadoop_number(content, at + _INDEX.size, offset, source)
        if not 0 <= length <= len(content) - at:
            raise source.corrupt("a key of an index is longer than the index", offset)
        key = content[at : at + length]
        keys.append(_key_content(key, offset, source) if with_size else key)
        offsets.append(block)
        sizes.append(size)
        at += length
    if len(content) - at not in {0, behind}:  # the trailer's count has no checksum: entries left over would be lost
        raise source.corrupt(f"an index has more than the {count} entries that its trailer says", offset)
    return IndexEntries(keys, offsets, sizes)


def leaf_entries(content: bytes, offset: int, source: Source) -> IndexEntries:
    """The entries of an index block below the root: their count, where each begins, and the entries."""
    count = _INT.unpack_from(content)[0] if len(content) >= _INT.size else -1
    if not 0 <= count <= (len(content) - 2 * _INT.size) // (_INT.size + _INDEX.size):
        raise source.corrupt(f"an index of {len(content)} bytes can't have {count} entries", offset)
    ends = Struct(f">{count + 1}i").unpack_from(content, _INT.size)
    start = _INT.size * (count + 2)
    keys, offsets, sizes = [], [], []
    for begin, end in pairwise(ends):
        if not 0 <= begin <= end - _INDEX.size <= len(content) - start - _INDEX.size:
            raise source.corrupt("an entry of an index lies outside of it", offset)
        block, size = _INDEX.unpack_from(content, start + begin)
        keys.append(_key_content(content[start + begin + _INDEX.size : start + end], offset, source))
        offsets.append(block)
        sizes.append(size)
    return IndexEntries(keys, offsets, sizes)


def encode_root(entries: IndexEntries, with_size: bool) -> bytes:
    """The content of a root index; arguments as of `root_entries`."""
    parts = []
    for key, offset, size in zip(entries.keys, entries.offsets, entries.sizes, strict=True):
        full = _SHORT.pack(len(key)) + key if with_size else key
        parts.append(_INDEX.pack(offset, size) + _hadoop_bytes(len(full)) + full)
    return b"".join(parts)


def _key_content(key: bytes, offset: int, source: Source) -> bytes:
    """The part of a stored key that Hudi made: behind its length, before what HBase has there."""
    length = _SHORT.unpack_from(key)[0] if len(key) >= _SHORT.size else -1
    if not 0 <= length <= len(key) - _SHORT.size:
        raise source.corrupt("a key is longer than its place", offset)
    return key[_SHORT.size : _SHORT.size + length]


def _hadoop_number(content: bytes, at: int, offset: int, source: Source) -> tuple[int, int]:
    """A number of one to nine bytes as Hadoop's WritableUtils writes it, and where the bytes behind it begin."""
    first = content[at] - 256 if content[at] > 127 else content[at]
    if first >= -112:
        return first, at + 1
    size = -112 - first if first >= -120 else -120 - first
    if at + 1 + size > len(content):
        raise source.corrupt("an index ends within a number", offset)
    number = int.from_bytes(content[at + 1 : at + 1 + size], "big")
    return (number if first >= -120 else ~number), at + 1 + size


def _hadoop_bytes(number: int) -> bytes:
    if number <= 127:
        return bytes([number])
    size = (number.bit_length() + 7) // 8
    return bytes([256 - 112 - size]) + number.to_bytes(size, "big")


def decode_info(content: bytes, offset: int, source: Source) -> dict[str, bytes]:
    """The pairs of a file info block (InfoProto)."""
    if not content.startswith(_INFO_MAGIC):
        raise source.corrupt("its file info has another format than Hudi's", offset)
    pairs: dict[str, bytes] = {}
    try:
        found = [dict(read_fields(e)) for _, e in read_delimited(content[len(_INFO_MAGIC) :]) if isinstance(e, bytes)]
    except BadVarint as error:
        raise source.corrupt(f"its file info can't be decoded: {error}", offset) from error
    for parts in found:
        name, value = parts.get(1, b""), parts.get(2, b"")
        if isinstance(name, bytes) and isinstance(value, bytes):
            pairs[name.decode("utf-8", "replace")] = value
    return pairs


def encode_info(pairs: Mapping[str, bytes]) -> bytes:
    """The content of a file info block."""
    entries = [encode_bytes(1, name.encode()) + encode_bytes(2, value) for name, value in pairs.items()]
    body = b"".join(encode_bytes(1, entry) for entry in entries)
    return _INFO_MAGIC + encode_varint(len(body)) + body


def decode_trailer(data: bytes, size: int, source: Source) -> Trailer:
    """The trailer, from the last bytes of a file of `size` bytes.

    Raises:
        CorruptError: it's none, or its offsets lie outside of the file.
        NotSupportedError: another version than 3, another codec than gzip and none.
    """
    offset = size - TRAILER_SIZE
    if not data.startswith(TRAILER):
        raise source.corrupt("it doesn't end with a trailer", offset)
    if data[-3:] != VERSION[-3:]:
        version = int.from_bytes(data[-3:], "big")
        raise NotSupportedError(f"HFiles of version {version}: pudi reads 3", path=source.path, offset=offset)
    try:
        found = dict(read_delimited(data[len(TRAILER) :]))
    except BadVarint as error:
        raise source.corrupt(f"its trailer can't be decoded: {error}", offset) from error
    numbers = {key: value for key, value in found.items() if isinstance(value, int)}
    codec = numbers.get(12, 2)
    if codec not in CODECS:
        raise NotSupportedError(
            f"HFiles with codec {codec}: pudi, as Hudi itself, reads gzip and none", path=source.path, offset=offset
        )
    signed = [number - (1 << 64) if number >= 1 << 63 else number for number in (numbers.get(k, 0) for k in range(14))]
    _, info, opening, payload, _, blocks, metas, entries, levels, first, last, *_ = signed
    if not (0 <= opening <= info <= offset and 0 < levels <= 32 and min(blocks, metas, entries) >= 0):
        raise source.corrupt("its trailer points out of the file", offset)
    return Trailer(info, opening, blocks, metas, entries, levels, first, last, payload, codec)


def encode_trailer(trailer: Trailer) -> bytes:
    """The last bytes of a file."""
    numbers = {
        1: trailer.file_info,
        2: trailer.load_on_open,
        3: trailer.payload,
        5: trailer.data_blocks,
        6: trailer.meta_blocks,
        7: trailer.entries,
        8: trailer.levels,
        9: trailer.first_data,
        10: trailer.last_data,
    }
    fields = [encode_number(key, number & ((1 << 64) - 1)) for key, number in numbers.items()]
    body = b"".join([*fields, encode_bytes(11, COMPARATOR), encode_number(12, trailer.codec)])
    head = TRAILER + encode_varint(len(body)) + body
    return head + bytes(TRAILER_SIZE - len(head) - len(VERSION)) + VERSION


FAMILY = b"\0\x7f\xff\xff\xff\xff\xff\xff\xff\x04"
"""Behind each key: an empty column family, the latest time stamp, the kind Put."""

LEAST = 4 + 4 + 2 + len(FAMILY) + 1
"""Bytes of an entry in addition to its key and value."""

_HEAD = Struct(">iiH")
_BEFORE = 2 + len(FAMILY)
"""Bytes that the stored key length includes in addition to the key."""

_WORD = np.uint64(0x04FFFFFFFFFFFFFF)
"""The last eight bytes of `FAMILY`, as a little-endian number."""

_ROUNDS = 40
"""Lengths of keys that are tried before entries are walked: numbers as text have ten, few keys have more."""


class BadEntries(ValueError):
    """The bytes are no chain of entries."""


@dataclass(frozen=True, slots=True)
class Entries:
    """Entries side by side, in their order.

    Attributes:
        records: the bytes in which they lie.
        key: where each key begins; ascending.
        key_end: where it ends.
        value: where each value begins.
        value_end: where it ends.
    """

    records: Records
    key: Positions
    key_end: Positions
    value: Positions
    value_end: Positions

    def part(self, rows: np.ndarray) -> Entries:
        """Some of the entries."""
        return Entries(self.records, self.key[rows], self.key_end[rows], self.value[rows], self.value_end[rows])


def find_entries(content: bytes, size: int) -> Entries:
    """The entries that fill some bytes.

    Args:
        content: whole data blocks, one behind the other, and at least 12 bytes more.
        size: bytes of the blocks.

    Raises:
        BadEntries: a length that leads out of the bytes, or entries that don't fill them.
    """
    records = Records.of(memoryview(content)[:size], memoryview(content))
    begin, keys = _side_by_side(records) or _walk(content, size)
    values = _big(records, begin + 4)
    key = begin + _HEAD.size
    value = key + keys + len(FAMILY)
    return Entries(records, key, key + keys, value, value + values)


def _big(records: Records, at: Positions) -> np.ndarray:
    """Big-endian ints at any positions."""
    return records.at(">i4", at).astype(np.int64)


def _side_by_side(records: Records) -> tuple[Positions, np.ndarray] | None:
    """Begin and length of key of each entry; None where that can't be found out without a walk."""
    size = records.size
    if size == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    family = _families(records)
    if not len(family) or size < LEAST:
        return None
    keys = np.full(len(family), -1, dtype=np.int64)
    ends = np.zeros(len(family), dtype=np.int64)
    start, row = 0, 0
    for _ in range(_ROUNDS):
        length = int(family[row]) - start - _HEAD.size
        if length < 0:
            return None
        rows = np.flatnonzero(keys < 0)
        begin = family[rows] - _HEAD.size - length
        inside = begin >= 0
        rows, begin = rows[inside], begin[inside]
        fits = (_big(records, begin) == length + _BEFORE) & (records.at(">u2", begin + 8) == length)
        rows, begin = rows[fits], begin[fits]
        keys[rows] = length
        ends[rows] = begin + LEAST + length + _big(records, begin + 4)
        if keys[row] < 0:
            return None
        open_rows = np.flatnonzero(keys < 0)
        if not len(open_rows):
            begin = family - _HEAD.size - keys
            chained = begin[0] == 0 and ends[-1] == size and np.array_equal(ends[:-1], begin[1:])
            return (begin, keys) if chained and bool(np.all(ends - begin >= LEAST + keys)) else None
        row = int(open_rows[0])
        start = int(ends[row - 1])
    return None


def _families(records: Records) -> Positions:
    """Return every position at which the bytes look like those behind a key."""
    data = records.data[: records.size]
    # the rarest of the ten bytes first: keys and values have few of it
    found = np.flatnonzero(data == 0x7F)
    found = found[(found >= 1) & (found + 9 <= records.size)]
    found = found[records.at("<u8", found + 1) == _WORD]
    places: np.ndarray = found[data[found - 1] == 0] - 1
    return places


def _walk(content: bytes, size: int) -> tuple[Positions, np.ndarray]:
    """Begin and length of key of each entry, one after the other: a fifth of a microsecond for each."""
    read, begin, keys, at = _HEAD.unpack_from, [], [], 0
    last = size - LEAST
    while at <= last:
        stored, value, key = read(content, at)
        if value < 0 or key + _BEFORE > stored:
            raise BadEntries(f"an entry {at} bytes into its block has lengths that no entry has")
        if stored != key + _BEFORE:
            raise BadEntries(f"the key {at} bytes into its block has a column, which keys of Hudi's don't have")
        begin.append(at)
        keys.append(key)
        at += LEAST + key + value
    if at != size:
        raise BadEntries("entries don't end where their block ends")
    return np.array(begin, dtype=np.int64), np.array(keys, dtype=np.int64)
