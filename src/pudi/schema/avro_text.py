"""Edit a table's Avro schema as text, so that definitions that Hudi wrote go into commits and footers unchanged."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import pyarrow as pa

from pudi.errors import PudiError
from pudi.schema.avro_read import avro_to_arrow
from pudi.schema.avro_write import arrow_to_avro
from pudi.schema.fields import META_FIELDS, without_meta_fields

_WRITTEN_DIFFERENTLY = frozenset({"timestamp-millis", "local-timestamp-millis", "time-millis", "time-micros"})


def add_meta_fields(avro_json: str) -> str:
    """The schema with the five meta fields in front, as it stands in the footer of a base file (addMetadataFields)."""
    schema = json.loads(avro_json)
    own = [field for field in schema["fields"] if field["name"] not in META_FIELDS]
    metas = [{"name": name, "type": ["null", "string"], "doc": "", "default": None} for name in META_FIELDS]
    return json.dumps({**schema, "fields": [*metas, *own]}, separators=(",", ":"), ensure_ascii=False)


def without_columns_text(avro_json: str, names: Collection[str]) -> str:
    """The schema without some columns, as it stands in files that leave them out."""
    schema = json.loads(avro_json)
    kept = [field for field in schema["fields"] if field["name"] not in names]
    if len(kept) == len(schema["fields"]):
        return avro_json
    return json.dumps({**schema, "fields": kept}, separators=(",", ":"), ensure_ascii=False)


def with_text_columns_text(avro_json: str, names: Sequence[str]) -> str:
    """The schema with some columns as nullable texts behind the others (TableSchemaResolver.appendPartitionColumns)."""
    schema = json.loads(without_columns_text(avro_json, names))
    texts = [{"name": name, "type": ["null", "string"], "default": None} for name in names]
    whole = {**schema, "fields": [*schema["fields"], *texts]}
    return json.dumps(whole, separators=(",", ":"), ensure_ascii=False)


def evolved_text(avro_json: str, schema: pa.Schema, table_name: str) -> str:
    """Return the Avro schema of a table with changed columns; unchanged columns keep their definition.

    Args:
        avro_json: the schema so far.
        schema: the table's columns now, without meta fields.
        table_name: `hoodie.table.name`.

    Returns:
        The text as it was where nothing changed.

    Raises:
        SchemaError: a name or a type can't be stored in a Hudi table.
    """
    before = without_meta_fields(avro_to_arrow(avro_json))
    if before.equals(schema):
        return avro_json
    fresh = arrow_to_avro(schema, table_name)
    own = {field["name"]: field for field in json.loads(avro_json)["fields"]}
    fields = [
        own[name] if name in before.names and before.field(name).equals(schema.field(name)) else field
        for name, field in ((field["name"], field) for field in json.loads(fresh)["fields"])
    ]
    mixed = {**json.loads(avro_json), "fields": fields}
    text = json.dumps(mixed, separators=(",", ":"), ensure_ascii=False)
    # a field may refer to a type that another one defines, which may be gone
    try:
        return text if avro_to_arrow(text).equals(schema) else fresh
    except PudiError:
        return fresh


def unwritable_columns(avro_json: str) -> list[str]:
    """Return columns with an Avro type that pudi reads but would write differently, such as `timestamp-millis`.

    Their values are read into Arrow types of finer units or other layouts; files written from these would contradict
    the schema that names them.
    """
    return [field["name"] for field in json.loads(avro_json)["fields"] if any(_differs_when_written(field["type"]))]


def _differs_when_written(node: Any) -> Iterator[bool]:
    if isinstance(node, list):
        for branch in node:
            yield from _differs_when_written(branch)
    elif isinstance(node, dict):
        logical = node.get("logicalType")
        yield (
            node.get("type") == "enum"
            or logical in _WRITTEN_DIFFERENTLY
            or (logical == "decimal" and node.get("type") == "bytes")
        )
        for part in ("type", "items", "values"):
            yield from _differs_when_written(node.get(part))
        for field in node.get("fields", ()):
            yield from _differs_when_written(field["type"])
