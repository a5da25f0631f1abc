"""Java's `String.hashCode` of many texts; Hudi assigns records to buckets by it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

UInt32 = npt.NDArray[np.uint32]
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
        ends, data = (memoryview(b"" if buffer is None else buffer) for buffer in strings.buffers()[1:])
        offsets = np.frombuffer(ends, np.int64)[strings.offset : strings.offset + len(strings) + 1]
        content = np.frombuffer(data, np.uint8)
        first = 0
        while first < len(strings):  # at least one text each
            last = int(np.searchsorted(offsets, offsets[first] + _PORTION, side="right")) - 1
            last = min(max(last, first + 1), len(strings))
            start, stop = int(offsets[first]), int(offsets[last])
            yield Texts.of(content[start:stop], offsets[first : last + 1] - start)
            first = last
