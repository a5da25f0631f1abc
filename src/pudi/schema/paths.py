"""Fields by path: `a.b` is field `b` of the struct column `a`, since no column of a table has a dot in its name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

Path: TypeAlias = "str | tuple[str, ...]"
"""The names of a field and of what it lies in, joined by dots; or one by one, for data whose names may have dots."""


def parts_of(path: Path) -> tuple[str, ...]:
    """Return the names of a path, the column first."""
    return tuple(path.split(".")) if isinstance(path, str) else path


def root_of(path: str) -> str:
    """Return the column that holds a field."""
    return path.partition(".")[0]


def roots_of(paths: Iterable[str]) -> tuple[str, ...]:
    """Return the columns that hold some fields, each once: what a reader of the fields reads."""
    return tuple(dict.fromkeys(map(root_of, paths)))


def field_at(schema: pa.Schema, path: Path) -> pa.Field | None:
    """Return the field of a path; None if there is none, or if it lies in anything but structs."""
    first, *rest = parts_of(path)
    index = schema.get_field_index(first)
    field = schema.field(index) if index >= 0 else None
    for part in rest:
        if field is None or not pa.types.is_struct(field.type):
            return None
        index = field.type.get_field_index(part)
        field = field.type.field(index) if index >= 0 else None
    return field


def values_at(rows: pa.Table, path: Path) -> pa.ChunkedArray | None:
    """Return the values of a path, null where a struct around them is; None where `field_at` finds no field."""
    if field_at(rows.schema, path) is None:
        return None
    first, *rest = parts_of(path)
    return pc.struct_field(rows[first], rest) if rest else rows[first]


def columns_holding(values: Mapping[str, pa.Array], schema: pa.Schema) -> dict[str, pa.Array]:
    """Return columns that hold nothing but the values of some fields.

    Args:
        values: of one length, by path, in the fields' types.
        schema: the types of these columns, and maybe of others.

    Returns:
        By name the columns that hold the fields. Fields beside them are null, also where the type takes no null.
    """
    by_path = {parts_of(path): array for path, array in values.items()}
    return {root: _holding(by_path, (root,), schema.field(root).type) for root in roots_of(values)}


def _holding(values: Mapping[tuple[str, ...], pa.Array], at: tuple[str, ...], kind: pa.DataType) -> pa.Array:
    if at in values:
        return values[at]
    inside = {path: array for path, array in values.items() if path[: len(at)] == at}
    if not inside:
        return pa.nulls(len(next(iter(values.values()))), kind)
    fields = [kind.field(number) for number in range(kind.num_fields)]
    return pa.StructArray.from_arrays(
        [_holding(values, (*at, field.name), field.type) for field in fields], fields=fields
    )
