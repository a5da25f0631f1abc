"""Rows of columns with more text than one array can hold."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pudi.schema import arrays

TEXTS = st.lists(st.lists(st.none() | st.text(max_size=30), max_size=12), max_size=5)


@pytest.fixture(autouse=True, scope="module")
def little_room() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "_MOST", 60)
        yield


@pytest.mark.parametrize("kind", [pa.string(), pa.binary()])
@settings(max_examples=40)
@given(chunks=TEXTS, data=st.data())
def test_taken_values_are_those_at_the_places(
    kind: pa.DataType, chunks: list[list[str | None]], data: st.DataObject
) -> None:
    flat = [text for chunk in chunks for text in chunk]
    column = pa.chunked_array(chunks, pa.string()).cast(kind)
    at = st.none() | st.integers(0, len(flat) - 1) if flat else st.none()
    places = data.draw(st.lists(at, max_size=40))
    taken = arrays.take_column(column, pa.array(places, pa.int64()))
    assert taken.type == kind
    expected = [None if place is None else column[place].as_py() for place in places]
    assert taken.to_pylist() == expected
    longest = max((len(text.encode()) for text in flat if text is not None), default=0)
    assert all(
        sum(len(v) for v in chunk.cast(pa.binary()).to_pylist() if v) <= max(60, longest) for chunk in taken.chunks
    )


def test_parts_of_arrays() -> None:
    column = pa.chunked_array([pa.array([f"{number:020}" for number in range(50)]).slice(7, 30)])
    table = pa.table({"s": column, "n": pa.array(range(30))})
    taken = arrays.take(table, pa.array([29, 0, None]))
    assert taken["s"].to_pylist() == [f"{36:020}", f"{7:020}", None]
    assert taken["n"].to_pylist() == [29, 0, None]
