"""Convert between Arrow schemas and Spark's (JSON of a StructType, or DDL text), without pyspark."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from pudi.errors import NotSupportedError, SchemaError
from pudi.schema.fields import Path, parts_of
from pudi.schema.table_schema import json_text
from pudi.schema.types import LOCAL_TIMESTAMP, MAX_DEPTH, TIMESTAMP, list_of, map_of

_NAMES: Final[Mapping[str, pa.DataType]] = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "bool": pa.bool_(),
    "tinyint": pa.int32(),
    "byte": pa.int32(),
    "smallint": pa.int32(),
    "short": pa.int32(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
    "timestamp_ltz": TIMESTAMP,
    "timestamp_ntz": LOCAL_TIMESTAMP,
    "void": pa.null(),
}
_TOKEN = re.compile(r"\s*(?:`((?:[^`]|``)+)`|('(?:[^'\\]|\\.)*')|(\w+)|(.))", re.DOTALL)
_DECIMALS = {"decimal", "dec", "numeric"}
_TEXTS = {"char", "varchar"}


def type_of_name(text: str, column: str) -> pa.DataType:
    """The Arrow type of Spark's name of it; small integers become int32, char and varchar string, as in Hudi.

    Args:
        text: the name, in any case.
        column: the column, for messages.

    Raises:
        SchemaError: there is no such type, or a table can't hold it.
    """
    reader = _Reader(text, column)
    kind = reader.type(0)
    if reader.next() or pa.types.is_null(kind):
        raise reader.wrong()
    return kind


class _Reader:
    """Reads a type from left to right."""

    def __init__(self, text: str, column: str) -> None:
        self._text, self._column = text, column
        self._tokens = [match.groups() for match in _TOKEN.finditer(text) if match.group().strip()]
        self._at = 0

    def wrong(self) -> SchemaError:
        return SchemaError(
            f"column {self._column!r}: {self._text!r} is no type of a Hudi table; there are "
            f"{', '.join(name for name in _NAMES if name != 'void')}, decimal(p,s), array<…>, map<string,…>, struct<…>"
        )

    def next(self) -> str:
        """The next word or sign in lower case; empty at the end."""
        if self._at >= len(self._tokens):
            return ""
        quoted, text, word, sign = self._tokens[self._at]
        return quoted or text or (word or sign).lower()

    def _take(self, *wanted: str) -> str:
        found = self.next()
        if not found or (wanted and found not in wanted):
            raise self.wrong()
        self._at += 1
        return found

    def _name(self) -> str:
        quoted, _, word, _ = self._tokens[self._at] if self._at < len(self._tokens) else ("", "", "", "")
        if not quoted and not word:
            raise self.wrong()
        self._at += 1
        return str(quoted).replace("``", "`") if quoted else str(word)

    def type(self, depth: int) -> pa.DataType:
        if depth > MAX_DEPTH:
            raise SchemaError(f"column {self._column!r}: the type is nested deeper than {MAX_DEPTH} levels")
        name = self._take()
        if name == "array":
            self._take("<")
            inner = self.type(depth + 1)
            self._take(">")
            return list_of(inner, nullable=True)
        if name == "map":
            self._take("<")
            key = self.type(depth + 1)
            self._take(",")
            value = self.type(depth + 1)
            self._take(">")
            if key != pa.string():
                raise SchemaError(f"column {self._column!r}: Hudi's maps have string keys")
            return map_of(value, nullable=True)
        if name == "struct":
            return self._struct(depth)
        if name in _DECIMALS:
            return self._decimal()
        if name in _TEXTS:
            self._numbers()
            return pa.string()
        kind = _NAMES.get(name)
        if kind is None:
            raise self.wrong()
        return kind

    def _struct(self, depth: int) -> pa.DataType:
        self._take("<")
        fields: list[pa.Field] = []
        while not fields or self._take(",", ">") == ",":
            name = self._name()
            if self.next() == ":":
                self._at += 1
            kind, nullable = self.type(depth + 1), True
            if self.next() == "not":
                self._at += 1
                self._take("null")
                nullable = False
            if self.next() == "comment":
                self._at += 2
            fields.append(pa.field(name, kind, nullable))
        return pa.struct(fields)

    def _decimal(self) -> pa.DataType:
        given = self._numbers()
        precision, scale = given if len(given) == 2 else ((given or [10])[0], 0)
        if not 1 <= precision <= 38 or scale > precision or len(given) > 2:
            raise self.wrong()
        return pa.decimal128(precision, scale)

    def _numbers(self) -> list[int]:
        found: list[int] = []
        if self.next() != "(":
            return found
        while self._take("(", ",", ")") != ")":
            if not self.next().isdecimal():
                raise self.wrong()
            found.append(int(self._take()))
        return found


_FROM_SPARK = {
    name: _NAMES[name]
    for name in (
        "string", "boolean", "byte", "short", "integer", "long", "float", "double", "binary", "date", "timestamp",
        "timestamp_ntz", "void",
    )
}  # fmt: skip
"""The types by their names in JSON."""

_TO_SPARK = {kind: name for name, kind in _FROM_SPARK.items() if name not in {"byte", "short", "void"}}

_TO_DDL = {"integer": "INT", "long": "BIGINT"}

_DECIMAL = re.compile(r"decimal\((\d{1,2}),(\d{1,2})\)")
_TEXT = re.compile(r"(?:char|varchar)\(\d+\)|string collate \w+")


def spark_struct_to_arrow(struct: Mapping[str, object] | str) -> pa.Schema:
    """The Arrow schema, in pudi's types, of a Spark StructType.

    Bytes and shorts become int32, as in Hudi's Avro schema; char and varchar become string. Void becomes Arrow's null,
    in which no table stores a column: `normalise` refuses it, and `incoming` takes the table's type in its place.

    Args:
        struct: what `StructType.json()` or `StructType.jsonValue()` gives.

    Raises:
        SchemaError: it is no struct, or a type of it can't be stored in a Hudi table.
    """
    try:
        node = json.loads(struct) if isinstance(struct, str) else struct
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"a Spark schema is not JSON: {error}") from error
    if not isinstance(node, Mapping) or node.get("type") != "struct":
        raise SchemaError("a Spark schema must be a struct, as StructType.json() gives it")
    return pa.schema(list(_from_spark(node, "", 0)))


def arrow_to_spark_json(schema: pa.Schema) -> str:
    """The StructType of a table schema in pudi's types, as JSON for `StructType.fromJson(json.loads(...))`.

    Raises:
        NotSupportedError: Spark has no equivalent type (a time of day).
    """
    return json_text(_struct_json(list(schema)))


def arrow_to_spark_ddl(schema: pa.Schema) -> str:
    """The same as DDL text, for example `` `id` BIGINT NOT NULL, `tags` ARRAY<STRING> ``.

    DDL can't say that an array's elements or a map's values are never null: use the JSON where that counts.

    Raises:
        NotSupportedError: Spark has no equivalent type (a time of day).
    """
    return ", ".join(
        f"{quote(field.name)} {_ddl(field.type, field.name)}{'' if field.nullable else ' NOT NULL'}" for field in schema
    )


def arrow_type_of(kind: object, name: str) -> pa.DataType:
    """The Arrow type that a user names: an Arrow type itself, a Spark one, or Spark's name of it.

    Args:
        kind: a `pyarrow.DataType`, a Spark `DataType`, or a text such as `double`.
        name: the column, for messages.

    Raises:
        SchemaError: it's neither, or a type that a table can't hold.
    """
    if isinstance(kind, pa.DataType):
        return kind
    if isinstance(kind, str):
        return type_of_name(kind, name)
    to_json = getattr(kind, "jsonValue", None)
    if to_json is None:
        raise SchemaError(
            f"column {name!r}: give an Arrow type, such as pyarrow.int64(), a Spark one or its name, not {kind!r}"
        )
    return _from_spark(to_json(), name, 0)


def arrow_to_spark_type(field: pa.Field) -> str:
    """The type of a column as DDL text, for `CAST`.

    Raises:
        NotSupportedError: Spark has no equivalent type (a time of day).
    """
    return _ddl(field.type, field.name)


def quote(name: str) -> str:
    """An identifier in Spark SQL's backticks."""
    return "`" + name.replace("`", "``") + "`"


def quote_path(path: Path) -> str:
    """Return a column, or a field inside of structs, in Spark SQL."""
    return ".".join(map(quote, parts_of(path)))


def _from_spark(node: object, path: str, depth: int) -> pa.DataType:
    if depth > MAX_DEPTH:
        raise SchemaError(f"a Spark schema is nested deeper than {MAX_DEPTH} levels at {path!r}")
    if isinstance(node, str):
        return _from_name(node, path)
    kind = node.get("type") if isinstance(node, Mapping) else None
    if not isinstance(node, Mapping) or kind not in {"struct", "array", "map"}:
        raise SchemaError(f"column {path!r} has Spark type {kind or node!r}, which a Hudi table can't hold; cast it")
    if kind == "array":
        item = _from_spark(node.get("elementType"), f"{path}.element", depth + 1)
        return list_of(item, nullable=bool(node.get("containsNull", True)) or pa.types.is_null(item))
    if kind == "map":
        if _from_spark(node.get("keyType"), f"{path}.key", depth + 1) != pa.string():
            raise SchemaError(f"column {path!r}: Hudi's maps have string keys; cast them")
        value = _from_spark(node.get("valueType"), f"{path}.value", depth + 1)
        return map_of(value, nullable=bool(node.get("valueContainsNull", True)) or pa.types.is_null(value))
    fields = node.get("fields")
    if not isinstance(fields, list):
        raise SchemaError(f"a Spark struct has no list of fields at {path!r}")
    return pa.struct([_from_field(field, path, depth) for field in fields])


def _from_field(node: object, path: str, depth: int) -> pa.Field:
    name = node.get("name") if isinstance(node, Mapping) else None
    if not isinstance(node, Mapping) or not isinstance(name, str):
        raise SchemaError(f"a Spark struct has a field without a name at {path!r}")
    kind = _from_spark(node.get("type"), f"{path}.{name}" if path else name, depth + 1)
    return pa.field(name, kind, bool(node.get("nullable", True)) or pa.types.is_null(kind))


def _from_name(name: str, path: str) -> pa.DataType:
    kind = _FROM_SPARK.get(name)
    if kind is not None:
        return kind
    decimal = _DECIMAL.fullmatch(name)
    if decimal:
        precision, scale = int(decimal[1]), int(decimal[2])
        if 1 <= precision <= 38 and scale <= precision:
            return pa.decimal128(precision, scale)
    if _TEXT.fullmatch(name):
        return pa.string()
    raise SchemaError(f"column {path!r} has Spark type {name!r}, which a Hudi table can't hold; cast it")


def _struct_json(fields: list[pa.Field]) -> dict[str, object]:
    return {
        "type": "struct",
        "fields": [
            {"name": f.name, "type": _json(f.type, f.name), "nullable": f.nullable, "metadata": {}} for f in fields
        ],
    }


def _json(kind: pa.DataType, path: str) -> object:
    if pa.types.is_struct(kind):
        return _struct_json(list(kind))
    if pa.types.is_list(kind):
        item = kind.value_field
        return {"type": "array", "elementType": _json(item.type, path), "containsNull": item.nullable}
    if pa.types.is_map(kind):
        item = kind.item_field
        return {
            "type": "map",
            "keyType": _json(kind.key_type, path),
            "valueType": _json(item.type, path),
            "valueContainsNull": item.nullable,
        }
    return _name(kind, path)


def _ddl(kind: pa.DataType, path: str) -> str:
    if pa.types.is_struct(kind):
        inner = ", ".join(
            f"{quote(f.name)}: {_ddl(f.type, f'{path}.{f.name}')}{'' if f.nullable else ' NOT NULL'}" for f in kind
        )
        return f"STRUCT<{inner}>"
    if pa.types.is_list(kind):
        return f"ARRAY<{_ddl(kind.value_type, path)}>"
    if pa.types.is_map(kind):
        return f"MAP<{_ddl(kind.key_type, path)}, {_ddl(kind.item_type, path)}>"
    name = _name(kind, path)
    return _TO_DDL.get(name, name.upper())


def _name(kind: pa.DataType, path: str) -> str:
    if pa.types.is_decimal128(kind):
        return f"decimal({kind.precision},{kind.scale})"
    name = _TO_SPARK.get(kind)
    if name is None:
        raise NotSupportedError(f"column {path!r} has type {kind}, which Spark has no column for")
    return name
