"""Several ordering columns: a null in one of them counts alike in records, in deletes and in their log files."""

from __future__ import annotations

import datetime as dt
import decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
KINDS: dict[str, tuple[pa.DataType, Any]] = {
    "boolean": (pa.bool_(), False),
    "int": (pa.int32(), 0),
    "date": (pa.date32(), EPOCH.date()),
    "long": (pa.int64(), 0),
    "double": (pa.float64(), 0.0),
    "text": (pa.string(), ""),
    "decimal": (pa.decimal128(10, 2), decimal.Decimal("0.00")),
    "timestamp": (pa.timestamp("us", "UTC"), EPOCH),
}


@pytest.mark.sampled(12)
@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("table_type", ["cow", "mor"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_null_in_one_of_them(tmp_path: Path, kind: str, table_type: str, version: int) -> None:
    """It is below every value, but equals 0 in a 32-bit column and 1970-01-01 in one of days."""
    value = KINDS[kind][1]
    schema = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", KINDS[kind][0])])
    options = {"hoodie.write.table.version": str(version)}
    table = pudi.create(
        tmp_path / "t", schema, record_key="id", ordering=["ts", "part"], table_type=table_type, options=options
    )
    stored = {"deleted": (5, None), "marked": (5, None), "lower": (4, value), "equal": (5, value), "left": (5, None)}

    def rows(given: dict[str, tuple[Any, ...]]) -> pa.Table:
        return pa.Table.from_pylist([{"id": k, "ts": ts, "part": part} for k, (ts, part) in given.items()], schema)

    def found() -> list[str]:
        return sorted(table.scan(columns=["id"]).to_arrow()["id"].to_pylist())

    table.bulk_insert(rows(stored))
    marks = rows(dict.fromkeys(("marked", "lower", "equal"), (5, None)))
    table.upsert(marks.append_column("_hoodie_is_deleted", pa.array([True] * 3)))
    table.delete(pa.table({"id": ["deleted"]}))
    expected = ["left"] if kind in {"int", "date"} else ["equal", "left"]
    assert found() == expected
    if table_type == "mor":
        assert table.compact()
        assert found() == expected
