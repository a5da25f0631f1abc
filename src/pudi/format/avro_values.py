"""Decode Avro values at many positions of a buffer together: positions in, numpy arrays and Arrow columns out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.format.varints import read_zigzag

_PADDING = 12
"""Padding behind the records, so that a number can be read before its length is known."""

Positions = np.ndarray


class BadAvro(ValueError):
    """The bytes are not what their schema says."""


@dataclass(slots=True)
class Records:
    """Bytes in which records lie, and views of them at every offset.

    Args:
        data: the bytes, `_PADDING` more than the records have.
        size: bytes of the records.
    """

    data: np.ndarray
    size: int

    @classmethod
    def of(cls, content: bytes | memoryview, padded: memoryview | None = None) -> Records:
        """Records in some bytes; these are copied, unless they're given with enough others behind them."""
        view = memoryview(content)
        if padded is not None and len(padded) >= len(view) + _PADDING:
            return cls(np.frombuffer(padded, dtype=np.uint8), len(view))
        data = np.zeros(len(view) + _PADDING, dtype=np.uint8)
        data[: len(view)] = np.frombuffer(view, dtype=np.uint8)
        return cls(data, len(view))

    def at(self, dtype: str, positions: Positions) -> np.ndarray:
        """Numbers of a fixed size at any offsets."""
        kind = np.dtype(dtype)
        shape = (len(self.data) - kind.itemsize + 1,)
        windows: np.ndarray = np.ndarray(shape, kind, self.data.data, strides=(1,))
        return cast("np.ndarray", windows[positions])


_SQUEEZE = tuple(
    (np.uint64(high), np.uint64(low), np.uint64(shift))
    for high, low, shift in (
        (0x7F007F007F007F00, 0x007F007F007F007F, 1),
        (0x3FFF00003FFF0000, 0x00003FFF00003FFF, 2),
        (0x0FFFFFFF00000000, 0x000000000FFFFFFF, 4),
    )
)
"""Bytes of seven bits moved together, in pairs, fours and eights: groups that move, groups that stay, by how much."""


_SMALL = np.array([(byte >> 1) ^ -(byte & 1) for byte in range(0x80)], dtype=np.int64)
"""The numbers of one byte."""


def varints(records: Records, at: Positions) -> tuple[np.ndarray, np.ndarray | int, np.ndarray | bool]:
    """Zigzag numbers at any positions within the records: values, how many bytes each takes, and whether it's one."""
    first = records.data[at]
    if not len(first) or first.max() < 0x80:
        return _SMALL[first], 1, True
    word = records.at("<u8", at)
    stop = ~word & np.uint64(0x8080808080808080)
    kept = stop ^ (stop - np.uint64(1))  # all bits up to the one that ends the number
    word &= kept & np.uint64(0x7F7F7F7F7F7F7F7F)
    for high, low, shift in _SQUEEZE:
        word = (word & low) | ((word & high) >> shift)
    size = ((kept & np.uint64(0x0101010101010101)) * np.uint64(0x0101010101010101)) >> np.uint64(56)
    lengths = size.astype(np.int64)
    fits: np.ndarray | bool = True
    rows = np.flatnonzero(stop == 0)
    if len(rows):  # numbers of nine and ten bytes
        ninth, tenth = records.data[at[rows] + 8], records.data[at[rows] + 9]
        ten = (ninth & 0x80) != 0
        last = np.where(ten, tenth, 0).astype(np.uint64)
        word[rows] |= ((ninth & 0x7F).astype(np.uint64) << np.uint64(56)) | (last << np.uint64(63))
        lengths[rows] = np.where(ten, 10, 9)
        fits = np.ones(len(at), dtype=bool)
        fits[rows[last > 1]] = False
    return ((word >> np.uint64(1)) ^ (np.uint64(0) - (word & np.uint64(1)))).view(np.int64), lengths, fits


def sized_at(data: memoryview, at: int) -> int:
    """Return the end position of the text or bytes value that starts at a position."""
    length, at = read_zigzag(data, at)
    if length < 0:
        raise BadAvro("a text or a list is longer than its record")
    return at + length


@dataclass(slots=True)
class Run:
    """A run of values that are read side by side.

    Attributes:
        records: the bytes.
        at: where the next value of each begins; ascending.
        end: where the bytes of each end.
    """

    records: Records
    at: Positions
    end: Positions

    def part(self, rows: np.ndarray) -> Run:
        """Some of the values."""
        return Run(self.records, self.at[rows], self.end[rows])

    def move(self, size: np.ndarray | int) -> None:
        """Step over some bytes of each, which must be there."""
        self.at = self.at + size
        if np.any(self.at > self.end):
            raise BadAvro("a record ends before its last field")

    def varint(self) -> np.ndarray:
        """The next zigzag numbers, as int64."""
        values, lengths, fits = varints(self.records, self.at)
        if not np.all(fits):
            raise BadAvro("a number has more than 64 bits")
        self.move(lengths)
        return values

    def passes(self, number: int) -> bool:
        """Step over the next zigzag number if all have this one, of one byte: branches mostly are the same."""
        byte = (number << 1) ^ (number >> 63)
        if byte >= 0x80 or np.any(self.records.data[self.at] != byte):
            return False
        self.move(1)
        return True

    def sizes(self) -> np.ndarray:
        """The next numbers, as lengths of bytes that are there."""
        lengths = self.varint()
        if np.any((lengths < 0) | (lengths > self.end - self.at)):
            raise BadAvro("a text or a list is longer than its record")
        return lengths


def cut(records: Records, begin: Positions, end: Positions, kind: pa.DataType) -> pa.Array:
    """The bytes between ascending positions, as text or bytes.

    The positions are the offsets of an array that lies in the records' own bytes and whose every other value is
    needed: Arrow copies them out.

    Raises:
        BadAvro: text that isn't UTF-8.
    """
    if not len(begin):
        return pa.nulls(0, kind)
    wide = records.size >= 2**31
    offsets = np.empty(2 * len(begin), dtype=np.int64 if wide else np.int32)
    offsets[0::2], offsets[1::2] = begin, end
    layout = pa.large_binary() if wide else pa.binary()
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(records.data)]
    spaced = pa.Array.from_buffers(layout, len(offsets) - 1, buffers)
    values = spaced.take(pa.array(np.arange(0, len(offsets), 2)))
    try:
        return values if values.type == kind else pc.cast(values, kind)
    except pa.ArrowInvalid as error:
        raise BadAvro(str(error)) from error


def decimals(records: Records, begin: Positions, end: Positions, kind: pa.DataType) -> pa.Array:
    """Big-endian two's complement numbers between positions as decimals.

    Raises:
        BadAvro: a number of more bytes or digits than the type has.
    """
    lengths = end - begin
    if np.any(lengths > 16):
        raise BadAvro("a decimal has more than 16 bytes")
    place = np.arange(16)
    cells = records.data[np.maximum(end[:, None] - 1 - place, 0)]
    top = np.where(lengths > 0, records.data[begin], 0)
    sign = np.where(top >= 0x80, np.uint8(0xFF), np.uint8(0))
    words = np.where(place < lengths[:, None], cells, sign[:, None]).astype(np.uint8)
    made = pa.Array.from_buffers(kind, len(lengths), [None, pa.py_buffer(words.tobytes())])
    try:
        made.validate(full=True)
    except pa.ArrowInvalid as error:
        raise BadAvro(str(error)) from error
    return made


class Reader(Protocol):
    """Reads values of one schema."""

    def read(self, run: Run, keep: bool) -> pa.Array:
        """The values as Arrow; None where they are only stepped over."""

    def step(self, data: memoryview, at: int) -> int:
        """Return the end of the value at a position. Checks only that the end isn't before the start."""


@dataclass(frozen=True, slots=True)
class Number:
    """Ints and longs, and the dates and times that they stand for; `scale` makes their unit microseconds."""

    kind: pa.DataType
    bits: int = 64
    scale: int = 1

    def read(self, run: Run, keep: bool) -> pa.Array:
        """See `Reader`."""
        values = run.varint()
        if not keep:
            return None
        if self.bits == 32:
            narrow = values.astype(np.int32)
            if np.any(narrow != values):
                raise BadAvro("an int has more than 32 bits")
            return pa.array(narrow).view(self.kind)
        most = 2**63 // self.scale - 1
        if self.scale != 1 and np.any((values < -most) | (values > most)):
            raise BadAvro("a timestamp is out of range")
        return pa.array(values * self.scale).view(self.kind)

    def step(self, data: memoryview, at: int) -> int:
        """See `Reader`."""
        return read_zigzag(data, at)[1]


@dataclass(frozen=True, slots=True)
class Float:
    """Floats and doubles."""

    kind: pa.DataType
    dtype: str
    size: int

    def read(self, run: Run, keep: bool) -> pa.Array:
        """See `Reader`."""
        begin = run.at
        run.move(self.size)
        return pa.array(run.records.at(self.dtype, begin), self.kind) if keep else None

    def step(self, data: memoryview, at: int) -> int:
        """See `Reader`."""
        return at + self.size


@dataclass(frozen=True, slots=True)
class Boolean:
    """One byte."""

    def read(self, run: Run, keep: bool) -> pa.Array:
        """See `Reader`."""
        values = run.records.data[run.at]
        run.move(1)
        if np.any(values > 1):
            raise BadAvro("a boolean is neither 0 nor 1")
        return pa.array(values.astype(bool)) if keep else None

    def step(self, data: memoryview, at: int) -> int:
        """See `Reader`."""
        return at + 1


@dataclass(frozen=True, slots=True)
class Bytes:
    """Texts, bytes, and fixed ones where `size` says how many."""

    kind: pa.DataType
    size: int | None = None

    def read(self, run: Run, keep: bool) -> pa.Array:
        """See `Reader`."""
        lengths = run.sizes() if self.size is None else self.size
        begin = run.at
        run.move(lengths)
        return cut(run.records, begin, run.at, self.kind) if keep else None

    def step(self, data: memoryview, at: int) -> int:
        """See `Reader`."""
        if self.size is not None:
            return at + self.size
        return sized_at(data, at)


@dataclass(frozen=True, slots=True)
class Decimal:
    """Big-endian two's complement numbers, of a fixed size or with their length before them."""

    kind: pa.DataType
    size: int | None = None

    def read(self, run: Run, keep: bool) -> pa.Array:
        """See `Reader`."""
        lengths = run.sizes() if self.size is None else np.full(len(run.at), self.size, dtype=np.int64)
        run.move(lengths)
        if not keep:
            return None
        return decimals(run.records, run.at - lengths, run.at, self.kind)

    def step(self, data: memoryview, at: int) -> int:
        """See `Reader`."""
        if self.size is not None:
            return at + self.size
        return sized_at(data, at)


@dataclass(frozen=True, slots=True)
class Enum:
    """The place of a symbol among those of the schema."""

    symbols: tuple[str, ...]

    def read(self, run: Run, keep: bool) -> pa.Array:
        """See `Reader`."""
        chosen = run.varint()
        if np.any((chosen < 0) | (chosen >= len(self.symbols))):
            raise BadAvro("an enum has no such symbol")
        return pa.array(self.symbols, pa.string()).take(pa.array(chosen)) if keep else None

    def step(self, data: memoryview, at: int) -> int:
        """See `Reader`."""
        return read_zigzag(data, at)[1]
