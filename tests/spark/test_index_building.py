"""Indexes built on Spark hold what those built by the local engine hold, and Spark's reads go by them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import pudi
from support.metadata import metadata_partitions, records
from support.record_index import assert_record_index
from support.trips import SCHEMA, table, trip

pytestmark = pytest.mark.spark

INDEXES: list[dict[str, Any]] = [
    {"kind": "record_index"},
    {"kind": "column_stats", "columns": ["fare", "ts"]},
    {"kind": "bloom_filters"},
    {"kind": "secondary_index", "columns": "rider"},
    {
        "kind": "column_stats",
        "columns": "ts",
        "name": "by_day",
        "expr": "from_unixtime",
        "options": {"format": "yyyy-MM-dd"},
    },
]


def told(path: Path, name: str) -> dict[str, Any]:
    """What an index says, but for the moment at which bloom filters were put there."""
    found: dict[str, Any] = records(path, name)
    for record in found.values():
        if record["BloomFilterMetadata"] is not None:
            del record["BloomFilterMetadata"]["timestamp"]
    return found


def test_every_index_is_the_one_that_the_local_engine_builds(tmp_path: Path, spark: Any) -> None:
    path, other = tmp_path / "trips", tmp_path / "local"
    trips = pudi.create(path, SCHEMA, record_key="uuid", partition_by="city", ordering="ts", table_type="mor")
    trips.bulk_insert(table(trip(n, 10) for n in range(40)))
    trips.upsert(table([*(trip(n, 11, "zoe") for n in (0, 1, 5)), trip(50, 11)]))
    trips.delete(table([trip(7, 0)]))
    shutil.copytree(path, other)
    local = pudi.Table(other)
    for index in INDEXES:
        trips.create_index(**index, spark=spark)
        local.create_index(**index)
    names = metadata_partitions(path)
    assert {"record_index", "column_stats", "bloom_filters", "secondary_index_rider", "expr_index_by_day"} <= {*names}
    assert names == metadata_partitions(other)
    for name in names:
        assert told(path, name) == told(other, name), name
    assert_record_index(path)
    assert trips.check().ok

    rows = trips.scan().to_arrow().to_pylist()
    for column, value in (("uuid", rows[0]["uuid"]), ("rider", "zoe")):
        scan = trips.scan(["uuid", "fare"], where=f"{column} = '{value}'")
        expected = [(row["uuid"], row["fare"]) for row in rows if row[column] == value]
        assert sorted(map(tuple, scan.to_spark(spark).collect())) == sorted(expected)
        assert f"index       {'record_index' if column == 'uuid' else 'secondary_index_rider'} kept" in scan.explain()
