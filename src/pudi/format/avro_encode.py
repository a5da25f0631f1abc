"""Arrow columns as runs of Avro records: a table and its schema in, bytes out, without a loop over records.

Every column becomes parts: for each record a stretch of bytes, perhaps empty. Where each stretch goes follows from the
lengths alone, so that a part is put into the buffer for all records at once. The types are those of
`pudi.schema.avro_to_arrow`; the reading side is `avro_rows`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.errors import NotSupportedError

_INT32 = np.dtype(">i4")


class Part(Protocol):
    """A stretch of bytes of each record."""

    @property
    def sizes(self) -> np.ndarray:
        """Its length in each record."""

    def put(self, out: np.ndarray, at: np.ndarray) -> None:
        """Write each record's stretch, beginning at the places `at` of `out`."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """As many bytes in each record that has some.

    Attributes:
        rows: uint8, one row of bytes for each record.
        present: the records that have them; None for all.
    """

    rows: np.ndarray
    present: np.ndarray | None = None

    @property
    def sizes(self) -> np.ndarray:
        """See `Part`."""
        width = self.rows.shape[1]
        if self.present is None:
            return np.full(len(self.rows), width, dtype=np.int64)
        found: np.ndarray = self.present.astype(np.int64) * width
        return found

    def put(self, out: np.ndarray, at: np.ndarray) -> None:
        """See `Part`."""
        rows, width = self.rows, self.rows.shape[1]
        if self.present is not None:
            rows, at = rows[self.present], at[self.present]
        for place in range(width):
            out[at + place] = rows[:, place]


@dataclass(frozen=True, slots=True)
class Varint:
    """A zigzag number of each record that has one.

    Attributes:
        values: int64.
        present: the records that have one; None for all.
    """

    values: np.ndarray
    present: np.ndarray | None = None
    _bits: np.ndarray = field(init=False)
    _sizes: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        bits = ((self.values << 1) ^ (self.values >> 63)).view(np.uint64)
        sizes = np.ones(len(bits), dtype=np.int64)
        greatest = int(bits.max()) if len(bits) else 0
        for count in range(1, 10):
            if greatest >> (7 * count) == 0:
                break
            sizes += bits >= np.uint64(1 << (7 * count))
        object.__setattr__(self, "_bits", bits)
        object.__setattr__(self, "_sizes", sizes if self.present is None else sizes * self.present)

    @property
    def sizes(self) -> np.ndarray:
        """See `Part`."""
        return self._sizes

    def put(self, out: np.ndarray, at: np.ndarray) -> None:
        """See `Part`."""
        bits, sizes = self._bits, self._sizes
        if self.present is not None:
            bits, sizes, at = bits[self.present], sizes[self.present], at[self.present]
        place = 0
        while len(bits):
            more = sizes > place + 1
            seven = (bits & np.uint64(0x7F)).astype(np.uint8)
            out[at + place] = seven | (more.astype(np.uint8) << 7)
            if not more.any():
                break
            if not more.all():
                bits, sizes, at = bits[more], sizes[more], at[more]
            bits, place = bits >> np.uint64(7), place + 1


@dataclass(frozen=True, slots=True)
class Stretches:
    """Bytes of any length of each record.

    Attributes:
        sizes: how many.
        content: all of them, record after record.
    """

    sizes: np.ndarray
    content: np.ndarray

    def put(self, out: np.ndarray, at: np.ndarray) -> None:
        """See `Part`."""
        starts = np.cumsum(self.sizes) - self.sizes
        out[np.repeat(at - starts, self.sizes) + np.arange(len(self.content))] = self.content


@dataclass(frozen=True, slots=True)
class Repeated:
    """The same bytes in every record.

    Attributes:
        content: the bytes.
        count: how many records there are.
    """

    content: bytes
    count: int

    @property
    def sizes(self) -> np.ndarray:
        """See `Part`."""
        return np.full(self.count, len(self.content), dtype=np.int64)

    def put(self, out: np.ndarray, at: np.ndarray) -> None:
        """See `Part`."""
        for place, byte in enumerate(self.content):
            out[at + place] = byte


def joined(parts: Sequence[Part], *, with_length: bool = False) -> Stretches:
    """The parts of each record one after the other; with the length of each record before it, as a big-endian int."""
    sizes = [part.sizes for part in parts]
    total: np.ndarray = np.asarray(np.sum(sizes, axis=0, dtype=np.int64))
    if with_length:
        head = total.astype(_INT32).view(np.uint8).reshape(-1, 4)
        parts, sizes = [Fixed(head), *parts], [np.full(len(total), 4, dtype=np.int64), *sizes]
        total = total + 4
    out = np.empty(int(total.sum()), dtype=np.uint8)
    at = np.cumsum(total) - total
    for part, size in zip(parts, sizes, strict=True):
        part.put(out, at)
        at = at + size
    return Stretches(total, out)


def encode_records(schema: str, rows: pa.Table) -> bytes:
    """Records in Avro's binary encoding, each with its length before it, as data blocks of log files hold them.

    Args:
        schema: Avro schema of a record, JSON text.
        rows: a column for each of its fields, in the types of `avro_to_arrow`; text may be dictionary encoded.

    Raises:
        NotSupportedError: a type that pudi reads but doesn't write.
    """
    if not rows.num_rows:
        return b""
    encoder = _Encoder()
    return joined(encoder.record(json.loads(schema), rows), with_length=True).content.tobytes()


def text_parts(values: pa.Array, present: np.ndarray | None = None) -> list[Part]:
    """Texts or bytes with their lengths; of those records that have one."""
    if pa.types.is_dictionary(values.type):
        if len(values.dictionary) == 1 and not values.null_count and present is None:
            only = values.dictionary[0].as_py()
            only = only.encode() if isinstance(only, str) else only
            return [Repeated(_varint(len(only)) + only, len(values))]
        values = values.dictionary_decode()
    values = values.cast(pa.large_string() if pa.types.is_string(values.type) else pa.large_binary())
    if present is not None or values.null_count:
        blank = pa.scalar("" if pa.types.is_large_string(values.type) else b"", values.type)
        keep = values.is_valid() if present is None else pa.array(present)
        values = pc.if_else(keep, values, blank)
    offsets = np.frombuffer(values.buffers()[1], dtype=np.int64)[values.offset : values.offset + len(values) + 1]
    data = values.buffers()[2]
    content = np.frombuffer(data, dtype=np.uint8)[offsets[0] : offsets[-1]] if data else np.empty(0, dtype=np.uint8)
    sizes = np.diff(offsets)
    return [Varint(sizes, present), Stretches(sizes, content)]


def _varint(value: int) -> bytes:
    bits, out = value << 1, bytearray()
    while bits > 0x7F:
        out.append(bits & 0x7F | 0x80)
        bits >>= 7
    return bytes([*out, bits])


class _Encoder:
    """Columns by their Avro types; named types are known once they were met."""

    def __init__(self) -> None:
        self._named: dict[str, Mapping[str, Any]] = {}

    def record(self, node: Mapping[str, Any], rows: pa.Table, present: np.ndarray | None = None) -> list[Part]:
        """The parts of a record's fields, which are columns of `rows`."""
        self._define(node)
        parts: list[Part] = []
        for each in node["fields"]:
            parts += self.value(each["type"], whole(rows[each["name"]]), present)
        return parts

    def value(self, node: Any, values: pa.Array, present: np.ndarray | None) -> list[Part]:
        """The parts of one value of each record that is present."""
        if isinstance(node, list):
            return self._optional(node, values, present)
        if isinstance(node, str) and node in self._named:
            node = self._named[node]
        kind = node["type"] if isinstance(node, dict) else node
        if isinstance(kind, (dict, list)):
            return self.value(kind, values, present)
        if kind == "record":
            fields = [values.field(n) for n in range(values.type.num_fields)]
            inner = pa.table(fields, names=[f.name for f in values.type])
            return self.record(node, inner, present)
        if kind == "array":
            return self._list(values, present, lambda items: self.value(node["items"], items, None))
        if kind == "map":
            return self._list(values, present, lambda entries: self._entries(node["values"], entries))
        self._define(node)
        return _plain(kind, node, values, present)

    def _define(self, node: Any) -> None:
        if isinstance(node, dict) and "name" in node:
            space = f"{node['namespace']}." if node.get("namespace") else ""
            self._named[node["name"]] = self._named[f"{space}{node['name']}"] = node

    def _optional(self, node: list[Any], values: pa.Array, present: np.ndarray | None) -> list[Part]:
        """A union of null and one type: the branch, then the value where there is one."""
        others = [number for number, each in enumerate(node) if each != "null"]
        if len(others) != 1:
            raise NotSupportedError(f"an Avro union of {len(others)} types can't be written")
        branch = others[0]
        if not values.null_count and present is None:
            return [Repeated(bytes([2 * branch]), len(values)), *self.value(node[branch], values, None)]
        valid = np.asarray(values.is_valid())
        if len(node) == 1:
            return self.value(node[0], values, valid if present is None else present & valid)
        chosen = np.where(valid, 2 * branch, 2 * node.index("null")).astype(np.uint8)[:, None]
        inner = valid if present is None else present & valid
        return [Fixed(chosen, present), *self.value(node[branch], values, inner)]

    def _list(self, values: pa.Array, present: np.ndarray | None, encode: Any) -> list[Part]:
        """An array or a map: a count and the items, where there are some, then a zero."""
        values = values.take(pa.array(np.arange(len(values))))  # offsets from 0 on, and no items of nulls
        counts = np.asarray(pc.fill_null(pc.list_value_length(_as_list(values)), 0)).astype(np.int64)
        items = _as_list(values).flatten()
        filled = counts > 0
        end = Fixed(np.zeros((len(values), 1), dtype=np.uint8), present)
        if not len(items):
            return [end]
        encoded = joined(encode(items))
        stops = np.concatenate([[0], np.cumsum(encoded.sizes)])
        last = np.cumsum(counts)
        return [Varint(counts, filled), Stretches(stops[last] - stops[last - counts], encoded.content), end]

    def _entries(self, node: Any, entries: pa.StructArray) -> list[Part]:
        return [*text_parts(entries.field(0)), *self.value(node, entries.field(1), None)]


def _as_list(values: pa.Array) -> pa.Array:
    """Lists as they are, maps as lists of structs."""
    if not pa.types.is_map(values.type):
        return values
    entries = pa.StructArray.from_arrays([values.keys, values.items], names=["key", "value"])
    return pa.ListArray.from_arrays(values.offsets, entries, mask=values.is_null() if values.null_count else None)


def whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column in one piece."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    column = column.unify_dictionaries() if pa.types.is_dictionary(column.type) else column
    merged = column.combine_chunks()
    return merged.combine_chunks() if isinstance(merged, pa.ChunkedArray) else merged


_FLOATS: dict[str, np.dtype[Any]] = {"float": np.dtype("<f4"), "double": np.dtype("<f8")}


def _plain(kind: str, node: Any, values: pa.Array, present: np.ndarray | None) -> list[Part]:
    if kind in {"string", "bytes"}:
        return text_parts(values, present)
    if kind == "boolean":
        flags = np.asarray(pc.fill_null(values, False)).astype(np.uint8)
        return [Fixed(flags[:, None], present)]
    if kind in {"int", "long"}:
        return [Varint(integers(values), present)]
    if kind in _FLOATS:
        dtype = _FLOATS[kind]
        numbers = np.asarray(pc.fill_null(values, 0)).astype(dtype)
        return [Fixed(numbers.view(np.uint8).reshape(-1, dtype.itemsize), present)]
    if kind == "fixed" and pa.types.is_decimal128(values.type):
        return [Fixed(big_endian(values, node["size"]), present)]
    if kind == "null":
        return []
    raise NotSupportedError(f"values of the Avro type {kind!r} can't be written")


def integers(values: pa.Array) -> np.ndarray:
    """Integers, dates and times as int64, 0 for nulls."""
    width = values.type.bit_width
    plain = values.view(pa.int32() if width == 32 else pa.int64()) if not pa.types.is_integer(values.type) else values
    found: np.ndarray = np.asarray(pc.fill_null(plain, 0)).astype(np.int64)
    return found


def big_endian(values: pa.Array, size: int) -> np.ndarray:
    """Unscaled decimals as two's complement, the most significant byte first: a row of `size` bytes each."""
    values = pc.fill_null(values, 0) if values.null_count else values
    little = np.frombuffer(values.buffers()[1], dtype=np.uint8).reshape(-1, 16)
    big = little[values.offset : values.offset + len(values), ::-1]
    if size <= 16:
        return big[:, 16 - size :]
    sign = np.where(big[:, :1] & 0x80, 0xFF, 0).astype(np.uint8)
    return np.concatenate([np.repeat(sign, size - 16, axis=1), big], axis=1)
