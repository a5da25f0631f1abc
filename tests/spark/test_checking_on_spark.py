"""A check and a repair whose work is done by a Spark session: the same differences, and nothing left behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from support.damage import list_a_stranger, misplace_a_key, narrow_a_file
from support.trips import SCHEMA, table, trip

pytestmark = pytest.mark.spark

ON = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.global.record.level.index.min.filegroup.count": "2",
    "hoodie.metadata.global.record.level.index.max.filegroup.count": "2",
}


def test_the_same_is_found_and_repaired(tmp_path: Path, spark: Any) -> None:
    path = tmp_path / "t"
    made = pudi.create(path, SCHEMA, record_key="uuid", partition_by="city", ordering="ts", table_type="mor")
    made.insert(table([trip(number, 10) for number in range(12)]))
    made.bulk_insert(table([trip(5, 10)]))  # a key that is there twice
    opened = pudi.Table(path, options=ON)
    opened.upsert(table([trip(number, 20) for number in range(6, 12)]))
    for damage in (list_a_stranger, misplace_a_key, narrow_a_file):
        damage(path)
    here, there = opened.check(), opened.check(spark=spark)
    assert there == here
    assert {each.index for each in here.differences} == {"files", "record_index", "column_stats", "record keys"}
    done = opened.repair(spark=spark)
    assert {each.index for each in done.after.differences} <= {"record keys", "record_index"}  # the key that is twice
    assert "files" in done.built
    for folder in (".temp", ".heartbeat"):
        assert not [file for file in (path / ".hoodie" / folder).rglob("*") if file.is_file()]
    assert isinstance(opened.scan().to_arrow(), pa.Table)
