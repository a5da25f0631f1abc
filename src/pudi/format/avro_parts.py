"""The parts that Avro schemas of Hudi's own records are made of."""

from __future__ import annotations

from typing import Any, Final

Schema = dict[str, Any]

_JAVA_STRING: Schema = {"avro.java.string": "String"}
STRING: Final[Schema] = {"type": "string", **_JAVA_STRING}
"""A text, for Java's generated classes."""


def array(items: object, **more: object) -> Schema:
    """A list."""
    return {"type": "array", "items": items, **more}


def mapping(values: object, **more: object) -> Schema:
    """A map from texts."""
    return {"type": "map", "values": values, **_JAVA_STRING, **more}


def record(name: str, *fields: Schema, **more: object) -> Schema:
    """A record."""
    return {"type": "record", "name": name, **more, "fields": list(fields)}


def field(name: str, kind: object, **more: object) -> Schema:
    """A field of a record."""
    return {"name": name, "type": kind, **more}


def optional(name: str, kind: object, doc: str | None = None) -> Schema:
    """A field that may be null, and is by default."""
    return field(name, ["null", kind], **({} if doc is None else {"doc": doc}), default=None)
