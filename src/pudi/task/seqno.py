"""Make values of `_hoodie_commit_seqno`, which differ in the number at their end, without a loop over records."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

_DIGITS = {width: np.array([f"{n:0{width}}" for n in range(10**width)], dtype=f"S{width}") for width in (1, 2, 3)}
"""The numbers of one to three digits as texts with leading zeros, by number of digits."""
_MOST_BYTES = 1 << 30


def sequence_numbers(instant: str, task: int, first: int, count: int) -> pa.ChunkedArray:
    """Return the sequence numbers of a task's records (HoodieRecord.generateSequenceId).

    Args:
        instant: requested time of the write.
        task: number of the task.
        first: number of the first record.
        count: number of records.

    Returns:
        `{instant}_{task}_{number}` for each record; the numbers ascend by one.
    """
    prefix, at, end, chunks = f"{instant}_{task}_".encode(), first, first + count, []
    while at < end:
        digits = len(str(at))
        stop = min(end, 10**digits, at + _MOST_BYTES // (len(prefix) + digits))
        chunks.append(_of_one_width(prefix, at, stop, digits))
        at = stop
    return pa.chunked_array(chunks, pa.string())


def _of_one_width(prefix: bytes, start: int, stop: int, digits: int) -> pa.Array:
    """Return the texts of numbers with equal digit counts, in one array of fixed-size records."""
    widths = [*([digits % 3] if digits % 3 else []), *[3] * (digits // 3)]
    parts = [("prefix", f"S{len(prefix)}"), *((str(place), f"S{width}") for place, width in enumerate(widths))]
    texts = np.empty(stop - start, dtype=np.dtype(parts))
    texts["prefix"] = prefix
    rest = np.arange(start, stop, dtype=np.int32 if stop < 1 << 31 else np.int64)
    for place in reversed(range(len(widths))):
        above = rest // 1000 if place else np.zeros_like(rest)
        texts[str(place)] = _DIGITS[widths[place]].take(rest - above * 1000)
        rest = above
    offsets = np.arange(len(texts) + 1, dtype=np.int32) * np.int32(texts.itemsize)
    return pa.Array.from_buffers(pa.string(), len(texts), [None, pa.py_buffer(offsets), pa.py_buffer(texts)])
