"""The end of ORC files: notes of writers and time zones, read and written; damage in any byte is told."""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import orc

from pudi.errors import CorruptError, NotSupportedError
from pudi.format.orc_tail import (
    OrcTail,
    decode_tail,
    has_null_keys,
    in_zone_gmt,
    tail_bytes,
    with_notes,
    zone_of_stripe,
)

ROWS = pa.table({"id": [f"k{n}" for n in range(3000)], "at": pa.array(range(3000), pa.timestamp("us"))})


def _file(codec: str = "zlib", stripe: int = 64 << 20) -> bytes:
    sink = pa.BufferOutputStream()
    with orc.ORCWriter(sink, compression=codec, stripe_size=stripe, batch_size=256) as writer:
        for start in range(0, ROWS.num_rows, 500):
            writer.write(ROWS.slice(start, 500))
    return bytes(sink.getvalue())


def _tail(content: bytes) -> OrcTail:
    return decode_tail(content[-tail_bytes(content[-256:]) :], len(content))


@pytest.mark.parametrize("codec", ["uncompressed", "zlib", "snappy", "lz4", "zstd"])
def test_notes_are_added_and_read(codec: str) -> None:
    notes = {"a": b"1", "b": bytes(range(256)) * 2000}
    made = b"".join(with_notes(pa.py_buffer(_file(codec)), notes))
    tail = _tail(made)
    assert tail.notes == notes
    assert sum(stripe.rows for stripe in tail.stripes) == ROWS.num_rows
    again = orc.ORCFile(pa.BufferReader(made))
    assert again.read(["id"]).equals(ROWS.select(["id"]))
    assert again.schema.metadata[b"a"] == b"1"
    both = b"".join(with_notes(pa.py_buffer(made), {"c": b"3"}))
    assert _tail(both).notes == notes | {"c": b"3"}


@pytest.mark.parametrize("stripe", [1 << 10, 64 << 20])
def test_stripes_say_gmt(stripe: int) -> None:
    content = _file("zlib", stripe)
    tail = _tail(content)
    moved = in_zone_gmt(content, tail)
    assert orc.ORCFile(pa.BufferReader(moved)).read().equals(orc.ORCFile(pa.BufferReader(content)).read())
    there = _tail(moved)
    ends = [each.start + each.body for each in there.stripes]
    footers = [moved[end : end + each.footer] for end, each in zip(ends, there.stripes, strict=True)]
    assert {zone_of_stripe(footer, there) for footer in footers} == {"GMT"}
    assert [each.rows for each in there.stripes] == [each.rows for each in tail.stripes]


@pytest.mark.parametrize("codec", ["uncompressed", "zlib"])
def test_keys_of_maps_that_may_be_null(codec: str) -> None:
    """Arrow's reader ends the process at one."""
    sink, kind = pa.BufferOutputStream(), pa.map_(pa.string(), pa.int64())
    rows = pa.table({"id": ["a"], "in": pa.array([{"m": [("x", None)]}], pa.struct({"m": kind}))})
    with orc.ORCWriter(sink, compression=codec) as writer:
        writer.write(rows)
    content = bytes(sink.getvalue())
    tail = _tail(content)
    assert tail.map_keys == {4}  # after the row, id, in, and m
    [stripe] = tail.stripes
    footer = content[stripe.start + stripe.body :][: stripe.footer]
    assert not has_null_keys(footer, tail)
    for column in (4, 5):
        stream = bytes([10, 4, 8, 0, 16, column])  # its presence
        stored = stream if codec == "uncompressed" else (len(stream) << 1 | 1).to_bytes(3, "little") + stream
        assert has_null_keys(footer + stored, tail) == (column == 4)


def test_what_is_no_file() -> None:
    for content in (b"", b"ORC", b"x" * 300, _file()[:-1]):
        with pytest.raises(CorruptError):
            _tail(content)


WHOLE = _file("zlib", 1 << 10)


@given(at=st.integers(0, tail_bytes(WHOLE[-256:]) - 1), bit=st.integers(0, 7))
def test_a_flipped_bit_is_told_or_does_no_harm(at: int, bit: int) -> None:
    changed = bytearray(WHOLE)
    changed[len(WHOLE) - 1 - at] ^= 1 << bit
    with suppress(CorruptError, NotSupportedError):
        in_zone_gmt(bytes(changed), _tail(bytes(changed)))


@given(cut=st.integers(0, len(WHOLE) - 1))
def test_a_cut_file_is_told(cut: int) -> None:
    with pytest.raises((CorruptError, NotSupportedError)):
        _tail(WHOLE[:cut])
