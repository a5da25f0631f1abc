"""Runs of Avro records as Arrow columns: bytes and their schema in, a table out, without a loop over records.

All records are decoded together, field by field: a numpy array holds the position of each record, and every step of
Avro's decoding (a union's branch, a varint, a text) runs for all of them. The types are those of
`pudi.schema.avro_to_arrow`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from pudi.format.avro_values import (
    BadAvro,
    Boolean,
    Bytes,
    Decimal,
    Enum,
    Float,
    Number,
    Positions,
    Reader,
    Run,
)
from pudi.format.varints import BadVarint, read_zigzag
from pudi.schema import avro_to_arrow
from pudi.schema.arrays import joined_arrays

_FEW = 32
"""Number of lists below which one after the other is walked: a step of one takes a microsecond, a vectorised step of
all of them some dozens."""


@dataclass(frozen=True, slots=True)
class Optional:
    """A union of null and one type."""

    inner: Reader
    branch: int
    branches: int

    def read(self, run: Run, keep: bool) -> pa.Array:
        """See `Reader`."""
        if run.passes(self.branch):
            return self.inner.read(run, keep)
        branches = run.varint()
        if np.any((branches < 0) | (branches >= self.branches)):
            raise BadAvro("a union has no such branch")
        rows = np.flatnonzero(branches == self.branch)
        if len(rows) == len(branches):
            return self.inner.read(run, keep)
        part = run.part(rows)
        values = self.inner.read(part, keep)
        at = run.at.copy()
        at[rows] = part.at
        run.at = at
        return _spread(values, rows, len(branches)) if keep else None

    def step(self, data: memoryview, at: int) -> int:
        """See `Reader`."""
        branch, at = read_zigzag(data, at)
        return self.inner.step(data, at) if branch == self.branch else at


@dataclass(frozen=True, slots=True)
class Union:
    """A union of several types: a struct with a column for each, see `avro_to_arrow`.

    Attributes:
        inner: for each branch its column and reader; None for null.
    """

    inner: tuple[tuple[pa.Field, Reader] | None, ...]

    def read(self, run: Run, keep: bool) -> pa.Array:
        """See `Reader`."""
        branches = run.varint()
        if np.any((branches < 0) | (branches >= len(self.inner))):
            raise BadAvro("a union has no such branch")
        at, columns, fields = run.at.copy(), [], []
        for branch, inner in enumerate(self.inner):
            if inner is None:
                continue
            rows = np.flatnonzero(branches == branch)
            values = pa.nulls(0, inner[0].type)
            if len(rows):
                part = run.part(rows)
                values = inner[1].read(part, keep)
                at[rows] = part.at
            fields.append(inner[0])
            columns.append(_spread(values, rows, len(branches)) if keep else None)
        run.at = at
        if not keep:
            return None
        null = np.isin(branches, [branch for branch, inner in enumerate(self.inner) if inner is None])
        return pa.StructArray.from_arrays(columns, fields=fields, mask=pa.array(null))

    def step(self, data: memoryview, at: int) -> int:
        """See `Reader`."""
        branch, at = read_zigzag(data, at)
        inner = self.inner[branch] if 0 <= branch < len(self.inner) else None
        return at if inner is None else inner[1].step(data, at)


def _spread(values: pa.Array, rows: np.ndarray, count: int) -> pa.Array:
    """Values of some rows of `count`, null in the others."""
    if not len(rows):
        return pa.nulls(count, values.type)
    if len(rows) == count:
        return values
    places = np.zeros(count, dtype=np.int64)
    absent = np.ones(count, dtype=bool)
    places[rows], absent[rows] = np.arange(len(rows)), False
    return values.take(pa.array(places, mask=absent))


@dataclass(frozen=True, slots=True)
class Record:
    """A struct; of the outermost one, some fields only may be wanted."""

    fields: tuple[tuple[pa.Field, Reader], ...]

    def read(self, run: Run, keep: bool) -> pa.Array:
        """See `Reader`."""
        columns = [reader.read(run, keep) for _, reader in self.fields]
        return pa.StructArray.from_arrays(columns, fields=[field for field, _ in self.fields]) if keep else None

    def step(self, data: memoryview, at: int) -> int:
        """See `Reader`."""
        for _, reader in self.fields:
            at = reader.step(data, at)
        return at


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
            if len(open_rows) <= _FEW:
                owner, begin = self._walk(run, at, left, open_rows)
                part, open_rows = Run(run.records, begin, run.end[owner]), owner[:0]
            else:
                owner, part = open_rows, Run(run.records, at[open_rows], run.end[open_rows])
            if self.key is not None:
                keys.append(self.key.read(part, keep))
            items.append(self.item.read(part, keep))
            owners.append(owner)
            at[open_rows] = part.at[: len(open_rows)]
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

    def _walk(self, run: Run, at: Positions, left: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, Positions]:
        """Begin of each remaining item of some lists, and the row that it's of, by a walk from item to item.

        For the rest, when few lists continue: a list longer than all others would be read alone, item by item. Moves
        `at` behind the lists.
        """
        data, owners, begin = run.records.data.data, [], []
        try:
            for row in rows.tolist():
                place, count, end = int(at[row]), int(left[row]), int(run.end[row])
                while count:
                    for _ in range(count):
                        begin.append(place)
                        place = self._item_end(data, place)
                    owners.append(np.full(count, row))
                    count, place = self._block(data, place)
                    if not 0 <= count <= end - place:
                        raise BadAvro("a list has more items than its record has bytes")
                at[row] = place
        except IndexError:
            raise BadAvro("a record ends before its last field") from None
        except BadVarint as error:
            raise BadAvro(str(error)) from error
        return np.concatenate(owners), np.array(begin, dtype=np.int64)

    def _item_end(self, data: memoryview, at: int) -> int:
        return self.item.step(data, at if self.key is None else self.key.step(data, at))

    @staticmethod
    def _block(data: memoryview, at: int) -> tuple[int, int]:
        """The count of the block at a place, and where its first item begins."""
        count, at = read_zigzag(data, at)
        if count < 0:  # followed by the block's bytes
            count, at = -count, read_zigzag(data, at)[1]
        return count, at

    def step(self, data: memoryview, at: int) -> int:
        """See `Reader`."""
        count, at = self._block(data, at)
        while count:
            if count > len(data) - at:
                raise BadAvro("a list has more items than its record has bytes")
            for _ in range(count):
                at = self._item_end(data, at)
            count, at = self._block(data, at)
        return at


def _joined(parts: list[pa.Array], kind: pa.DataType, order: pa.Array) -> pa.Array:
    return joined_arrays(parts).take(order) if parts else pa.nulls(0, kind)


def read_records(
    schema_json: str, records: Run, columns: Collection[str] | None = None, *, unions: bool = False
) -> pa.Table:
    """Records as a table.

    Args:
        schema_json: Avro schema of the records.
        records: where each record begins and ends; used up.
        columns: the top-level fields that are wanted; None for all.
        unions: read unions of several types, see `avro_to_arrow`.

    Raises:
        BadAvro: the bytes are not what the schema says.
        CorruptError: the schema is none.
        NotSupportedError: the schema has types that tables don't have.
    """
    schema, readers = readers_of(schema_json, unions=unions)
    arrays: dict[str, pa.Array] = {}
    for field, reader in zip(schema, readers, strict=True):
        wanted = columns is None or field.name in columns
        values = reader.read(records, wanted)
        if wanted:
            arrays[field.name] = values
    if np.any(records.at != records.end):
        raise BadAvro("a record is longer than its fields")
    kept = pa.schema([field for field in schema if field.name in arrays])
    if not kept.names:
        return pa.table({"": pa.nulls(len(records.end))}).select([])
    return pa.Table.from_arrays([arrays[name] for name in kept.names], schema=kept)


@lru_cache(maxsize=64)  # files and blocks of one table mostly have one schema, which takes 2 ms to walk
def readers_of(schema_json: str, *, unions: bool = False) -> tuple[pa.Schema, tuple[Reader, ...]]:
    """The columns of an Avro record schema, and what reads each; `unions` as in `avro_to_arrow`.

    Raises:
        CorruptError: the schema is none.
        NotSupportedError: the schema has types that tables don't have.
    """
    schema = avro_to_arrow(schema_json, unions=unions)
    return schema, tuple(_Readers().record(json.loads(schema_json), "", schema))


class _Readers:
    """Readers of a valid schema; the schema's nodes are walked along with their types."""

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
        if len([each for each in node if each not in nulls]) > 1:
            fields = iter(kind)
            return Union(
                tuple(
                    None if each in nulls else (field := next(fields), self.reader(each, space, field.type))
                    for each in node
                )
            )
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
