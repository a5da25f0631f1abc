<<<<<<< HEAD
"""Arrow columns as runs of Avro records: a table and its schema in, bytes out, without a loop over records.

Every column becomes parts: for each record a stretch of bytes, perhaps empty. Where each stretch goes follows from the
lengths alone, so that a part is put into the buffer for all records at once. The types are those of
`pudi.schema.avro_to_arrow`; the reading side is `avro_rows`.
=======
"""Arrow columns as Avro records: a table and its Avro schema in, a binary value per row out, without a loop over rows.

Every field becomes pieces, binary columns that hold for each row the bytes of that field; a record is its pieces put
together. `pudi.format.avro_rows` is the way back, and says what the fields are.
>>>>>>> part-logs
"""

from __future__ import annotations

<<<<<<< HEAD
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
=======
import decimal
from collections.abc import Sequence
>>>>>>> part-logs

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

<<<<<<< HEAD
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
=======
from pudi.errors import SchemaError
from pudi.format.avro_rows import (
    Boolean,
    Bytes,
    Decimal,
    Enum,
    Float,
    List,
    Number,
    Optional,
    Reader,
    Record,
    readers_of,
)

Live = np.ndarray
"""For each row whether it has the field: without it, its pieces are empty (fields of a struct that is null)."""


def encode_records(schema_json: str, rows: pa.Table) -> pa.Array:
    """The rows as Avro records.

    Args:
        schema_json: Avro schema; its fields are found among the columns by name.
        rows: columns in the types that `avro_to_arrow` makes of the schema.

    Returns:
        A binary array with a record for each row.

    Raises:
        SchemaError: a column is missing, of another type, or has nulls where the schema has none.
    """
    schema, readers = readers_of(schema_json)
    pieces: list[pa.Array] = []
    live = np.ones(rows.num_rows, dtype=bool)
    for field, reader in zip(schema, readers, strict=True):
        place = rows.schema.get_field_index(field.name)
        if place < 0 or not rows.schema.field(place).type.equals(field.type):
            found = "isn't there" if place < 0 else f"is {rows.schema.field(place).type}"
            raise SchemaError(f"column {field.name!r} {found} where the Avro schema has {field.type}")
        pieces += _pieces(reader, _whole(rows.column(place)), live, field.name)
    return join(pieces, rows.num_rows)


def join(pieces: Sequence[pa.Array], rows: int) -> pa.Array:
    """Binary columns put together row by row."""
    if not pieces:
        return pa.array([b""] * rows, pa.binary())
    return pieces[0] if len(pieces) == 1 else pc.binary_join_element_wise(*pieces, pa.scalar(b"", pa.binary()))


def varint_piece(numbers: np.ndarray, live: Live, lead: np.ndarray | None = None) -> pa.Array:
    """Zigzag numbers, each behind a byte of `lead` where that's given.

    Args:
        numbers: int64.
        live: see `Live`.
        lead: for each row a union's branch as one byte; a row whose branch is null (0) has no number.
    """
    word = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    size = np.ones(len(word), dtype=np.int64)
    most = int(word.max()) if len(word) else 0
    for bits in range(7, max(8, most.bit_length()), 7):
        size += word >= np.uint64(1 << bits)
    width = int(size.max()) if len(size) else 1
    cells = np.empty((len(word), width), dtype=np.uint8)
    for place in range(width):
        byte = (word >> np.uint64(7 * place)).astype(np.uint8)
        cells[:, place] = np.where(size > place + 1, byte | 0x80, byte & 0x7F)
    return packed(cells, size, live, lead)


def packed(cells: np.ndarray, size: np.ndarray | int, live: Live, lead: np.ndarray | None = None) -> pa.Array:
    """The first `size` bytes of each row of a matrix; `live` and `lead` as in `varint_piece`."""
    count, width = cells.shape
    sizes = np.where(live, size, 0)
    if lead is not None:
        sizes = np.where(lead == 0, 0, sizes)
        cells = np.concatenate([lead[:, None].astype(np.uint8), cells], axis=1)
        sizes, width = sizes + live, width + 1
    chosen = cells if bool(np.all(sizes == width)) else cells[np.arange(width) < sizes[:, None]]
    offsets = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return _binary(offsets, np.ascontiguousarray(chosen))


def text_pieces(values: pa.Array, live: Live, lead: np.ndarray | None = None) -> list[pa.Array]:
    """Texts or bytes behind their lengths; nulls are to be told by `lead` or `live`."""
    raw = pc.fill_null(pc.cast(values, pa.binary()), b"")
    if not np.all(live):
        raw = pc.if_else(pa.array(live), raw, pa.scalar(b"", pa.binary()))
    lengths = np.asarray(pc.binary_length(raw)).astype(np.int64)
    return [varint_piece(lengths, live, lead), raw]


def _pieces(reader: Reader, values: pa.Array, live: Live, path: str, lead: np.ndarray | None = None) -> list[pa.Array]:
    """The pieces of one field."""
    if isinstance(reader, Optional):
        valid = np.asarray(values.is_valid())
        null, other = (0, 2) if reader.branch == 1 else (2, 0)
        if null == 0:
            return _pieces(reader.inner, values, live, path, np.where(valid, other, null))
        # where null is the second branch, the byte before a value is 0, so that a piece of its own tells which
        branch = packed(np.where(valid, other, null).astype(np.uint8)[:, None], 1, live)
        return [branch, *_pieces(reader.inner, values, live & valid, path)]
    if lead is None and values.null_count and bool(np.any(live & ~np.asarray(values.is_valid()))):
        raise SchemaError(f"column {path!r} must not be null")
    if isinstance(reader, Bytes):
        return text_pieces(values, live, lead) if reader.size is None else _fixed(values, reader.size, live, path, lead)
    if isinstance(reader, Record | List):
        before = [] if lead is None else [packed(lead.astype(np.uint8)[:, None], 1, live)]
        inside = live if lead is None else live & (lead != 0)
        if isinstance(reader, Record):
            parts = zip(reader.fields, values.flatten(), strict=True)
            inner = [_pieces(each, part, inside, f"{path}.{field.name}") for (field, each), part in parts]
            return before + [piece for pieces in inner for piece in pieces]
        return before + _list(reader, values, inside, path)
    return [_number(reader, values, live, path, lead)]


def _number(reader: Reader, values: pa.Array, live: Live, path: str, lead: np.ndarray | None) -> pa.Array:
    """The piece of a field of a plain type."""
    if isinstance(reader, Number):
        width = pa.int32() if reader.bits == 32 else pa.int64()
        numbers = np.asarray(pc.fill_null(values.view(width), 0)).astype(np.int64)
        if reader.scale != 1:
            numbers //= reader.scale
        return varint_piece(numbers, live, lead)
    if isinstance(reader, Float):
        floats = np.asarray(pc.fill_null(values, 0.0)).astype(reader.dtype)
        return packed(floats.view(np.uint8).reshape(len(floats), reader.size), reader.size, live, lead)
    if isinstance(reader, Boolean):
        truths = np.asarray(pc.fill_null(values, False)).astype(np.uint8)
        return packed(truths[:, None], 1, live, lead)
    if isinstance(reader, Decimal):
        cells = decimal_cells(values)
        if reader.size is not None:
            return packed(cells[:, 16 - reader.size :], reader.size, live, lead)
        return sized_decimals(cells, live, lead)
    assert isinstance(reader, Enum)
    places = pc.index_in(values, value_set=pa.array(reader.symbols, pa.string()))
    if places.null_count > values.null_count:
        raise SchemaError(f"column {path!r} has values that are none of {', '.join(reader.symbols)}")
    return varint_piece(np.asarray(pc.fill_null(places, 0)).astype(np.int64), live, lead)


def _list(reader: List, values: pa.Array, live: Live, path: str) -> list[pa.Array]:
    """Lists and maps: how many items, the items, and the end."""
    if reader.key is not None:
        entries = pa.struct([pa.field("key", reader.kind.key_type, nullable=False), reader.kind.item_field])
        values = pc.cast(values, pa.list_(pa.field("entries", entries, nullable=False)))
    lengths = np.asarray(pc.fill_null(pc.list_value_length(values), 0)).astype(np.int64)
    lengths = np.where(live, lengths, 0)
    if not np.all(live):
        values = pc.if_else(pa.array(live), values, pa.scalar(None, values.type))
    items = pc.list_flatten(values)
    every = np.ones(len(items), dtype=bool)
    if reader.key is None:
        pieces = _pieces(reader.item, items, every, f"{path}.element")
    else:
        keys, held = items.flatten()
        pieces = [*_pieces(reader.key, keys, every, f"{path}.key"), *_pieces(reader.item, held, every, f"{path}.value")]
    joined = join(pieces, len(items))
    starts = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=starts[1:])
    body = _binary(_offsets(joined)[starts], joined.buffers()[2])
    end = packed(np.zeros((len(lengths), 1), dtype=np.uint8), 1, live & (lengths > 0))
    return [varint_piece(lengths, live), body, end]


def _fixed(values: pa.Array, size: int, live: Live, path: str, lead: np.ndarray | None) -> list[pa.Array]:
    lengths = pc.binary_length(values)
    if pc.any(pc.not_equal(lengths, size)).as_py():
        raise SchemaError(f"column {path!r} has values of other than {size} bytes")
    raw = pc.fill_null(values, b"\0" * size)
    held = np.frombuffer(b"".join([raw.buffers()[2] or b""]), dtype=np.uint8)
    begin = _offsets(raw)[0]
    return [packed(held[begin : begin + size * len(raw)].reshape(len(raw), size), size, live, lead)]


def decimal_cells(values: pa.Array) -> np.ndarray:
    """Decimals as big-endian two's complement numbers of 16 bytes, a row each; nulls are 0."""
    whole = pc.fill_null(values, pa.scalar(decimal.Decimal(0), values.type))
    raw = np.frombuffer(whole.buffers()[1], dtype=np.uint8)[16 * whole.offset : 16 * (whole.offset + len(whole))]
    cells: np.ndarray = raw.reshape(len(whole), 16)[:, ::-1]
    return cells


def sized_decimals(cells: np.ndarray, live: Live, lead: np.ndarray | None = None) -> pa.Array:
    """Numbers of as many bytes as they need, behind how many (BigInteger.toByteArray)."""
    sign = np.where(cells[:, :1] >= 0x80, 0xFF, 0).astype(np.uint8)
    spare = np.cumprod(cells == sign, axis=1).sum(axis=1)  # leading bytes that only repeat the sign
    following = cells[np.arange(len(cells)), np.minimum(spare, 15)]
    keeps = (spare == 16) | ((following >= 0x80) != (sign[:, 0] >= 0x80))  # one of them is needed to tell the sign
    size = 16 - spare + keeps
    shifted = np.zeros((len(cells), 17), dtype=np.uint8)
    shifted[:, 0] = size * 2  # a length below 64 is one byte
    place = np.minimum(16 - size[:, None] + np.arange(16), 15)
    shifted[:, 1:] = np.take_along_axis(cells, place, axis=1)
    return packed(shifted, size + 1, live, lead)


def _binary(offsets: np.ndarray, data: object) -> pa.Array:
    if len(offsets) and offsets[-1] >= 2**31:
        raise SchemaError("more than 2 GB of records in one block: write them in several")
    if data is None:
        data = b""
    buffer = data if isinstance(data, pa.Buffer) else pa.py_buffer(data)
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets.astype(np.int32)), buffer])


def _offsets(values: pa.Array) -> np.ndarray:
    """Where each value of a binary array begins in its data, and where the last one ends."""
    if not len(values):
        return np.zeros(1, dtype=np.int64)
    raw = np.frombuffer(values.buffers()[1], dtype=np.int32)
    return raw[values.offset : values.offset + len(values) + 1].astype(np.int64)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
>>>>>>> part-logs
