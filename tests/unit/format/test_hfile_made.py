"""HFiles of our own: round trips, blocks that are read, an index of levels, damage."""

from __future__ import annotations

import pickle
import zlib
from itertools import pairwise
from struct import Struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pudi.errors import CorruptError, InvalidArgumentError, NotSupportedError, PudiError
from pudi.format import hfile_blocks as blocks
from pudi.format.avro_values import Records
from pudi.format.hfile_blocks import FAMILY, _side_by_side, _walk, find_entries
from pudi.format.hfile_read import HFileReader, open_bytes
from pudi.format.hfile_write import HFileSettings, StoredBloom, encode_hfile

Pairs = dict[bytes, bytes]

SCHEMA = '{"type":"string"}'
HEADER = blocks.HEADER


def made(pairs: Pairs, bloom: bytes | None = None, **settings: Any) -> bytes:
    keys = sorted(pairs)
    columns = pa.array(keys, pa.binary()), pa.array([pairs[key] for key in keys], pa.binary())
    stored = None if bloom is None else StoredBloom(bloom)
    return encode_hfile(*columns, avro_schema=SCHEMA, bloom=stored, settings=HFileSettings(**settings))


def rows(table: pa.Table) -> list[tuple[bytes, bytes]]:
    return list(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))


def opened(content: bytes) -> HFileReader:
    return open_bytes(content, path="x.hfile")


def many(count: int = 5000) -> Pairs:
    return {b"%08d" % (7 * i): b"%d" % i * (i % 5) for i in range(count)}


PIECES = st.binary(max_size=12) | st.sampled_from([FAMILY, FAMILY + b"\0", b"\x7f" + FAMILY])
PAIRS = st.dictionaries(st.binary(max_size=9) | st.integers(0, 500).map(lambda i: b"%d" % i), PIECES, max_size=40)


@given(PAIRS, st.sampled_from(["gzip", "none"]), st.integers(1, 300))
@example({b"": b""}, "none", 1)
@example({b"a" + FAMILY: FAMILY, b"b": FAMILY * 3}, "gzip", 300)
def test_round_trip(pairs: Pairs, codec: str, block_bytes: int) -> None:
    reader = opened(made(pairs, codec=codec, block_bytes=block_bytes))
    assert rows(reader.scan()) == sorted(pairs.items())
    assert reader.entry_count == len(pairs)
    assert reader.avro_schema == SCHEMA
    assert reader.meta_block("bloomFilter") is None


@given(PAIRS, st.lists(st.binary(max_size=9)), st.integers(1, 300))
@example({b"a": b"", b"\xff\xff": b"1", b"\xff\xff\xff": b"2"}, [b"\xff", b"\xff\xff"], 1)
@example({b"a": b"", b"b": b""}, [b""], 1)
def test_seeks(pairs: Pairs, others: list[bytes], block_bytes: int) -> None:
    reader = opened(made(pairs, block_bytes=block_bytes))
    keys = sorted(pairs)[::2] + others
    assert rows(reader.seek(pa.array(keys[::-1], pa.binary()))) == [
        (k, pairs[k]) for k in sorted(set(keys) & set(pairs))
    ]
    prefixes = [key[:2] for key in keys]
    found = [(k, pairs[k]) for k in sorted(pairs) if any(k.startswith(p) for p in prefixes)]
    assert rows(reader.seek_prefixes(prefixes)) == found


@given(PAIRS)
def test_entries_side_by_side_are_those_of_a_walk(pairs: Pairs) -> None:
    content = b"".join(
        Struct(">iiH").pack(len(k) + 12, len(v), len(k)) + k + FAMILY + v + b"\0" for k, v in sorted(pairs.items())
    )
    together = _side_by_side(Records.of(content))
    begin, keys = _walk(content, len(content))
    if together is not None:
        assert np.array_equal(together[0], begin)
        assert np.array_equal(together[1], keys)
    assert len(find_entries(content + bytes(16), len(content)).key) == len(pairs)


def test_keys_of_few_lengths_need_no_walk() -> None:
    keys = sorted(b"%d" % i for i in range(1, 3000))
    content = b"".join(Struct(">iiH").pack(len(k) + 12, len(k), len(k)) + k + FAMILY + k + b"\0" for k in keys)
    assert _side_by_side(Records.of(content)) is not None


def test_only_the_blocks_needed_are_read() -> None:
    pairs = {b"%08d" % i: zlib.crc32(b"%d" % i).to_bytes(4, "big") * 20 for i in range(100_000)}
    content = made(pairs, block_bytes=64 << 10)
    assert len(content) > 800_000
    asked: list[tuple[int, int]] = []

    def read(offset: int, length: int) -> bytes:
        asked.append((offset, length))
        return content[offset : offset + length]

    reader = HFileReader.open(read, len(content), path="x")
    assert asked == [(len(content) - (128 << 10), 128 << 10)]
    asked.clear()
    assert reader.seek(pa.array(["00000500"])).num_rows == 1
    assert len(asked) == 1
    assert asked[0][1] < 64 << 10
    asked.clear()
    assert reader.seek_prefixes([b"000001"]).num_rows == 100
    assert len(asked) == 1
    assert asked[0][1] < 64 << 10
    asked.clear()
    assert reader.scan().num_rows == len(pairs)
    assert len(asked) == 1


def test_many_keys_and_prefixes_over_several_batches() -> None:
    """Entries are searched in batches of a few blocks, each for the keys alone that can be in it."""
    pairs = {b"%06d" % (3 * number): b"%0100d" % number for number in range(50_000)}
    reader = opened(made(pairs, block_bytes=100_000))
    assert len(list(reader.batches())) > 2
    keys = [b"%06d" % number for number in range(0, 150_100, 7)]
    assert rows(reader.seek(pa.array(keys[::-1]))) == [(key, pairs[key]) for key in keys if key in pairs]
    prefixes = [b"%04d" % number for number in range(5, 1600, 31)]
    wanted = set(prefixes)
    assert rows(reader.seek_prefixes(prefixes)) == [item for item in pairs.items() if item[0][:4] in wanted]


def test_hudi_sees_the_last_entry_of_each_block() -> None:
    """HFileDataBlock's content ends as many bytes early as the block has of checksums."""
    for codec in ("none", "gzip"):
        content = made({b"%07d" % i: b"" for i in range(200_000)}, codec=codec)
        reader = opened(content)
        assert reader.scan().num_rows == 200_000
        for offset, size in zip(reader._root.offsets, reader._root.sizes, strict=True):
            _, behind, unpacked, *_ = HEADER.unpack_from(content, offset)
            assert behind + HEADER.size == size
            hidden = blocks.checksum_size(behind + HEADER.size)
            assert hidden < 21 + 7
            assert unpacked % 28 == 0


def with_levels(pairs: Pairs, fan_out: int, levels: int) -> bytes:
    """A file like those of HBase, with index blocks below the root."""
    flat = made(pairs, block_bytes=100)
    reader = opened(flat)
    data = flat[: reader._trailer.load_on_open]
    entries = reader._root
    for level in range(levels - 1):
        upper = blocks.IndexEntries([], [], [])
        for at in range(0, len(entries.keys), fan_out):
            part = entries.chosen(range(at, min(at + fan_out, len(entries.keys))))
            cells = [
                Struct(">qiH").pack(o, s, len(k)) + k + FAMILY
                for k, o, s in zip(part.keys, part.offsets, part.sizes, strict=True)
            ]
            ends = np.cumsum([0, *(len(cell) for cell in cells)]).astype(">i4")
            content = len(cells).to_bytes(4, "big") + ends.tobytes() + b"".join(cells)
            block = blocks.encode_block(blocks.INNER_INDEX if level else blocks.LEAF_INDEX, content, "gzip", 3)
            upper.keys.append(part.keys[0])  # type: ignore[attr-defined]
            upper.offsets.append(len(data))  # type: ignore[attr-defined]
            upper.sizes.append(len(block))  # type: ignore[attr-defined]
            data += block
        entries = upper
    opening = len(data)
    data += blocks.encode_block(blocks.ROOT_INDEX, blocks.encode_root(entries, True), "gzip", 3)
    data += blocks.encode_block(blocks.ROOT_INDEX, b"", "gzip", 3)
    info = len(data)
    data += blocks.encode_block(blocks.FILE_INFO, blocks.encode_info(reader.info), "gzip", 3)
    return data + blocks.encode_trailer(
        blocks.Trailer(info, opening, len(entries.keys), 0, len(pairs), levels, 0, 0, 0, 1)
    )


@pytest.mark.parametrize("levels", [1, 2, 3, 4])
def test_index_of_levels(levels: int) -> None:
    pairs = many(3000)
    reader = opened(with_levels(pairs, 7, levels))
    assert rows(reader.scan()) == sorted(pairs.items())
    wanted = sorted(pairs)[::97]
    assert rows(reader.seek(pa.array([*wanted, b"zz", b"!"]))) == [(k, pairs[k]) for k in wanted]
    prefix = b"0001"
    assert rows(reader.seek_prefixes([prefix])) == [(k, pairs[k]) for k in sorted(pairs) if k.startswith(prefix)]


def test_keys_in_the_order_of_java_are_found() -> None:
    """Hudi sorts texts by UTF-16 units: an emoji comes before a full-width letter."""
    keys = ["a", "\N{GRINNING FACE}", "\uff21", "\uff22"]
    columns = pa.array([k.encode() for k in keys]), pa.array([b""] * 4)
    from pudi.format import hfile_write

    check, hfile_write._check = hfile_write._check, lambda *_: None
    try:
        content = encode_hfile(*columns, avro_schema=SCHEMA, settings=HFileSettings(block_bytes=1))
    finally:
        hfile_write._check = check
    for key in keys:
        assert opened(content).seek(pa.array([key])).num_rows == 1
        assert opened(content).seek_prefixes([key.encode()]).num_rows == 1


def test_bloom_and_info() -> None:
    reader = opened(made({b"a": b"1", b"c": b"2"}, bloom=b"AAAA", created=1234))
    assert reader.meta_block("bloomFilter") == b"AAAA"
    assert reader.info["minRecordKey"] == b"a"
    assert reader.info["maxRecordKey"] == b"c"
    assert reader.info["hfile.LASTKEY"] == b"\0\1c"
    assert int.from_bytes(reader.info["hfile.CREATE_TIME_TS"], "big") == 1234


@pytest.mark.parametrize(
    ("keys", "values"),
    [
        ([b"b", b"a"], [b"", b""]),
        ([b"a", b"a"], [b"", b""]),
        ([b"a"], []),
        ([None], [b""]),
        ([b"a" * 40_000], [b""]),
    ],
)
def test_what_is_no_content(keys: list[bytes], values: list[bytes]) -> None:
    with pytest.raises(InvalidArgumentError):
        encode_hfile(pa.array(keys, pa.binary()), pa.array(values, pa.binary()), avro_schema=SCHEMA)


def test_unknown_codec_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="choose gzip or none"):
        made({}, codec="zstd")
    content = made({b"a": b""})
    trailer = opened(content)._trailer
    other = blocks.encode_trailer(blocks.Trailer(trailer.file_info, trailer.load_on_open, 1, 0, 1, 1, 0, 0, 0, codec=3))
    with pytest.raises(NotSupportedError, match="codec 3"):
        opened(content[:-4096] + other)


CONTENT = made(many(200), block_bytes=500, bloom=b"A" * 99)
PLAIN = made(many(200), block_bytes=500, codec="none")


def read_all(content: bytes) -> list[tuple[bytes, bytes]]:
    reader = opened(content)
    found = rows(reader.scan())
    reader.seek(pa.array([b"00000007", b"5"]))
    reader.seek_prefixes([b"0000"])
    reader.meta_block("bloomFilter")
    return found


@given(st.sampled_from([CONTENT, PLAIN]), st.data())
def test_cut_off(content: bytes, data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, 3))
    end = data.draw(st.integers(0, len(content) - 1))
    with pytest.raises(CorruptError) as caught:
        read_all(content[begin:end])
    assert pickle.loads(pickle.dumps(caught.value)).path == "x.hfile"


@given(
    st.sampled_from([CONTENT, PLAIN]),
    st.lists(st.tuples(st.integers(0, 2**31), st.integers(1, 255)), min_size=1, max_size=3),
)
def test_flipped_bits(content: bytes, flips: list[tuple[int, int]]) -> None:
    damaged = bytearray(content)
    for at, mask in flips:
        damaged[at % len(content)] ^= mask
    try:
        found = read_all(bytes(damaged))
    except PudiError as error:
        assert error.path == "x.hfile"
    else:  # keys and values have no checksum in files without a codec; none are lost
        assert len(found) == 200


TRUTH = sorted(many(200).items())
SOME = pa.array([b"00000007", b"00000700", b"00001393", b"5"], pa.binary())


@given(st.lists(st.tuples(st.integers(0, 2**31), st.integers(1, 255)), min_size=1, max_size=3), st.booleans())
def test_what_is_packed_is_right_or_refused(flips: list[tuple[int, int]], at_the_end: bool) -> None:
    """Flipped bits in a file with a codec: an error, or all entries as they were, sought ones too."""
    damaged = bytearray(CONTENT)
    for at, mask in flips:
        place = len(CONTENT) - 4096 + at % 120 if at_the_end else at % len(CONTENT)  # the trailer has no checksum
        damaged[place] ^= mask
    for ask, wanted in (
        (lambda file: file.scan(), TRUTH),
        (lambda file: file.seek(SOME), [pair for pair in TRUTH if pair[0] in SOME.to_pylist()]),
        (lambda file: file.seek_prefixes([b"000007"]), [pair for pair in TRUTH if pair[0].startswith(b"000007")]),
    ):
        try:
            found = rows(ask(opened(bytes(damaged))))
        except PudiError as error:
            assert error.path == "x.hfile"
        else:
            assert found == wanted


def test_blocks_that_the_trailer_leaves_out_are_missed() -> None:
    t = opened(CONTENT)._trailer
    fewer = blocks.encode_trailer(
        blocks.Trailer(t.file_info, t.load_on_open, t.data_blocks - 1, t.meta_blocks, t.entries)
    )
    with pytest.raises(CorruptError, match="more than the"):
        opened(CONTENT[:-4096] + fewer).seek(SOME)


def test_bombs_are_refused_before_they_are_unpacked() -> None:
    for claimed in (1 << 30, (1 << 31) - 1, 600 << 20, -1):
        bomb = blocks.pack(bytes(1 << 20), 9)
        head = HEADER.pack(blocks.ROOT_INDEX, len(bomb), claimed, -1, 0, 16384, HEADER.size + len(bomb))
        trailer = blocks.encode_trailer(blocks.Trailer(len(head) + len(bomb), 0, 0, 0, 0))
        with pytest.raises(CorruptError, match="packed"):
            opened(head + bomb + trailer)


def test_wrong_count_is_found() -> None:
    reader = opened(CONTENT)
    t = reader._trailer
    wrong = blocks.encode_trailer(
        blocks.Trailer(t.file_info, t.load_on_open, t.data_blocks, t.meta_blocks, t.entries + 1)
    )
    with pytest.raises(CorruptError, match="200 entries where it says 201"):
        opened(CONTENT[:-4096] + wrong).scan()


def test_blocks_follow_each_other() -> None:
    reader = opened(CONTENT)
    ends = [offset + size for offset, size in zip(reader._root.offsets, reader._root.sizes, strict=True)]
    assert all(end == begin for end, begin in zip(ends[:-1], reader._root.offsets[1:], strict=True))
    assert all(a < b for a, b in pairwise(reader._root.keys))
