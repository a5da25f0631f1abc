"""The columns of a table as catalogs hold them: types in Hive's notation, and Spark's schema as JSON.

Sources: HiveSchemaUtil, SparkSchemaUtils and SparkDataSourceTableUtils of Apache Hudi 1.2.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pyarrow as pa

from pudi.errors import CorruptError, NotSupportedError
from pudi.schema import arrow_to_spark_json

_HIVE = {
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.time32("ms"): "int",
    pa.time64("us"): "bigint",
}


def hive_type(kind: pa.DataType, *, timestamps: bool) -> str:
    """Return the type of a column in Hive's notation, in lower case, as metastores store it.

    Args:
        kind: its type, one of pudi's.
        timestamps: whether a timestamp is a `timestamp`; otherwise it's a `bigint`.

    Raises:
        NotSupportedError: Hive has no such type.
    """
    if pa.types.is_timestamp(kind):
        return "timestamp" if timestamps else "bigint"
    if pa.types.is_decimal128(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_struct(kind):
        fields = (f"{field.name.lower()}:{hive_type(field.type, timestamps=timestamps)}" for field in kind)
        return f"struct<{','.join(fields)}>"
    if pa.types.is_list(kind):
        return f"array<{hive_type(kind.value_type, timestamps=timestamps)}>"
    if pa.types.is_map(kind):
        return (
            f"map<{hive_type(kind.key_type, timestamps=timestamps)},{hive_type(kind.item_type, timestamps=timestamps)}>"
        )
    name = _HIVE.get(kind)
    if name is None:
        raise NotSupportedError(f"a column has type {kind}, which catalogs of Hive's kind don't have")
    return name


def spark_properties(
    schema: pa.Schema, partition_fields: Sequence[str], part_length: int, version: str
) -> dict[str, str]:
    """Return the properties by which Spark reads a registered table as Hudi's.

    Args:
        schema: the columns that are registered, in the table's order.
        partition_fields: partition columns, which come last; one that isn't a column is a text.
        part_length: number of characters of a part of the schema.
        version: Spark's release; empty for none.
    """
    first = [field for field in schema if field.name not in partition_fields]
    known = {field.name: field for field in schema}
    last = [known.get(name, pa.field(name, pa.string())) for name in partition_fields]
    text = _spaced(arrow_to_spark_json(pa.schema([*first, *last])))
    parts = [text[start : start + part_length] for start in range(0, len(text), part_length)]
    properties = {"spark.sql.sources.provider": "hudi"}
    if version:
        properties["spark.sql.create.version"] = version
    properties["spark.sql.sources.schema.numParts"] = str(len(parts))
    properties |= {f"spark.sql.sources.schema.part.{number}": part for number, part in enumerate(parts)}
    if partition_fields:
        properties["spark.sql.sources.schema.numPartCols"] = str(len(partition_fields))
        properties |= {f"spark.sql.sources.schema.partCol.{n}": name for n, name in enumerate(partition_fields)}
    return properties


def _spaced(text: str) -> str:
    """Put the blanks where Hudi's text has them, so that a sync by Hudi finds nothing to change."""
    return text.replace('"type":"array","elementType"', '"type":"array", "elementType"').replace(
        '"type":"map","keyType"', '"type":"map", "keyType"'
    )


def column_comments(avro_json: str) -> Mapping[str, str]:
    """Return the comments of columns by name, from the `doc` of an Avro schema's fields.

    Raises:
        CorruptError: it's no Avro schema of a record.
    """
    try:
        fields = json.loads(avro_json)["fields"]
        return {field["name"]: field["doc"] for field in fields if field.get("doc")}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptError(f"the table's Avro schema can't be read for comments: {error}") from error
