"""Thrift's compact protocol: what is decoded is encoded to the same bytes, and damage is an error and nothing worse."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pudi.errors import CorruptError
from pudi.format.thrift_compact import (
    BINARY,
    DOUBLE,
    FALSE,
    I8,
    I16,
    I32,
    I64,
    LIST,
    MAP,
    MOST_DEPTH,
    SET,
    STRUCT,
    TRUE,
    UUID,
    Items,
    Pairs,
    decode_struct,
    encode_struct,
)

INTEGERS = {I16: st.integers(-(1 << 15), (1 << 15) - 1), I32: st.integers(-(1 << 31), (1 << 31) - 1)}
PLAIN: dict[int, st.SearchStrategy[Any]] = {
    I8: st.binary(min_size=1, max_size=1),
    I64: st.integers(-(1 << 63), (1 << 63) - 1),
    DOUBLE: st.binary(min_size=8, max_size=8),
    UUID: st.binary(min_size=16, max_size=16),
    BINARY: st.binary(max_size=200),
    **INTEGERS,
}


def of_kind(kind: int, values: dict[int, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    return values.get(kind, st.booleans())


def structs(depth: int = 3) -> st.SearchStrategy[dict[int, tuple[int, Any]]]:
    values = dict(PLAIN)
    if depth:
        values[STRUCT] = structs(depth - 1)
        inner = {**PLAIN, STRUCT: structs(depth - 1)}
        kinds = st.sampled_from([*inner, TRUE])
        values[LIST] = values[SET] = kinds.flatmap(
            lambda kind: st.lists(of_kind(kind, inner), max_size=20).map(lambda found: Items(kind, found))
        )
        values[MAP] = st.tuples(kinds, kinds).flatmap(
            lambda pair: st.lists(
                st.tuples(of_kind(pair[0], inner), of_kind(pair[1], inner)), min_size=1, max_size=4
            ).map(lambda found: Pairs(pair, found))
        )
    fields = st.sampled_from(sorted(values)).flatmap(lambda kind: st.tuples(st.just(kind), values[kind]))
    booleans = st.booleans().map(lambda value: (TRUE if value else FALSE, value))
    numbers = st.integers(1, (1 << 15) - 1)
    return st.dictionaries(numbers, fields | booleans, max_size=6)


@given(structs())
def test_what_is_encoded_is_decoded(struct: dict[int, tuple[int, Any]]) -> None:
    data = encode_struct(struct)
    assert decode_struct(b"before" + data + b"behind", 6) == (struct, 6 + len(data))


@given(structs(), st.data())
def test_bytes_that_end_too_early_are_an_error(struct: dict[int, tuple[int, Any]], data: st.DataObject) -> None:
    whole = encode_struct(struct)
    with pytest.raises(CorruptError):
        decode_struct(whole[: data.draw(st.integers(0, len(whole) - 1))])


@given(st.binary(max_size=400))
def test_any_bytes_are_a_struct_or_an_error(data: bytes) -> None:
    try:
        struct, end = decode_struct(data)
    except CorruptError:
        return
    assert end <= len(data)
    assert decode_struct(encode_struct(struct))[0] == struct


def test_a_parquet_footer_comes_out_byte_for_byte() -> None:
    sink = pa.BufferOutputStream()
    table = pa.table({"a": [1, None, 3], "b": [["x"], [], None], "c": [{"d": 1.5}, None, {"d": 2.5}]})
    pq.write_table(table.replace_schema_metadata({"k": "v" * 300}), sink, row_group_size=2)
    content = sink.getvalue().to_pybytes()
    footer = content[-8 - int.from_bytes(content[-8:-4], "little") : -8]
    struct, end = decode_struct(footer)
    assert end == len(footer)
    assert encode_struct(struct) == footer


def test_depth_is_bounded() -> None:
    with pytest.raises(CorruptError, match="deep"):
        decode_struct(b"\x1c" * 100_000)
    with pytest.raises(CorruptError, match="deep"):
        decode_struct(b"\x19" + b"\x19" * 100_000)
    nested: dict[int, tuple[int, Any]] = {}
    for _ in range(MOST_DEPTH):
        nested = {1: (STRUCT, nested)}
    assert decode_struct(encode_struct(nested))[0] == nested


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x19\xf5\xff\xff\xff\xff\x0f", id="a list of 4 thousand million numbers"),
        pytest.param(b"\x18\xff\xff\xff\xff\x0fab", id="a text of 4 GiB"),
        pytest.param(b"\x1b\xff\xff\xff\xff\x0f\x55", id="a map of as many pairs"),
        pytest.param(b"\x16" + b"\xff" * 40 + b"\x00", id="a number of 40 bytes"),
        pytest.param(b"\x16\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x00", id="a number of 70 bits"),
        pytest.param(b"\x1f\x00", id="a type that there isn't"),
        pytest.param(b"\x15\x02\x05\x02\x02\x00", id="a field twice"),
    ],
)
def test_lies_are_errors(data: bytes) -> None:
    with pytest.raises(CorruptError):
        decode_struct(data)
