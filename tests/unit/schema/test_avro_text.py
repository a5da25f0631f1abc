"""The table's own wording of its Avro schema."""

from __future__ import annotations

import json

import pyarrow as pa

from pudi.schema import META_FIELDS, TableSchema, add_meta_fields, arrow_to_avro, avro_to_arrow, with_meta_fields

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("price", pa.decimal128(10, 2)),
        ("parts", pa.list_(pa.struct([("n", pa.int32())]))),
    ]
)


def test_meta_fields_come_first_and_once() -> None:
    text = add_meta_fields(arrow_to_avro(SCHEMA, "t"))
    assert [field["name"] for field in json.loads(text)["fields"]] == [*META_FIELDS, *SCHEMA.names]
    assert json.loads(add_meta_fields(text)) == json.loads(text)
    assert avro_to_arrow(text).equals(with_meta_fields(SCHEMA))


def test_what_pudi_writes_itself_is_writable() -> None:
    assert TableSchema(arrow_to_avro(SCHEMA, "t")).unwritable == ()


def test_types_that_would_be_reworded_are_named() -> None:
    millis = {"type": "long", "logicalType": "timestamp-millis"}
    fields = [
        {"name": "ok", "type": ["null", "long"]},
        {"name": "when", "type": ["null", millis]},
        {
            "name": "nested",
            "type": {
                "type": "array",
                "items": {"type": "record", "name": "r", "fields": [{"name": "x", "type": millis}]},
            },
        },
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}},
        {"name": "kind", "type": {"type": "enum", "name": "e", "symbols": ["a"]}},
    ]
    text = json.dumps({"type": "record", "name": "t", "fields": fields})
    assert TableSchema(text).unwritable == ("when", "nested", "amount", "kind")
