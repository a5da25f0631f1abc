from __future__ import annotations

import base64
import io
import json
import struct
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from golden_files import FORMAT, base_files
from hypothesis import given
from hypothesis import strategies as st

from pudi.errors import CorruptError, InvalidArgumentError, NotSupportedError
from pudi.format import BloomFilter, BloomOptions, read_bloom_filter

# Made by Hudi 1.2's own classes: small filters of both types, full and beyond full, keys of many lengths and scripts.
CASES = json.loads((FORMAT / "bloom.json").read_text())
IDS = [f"{case['type']}-{len(case['keys'])}" for case in CASES]
SMALL = BloomOptions(num_entries=20, fpp=0.01, max_entries=40)

keys = st.lists(st.text(min_size=1, max_size=30), max_size=90)


def build(case: dict[str, Any]) -> BloomFilter:
    options = BloomOptions(case["num_entries"], case["fpp"], case["max_entries"], case["type"])
    return BloomFilter.build(pa.array(case["keys"], pa.string()), options)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_filter_is_hudis_bit_for_bit(case: dict[str, Any]) -> None:
    assert build(case).to_base64() == case["filter"]


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_hudis_filter_answers_as_hudi_does(case: dict[str, Any]) -> None:
    decoded = BloomFilter.from_base64(case["filter"], case["type"])
    assert decoded == build(case)
    others = decoded.might_contain(pa.array([f"other{n}" for n in range(200)]))
    assert "".join(str(int(answer)) for answer in others.to_pylist()) == case["others"]
    assert decoded.might_contain(pa.array(case["keys"], pa.string())).to_pylist() == [True] * len(case["keys"])


def test_filters_in_hudis_base_files_are_rebuilt_from_their_keys() -> None:
    seen = non_ascii = 0
    for path, data in base_files().items():
        stored = read_bloom_filter(pq.read_metadata(io.BytesIO(data)), path=path)
        if stored is None:
            continue
        column = pq.read_table(io.BytesIO(data), columns=["_hoodie_record_key"])["_hoodie_record_key"]
        assert BloomFilter.build(column, BloomOptions(stored.row_entries)) == stored, path
        seen += 1
        non_ascii += any(not key.isascii() for key in column.to_pylist())
    assert seen > 60
    assert non_ascii >= 3


@given(
    keys, st.sampled_from([pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())])
)
def test_no_key_is_ever_denied(values: list[str], kind: pa.DataType) -> None:
    array = pa.array(values, pa.string()).cast(kind)
    bloom = BloomFilter.build(array, SMALL)
    assert bloom.might_contain(array).to_pylist() == [True] * len(values)
    assert BloomFilter.from_base64(bloom.to_base64()) == bloom


@given(keys, st.data())
def test_how_the_keys_are_cut_into_chunks_does_not_matter(values: list[str], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(values)))
    padded = pa.array(["x", *values, "y"], pa.string())
    chunked = pa.chunked_array([padded.slice(1, cut), padded.slice(1 + cut, len(values) - cut)], pa.string())
    assert BloomFilter.build(chunked, SMALL) == BloomFilter.build(pa.array(values, pa.string()), SMALL)


def test_more_keys_than_are_hashed_at_a_time() -> None:
    many = pa.array([f"key-{n:0{n % 17}}" for n in range(40_000)])
    bloom = BloomFilter.build(many, BloomOptions(num_entries=30_000, fpp=1e-4))
    assert len(bloom.rows) == 2
    assert bloom.last_row_entries == 10_000
    assert bloom.might_contain(many).true_count == 40_000
    assert bloom.might_contain(pa.array([f"other-{n}" for n in range(20_000)])).true_count < 20


def test_defaults_are_hudis() -> None:
    bloom = BloomFilter.build(pa.array(["k"]))
    assert (bloom.kind, bloom.bits, bloom.hashes, bloom.row_entries) == ("DYNAMIC_V0", 2_587_966, 30, 60_000)


def test_a_null_key_gets_a_null_and_an_empty_one_an_answer() -> None:
    bloom = BloomFilter.build(pa.array(["a", "b"]), SMALL)
    assert bloom.might_contain(pa.array(["a", None, ""])).to_pylist() == [True, None, True]
    assert bloom.might_contain(pa.array([], pa.string())).to_pylist() == []


@pytest.mark.parametrize("bad", [pa.array(["a", None]), pa.array(["a", ""]), pa.array([1])])
def test_keys_that_hudi_would_refuse_are_refused(bad: pa.Array) -> None:
    with pytest.raises(InvalidArgumentError):
        BloomFilter.build(bad)


@pytest.mark.parametrize(
    "options", [{"num_entries": 0}, {"fpp": 0.0}, {"fpp": 1.0}, {"kind": "NONE"}, {"num_entries": 10**9}]
)
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError):
        BloomOptions(**options)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_filter_cut_off_anywhere_is_corrupt(case: dict[str, Any]) -> None:
    content = base64.b64decode(case["filter"])
    for cut in range(len(content)):
        with pytest.raises(CorruptError):
            BloomFilter.from_bytes(content[:cut], case["type"], path="f")
    with pytest.raises(CorruptError):
        BloomFilter.from_bytes(content + b"\0", case["type"], path="f")


@given(st.sampled_from(CASES), st.data())
def test_a_damaged_filter_is_corrupt_or_still_answers(case: dict[str, Any], data: st.DataObject) -> None:
    content = bytearray(base64.b64decode(case["filter"]))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, min(40, len(content) - 1)))] = data.draw(st.integers(0, 255))
    try:
        bloom = BloomFilter.from_bytes(bytes(content), case["type"])
    except (CorruptError, NotSupportedError):
        return
    assert len(bloom.might_contain(pa.array(["a", "b"]))) == 2


@pytest.mark.parametrize(
    "head",
    [
        struct.pack(">iibi", -1, 2**31 - 1, 1, 8),
        struct.pack(">iibi", -1, 3, 1, 2**31 - 1),
        struct.pack(">iibi", -1, 3, 1, 0),
        struct.pack(">iibi", -1, 3, 1, -8),
        struct.pack(">iibi", -2, 3, 1, 8),
        struct.pack(">iibi", -1, 3, 7, 8),
    ],
)
def test_lying_sizes_are_corrupt(head: bytes) -> None:
    with pytest.raises(CorruptError):
        BloomFilter.from_bytes(head + b"\xff", "SIMPLE")
    with pytest.raises(CorruptError):
        BloomFilter.from_bytes(head + struct.pack(">iii", 10, 1, 2**31 - 1) + head + b"\xff", "DYNAMIC_V0")


def test_jenkins_hashes_are_refused_by_name() -> None:
    for head in (struct.pack(">iibi", -1, 3, 0, 8), struct.pack(">iibi", 3, 8, 0, 0)):
        with pytest.raises(NotSupportedError, match="Jenkins"):
            BloomFilter.from_bytes(head + b"\xff", "SIMPLE")


@pytest.mark.parametrize("text", ["", "!!!!", "AAA", "\u00fc"])
def test_what_is_no_base64_is_corrupt(text: str) -> None:
    with pytest.raises(CorruptError):
        BloomFilter.from_base64(text)
