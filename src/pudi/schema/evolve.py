"""Read what was written under an older schema: rows of a file and the table schema in, rows of that schema out."""

from __future__ import annotations

from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from pudi.errors import CorruptError, SchemaError
from pudi.schema.java_text import java_float_text
from pudi.schema.nested import cast_array

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)


def conform_read(data: Rows, schema: pa.Schema, *, path: str | None = None) -> Rows:
    """Rows of a data file with exactly the columns, order and types of the schema asked for.

    Columns that the file does not have are null, those that the schema lacks are left out, in
    structs too. Types become the schema's where Hudi lets a column evolve: int to long, float,
    double or string; long to float, double or string; float to double or string; double to string;
    bytes to string and back; wider decimals; timestamps to microseconds; and bytes and shorts, which
    Spark marks in Parquet, to int. As in Hudi, float becomes double by way of its decimal text
    (0.1 stays 0.1), and numbers become text as Java prints them. Columns that agree are not copied.
    Source: HoodieSchemaTypePromotion, HoodieAvroUtils.rewritePrimaryType; seen in Hudi 1.2's answers.

    Args:
        data: rows as read from the file.
        schema: the table schema or a projection of it, in pudi's types; may hold meta fields.
        path: the file, for messages.

    Raises:
        SchemaError: a type of the file can't evolve into the table's, or a column that must not be
            null is missing or null.
        CorruptError: bytes that must become text are not UTF-8.
    """
    columns = []
    for field in schema:
        index = data.schema.get_field_index(field.name)
        column = _absent(data.num_rows, field, path) if index < 0 else _read_column(data.column(index), field, path)
        if not field.nullable and column.null_count:
            raise SchemaError(f"column {field.name!r} must not be null, and the file has nulls in it", path=path)
        columns.append(column)
    return type(data).from_arrays(columns, schema=schema)


def _absent(rows: int, field: pa.Field, path: str | None) -> pa.Array:
    if not field.nullable:
        raise SchemaError(f"column {field.name!r} must not be null, and the file does not have it", path=path)
    return pa.nulls(rows, field.type)


def _read_column(column: pa.Array | pa.ChunkedArray, field: pa.Field, path: str | None) -> pa.Array | pa.ChunkedArray:
    if column.type.equals(field.type):
        return column
    try:
        if isinstance(column, pa.Array):
            return cast_array(column, field.type, field.name, _promote, fill=True)
        chunks = [cast_array(chunk, field.type, field.name, _promote, fill=True) for chunk in column.chunks]
    except SchemaError as error:
        raise SchemaError(error.message, path=path) from error
    except pa.ArrowInvalid as error:
        raise CorruptError(f"column {field.name!r} can't be read as {field.type}: {error}", path=path) from error
    return pa.chunked_array(chunks, type=field.type)


def _promote(array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
    types = pa.types
    old = array.type
    if types.is_signed_integer(old) and types.is_integer(target) and old.bit_width < target.bit_width:
        return pc.cast(array, target)
    if types.is_signed_integer(old) and types.is_floating(target):
        return pc.cast(array, target, safe=False)  # rounds to the nearest, as Java does
    if types.is_float32(old) and types.is_float64(target):
        return pc.cast(pc.cast(array, pa.string()), target)
    if types.is_decimal(old) and types.is_decimal(target) and _widens(old, target):
        return pc.cast(array, target)
    if types.is_timestamp(old) and types.is_timestamp(target) and _same_clock(old, target):
        return pc.cast(pc.floor_temporal(array, unit="microsecond"), target)
    if target == pa.string() and types.is_floating(old):
        return java_float_text(array)
    if target == pa.string() and (types.is_signed_integer(old) or _is_bytes(old) or types.is_large_string(old)):
        return pc.cast(array, target)
    if target == pa.binary() and (_is_bytes(old) or types.is_string(old)):
        return pc.cast(array, target)
    raise SchemaError(f"column {path!r} is {old} in the file and {target} in the table, which Hudi can't turn it into")


def _widens(old: pa.DataType, target: pa.DataType) -> bool:
    return bool(target.scale >= old.scale and target.precision - target.scale >= old.precision - old.scale)


def _same_clock(old: pa.DataType, target: pa.DataType) -> bool:
    # Nanoseconds without a zone are Parquet's INT96, which Spark used for instants.
    return bool((old.tz is None) == (target.tz is None) or old.unit == "ns")


def _is_bytes(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind))
