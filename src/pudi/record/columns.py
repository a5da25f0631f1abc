"""Columns by the names that key generators know them by: `a.b` is field `b` of the struct column `a`."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from pudi.errors import SchemaError


def field_of(schema: pa.Schema, name: str) -> pa.Field:
    """The field of that name.

    Raises:
        SchemaError: the column does not exist.
    """
    first, *path = name.split(".")
    index = schema.get_field_index(first)
    if index < 0:
        raise _missing(name, schema)
    field = schema.field(index)
    for part in path:
        kind = field.type
        index = kind.get_field_index(part) if pa.types.is_struct(kind) else -1
        if index < 0:
            raise _missing(name, schema)
        field = kind.field(index)
    return field


def column_of(table: pa.Table, name: str) -> pa.ChunkedArray:
    """The values of that name; null where a struct around them is.

    Raises:
        SchemaError: the column does not exist.
    """
    field_of(table.schema, name)
    first, *path = name.split(".")
    column = table.column(first)
    return pc.struct_field(column, path) if path else column


def lies_in_null(table: pa.Table, name: str) -> int:
    """Return the number of rows where a struct around the field is null: Hudi's upsert finds no record key there."""
    outer = name.rpartition(".")[0]
    return column_of(table, outer).null_count if outer else 0


def _missing(name: str, schema: pa.Schema) -> SchemaError:
    return SchemaError(f"key column {name!r} is not among the columns {', '.join(schema.names)}")
