"""Convert between Arrow schemas and Spark's (JSON of a StructType, or DDL text), without pyspark."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

import pyarrow as pa

from pudi.errors import NotSupportedError, SchemaError
from pudi.schema.type_names import type_of_name
from pudi.schema.types import LOCAL_TIMESTAMP, MAX_DEPTH, TIMESTAMP, list_of, map_of

_FROM_SPARK = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "byte": pa.int32(),
    "short": pa.int32(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
    "timestamp_ntz": LOCAL_TIMESTAMP,
    "void": pa.null(),
}

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
    return json.dumps(_struct_json(list(schema)), separators=(",", ":"), ensure_ascii=False)


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
