from __future__ import annotations

import datetime
import decimal
import io
import json
import math
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from golden_files import base_files

from pudi.errors import CorruptError, NotSupportedError
from pudi.format import (
    BloomFilter,
    BloomOptions,
    ColumnStatistics,
    column_statistics,
    footer_metadata,
    read_bloom_filter,
    read_footer_keys,
    read_key_range,
)

SIMPLE = BloomFilter.build(pa.array(["a"]), BloomOptions(10, 0.1, kind="SIMPLE"))
DYNAMIC = BloomFilter.build(pa.array(["a"]), BloomOptions(10, 0.1))


def footer(table: pa.Table, **options: Any) -> pq.FileMetaData:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return pq.read_metadata(io.BytesIO(sink.getvalue()))


def with_metadata(metadata: dict[bytes, bytes]) -> pq.FileMetaData:
    sink, table = io.BytesIO(), pa.table({"x": [1]})
    with pq.ParquetWriter(sink, table.schema) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(metadata)
    return pq.read_metadata(io.BytesIO(sink.getvalue()))


def test_key_ranges_of_hudis_base_files_are_those_of_their_keys() -> None:
    seen = 0
    for path, data in base_files().items():
        metadata = pq.read_metadata(io.BytesIO(data))
        found = read_key_range(metadata, path=path)
        if found is None:
            assert path.startswith("cow_v9_nometa/") or metadata.num_rows == 0, path
            continue
        keys = pq.read_table(io.BytesIO(data), columns=["_hoodie_record_key"])["_hoodie_record_key"].to_pylist()
        assert found == (min(keys), max(keys)), path
        seen += 1
    assert seen > 60


def test_hudis_avro_writer_leaves_its_schema() -> None:
    texts = [read_footer_keys(pq.read_metadata(io.BytesIO(data))).avro_schema for data in base_files().values()]
    schemas = [json.loads(text) for text in texts if text is not None]
    assert len(schemas) > 30
    assert all(schema["fields"][0]["name"] == "_hoodie_commit_time" for schema in schemas)


@pytest.mark.parametrize("bloom", [SIMPLE, DYNAMIC, None])
def test_what_is_written_to_a_footer_is_read_from_it(bloom: BloomFilter | None) -> None:
    read = with_metadata(footer_metadata('{"type": "record"}', "a\u00fc", "\u6771", bloom))
    assert read_key_range(read) == ("a\u00fc", "\u6771")
    assert read_bloom_filter(read) == bloom
    keys = read_footer_keys(read)
    assert keys.avro_schema == '{"type": "record"}'
    assert keys.has_bloom is (bloom is not None)


def test_keys_are_named_as_hudi_names_them() -> None:
    assert footer_metadata("{}", "a", "b", DYNAMIC) == {
        b"parquet.avro.schema": b"{}",
        b"writer.model.name": b"avro",
        b"hoodie_min_record_key": b"a",
        b"hoodie_max_record_key": b"b",
        b"org.apache.hudi.bloomfilter": DYNAMIC.to_base64().encode(),
        b"hoodie_bloom_filter_type_code": b"DYNAMIC_V0",
    }
    assert b"hoodie_bloom_filter_type_code" not in footer_metadata(None, None, None, SIMPLE)


def test_a_footer_that_says_nothing() -> None:
    empty = with_metadata(footer_metadata(None, None, None, None))
    assert read_key_range(empty) is None
    assert read_bloom_filter(empty) is None
    assert read_key_range(with_metadata({b"hoodie_min_record_key": b"a"})) is None


def test_a_filter_of_old_is_found_under_its_old_name() -> None:
    assert read_bloom_filter(with_metadata({b"com.uber.hoodie.bloomfilter": SIMPLE.to_base64().encode()})) == SIMPLE


def test_bad_footers() -> None:
    with pytest.raises(CorruptError) as caught:
        read_key_range(with_metadata({b"hoodie_min_record_key": b"\xff", b"hoodie_max_record_key": b"b"}), path="f")
    assert caught.value.path == "f"
    with pytest.raises(CorruptError):
        read_bloom_filter(with_metadata({b"org.apache.hudi.bloomfilter": b"AAAA"}))
    text = DYNAMIC.to_base64().encode()
    with pytest.raises(NotSupportedError):
        read_bloom_filter(
            with_metadata({b"org.apache.hudi.bloomfilter": text, b"hoodie_bloom_filter_type_code": b"RIBBON"})
        )


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([3, None, 1, 2], pa.int64()),
        (["b", "a", None, "\u6771"], pa.string()),
        ([1.5, -0.5, None, 0.0], pa.float64()),
        ([True, False, None, True], pa.bool_()),
        ([datetime.date(2020, 1, 2), None, datetime.date(1969, 1, 1), datetime.date(2000, 1, 1)], pa.date32()),
        ([decimal.Decimal("1.50"), None, decimal.Decimal("-2.25"), decimal.Decimal("0.00")], pa.decimal128(10, 2)),
        (
            [datetime.datetime(2020, 1, 2), None, datetime.datetime(2019, 1, 1), datetime.datetime(2021, 1, 1)],
            pa.timestamp("us"),
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, pa.DataType) else "",
)
def test_bounds_are_the_least_and_greatest_value(values: list[Any], kind: pa.DataType) -> None:
    present = [value for value in values if value is not None]
    statistics = column_statistics(footer(pa.table({"x": pa.array(values, kind)})), "x")
    assert statistics == [ColumnStatistics(min(present), max(present), 1, 4)]


def test_each_row_group_has_its_own() -> None:
    read = footer(pa.table({"x": [1, 2, 3, 4, None, None]}), row_group_size=2)
    assert column_statistics(read, "x") == [
        ColumnStatistics(1, 2, 0, 2),
        ColumnStatistics(3, 4, 0, 2),
        ColumnStatistics(None, None, 2, 2),
    ]


def test_a_nan_leaves_no_false_bounds() -> None:
    (known,) = column_statistics(footer(pa.table({"x": [math.nan, math.nan]})), "x")
    assert known is None or (known.minimum, known.maximum) == (None, None)
    (known,) = column_statistics(footer(pa.table({"x": [math.nan, 1.0, 2.0]})), "x")
    assert known is None or known.minimum is None or (known.minimum, known.maximum) == (1.0, 2.0)


def test_without_statistics_nothing_is_known() -> None:
    read = footer(pa.table({"x": [1], "y": [1]}), write_statistics=["y"])
    assert column_statistics(read, "x") == [None]
    assert column_statistics(read, "y") == [ColumnStatistics(1, 1, 0, 1)]
    assert column_statistics(read, "z") == [None]


def test_only_top_level_columns_are_known() -> None:
    table = pa.table({"s": [{"a": 1}], "l": [[1, 2]], "m": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64()))})
    read = footer(table)
    paths = [read.schema.column(i).path for i in range(read.num_columns)]
    assert [column_statistics(read, name) for name in ["s", "l", "m", *paths]] == [[None]] * (3 + len(paths))


def test_a_dot_in_a_name_is_no_path() -> None:
    read = footer(pa.table({"s": [{"a": 1}], "s.a": [7]}))
    assert column_statistics(read, "s.a") == [ColumnStatistics(7, 7, 0, 1)]


def test_a_type_without_an_order_has_no_bounds() -> None:
    read = footer(pa.table({"x": pa.array([1, 2], pa.timestamp("ns"))}), use_deprecated_int96_timestamps=True)
    (known,) = column_statistics(read, "x")
    assert known is None or known.minimum is None


def test_columns_of_hudis_base_files() -> None:
    seen = 0
    for path, data in base_files().items():
        read = pq.read_metadata(io.BytesIO(data))
        if not path.startswith("cow_v9_basic/"):
            continue
        commit_times = pq.read_table(io.BytesIO(data), columns=["_hoodie_commit_time"])[0].to_pylist()
        assert column_statistics(read, "_hoodie_commit_time") == [
            ColumnStatistics(min(commit_times), max(commit_times), 0, len(commit_times))
        ]
        seen += 1
    assert seen > 5
