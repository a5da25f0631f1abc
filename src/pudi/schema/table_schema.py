"""A table's schema: the Avro text that Hudi stores of it and the Arrow columns that it describes, also as one value.

The text is parsed to an Arrow schema, made of one, and edited without a change to what stays.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa

from pudi.context.runtime import cached_property
from pudi.errors import CorruptError, InvalidArgumentError, NotSupportedError, PudiError, SchemaError
from pudi.schema.fields import META_FIELDS, check_names, with_meta_fields, without_meta_fields
from pudi.schema.types import LOCAL_TIMESTAMP, MAX_DECIMAL_DIGITS, MAX_DEPTH, TIMESTAMP, list_of, map_of


@dataclass(frozen=True)
class TableSchema:
    """The columns of a table. Two schemas are equal if their Avro texts are.

    Pickled it's the text alone. A process that unpickles one text many times, as a Spark worker does, parses it once.

    Attributes:
        avro: the Avro record schema as JSON text, as commits and properties state it.
    """

    avro: str

    def __reduce__(self) -> tuple[Callable[[str], TableSchema], tuple[str]]:
        return _known, (self.avro,)

    @cached_property
    def columns(self) -> pa.Schema:
        """The columns without meta fields.

        Raises:
            CorruptError: the text is no Avro record schema.
            NotSupportedError: a column has a type that pudi doesn't support.
        """
        return without_meta_fields(avro_to_arrow(self.avro))

    @cached_property
    def stored(self) -> pa.Schema:
        """The columns of data files: the five meta fields, then the others. Errors as of `columns`."""
        return with_meta_fields(self.columns)

    @cached_property
    def stored_avro(self) -> str:
        """The Avro schema of data files, as it stands in their footers (addMetadataFields)."""
        return add_meta_fields(self.avro)

    @cached_property
    def unwritable(self) -> tuple[str, ...]:
        """Columns with an Avro type that pudi reads but would write differently, such as `timestamp-millis`.

        Their values are read into Arrow types of finer units or other layouts; files written from these would
        contradict the schema that names them.
        """
        return tuple(unwritable_columns(self.avro))

    def evolved(self, columns: pa.Schema, table_name: str) -> TableSchema:
        """Return the schema with changed columns; unchanged columns keep their definition.

        Args:
            columns: the table's columns now, without meta fields.
            table_name: `hoodie.table.name`.

        Returns:
            This very schema where nothing changed.

        Raises:
            SchemaError: a name or a type can't be stored in a Hudi table.
        """
        return self if self.columns.equals(columns) else TableSchema(evolved_text(self.avro, columns, table_name))


@lru_cache(maxsize=64)
def _known(avro: str) -> TableSchema:
    return TableSchema(avro)


MAX_CHARS = 16 * 1024 * 1024
"""Longest schema text that is read: wide tables have kilobytes, so more is damage."""

_SHORT = 1 << 16
"""Characters of a schema up to which its columns are kept."""

MAX_TYPES = 200_000
"""Most types in one schema, named types counted each time they are used."""

_ARROW_TYPES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
}

_LOGICAL = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): TIMESTAMP,
    ("long", "timestamp-micros"): TIMESTAMP,
    ("long", "local-timestamp-millis"): LOCAL_TIMESTAMP,
    ("long", "local-timestamp-micros"): LOCAL_TIMESTAMP,
    ("string", "uuid"): pa.string(),
}

_HUDI_LOGICAL = ("variant", "blob", "vector")


def avro_to_arrow(avro_json: str, *, unions: bool = False) -> pa.Schema:
    """The columns that a stored Avro record schema describes, in pudi's types.

    Timestamps of either unit become microseconds, enums strings, fixed bytes binary; unknown
    logical types are ignored, as Avro demands. A field is nullable when its union has null, on
    either side. A time of day keeps Arrow's time types, which `normalise` refuses for new tables.

    Args:
        avro_json: `schema` of a commit's extraMetadata, `hoodie.table.create.schema`, or the
            schema in a file's footer or a log block's header. It may be any text.
        unions: convert a union of several types to a struct with one nullable field per type, named by the type; at
            most one is not null. For records of the metadata table; columns of user tables have no such unions.

    Raises:
        CorruptError: the text is no Avro record schema, or is beyond all sense in size or depth.
        NotSupportedError: it uses what Spark has no columns for (unions of several types, recursive
            records) or Hudi's variant, blob and vector types.
    """
    if len(avro_json) > MAX_CHARS:
        raise CorruptError(f"an Avro schema of {len(avro_json)} characters; at most {MAX_CHARS} are read")
    return _read_again(avro_json, unions) if len(avro_json) <= _SHORT else _read(avro_json, unions)


def _read(avro_json: str, unions: bool) -> pa.Schema:
    try:
        node = json.loads(avro_json)
    except (ValueError, RecursionError) as error:
        raise CorruptError(f"an Avro schema is not JSON: {error}") from error
    if not isinstance(node, dict) or node.get("type") != "record":
        raise CorruptError("a table's Avro schema must be a record")
    return pa.schema(list(_Reader(unions).type(node, "", "", 0)))


_read_again = lru_cache(maxsize=64)(_read)
"""`_read` that knows the last schemas: a commit asks for the same one several times."""


def branch_name(branch: object) -> str:
    """Return the column name of a union's branch: the last part of a named type's name, or the type."""
    if isinstance(branch, dict):
        branch = branch.get("name") or branch.get("type")
    return branch.rpartition(".")[2] if isinstance(branch, str) else ""


class _Reader:
    """One walk over a schema: named types met so far, and how many types were made."""

    def __init__(self, unions: bool) -> None:
        self._unions = unions
        self._named: dict[str, tuple[pa.DataType, int] | None] = {}
        self._count = 0

    def type(self, node: object, space: str, path: str, depth: int) -> pa.DataType:
        """The Arrow type of one schema node; `space` is the namespace around it."""
        if depth > MAX_DEPTH:
            raise CorruptError(f"an Avro schema is nested deeper than {MAX_DEPTH} levels at {path!r}")
        self._spend(1, path)
        if isinstance(node, str):
            return self._by_name(node, space, path)
        if not isinstance(node, dict):
            raise CorruptError(f"an Avro schema has {_kind(node)} where a type must be, at {path!r}")
        name = node.get("type")
        if isinstance(name, dict):
            return self.type(name, space, path, depth + 1)
        if not isinstance(name, str):
            raise CorruptError(f"an Avro schema has a type without a name at {path!r}")
        if node.get("logicalType") in _HUDI_LOGICAL:
            raise NotSupportedError(f"column {path!r} has Hudi's type {node['logicalType']}, which pudi can't read yet")
        if name in {"record", "enum", "fixed"}:
            return self._define(name, node, space, path, depth)
        if name == "array":
            item, nullable = self.nullable(node.get("items"), space, f"{path}.element", depth + 1)
            return list_of(item, nullable=nullable)
        if name == "map":
            value, nullable = self.nullable(node.get("values"), space, f"{path}.value", depth + 1)
            return map_of(value, nullable=nullable)
        return _primitive(name, node, path) or self._by_name(name, space, path)

    def nullable(self, node: object, space: str, path: str, depth: int) -> tuple[pa.DataType, bool]:
        """Type of a node that may be a union with null, and whether it is one."""
        if not isinstance(node, list):
            return self.type(node, space, path, depth), False
        others = [branch for branch in node if branch not in ("null", {"type": "null"})]
        if len(others) > 1 and self._unions:
            return self._struct_of(others, space, path, depth), len(others) < len(node)
        if len(others) != 1:
            raise NotSupportedError(
                f"column {path!r} is an Avro union of {len(others)} types beside null; "
                "Spark and Arrow have columns of one type only"
            )
        return self.type(others[0], space, path, depth), len(others) < len(node)

    def _struct_of(self, branches: list[object], space: str, path: str, depth: int) -> pa.DataType:
        """A struct with a field for each type of a union."""
        fields: dict[str, pa.Field] = {}
        for branch in branches:
            name = branch_name(branch)
            if not name or name in fields:
                raise CorruptError(f"an Avro union has a type without a name, or two of one name, at {path!r}")
            fields[name] = pa.field(name, self.type(branch, space, f"{path}.{name}", depth + 1))
        return pa.struct(list(fields.values()))

    def _define(self, kind: str, node: Mapping[str, object], space: str, path: str, depth: int) -> pa.DataType:
        name = node.get("name")
        if not isinstance(name, str) or not name:
            raise CorruptError(f"an Avro schema has a {kind} without a name at {path!r}")
        own = node.get("namespace", space)
        full = name if "." in name else f"{own}.{name}"
        inner = full.rpartition(".")[0]
        before = self._count
        self._named[full] = None
        made = _fixed(node, path) if kind == "fixed" else pa.string()
        if kind == "record":
            made = pa.struct(self._fields(node.get("fields"), inner, path, depth))
        self._named[full] = (made, self._count - before)
        return made

    def _fields(self, nodes: object, space: str, path: str, depth: int) -> list[pa.Field]:
        if not isinstance(nodes, list):
            raise CorruptError(f"an Avro record has no list of fields at {path!r}")
        fields: dict[str, pa.Field] = {}
        for node in nodes:
            name = node.get("name") if isinstance(node, dict) else None
            if not isinstance(name, str) or not name or name in fields:
                raise CorruptError(f"an Avro record has a field without a name, or two of one name, at {path!r}")
            inner = f"{path}.{name}" if path else name
            kind, nullable = self.nullable(node.get("type"), space, inner, depth + 1)
            fields[name] = pa.field(name, kind, nullable)
        return list(fields.values())

    def _by_name(self, name: str, space: str, path: str) -> pa.DataType:
        if name in _ARROW_TYPES:
            return _ARROW_TYPES[name]
        full = name if "." in name or name in self._named else f"{space}.{name}"
        if full not in self._named:
            raise CorruptError(f"an Avro schema uses the unknown type {name[:100]!r} at {path!r}")
        known = self._named[full]
        if known is None:
            raise NotSupportedError(f"column {path!r} is a record that holds itself; Spark and Arrow have no such type")
        self._spend(known[1], path)
        return known[0]

    def _spend(self, types: int, path: str) -> None:
        self._count += types
        if self._count > MAX_TYPES:
            raise CorruptError(f"an Avro schema has more than {MAX_TYPES} types, counted at {path!r}")


def _primitive(name: str, node: Mapping[str, object], path: str) -> pa.DataType | None:
    logical = node.get("logicalType")
    if name == "bytes" and logical == "decimal":
        return _decimal(node, path)
    if isinstance(logical, str) and (name, logical) in _LOGICAL:
        return _LOGICAL[name, logical]
    return _ARROW_TYPES.get(name)


def _fixed(node: Mapping[str, object], path: str) -> pa.DataType:
    size = node.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise CorruptError(f"an Avro fixed type has no size at {path!r}")
    return _decimal(node, path) if node.get("logicalType") == "decimal" else pa.binary()


def _decimal(node: Mapping[str, object], path: str) -> pa.DataType:
    precision, scale = node.get("precision"), node.get("scale", 0)
    if (
        not isinstance(precision, int)
        or not isinstance(scale, int)
        or not 1 <= precision <= MAX_DECIMAL_DIGITS
        or not 0 <= scale <= precision
    ):
        raise CorruptError(f"an Avro decimal has precision {precision!r} and scale {scale!r} at {path!r}")
    return pa.decimal128(precision, scale)


def _kind(node: object) -> str:
    return "nothing" if node is None else f"a {type(node).__name__}"


_WRITTEN_DIFFERENTLY = frozenset({"timestamp-millis", "local-timestamp-millis", "time-millis", "time-micros"})


def json_text(node: object) -> str:
    """Return JSON as schemas are stored: without spaces, all characters as they are."""
    return json.dumps(node, separators=(",", ":"), ensure_ascii=False)


def add_meta_fields(avro_json: str) -> str:
    """The schema with the five meta fields in front, as it stands in the footer of a base file (addMetadataFields)."""
    schema = json.loads(avro_json)
    own = [field for field in schema["fields"] if field["name"] not in META_FIELDS]
    metas = [{"name": name, "type": ["null", "string"], "doc": "", "default": None} for name in META_FIELDS]
    return json_text({**schema, "fields": [*metas, *own]})


def without_columns_text(avro_json: str, names: Collection[str]) -> str:
    """The schema without some columns, as it stands in files that leave them out."""
    schema = json.loads(avro_json)
    kept = [field for field in schema["fields"] if field["name"] not in names]
    if len(kept) == len(schema["fields"]):
        return avro_json
    return json_text({**schema, "fields": kept})


def with_text_columns_text(avro_json: str, names: Sequence[str]) -> str:
    """The schema with some columns as nullable texts behind the others (TableSchemaResolver.appendPartitionColumns)."""
    schema = json.loads(without_columns_text(avro_json, names))
    texts = [{"name": name, "type": ["null", "string"], "default": None} for name in names]
    whole = {**schema, "fields": [*schema["fields"], *texts]}
    return json_text(whole)


def evolved_text(avro_json: str, schema: pa.Schema, table_name: str) -> str:
    """Return the Avro schema of a table with changed columns; see `TableSchema.evolved`."""
    before = without_meta_fields(avro_to_arrow(avro_json))
    fresh = arrow_to_avro(schema, table_name)
    own = {field["name"]: field for field in json.loads(avro_json)["fields"]}
    known = set(before.names)
    fields = [
        own[name] if name in known and before.field(name).equals(schema.field(name)) else field
        for name, field in ((field["name"], field) for field in json.loads(fresh)["fields"])
    ]
    mixed = {**json.loads(avro_json), "fields": fields}
    text = json_text(mixed)
    # a field may refer to a type that another one defines, which may be gone
    try:
        return text if avro_to_arrow(text).equals(schema) else fresh
    except PudiError:
        return fresh


def unwritable_columns(avro_json: str) -> list[str]:
    """Return columns that pudi would write differently; see `TableSchema.unwritable`."""
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


Json = str | dict[str, object] | list[object]

_AVRO_TYPES: dict[pa.DataType, Json] = {
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
    TIMESTAMP: {"type": "long", "logicalType": "timestamp-micros"},
    LOCAL_TIMESTAMP: {"type": "long", "logicalType": "local-timestamp-micros"},
    pa.time32("ms"): {"type": "int", "logicalType": "time-millis"},
    pa.time64("us"): {"type": "long", "logicalType": "time-micros"},
}


def arrow_to_avro(schema: pa.Schema, table_name: str) -> str:
    """The table schema as Avro JSON, letter for letter as Hudi's Spark writer stores it.

    It is what a commit's extraMetadata holds under `schema`, and `hoodie.table.create.schema`;
    meta fields, which Hudi leaves out there, are the caller's to leave out. Nullable columns are
    `["null", T]` with default null. Nested records are named after their field, in the namespace of
    the record around them; decimals are fixed, named `fixed` under their field.
    Source: FORMAT section 12; Spark's SchemaConverters.toAvroType as Hudi copied it.

    Args:
        schema: columns in pudi's types, as `normalise` and `avro_to_arrow` give them.
        table_name: `hoodie.table.name`, from which the record's name and namespace are made.

    Raises:
        InvalidArgumentError: the table has no name.
        SchemaError: a name or a type can't be stored in a Hudi table.
    """
    name, namespace = record_name(table_name)
    record = _record(list(schema), name, namespace, "")
    return json_text(record)


def record_name(table_name: str) -> tuple[str, str]:
    """Name and namespace of a table's Avro record, for example `("t_record", "hoodie.t")`.

    Characters that Avro does not know become two underscores (HoodieSchemaUtils.getRecordQualifiedName).

    Raises:
        InvalidArgumentError: the table has no name.
    """
    if not table_name.strip():
        raise InvalidArgumentError("a table's name can't be empty")
    clean = re.sub(r"^[^A-Za-z_]", "__", table_name)
    clean = re.sub(r"[^A-Za-z0-9_]", "__", clean)
    return f"{clean}_record", f"hoodie.{clean}"


def decimal_bytes(precision: int) -> int:
    """Return the number of bytes of the smallest two's complement number that holds `digits` decimal digits."""
    largest: int = 10**precision - 1
    return (largest.bit_length() + 8) // 8


def _record(fields: list[pa.Field], name: str, namespace: str, path: str) -> dict[str, object]:
    check_names(fields, path)
    return {
        "type": "record",
        "name": name,
        "namespace": namespace,
        "fields": [_field(field, f"{namespace}.{name}", path) for field in fields],
    }


def _field(field: pa.Field, namespace: str, path: str) -> dict[str, object]:
    kind = _type(field.type, field.name, namespace, f"{path}.{field.name}" if path else field.name)
    if field.nullable:
        return {"name": field.name, "type": ["null", kind], "default": None}
    return {"name": field.name, "type": kind}


def _type(kind: pa.DataType, name: str, namespace: str, path: str) -> Json:
    primitive = _AVRO_TYPES.get(kind)
    if primitive is not None:
        return primitive
    if pa.types.is_decimal128(kind) and 0 <= kind.scale <= kind.precision <= MAX_DECIMAL_DIGITS:
        return {
            "type": "fixed",
            "name": "fixed",
            "namespace": f"{namespace}.{name}",
            "size": decimal_bytes(kind.precision),
            "logicalType": "decimal",
            "precision": kind.precision,
            "scale": kind.scale,
        }
    if pa.types.is_struct(kind):
        return _record(list(kind), name, namespace, path)
    if pa.types.is_list(kind):
        return {"type": "array", "items": _inner(kind.value_field, name, namespace, f"{path}.element")}
    if pa.types.is_map(kind) and kind.key_type == pa.string():
        return {"type": "map", "values": _inner(kind.item_field, name, namespace, f"{path}.value")}
    raise SchemaError(f"column {path!r} has type {kind}, which is none of a Hudi table's types; see normalise")


def _inner(field: pa.Field, name: str, namespace: str, path: str) -> Json:
    kind = _type(field.type, name, namespace, path)
    return ["null", kind] if field.nullable else kind
