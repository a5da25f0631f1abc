"""Hadoop's murmur hash of many strings (org.apache.hudi.common.util.hash.MurmurHash)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

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
        ends, content = (memoryview(b"" if buffer is None else buffer) for buffer in strings.buffers()[1:])
        offsets = np.frombuffer(ends, np.int64)[strings.offset : strings.offset + len(strings) + 1]
        data = np.frombuffer(content, np.uint8)
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
