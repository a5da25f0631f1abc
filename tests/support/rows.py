"""Rows in one plain form, whoever read them: Arrow tables or Spark frames go in, lists of dicts of JSON values out.

Dates, times and timestamps are ISO text (in UTC where they name a moment), decimals text, binary hex, structs and maps
dicts. It's the form of the golden tables' expected files.
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

Row = dict[str, Any]

META_FIELDS = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
PLACE_FIELDS = ("_hoodie_commit_seqno", "_hoodie_file_name")
"""Meta fields that say where a row was put: a writer is free to choose them, so a model can't know them."""


def plain(value: Any) -> Any:
    """A Python value as a JSON value."""
    if isinstance(value, float):
        return str(value) if math.isnan(value) or math.isinf(value) else value
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (bytes, bytearray)):
        return value.hex()
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.timezone.utc).replace(tzinfo=None).isoformat()
    if isinstance(value, (dt.date, dt.time)):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    raise TypeError(f"no plain form for {type(value)}")


def from_arrow(table: pa.Table) -> list[Row]:
    """An Arrow table's rows, in their order."""
    return [plain(row) for row in table.to_pylist(maps_as_pydicts="strict")]


def from_spark(frame: Any) -> list[Row]:
    """A small Spark frame's rows, in the order of `collect`."""
    return [_from_spark(row, frame.schema) for row in frame.collect()]


def _from_spark(value: Any, kind: Any) -> Any:
    if value is None:
        return None
    name = type(kind).__name__
    if name == "StructType":
        return {field.name: _from_spark(value[field.name], field.dataType) for field in kind.fields}
    if name == "ArrayType":
        return [_from_spark(item, kind.elementType) for item in value]
    if name == "MapType":
        return {str(plain(key)): _from_spark(item, kind.valueType) for key, item in value.items()}
    if name == "TimestampType" and value.tzinfo is None:
        return plain(value.astimezone(dt.timezone.utc))  # PySpark gives moments as naive local time
    return plain(value)


def without(rows: Iterable[Row], columns: Iterable[str]) -> list[Row]:
    """The rows without some columns."""
    dropped = set(columns)
    return [{name: value for name, value in row.items() if name not in dropped} for row in rows]


def only(rows: Iterable[Row], columns: Sequence[str]) -> list[Row]:
    """The rows with these columns only."""
    return [{name: row[name] for name in columns} for row in rows]


def text(row: Row) -> str:
    """A row as one line of JSON, the same for equal rows."""
    return json.dumps(row, sort_keys=True)


def assert_same(actual: Iterable[Row], expected: Iterable[Row], ignore: Iterable[str] = (), about: str = "") -> None:
    """Fail unless both hold the same rows, in any order, each as often; show the first that differ."""
    ignore = tuple(ignore)
    got = Counter(text(row) for row in without(actual, ignore))
    want = Counter(text(row) for row in without(expected, ignore))
    if got == want:
        return
    missing, extra = want - got, got - want
    lines = [f"{about or 'rows'}: {got.total()} rows, expected {want.total()}"]
    for title, rows in (("missing", missing), ("not expected", extra)):
        lines += [f"  {title}: {line}" for line in sorted(rows.elements())[:5]]
        if rows.total() > 5:
            lines.append(f"  {title}: {rows.total() - 5} more")
    raise AssertionError("\n".join(lines))
