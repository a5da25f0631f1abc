"""Hash functions of Hudi, Hadoop and Java, of many texts at once where records are hashed.

Source: HashID, MurmurHash (org.apache.hudi.common.util.hash), String.hashCode, xxHash.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from pudi.schema.arrays import offsets_of, one_array

UInt32 = npt.NDArray[np.uint32]

_M = np.uint32(0x5BD1E995)
# keys are hashed in batches that fit into the processor's cache
_BATCH = 1 << 14


@dataclass(frozen=True, slots=True)
class KeyBatch:
    """The seed-independent parts of the hashes of some keys, longest keys first.

    Attributes:
        order: place of each key in the array that it came from, counted from the batch's first.
        lengths: length of each key in bytes.
        words: the j-th array is the j-th word of four bytes, mixed, of those keys that have one (the first ones).
        tails: the one to three bytes that fill no word, each with its sign extended.
        tail_factors: factor of the hash after the tail: 1 without a tail.
    """

    order: npt.NDArray[np.int64]
    lengths: UInt32
    words: tuple[UInt32, ...]
    tails: UInt32
    tail_factors: UInt32

    def hash(self, seeds: UInt32) -> UInt32:
        """32-bit hash of each key with its seed (the signed one of Java as unsigned)."""
        value = seeds ^ self.lengths
        for word in self.words:
            part = value[: len(word)]
            np.multiply(part, _M, out=part)
            np.bitwise_xor(part, word, out=part)
        value ^= self.tails
        value *= self.tail_factors
        value ^= value >> np.uint32(13)
        value *= _M
        value ^= value >> np.uint32(15)
        return value

    def where(self, mask: npt.NDArray[np.bool_]) -> KeyBatch:
        """Return the keys where `mask` is true."""
        words = (word[mask[: len(word)]] for word in self.words)
        return KeyBatch(
            self.order[mask],
            self.lengths[mask],
            tuple(word for word in words if len(word)),
            self.tails[mask],
            self.tail_factors[mask],
        )


def key_batches(keys: pa.ChunkedArray[Any]) -> Iterator[KeyBatch]:
    """Keys as large binary, in batches, in order; a null counts as empty."""
    for chunk in keys.chunks:
        strings = chunk.fill_null(b"")
        if len(strings) == 0:
            continue
        offsets, content = offsets_of(strings), strings.buffers()[2]
        data = np.frombuffer(b"" if content is None else content, np.uint8)
        for start in range(0, len(strings), _BATCH):
            yield _key_batch(data, offsets[start : start + _BATCH + 1])


def _key_batch(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> KeyBatch:
    lengths = np.diff(offsets)
    order = np.argsort(-(lengths >> 2), kind="stable")
    lengths, starts, ends = lengths[order], offsets[:-1][order], offsets[1:][order]
    # Each byte is where a word may begin, so the view is unaligned on purpose.
    every_word: npt.NDArray[Any] = np.ndarray((max(len(data) - 3, 0),), "<u4", data, strides=(1,))
    having = np.searchsorted(-(lengths >> 2), -np.arange(int(lengths[0]) >> 2), side="left")
    words = tuple(_mix(every_word[starts[:count] + 4 * place]) for place, count in enumerate(having))
    tails = np.zeros(len(lengths), dtype=np.int32)
    for place in (1, 2, 3):
        has = np.flatnonzero((lengths & 3) >= place)
        tails[has] ^= data[ends[has] - place].view(np.int8).astype(np.int32) << (8 * (place - 1))
    factors = np.where((lengths & 3) > 0, _M, np.uint32(1))
    return KeyBatch(order, lengths.astype(np.uint32), words, tails.view(np.uint32), factors)


def _mix(word: UInt32) -> UInt32:
    word = word.astype(np.uint32) * _M
    word ^= word >> np.uint32(24)
    word *= _M
    return word


_P1, _P2, _P3, _P4, _P5 = (np.uint32(each) for each in (2654435761, 2246822519, 3266489917, 668265263, 374761393))


def xxh32(texts: pa.Array[Any] | pa.ChunkedArray[Any]) -> UInt32:
    """The hash of each text in UTF-8 with seed 0; of a null that of an empty text. Texts of one length go together."""
    strings = one_array(texts).cast(pa.large_binary()).fill_null(b"")
    found = np.zeros(len(strings), np.uint32)
    if not len(strings):
        return found
    offsets, data = offsets_of(strings), strings.buffers()[2]
    content = np.frombuffer(b"" if data is None else data, np.uint8)
    sizes = np.diff(offsets)
    for size in np.unique(sizes):
        rows = np.flatnonzero(sizes == size)
        found[rows] = _of_size(content[offsets[rows, None] + np.arange(size)], int(size))
    return found


def _of_size(rows: npt.NDArray[np.uint8], size: int) -> UInt32:
    """The hashes of texts of one length, one a row."""
    words = np.ascontiguousarray(rows[:, : size // 4 * 4]).view("<u4").astype(np.uint32)
    at = 0
    with np.errstate(over="ignore"):
        if size >= 16:
            lanes = [_start(np.uint32(0), lane, len(rows)) for lane in range(4)]
            while (at + 4) * 4 <= size:
                lanes = [_round(each, words[:, at + lane]) for lane, each in enumerate(lanes)]
                at += 4
            turns = (1, 7, 12, 18)
            hashes = sum((_rotated(each, turn) for each, turn in zip(lanes, turns, strict=True)), np.uint32(0))
        else:
            hashes = np.full(len(rows), _P5, np.uint32)
        hashes = np.asarray(hashes, np.uint32) + np.uint32(size)
        for word in range(at, size // 4):
            hashes = _rotated(hashes + words[:, word] * _P3, 17) * _P4
        for place in range(size // 4 * 4, size):
            hashes = _rotated(hashes + rows[:, place].astype(np.uint32) * _P5, 11) * _P1
        hashes = (hashes ^ (hashes >> np.uint32(15))) * _P2
        hashes = (hashes ^ (hashes >> np.uint32(13))) * _P3
        return np.asarray(hashes ^ (hashes >> np.uint32(16)), np.uint32)


def _start(seed: np.uint32, lane: int, count: int) -> UInt32:
    value = (seed + _P1 + _P2, seed + _P2, seed, seed - _P1)[lane]
    return np.full(count, value, np.uint32)


def _round(lane: UInt32, words: UInt32) -> UInt32:
    mixed: UInt32 = _rotated(lane + words * _P2, 13) * _P1
    return mixed


def _rotated(values: UInt32, bits: int) -> UInt32:
    turned: UInt32 = (values << np.uint32(bits)) | (values >> np.uint32(32 - bits))
    return turned


Int64 = npt.NDArray[np.int64]

_BASE = np.uint32(31)
_INVERSE = np.uint32(pow(31, -1, 1 << 32))
# texts are hashed in batches that fit into the processor's cache
_PORTION = 1 << 16


def hash_code(text: str) -> int:
    """Return Java's `String.hashCode` of one text: a signed 32-bit integer."""
    units = text.encode() if text.isascii() else memoryview(text.encode("utf-16-le")).cast("H")
    code = 0
    for unit in units:
        code = (31 * code + unit) & 0xFFFFFFFF
    return code - (1 << 32) if code >= 1 << 31 else code


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts in UTF-8 that can be hashed by parts.

    With prefix sums p of unit · 31^-place, a part from a to b hashes to (p[b] - p[a]) · 31^(b-1), all modulo 2^32.

    Attributes:
        content: the texts one after another.
        starts: where each begins in `content`.
        stops: where each ends.
    """

    content: npt.NDArray[np.uint8]
    starts: Int64
    stops: Int64
    _units: Int64 | None
    _sums: UInt32
    _powers: UInt32

    @classmethod
    def of(cls, content: npt.NDArray[np.uint8], offsets: Int64) -> Texts:
        """Texts that lie between each two offsets."""
        places, units = None, content.astype(np.uint32)
        if len(content) and int(content.max()) >= 0x80:
            # a byte that begins a character of four stands for two UTF-16 units, one that begins any other for one
            width = np.where(content >= 0xF0, 2, np.where((content & 0xC0) == 0x80, 0, 1))
            places = np.concatenate([[0], np.cumsum(width)])
            units = np.frombuffer(content.tobytes().decode("utf-8").encode("utf-16-le"), "<u2").astype(np.uint32)
        falling = np.multiply.accumulate(np.full(len(units), _INVERSE), dtype=np.uint32)
        rising = np.multiply.accumulate(np.full(len(units), _BASE), dtype=np.uint32)
        sums = np.concatenate([np.zeros(1, np.uint32), np.cumsum(units * falling, dtype=np.uint32)])
        return cls(content, offsets[:-1], offsets[1:], places, sums, np.concatenate([np.ones(1, np.uint32), rising]))

    def hash_codes(self, starts: Int64, stops: Int64) -> UInt32:
        """The bits of `String.hashCode`, which is over UTF-16 units, of what lies between places in `content`."""
        if self._units is not None:
            starts, stops = self._units[starts], self._units[stops]
        hashes: UInt32 = (self._sums[stops] - self._sums[starts]) * self._powers[stops]
        return hashes

    def cut(self, starts: Int64, stops: Int64) -> pa.Array[Any]:
        """Return the texts between positions in `content`, which ascend, lie between characters and don't overlap."""
        if not len(starts):
            return pa.array([], pa.large_string())
        offsets = np.empty(2 * len(starts), dtype=np.int64)
        offsets[0::2], offsets[1::2] = starts, stops
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self.content)]
        spaced = pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, buffers)
        return spaced.take(pa.array(np.arange(0, len(offsets), 2)))

    def equal(self, starts: Int64, stops: Int64, text: str) -> npt.NDArray[np.bool_]:
        """Return a mask of the spans in `content` that equal `text`."""
        wanted = np.frombuffer(text.encode(), np.uint8)
        same: npt.NDArray[np.bool_] = (stops - starts) == len(wanted)
        rows = np.flatnonzero(same)
        same[rows] = (self.content[starts[rows, None] + np.arange(len(wanted))] == wanted).all(axis=1)
        return same


def portions(texts: pa.Array[Any] | pa.ChunkedArray[Any]) -> Iterator[Texts]:
    """Texts in portions, in order; a null counts as empty.

    Args:
        texts: strings of any Arrow string type.
    """
    for chunk in texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]:
        strings = chunk.cast(pa.large_string()).fill_null("")
        if not len(strings):
            continue
        offsets, data = offsets_of(strings), strings.buffers()[2]
        content = np.frombuffer(b"" if data is None else data, np.uint8)
        first = 0
        while first < len(strings):  # at least one text each
            last = int(np.searchsorted(offsets, offsets[first] + _PORTION, side="right")) - 1
            last = min(max(last, first + 1), len(strings))
            start, stop = int(offsets[first]), int(offsets[last])
            yield Texts.of(content[start:stop], offsets[first : last + 1] - start)
            first = last


_SEED = 0xFFFFFFFFDABADABA
"""HashID's seed, an int, as Java widens it to a long."""


def xx_hash(text: str) -> str:
    """Return the 64-bit xxHash of a text in Base64."""
    return base64.b64encode(xxhash.xxh64_digest(text.encode(), _SEED)).decode()


def md5_hash(text: str) -> str:
    """Return the MD5 hash of a text in Base64."""
    return base64.b64encode(hashlib.md5(text.encode(), usedforsecurity=False).digest()).decode()


def path_hash(root: str) -> str:
    """Return the hexadecimal hash of a table's root (HashID.generateXXHashAsString): the name of an implicit lock."""
    return f"{xxhash.xxh64_intdigest(root.encode(), _SEED):016X}"
