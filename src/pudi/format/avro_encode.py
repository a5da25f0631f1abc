"""Arrow columns as Avro records: a table and its Avro schema in, a binary value per row out, without a loop over rows.

Every field becomes pieces, binary columns that hold for each row the bytes of that field; a record is its pieces put
together. `pudi.format.avro_rows` is the way back, and says what the fields are.
"""

from __future__ import annotations

import decimal
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.errors import SchemaError
from pudi.format.avro_rows import List, Optional, Record, Union, readers_of
from pudi.format.avro_values import Boolean, Bytes, Decimal, Enum, Float, Number, Reader
from pudi.schema.arrays import content_of, offsets_of, one_array

Live = np.ndarray
"""Mask of the rows that have the field. Other rows (fields of a null struct) encode to no bytes."""


def encode_records(schema_json: str, rows: pa.Table, *, unions: bool = False) -> pa.Array:
    """The rows as Avro records.

    Args:
        schema_json: Avro schema; its fields are found among the columns by name.
        rows: columns in the types that `avro_to_arrow` makes of the schema.
        unions: write unions of several types, see `avro_to_arrow`.

    Returns:
        A binary array with a record for each row.

    Raises:
        SchemaError: a column is missing, of another type, or has nulls where the schema has none.
    """
    schema, readers = readers_of(schema_json, unions=unions)
    pieces: list[pa.Array] = []
    live = np.ones(rows.num_rows, dtype=bool)
    for field, reader in zip(schema, readers, strict=True):
        place = rows.schema.get_field_index(field.name)
        if place < 0 or not rows.schema.field(place).type.equals(field.type):
            found = "isn't there" if place < 0 else f"is {rows.schema.field(place).type}"
            raise SchemaError(f"column {field.name!r} {found} where the Avro schema has {field.type}")
        pieces += _pieces(reader, one_array(rows.column(place)), live, field.name)
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
        lead: for each row a union's branch as one byte; a row with a null branch (0) has no number.
    """
    word = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    size = np.ones(len(word), dtype=np.int64)
    most = int(word.max()) if len(word) else 0
    if most < 128:
        return packed(word.astype(np.uint8)[:, None], 1, live, lead)
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
    """Encode texts or bytes with their lengths; `lead` or `live` mark nulls."""
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
        if not valid.any():  # one byte is enough, whatever the column's type
            return [packed(np.full((len(values), 1), null, dtype=np.uint8), 1, live)]
        if null == 0:
            return _pieces(reader.inner, values, live, path, np.where(valid, other, null))
        # where null is the second branch, the byte before a value is 0, so that a piece of its own tells which
        branch = packed(np.where(valid, other, null).astype(np.uint8)[:, None], 1, live)
        return [branch, *_pieces(reader.inner, values, live & valid, path)]
    if isinstance(reader, Union):
        return _union(reader, values, live, path)
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


def _union(reader: Union, values: pa.Array, live: Live, path: str) -> list[pa.Array]:
    """The branch, and the value: a union's columns are taken one after another, where they are not null."""
    valid = np.asarray(values.is_valid())
    null = next((branch for branch, inner in enumerate(reader.inner) if inner is None), -1)
    chosen = np.full(len(values), null, dtype=np.int64)
    columns = iter(values.flatten())
    parts = [(branch, inner, next(columns)) for branch, inner in enumerate(reader.inner) if inner is not None]
    for branch, _, part in parts:
        here = valid & np.asarray(part.is_valid())
        if np.any(live & here & (chosen != null)):
            raise SchemaError(f"column {path!r} has values of two types in one row")
        chosen[here] = branch
    if null < 0 and np.any(live & (chosen < 0)):
        raise SchemaError(f"column {path!r} must not be null")
    pieces = [varint_piece(chosen, live)]
    for branch, (field, each), part in parts:
        here = live & (chosen == branch)
        if np.any(here):
            pieces += _pieces(each, part, here, f"{path}.{field.name}")
    return pieces


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
        keys, content = items.flatten()
        pieces = [
            *_pieces(reader.key, keys, every, f"{path}.key"),
            *_pieces(reader.item, content, every, f"{path}.value"),
        ]
    joined = join(pieces, len(items))
    starts = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=starts[1:])
    body = _binary(offsets_of(joined)[starts], joined.buffers()[2])
    end = packed(np.zeros((len(lengths), 1), dtype=np.uint8), 1, live & (lengths > 0))
    return [varint_piece(lengths, live), body, end]


def _fixed(values: pa.Array, size: int, live: Live, path: str, lead: np.ndarray | None) -> list[pa.Array]:
    lengths = pc.binary_length(values)
    if pc.any(pc.not_equal(lengths, size)).as_py():
        raise SchemaError(f"column {path!r} has values of other than {size} bytes")
    raw = pc.fill_null(values, b"\0" * size)
    return [packed(np.frombuffer(content_of(raw), np.uint8).reshape(len(raw), size), size, live, lead)]


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
