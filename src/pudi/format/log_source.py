"""The bytes of a log file to scan for blocks: all in memory, or windows of a stored file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

_WINDOW = 64 << 10
"""Bytes fetched for the head of a block, which is most often smaller."""
_SEARCH = 4 << 20
"""Bytes per request while scanning for the start of a block."""


class LogSource(Protocol):
    """A log file's bytes."""

    @property
    def size(self) -> int:
        """Number of bytes."""

    def at(self, start: int, length: int) -> memoryview:
        """Some that are there."""

    def find(self, text: bytes, start: int) -> int:
        """Return the next position of `text`, or the file's size if there is none."""


class HeldLog:
    """A log file that is in memory as a whole.

    Args:
        data: its bytes.
    """

    def __init__(self, data: bytes | memoryview) -> None:
        self._view = memoryview(data)
        self._data = data if isinstance(data, bytes) else bytes(self._view)
        self.size = len(self._view)

    def at(self, start: int, length: int) -> memoryview:
        """Some bytes, without a copy."""
        return self._view[start : start + length]

    def find(self, text: bytes, start: int) -> int:
        """Return the next position of `text`, or the file's size if there is none."""
        found = self._data.find(text, start)
        return self.size if found < 0 else found


class StoredLog:
    """A log file that is read in windows.

    Args:
        read: reads a number of existing bytes from an offset on.
        size: the file's bytes.
    """

    def __init__(self, read: Callable[[int, int], bytes], size: int) -> None:
        self._read = read
        self._first = 0
        self._buffer = memoryview(b"")
        self.size = size

    def at(self, start: int, length: int) -> memoryview:
        """Some bytes, and those behind them for the next call."""
        begin = start - self._first
        if begin < 0 or begin + length > len(self._buffer):
            wanted = min(max(length, _WINDOW), self.size - start)
            self._first, self._buffer = start, memoryview(self._read(start, wanted))
            begin = 0
        return self._buffer[begin : begin + length]

    def find(self, text: bytes, start: int) -> int:
        """Return the next position of `text`, or the file's size if there is none."""
        while start < self.size:
            data = self._read(start, min(_SEARCH, self.size - start))
            found = data.find(text)
            if found >= 0:
                return start + found
            start += max(1, len(data) - len(text) + 1) if start + len(data) < self.size else len(data)
        return self.size
