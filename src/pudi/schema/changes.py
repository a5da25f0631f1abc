"""Changes of a table's columns by id: a schema and what to change in, the next schema out.

Source: Hudi's InternalSchemaChangeApplier and SchemaChangeUtils.

Columns inside structs, lists and maps are named by dotted paths (`place.x`, `items.element.x`, `counts.value`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa

from pudi.errors import SchemaError
from pudi.schema.fields import check_names
from pudi.schema.internal import (
    Column,
    ColumnType,
    Ids,
    InternalSchema,
    ListOf,
    MapOf,
    Struct,
    arrow_type,
    inner_columns,
    with_inner,
)
from pudi.schema.types import normalise_type
from pudi.schema.writing import may_promote

_Edit = Callable[[tuple[Column, ...], int], tuple[Column, ...]]
"""Change of the columns of one level: takes them and the position of the column that is meant."""


def add_column(schema: InternalSchema, path: str, kind: pa.DataType, after: str | None = None) -> InternalSchema:
    """Add a nullable column, at the top or in a struct.

    Args:
        schema: the schema.
        path: the column.
        kind: its type.
        after: the name of the column beside it that it follows; None for the last one.

    Raises:
        SchemaError: the column exists already, the struct or the column before it does not exist, or a table can't hold
            the type.
    """
    parent, _, name = path.rpartition(".")
    ids = Ids(schema.max_id + 2)
    column = Column(schema.max_id + 1, name, True, ids.type(normalise_type(kind, path)))

    def appended(columns: tuple[Column, ...]) -> tuple[Column, ...]:
        _check_free(columns, name, path)
        place = len(columns) if after is None else _behind(columns, after)
        return (*columns[:place], column, *columns[place:])

    if not parent:
        return replace(schema, columns=appended(schema.columns), max_id=ids.next - 1)

    def edit(columns: tuple[Column, ...], place: int) -> tuple[Column, ...]:
        kind = columns[place].type
        if not isinstance(kind, Struct):
            raise SchemaError(f"column {parent!r} is no struct; there is no place for {name!r} in it")
        return _with(columns, place, replace(columns[place], type=Struct(appended(kind.fields))))

    return replace(_edited(schema, parent, edit), max_id=ids.next - 1)


def rename_column(schema: InternalSchema, path: str, name: str) -> InternalSchema:
    """Rename a column.

    Raises:
        SchemaError: the column does not exist, or the new name does.
    """

    def edit(columns: tuple[Column, ...], place: int) -> tuple[Column, ...]:
        others = tuple(column for number, column in enumerate(columns) if number != place)
        _check_free(others, name, name)
        return _with(columns, place, replace(columns[place], name=name))

    return _edited(schema, path, edit, named=True)


def move_column(schema: InternalSchema, path: str, after: str) -> InternalSchema:
    """Move a column behind another one of the same level.

    Raises:
        SchemaError: one of them does not exist, or they are the same.
    """

    def edit(columns: tuple[Column, ...], place: int) -> tuple[Column, ...]:
        others = (*columns[:place], *columns[place + 1 :])
        behind = _behind(others, after)
        return (*others[:behind], columns[place], *others[behind:])

    return _edited(schema, path, edit, named=True)


def drop_column(schema: InternalSchema, path: str) -> InternalSchema:
    """Without a column. Its id is never given again, so that a new column of the name begins with nulls.

    Raises:
        SchemaError: the column does not exist, or it is the only one of its struct.
    """

    def edit(columns: tuple[Column, ...], place: int) -> tuple[Column, ...]:
        left = (*columns[:place], *columns[place + 1 :])
        if not left:
            raise SchemaError(f"column {path!r} is the only one of its struct; drop the struct")
        return left

    return _edited(schema, path, edit, named=True)


def change_type(schema: InternalSchema, path: str, kind: pa.DataType) -> InternalSchema:
    """Change the type of a column of a plain type.

    Raises:
        SchemaError: the column does not exist, or its type can't be converted to the new one.
    """
    new = normalise_type(kind, path)

    def edit(columns: tuple[Column, ...], place: int) -> tuple[Column, ...]:
        old = arrow_type(columns[place].type)
        nested = pa.types.is_nested(old) or pa.types.is_nested(new)
        if not old.equals(new) and (nested or not may_promote(old, new)):
            raise SchemaError(f"column {path!r} has type {old}, which can't become {new}: add a column and fill it")
        return _with(columns, place, replace(columns[place], type=Ids(0).type(new)))

    return _edited(schema, path, edit)


def reconciled(schema: InternalSchema, columns: pa.Schema) -> InternalSchema:
    """The schema after a write that made these of the columns: same names keep their ids (reconcileSchema).

    Args:
        schema: the schema before.
        columns: all columns, meta fields first, as `written_schema` made them.
    """
    if schema.arrow().equals(columns):
        return schema
    ids = Ids(schema.max_id + 1)
    made = _reconciled_fields(schema.columns, list(columns), ids)
    return replace(schema, columns=made, max_id=ids.next - 1)


def _reconciled_fields(old: tuple[Column, ...], fields: list[pa.Field], ids: Ids) -> tuple[Column, ...]:
    known = {column.name: column for column in old}
    return tuple(
        _reconciled_column(known[field.name], field, ids) if field.name in known else ids.columns([field])[0]
        for field in fields
    )


def _reconciled_column(old: Column, field: pa.Field, ids: Ids) -> Column:
    kind: ColumnType = old.type
    if not arrow_type(kind).equals(field.type):
        if isinstance(kind, Struct):
            kind = Struct(_reconciled_fields(kind.fields, list(field.type), ids))
        elif isinstance(kind, ListOf):
            kind = ListOf(_reconciled_column(kind.element, field.type.value_field, ids))
        elif isinstance(kind, MapOf):
            kind = replace(kind, value=_reconciled_column(kind.value, field.type.item_field, ids))
        else:
            kind = ids.type(field.type)
    return replace(old, type=kind, optional=field.nullable)


def _edited(schema: InternalSchema, path: str, edit: _Edit, *, named: bool = False) -> InternalSchema:
    return replace(schema, columns=_descend(Struct(schema.columns), path.split("."), path, edit, named=named))


def _descend(kind: ColumnType, names: list[str], path: str, edit: _Edit, *, named: bool) -> tuple[Column, ...]:
    columns = inner_columns(kind)
    place = next((number for number, column in enumerate(columns) if column.name == names[0]), None)
    if place is None:
        raise SchemaError(f"there is no column {path!r}")
    if len(names) > 1:
        column = columns[place]
        inner = _descend(column.type, names[1:], path, edit, named=named)
        return _with(columns, place, replace(column, type=with_inner(column.type, inner)))
    if named and not isinstance(kind, Struct):
        raise SchemaError(f"{path!r} is the inside of a list or map: it can be neither renamed nor dropped")
    return edit(columns, place)


def _with(columns: tuple[Column, ...], place: int, column: Column) -> tuple[Column, ...]:
    return (*columns[:place], column, *columns[place + 1 :])


def _behind(columns: tuple[Column, ...], name: str) -> int:
    """The place behind a column."""
    for number, column in enumerate(columns):
        if column.name.lower() == name.lower():
            return number + 1
    raise SchemaError(f"there is no column {name!r} to stand behind; there are {', '.join(c.name for c in columns)}")


def _check_free(columns: tuple[Column, ...], name: str, path: str) -> None:
    twin = next((column.name for column in columns if column.name.casefold() == name.casefold()), None)
    if twin is not None:
        raise SchemaError(f"column {path!r} can't be added: there is {twin!r}")
    check_names([pa.field(name, pa.string())])
