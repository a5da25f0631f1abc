"""The bloom index finds what the simple index finds, and opens no key column that a footer rules out."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pudi.filegroup import BaseFile, BaseFileReader, BaseFileWriter, FileSlice, ParquetOptions
from pudi.format import BaseFileName, BloomOptions
from pudi.schema import COMMIT_SEQNO, RECORD_KEY
from pudi.storage import open_storage
from pudi.tagging import BloomKeys, SimpleKeys

STORAGE = open_storage("memory://bloom-index")
SMALL = BloomOptions(num_entries=50, fpp=1e-6, max_entries=100)
AVRO = '{"type":"record","name":"r","fields":[]}'


def slice_of(stored: list[str], bloom: BloomOptions | None = SMALL, number: int = 0) -> FileSlice:
    name = BaseFileName(f"group-{number}", "0-0-0", "20240101000000000")
    rows = pa.table({RECORD_KEY: pa.array(stored, pa.string()), COMMIT_SEQNO: pa.array(["1"] * len(stored))})
    STORAGE.delete([name.name])
    size = BaseFileWriter(STORAGE, AVRO, ParquetOptions(bloom=bloom)).put(name.name, rows).size
    return FileSlice("", name.file_id, BaseFile("", name, size))


texts = st.text("ab\ue000\uffff😀", min_size=1, max_size=3)


@given(
    st.lists(texts, min_size=1, max_size=30),
    st.lists(texts, max_size=12, unique=True),
    st.sampled_from([None, SMALL, BloomOptions(num_entries=4, fpp=0.1, max_entries=8), BloomOptions(kind="SIMPLE")]),
)
def test_finds_the_keys_that_are_there(stored: list[str], wanted: list[str], bloom: BloomOptions | None) -> None:
    keys = pa.array(wanted, pa.string())
    found = BloomKeys(keys).find(STORAGE, slice_of(stored, bloom))
    assert found.tolist() == [place for place, key in enumerate(wanted) if key in stored]


def test_finds_what_the_simple_index_finds_in_many_files() -> None:
    chance = random.Random(5)
    numbers = list(range(3000))
    chance.shuffle(numbers)
    keys = pa.array([f"k{n:05}" for n in chance.sample(range(4000), 700)])
    bloom, simple = BloomKeys(keys), SimpleKeys(keys)
    for part in range(10):
        stored = [f"k{n:05}" for n in numbers[part * 300 : part * 300 + 300]]
        one = slice_of(stored, BloomOptions(num_entries=300), part)
        assert bloom.find(STORAGE, one).tolist() == simple.find(STORAGE, one).tolist()


@pytest.mark.parametrize(
    ("wanted", "bloom", "reads"),
    [
        (["k0", "zz"], None, 0),  # beyond the range
        (["k15", "k25"], SMALL, 0),  # within it, and the filter denies them
        (["k15", "k25"], None, 1),  # no filter: looked into
        (["k10", "zz"], SMALL, 1),
    ],
)
def test_key_columns_are_read_only_where_the_footer_allows(
    monkeypatch: pytest.MonkeyPatch, wanted: list[str], bloom: BloomOptions | None, reads: int
) -> None:
    one = slice_of(["k10", "k20", "k30"], bloom)
    seen = []
    read = BaseFileReader.read
    monkeypatch.setattr(BaseFileReader, "read", lambda self, *a: [seen.append(1), read(self, *a)][1])
    found: Any = BloomKeys(pa.array(wanted)).find(STORAGE, one)
    assert len(seen) == reads
    assert found.tolist() == ([0] if "k10" in wanted else [])
