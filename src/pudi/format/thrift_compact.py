"""Decode and encode structs of Thrift's compact protocol, such as Parquet's footers and page headers.

Fields keep all their values, known or not, so encoding gives the same bytes again. Every length is compared with the
remaining bytes, and depth is limited, since the files may come from anyone.

Source: Apache Thrift, doc/specs/thrift-compact-protocol.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pudi.errors import CorruptError
from pudi.format.varints import BadVarint, encode_varint, encode_zigzag, read_varint, read_zigzag

TRUE: Final = 1
FALSE: Final = 2
I8: Final = 3
I16: Final = 4
I32: Final = 5
I64: Final = 6
DOUBLE: Final = 7
BINARY: Final = 8
LIST: Final = 9
SET: Final = 10
MAP: Final = 11
STRUCT: Final = 12
UUID: Final = 13

MOST_DEPTH: Final = 24
"""Maximum nesting of structs and collections; a Parquet footer has nine levels."""

Struct: TypeAlias = "dict[int, tuple[int, Any]]"
"""Fields by id, in the order of the bytes: type code and value of each.

Values are `int` (integers), `bool`, `bytes` (texts, doubles, UUIDs), `Struct`, `Items` (lists and sets) and `Pairs`.
"""


@dataclass(frozen=True, slots=True)
class Items:
    """A list or a set.

    Attributes:
        kind: type code of the elements.
        values: the elements.
    """

    kind: int
    values: list[Any]


@dataclass(frozen=True, slots=True)
class Pairs:
    """A map.

    Attributes:
        kinds: type codes of keys and of values; zeros for an empty map, which has none.
        values: keys and values.
    """

    kinds: tuple[int, int]
    values: list[tuple[Any, Any]]


def decode_struct(data: bytes, start: int = 0) -> tuple[Struct, int]:
    """Decode the struct at an offset.

    Args:
        data: the bytes; more may follow the struct.
        start: offset of the struct's first byte.

    Returns:
        Its fields, and the offset after it.

    Raises:
        CorruptError: the bytes are not a struct: they end too early, or have codes that the protocol lacks.
    """
    try:
        return _struct(data, start, 0)
    except IndexError:
        raise CorruptError(f"a Thrift struct is cut off after {len(data)} bytes", offset=start) from None
    except BadVarint as error:
        raise CorruptError(f"a Thrift struct can't be decoded: {error}", offset=start) from error


def encode_struct(struct: Struct) -> bytes:
    """Encode a struct; fields in the order of the mapping."""
    out = bytearray()
    _put_struct(out, struct)
    return bytes(out)


def _struct(data: bytes, at: int, depth: int) -> tuple[Struct, int]:
    if depth > MOST_DEPTH:
        raise CorruptError(f"Thrift structs are nested more than {MOST_DEPTH} deep", offset=at)
    fields: Struct = {}
    number = 0
    while True:
        head = data[at]
        at += 1
        if not head:
            return fields, at
        kind = head & 15
        if head >> 4:
            number += head >> 4
        else:
            number, at = read_zigzag(data, at)
        if kind in (I32, I64, I16):
            byte = data[at]
            if byte < 128:  # most numbers are small
                value: Any = (byte >> 1) ^ -(byte & 1)
                at += 1
            else:
                value, at = read_zigzag(data, at)
        elif kind in (TRUE, FALSE):
            value = kind == TRUE
        else:
            value, at = _value(data, at, kind, depth)
        if number in fields:
            raise CorruptError(f"a Thrift struct has field {number} twice", offset=at)
        fields[number] = (kind, value)


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    """Decode a value; of a struct's field any but a boolean, whose type is its value."""
    if kind in (I16, I32, I64):
        return read_zigzag(data, at)
    if kind == BINARY:
        length, at = _size(data, at, 1)
        return data[at : at + length], at + length
    if kind == STRUCT:
        return _struct(data, at, depth + 1)
    if kind in (LIST, SET):
        return _items(data, at, depth + 1)
    if kind == MAP:
        return _pairs(data, at, depth + 1)
    if kind in (TRUE, FALSE):
        return data[at] == TRUE, at + 1
    length = {I8: 1, DOUBLE: 8, UUID: 16}.get(kind, 0)
    if not length:
        raise CorruptError(f"Thrift's compact protocol has no type {kind}", offset=at)
    _check_room(data, at, length)
    return data[at : at + length], at + length


def _items(data: bytes, at: int, depth: int) -> tuple[Items, int]:
    if depth > MOST_DEPTH:
        raise CorruptError(f"Thrift lists are nested more than {MOST_DEPTH} deep", offset=at)
    head = data[at]
    at += 1
    kind, count = head & 15, head >> 4
    if count == 15:
        count, at = _size(data, at, 1)
    values = []
    for _ in range(count):
        value, at = _value(data, at, kind, depth)
        values.append(value)
    return Items(kind, values), at


def _pairs(data: bytes, at: int, depth: int) -> tuple[Pairs, int]:
    if depth > MOST_DEPTH:
        raise CorruptError(f"Thrift maps are nested more than {MOST_DEPTH} deep", offset=at)
    count, at = _size(data, at, 2)
    if not count:
        return Pairs((0, 0), []), at
    kinds = data[at] >> 4, data[at] & 15
    at += 1
    values = []
    for _ in range(count):
        key, at = _value(data, at, kinds[0], depth)
        value, at = _value(data, at, kinds[1], depth)
        values.append((key, value))
    return Pairs(kinds, values), at


def _size(data: bytes, at: int, each: int) -> tuple[int, int]:
    """Decode the number of following items, each of at least some bytes."""
    count, at = read_varint(data, at)
    _check_room(data, at, count * each)
    return count, at


def _check_room(data: bytes, at: int, length: int) -> None:
    if length > len(data) - at:
        raise CorruptError(f"a Thrift value has {length} bytes or more, and {len(data) - at} are left", offset=at)


def _put_struct(out: bytearray, struct: Struct) -> None:
    last = 0
    for number, (kind, value) in struct.items():
        said = (TRUE if value else FALSE) if kind in (TRUE, FALSE) else kind
        if 0 < number - last < 16:
            out.append((number - last) << 4 | said)
        else:
            out.append(said)
            out += encode_zigzag(number)
        last = number
        if kind not in (TRUE, FALSE):
            _put_value(out, kind, value)
    out.append(0)


def _put_value(out: bytearray, kind: int, value: Any) -> None:
    if kind in (I16, I32, I64):
        out += encode_zigzag(value)
    elif kind == BINARY:
        out += encode_varint(len(value))
        out += value
    elif kind == STRUCT:
        _put_struct(out, value)
    elif kind in (LIST, SET):
        count = len(value.values)
        out.append(min(count, 15) << 4 | value.kind)
        if count > 14:
            out += encode_varint(count)
        for each in value.values:
            _put_value(out, value.kind, each)
    elif kind == MAP:
        out += encode_varint(len(value.values))
        if value.values:
            out.append(value.kinds[0] << 4 | value.kinds[1])
        for key, each in value.values:
            _put_value(out, value.kinds[0], key)
            _put_value(out, value.kinds[1], each)
    elif kind in (TRUE, FALSE):
        out.append(TRUE if value else FALSE)
    else:
        out += value
