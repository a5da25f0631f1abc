"""Ten rounds of turns on a table with every partition of a metadata table that both know how to keep.

After each round Hudi's validation, `check()`, the index as either reads it, and both full scans agree.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pudi
from support.engines import LocalEngine
from support.hudi import HudiTable
from support.layouts import Layout
from support.metadata import assert_listing, metadata_partitions
from support.model_global import GlobalModel
from support.pudi_table import PudiTable
from support.record_index import assert_record_index
from support.rows import PLACE_FIELDS, assert_same, from_arrow, from_spark
from support.trips import steps
from support.validation import assert_hudi_finds_no_difference, assert_hudi_reads_the_record_index

pytestmark = [pytest.mark.interop, pytest.mark.spark]

ON = {"hoodie.metadata.enable": "true"}
INDEXED = {
    **ON,
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "3",
    "hoodie.metadata.record.index.max.filegroup.count": "3",
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.record.index.update.partition.path": "true",
}
ITS = {"hoodie.compact.inline": "false"}
"""Hudi's: batches to merge-on-read tables else end with a compaction, a commit more."""

PARTITIONS = {"files", "column_stats", "partition_stats", "bloom_filters", "record_index"}
WHERES = ("fare > 25", "ts >= 1300", "uuid = 'k0007'", "uuid IN ('k0003', 'k0031', 'none')", "city = 'nyc'")
LAYOUTS = [Layout("simple", "plain", "event", version, kind) for version in (9, 8, 6) for kind in ("cow", "mor")]


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_ten_rounds(spark: Any, tmp_path: Path, layout: Layout) -> None:
    """Version 6 has the listing alone, the others everything; the dict model judges copy-on-write tables."""
    options = ON if layout.version == 6 else INDEXED
    indexed = layout.version > 6
    mine = PudiTable(LocalEngine(), tmp_path / "trips", options)
    hudi = HudiTable(spark, mine.path, layout.hudi_options("trips") | options | ITS)
    model: Any = None
    if layout.kind == "cow" or not indexed:
        model = layout.model()
    if indexed and layout.kind == "cow":
        model = GlobalModel(layout.key_fields, layout.partition_fields, layout.ordering, moves=True)
    for number, step in enumerate(steps(57 + layout.version, 10, ("insert", "upsert", "upsert", "delete"))):
        by_pudi = number % 2 == 1  # Hudi begins: it makes all partitions at once
        if isinstance(model, GlobalModel):
            model.restamps = not by_pudi
        done = (mine if by_pudi else hudi).write(step.verb, step.data)
        about = f"round {number}: after {step.verb} by {'pudi' if by_pudi else 'Hudi'}"
        rows = mine.snapshot()
        if model is not None:
            getattr(model, step.verb)(from_arrow(step.data), *done)
            assert_same(rows, model.snapshot(), PLACE_FIELDS, about)
        found = pudi.Table(mine.path).check()
        assert found.ok, f"{about}: {found}"
        assert_listing(mine.path)
        assert_hudi_finds_no_difference(spark, mine.path)
        assert_same(from_spark(hudi.frame(**ON)), rows, about=f"{about}, read by Hudi")
        if indexed:
            assert set(metadata_partitions(mine.path)) == PARTITIONS
            assert_record_index(mine.path)
            assert_hudi_reads_the_record_index(spark, mine.path)
    for where in WHERES:
        wanted = from_arrow(pudi.Table(mine.path).scan(where=where).to_arrow())
        skipping = hudi.frame(**ON, **{"hoodie.enable.data.skipping": "true"})
        assert_same(from_spark(skipping.where(where)), wanted, about=f"Hudi where {where}")
