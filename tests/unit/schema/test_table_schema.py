"""A table's schema as one value: what it says, and what of it travels to tasks."""

from __future__ import annotations

import pickle

import pyarrow as pa

from pudi.schema import META_FIELDS, TableSchema, arrow_to_avro, avro_to_arrow

COLUMNS = pa.schema([pa.field(f"c{n}", pa.int64()) for n in range(40)])


def test_columns_with_and_without_meta_fields() -> None:
    schema = TableSchema(arrow_to_avro(COLUMNS, "t"))
    assert schema.columns.equals(COLUMNS)
    assert schema.stored.names == [*META_FIELDS, *COLUMNS.names]
    assert avro_to_arrow(schema.stored_avro).equals(schema.stored)


def test_only_its_text_is_pickled_and_a_process_parses_it_once() -> None:
    schema = TableSchema(arrow_to_avro(COLUMNS, "t"))
    small = len(pickle.dumps(schema))
    assert schema.stored.names
    assert schema.stored_avro
    content = pickle.dumps(schema)
    assert len(content) == small <= len(schema.avro) + 200
    first, second = pickle.loads(content), pickle.loads(content)
    assert first is second
    assert first == schema
    assert first.columns.equals(COLUMNS)
