"""Columns of a table: meta fields, types, Avro and Spark schemas, and fitting data to a schema."""

from pudi.schema.conform import conform, conform_read
from pudi.schema.conversions import FieldNames, convert_where_possible
from pudi.schema.fields import (
    COMMIT_SEQNO,
    COMMIT_TIME,
    FILE_NAME,
    META_FIELDS,
    PARTITION_PATH,
    RECORD_KEY,
    columns_holding,
    field_at,
    root_of,
    roots_of,
    values_at,
    with_meta_fields,
    without_meta_fields,
)
from pudi.schema.spark_types import arrow_to_spark_ddl, arrow_to_spark_json, spark_struct_to_arrow
from pudi.schema.table_schema import (
    TableSchema,
    add_meta_fields,
    arrow_to_avro,
    avro_to_arrow,
    with_text_columns_text,
    without_columns_text,
)
from pudi.schema.types import normalise
from pudi.schema.writing import FixedColumns, incoming, is_untyped, retyped, written_schema

__all__ = [
    "COMMIT_SEQNO",
    "COMMIT_TIME",
    "FILE_NAME",
    "META_FIELDS",
    "PARTITION_PATH",
    "RECORD_KEY",
    "FieldNames",
    "FixedColumns",
    "TableSchema",
    "add_meta_fields",
    "arrow_to_avro",
    "arrow_to_spark_ddl",
    "arrow_to_spark_json",
    "avro_to_arrow",
    "columns_holding",
    "conform",
    "conform_read",
    "convert_where_possible",
    "field_at",
    "incoming",
    "is_untyped",
    "normalise",
    "retyped",
    "root_of",
    "roots_of",
    "spark_struct_to_arrow",
    "values_at",
    "with_meta_fields",
    "with_text_columns_text",
    "without_columns_text",
    "without_meta_fields",
    "written_schema",
]
