"""Framing of log files: what is written comes back; damage is refused, or told to who asks, and never believed."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pudi.errors import CorruptError, NotSupportedError
from pudi.format.log_block import MAGIC, BlockKind, Header, LogBlock, decode_blocks, encode_block

BLOCKS = st.tuples(
    st.sampled_from(BlockKind), st.dictionaries(st.sampled_from(Header), st.text(max_size=20)), st.binary(max_size=60)
)


def _plain(block: LogBlock) -> tuple[BlockKind, dict[Header, str], bytes]:
    return block.kind, dict(block.headers), bytes(block.content)


@given(st.lists(BLOCKS, max_size=5))
def test_blocks_come_back(blocks: list[tuple[BlockKind, dict[Header, str], bytes]]) -> None:
    data = b"".join(encode_block(*block) for block in blocks)
    assert [_plain(block) for block in decode_blocks(data)] == blocks


def test_the_bytes_are_those_of_the_specification() -> None:
    block = encode_block(BlockKind.DELETE, {Header.INSTANT_TIME: "20"}, b"xyz")
    inside = struct.pack(">iiiii2sq3siq", 1, 1, 1, 0, 2, b"20", 3, b"xyz", 0, 0)
    length = len(inside)
    assert block == MAGIC + struct.pack(">q", length) + inside[:-8] + struct.pack(">q", length + 6)


TWO = [encode_block(BlockKind.AVRO, {Header.INSTANT_TIME: str(n)}, bytes([n]) * 40) for n in (1, 2)]


@given(st.integers(1, len(TWO[1]) - 1))
def test_a_block_cut_short_is_refused_by_its_offset(size: int) -> None:
    with pytest.raises(CorruptError, match="cut off or damaged") as caught:
        list(decode_blocks(TWO[0] + TWO[1][:size], path="p/.f.log.1"))
    assert (caught.value.path, caught.value.offset) == ("p/.f.log.1", len(TWO[0]))


def test_whoever_asks_is_told_the_stretches_that_are_no_block() -> None:
    found: list[tuple[int, int]] = []
    data = TWO[0] + TWO[1][:30] + TWO[0]
    blocks = list(decode_blocks(data, damaged=lambda start, end: found.append((start, end))))
    assert [block.instant for block in blocks] == ["1", "1"]
    assert [block.offset for block in blocks] == [0, len(TWO[0]) + 30]
    assert found == [(len(TWO[0]), len(TWO[0]) + 30)]


@given(st.integers(0, len(TWO[0] + TWO[1]) - 1), st.integers(1, 255))
def test_a_flipped_byte_is_never_a_crash(at: int, mask: int) -> None:
    data = bytearray(TWO[0] + TWO[1])
    data[at] ^= mask
    try:
        found = list(decode_blocks(bytes(data)))
    except (CorruptError, NotSupportedError):
        return
    assert len(found) <= 2


@pytest.mark.parametrize("length", [2**60, -1, -(2**63), 0, 39, 2**31])
def test_lengths_are_believed_only_where_the_bytes_are(length: int) -> None:
    data = MAGIC + struct.pack(">q", length) + TWO[0][14:] + TWO[1]
    found: list[tuple[int, int]] = []
    assert [b.instant for b in decode_blocks(data, damaged=lambda *stretch: found.append(stretch))] == ["2"]
    assert found == [(0, len(TWO[0]))]


@pytest.mark.parametrize("count", [2**31 - 1, -1, 1025])
@pytest.mark.parametrize("place", ["headers", "text", "content", "footers"])
def test_counts_inside_a_block_are_not_believed(count: int, place: str) -> None:
    data = bytearray(encode_block(BlockKind.AVRO, {Header.INSTANT_TIME: "1"}, b"abcd"))
    at = {"headers": 22, "text": 30, "content": 39, "footers": 47}[place]
    data[at : at + 4] = struct.pack(">i", count)
    with pytest.raises(CorruptError, match="damaged"):
        list(decode_blocks(bytes(data)))


def test_other_versions_and_kinds_are_refused_since_records_could_be_lost() -> None:
    for at, what in ((17, "format version 9"), (21, "type 9")):
        data = bytearray(TWO[0])
        data[at] = 9
        with pytest.raises(NotSupportedError, match=what):
            list(decode_blocks(bytes(data)))
