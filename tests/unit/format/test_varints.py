"""Numbers in groups of seven bits and protobuf messages: what is encoded is decoded, and damage is an error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pudi.format.varints import (
    BadVarint,
    encode_bytes,
    encode_number,
    encode_varint,
    encode_zigzag,
    read_delimited,
    read_fields,
    read_varint,
    read_zigzag,
    without_field,
)

_UNSIGNED = st.integers(0, (1 << 64) - 1)
_FIELDS = st.lists(st.tuples(st.integers(1, 1 << 20), _UNSIGNED | st.binary(max_size=300)), max_size=10)


def _message(fields: list[tuple[int, int | bytes]]) -> bytes:
    return b"".join(encode_number(n, v) if isinstance(v, int) else encode_bytes(n, v) for n, v in fields)


@given(_UNSIGNED, st.integers(-(1 << 63), (1 << 63) - 1))
def test_numbers_are_decoded(unsigned: int, signed: int) -> None:
    assert read_varint(b"x" + encode_varint(unsigned) + b"x", 1) == (unsigned, 1 + len(encode_varint(unsigned)))
    assert read_zigzag(encode_zigzag(signed)) == (signed, len(encode_zigzag(signed)))


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 9 + b"\x02", b"\xff" * 20 + b"\0", b"\x80" * 10 + b"\0"])
def test_what_is_no_number_is_refused(data: bytes) -> None:
    with pytest.raises(BadVarint):
        read_varint(data)


def test_a_number_is_read_no_further_than_its_tenth_byte() -> None:
    with pytest.raises(BadVarint, match="more than 64 bits"):
        read_varint(b"\xff" * 11)  # has no end either


@pytest.mark.parametrize("value", [-1, -128, -(1 << 63)])
def test_negative_numbers_are_none_without_a_sign(value: int) -> None:
    with pytest.raises(ValueError, match="byte"):
        encode_varint(value)


@given(_FIELDS)
def test_messages_are_decoded(fields: list[tuple[int, int | bytes]]) -> None:
    message = _message(fields)
    assert read_fields(message) == fields
    assert read_delimited(encode_varint(len(message)) + message + b"behind") == fields
    for number, _ in fields:
        assert read_fields(without_field(message, number)) == [each for each in fields if each[0] != number]


def test_values_of_fixed_size_are_their_bytes() -> None:
    message = encode_varint(1 << 3 | 5) + b"four" + encode_varint(2 << 3 | 1) + b"eight..." + encode_number(3, 3)
    assert read_fields(message) == [(1, b"four"), (2, b"eight..."), (3, 3)]
    assert without_field(message, 3) == message[:-2]


@pytest.mark.parametrize(
    "message",
    [encode_bytes(1, b"text")[:-1], encode_varint(1 << 3 | 1) + b"seven..", encode_varint(1 << 3 | 3), b"\x80"],
)
def test_damaged_messages_are_refused(message: bytes) -> None:
    with pytest.raises(BadVarint):
        read_fields(message)
    with pytest.raises(BadVarint):
        read_delimited(encode_varint(len(message) + 1) + message)
