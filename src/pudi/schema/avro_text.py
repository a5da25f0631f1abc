"""A table's Avro schema as text, kept as it is: Hudi's own wording goes back into commits and footers unchanged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pudi.schema.fields import META_FIELDS

_REWORDED = frozenset({"timestamp-millis", "local-timestamp-millis", "time-millis", "time-micros"})


def add_meta_fields(avro_json: str) -> str:
    """The schema with the five meta fields in front, as it stands in the footer of a base file (addMetadataFields)."""
    schema = json.loads(avro_json)
    own = [field for field in schema["fields"] if field["name"] not in META_FIELDS]
    metas = [{"name": name, "type": ["null", "string"], "doc": "", "default": None} for name in META_FIELDS]
    return json.dumps({**schema, "fields": [*metas, *own]}, separators=(",", ":"), ensure_ascii=False)


def unwritable_columns(avro_json: str) -> list[str]:
    """Columns whose Avro type pudi reads but would not write back as the schema words it, such as `timestamp-millis`.

    Their values are read into Arrow types of finer units or other layouts; files written from these would contradict
    the schema that names them.
    """
    return [field["name"] for field in json.loads(avro_json)["fields"] if any(_reworded(field["type"]))]


def _reworded(node: Any) -> Iterator[bool]:
    if isinstance(node, list):
        for branch in node:
            yield from _reworded(branch)
    elif isinstance(node, dict):
        logical = node.get("logicalType")
        yield (
            node.get("type") == "enum" or logical in _REWORDED or (logical == "decimal" and node.get("type") == "bytes")
        )
        for part in ("type", "items", "values"):
            yield from _reworded(node.get(part))
        for field in node.get("fields", ()):
            yield from _reworded(field["type"])
