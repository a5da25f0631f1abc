"""Avro files of exactly one record: untrusted bytes in, a checked schema and a plain dict out, and back."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, cast

from pudi.context.runtime import lazy_module
from pudi.errors import CorruptError, cause_text

if TYPE_CHECKING:
    import fastavro
else:
    fastavro = lazy_module("fastavro")

_MAGIC = b"Obj\x01"
# A container of one block, read and written as a record of its own: magic, metadata, then count, bytes and sync.
_CONTAINER = {
    "type": "record",
    "name": "pudi.Container",
    "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "Magic", "size": 4}},
        {"name": "meta", "type": {"type": "map", "values": "bytes"}},
        {"name": "sync", "type": {"type": "fixed", "name": "Sync", "size": 16}},
        {"name": "count", "type": "long"},
        {"name": "block", "type": "bytes"},
        {"name": "end", "type": "Sync"},
    ],
}
_SCHEMA_KEY, _CODEC_KEY = "avro.schema", "avro.codec"

_MAX_SCHEMA_BYTES = 1 << 20
_MAX_DEPTH = 16
_PRIMITIVES = frozenset({"boolean", "int", "long", "float", "double", "bytes", "string"})


def bad_bytes() -> tuple[type[Exception], ...]:
    """Return what fastavro raises on bytes that are not what their schema says, found by fuzzing."""
    resolution: type[Exception] = fastavro.read.SchemaResolutionError
    return (EOFError, ValueError, IndexError, KeyError, TypeError, OverflowError, resolution)


def bad_schema() -> tuple[type[Exception], ...]:
    """Return what fastavro raises on a schema that it can't use."""
    own: tuple[type[Exception], ...] = (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType)
    return (ValueError, KeyError, TypeError, AttributeError, RecursionError, *own)


@dataclass(frozen=True, slots=True)
class RecordSchema:
    """A record's schema, parsed when it's first used.

    Attributes:
        name: name of the record, without namespace.
        text: JSON of the schema, as it stands in files.
    """

    name: str
    text: bytes

    @classmethod
    def of(cls, schema: Mapping[str, Any]) -> RecordSchema:
        """The schema of a JSON-like dict."""
        text = json.dumps(schema, separators=(",", ":"), ensure_ascii=False).encode()
        return cls(schema["name"], text)

    @classmethod
    def own(cls, text: str) -> RecordSchema:
        """A schema that pudi itself says, of any types; files' schemas are checked first (`parse_record_schema`)."""
        return cls(json.loads(text)["name"].rpartition(".")[2], text.encode())

    @property
    def parsed(self) -> Mapping[str, Any]:
        """The schema as fastavro wants it."""
        return _parse_own(self.text)


@cache
def _parse_own(text: bytes) -> dict[str, Any]:
    return cast("dict[str, Any]", fastavro.parse_schema(json.loads(text)))


@cache
def _container_schema() -> Any:
    return fastavro.parse_schema(_CONTAINER)


def encode_avro(schema: RecordSchema, record: Mapping[str, Any]) -> bytes:
    """A record's bytes alone, as they stand in a file."""
    block = io.BytesIO()
    fastavro.schemaless_writer(block, schema.parsed, record)
    return block.getvalue()


def encode_avro_file(schema: RecordSchema, record: Mapping[str, Any]) -> bytes:
    """An Avro object container with one record, without codec, its schema's text as given.

    The sync marker is a digest of the schema instead of a random value: nobody splits these files, and equal content
    produces equal bytes.
    """
    sync = hashlib.md5(schema.text, usedforsecurity=False).digest()
    container = {
        "magic": _MAGIC,
        "meta": {_SCHEMA_KEY: schema.text},
        "sync": sync,
        "count": 1,
        "block": encode_avro(schema, record),
        "end": sync,
    }
    out = io.BytesIO()
    fastavro.schemaless_writer(out, _container_schema(), container)
    return out.getvalue()


def decode_avro_file(
    data: bytes, expected: Sequence[RecordSchema] = (), *, path: str | None = None
) -> tuple[str, dict[str, Any]]:
    """The record in an Avro object container.

    Args:
        data: the whole file.
        expected: schemas to read it as, by Avro's rules of resolution; a record of another name is refused. When
            empty, any record is read by the file's own schema.
        path: path of the file, for errors.

    Returns:
        Name of the record, without namespace, and its values by field.

    Raises:
        CorruptError: truncated or damaged, more or less than one record, a codec, a schema that isn't expected or
            that could describe more than the file has bytes for.
    """
    container, offset = _read_container(data, path)
    try:
        writer = parse_record_schema(container["meta"].get(_SCHEMA_KEY, b""))
    except bad_schema() as error:
        raise CorruptError(f"schema of the Avro file can't be used: {cause_text(error)}", path=path) from error
    name = writer["name"].rpartition(".")[2]
    reader = next((schema for schema in expected if schema.name == name), None)
    if expected and reader is None:
        names = " or ".join(schema.name for schema in expected)
        raise CorruptError(f"Avro file holds a {name}, expected a {names}", path=path)
    block = io.BytesIO(container["block"])
    try:
        record = fastavro.schemaless_reader(block, writer, None if reader is None else reader.parsed)
    except bad_bytes() as error:
        raise CorruptError(f"{name} is cut off or damaged: {cause_text(error)}", path=path, offset=offset) from error
    if block.tell() != len(container["block"]):
        raise CorruptError(f"{name} is followed by unexpected bytes", path=path, offset=offset)
    return name, cast("dict[str, Any]", record)


def _read_container(data: bytes, path: str | None) -> tuple[dict[str, Any], int]:
    """The parts of the container, checked, and the offset of what follows the block."""
    if not data.startswith(_MAGIC):
        raise CorruptError(f"not an Avro file: it begins with {data[:4]!r}", path=path, offset=0)
    source = io.BytesIO(data)
    try:
        container = cast("dict[str, Any]", fastavro.schemaless_reader(source, _container_schema(), None))
    except bad_bytes() as error:
        raise CorruptError(
            f"Avro file is cut off or damaged: {cause_text(error)}", path=path, offset=source.tell()
        ) from error
    codec = container["meta"].get(_CODEC_KEY, b"null")
    if codec != b"null":
        raise CorruptError(f"Avro file with codec {codec!r}: Hudi writes instants with none", path=path)
    if container["count"] != 1 or container["sync"] != container["end"] or source.tell() != len(data):
        raise CorruptError("Avro file does not hold exactly one record", path=path, offset=source.tell())
    return container, source.tell() - len(container["block"]) - len(container["end"])


@lru_cache(maxsize=64)
def parse_record_schema(text: bytes) -> dict[str, Any]:
    """The parsed schema of a record, after `_SchemaCheck` found it harmless."""
    if len(text) > _MAX_SCHEMA_BYTES:
        raise ValueError(f"{len(text)} bytes are implausible")
    schema = json.loads(text)
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise ValueError("not a record")
    _SchemaCheck().depth_of(schema, "", 0)
    return cast("dict[str, Any]", fastavro.parse_schema(schema))


@dataclass(slots=True)
class _SchemaCheck:
    """Check that values of a schema take at least one byte each and that the schema isn't recursive.

    Attributes:
        depths: how deep the values of each named type nest, once its definition is complete.
    """

    depths: dict[str, int] = field(default_factory=dict)

    def depth_of(self, node: object, namespace: str, level: int) -> int:
        """Return the nesting depth of a schema. Raise ValueError if values of it aren't safe to read."""
        if level > _MAX_DEPTH:
            raise ValueError(f"nested more than {_MAX_DEPTH} levels deep")
        if isinstance(node, str):
            return 1 if node in _PRIMITIVES else self._within(level, self.depths[_full_name(node, namespace)])
        if isinstance(node, list):
            branches = [branch for branch in node if branch != "null"]
            if not node or any(isinstance(branch, list) for branch in node):
                raise ValueError("union that is empty or holds a union")
            return max((self.depth_of(branch, namespace, level + 1) for branch in branches), default=1)
        if not isinstance(node, dict) or "logicalType" in node:
            raise ValueError(f"not a schema of an instant: {node!r:.80}")
        kind = node["type"]
        if not isinstance(kind, str):
            return self.depth_of(kind, namespace, level + 1)
        if kind in {"array", "map"}:
            return 1 + self.depth_of(node["items" if kind == "array" else "values"], namespace, level + 1)
        if kind in {"record", "enum", "fixed"}:
            return self._named_depth(node, namespace, level)
        return self.depth_of(kind, namespace, level + 1)

    def _named_depth(self, node: dict[str, Any], namespace: str, level: int) -> int:
        full_name = _full_name(node["name"], node.get("namespace", namespace))
        if full_name in self.depths:
            raise ValueError(f"{full_name} is defined twice")
        depth = 1
        if node["type"] == "record":
            inner = full_name.rpartition(".")[0]
            depth += max(self.depth_of(each["type"], inner, level + 1) for each in node["fields"])
        elif node["type"] == "fixed" and not 0 < node["size"] <= _MAX_SCHEMA_BYTES:
            raise ValueError(f"fixed of {node['size']} bytes")
        self.depths[full_name] = depth
        return depth

    @staticmethod
    def _within(level: int, depth: int) -> int:
        if level + depth > _MAX_DEPTH:
            raise ValueError(f"nested more than {_MAX_DEPTH} levels deep")
        return depth


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"
