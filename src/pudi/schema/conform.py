"""Fit rows to a table's schema, losing nothing: incoming data, and what was written under an older schema."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from pudi.errors import CorruptError, SchemaError
from pudi.schema.arrays import pieces_of
from pudi.schema.conversions import Cast, FieldNames, cast_array, promote
from pudi.schema.fields import META_FIELDS, check_no_repeats

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
    cast = Cast(promote, fill=True)
    try:
        made = [cast_array(chunk, field.type, field.name, cast, names) for chunk in arrays]
    except SchemaError as error:
        raise SchemaError(error.message, path=path) from error
    except pa.ArrowInvalid as error:
        raise CorruptError(f"column {field.name!r} can't be read as {field.type}: {error}", path=path) from error
    return made[0] if is_array else pa.chunked_array(made, type=field.type)


_ADVICE = "cast the data, or change the table's schema first"


def conform(
    data: pa.Table,
    schema: pa.Schema,
    *,
    table: str | None = None,
    evolved: bool = False,
    promoted: Collection[str] = (),
) -> pa.Table:
    """The data with exactly the table's columns, in the table's order and types.

    Columns meet by name, case-sensitively. A column of another type is cast where no value changes:
    other layouts of the same type, integers and decimals that fit, integers to floats that hold
    them exactly, narrow floats to wide ones, timestamps between units and between time zones,
    columns of Arrow's null type. Columns that agree already are not copied. Meta fields in the data
    that the schema doesn't ask for are dropped, as Hudi's writer does, so that rows read from a
    table can be written back.

    Args:
        data: rows as the caller gave them.
        schema: the table schema, in pudi's types, without meta fields.
        table: location of the table, for messages.
        evolved: whether the schema is what `written_schema` made of this data's: then columns, and fields of structs,
            that the data lacks are null, and values are turned into other types as Hudi does (`promote`).
        promoted: columns whose values are turned into other types in any case.

    Raises:
        SchemaError: a column is missing, is not the table's, holds nulls where the table has none,
            or can't be cast without loss. Names the columns and both types.
    """
    if evolved:
        data = _with_missing(data, schema)
    data = _match_names(data, schema, table)
    columns = [
        _conform_column(data.column(field.name), field, table, evolved=evolved or field.name in promoted)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _with_missing(data: pa.Table, schema: pa.Schema) -> pa.Table:
    known = set(data.column_names)
    for field in schema:
        if field.name not in known:
            data = data.append_column(field.name, pa.nulls(data.num_rows, field.type))
    return data


def _match_names(data: pa.Table, schema: pa.Schema, table: str | None) -> pa.Table:
    wanted = set(schema.names)
    have = [name for name in data.column_names if name in wanted or name not in META_FIELDS]
    check_no_repeats(have, table)
    known = set(have)
    missing = [name for name in schema.names if name not in known]
    extra = [name for name in have if name not in wanted]
    if not missing and not extra:
        return data
    by_case = {name.casefold(): name for name in extra}
    hints = [f"{by_case[name.casefold()]} for {name}" for name in missing if name.casefold() in by_case]
    parts = [
        f"columns missing from the data: {', '.join(missing)}" if missing else "",
        f"columns that the table does not have: {', '.join(extra)}" if extra else "",
        f"names differ in case: {', '.join(hints)}" if hints else "",
        "rename, add or drop them, or change the table's schema first",
    ]
    raise SchemaError("; ".join(part for part in parts if part), table=table)


def _conform_column(column: pa.ChunkedArray, field: pa.Field, table: str | None, *, evolved: bool) -> pa.ChunkedArray:
    if not column.type.equals(field.type):
        # Types that could never be cast are an error for no rows too.
        chunks = [piece for chunk in column.chunks for piece in pieces_of(chunk)] or [pa.nulls(0, column.type)]
        cast = Cast(_promoted if evolved else _lossless, fill=evolved)
        try:
            chunks = [cast_array(chunk, field.type, field.name, cast) for chunk in chunks]
        except SchemaError as error:
            raise SchemaError(error.message, table=table) from error
        column = pa.chunked_array(chunks, type=field.type)
    if not field.nullable and column.null_count:
        raise SchemaError(
            f"column {field.name!r} must not be null, and is in {column.null_count} of {len(column)} rows", table=table
        )
    return column


def _lossless(array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
    if not _may_cast(array.type, target):
        raise SchemaError(f"column {path!r} has type {array.type}, the table has {target}: {_ADVICE}")
    try:
        return pc.cast(array, target, safe=True)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaError(
            f"column {path!r} has type {array.type}, and not all of its values are {target} without loss "
            f"({error}): {_ADVICE}"
        ) from error


def _promoted(array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
    # a float becomes a double by its decimal text, as a stored one does when its column is widened
    floats = pa.types.is_float32(array.type) and pa.types.is_float64(target)
    # Arrow wants room for the largest integer there is, promote for those that there are
    integers = pa.types.is_signed_integer(array.type) and pa.types.is_decimal(target)
    if _may_cast(array.type, target) and not floats and not integers:
        return _lossless(array, target, path)
    try:
        made = promote(array, target, path)
    except pa.ArrowInvalid as error:
        raise SchemaError(f"column {path!r} has {array.type} values that are no {target} ({error})") from error
    if pa.types.is_decimal(target) and pa.types.is_floating(array.type) and not _same_number(array, made):
        raise SchemaError(f"column {path!r} has {array.type} values with more digits than {target} has: {_ADVICE}")
    return made


def _same_number(floats: pa.Array, decimals: pa.Array) -> bool:
    back = pc.cast(pc.cast(decimals, pa.float64()), floats.type)
    return pc.all(pc.equal(back, floats), min_count=0).as_py() is not False


def _may_cast(old: pa.DataType, new: pa.DataType) -> bool:
    types = pa.types
    if types.is_integer(old):
        return bool(types.is_integer(new) or types.is_floating(new) or types.is_decimal(new))
    if types.is_floating(old):
        return bool(types.is_floating(new)) and old.bit_width <= new.bit_width
    if types.is_decimal(old):
        return bool(types.is_decimal(new))
    if types.is_timestamp(old):
        return bool(types.is_timestamp(new)) and (old.tz is None) == (new.tz is None)
    if types.is_date(old):
        return bool(types.is_date(new))
    if new == pa.string():
        return bool(types.is_large_string(old) or types.is_string_view(old))
    if new == pa.binary():
        return bool(types.is_large_binary(old) or types.is_binary_view(old) or types.is_fixed_size_binary(old))
    return False
