"""Buckets are Hudi's: by a plain rendering of its Java code, and by what it wrote."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from pudi.errors import CorruptError
from pudi.format import bucket_of_file_id, new_bucket_file_id
from pudi.schema import RECORD_KEY
from pudi.tagging import Buckets, ConsistentBuckets, bucket_of, key_hashes

GOLDEN = Path(__file__).parents[2] / "golden" / "cow_v9_bucket.zip"


def java_hash(text: str) -> int:
    units = text.encode("utf-16-le")
    value = 0
    for low, high in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + low + 256 * high) % 2**32
    return value


def hashed_values(key: str, fields: tuple[str, ...]) -> list[str | None]:
    """KeyGenUtils.extractRecordKeysByFields, step by step."""
    if "," not in key or ":" not in key:
        return [key]
    values: list[str | None] = []
    at = 0
    while at < len(key):
        colon = key.find(":", at)
        field, following = key[at:colon], key.find(":", colon + 1)
        comma = key.rfind(",", 0, following) if following >= 0 else -1
        while comma < colon and following >= 0:
            following = key.find(":", following + 1)
            comma = key.rfind(",", 0, following) if following >= 0 else -1
        value, at = (key[colon + 1 :], len(key)) if following < 0 else (key[colon + 1 : comma], comma + 1)
        if field in fields:
            values.append({"__null__": None, "__empty__": ""}.get(value, value))
    return values or [key]


def list_hash(values: list[str | None]) -> int:
    value = 1
    for element in values:
        value = (31 * value + (0 if element is None else java_hash(element))) % 2**32
    return value & 0x7FFFFFFF


plain = st.text("abé€😀:,_", max_size=12)
parts = st.lists(
    st.tuples(st.sampled_from("abc"), st.one_of(plain, st.sampled_from(["__null__", "__empty__"]))), min_size=1
)
keys = st.one_of(plain, st.text(max_size=20), parts.map(lambda p: ",".join(f"{name}:{value}" for name, value in p)))


@given(st.lists(keys, max_size=20), st.sampled_from([("a",), ("b", "c"), ("a", "b", "c"), ("é",)]))
def test_hashes_as_java_does(texts: list[str], fields: tuple[str, ...]) -> None:
    column = pa.chunked_array([pa.array(texts[:3], pa.string()), pa.array(texts[3:], pa.string())])
    assert key_hashes(column, fields).tolist() == [list_hash(hashed_values(text, fields)) for text in texts]


def test_long_columns_are_hashed_in_portions() -> None:
    texts = [f"key-{n}-{'é' * (n % 50)}" for n in range(20_000)]
    expected = [list_hash([text]) for text in texts]
    assert key_hashes(pa.array(texts).slice(5), ("uuid",)).tolist() == expected[5:]


def test_hudis_files_hold_the_keys_of_their_bucket() -> None:
    seen = 0
    with zipfile.ZipFile(GOLDEN) as archive:
        for name in archive.namelist():
            if not name.endswith(".parquet"):
                continue
            stored = pq.read_table(io.BytesIO(archive.read(name)), columns=[RECORD_KEY])[RECORD_KEY]
            seen += len(stored)
            assert np.unique(Buckets(4, ("uuid",)).of(stored)).tolist() == [bucket_of_file_id(name.rpartition("/")[2])]
    assert seen == 70


def test_file_ids_of_buckets() -> None:
    file_id = new_bucket_file_id("550e8400-e29b-41d4-a716-446655440000", 7)
    assert file_id == "00000007-e29b-41d4-a716-446655440000-0"
    assert bucket_of_file_id(file_id) == 7
    assert bucket_of_file_id("550e8400-e29b-41d4-a716-446655440000-0") is None
    with pytest.raises(CorruptError, match="eight digits"):
        bucket_of("abcdefgh-0", table="t", path="p")


@given(st.lists(st.one_of(plain, st.text(max_size=70), keys), max_size=20), st.integers(1, 9))
def test_consistent_hashing_is_hudis(texts: list[str], count: int) -> None:
    """ConsistentBucketIdentifier.getBucket, step by step."""
    buckets = ConsistentBuckets(count, ("a", "b"))
    names, places = buckets.named(buckets.hashes(pa.array(texts, pa.string())), "nyc")
    ring = buckets.ring("nyc")
    for text, place in zip(texts, places.tolist(), strict=True):
        joined = "".join("null" if value is None else value for value in hashed_values(text, ("a", "b")))
        hashed = xxhash.xxh32_intdigest(joined.encode(), 0) & 0x7FFFFFFF
        expected = next((p for v, p in zip(ring.values, ring.prefixes, strict=True) if v >= hashed), ring.prefixes[0])
        assert names[place] == expected
