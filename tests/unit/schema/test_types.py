"""What a user's schema becomes in a table, and how Spark spells it."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from pudi.errors import NotSupportedError, SchemaError
from pudi.schema import (
    META_FIELDS,
    arrow_to_spark_ddl,
    arrow_to_spark_json,
    normalise,
    spark_struct_to_arrow,
    with_meta_fields,
    without_meta_fields,
)

UTC = pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (pa.int8(), pa.int32()),
        (pa.int16(), pa.int32()),
        (pa.uint8(), pa.int32()),
        (pa.uint16(), pa.int32()),
        (pa.uint32(), pa.int64()),
        (pa.float16(), pa.float32()),
        (pa.large_string(), pa.string()),
        (pa.string_view(), pa.string()),
        (pa.large_binary(), pa.binary()),
        (pa.binary_view(), pa.binary()),
        (pa.binary(4), pa.binary()),
        (pa.date64(), pa.date32()),
        (pa.dictionary(pa.int8(), pa.large_string()), pa.string()),
        (pa.run_end_encoded(pa.int32(), pa.int8()), pa.int32()),
        (pa.timestamp("ns"), pa.timestamp("us")),
        (pa.timestamp("s", "Europe/Paris"), UTC),
        (pa.timestamp("ms", "+00:00"), UTC),
        (pa.decimal256(38, 2), pa.decimal128(38, 2)),
        (pa.large_list(pa.int8()), pa.list_(pa.int32())),
        (pa.list_(pa.int8(), 3), pa.list_(pa.int32())),
        (pa.list_view(pa.string_view()), pa.list_(pa.string())),
        (pa.map_(pa.large_string(), pa.int8()), pa.map_(pa.string(), pa.int32())),
        (pa.struct([("a", pa.int8())]), pa.struct([("a", pa.int32())])),
    ],
    ids=str,
)
def test_types_become_the_tables(given: pa.DataType, kept: pa.DataType) -> None:
    schema = pa.schema([pa.field("c", given, nullable=False, metadata={"x": "y"})], metadata={"pandas": "{}"})
    result = normalise(schema)
    assert result.equals(pa.schema([pa.field("c", kept, nullable=False)]))
    assert result.metadata is None
    assert result.field("c").metadata is None


@pytest.mark.parametrize(
    "kind",
    [pa.uint64(), pa.null(), pa.time32("s"), pa.time64("us"), pa.duration("s"), pa.month_day_nano_interval(),
     pa.decimal256(39, 0), pa.decimal128(5, -2), pa.struct([]), pa.map_(pa.int32(), pa.int32()),
     pa.dense_union([pa.field("a", pa.int32())]), pa.uuid()],
    ids=str,
)  # fmt: skip
def test_types_without_a_home_are_refused_by_name(kind: pa.DataType) -> None:
    with pytest.raises(SchemaError, match="'c'"):
        normalise(pa.schema([("c", kind)]))
    with pytest.raises(SchemaError, match=r"'s\.c'"):
        normalise(pa.schema([("s", pa.struct([("c", kind)]))]))


def test_names_that_differ_by_case_or_not_at_all_are_refused() -> None:
    with pytest.raises(SchemaError, match="'a' and 'A'"):
        normalise(pa.schema([("a", pa.int32()), ("A", pa.int32())]))
    with pytest.raises(SchemaError, match="more than once"):
        normalise(pa.schema([("a", pa.int32()), ("a", pa.int32())]))


def test_too_deep_a_type_is_refused() -> None:
    kind: pa.DataType = pa.int32()
    for _ in range(70):
        kind = pa.list_(kind)
    with pytest.raises(SchemaError, match="nested deeper"):
        normalise(pa.schema([("c", kind)]))


def test_meta_fields_lead_and_leave() -> None:
    schema = pa.schema([("a", pa.int32()), ("_hoodie_record_key", pa.string())])
    full = with_meta_fields(schema)
    assert full.names == [
        "_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_record_key", "_hoodie_partition_path",
        "_hoodie_file_name", "a",
    ]  # fmt: skip
    assert tuple(full.names[:5]) == META_FIELDS
    assert all(field.type == pa.string() and field.nullable for field in list(full)[:5])
    assert without_meta_fields(full).names == ["a"]


ALL = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("we`ird", pa.string()),
        pa.field("l", pa.list_(pa.field("element", pa.int32(), nullable=False))),
        pa.field("m", pa.map_(pa.string(), pa.struct([pa.field("x", pa.decimal128(9, 2)), pa.field("y", UTC)]))),
        pa.field("n", pa.timestamp("us")),
        pa.field("d", pa.date32()),
        pa.field("b", pa.binary()),
        pa.field("t", pa.bool_()),
        pa.field("f", pa.float32()),
        pa.field("g", pa.float64()),
    ]
)


def test_spark_json_there_and_back() -> None:
    text = arrow_to_spark_json(ALL)
    assert spark_struct_to_arrow(text).equals(ALL)
    assert spark_struct_to_arrow(json.loads(text)).equals(ALL)


def test_spark_ddl() -> None:
    assert arrow_to_spark_ddl(ALL) == (
        "`id` BIGINT NOT NULL, `we``ird` STRING, `l` ARRAY<INT>, `m` MAP<STRING, STRUCT<`x`: DECIMAL(9,2), "
        "`y`: TIMESTAMP>>, `n` TIMESTAMP_NTZ, `d` DATE, `b` BINARY, `t` BOOLEAN, `f` FLOAT, `g` DOUBLE"
    )
    with pytest.raises(NotSupportedError, match="'c'"):
        arrow_to_spark_ddl(pa.schema([("c", pa.time64("us"))]))


def struct(kind: object) -> dict[str, object]:
    return {"type": "struct", "fields": [{"name": "c", "type": kind, "nullable": True, "metadata": {}}]}


@pytest.mark.parametrize(
    ("kind", "arrow"),
    [("byte", pa.int32()), ("short", pa.int32()), ("varchar(10)", pa.string()), ("char(3)", pa.string()),
     ("decimal(38,38)", pa.decimal128(38, 38))],
)  # fmt: skip
def test_spark_types_that_become_others(kind: str, arrow: pa.DataType) -> None:
    assert spark_struct_to_arrow(struct(kind)).field("c").type == arrow


@pytest.mark.parametrize(
    "kind",
    ["interval day to second", "variant", "decimal(39,0)", "decimal(5,6)", 7, None, {"type": "udt"},
     {"type": "map", "keyType": "integer", "valueType": "string", "valueContainsNull": True}, {"type": "array"},
     {"type": "struct"}],
    ids=str,
)  # fmt: skip
def test_spark_types_without_a_home_are_refused_by_name(kind: object) -> None:
    with pytest.raises(SchemaError, match="'c"):
        spark_struct_to_arrow(struct(kind))


def test_void_is_a_type_of_data_and_of_no_column() -> None:
    found = spark_struct_to_arrow(struct({"type": "array", "elementType": "void", "containsNull": False}))
    assert found.field("c").type == pa.list_(pa.field("element", pa.null()))
    with pytest.raises(SchemaError, match=r"'c\.element' has type null"):
        normalise(found)


@pytest.mark.parametrize(
    "text", ["", "[]", '"long"', '{"type":"struct"}', '{"type":"struct","fields":[1]}', "[" * 100_000]
)
def test_what_is_no_struct_is_refused(text: str) -> None:
    with pytest.raises(SchemaError):
        spark_struct_to_arrow(text)
