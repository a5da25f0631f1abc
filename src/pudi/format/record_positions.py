"""Positions of a log block's records in their base file: a header's text in, sorted row numbers out, and back.

The text is base64 of a 64-bit Roaring bitmap in its portable form (FORMAT 5.4, LogReaderUtils.encodePositions; the
layout is that of the RoaringFormatSpec): a few dozen lines, so no library that every Spark executor would need.
"""

from __future__ import annotations

import base64
import binascii
from struct import Struct

import numpy as np

from pudi.errors import CorruptError, InvalidArgumentError

_COUNT, _U32, _U16 = Struct("<Q"), Struct("<I"), Struct("<H")
_NO_RUNS, _RUNS = 12346, 12347
_ARRAY_MOST = 4096
"""Most values that a container holds as a list; more are a bitmap."""
_BITMAP_BYTES = 8192
_OFFSETS_FROM = 4
"""Bitmaps with runs have offsets from so many containers on."""
_MOST_ROWS = 2**31
"""More rows than a base file can have; a bitmap of runs could claim any number in a few bytes."""


def encode_positions(positions: np.ndarray) -> str:
    """The header's text.

    Args:
        positions: row numbers, ascending, each once.

    Raises:
        InvalidArgumentError: they are not ascending, or negative.
    """
    if len(positions) and (positions[0] < 0 or np.any(np.diff(positions) <= 0)):
        raise InvalidArgumentError("positions of records must ascend, each once")
    highs = positions >> 32
    parts = [_COUNT.pack(len(np.unique(highs)))]
    for high in np.unique(highs):
        parts += [_U32.pack(int(high)), _bitmap(positions[highs == high] & 0xFFFFFFFF)]
    return base64.b64encode(b"".join(parts)).decode("ascii")


def _bitmap(values: np.ndarray) -> bytes:
    keys, starts = np.unique(values >> 16, return_index=True)
    groups = np.split((values & 0xFFFF).astype("<u2"), starts[1:])
    bodies = [group.tobytes() if len(group) <= _ARRAY_MOST else _bits(group) for group in groups]
    head = np.array([[key, len(group) - 1] for key, group in zip(keys, groups, strict=True)], dtype="<u2")
    first = 8 + 8 * len(groups)
    sizes = [len(body) for body in bodies]
    offsets = np.cumsum([first, *sizes[:-1]]).astype("<u4")
    return b"".join([_U32.pack(_NO_RUNS), _U32.pack(len(groups)), head.tobytes(), offsets.tobytes(), *bodies])


def _bits(group: np.ndarray) -> bytes:
    flags = np.zeros(1 << 16, dtype=np.uint8)
    flags[group] = 1
    return np.packbits(flags, bitorder="little").tobytes()


def decode_positions(text: str, *, path: str | None = None) -> np.ndarray:
    """The row numbers, ascending, as int64.

    Args:
        text: the header.
        path: the log file, for messages.

    Raises:
        CorruptError: it's no such text, or says more rows than a file can have.
    """
    try:
        return _Reader(base64.b64decode(text, validate=True)).positions()
    except (binascii.Error, ValueError) as error:
        raise CorruptError(f"the positions of a log block's records can't be read: {error}", path=path) from error


class _Reader:
    """Reads one bitmap; ValueError where the bytes are none."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._rows = 0

    def positions(self) -> np.ndarray:
        parts = [np.zeros(0, dtype=np.int64)]
        (count,) = _COUNT.unpack(self._take(8))
        for _ in range(min(count, len(self._data))):
            high = self._number(_U32) << 32
            if high >= _MOST_ROWS:
                raise ValueError(f"row {high} is in no file")
            parts += [high + values for values in self._containers()]
        if count > len(self._data) or self._at != len(self._data):
            raise ValueError("the bitmap is longer or shorter than its text")
        found = np.concatenate(parts)
        if np.any(np.diff(found) <= 0):
            raise ValueError("the bitmap is not in order")
        return found

    def _containers(self) -> list[np.ndarray]:
        cookie = self._number(_U32)
        runs = cookie & 0xFFFF == _RUNS
        if not runs and cookie != _NO_RUNS:
            raise ValueError(f"{cookie} begins no Roaring bitmap")
        count = (cookie >> 16) + 1 if runs else self._number(_U32)
        if count > 1 << 16:
            raise ValueError(f"{count} containers are not credible")
        flags = np.zeros(count, dtype=np.uint8)
        if runs:
            packed = np.frombuffer(self._take((count + 7) // 8), dtype=np.uint8)
            flags = np.unpackbits(packed, bitorder="little")[:count]
        heads = np.frombuffer(self._take(4 * count), dtype="<u2").reshape(count, 2).astype(np.int64)
        if not runs or count >= _OFFSETS_FROM:
            self._take(4 * count)
        return [
            (int(key) << 16) + self._container(int(more) + 1, bool(run))
            for (key, more), run in zip(heads, flags, strict=True)
        ]

    def _container(self, size: int, is_run: bool) -> np.ndarray:
        self._rows += size
        if self._rows > _MOST_ROWS:
            raise ValueError("more rows than a file can have")
        if is_run:
            pairs = np.frombuffer(self._take(4 * self._number(_U16)), dtype="<u2").reshape(-1, 2).astype(np.int64)
            lengths = pairs[:, 1] + 1
            if int(lengths.sum()) != size:
                raise ValueError("runs of another length than they say")
            before = np.cumsum(lengths) - lengths
            return np.repeat(pairs[:, 0] - before, lengths) + np.arange(size)
        if size <= _ARRAY_MOST:
            return np.frombuffer(self._take(2 * size), dtype="<u2").astype(np.int64)
        bits = np.unpackbits(np.frombuffer(self._take(_BITMAP_BYTES), dtype=np.uint8), bitorder="little")
        found: np.ndarray = np.flatnonzero(bits)
        if len(found) != size:
            raise ValueError("a bitmap of another size than it says")
        return found

    def _number(self, kind: Struct) -> int:
        return int(kind.unpack(self._take(kind.size))[0])

    def _take(self, size: int) -> bytes:
        if size > len(self._data) - self._at:
            raise ValueError("the bitmap is cut off")
        self._at += size
        return self._data[self._at - size : self._at]
