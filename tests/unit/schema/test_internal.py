"""Schemas by id: their JSON, ids as Hudi gives them, changes, and what files call the columns."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pudi.errors import CorruptError, NotSupportedError, SchemaError
from pudi.schema import with_meta_fields
from pudi.schema.changes import add_column, change_type, drop_column, reconciled, rename_column
from pudi.schema.internal import InternalSchema, SchemaHistory, parse_history
from pudi.schema.types import TIMESTAMP, list_of, map_of

PLAIN = [pa.bool_(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.binary(), pa.date32(),
         TIMESTAMP, pa.decimal128(10, 2), pa.decimal128(38, 0)]  # fmt: skip


def _structs(kinds: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    fields = st.lists(st.tuples(kinds, st.booleans()), min_size=1, max_size=3)
    return fields.map(lambda many: pa.struct([pa.field(f"f{n}", k, o) for n, (k, o) in enumerate(many)]))


KINDS = st.recursive(
    st.sampled_from(PLAIN),
    lambda kinds: kinds.map(list_of) | kinds.map(map_of) | _structs(kinds),
    max_leaves=6,
)
SCHEMAS = _structs(KINDS).map(lambda kind: with_meta_fields(pa.schema(list(kind))))


@given(SCHEMAS)
def test_json_and_arrow_round_trips(schema: pa.Schema) -> None:
    made = InternalSchema.of(schema)
    assert made.arrow() == schema
    assert InternalSchema.from_json(made.to_json()) == made
    history = SchemaHistory(made, (made,))
    assert parse_history(history.to_json()) == (made,)
    assert made.names_in(made) is None
    assert reconciled(made, schema) is made


def test_ids_are_given_level_by_level() -> None:
    kind = pa.struct([("x", pa.int32()), ("y", list_of(pa.string()))])
    text = InternalSchema.of(pa.schema([("a", kind), ("b", map_of(pa.int64())), ("c", pa.decimal128(10, 2))])).to_json()
    node = json.loads(text)
    assert node["max_column_id"] == 7
    assert [field["id"] for field in node["fields"]] == [0, 1, 2]
    inner = node["fields"][0]["type"]["fields"]
    assert [field["id"] for field in inner] == [3, 4]
    assert inner[1]["type"]["element_id"] == 5
    assert (node["fields"][1]["type"]["key_id"], node["fields"][1]["type"]["value_id"]) == (6, 7)
    assert node["fields"][2]["type"] == "decimal_fixed(10, 2)[5]"


def test_changes_and_names() -> None:
    place = pa.struct([("x", pa.int32()), ("y", pa.int32())])
    first = InternalSchema.of(pa.schema([("a", pa.int32()), ("b", pa.int32()), ("place", place)]))
    swapped = rename_column(rename_column(rename_column(first, "a", "t"), "b", "a"), "t", "b")
    names = swapped.names_in(first)
    assert names is not None
    assert (names.of("a"), names.of("b"), names.of("place")) == (("b", None), ("a", None), ("place", None))
    again = add_column(drop_column(first, "place.y"), "place.y", pa.string())
    inner = again.names_in(first)
    assert inner is not None
    stored, within = inner.of("place")
    assert stored == "place"
    assert within is not None
    assert within.of("y") == (None, None)
    assert again.max_id == first.max_id + 1
    assert change_type(first, "place.x", pa.int64()).arrow().field("place").type.field("x").type == pa.int64()
    for change in (
        lambda: rename_column(first, "a", "B"),
        lambda: drop_column(first, "nothing"),
        lambda: add_column(first, "a.b", pa.int32()),
        lambda: change_type(first, "a", pa.date32()),
    ):
        with pytest.raises(SchemaError):
            change()


def test_a_file_is_read_by_the_schema_of_its_commit() -> None:
    first = InternalSchema.of(pa.schema([("a", pa.int32())]))
    renamed = rename_column(first, "a", "b")
    history = SchemaHistory(first, (first,)).with_version(InternalSchema(20, renamed.max_id, renamed.columns))
    names = history.names("10")
    assert names is not None
    assert names.of("b") == ("a", None)
    assert history.names("20") is None
    assert history.names("30") is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"type":"record"}',
        '{"type":"record","fields":[{}]}',
        '{"type":"record","fields":[{"id":"x","name":"a","type":"int"}]}',
        '{"type":"record","fields":[{"id":1,"name":"a","type":"decimal(99, 2)"}]}',
        '{"type":"record","fields":[{"id":1,"name":"a","type":"int"},{"id":1,"name":"b","type":"int"}]}',
        '{"type":"record","fields":[{"id":1,"name":"a","type":'
        + '{"type":"array","element":' * 200
        + "}" * 200
        + "}]}",
        "[" * 100_000,
    ],
    ids=str,
)
def test_damaged_texts(text: str) -> None:
    with pytest.raises(CorruptError):
        InternalSchema.from_json(text)
    with pytest.raises(CorruptError):
        parse_history(text)


def test_a_type_of_hudis_own() -> None:
    with pytest.raises(NotSupportedError, match="vector"):
        InternalSchema.from_json('{"type":"record","fields":[{"id":1,"name":"a","type":"vector[3, FLOAT, X]"}]}')
