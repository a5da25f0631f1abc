"""HFiles written: sorted keys and their values in, the bytes of a file out, without a loop over entries.

Source: HFileWriterImpl, HFileDataBlock, HoodieAvroHFileWriter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from struct import Struct

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pudi.errors import InvalidArgumentError
from pudi.format.avro_encode import join
from pudi.format.hfile_blocks import (
    CODECS,
    DATA,
    FAMILY,
    FILE_INFO,
    LEAST,
    META,
    ROOT_INDEX,
    IndexEntries,
    Trailer,
    checksum_size,
    encode_block,
    encode_info,
    encode_root,
    encode_trailer,
)
from pudi.schema.arrays import content_of, offsets_of, one_array

BLOCK_BYTES = 1 << 20
"""Uncompressed bytes of a block (hoodie.hfile.block.size, and of every HFile block of a log)."""

LEVEL = 3
"""Level of zlib. A million entries of a record index take 1.3 s and 31 bytes each, at zlib's own default of 6, which
Hudi writes with, 2.7 s and 26 bytes: index entries are written with every commit, and read in blocks."""

BLOOM_BLOCK = "bloomFilter"
"""Name of the meta block with the bloom filter of a base file's keys."""

MIN_KEY = "minRecordKey"
"""Name in the file info of a base file's least record key (HoodieAvroHFileReaderImplBase.KEY_MIN_RECORD)."""

MAX_KEY = "maxRecordKey"
"""Name of its greatest."""

BLOOM_TYPE = "bloomFilterTypeCode"
"""Name of the type of its bloom filter."""

_MOST_KEY = 0x7FFF
"""Maximum bytes of a key: its length is a Java short."""

_MOST_FILE = (1 << 31) - 1
"""Most bytes of a file: Hudi's reader keeps offsets as ints."""

_PIECE = 64 << 20
"""Bytes of entries that are assembled per batch."""

_FEW = 100
"""Number of entries up to which joining them one by one takes less time than Arrow's calls."""

_INT, _LONG, _SHORT, _HEAD = Struct(">i"), Struct(">q"), Struct(">H"), Struct(">iiH")


@dataclass(frozen=True, slots=True)
class HFileSettings:
    """Settings of an HFile to be written.

    Attributes:
        codec: `gzip` or `none`.
        block_bytes: uncompressed bytes after which a block is closed.
        level: zlib's, 1 to 9.
        created: when the file is made, epoch milliseconds.
    """

    codec: str = "gzip"
    block_bytes: int = BLOCK_BYTES
    level: int = LEVEL
    created: int = 0


@dataclass(frozen=True, slots=True)
class StoredBloom:
    """The bloom filter of an HFile's keys as it's stored.

    Attributes:
        text: the filter, base64.
        kind: its type by Hudi's name.
    """

    text: bytes
    kind: str = "DYNAMIC_V0"


_USUAL = HFileSettings()


def encode_hfile(
    keys: pa.Array,
    values: pa.Array,
    *,
    avro_schema: str,
    bloom: StoredBloom | None = None,
    settings: HFileSettings = _USUAL,
) -> bytes:
    """The bytes of an HFile.

    Args:
        keys: text or bytes; ascending by their bytes, unique, without nulls.
        values: binary: for each key a record of the schema in Avro, its own key left empty.
        avro_schema: the schema, as JSON text.
        bloom: the bloom filter of the keys, for base files; log blocks have none.
        settings: how it's compressed and divided into blocks.

    Raises:
        InvalidArgumentError: keys that are not sorted, unique, or are too long; more than 2 GiB.
    """
    codec = settings.codec
    if codec not in CODECS.values():
        raise InvalidArgumentError(f"HFiles can't be written with codec {codec!r}: choose gzip or none")
    keys, values = _binary(keys), _binary(values)
    _check(keys, values)
    file = _File(codec, settings.level)
    file.add_data(keys, values, settings.block_bytes)
    metas = IndexEntries([], [], [])
    if bloom is not None:
        begin = file.size
        file.add(META, bloom.text)
        metas = IndexEntries([BLOOM_BLOCK.encode()], [begin], [file.size - begin])
    opening = file.size
    file.add(ROOT_INDEX, encode_root(IndexEntries(file.first, file.offsets, file.sizes), True))
    file.add(ROOT_INDEX, encode_root(metas, False))
    info = file.size
    file.add(FILE_INFO, encode_info(_info(keys, values, avro_schema, bloom, settings.created)))
    total = int(_lengths(keys).sum()) + int(_lengths(values).sum())
    trailer = Trailer(
        file_info=info,
        load_on_open=opening,
        data_blocks=len(file.first),
        meta_blocks=len(metas.keys),
        entries=len(keys),
        first_data=file.offsets[0] if file.offsets else -1,
        last_data=file.offsets[-1] if file.offsets else -1,
        payload=total + LEAST * len(keys),
        codec=next(number for number, name in CODECS.items() if name == codec),
    )
    file.parts.append(encode_trailer(trailer))
    content = b"".join(file.parts)
    if len(content) > _MOST_FILE:
        raise InvalidArgumentError(f"an HFile of {len(content)} bytes: Hudi reads 2 GiB at most; take more file groups")
    return content


class _File:
    """The blocks of a file that is being written, and the index of those of data."""

    def __init__(self, codec: str, level: int) -> None:
        self._codec = codec
        self._level = level
        self.parts: list[bytes] = []
        self.size = 0
        self.first: list[bytes] = []
        self.offsets: list[int] = []
        self.sizes: list[int] = []

    def add(self, magic: bytes, payload: bytes) -> None:
        """A block of another kind than data."""
        self._append(encode_block(magic, payload, self._codec, self._level))

    def add_data(self, keys: pa.Array, values: pa.Array, block_bytes: int) -> None:
        """The blocks of all entries."""
        lengths = _lengths(keys) + _lengths(values) + LEAST
        ends = np.zeros(len(keys) + 1, dtype=np.int64)
        np.cumsum(lengths, out=ends[1:])
        at = 0
        piece, begin, until = memoryview(b""), 0, 0
        while at < len(keys):
            to = _last_row(ends, at, block_bytes)
            if to > until:
                begin, until = at, max(to, _last_row(ends, at, _PIECE))
                piece = _entries(keys.slice(at, until - at), values.slice(at, until - at))
            shift = int(ends[begin])
            payload = piece[int(ends[at]) - shift : int(ends[to]) - shift]
            block = encode_block(DATA, payload, self._codec, self._level, self.offsets[-1] if self.offsets else -1)
            # Hudi's reader takes an entry that begins within the last bytes of a block, as many as it has checksums,
            # for the end of the block (HFileDataBlock.uncompressedContentEndRelativeOffset)
            if int(lengths[to - 1]) <= checksum_size(len(block)) and to - at > 1:
                block_bytes = max(1, int(ends[to] - ends[at]) // 2)
                continue
            self.first.append(keys[at].as_py())
            self.offsets.append(self.size)
            self.sizes.append(len(block))
            self._append(block)
            at = to

    def _append(self, block: bytes) -> None:
        self.parts.append(block)
        self.size += len(block)


def _last_row(ends: np.ndarray, at: int, size: int) -> int:
    """The row behind those from `at` on that have at most `size` bytes together; one row at least."""
    return max(at + 1, int(np.searchsorted(ends, ends[at] + size, "right")) - 1)


def _entries(keys: pa.Array, values: pa.Array) -> memoryview:
    """Entries one behind the other."""
    count = len(keys)
    if count <= _FEW:
        pairs = zip(keys.to_pylist(), values.to_pylist(), strict=True)
        return memoryview(b"".join(part for key, value in pairs for part in _entry(key, value)))
    head = np.empty(count, dtype=[("key", ">i4"), ("value", ">i4"), ("row", ">u2")])
    sizes = _lengths(keys)
    head["key"], head["value"], head["row"] = sizes + 2 + len(FAMILY), _lengths(values), sizes
    heads = pa.FixedSizeBinaryArray.from_buffers(pa.binary(10), count, [None, pa.py_buffer(head.tobytes())])
    pieces = [heads.cast(pa.binary()), keys, pa.scalar(FAMILY, pa.binary()), values, pa.scalar(b"\0", pa.binary())]
    joined = join(pieces, count)
    return content_of(joined)


def _entry(key: bytes, value: bytes) -> tuple[bytes, ...]:
    head = _HEAD.pack(len(key) + 2 + len(FAMILY), len(value), len(key))
    return head, key, FAMILY, value, b"\0"


def _lengths(column: pa.Array) -> npt.NDArray[np.int64]:
    """The number of bytes of each cell of a binary column without nulls."""
    return np.diff(offsets_of(column))


def _info(
    keys: pa.Array, values: pa.Array, avro_schema: str, bloom: StoredBloom | None, created: int
) -> Mapping[str, bytes]:
    """The pairs of the file info (HFileWriterImpl.finishFileInfo, HoodieAvroHFileWriter.close)."""
    count = max(1, len(keys))
    first, last = (keys[0].as_py(), keys[-1].as_py()) if len(keys) else (b"", b"")
    pairs = {
        "hfile.LASTKEY": _SHORT.pack(len(last)) + last if last else b"",
        "hfile.AVG_KEY_LEN": _INT.pack(int(_lengths(keys).sum()) // count),
        "hfile.AVG_VALUE_LEN": _INT.pack(int(_lengths(values).sum()) // count),
        "hfile.CREATE_TIME_TS": _LONG.pack(created),
        "KEY_VALUE_VERSION": _INT.pack(1),
        "MAX_MEMSTORE_TS_KEY": _LONG.pack(0),
        "schema": avro_schema.encode(),
    }
    if bloom is not None:
        pairs |= {MIN_KEY: first, MAX_KEY: last, BLOOM_TYPE: bloom.kind.encode()}
    return pairs


def _binary(column: pa.Array) -> pa.Array:
    whole = one_array(column)
    try:
        return whole.cast(pa.binary())
    except pa.ArrowInvalid as error:
        raise InvalidArgumentError(f"an HFile's keys and values have 2 GiB at most: {error}") from error


def _check(keys: pa.Array, values: pa.Array) -> None:
    if len(keys) != len(values) or keys.null_count or values.null_count:
        raise InvalidArgumentError(f"an HFile of {len(keys)} keys and {len(values)} values, which may not be null")
    if not len(keys):
        return
    longest = int(_lengths(keys).max())
    if longest > _MOST_KEY:
        raise InvalidArgumentError(f"a key of {longest} bytes: those of HFiles have {_MOST_KEY} at most")
    rising = np.asarray(pc.less(keys.slice(0, len(keys) - 1), keys.slice(1)))
    if not rising.all():
        row = int(np.flatnonzero(~rising)[0])
        pair = f"{keys[row].as_py()!r} is followed by {keys[row + 1].as_py()!r}"
        raise InvalidArgumentError(f"the keys of an HFile must be sorted and unique: {pair}")
