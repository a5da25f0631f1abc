"""Key, partition and ordering columns in the table's types: a column of the data in, SQL that casts it exactly out."""

from __future__ import annotations

import pyarrow as pa

from pudi.record import SPARK_ERROR_MARK
from pudi.schema.spark_types import arrow_to_spark_type, quote

_EXACT_INTEGERS = {pa.float32(): 1 << 24, pa.float64(): 1 << 53}
"""Integers up to which a float holds all."""


def kept_column(field: pa.Field, given: pa.DataType) -> str | None:
    """SQL for a column that keeps its type in the table; fails by `raise_error` for a value that would change.

    Args:
        field: the table's column.
        given: the data's type.

    Returns:
        The SQL, named as the column; None where the column is left to the Arrow code as it is.
    """
    lost = _changes(field.name, given, field.type)
    if lost is None or given.equals(field.type):
        return None
    name = quote(field.name)
    cast = f"CAST({name} AS {arrow_to_spark_type(pa.field(field.name, field.type))})"
    shown = field.name.replace("\\", "?").replace("'", "?")
    if not lost:
        return f"{cast} AS {name}"
    began = f"{SPARK_ERROR_MARK}SchemaError: column {shown} has type {given}, and value "
    ended = f" is no {field.type}, which is its type in the table: no write changes that of a key or ordering column"
    message = f"CONCAT('{began}', CAST({name} AS STRING), '{ended}')"
    return f"CASE WHEN {lost} THEN RAISE_ERROR({message}) ELSE {cast} END AS {name}"


def _changes(column: str, given: pa.DataType, kept: pa.DataType) -> str | None:
    """Return a predicate for values that a conversion changes; empty for none, None for unknown types."""
    types, name = pa.types, quote(column)
    if types.is_integer(given) and types.is_integer(kept):
        if given.bit_width <= kept.bit_width:
            return ""
        return f"{name} NOT BETWEEN {-(1 << kept.bit_width - 1)} AND {(1 << kept.bit_width - 1) - 1}"
    if types.is_integer(given) and kept in _EXACT_INTEGERS:
        most = _EXACT_INTEGERS[kept]
        return f"{name} NOT BETWEEN {-most} AND {most}"
    if types.is_decimal(kept) and (types.is_integer(given) or types.is_decimal(given)):
        whole, scale = (given.precision - given.scale, given.scale) if types.is_decimal(given) else (19, 0)
        lost = [f"{name} <> ROUND({name}, {kept.scale})"] if scale > kept.scale else []
        if whole > kept.precision - kept.scale:
            most = 10 ** (kept.precision - kept.scale)
            lost.append(f"{name} <= {-most}BD OR {name} >= {most}BD")
        return " OR ".join(lost)
    return None
