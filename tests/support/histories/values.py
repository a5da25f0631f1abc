"""Values of columns: random ones, as SQL, as Python text, and what becomes of them when a column's type changes."""

from __future__ import annotations

import datetime as dt
import decimal
import random
from collections.abc import Mapping
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

Columns = dict[str, pa.DataType]
"""Names and types of columns, in order."""

TEXTS = ("", "x", "X", "it's", "é", "a_b", "50%", "🙂", "10", "2")
TIME = pa.timestamp("us", "UTC")
MONEY = pa.decimal128(9, 2)
NEW_TYPES: tuple[pa.DataType, ...] = (
    pa.int32(),
    pa.int64(),
    pa.float64(),
    pa.string(),
    pa.bool_(),
    pa.date32(),
    pa.float32(),
    TIME,
    MONEY,
    pa.binary(),
    pa.struct([("x", pa.int32()), ("y", pa.string())]),
    pa.struct([("x", pa.int64()), ("in", pa.struct([("z", pa.string())]))]),
    pa.list_(pa.int32()),
    pa.list_(pa.struct([("x", pa.int32()), ("y", pa.string())])),
    pa.map_(pa.string(), pa.struct([("x", pa.int32())])),
)
WIDER: dict[pa.DataType, tuple[pa.DataType, ...]] = {
    pa.int32(): (pa.int64(), pa.float64(), pa.string()),
    pa.int64(): (pa.float64(), pa.string()),
    pa.float32(): (pa.float64(), pa.string()),
    pa.float64(): (pa.string(),),
    pa.date32(): (pa.string(),),
    MONEY: (pa.decimal128(12, 2), pa.string()),
}
"""Types that a column's type may become."""


_TYPE_TEXTS = {
    "bool": "pa.bool_()",
    "float": "pa.float32()",
    "double": "pa.float64()",
    "date32[day]": "pa.date32()",
    "timestamp[us, tz=UTC]": "pa.timestamp('us', 'UTC')",
}
_SQL_TYPES = {
    "bool": "BOOLEAN",
    "int32": "INT",
    "int64": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "STRING",
    "binary": "BINARY",
    "date32[day]": "DATE",
    "timestamp[us, tz=UTC]": "TIMESTAMP",
}


def is_nested(kind: pa.DataType) -> bool:
    """Return whether values of the type hold others."""
    return pa.types.is_struct(kind) or pa.types.is_list(kind) or pa.types.is_map(kind)


def random_value(chance: random.Random, kind: pa.DataType, nulls: float = 0.2) -> Any:
    """Return a value of a type, null now and then."""
    if chance.random() < nulls:
        return None
    if pa.types.is_struct(kind):
        return {field.name: random_value(chance, field.type) for field in kind}
    if pa.types.is_list(kind):
        return [random_value(chance, kind.value_type) for _ in range(chance.randint(0, 3))]
    if pa.types.is_map(kind):
        return {key: random_value(chance, kind.item_type) for key in chance.sample(["k", "l"], chance.randint(0, 2))}
    if pa.types.is_boolean(kind):
        return chance.random() < 0.5
    if pa.types.is_integer(kind):
        return chance.randint(-2, 12)
    if pa.types.is_floating(kind):
        return chance.randint(-4, 24) / 4
    if pa.types.is_date(kind):
        return dt.date(2024, 1, chance.randint(1, 28))
    if pa.types.is_timestamp(kind):
        year, microsecond = chance.choice([(1969, 0), (2024, 0), (2024, 123456)])
        return dt.datetime(year, 3, 31, chance.randint(0, 23), 30, 0, microsecond, tzinfo=dt.timezone.utc)
    if pa.types.is_decimal(kind):
        return decimal.Decimal(chance.randint(-400, 2400)).scaleb(-2)
    if pa.types.is_binary(kind):
        return chance.choice([b"", b"x", b"\x00\xff"])
    assert pa.types.is_string(kind), kind
    return chance.choice(TEXTS)


def sql(value: Any, zone: str = "") -> str:
    """Return a value as a literal of SQL; a point in time in a session's zone, if one is given, without naming it."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dt.datetime) and zone:
        return f"TIMESTAMP '{value.astimezone(ZoneInfo(zone)).replace(tzinfo=None).isoformat(' ')}'"
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP '{value.isoformat(' ').replace('+00:00', 'Z')}'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, decimal.Decimal):
        return f"CAST('{value}' AS DECIMAL(12,2))"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"  # 'it''s' is its in SQL, as in Spark 3.5
    if isinstance(value, float):
        return f"CAST({value} AS DOUBLE)"
    return str(value)


def retyped(value: Any, old: pa.DataType, new: pa.DataType) -> Any:
    """Return a value of one type as another one has it."""
    if value is None or old == new:
        return value
    if pa.types.is_struct(old):
        return {
            field.name: retyped(value[field.name], old.field(field.name).type, field.type)
            for field in new
            if field.name in value
        }
    if pa.types.is_string(new):
        return value.isoformat() if isinstance(value, dt.date) else str(value)
    return float(value) if pa.types.is_floating(new) else value


def arrow(rows: list[dict[str, Any]], columns: Mapping[str, pa.DataType]) -> pa.Table:
    """Return rows as an Arrow table; maps are dicts in rows."""
    arrays = [pa.array([_items(row[name], kind) for row in rows], kind) for name, kind in columns.items()]
    return pa.table(arrays, schema=pa.schema(list(columns.items())))


def _items(value: Any, kind: pa.DataType) -> Any:
    """Return a value with its maps, which may lie at the top only, as pairs."""
    return list(value.items()) if pa.types.is_map(kind) and value is not None else value


def type_text(kind: pa.DataType) -> str:
    """Return a type as Python writes it."""
    if pa.types.is_struct(kind):
        return f"pa.struct([{', '.join(f'({field.name!r}, {type_text(field.type)})' for field in kind)}])"
    if pa.types.is_list(kind):
        return f"pa.list_({type_text(kind.value_type)})"
    if pa.types.is_map(kind):
        return f"pa.map_({type_text(kind.key_type)}, {type_text(kind.item_type)})"
    if pa.types.is_decimal(kind):
        return f"pa.{kind}".replace("decimal", "decimal128", 1).replace("128128", "128")
    return _TYPE_TEXTS.get(str(kind), f"pa.{kind}()")


def sql_type(kind: pa.DataType) -> str:
    """Return a type as SQL writes it."""
    if pa.types.is_struct(kind):
        return f"STRUCT<{', '.join(f'{field.name}: {sql_type(field.type)}' for field in kind)}>"
    if pa.types.is_list(kind):
        return f"ARRAY<{sql_type(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"MAP<{sql_type(kind.key_type)}, {sql_type(kind.item_type)}>"
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    return _SQL_TYPES[str(kind)]


def table_text(rows: list[dict[str, Any]], columns: Mapping[str, pa.DataType]) -> str:
    """Return rows as an expression of Python that makes an Arrow table."""
    schema = ", ".join(f"({name!r}, {type_text(kind)})" for name, kind in columns.items())
    plain = [{name: _items(row[name], kind) for name, kind in columns.items()} for row in rows]
    return f"pa.Table.from_pylist({plain!r}, schema=pa.schema([{schema}]))"
