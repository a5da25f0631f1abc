"""The simple index finds what a loop over the keys would, whichever side is larger."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pudi.errors import CorruptError
from pudi.filegroup import BaseFile, FileSlice
from pudi.format import BaseFileName
from pudi.schema import RECORD_KEY
from pudi.storage import open_storage
from pudi.tagging.simple import find_keys, key_span

NAME = BaseFileName("group-0", "0-0-0", "20240101000000000")
STORAGE = open_storage("memory://simple-index")


def slice_of(column: pa.Array, name: str = RECORD_KEY) -> FileSlice:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({name: column}), sink, row_group_size=3)
    content = sink.getvalue()
    STORAGE.put(NAME.name, content.to_pybytes())
    return FileSlice("", "group-0", BaseFile("", NAME, content.size))


texts = st.text("abé", max_size=2)


@given(st.lists(texts, min_size=1, max_size=30), st.lists(texts, max_size=12, unique=True), st.booleans())
def test_finds_the_keys_that_are_there(stored: list[str], wanted: list[str], given_span: bool) -> None:
    keys = pa.array(wanted, pa.string())
    found = find_keys(STORAGE, slice_of(pa.array(stored)), keys, key_span(keys) if given_span else None)
    assert found.tolist() == [place for place, key in enumerate(wanted) if key in stored]


def test_finds_few_stored_keys_among_many() -> None:
    keys = pa.array([f"{n:05}" for n in range(1000)])
    found = find_keys(STORAGE, slice_of(pa.array(["00007", "00999", "00007", "zz"], pa.large_string())), keys)
    assert found.tolist() == [7, 999]


def test_no_keys_have_no_span() -> None:
    assert key_span(pa.array([], pa.string())) is None
    assert key_span(pa.array(["b", "a", "c"])) == ("a", "c")


@pytest.mark.parametrize(
    ("column", "name", "says"),
    [(pa.array([b"k1"]), RECORD_KEY, "is binary"), (pa.array(["k1"]), "id", f"no column {RECORD_KEY}")],
)
def test_files_without_keys_in_text_are_corrupt(column: pa.Array, name: str, says: str) -> None:
    with pytest.raises(CorruptError, match=says):
        find_keys(STORAGE, slice_of(column, name), pa.array(["k1"]))
