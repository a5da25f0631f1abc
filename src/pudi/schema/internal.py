"""Schemas with column ids (Hudi's InternalSchema): JSON in, columns by id out, and back.

With schema on read, columns keep their ids when they are renamed, moved or retyped. Each commit stores the schema;
readers use the schema of a file's commit and find columns by id.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import pyarrow as pa

from pudi.errors import CorruptError, NotSupportedError
from pudi.schema.conversions import ELEMENT, VALUE, FieldNames
from pudi.schema.table_schema import MAX_CHARS, decimal_bytes, json_text
from pudi.schema.types import LOCAL_TIMESTAMP, MAX_DECIMAL_DIGITS, MAX_DEPTH, TIMESTAMP, list_of, map_of

_PRIMITIVES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
    "timestamp-millis": TIMESTAMP,
    "local-timestamp-micros": LOCAL_TIMESTAMP,
    "local-timestamp-millis": LOCAL_TIMESTAMP,
    "time": pa.time64("us"),
    "time-millis": pa.time32("ms"),
    "string": pa.string(),
    "uuid": pa.string(),
    "binary": pa.binary(),
}
_NAMES = {kind: name for name, kind in reversed(_PRIMITIVES.items())}
_DECIMAL = re.compile(r"decimal(?:_bytes|_fixed)?\((\d{1,2}),\s*(\d{1,2})\)(?:\[\d+\])?")
_FIXED = re.compile(r"fixed\[\d+\]")


@dataclass(frozen=True, slots=True)
class Column:
    """A column, or a field of a struct.

    Attributes:
        id: the identity of the column, which survives renames, moves and type changes.
        name: its name.
        optional: whether it may be null.
        type: the column's type.
        doc: a comment.
    """

    id: int
    name: str
    optional: bool
    type: ColumnType
    doc: str | None = None


@dataclass(frozen=True, slots=True)
class Struct:
    """Fields in order."""

    fields: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list; its element has an id as a column has."""

    element: Column


@dataclass(frozen=True, slots=True)
class MapOf:
    """A map with text keys; key and value have ids as columns have."""

    key_id: int
    value: Column


ColumnType: TypeAlias = "str | Struct | ListOf | MapOf"
"""A plain type by Hudi's name for it, or a nested one."""


@dataclass(frozen=True, slots=True)
class InternalSchema:
    """The columns of a table by id.

    Attributes:
        version: requested time of the commit that brought it, as a number; 0 for the schema before the first change.
        max_id: greatest id that was ever given.
        columns: meta fields first, then the table's own.
    """

    version: int
    max_id: int
    columns: tuple[Column, ...]

    def arrow(self) -> pa.Schema:
        """The columns in pudi's types."""
        return pa.schema([_arrow_field(column) for column in self.columns])

    def to_json(self) -> str:
        """The text under `latest_schema` in commits (SerDeHelper.toJson)."""
        return json_text(self._node())

    def _node(self) -> dict[str, object]:
        head = {"max_column_id": self.max_id, "version_id": self.version}
        return {**head, **_struct_node(Struct(self.columns))}

    @classmethod
    def from_json(cls, text: str) -> InternalSchema:
        """The schema that a commit names.

        Raises:
            CorruptError: the text is not an internal schema.
            NotSupportedError: a type that pudi has none for.
        """
        return _schema_of(_loaded(text))

    @classmethod
    def of(cls, schema: pa.Schema, version: int = 0) -> InternalSchema:
        """The schema of a table that has had none: ids by place, level by level (InternalSchemaConverter).

        Args:
            schema: the columns in pudi's types, meta fields first.
            version: the schema's version.
        """
        ids = Ids(0)
        columns = ids.columns(list(schema))
        return cls(version, ids.next - 1, columns)

    def names_in(self, stored: InternalSchema) -> FieldNames | None:
        """Return the names of these columns in files of another schema version; None if they are the same."""
        by_id = {column.id: column for column in _all_columns(Struct(stored.columns))}
        return _names(self.columns, stored.columns, by_id)


@dataclass(frozen=True, slots=True)
class SchemaHistory:
    """The schemas that a table has had, to read the files of each in the latest one; picklable.

    Attributes:
        current: the schema that rows are wanted in.
        versions: all schemas, by version.
    """

    current: InternalSchema
    versions: tuple[InternalSchema, ...]
    _names: dict[int, FieldNames | None] = field(default_factory=dict, compare=False, repr=False)

    def names(self, instant: str) -> FieldNames | None:
        """Return the names of the current columns in files of a commit (InternalSchemaUtils.searchSchema)."""
        known = [schema for schema in self.versions if schema.version <= int(instant)]
        if not known:
            return None
        stored = known[-1]
        if stored.version not in self._names:
            self._names[stored.version] = self.current.names_in(stored)
        return self._names[stored.version]

    def to_json(self) -> str:
        """The text of a schema file: newest first (SerDeHelper.inheritSchemas)."""
        schemas = [schema._node() for schema in reversed(self.versions)]
        return json_text({"schemas": schemas})

    def with_version(self, schema: InternalSchema) -> SchemaHistory:
        """The history with one schema more, or in place of the one of that version."""
        others = [old for old in self.versions if old.version != schema.version]
        return SchemaHistory(schema, tuple(sorted([*others, schema], key=lambda s: s.version)))


def parse_history(text: str) -> tuple[InternalSchema, ...]:
    """The schemas of a schema file, by version.

    Raises:
        CorruptError: the text is none.
        NotSupportedError: a type that pudi has none for.
    """
    node = _loaded(text)
    schemas = node.get("schemas")
    if not isinstance(schemas, list):
        raise CorruptError("a file of schemas has no list of them")
    return tuple(sorted((_schema_of(schema) for schema in schemas), key=lambda schema: schema.version))


class Ids:
    """Gives ids to new columns: those of one level first, then those inside them (InternalSchemaBuilder.refreshNewId).

    Args:
        first: the next id.
    """

    def __init__(self, first: int) -> None:
        self.next = first

    def columns(self, fields: list[pa.Field]) -> tuple[Column, ...]:
        """Fields as columns."""
        first = self.next
        self.next += len(fields)
        docs = {field.name: "" if field.name.startswith("_hoodie_") else None for field in fields}
        return tuple(
            Column(first + place, field.name, field.nullable, self.type(field.type), docs[field.name])
            for place, field in enumerate(fields)
        )

    def type(self, kind: pa.DataType) -> ColumnType:
        """Return a type with ids for its nested fields."""
        if pa.types.is_struct(kind):
            return Struct(self.columns(list(kind)))
        if pa.types.is_list(kind):
            number = self.next
            self.next += 1
            return ListOf(Column(number, ELEMENT, kind.value_field.nullable, self.type(kind.value_type)))
        if pa.types.is_map(kind):
            key = self.next
            self.next += 2
            return MapOf(key, Column(key + 1, VALUE, kind.item_field.nullable, self.type(kind.item_type)))
        return type_name(kind)


def type_name(kind: pa.DataType) -> str:
    """Hudi's name of a plain type of pudi's (Types.toString)."""
    if pa.types.is_decimal(kind):
        return f"decimal_fixed({kind.precision}, {kind.scale})[{decimal_bytes(kind.precision)}]"
    return _NAMES[kind]


def arrow_type(kind: ColumnType) -> pa.DataType:
    """A type in pudi's types.

    Raises:
        NotSupportedError: pudi has none.
    """
    if isinstance(kind, Struct):
        return pa.struct([_arrow_field(column) for column in kind.fields])
    if isinstance(kind, ListOf):
        return list_of(arrow_type(kind.element.type), nullable=kind.element.optional)
    if isinstance(kind, MapOf):
        return map_of(arrow_type(kind.value.type), nullable=kind.value.optional)
    decimal = _DECIMAL.fullmatch(kind)
    if decimal is not None:
        precision, scale = int(decimal[1]), int(decimal[2])
        if not 1 <= precision <= MAX_DECIMAL_DIGITS or scale > precision:
            raise CorruptError(f"a column has type {kind}")
        return pa.decimal128(precision, scale)
    if _FIXED.fullmatch(kind):
        return pa.binary()
    if kind not in _PRIMITIVES:
        raise NotSupportedError(f"a column has Hudi's type {kind[:100]!r}, which pudi can't read yet")
    return _PRIMITIVES[kind]


def inner_columns(kind: ColumnType) -> tuple[Column, ...]:
    """The columns right inside a type, as dotted paths name them."""
    if isinstance(kind, Struct):
        return kind.fields
    if isinstance(kind, ListOf):
        return (kind.element,)
    return (kind.value,) if isinstance(kind, MapOf) else ()


def with_inner(kind: ColumnType, columns: tuple[Column, ...]) -> ColumnType:
    """A nested type with other columns right inside."""
    if isinstance(kind, Struct):
        return Struct(columns)
    return ListOf(columns[0]) if isinstance(kind, ListOf) else replace(kind, value=columns[0])  # type: ignore[type-var]


def _arrow_field(column: Column) -> pa.Field:
    return pa.field(column.name, arrow_type(column.type), column.optional)


def _all_columns(kind: ColumnType) -> Iterator[Column]:
    for column in inner_columns(kind):
        yield column
        yield from _all_columns(column.type)


def _names(wanted: tuple[Column, ...], siblings: tuple[Column, ...], stored: Mapping[int, Column]) -> FieldNames | None:
    present = {column.name for column in siblings}
    found: dict[str, tuple[str | None, FieldNames | None]] = {}
    for column in wanted:
        old = stored.get(column.id)
        if old is None:
            if column.name in present:  # another column had that name
                found[column.name] = (None, None)
            continue
        within = _names(inner_columns(column.type), inner_columns(old.type), stored)
        if old.name != column.name or within is not None:
            found[column.name] = (old.name, within)
    return FieldNames(found) if found else None


def _loaded(text: str) -> Mapping[str, object]:
    if len(text) > MAX_CHARS:
        raise CorruptError(f"a schema of {len(text)} characters; at most {MAX_CHARS} are read")
    try:
        node = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CorruptError(f"a schema by ids is not JSON: {error}") from error
    if not isinstance(node, dict):
        raise CorruptError("a schema by ids is no JSON object")
    return node


def _schema_of(node: object) -> InternalSchema:
    if not isinstance(node, Mapping):
        raise CorruptError("a schema by ids is no JSON object")
    kind = _type_of(node, 0)
    if not isinstance(kind, Struct):
        raise CorruptError("a schema by ids is no record")
    ids = [column.id for column in _all_columns(kind)]
    if len(set(ids)) < len(ids):
        raise CorruptError("a schema by ids gives one id to two columns")
    arrow_type(kind)
    version = _number(node, "version_id", 0)
    return InternalSchema(version, max([_number(node, "max_column_id", 0), *ids]), kind.fields)


def _type_of(node: object, depth: int) -> ColumnType:
    if depth > MAX_DEPTH:
        raise CorruptError(f"a schema by ids is nested deeper than {MAX_DEPTH} levels")
    if isinstance(node, str):
        return node.lower()
    name = node.get("type") if isinstance(node, Mapping) else None
    if not isinstance(node, Mapping) or name not in {"record", "array", "map"}:
        raise CorruptError(f"a schema by ids has {str(node)[:100]!r} where a type must be")
    if name == "array":
        kind = _type_of(node.get("element"), depth + 1)
        return ListOf(Column(_number(node, "element_id"), ELEMENT, bool(node.get("element_optional")), kind))
    if name == "map":
        kind = _type_of(node.get("value"), depth + 1)
        value = Column(_number(node, "value_id"), VALUE, bool(node.get("value_optional")), kind)
        return MapOf(_number(node, "key_id"), value)
    fields = node.get("fields")
    if not isinstance(fields, list):
        raise CorruptError("a schema by ids has a record without a list of fields")
    return Struct(tuple(_column_of(field, depth) for field in fields))


def _column_of(node: object, depth: int) -> Column:
    name = node.get("name") if isinstance(node, Mapping) else None
    if not isinstance(node, Mapping) or not isinstance(name, str) or not name:
        raise CorruptError("a schema by ids has a column without a name")
    doc = node.get("doc")
    kind = _type_of(node.get("type"), depth + 1)
    return Column(_number(node, "id"), name, bool(node.get("optional")), kind, doc if isinstance(doc, str) else None)


def _number(node: Mapping[str, object], key: str, default: int | None = None) -> int:
    value = node.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise CorruptError(f"a schema by ids has {value!r} for {key}")
    return value


def _struct_node(kind: Struct) -> dict[str, object]:
    fields = []
    for column in kind.fields:
        node = {"id": column.id, "name": column.name, "optional": column.optional, "type": _node_of(column.type)}
        fields.append(node if column.doc is None else {**node, "doc": column.doc})
    return {"type": "record", "fields": fields}


def _node_of(kind: ColumnType) -> object:
    if isinstance(kind, Struct):
        return _struct_node(kind)
    if isinstance(kind, ListOf):
        element = kind.element
        head = {"type": "array", "element_id": element.id, "element": _node_of(element.type)}
        return {**head, "element_optional": element.optional}
    if isinstance(kind, MapOf):
        head = {"type": "map", "key_id": kind.key_id, "key": "string", "value_id": kind.value.id}
        return {**head, "value": _node_of(kind.value.type), "value_optional": kind.value.optional}
    return kind
