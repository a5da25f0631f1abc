"""Table schemas as Avro, against the text that Apache Hudi 1.2.0 put into its commits (hudi_schemas.json)."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pudi.errors import CorruptError, InvalidArgumentError, NotSupportedError, PudiError, SchemaError
from pudi.schema import arrow_to_avro, avro_to_arrow, normalise, spark_struct_to_arrow

HUDI = json.loads(Path(__file__).with_name("hudi_schemas.json").read_text(encoding="utf-8"))


def test_the_corpus_is_whole() -> None:
    assert len(HUDI) == 4


@pytest.mark.parametrize("table", HUDI)
def test_text_is_hudis_letter_for_letter(table: str) -> None:
    spark = spark_struct_to_arrow(HUDI[table]["spark"])
    assert arrow_to_avro(spark, table) == HUDI[table]["avro"]
    assert avro_to_arrow(HUDI[table]["avro"]).equals(spark)


def test_golden_types_are_these_arrow_types() -> None:
    y = pa.list_(pa.field("element", pa.struct([("z", pa.float64())])))
    assert avro_to_arrow(HUDI["cow_v9_types"]["avro"]).equals(
        pa.schema(
            [
                ("id", pa.int64()),
                ("ts", pa.timestamp("us", "UTC")),
                ("d", pa.date32()),
                ("dec", pa.decimal128(18, 4)),
                ("b", pa.bool_()),
                ("bin", pa.binary()),
                ("fl", pa.float32()),
                ("arr", pa.list_(pa.field("element", pa.string()))),
                ("m", pa.map_(pa.string(), pa.int64())),
                ("st", pa.struct([("x", pa.int32()), ("y", y)])),
                ("p", pa.int32()),
            ]
        )
    )


def record(*fields: object) -> str:
    return json.dumps(
        {"type": "record", "name": "r", "fields": [{"name": f"c{n}", "type": f} for n, f in enumerate(fields)]}
    )


@pytest.mark.parametrize(
    ("avro", "kind"),
    [
        ({"type": "long", "logicalType": "timestamp-millis"}, pa.timestamp("us", "UTC")),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, pa.timestamp("us")),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, pa.timestamp("us")),
        ({"type": "int", "logicalType": "time-millis"}, pa.time32("ms")),
        ({"type": "long", "logicalType": "time-micros"}, pa.time64("us")),
        ({"type": "string", "logicalType": "uuid"}, pa.string()),
        ({"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3}, pa.decimal128(20, 3)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4}, pa.decimal128(4, 0)),
        ({"type": "fixed", "name": "f", "size": 7}, pa.binary()),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, pa.string()),
        ({"type": {"type": "string", "avro.java.string": "String"}}, pa.string()),
        ({"type": "long", "logicalType": "something-else"}, pa.int64()),
        ({"type": "string", "logicalType": "timestamp-micros"}, pa.string()),
    ],
)
def test_other_types_that_tables_hold(avro: object, kind: pa.DataType) -> None:
    schema = avro_to_arrow(record(avro, ["null", avro], [avro, "null"], [avro]))
    assert schema.field(0).type == kind
    assert [field.nullable for field in schema] == [False, True, True, False]
    assert {field.type for field in schema} == {kind}


def test_named_types_may_be_used_again() -> None:
    point = {"type": "record", "name": "P", "namespace": "n", "fields": [{"name": "x", "type": "int"}]}
    inner = {"type": "record", "name": "Q", "namespace": "n", "fields": [{"name": "p", "type": ["null", "P"]}]}
    schema = avro_to_arrow(record(point, "n.P", {"type": "array", "items": "n.P"}, inner))
    struct = pa.struct([pa.field("x", pa.int32(), nullable=False)])
    assert schema.field("c1").type == struct
    assert schema.field("c2").type.value_type == struct
    assert schema.field("c3").type.field("p").type == struct


def deep(levels: int) -> object:
    node: object = "int"
    for _ in range(levels):
        node = {"type": "array", "items": node}
    return node


def bomb(levels: int) -> str:
    """Each record holds the one before ten times, by name."""
    fields: list[object] = [{"type": "record", "name": "R0", "fields": [{"name": "a", "type": "int"}]}]
    for level in range(1, levels):
        inner = [{"name": f"a{n}", "type": f"R{level - 1}"} for n in range(10)]
        fields.append({"type": "record", "name": f"R{level}", "fields": inner})
    return record(*fields)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "[1]",
        '"string"',
        '{"type":"record"}',
        '{"type":"record","name":"r"}',
        '{"type":"record","name":"r","fields":{}}',
        '{"type":"record","name":"r","fields":[1]}',
        '{"type":"record","name":"r","fields":[{"name":"a"}]}',
        '{"type":"record","name":"r","fields":[{"name":7,"type":"int"}]}',
        '{"type":"record","name":"r","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}',
        record("integer"),
        record({"type": "array"}),
        record({"type": ["null", "int"]}),
        record({"type": "fixed", "name": "f", "size": -1}),
        record({"type": "bytes", "logicalType": "decimal", "precision": 39, "scale": 0}),
        record({"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 6}),
        record({"type": "bytes", "logicalType": "decimal", "precision": "5"}),
        record(deep(65)),
        '{"type":"record","name":"r","fields":[{"name":"a","type":' + '{"type":"array","items":' * 100_000,
        bomb(20),
        " " * (17 * 2**20),
    ],
    ids=lambda text: text[:40],
)
def test_damaged_schemas_are_named_as_such(text: str) -> None:
    with pytest.raises(CorruptError):
        avro_to_arrow(text)


@pytest.mark.parametrize(
    "avro",
    [
        ["null", "int", "string"],
        ["null"],
        {"type": "record", "name": "r2", "fields": [{"name": "me", "type": ["null", "r2"]}]},
        {"type": "record", "name": "v", "logicalType": "variant", "fields": []},
    ],
)
def test_what_spark_has_no_columns_for_is_refused(avro: object) -> None:
    with pytest.raises(NotSupportedError, match="c0"):
        avro_to_arrow(record(avro))


WORDS = st.sampled_from(["type", "name", "fields", "items", "values", "logicalType", "size", "precision"])
ANY_JSON = st.recursive(
    st.none() | st.integers() | st.sampled_from(["record", "fixed", "array", "map", "int", "null", "x.y"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)


@given(ANY_JSON)
def test_any_json_ends_in_an_answer_or_one_of_our_errors(node: object) -> None:
    with contextlib.suppress(PudiError):
        assert avro_to_arrow(record(node)).names == ["c0"]


def arrow_types() -> st.SearchStrategy[pa.DataType]:
    simple = st.sampled_from(
        [pa.bool_(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.binary(), pa.date32(),
         pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.decimal128(1, 0), pa.decimal128(38, 38),
         pa.decimal128(19, 4)]
    )  # fmt: skip

    def nest(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
        null = st.booleans()
        lists = st.builds(lambda t, n: pa.list_(pa.field("element", t, n)), inner, null)
        maps = st.builds(lambda t, n: pa.map_(pa.string(), pa.field("value", t, n)), inner, null)
        names = st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True)
        structs = st.builds(lambda ns, t, n: pa.struct([pa.field(x, t, n) for x in ns]), names, inner, null)
        return lists | maps | structs

    return st.recursive(simple, nest, max_leaves=4)


@given(st.lists(st.tuples(arrow_types(), st.booleans()), min_size=1, max_size=4))
def test_a_schema_survives_the_way_through_avro(kinds: list[tuple[pa.DataType, bool]]) -> None:
    schema = pa.schema([pa.field(f"c{n}", kind, null) for n, (kind, null) in enumerate(kinds)])
    text = arrow_to_avro(schema, "t")
    assert avro_to_arrow(text).equals(schema)
    assert normalise(schema).equals(schema)


@pytest.mark.parametrize("name", ["", "a b", "1a", "a-b", "a.b", "😀"])
def test_names_that_avro_can_not_hold_are_refused(name: str) -> None:
    with pytest.raises(SchemaError, match="rename"):
        arrow_to_avro(pa.schema([(name, pa.int32())]), "t")
    with pytest.raises(SchemaError, match="outer"):
        arrow_to_avro(pa.schema([("outer", pa.struct([(name, pa.int32())]))]), "t")


def test_a_table_needs_a_name() -> None:
    with pytest.raises(InvalidArgumentError):
        arrow_to_avro(pa.schema([("a", pa.int32())]), "  ")
