"""Bounds on ordering values from the footer of a base file: whether newer versions win without comparing rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from pudi.filegroup import AnyBaseFile, BaseFileReader
from pudi.merge import MergeRule, Versions
from pudi.schema import FieldNames


def bound_that_loses(
    stored: tuple[AnyBaseFile, FieldNames | None], fields: pa.Schema, newer: Versions, rule: MergeRule
) -> dict[str, pa.Scalar] | None:
    """Return ordering values that lose to every newer version and are an upper bound of a base file's; None if unknown.

    Using them instead of the rows' own values gives the same winners.

    Args:
        stored: the base file and the names of columns in it; None if the names are the same.
        fields: the columns of the ordering fields, in the table's types; footers bound none inside of structs here.
        newer: the versions.
        rule: a rule that compares by these fields and doesn't mix versions.
    """
    file, names = stored
    bound = {}
    for field in fields:
        value = _greatest(file, field, field.name if names is None else names.of(field.name)[0])
        if value is None:
            return None
        bound[field.name] = value
    older = pa.table({name: pa.repeat(value, len(newer)) for name, value in bound.items()})
    return bound if bool(np.all(newer.unconditional | rule.newer_wins(older, newer.rows))) else None


def _greatest(file: AnyBaseFile, field: pa.Field, name: str | None) -> pa.Scalar | None:
    """Return a column's maximum; None if it is unknown, or if nulls may rank above it."""
    if not isinstance(file, BaseFileReader):
        return None
    place = -1 if name is None else file.schema.get_field_index(name)
    if place < 0 or file.schema.field(place).type != field.type or not _is_exact(field.type):
        return None
    greatest = []
    for group in file.statistics(file.schema.field(place).name):
        if group is None or group.maximum is None or group.null_count != 0:
            return None
        greatest.append(group.maximum)
    return pa.scalar(max(greatest), field.type) if greatest else None


def _is_exact(kind: pa.DataType) -> bool:
    """Return whether footers hold exact bounds of a type, ordered as ordering values are; not for texts and floats."""
    types = pa.types
    return bool(
        types.is_signed_integer(kind) or types.is_date32(kind) or (types.is_timestamp(kind) and kind.unit != "ns")
    )
