"""Data cast to the table's schema: on the way in without loss, on the way out as Hudi reads older files."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pudi.errors import CorruptError, SchemaError
from pudi.schema import conform, conform_read, with_meta_fields

D = Decimal
UTC = pa.timestamp("us", "UTC")


def one(values: Any, kind: pa.DataType, chunks: int = 1) -> pa.Table:
    array = pa.array(values, kind)
    return pa.table({"c": pa.chunked_array([array[n::chunks] for n in range(chunks)])})


def to(kind: pa.DataType, *, nullable: bool = True) -> pa.Schema:
    return pa.schema([pa.field("c", kind, nullable)])


@pytest.mark.parametrize(
    ("values", "given_type", "kind"),
    [
        ([1, None], pa.int8(), pa.int32()),
        ([1, None], pa.uint16(), pa.int32()),
        ([2**31 - 1, None], pa.int64(), pa.int32()),
        ([2**32 - 1], pa.uint64(), pa.int64()),
        ([2**24, None], pa.int64(), pa.float32()),
        ([2**53], pa.int64(), pa.float64()),
        ([12, None], pa.int32(), pa.decimal128(20, 2)),
        ([0.1], pa.float64(), pa.float64()),
        ([D("1.50")], pa.decimal128(5, 2), pa.decimal128(4, 1)),
        ([D("1.5")], pa.decimal256(50, 1), pa.decimal128(4, 2)),
        (["a", None], pa.large_string(), pa.string()),
        (["a", None], pa.string_view(), pa.string()),
        (["a", None, "a"], pa.dictionary(pa.int8(), pa.string()), pa.string()),
        (["a", None, "a"], pa.dictionary(pa.int8(), pa.large_string()), pa.string()),
        ([b"a"], pa.binary(1), pa.binary()),
        ([None, None], pa.null(), pa.map_(pa.string(), pa.int32())),
        ([dt.date(2026, 1, 2)], pa.date64(), pa.date32()),
        ([[1, None], None, []], pa.large_list(pa.int8()), pa.list_(pa.int32())),
        ([[1, None], None, []], pa.list_view(pa.int8()), pa.list_(pa.int32())),
        ([[1, 2], None], pa.list_(pa.int8(), 2), pa.list_(pa.int32())),
        ([[("k", 1)], None, []], pa.map_(pa.large_string(), pa.int8()), pa.map_(pa.string(), pa.int32())),
        ([{"a": 1, "b": "x"}, None], pa.struct([("b", pa.large_string()), ("a", pa.int8())]),
         pa.struct([("a", pa.int32()), ("b", pa.string())])),
        ([[{"a": [1]}], None, [{"a": None}, None]], pa.list_(pa.struct([("a", pa.large_list(pa.int8()))])),
         pa.list_(pa.struct([("a", pa.list_(pa.int64()))]))),
    ],
    ids=str,
)  # fmt: skip
def test_casts_that_lose_nothing(values: list[Any], given_type: pa.DataType, kind: pa.DataType) -> None:
    for rows in (one(values, given_type), one([None, *values, None], given_type).slice(1, len(values))):
        result = conform(rows, to(kind))
        assert result.schema.equals(to(kind))
        assert result["c"].to_pylist() == pa.array(values, kind).to_pylist()
        result.validate(full=True)


def test_timestamps_keep_their_instant() -> None:
    paris = one([dt.datetime(2026, 1, 2, 3, tzinfo=dt.timezone.utc)], pa.timestamp("ns", "Europe/Paris"))
    assert conform(paris, to(UTC))["c"].cast(pa.int64()).to_pylist() == [1767322800000000]
    with pytest.raises(SchemaError, match=r"'c'.*timestamp\[ns\].*timestamp\[us\]"):
        conform(one([1], pa.timestamp("ns")), to(pa.timestamp("us")))


@pytest.mark.parametrize(
    ("values", "given_type", "kind"),
    [
        ([2**31], pa.int64(), pa.int32()),
        ([2**63], pa.uint64(), pa.int64()),
        ([2**53 + 1], pa.int64(), pa.float64()),
        ([2**24 + 1], pa.int64(), pa.float32()),
        ([1.0], pa.float64(), pa.int64()),
        ([0.5], pa.float64(), pa.float32()),
        ([D("1.55")], pa.decimal128(5, 2), pa.decimal128(5, 1)),
        ([D("123.50")], pa.decimal128(5, 2), pa.decimal128(3, 1)),
        ([100], pa.int32(), pa.decimal128(2, 0)),
        (["1"], pa.string(), pa.int32()),
        ([1], pa.int32(), pa.string()),
        ([b"a"], pa.binary(), pa.string()),
        (["a"], pa.string(), pa.binary()),
        ([1], pa.int64(), UTC),
        ([1], pa.timestamp("us"), UTC),
        ([1], UTC, pa.timestamp("us")),
        ([dt.date(2026, 1, 2)], pa.date32(), UTC),
        ([True], pa.bool_(), pa.int32()),
        ([[1]], pa.list_(pa.int32()), pa.int32()),
        ([1], pa.int32(), pa.list_(pa.int32())),
        ([{"a": 1, "b": 2}], pa.struct([("a", pa.int32()), ("b", pa.int32())]), pa.struct([("a", pa.int32())])),
        ([{"a": 1}], pa.struct([("a", pa.int32())]), pa.struct([("a", pa.int32()), ("b", pa.int32())])),
        ([[2**31]], pa.list_(pa.int64()), pa.list_(pa.int32())),
    ],
    ids=str,
)  # fmt: skip
def test_casts_that_could_lose_something_are_refused(
    values: list[Any], given_type: pa.DataType, kind: pa.DataType
) -> None:
    with pytest.raises(SchemaError, match="'c") as caught:
        conform(one(values, given_type), to(kind), table="file:///t")
    assert caught.value.table == "file:///t"


def test_a_wrong_type_is_refused_without_rows_too() -> None:
    with pytest.raises(SchemaError, match=r"'c' has type string, the table has int32"):
        conform(to(pa.string()).empty_table(), to(pa.int32()))
    assert conform(to(pa.int8()).empty_table(), to(pa.int32())).schema.equals(to(pa.int32()))


def test_columns_meet_by_exact_name_in_the_tables_order() -> None:
    schema = pa.schema([("a", pa.int32()), ("b", pa.string())])
    data = pa.table({"b": ["x"], "a": pa.array([1], pa.int32())})
    assert conform(data, schema).to_pylist() == [{"a": 1, "b": "x"}]
    with pytest.raises(SchemaError, match=r"missing from the data: a; .*does not have: A, z; .*A for a"):
        conform(pa.table({"b": ["x"], "A": [1], "z": [1]}), schema)
    with pytest.raises(SchemaError, match="more than once: b"):
        conform(pa.Table.from_arrays([pa.array([1]), pa.array(["x"]), pa.array(["y"])], ["a", "b", "b"]), schema)


def test_meta_fields_in_the_data_are_dropped() -> None:
    schema = pa.schema([("a", pa.int32())])
    read = pa.Table.from_pylist([dict.fromkeys(with_meta_fields(schema).names, None)], with_meta_fields(schema))
    assert conform(read, schema).schema.names == ["a"]
    assert conform(read, with_meta_fields(schema)).num_columns == 6


def test_nulls_where_none_may_be_are_counted() -> None:
    with pytest.raises(SchemaError, match="'c' must not be null, and is in 2 of 3 rows"):
        conform(one([1, None, None], pa.int32()), to(pa.int32(), nullable=False))
    inner = pa.struct([pa.field("x", pa.int64(), nullable=False)])
    rows = one([None, {"x": 1}, {"x": None}], pa.struct([("x", pa.int32())]))
    with pytest.raises(SchemaError, match=r"'c\.x' must not be null, and is in 1 rows"):
        conform(rows, to(inner))
    assert conform(rows.slice(0, 2), to(inner))["c"].to_pylist() == [None, {"x": 1}]
    items = pa.list_(pa.field("element", pa.int64(), nullable=False))
    with pytest.raises(SchemaError, match=r"'c\.element' must not be null"):
        conform(one([[1, None]], pa.list_(pa.int64())), to(items))


def test_columns_that_agree_are_not_copied() -> None:
    data = pa.table({"c": pa.array([1, 2, 3], pa.int64()), "d": pa.array(["x", "y", "z"])})
    result = conform(data, data.schema)
    read = conform_read(data, data.schema)
    for name in ("c", "d"):
        address = data[name].chunk(0).buffers()[1].address
        assert result[name].chunk(0).buffers()[1].address == address == read[name].chunk(0).buffers()[1].address


# What Hudi 1.2.0 answered for base files written before the column's type was widened.
HUDI_EVOLVED = [
    ([1, -(2**31), 16777217, None], pa.int32(), pa.int64(), [1, -(2**31), 16777217, None]),
    ([1, -(2**31), 16777217, None], pa.int32(), pa.float32(), [1.0, -2147483648.0, 16777216.0, None]),
    ([1, -(2**31), 16777217, None], pa.int32(), pa.float64(), [1.0, -2147483648.0, 16777217.0, None]),
    ([1, -(2**31), None], pa.int32(), pa.string(), ["1", "-2147483648", None]),
    ([1, 2**53 + 1, -(2**63), None], pa.int64(), pa.float32(), [1.0, 2.0**53, -(2.0**63), None]),
    ([1, 2**53 + 1, -(2**63), None], pa.int64(), pa.float64(), [1.0, 2.0**53, -(2.0**63), None]),
    ([1, 2**53 + 1, -(2**63)], pa.int64(), pa.string(), ["1", "9007199254740993", "-9223372036854775808"]),
    ([0.1, 1e7, 16777216.0, None], pa.float32(), pa.float64(), [0.1, 1e7, 16777216.0, None]),
    ([0.1, 1e7, 16777216.0, float("nan")], pa.float32(), pa.string(), ["0.1", "1.0E7", "1.6777216E7", "NaN"]),
    ([0.1, 1e7, 1e-5, None], pa.float64(), pa.string(), ["0.1", "1.0E7", "1.0E-5", None]),
    ([D("1.50"), D("-0.01")], pa.decimal128(10, 2), pa.decimal128(14, 2), [D("1.50"), D("-0.01")]),
    ([D("1.50"), D("-0.01")], pa.decimal128(10, 2), pa.decimal128(14, 4), [D("1.5000"), D("-0.0100")]),
]


@pytest.mark.parametrize(("values", "old", "new", "expected"), HUDI_EVOLVED, ids=str)
def test_older_files_read_as_hudi_reads_them(
    values: list[Any], old: pa.DataType, new: pa.DataType, expected: list[Any]
) -> None:
    rows = one(values, old, chunks=2)
    order = [*range(0, len(values), 2), *range(1, len(values), 2)]
    assert conform_read(rows, to(new))["c"].to_pylist() == [expected[n] for n in order]
    batch = pa.record_batch([pa.array(values, old)], names=["c"])
    result = conform_read(batch, to(new))
    assert isinstance(result, pa.RecordBatch)
    assert result.column(0).to_pylist() == expected


@pytest.mark.parametrize(
    ("values", "old", "new", "expected"),
    [
        ([b"ab", "é".encode()], pa.binary(), pa.string(), ["ab", "é"]),
        (["ab", "é"], pa.string(), pa.binary(), [b"ab", "é".encode()]),
        ([1], pa.int8(), pa.int32(), [1]),
        ([[0.1], None], pa.list_(pa.float32()), pa.list_(pa.float64()), [[0.1], None]),
        ([{"x": 1}, None], pa.struct([("x", pa.int32())]), pa.struct([("y", pa.string()), ("x", pa.int64())]),
         [{"y": None, "x": 1}, None]),
        ([{"x": 1, "gone": 2}], pa.struct([("x", pa.int32()), ("gone", pa.int32())]), pa.struct([("x", pa.int32())]),
         [{"x": 1}]),
        ([[("k", 1)], None], pa.map_(pa.string(), pa.int32()), pa.map_(pa.string(), pa.int64()), [[("k", 1)], None]),
    ],
    ids=str,
)  # fmt: skip
def test_other_evolutions(values: list[Any], old: pa.DataType, new: pa.DataType, expected: list[Any]) -> None:
    result = conform_read(one([None, *values], old).slice(1), to(new))
    result.validate(full=True)
    assert result["c"].to_pylist() == expected


def test_stored_timestamps_become_microseconds() -> None:
    millis = conform_read(one([-1, 1], pa.timestamp("ms", "UTC")), to(UTC))
    assert millis["c"].cast(pa.int64()).to_pylist() == [-1000, 1000]
    int96 = conform_read(one([-1, 1999], pa.timestamp("ns")), to(UTC))
    assert int96["c"].cast(pa.int64()).to_pylist() == [-1, 1]


def test_columns_a_file_lacks_are_null_and_those_it_has_too_many_are_left_out() -> None:
    rows = pa.table({"old": [1, 2], "a": pa.array([1, 2], pa.int32())})
    schema = with_meta_fields(pa.schema([("a", pa.int64()), ("tip", pa.float64())]))
    result = conform_read(rows, schema)
    assert result.schema.equals(schema)
    assert result.select(["a", "tip", "_hoodie_file_name"]).to_pylist() == [
        {"a": 1, "tip": None, "_hoodie_file_name": None},
        {"a": 2, "tip": None, "_hoodie_file_name": None},
    ]
    with pytest.raises(SchemaError, match=r"'tip'.*does not have it"):
        conform_read(rows, pa.schema([pa.field("tip", pa.float64(), nullable=False)]), path="p/f.parquet")


@pytest.mark.parametrize(
    ("values", "old", "new"),
    [
        ([1], pa.int64(), pa.int32()),
        ([1.0], pa.float64(), pa.float32()),
        ([1.0], pa.float64(), pa.int64()),
        ([D("1.5")], pa.decimal128(5, 1), pa.decimal128(5, 2)),
        ([True], pa.bool_(), pa.string()),
        (["1"], pa.string(), pa.int32()),
        ([1], pa.timestamp("us"), UTC),
        ([1], pa.int32(), pa.date32()),
        ([[1]], pa.list_(pa.int32()), pa.struct([("x", pa.int32())])),
    ],
    ids=str,
)  # fmt: skip
def test_types_that_can_not_have_evolved_are_refused(values: list[Any], old: pa.DataType, new: pa.DataType) -> None:
    with pytest.raises(SchemaError, match="'c'") as caught:
        conform_read(one(values, old), to(new), path="p/f.parquet")
    assert caught.value.path == "p/f.parquet"


def test_bytes_that_are_no_text_are_damage() -> None:
    with pytest.raises(CorruptError, match="'c'"):
        conform_read(one([b"\xff"], pa.binary()), to(pa.string()))


@given(st.lists(st.floats(width=64, allow_subnormal=False)))
def test_numbers_as_text_mean_the_same_number(values: list[float]) -> None:
    texts = conform_read(one(values, pa.float64()), to(pa.string()))["c"].to_pylist()
    for text, value in zip(texts, values, strict=True):
        assert repr(float(text.replace("Infinity", "inf"))) == repr(value)
        if 1e-3 <= abs(value) < 1e7:
            assert "E" not in text
            assert text == repr(value)


@given(st.lists(st.none() | st.lists(st.none() | st.integers(-9, 9), max_size=3), max_size=8), st.data())
def test_any_slice_of_lists_survives(values: list[Any], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(values)))
    for kind in (pa.list_(pa.int8()), pa.large_list(pa.int8()), pa.list_view(pa.int8())):
        result = conform(one(values, kind).slice(start), to(pa.list_(pa.int64())))
        result.validate(full=True)
        assert result["c"].to_pylist() == values[start:]
