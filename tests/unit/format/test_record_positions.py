"""Record positions come back as they were written, and what Hudi wrote is where its records are in the base file."""

from __future__ import annotations

import base64
import struct
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pudi.errors import CorruptError, InvalidArgumentError
from pudi.format.log_block import BlockKind, Header, decode_blocks
from pudi.format.log_data import decode_data, decode_positions, encode_positions
from pudi.format.log_deletes import decode_deletes
from pudi.format.names import parse_base_file, parse_log_file
from support.golden import Golden

SOME = st.sets(st.integers(0, 2**31 - 1) | st.integers(0, 200_000), max_size=40)


@given(SOME, st.integers(0, 200_000), st.integers(0, 70_000))
def test_positions_come_back(some: set[int], start: int, count: int) -> None:
    positions = np.array(sorted(some | set(range(start, start + count, 3))), dtype=np.int64)
    assert decode_positions(encode_positions(positions), len(positions)).tolist() == positions.tolist()


def test_runs_are_read() -> None:
    bitmap = struct.pack("<QIIBHHHHH", 1, 0, 12347, 1, 0, 5, 1, 10, 5)
    assert decode_positions(base64.b64encode(bitmap).decode(), 6).tolist() == [10, 11, 12, 13, 14, 15]


@pytest.mark.parametrize("name", ["mor_v8_basic", "mor_v9_basic", "mor_v9_parquetlog"])
def test_hudis_positions_are_the_rows_of_the_base_file(name: str) -> None:
    checked = 0
    with zipfile.ZipFile(Golden(name).archive) as archive:
        names = {path.rpartition("/")[2]: path for path in archive.namelist() if "/.hoodie/" not in path}
        bases = {(b.file_id, b.instant): path for n, path in names.items() if (b := parse_base_file(n)) is not None}
        for log_name, path in names.items():
            log = parse_log_file(log_name)
            for block in decode_blocks(archive.read(path)) if log is not None else ():
                text = block.headers.get(Header.RECORD_POSITIONS)
                if log is None or text is None:
                    continue
                base = bases[log.file_id, block.headers[Header.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS]]
                rows = pq.read_table(pa.BufferReader(archive.read(base)), columns=["_hoodie_record_key"])
                if block.kind is BlockKind.DELETE:
                    keys = decode_deletes(block).keys.to_pylist()
                else:
                    keys = decode_data(block)["_hoodie_record_key"].to_pylist()
                positions = decode_positions(text, len(keys))
                assert rows["_hoodie_record_key"].take(pa.array(positions)).to_pylist() == keys
                assert encode_positions(positions) == text, "byte for byte what Hudi writes"
                checked += 1
    assert checked > 3


COUNT = len(range(0, 300_000, 7))
WHOLE = base64.b64decode(encode_positions(np.arange(0, 300_000, 7)))


@given(st.integers(0, len(WHOLE) - 1))
def test_a_text_cut_short_is_corrupt(size: int) -> None:
    with pytest.raises(CorruptError):
        decode_positions(base64.b64encode(WHOLE[:size]).decode(), COUNT)


@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255))
def test_a_flipped_byte_is_no_crash(at: int, mask: int) -> None:
    damaged = bytearray(WHOLE)
    damaged[at] ^= mask
    try:
        decode_positions(base64.b64encode(damaged).decode(), COUNT)
    except CorruptError:
        return


@pytest.mark.parametrize("text", ["?", "AAAA", base64.b64encode(struct.pack("<QII", 2**60, 0, 12346)).decode()])
def test_what_is_no_bitmap_is_corrupt(text: str) -> None:
    with pytest.raises(CorruptError, match="positions"):
        decode_positions(text, 1)


def test_a_few_bytes_that_claim_many_rows_are_corrupt() -> None:
    runs = b"".join(struct.pack("<HHH", 1, 0, 65535) for _ in range(8))
    heads = b"".join(struct.pack("<HH", key, 65535) for key in range(8))
    offsets = struct.pack("<8I", *(4 + 1 + 32 + 32 + 6 * n for n in range(8)))
    bitmap = struct.pack("<QIIB", 1, 0, 12347 | 7 << 16, 255) + heads + offsets + runs
    text = base64.b64encode(bitmap).decode()
    assert len(decode_positions(text, 8 << 16)) == 8 << 16
    with pytest.raises(CorruptError, match="524288 positions for 3 records"):
        decode_positions(text, 3)


@pytest.mark.parametrize("positions", [[3, 1], [1, 1], [-1]])
def test_positions_must_ascend(positions: list[int]) -> None:
    with pytest.raises(InvalidArgumentError):
        encode_positions(np.array(positions))
