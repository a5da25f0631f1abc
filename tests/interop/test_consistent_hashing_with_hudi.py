"""Hudi and pudi take turns on a table with consistent hashing: both put every key into the same bucket."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interop.test_metadata_turns import NO_COMPACTION
from support.engines import LocalEngine
from support.hudi import HudiTable
from support.layouts import Layout
from support.pudi_table import PudiTable
from support.rows import PLACE_FIELDS, assert_same, from_arrow, from_spark
from support.trips import REPLACING, SCHEMA, steps

pytestmark = [pytest.mark.interop, pytest.mark.spark]

CONSISTENT = {
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
    "hoodie.bucket.index.num.buckets": "3",
}
VERBS = ("upsert", "upsert", "delete", "insert_overwrite", "delete_partitions")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("version", "key"), [(9, "simple"), (8, "complex"), (6, "simple")])
def test_turns(spark: Any, tmp_path: Path, rounds: Callable[[int], int], version: int, key: str) -> None:
    """After an overwrite of its own Hudi loses what comes later: it keeps the replaced ids. So these are pudi's."""
    path, layout = tmp_path / "trips", Layout(key, "plain", "event", version, "mor")
    options = CONSISTENT | {"hoodie.bucket.index.hash.field": ",".join(layout.key_fields)}
    mine = PudiTable.create(LocalEngine(), path, SCHEMA, layout, options)
    hudi = HudiTable(spark, path, layout.hudi_options("trips") | NO_COMPACTION | options)
    model = layout.model(logs_first=True)
    for number, step in enumerate(steps(17, rounds(8), VERBS)):
        whose = hudi if number % 2 and step.verb not in REPLACING else mine
        model.by_hudi = whose is hudi
        getattr(model, step.verb)(from_arrow(step.data), *whose.write(step.verb, step.data))
        about = f"round {number}: after {step.verb} by {'Hudi' if whose is hudi else 'pudi'}"
        assert_same(mine.snapshot(), model.snapshot(), PLACE_FIELDS, f"{about}, as read by pudi")
        assert_same(from_spark(hudi.frame()), mine.snapshot(), about=f"{about}, as read by Hudi")
    slices = mine.table.file_slices()
    assert len(slices) <= 3 * len(mine.table.partitions())
    keys = mine.table.scan(columns=["_hoodie_partition_path", "_hoodie_record_key"]).to_arrow().to_pylist()
    assert len({tuple(row.values()) for row in keys}) == len(keys)
