"""Value types of column statistics: Arrow types to Hudi's value types, and the columns to index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import pyarrow as pa
import pyarrow.types as pt

from pudi.schema import COMMIT_TIME, META_FIELDS, PARTITION_PATH, RECORD_KEY, field_at

ALWAYS_INDEXED: Final = (COMMIT_TIME, PARTITION_PATH, RECORD_KEY)
"""Meta fields that are indexed if a table has them (HoodieTableMetadataUtil.META_COLS_TO_ALWAYS_INDEX)."""

OPERATION: Final = "_hoodie_operation"
"""Additional meta field of some tables; never indexed unless named."""

DEFAULT_COLUMNS: Final = 32
"""Number of columns to index if none are named (hoodie.metadata.index.column.stats.max.columns.to.index)."""

V1_DECIMAL: Final = pa.decimal128(30, 15)
"""The one decimal type that index version 1 can hold (DecimalWrapper)."""


class ValueType(IntEnum):
    """The type of a minimum or maximum (org.apache.hudi.stats.ValueType, by ordinal)."""

    V1 = 0
    NULL = 1
    BOOLEAN = 2
    INT = 3
    LONG = 4
    FLOAT = 5
    DOUBLE = 6
    STRING = 7
    BYTES = 8
    FIXED = 9
    DECIMAL = 10
    UUID = 11
    DATE = 12
    TIME_MILLIS = 13
    TIME_MICROS = 14
    TIMESTAMP_MILLIS = 15
    TIMESTAMP_MICROS = 16
    TIMESTAMP_NANOS = 17
    LOCAL_TIMESTAMP_MILLIS = 18
    LOCAL_TIMESTAMP_MICROS = 19
    LOCAL_TIMESTAMP_NANOS = 20


_PLAIN: Final[dict[pa.DataType, ValueType]] = {
    pa.bool_(): ValueType.BOOLEAN,
    pa.int8(): ValueType.INT,
    pa.int16(): ValueType.INT,
    pa.int32(): ValueType.INT,
    pa.int64(): ValueType.LONG,
    pa.float32(): ValueType.FLOAT,
    pa.float64(): ValueType.DOUBLE,
    pa.string(): ValueType.STRING,
    pa.large_string(): ValueType.STRING,
    pa.binary(): ValueType.BYTES,
    pa.large_binary(): ValueType.BYTES,
    pa.date32(): ValueType.DATE,
    pa.time32("ms"): ValueType.TIME_MILLIS,
    pa.time64("us"): ValueType.TIME_MICROS,
    pa.timestamp("ms"): ValueType.LOCAL_TIMESTAMP_MILLIS,
    pa.timestamp("us"): ValueType.LOCAL_TIMESTAMP_MICROS,
    pa.timestamp("ns"): ValueType.LOCAL_TIMESTAMP_NANOS,
}

_ZONED: Final = {
    "ms": ValueType.TIMESTAMP_MILLIS,
    "us": ValueType.TIMESTAMP_MICROS,
    "ns": ValueType.TIMESTAMP_NANOS,
}

_ARROW: Final[dict[ValueType, pa.DataType]] = {
    ValueType.BOOLEAN: pa.bool_(),
    ValueType.INT: pa.int32(),
    ValueType.LONG: pa.int64(),
    ValueType.FLOAT: pa.float32(),
    ValueType.DOUBLE: pa.float64(),
    ValueType.STRING: pa.string(),
    ValueType.BYTES: pa.binary(),
    ValueType.FIXED: pa.binary(),
    ValueType.UUID: pa.string(),
    ValueType.DATE: pa.date32(),
    ValueType.TIME_MILLIS: pa.time32("ms"),
    ValueType.TIME_MICROS: pa.time64("us"),
    ValueType.TIMESTAMP_MILLIS: pa.timestamp("ms", "UTC"),
    ValueType.TIMESTAMP_MICROS: pa.timestamp("us", "UTC"),
    ValueType.TIMESTAMP_NANOS: pa.timestamp("ns", "UTC"),
    ValueType.LOCAL_TIMESTAMP_MILLIS: pa.timestamp("ms"),
    ValueType.LOCAL_TIMESTAMP_MICROS: pa.timestamp("us"),
    ValueType.LOCAL_TIMESTAMP_NANOS: pa.timestamp("ns"),
}


def value_type(kind: pa.DataType) -> tuple[ValueType, str | None] | None:
    """Return the value type of a column and its parameters; None if its values have no order.

    Args:
        kind: the column's type in the table or the file.
    """
    if pt.is_dictionary(kind):
        return value_type(kind.value_type)
    if pt.is_decimal128(kind):
        return ValueType.DECIMAL, f"{kind.precision},{kind.scale}"
    if pt.is_fixed_size_binary(kind):
        return ValueType.FIXED, None
    if pt.is_timestamp(kind) and kind.tz is not None:
        zoned = _ZONED.get(kind.unit)
        return None if zoned is None else (zoned, None)
    found = _PLAIN.get(kind)
    return None if found is None else (found, None)


def arrow_type(kind: int, info: str | None) -> pa.DataType | None:
    """Return the Arrow type of a value type; None if there is none, or if its parameters are invalid."""
    if kind != ValueType.DECIMAL:
        return _ARROW.get(ValueType(kind)) if 0 <= kind <= max(ValueType) else None
    try:
        precision, scale = (int(part) for part in (info or "").split(","))
        return pa.decimal128(precision, scale) if 0 <= scale <= precision else None
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class StatsSpec:
    """The statistics that a write makes of its files; picklable.

    Attributes:
        columns: names of the columns; dots separate fields of structs.
        version: version of the index's values: 1 in tables of version 6 and 8, 2 from version 9 on
            (HoodieIndexVersion).
    """

    columns: tuple[str, ...]
    version: int


def stats_spec(
    schema: pa.Schema,
    version: int,
    *,
    populated: bool,
    named: Sequence[str] = (),
    most: int = DEFAULT_COLUMNS,
) -> StatsSpec:
    """Return the columns to index (HoodieTableMetadataUtil.getColumnsToIndex).

    Args:
        schema: the table's columns; meta fields in it are ignored.
        version: see `StatsSpec`.
        populated: whether files have meta fields.
        named: the columns that the user or the index definition names; empty for the first columns.
        most: number of columns if none are named.
    """
    metas = ALWAYS_INDEXED if populated else ()
    if named:
        kinds = {name: leaf_type(schema, name) for name in named if name not in ALWAYS_INDEXED}
        chosen = [name for name, kind in kinds.items() if kind is not None and _holds(kind, version)]
    else:
        fields = [f for f in schema if f.name not in META_FIELDS and f.name != OPERATION]
        chosen = [field.name for field in fields if _by_default(field.type, version)][:most]
    return StatsSpec((*metas, *chosen), version)


def leaf_type(schema: pa.Schema, name: str) -> pa.DataType | None:
    """Return the type of a column, or of a struct's field (with dots); None if it doesn't exist."""
    field = field_at(schema, name)
    return None if field is None else field.type


def _holds(kind: pa.DataType, version: int) -> bool:
    """Return whether the index supports a type (isColumnTypeSupported)."""
    if version == 1 and pt.is_decimal(kind):
        digits = kind.precision + V1_DECIMAL.scale - kind.scale
        return bool(digits <= V1_DECIMAL.precision and kind.scale <= V1_DECIMAL.scale)
    return value_type(kind) is not None


def _by_default(kind: pa.DataType, version: int) -> bool:
    """Return whether a column is indexed by default: in version 1, where records are Spark rows, bytes aren't."""
    if version == 1 and (pt.is_decimal(kind) or pt.is_binary(kind) or pt.is_fixed_size_binary(kind)):
        return False
    return value_type(kind) is not None
