"""Numbers in groups of seven bits, as Avro, Thrift and protobuf store them, and protobuf messages of such numbers.

Source: https://protobuf.dev/programming-guides/encoding/; Avro and Thrift's compact protocol share its numbers.
"""

from __future__ import annotations

from collections.abc import Iterator

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SIZES = {_FIXED64: 8, _FIXED32: 4}
"""Bytes of the values of a wire type."""
_LAST = 63
"""Place of the bits of the tenth byte, which ends a number of 64 bits at the latest."""
_SMALL = [bytes([value]) for value in range(0x80)]
"""Encoded numbers of one byte, which most are."""


class BadVarint(ValueError):
    """The bytes are no number of 64 bits, or no message."""


def read_varint(data: bytes | memoryview, at: int = 0) -> tuple[int, int]:
    """Return the unsigned number at a position, and the position behind it.

    Raises:
        BadVarint: it ends too early, or has more than 64 bits.
    """
    value = shift = 0
    try:
        while (byte := data[at]) >= 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
            at += 1
            if shift > _LAST:  # before the number grows with the damage
                raise BadVarint("a number has more than 64 bits")
    except IndexError:
        raise BadVarint("a number has no end") from None
    value |= byte << shift
    if value >> 64:
        raise BadVarint("a number has more than 64 bits")
    return value, at + 1


def read_zigzag(data: bytes | memoryview, at: int = 0) -> tuple[int, int]:
    """Return the signed number at a position, whose lowest bit is the sign; otherwise as `read_varint`."""
    value, at = read_varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def encode_varint(value: int) -> bytes:
    """Encode an unsigned number; a negative one is a `ValueError`."""
    if 0 <= value <= 0x7F:
        return _SMALL[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_zigzag(value: int) -> bytes:
    """Encode a signed number of 64 bits."""
    return encode_varint((value << 1) ^ (value >> 63))


def read_fields(message: bytes) -> list[tuple[int, int | bytes]]:
    """Return the fields of a protobuf message: number and value of each.

    Raises:
        BadVarint: it's cut off, or has a field of an unknown wire type.
    """
    return [(field, value) for field, value, _ in _fields(message)]


def read_delimited(data: bytes) -> list[tuple[int, int | bytes]]:
    """Return the fields of a protobuf message behind its own length; raises as `read_fields`."""
    length, at = read_varint(data)
    if length > len(data) - at:
        raise BadVarint("a message is longer than its place")
    return read_fields(data[at : at + length])


def without_field(message: bytes, field: int) -> bytes:
    """Return a protobuf message without a field, all others as they are; raises as `read_fields`."""
    return b"".join(stored for number, _, stored in _fields(message) if number != field)


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes, bytes]]:
    """Yield number, value and stored bytes of each field."""
    at = 0
    while at < len(message):
        start = at
        tag, at = read_varint(message, at)
        field, wire = tag >> 3, tag & 7
        value: int | bytes
        if wire == _VARINT:
            value, at = read_varint(message, at)
        elif wire == _BYTES or wire in _SIZES:
            size, at = read_varint(message, at) if wire == _BYTES else (_SIZES[wire], at)
            if size > len(message) - at:
                raise BadVarint("a message ends within a field")
            value, at = message[at : at + size], at + size
        else:
            raise BadVarint("a message has a field of an unknown wire type")
        yield field, value, message[start:at]


def encode_number(field: int, value: int) -> bytes:
    """Encode a field of a protobuf message with an unsigned number."""
    return encode_varint(field << 3 | _VARINT) + encode_varint(value)


def encode_bytes(field: int, value: bytes) -> bytes:
    """Encode a field of a protobuf message with bytes, a text or another message."""
    return encode_varint(field << 3 | _BYTES) + encode_varint(len(value)) + value
