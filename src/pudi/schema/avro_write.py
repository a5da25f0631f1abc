"""The Avro schema that Hudi stores of a table: Arrow schema in, Avro JSON text out."""

from __future__ import annotations

import json
import re

import pyarrow as pa

from pudi.errors import InvalidArgumentError, SchemaError
from pudi.schema.fields import check_names
from pudi.schema.types import LOCAL_TIMESTAMP, MAX_DECIMAL_DIGITS, TIMESTAMP

Json = str | dict[str, object] | list[object]

_PRIMITIVES: dict[pa.DataType, Json] = {
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
    return json.dumps(record, separators=(",", ":"), ensure_ascii=False)


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
    primitive = _PRIMITIVES.get(kind)
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
