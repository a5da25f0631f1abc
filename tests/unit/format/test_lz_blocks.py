"""Blocks of LZ4 and LZO: those of other encoders are decoded, damage is told, nothing grows blindly."""

from __future__ import annotations

from base64 import b64decode
from contextlib import suppress

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pudi.errors import CorruptError
from pudi.format.orc_tail import decode_lz4, decode_lzo

_PATTERN = bytes(n * n % 251 for n in range(300))
LZO = b64decode(
    "AOkAAQQJEBkkMUBRZHmQqcThBSZJbpW+6RtKe67jH1iT0BRVmN0pcr0PXq8HXLMRbMktjvFbwjCbDXztZdpWz0/MUNFZ3mrzgxWk"
    "Os1nA5w82X0jxnAcxXUn1oxE+bVzM/C0ekIM06FxQxfowJp2VDQW9dvDrZmHd2ldU0tFQT8/QUVLU11pd4eZrcPb9RY0VHaawOgX"
    "Q3Gh0wxCerTwM3O1+USM1id1xRxwxiN92TycA2fNOqQVg/Nq3lnRUMxPz1baZe18DZswwlvxji3JbBGzXAevXg+9cindmFUU0JNY"
    "H+Oue0ob6b6VbkkmBeHEqZB5ZFFAMSQZEAkEASAQ6QMAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE0AABAAIzM9YWJjIOoIAANob29kaWUQvWhFAgkEZW5kEQAA"
)
LZO_DECODED = _PATTERN + bytes(20_000) + _PATTERN + b"abc" * 90 + b"hoodie" + _PATTERN[50:250] + b"end"
"""What io.airlift.compress.lzo.LzoCompressor makes of it, which Apache ORC and Hadoop use."""
PIECES = st.lists(st.sampled_from([b"hoodie", b"abc" * 90, bytes(range(40)), bytes(700), b"x"]), max_size=30)


def test_lzo() -> None:
    assert decode_lzo(LZO, len(LZO_DECODED)) == LZO_DECODED
    with pytest.raises(CorruptError, match="more than its file says"):
        decode_lzo(LZO, len(LZO_DECODED) - 1)


@given(PIECES)
def test_lz4(pieces: list[bytes]) -> None:
    whole = b"".join(pieces)
    block = pa.compress(whole, codec="lz4_raw", asbytes=True)
    assert decode_lz4(block, len(whole)) == whole
    if whole:
        with pytest.raises(CorruptError):
            decode_lz4(block, len(whole) - 1)


@given(st.binary(max_size=200), st.integers(0, 5000))
def test_any_bytes(content: bytes, most: int) -> None:
    for decode in (decode_lz4, decode_lzo):
        with suppress(CorruptError):
            assert len(decode(content, most)) <= most
