"""Positions of a log block's records in their base file: a header's text in, sorted row numbers out, and back.

The text is base64 of a 64-bit Roaring bitmap in its portable form (LogReaderUtils.encodePositions).
"""

from __future__ import annotations

import base64
import binascii
from array import array

import numpy as np
from pyroaring import BitMap64

from pudi.errors import CorruptError, InvalidArgumentError


def encode_positions(positions: np.ndarray) -> str:
    """The header's text.

    Args:
        positions: row numbers, ascending, each once.

    Raises:
        InvalidArgumentError: they are not ascending, or negative.
    """
    if len(positions) and (positions[0] < 0 or np.any(np.diff(positions) <= 0)):
        raise InvalidArgumentError("positions of records must ascend, each once")
    bitmap = BitMap64(array("Q", positions.astype(np.uint64).tobytes()))
    return base64.b64encode(bitmap.serialize()).decode("ascii")


def decode_positions(text: str, count: int, *, path: str | None = None) -> np.ndarray:
    """The row numbers, ascending, as int64.

    Args:
        text: the header.
        count: how many records the block has: a few bytes could claim any number of rows.
        path: the log file, for messages.

    Raises:
        CorruptError: the text is invalid, or has another number of rows.
    """
    try:
        data = base64.b64decode(text, validate=True)
        bitmap = BitMap64.deserialize(data)  # which checks every container
    except (binascii.Error, ValueError, IndexError) as error:
        raise CorruptError(f"the positions of a log block's records can't be read: {error}", path=path) from error
    if len(bitmap) != count or len(bitmap.serialize()) != len(data):
        raise CorruptError(f"a log block says {len(bitmap)} positions for {count} records", path=path)
    found = np.frombuffer(bitmap.to_array(), dtype=np.uint64).astype(np.int64)
    if np.any(found < 0):
        raise CorruptError("the positions of a log block's records are beyond any file", path=path)
    return found
