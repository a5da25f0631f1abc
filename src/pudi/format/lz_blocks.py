"""Blocks of LZ4 and LZO (LZO1X), decoded byte by byte: for the footers of ORC files, which are small.

pyarrow decodes such columns; of footers it doesn't tell the length that its decoder of LZ4 has to know.
Source: https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md; Documentation/staging/lzo.rst of the Linux kernel.
"""

from __future__ import annotations

from pudi.errors import CorruptError

_LONGEST_LITERAL_RUN = 4
"""The state of an LZO stream after four literals or more; below that, it's their number."""


def decode_lz4(block: bytes, most: int) -> bytes:
    """Decode a block of LZ4.

    Args:
        block: the block, without a frame.
        most: bytes that it decodes to at most.

    Raises:
        CorruptError: it's damaged, or decodes to more.
    """
    reader = _Reader(block, most)
    while not reader.is_over():
        token = reader.byte()
        reader.literals(reader.length(token >> 4, 15, ends_with=255))
        if reader.is_over():
            break
        distance = reader.byte() | reader.byte() << 8
        reader.copy(distance, 4 + reader.length(token & 15, 15, ends_with=255))
    return bytes(reader.out)


def decode_lzo(block: bytes, most: int) -> bytes:
    """Decode a block of LZO1X; arguments and errors as of `decode_lz4`."""
    reader, state = _Reader(block, most), 0
    if block and block[0] > 17:
        count = reader.byte() - 17
        reader.literals(count)
        state = min(count, _LONGEST_LITERAL_RUN)
    while not reader.is_over():
        code = reader.byte()
        if code < 16 and state == 0:
            reader.literals(3 + reader.length(code, 0, ends_with=0, base=15))
            state = _LONGEST_LITERAL_RUN
            continue
        distance, length, state = _match(reader, code, state)
        if not distance:  # the end of the stream
            break
        reader.copy(distance, length)
        reader.literals(state)
    return bytes(reader.out)


def _match(reader: _Reader, code: int, state: int) -> tuple[int, int, int]:
    """Return distance and length of a match, and how many literals follow it; distance 0 for the stream's end."""
    if code >= 64:
        length = 5 + (code >> 5 & 3) if code >= 128 else 3 + (code >> 5 & 1)
        return (reader.byte() << 3) + (code >> 2 & 7) + 1, length, code & 3
    if code < 16:
        far = state == _LONGEST_LITERAL_RUN
        return (reader.byte() << 2) + (code >> 2) + (2049 if far else 1), 3 if far else 2, code & 3
    near = code >= 32
    length = 2 + (
        reader.length(code & 31, 0, ends_with=0, base=31) if near else reader.length(code & 7, 0, ends_with=0, base=7)
    )
    word = reader.byte() | reader.byte() << 8
    distance = (word >> 2) + 1 if near else (code & 8) << 11 | word >> 2
    return (distance if near or not distance else distance + 16384), length, word & 3


class _Reader:
    """A block that is being decoded."""

    def __init__(self, block: bytes, most: int) -> None:
        self.out = bytearray()
        self._block = block
        self._most = most
        self._at = 0

    def is_over(self) -> bool:
        return self._at >= len(self._block)

    def byte(self) -> int:
        if self.is_over():
            raise CorruptError("a compressed block that is cut off")
        self._at += 1
        return self._block[self._at - 1]

    def length(self, said: int, continues: int, *, ends_with: int, base: int = 0) -> int:
        """A length whose first part is `said`; if that is `continues`, further bytes add to it and to `base`.

        LZ4's go on after bytes of 255, LZO's after bytes of 0, which stand for 255.
        """
        if said != continues:
            return said
        total = said + base
        while (added := self.byte()) == ends_with:
            total += 255
            self._within(total)
        return total + added

    def literals(self, count: int) -> None:
        end = self._at + count
        if end > len(self._block):
            raise CorruptError("a compressed block that is cut off")
        self._within(count)
        self.out += self._block[self._at : end]
        self._at = end

    def copy(self, distance: int, length: int) -> None:
        """Repeat what is `distance` bytes back; a match may overlap what it makes."""
        start = len(self.out) - distance
        if distance <= 0 or start < 0:
            raise CorruptError("a compressed block that refers to what lies before it")
        self._within(length)
        pattern = self.out[start : start + length]
        self.out += (pattern * (length // len(pattern) + 1))[:length] if len(pattern) < length else pattern

    def _within(self, count: int) -> None:
        if len(self.out) + count > self._most:
            raise CorruptError("a compressed block that decodes to more than its file says")
