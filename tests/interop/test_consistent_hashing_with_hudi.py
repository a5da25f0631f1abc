"""Hudi and pudi take turns on a table with consistent hashing: both put every key into the same bucket."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interop.test_metadata_turns import NO_COMPACTION
from support.engines import LocalEngine
from support.hudi import HudiTable
from support.layouts import Layout
from support.pudi_table import PudiTable
from support.rows import PLACE_FIELDS, assert_same, from_arrow, from_spark
from support.trips import SCHEMA, steps

pytestmark = [pytest.mark.interop, pytest.mark.spark]

CONSISTENT = {
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
    "hoodie.bucket.index.num.buckets": "3",
    "hoodie.bucket.index.hash.field": "uuid",
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("version", [9, 8, 6])
def test_turns(spark: Any, tmp_path: Path, version: int) -> None:
    path, layout = tmp_path / "trips", Layout("simple", "plain", "event", version, "mor")
    mine = PudiTable.create(LocalEngine(), path, SCHEMA, layout, CONSISTENT)
    hudi = HudiTable(spark, path, layout.hudi_options("trips") | NO_COMPACTION | CONSISTENT)
    model = layout.model(logs_first=True)
    for number, step in enumerate(steps(17, 8, ("upsert", "upsert", "delete"))):
        whose = hudi if number % 2 else mine
        getattr(model, step.verb)(from_arrow(step.data), *whose.write(step.verb, step.data))
        about = f"round {number}: after {step.verb} by {'Hudi' if number % 2 else 'pudi'}"
        assert_same(mine.snapshot(), model.snapshot(), PLACE_FIELDS, f"{about}, as read by pudi")
        assert_same(from_spark(hudi.frame()), mine.snapshot(), about=f"{about}, as read by Hudi")
    slices = mine.table.file_slices()
    assert len(slices) <= 3 * len(mine.table.partitions())
    keys = mine.table.scan(columns=["_hoodie_partition_path", "uuid"]).to_arrow().to_pylist()
    assert len({(row["_hoodie_partition_path"], row["uuid"]) for row in keys}) == len(keys)
