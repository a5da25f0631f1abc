"""Rows of columns with more text than one array can hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pudi
from pudi.schema import arrays

MOST = 60
TEXT = st.none() | st.text(max_size=30)
RECORD = pa.struct([pa.field("a", pa.string()), pa.field("n", pa.int32())])
RECORDS = st.none() | st.fixed_dictionaries({"a": TEXT, "n": st.none() | st.just(1)})
KINDS = {
    pa.string(): TEXT,
    pa.binary(): st.none() | st.binary(max_size=30),
    pa.large_string(): TEXT,
    RECORD: RECORDS,
    pa.list_(pa.string()): st.none() | st.lists(TEXT, max_size=3),
    pa.large_list(pa.string()): st.none() | st.lists(TEXT, max_size=3),
    pa.list_(pa.string(), 2): st.none() | st.lists(TEXT, min_size=2, max_size=2),
    pa.list_(pa.bool_()): st.none() | st.lists(st.booleans(), max_size=40),
    pa.map_(pa.string(), RECORD): st.none() | st.lists(st.tuples(st.text(max_size=9), RECORDS), max_size=3),
}


@pytest.fixture(autouse=True, scope="module")
def little_room() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "_MOST", MOST)
        yield


def size(value: Any) -> int:
    """Bytes of text in a value, and elements of lists."""
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, dict):
        return sum(map(size, value.values()))
    if isinstance(value, list):
        return len(value) + sum(map(size, value))
    return sum(map(size, value)) if isinstance(value, tuple) else 0


def assert_has_room(chunks: list[pa.Array]) -> None:
    for chunk in chunks:
        chunk.validate(full=True)
        assert len(chunk) == 1 or sum(map(size, chunk.to_pylist())) <= MOST


def drawn(data: st.DataObject, kind: pa.DataType) -> pa.ChunkedArray:
    """A column of parts of arrays."""
    chunks = data.draw(st.lists(st.lists(KINDS[kind], max_size=8), max_size=4))
    return pa.chunked_array([pa.array([None, *chunk, None], kind)[1:-1] for chunk in chunks], kind)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@settings(max_examples=30)
@given(data=st.data())
def test_taken_values_are_those_at_the_places(kind: pa.DataType, data: st.DataObject) -> None:
    column = drawn(data, kind)
    flat = column.to_pylist()
    places = data.draw(st.lists(st.none() | st.integers(0, len(flat) - 1) if flat else st.none(), max_size=40))
    if None not in places and data.draw(st.booleans()):
        places = sorted(set(places))
    taken = arrays.take_column(column, pa.array(places, pa.int64()))
    assert taken.type == kind
    assert taken.to_pylist() == [None if place is None else flat[place] for place in places]
    assert_has_room(taken.chunks)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@settings(max_examples=20)
@given(data=st.data())
def test_parts_have_room_and_leave_nothing_out(kind: pa.DataType, data: st.DataObject) -> None:
    column = drawn(data, kind)
    rows = pa.table({"c": column, "n": range(len(column))})
    parts = list(arrays.portions(rows, 5))
    assert [row for each in parts for row in each.to_pylist()] == rows.to_pylist()
    assert all(each.num_rows <= 5 for each in parts)
    assert_has_room([arrays.one_array(each["c"]) for each in parts])
    for chunk in column.chunks:
        pieces = arrays.pieces_of(chunk)
        assert [value for piece in pieces for value in piece.to_pylist()] == chunk.to_pylist()
        assert_has_room(pieces)


def test_parts_of_arrays() -> None:
    column = pa.chunked_array([pa.array([f"{number:020}" for number in range(50)]).slice(7, 30)])
    table = pa.table({"s": column, "n": pa.array(range(30))})
    taken = arrays.take(table, pa.array([29, 0, None]))
    assert taken["s"].to_pylist() == [f"{36:020}", f"{7:020}", None]
    assert taken["n"].to_pylist() == [29, 0, None]
    assert arrays.ordered_by(table, "s").equals(table)


def test_dictionaries_stand_for_more_than_they_hold() -> None:
    column = pa.chunked_array([["a" * 20, None, "b" * 25] * 9, ["b" * 25]]).dictionary_encode()
    assert not arrays.fits(column)
    plain = arrays.decoded_column(column)
    assert plain.to_pylist() == column.to_pylist()
    assert_has_room(plain.chunks)
    assert_has_room([each for part in arrays.portions(pa.table({"c": column})) for each in part["c"].chunks])
    assert arrays.encoded_column(plain).to_pylist() == column.to_pylist()
    assert_has_room(arrays.repeated(pa.scalar("c" * 25), 10).chunks)
    assert arrays.repeated(pa.scalar(None, pa.string()), 3).to_pylist() == [None] * 3


def test_keys_that_have_no_room_are_refused() -> None:
    few = pa.chunked_array([["k"], ["l"]])
    assert arrays.one_array(few).to_pylist() == arrays.joined_arrays(few.chunks).to_pylist() == ["k", "l"]
    assert arrays.one_array(few.slice(0, 0)).to_pylist() == []
    with pytest.raises(pudi.NotSupportedError, match="62 bytes where an array has room for 60"):
        arrays.one_array(pa.chunked_array([["k" * 31], ["l" * 31]]))
