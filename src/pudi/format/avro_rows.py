"""Runs of Avro records as Arrow columns: bytes and their schema in, a table out, without a loop over records.

All records are read side by side, field by field: where each one is in the bytes is a numpy array, and every step of
Avro's decoding (a union's branch, a varint, a text) is taken for all of them at once. The types are those of
`pudi.schema.avro_to_arrow`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pudi.format.avro_bytes import BadAvro, Positions, Records, Run
from pudi.format.avro_plain import Boolean, Bytes, Decimal, Enum, Float, Number, Reader
from pudi.schema import avro_to_arrow


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
        rows = np.flatnonzero(branches == self.branch)
        if len(rows) == len(branches):
            return self.inner.read(run, keep)
        part = run.part(rows)
        values = self.inner.read(part, keep)
        at = run.at.copy()
        at[rows] = part.at
        run.at = at
        return _spread(values, rows, len(branches)) if keep else None


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
    schema_json: str,
    records: Records,
    begin: Positions,
    end: Positions,
    columns: Collection[str] | None = None,
    *,
    unions: bool = False,
) -> pa.Table:
    """Records as a table.

    Args:
        schema_json: Avro schema of the records.
        records: the bytes.
        begin: where each record begins; ascending.
        end: where each ends.
        columns: the top-level fields that are wanted; None for all.
        unions: read unions of several types, see `avro_to_arrow`.

    Raises:
        BadAvro: the bytes are not what the schema says.
        CorruptError: the schema is none.
        NotSupportedError: the schema has types that tables don't have.
    """
    schema, readers = readers_of(schema_json, unions=unions)
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


def readers_of(schema_json: str, *, unions: bool = False) -> tuple[pa.Schema, list[Reader]]:
    """The columns of an Avro record schema, and what reads each; `unions` as in `avro_to_arrow`.

    Raises:
        CorruptError: the schema is none.
        NotSupportedError: the schema has types that tables don't have.
    """
    schema = avro_to_arrow(schema_json, unions=unions)
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
