"""Runs of Avro records as Arrow columns: bytes and their schema in, a table out, without a loop over records.

All records are read side by side, field by field: where each one is in the bytes is a numpy array, and every step of
Avro's decoding (a union's branch, a varint, a text) is taken for all of them at once. The types are those of
`pudi.schema.avro_to_arrow`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from pudi.format.avro_bytes import BadAvro, Positions, Records, Run, cut, decimals
from pudi.schema import avro_to_arrow


class Reader(Protocol):
    """Reads values of one schema."""

    def read(self, run: Run, keep: bool) -> pa.Array:
        """The values as Arrow; None where they are only stepped over."""


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


@dataclass(frozen=True, slots=True)
class Float:
    """Floats and doubles."""

    kind: pa.DataType
    dtype: str
    size: int

    def read(self, run: Run, keep: bool) -> pa.Array:
        """See `Reader`."""
        values = run.records.at(self.dtype, run.at)
        run.move(self.size)
        return pa.array(values, self.kind) if keep else None


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


@dataclass(frozen=True, slots=True)
class Optional:
    """A union of null and one type."""

    inner: Reader
    branch: int
    branches: int

    def read(self, run: Run, keep: bool) -> pa.Array:
        """See `Reader`."""
        branches = run.varint()
        if np.any((branches < 0) | (branches >= self.branches)):
            raise BadAvro("a union has no such branch")
        present = branches == self.branch
        if np.all(present):
            return self.inner.read(run, keep)
        rows = np.flatnonzero(present)
        part = run.part(rows)
        values = self.inner.read(part, keep)
        at = run.at.copy()
        at[rows] = part.at
        run.at = at
        if not keep:
            return None
        return values.take(pa.array(np.cumsum(present) - 1, mask=~present))


@dataclass(frozen=True, slots=True)
class Record:
    """A struct; of the outermost one, some fields only may be wanted."""

    fields: tuple[tuple[pa.Field, Reader], ...]

    def read(self, run: Run, keep: bool) -> pa.Array:
        """See `Reader`."""
        columns = [reader.read(run, keep) for _, reader in self.fields]
        return pa.StructArray.from_arrays(columns, fields=[field for field, _ in self.fields]) if keep else None


@dataclass(frozen=True, slots=True)
class List:
    """An array, or a map where `key` reads its keys."""

    kind: pa.DataType
    item: Reader
    key: Reader | None = None

    def read(self, run: Run, keep: bool) -> pa.Array:
        """See `Reader`."""
        count = len(run.at)
        at, left = run.at.copy(), np.zeros(count, dtype=np.int64)
        open_rows = np.arange(count)
        keys, items, owners = [], [], []
        while len(open_rows):
            open_rows = self._open_blocks(run, at, left, open_rows)
            if not len(open_rows):
                break
            part = Run(run.records, at[open_rows], run.end[open_rows])
            if self.key is not None:
                keys.append(self.key.read(part, keep))
            items.append(self.item.read(part, keep))
            owners.append(open_rows)
            at[open_rows] = part.at
            left[open_rows] -= 1
        run.at = at
        return self._compose(count, keys, items, owners) if keep else None

    @staticmethod
    def _open_blocks(run: Run, at: Positions, left: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The lists that have another item; those at a block's end have the next block's count read."""
        due = rows[left[rows] == 0]
        if len(due):
            part = Run(run.records, at[due], run.end[due])
            counts = part.varint()
            sized = np.flatnonzero(counts < 0)
            if len(sized):  # a negative count is followed by the block's bytes
                inner = part.part(sized)
                inner.varint()
                moved = part.at.copy()
                moved[sized] = inner.at
                part.at = moved
                counts = np.abs(counts)
            if np.any((counts < 0) | (counts > part.end - part.at)):
                raise BadAvro("a list has more items than its record has bytes")
            left[due] = counts
            at[due] = part.at
        more: np.ndarray = rows[left[rows] > 0]
        return more

    def _compose(self, count: int, keys: list[pa.Array], items: list[pa.Array], owners: list[np.ndarray]) -> pa.Array:
        owner = np.concatenate(owners) if owners else np.zeros(0, dtype=np.int64)
        offsets = np.zeros(count + 1, dtype=np.int32)
        offsets[1:] = np.cumsum(np.bincount(owner, minlength=count))
        order = pa.array(np.argsort(owner, kind="stable"))
        if self.key is None:
            values = _joined(items, self.kind.value_type, order)
            return pa.ListArray.from_arrays(pa.array(offsets), values, type=self.kind)
        names = _joined(keys, self.kind.key_type, order)
        values = _joined(items, self.kind.item_type, order)
        return pa.MapArray.from_arrays(pa.array(offsets), names, values, type=self.kind)


def _joined(parts: list[pa.Array], kind: pa.DataType, order: pa.Array) -> pa.Array:
    return pa.concat_arrays(parts).take(order) if parts else pa.nulls(0, kind)


def read_records(
    schema_json: str, records: Records, begin: Positions, end: Positions, columns: Collection[str] | None = None
) -> pa.Table:
    """Records as a table.

    Args:
        schema_json: Avro schema of the records.
        records: the bytes.
        begin: where each record begins; ascending.
        end: where each ends.
        columns: the top-level fields that are wanted; None for all.

    Raises:
        BadAvro: the bytes are not what the schema says.
        CorruptError: the schema is none.
        NotSupportedError: the schema has types that tables don't have.
    """
    schema, readers = readers_of(schema_json)
    run = Run(records, begin, end)
    arrays: dict[str, pa.Array] = {}
    for field, reader in zip(schema, readers, strict=True):
        wanted = columns is None or field.name in columns
        values = reader.read(run, wanted)
        if wanted:
            arrays[field.name] = values
    if np.any(run.at != run.end):
        raise BadAvro("a record is longer than its fields")
    kept = pa.schema([field for field in schema if field.name in arrays])
    if not kept.names:
        return pa.table({"": pa.nulls(len(begin))}).select([])
    return pa.Table.from_arrays([arrays[name] for name in kept.names], schema=kept)


def readers_of(schema_json: str) -> tuple[pa.Schema, list[Reader]]:
    """The columns of an Avro record schema, and what reads each.

    Raises:
        CorruptError: the schema is none.
        NotSupportedError: the schema has types that tables don't have.
    """
    schema = avro_to_arrow(schema_json)
    return schema, _Readers().record(json.loads(schema_json), "", schema)


class _Readers:
    """Readers of a schema that `avro_to_arrow` has found to be one; the schema's nodes are walked beside its types."""

    def __init__(self) -> None:
        self._named: dict[str, tuple[dict[str, Any], str]] = {}

    def record(self, node: dict[str, Any], space: str, fields: Iterable[pa.Field]) -> list[Reader]:
        """Readers of a record's fields."""
        inner = self._define(node, space).rpartition(".")[0]
        return [
            self.reader(each["type"], inner, field.type) for each, field in zip(node["fields"], fields, strict=True)
        ]

    def reader(self, node: Any, space: str, kind: pa.DataType) -> Reader:
        """The reader of one node, which becomes values of an Arrow type."""
        if isinstance(node, list):
            return self._union(node, space, kind)
        if isinstance(node, dict) and not isinstance(node["type"], str):
            return self.reader(node["type"], space, kind)
        name = node if isinstance(node, str) else node["type"]
        if name == "array":
            return List(kind, self.reader(node["items"], space, kind.value_type))
        if name == "map":
            return List(kind, self.reader(node["values"], space, kind.item_type), Bytes(pa.string()))
        if name == "record":
            return Record(tuple(zip(kind, self.record(node, space, kind), strict=True)))
        if name in {"fixed", "enum"}:
            self._define(node, space)
            return _plain(name, node, kind)
        if name in _PLAIN:
            return _plain(name, node, kind)
        definition, around = self._named[name if name in self._named else f"{space}.{name}"]
        return self.reader(definition, around, kind)

    def _define(self, node: dict[str, Any], space: str) -> str:
        name = node.get("name", "")
        full = name if "." in name else f"{node.get('namespace', space)}.{name}"
        self._named[full] = (node, space)
        return str(full)

    def _union(self, node: list[Any], space: str, kind: pa.DataType) -> Reader:
        nulls = ("null", {"type": "null"})
        branch = next(place for place, each in enumerate(node) if each not in nulls)
        inner = self.reader(node[branch], space, kind)
        return Optional(inner, branch, len(node))


_PLAIN = frozenset({"boolean", "int", "long", "float", "double", "bytes", "string"})


def _plain(name: str, node: Any, kind: pa.DataType) -> Reader:
    size = node["size"] if name == "fixed" else None
    if name == "enum":
        return Enum(tuple(str(symbol) for symbol in node["symbols"]))
    if pa.types.is_decimal(kind):
        return Decimal(kind, size)
    if name in {"bytes", "string", "fixed"}:
        return Bytes(kind, size)
    if name == "boolean":
        return Boolean()
    if name in {"float", "double"}:
        return Float(kind, *(("<f4", 4) if name == "float" else ("<f8", 8)))
    millis = isinstance(node, dict) and str(node.get("logicalType")).endswith("timestamp-millis")
    return Number(kind, 32 if name == "int" else 64, 1000 if millis else 1)
