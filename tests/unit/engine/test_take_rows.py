"""Rows of a write gathered by file: columns that are held in memory once are gathered once, and no others mixed up."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pudi.engine.local.records import take_rows
from pudi.schema.arrays import places_of


@given(st.lists(st.none() | st.text(max_size=3), min_size=2, max_size=20), st.data())
def test_rows_are_those_asked_for(texts: list[str | None], data: st.DataObject) -> None:
    column = pa.array(texts, pa.string())
    half = len(texts) // 2
    codes = pa.array(np.zeros(len(texts), dtype=np.int32))
    rows = pa.table(
        {
            "key": column,
            "same": column,
            "shifted": pa.concat_arrays([column, column]).slice(half, len(texts)),
            "parts": pa.chunked_array([column.slice(0, half), column.slice(half)]),
            "one": pa.DictionaryArray.from_arrays(codes, pa.array(["a"])),
            "two": pa.DictionaryArray.from_arrays(codes, pa.array(["b"])),
        }
    )
    places = pa.array(data.draw(st.lists(st.integers(0, len(texts) - 1))), pa.int64())
    taken = take_rows(rows, places)
    assert taken.to_pylist() == rows.take(places).to_pylist()
    assert taken.schema == rows.schema
    assert taken["key"].chunk(0).buffers()[1].address == taken["same"].chunk(0).buffers()[1].address


@given(st.lists(st.integers(-5, 5) | st.integers(-(10**6), 10**6), max_size=60))
def test_places_of_each_value(values: list[int]) -> None:
    found = {value: places.tolist() for value, places in places_of(np.array(values, dtype=np.int64))}
    expected = {value: [n for n, each in enumerate(values) if each == value] for value in sorted(values)}
    assert found == expected
    assert list(found) == sorted(found)
