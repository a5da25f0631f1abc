"""Secondary indexes that Hudi makes over columns of other types than text: pudi finds every record by its value."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from support.hudi import HudiTable
from support.layouts import Layout

pytestmark = [pytest.mark.interop, pytest.mark.spark]

COLUMNS: dict[str, tuple[pa.DataType, list[Any], str]] = {
    "day": (pa.date32(), [dt.date(2026, 11, 22), dt.date(1905, 1, 2), None, dt.date(1970, 1, 1)], "DATE '{}'"),
    "moment": (
        pa.timestamp("us", "UTC"),
        [
            dt.datetime(2026, 11, 22, 7, 30, 0, 125, dt.timezone.utc),
            dt.datetime(1931, 1, 2, tzinfo=dt.timezone.utc),
            None,
            dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc),
        ],
        "TIMESTAMP '{}'",
    ),
    "wide": (pa.float64(), [0.0, -0.0, 1.5, -12.34, 1234567.0, None, 0.001], "{}"),
    "narrow": (pa.float32(), [0.0, -0.0, 1.5, -12.375, 123456.0, None], "{}"),
    "number": (pa.int32(), [0, -7, None, 2147483647], "{}"),
}
"""Type, values, and how a value is said in SQL."""

ON = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.compact.inline": "false",
}


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("column", COLUMNS)
def test_records_are_found_by_their_values(spark: Any, tmp_path: Path, column: str) -> None:
    kind, values, said = COLUMNS[column]
    path, layout = tmp_path / "values", Layout("simple", "flat", "event", 9, "mor")
    hudi = HudiTable(spark, path, layout.hudi_options("values") | ON)
    first = [(f"k{n}", 1, value) for n, value in enumerate(values)]
    second = [(f"k{n}", 2, value) for n, value in enumerate([*values[1:], values[0]])][::2]
    schema = pa.schema([("uuid", pa.string()), ("ts", pa.int64()), (column, kind)])
    hudi.write("bulk_insert", _rows(first, schema), "overwrite")
    name = f"secondary_{column}"
    spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    spark.sql("SET hoodie.write.lock.provider=org.apache.hudi.client.transaction.lock.InProcessLockProvider")
    spark.sql(f"CREATE INDEX idx ON {name} ({column})")
    spark.sql("RESET hoodie.write.lock.provider")
    spark.sql(f"DROP TABLE {name}")
    hudi.write("upsert", _rows(second, schema))  # to log files
    now = {key: value for key, _, value in [*first, *second]}
    trips = pudi.Table(path)
    for value in {each for each in values if each is not None}:
        scan = trips.scan(["uuid"], where=f"{column} = {said.format(value)}")
        assert sorted(scan.to_arrow()["uuid"].to_pylist()) == sorted(key for key, each in now.items() if each == value)
        assert "index       secondary_index_idx kept" in scan.explain(), value
    assert trips.check().ok


def _rows(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_arrays(
        [pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), schema, strict=True)],
        schema=schema,
    )
