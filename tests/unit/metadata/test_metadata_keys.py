"""Keys of the metadata table against those that Hudi 1.2 wrote to the golden tables."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pudi.errors import CorruptError
from pudi.metadata.keys import (
    bloom_key,
    bloom_keys,
    column_prefix,
    column_stats_keys,
    expression_partition_keys,
    partition_stats_key,
    partition_stats_keys,
    secondary_keys,
    secondary_prefixes,
    secondary_shard_of,
    shard_of,
    split_secondary_keys,
)
from support.metadata import column_stats_key

FILE = "3cb9a833-dc9d-4e05-815e-b3a0cc232ab5-2_0-13-13_20261121075817489.parquet"
INDEXED = "4897361c-47d1-43c6-8f5c-5fc1fe126df4-0_0-311-717_20261121081121883.parquet"


def _one(make: Callable[..., pa.Array], *values: str | None) -> str:
    """The key that is made of one row."""
    key: str = make(*(pa.array([value], pa.string()) for value in values))[0].as_py()
    return key


def test_keys_are_those_in_files_that_hudi_wrote() -> None:
    assert column_stats_key("rider", "nyc", FILE) == "JSg2t74bWYU=9oCa+jrtye4=12/DGtfwcla1FwG5DVaQxg=="
    assert bloom_key("sao_paulo", INDEXED) == "DaYRAsTMUig=dVfIvotZVwLlObteBuTFVw=="
    assert partition_stats_key("ts", "chennai") == "oyTjviKHuhI=KQZ+fZz3hJk="
    assert _one(expression_partition_keys, "ts", "nyc") == "oyTjviKHuhI=2CMHrhWVE9w=9oCa+jrtye4="
    assert column_stats_key("ts", "", FILE) == column_stats_key("ts", ".", FILE)


def test_many_keys_are_made_as_one_is() -> None:
    columns, partitions = ["ts", "rider", "ts"], ["nyc", "", "é/ö"]
    files = [FILE, INDEXED, FILE]
    arrays = pa.array(columns), pa.array(partitions), pa.chunked_array([files[:1], files[1:]])
    expected = [column_stats_key(*each) for each in zip(columns, partitions, files, strict=True)]
    assert column_stats_keys(*arrays).to_pylist() == expected
    assert all(key.startswith(column_prefix(column)) for key, column in zip(expected, columns, strict=True))
    assert partition_stats_keys(*arrays[:2]).to_pylist() == [
        partition_stats_key(*each) for each in zip(columns, partitions, strict=True)
    ]
    assert bloom_keys(*arrays[1:]).to_pylist() == [bloom_key(*each) for each in zip(partitions, files, strict=True)]
    assert column_stats_keys(*(pa.array([], pa.string()),) * 3).to_pylist() == []


def _java_shard(key: str, shards: int) -> int:
    """`mapRecordKeyToFileGroupIndex`, step by step."""
    value = 0
    raw = key.encode("utf-16-le")
    for place in range(0, len(raw), 2):
        value = (31 * value + int.from_bytes(raw[place : place + 2], "little")) & 0xFFFFFFFF
    signed = value - (1 << 32) if value >= 1 << 31 else value
    positive = signed if signed == -(1 << 31) else abs(signed)
    remainder = abs(positive) % shards * (-1 if positive < 0 else 1)
    return abs(remainder)


@given(st.lists(st.text()), st.integers(1, 10_000))
def test_the_shard_of_a_key_is_javas(keys: list[str], shards: int) -> None:
    assert shard_of(pa.array(keys, pa.string()), shards).tolist() == [_java_shard(key, shards) for key in keys]


def test_the_shard_of_a_key_whose_hash_is_the_least_int() -> None:
    assert _java_shard("polygenelubricants", 10) == 8
    assert shard_of(pa.array(["polygenelubricants"]), 10).tolist() == [8]


def test_secondary_keys_hold_value_and_record_key() -> None:
    assert _one(secondary_keys, "rider-C2", "k0016") == "rider-C2$k0016"
    assert _one(secondary_keys, "a$b\\c\0", "k$") == "a\\$b\\\\c\\\0$k\\$"
    assert _one(secondary_keys, None, "k") == "\0$k"
    assert secondary_prefixes(pa.array(["a$", None])).to_pylist() == ["a\\$$", "\0$"]
    hudis = pa.array(["rider-C2$k0016", "rider-B6$k0013", "rider-A5$k0005"])
    assert secondary_shard_of(hudis, 10, whole_key=False).tolist() == [0, 7, 9]
    assert secondary_shard_of(secondary_prefixes(pa.array(["rider-A5"])), 10, whole_key=False).tolist() == [9]
    assert secondary_shard_of(hudis, 10, whole_key=True).tolist() == shard_of(hudis, 10).tolist()


_TEXT = st.text(st.sampled_from("a\\$\0\nä€𝄞"))


@given(st.lists(st.tuples(st.none() | _TEXT.filter(lambda text: text != "\0"), _TEXT)))
def test_secondary_keys_come_apart_again(pairs: list[tuple[str | None, str]]) -> None:
    secondary = pa.array([value for value, _ in pairs], pa.string())
    record_keys = pa.array([key for _, key in pairs], pa.string())
    found = split_secondary_keys(secondary_keys(secondary, record_keys))
    assert found[0].to_pylist() == secondary.to_pylist()
    assert found[1].to_pylist() == record_keys.to_pylist()


def test_a_secondary_key_without_the_sign_between_its_parts_is_refused() -> None:
    with pytest.raises(CorruptError, match="'\\$'"):
        split_secondary_keys(pa.array(["rider\\$k1"]))


@given(st.lists(st.text(), min_size=1, max_size=5), st.integers(2, 50))
def test_many_keys_are_in_the_file_groups_of_few(keys: list[str], shards: int) -> None:
    many = pa.array(keys * 65)  # hashed in columns, few keys one by one
    assert shard_of(many, shards).tolist() == shard_of(pa.array(keys), shards).tolist() * 65
