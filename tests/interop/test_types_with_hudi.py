"""Every column type, nested ones too: written by one, read and upserted by the other."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from support.engines import Engine
from support.hudi import HudiTable, hudi_rs_snapshot, table_options
from support.model import Model
from support.pudi_table import PudiTable
from support.rows import PLACE_FIELDS, assert_same, from_arrow

pytestmark = [pytest.mark.interop, pytest.mark.spark]

PLACE = pa.struct([("name", pa.string()), ("spot", pa.struct([("x", pa.float64()), ("tags", pa.list_(pa.string()))]))])

FIELDS: list[tuple[str, pa.DataType]] = [
    ("id", pa.int64()),
    ("at", pa.timestamp("us", tz="UTC")),
    ("flag", pa.bool_()),
    ("small", pa.int32()),
    ("single", pa.float32()),
    ("double", pa.float64()),
    ("text", pa.string()),
    ("bytes", pa.binary()),
    ("day", pa.date32()),
    ("local", pa.timestamp("us")),
    ("price", pa.decimal128(10, 2)),
    ("big", pa.decimal128(38, 10)),
    ("place", PLACE),
    ("numbers", pa.list_(pa.int32())),
    ("places", pa.list_(PLACE)),
    ("counts", pa.map_(pa.string(), pa.int64())),
    ("by_name", pa.map_(pa.string(), PLACE)),
    ("part", pa.string()),
]
SCHEMA = pa.schema(FIELDS)


def _place(number: int) -> dict[str, Any]:
    return {"name": f"place {number} é", "spot": {"x": number / 8, "tags": [f"t{number}", "z"]}}


def record(number: int, second: int) -> dict[str, Any]:
    """One row; every fifth has nulls wherever it can."""
    row: dict[str, Any] = {
        "id": number,
        "at": dt.datetime(2026, 1, 2, 3, 4, second, 123456, tzinfo=dt.timezone.utc),
        "flag": number % 2 == 0,
        "small": -number,
        "single": number / 4,
        "double": number / 3,
        "text": f"väl {number}",
        "bytes": bytes([number % 256, 255]),
        "day": dt.date(1969, 12, 25) + dt.timedelta(days=number),
        "local": dt.datetime(1969, 12, 31, 23, 59, 59, 999999) + dt.timedelta(hours=number),
        "price": Decimal(number * 101) / 100,
        "big": Decimal(-number) * Decimal("123456789012345678.0123456789"),
        "place": _place(number),
        "numbers": list(range(number % 4)),
        "places": [_place(number), _place(number + 1)],
        "counts": {"a": number, "b": second},
        "by_name": {"home": _place(number)},
        "part": f"p{number % 2}",
    }
    if number % 5 == 0:
        row |= {name: None for name in row if name not in {"id", "at", "part"}}
    return row


def records(numbers: range, second: int) -> pa.Table:
    return pa.Table.from_pylist([record(number, second) for number in numbers], schema=SCHEMA)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("hudi_first", [False, True], ids=["pudi-begins", "hudi-begins"])
def test_types_through_both_hands(spark: Any, engine: Engine, tmp_path: Path, hudi_first: bool) -> None:
    path, model = tmp_path / "types", Model(["id"], ["part"], "at")
    hudi = HudiTable(spark, path, table_options("types", "id", "part", "at"))
    mine = PudiTable(engine, path)
    if not hudi_first:
        pudi.create(str(path), SCHEMA, record_key="id", partition_by="part", ordering="at", table_type="cow")
    writers: list[PudiTable | HudiTable] = [hudi, mine, hudi] if hudi_first else [mine, hudi, mine]
    writes = [("bulk_insert", range(20), 10), ("upsert", range(10, 25), 20), ("upsert", range(5, 12), 30)]
    for writer, (verb, numbers, second) in zip(writers, writes, strict=True):
        data = records(numbers, second)
        getattr(model, verb)(from_arrow(data), *writer.write(verb, data))
        about = f"{verb} by {type(writer).__name__}, read by"
        assert_same(mine.snapshot(), model.snapshot(), PLACE_FIELDS, f"{about} pudi")
        assert_same(hudi.snapshot(), mine.snapshot(), about=f"{about} Hudi")
    assert_same(hudi.changes(model.commits[0].completion), mine.changes(model.commits[0].completion), about="changes")
    kinds = {field.name: field.type for field in mine.table.scan(meta_fields=False).schema}
    assert kinds == {field.name: field.type for field in SCHEMA}
    assert {f.name: f.dataType for f in hudi.frame().schema} == {
        f.name: f.dataType for f in mine.table.scan().to_spark(spark).schema
    }


def test_hudi_rs_reads_the_types_it_knows(tmp_path: Path) -> None:
    """All but timestamps without a zone, at which hudi-rs 0.5 gives up, in tables of Hudi's own too."""
    data = records(range(20), 10).drop_columns(["local"])
    made = pudi.create(str(tmp_path / "types"), data.schema, record_key="id", partition_by="part", table_type="cow")
    made.upsert(data)
    assert_same(hudi_rs_snapshot(tmp_path / "types"), from_arrow(made.scan().to_arrow()))
