"""32-bit xxHash of many texts; Hudi places records on the ring of consistent hashing by it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

UInt32 = npt.NDArray[np.uint32]

_P1, _P2, _P3, _P4, _P5 = (np.uint32(each) for each in (2654435761, 2246822519, 3266489917, 668265263, 374761393))


def xxh32(texts: pa.Array[Any] | pa.ChunkedArray[Any]) -> UInt32:
    """The hash of each text in UTF-8 with seed 0; of a null that of an empty text. Texts of one length go together."""
    column = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], pa.string())
    strings = column.cast(pa.large_binary()).fill_null(b"")
    found = np.zeros(len(strings), np.uint32)
    if not len(strings):
        return found
    offsets = np.frombuffer(strings.buffers()[1], np.int64)[strings.offset : strings.offset + len(strings) + 1]
    data = strings.buffers()[2]
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
