"""Readers of Avro values that hold no others: numbers, texts, bytes; and what a reader is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from pudi.format.avro_bytes import BadAvro, Run, cut, decimals, number_at, sized_at


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
        if self.scale != 1 and len(values) and np.abs(values).max() > 2**63 // self.scale - 1:
            raise BadAvro("a timestamp is out of range")
        return pa.array(values * self.scale).view(self.kind)

    def step(self, data: memoryview, at: int) -> int:
        """See `Reader`."""
        return number_at(data, at)[1]


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
        return number_at(data, at)[1]
