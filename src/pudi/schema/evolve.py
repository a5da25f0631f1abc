"""Read what was written under an older schema: rows of a file and the table schema in, rows of that schema out."""

from __future__ import annotations

from typing import TypeVar

import pyarrow as pa

from pudi.errors import CorruptError, SchemaError
from pudi.schema.arrays import pieces_of
from pudi.schema.conversions import promote
from pudi.schema.nested import FieldNames, cast_array

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)


def conform_read(data: Rows, schema: pa.Schema, *, path: str | None = None, names: FieldNames | None = None) -> Rows:
    """Rows of a data file with exactly the columns, order and types of the schema asked for.

    Columns that the file does not have are null, those that the schema lacks are left out, in
    structs too. Types become the schema's where Hudi lets a column evolve, see `promote`. Columns
    that agree are not copied.

    Args:
        data: rows as read from the file.
        schema: the table schema or a projection of it, in pudi's types; may hold meta fields.
        path: the file, for messages.
        names: what the columns are called in the file; None where they are called the same.

    Raises:
        SchemaError: a type of the file can't evolve into the table's, or a column that must not be
            null is missing or null.
        CorruptError: bytes that must become text are not UTF-8.
    """
    columns = []
    for field in schema:
        stored, inner = (field.name, None) if names is None else names.of(field.name)
        index = -1 if stored is None else data.schema.get_field_index(stored)
        if index < 0:
            column = _absent(data.num_rows, field, path)
        else:
            column = _read_column(data.column(index), field, path, inner)
        if not field.nullable and column.null_count:
            raise SchemaError(f"column {field.name!r} must not be null, and the file has nulls in it", path=path)
        columns.append(column)
    return type(data).from_arrays(columns, schema=schema)


def _absent(rows: int, field: pa.Field, path: str | None) -> pa.Array:
    if not field.nullable:
        raise SchemaError(f"column {field.name!r} must not be null, and the file does not have it", path=path)
    return pa.nulls(rows, field.type)


def _read_column(
    column: pa.Array | pa.ChunkedArray, field: pa.Field, path: str | None, names: FieldNames | None
) -> pa.Array | pa.ChunkedArray:
    if names is None and column.type.equals(field.type):
        return column
    is_array = isinstance(column, pa.Array)
    arrays = [column] if is_array else [piece for chunk in column.chunks for piece in pieces_of(chunk)]
    try:
        made = [cast_array(chunk, field.type, field.name, promote, fill=True, names=names) for chunk in arrays]
    except SchemaError as error:
        raise SchemaError(error.message, path=path) from error
    except pa.ArrowInvalid as error:
        raise CorruptError(f"column {field.name!r} can't be read as {field.type}: {error}", path=path) from error
    return made[0] if is_array else pa.chunked_array(made, type=field.type)
