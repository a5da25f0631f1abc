"""Hudi and pudi take turns on one table by its record index, which either has made; it's what a full scan finds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.engines import LocalEngine
from support.hudi import HudiTable
from support.layouts import Layout
from support.model_global import GlobalModel
from support.pudi_table import PudiTable
from support.record_index import assert_record_index
from support.rows import PLACE_FIELDS, assert_same, from_arrow
from support.trips import CITIES, SCHEMA, steps, table, trip
from support.validation import assert_hudi_finds_no_difference, assert_hudi_reads_the_record_index

pytestmark = [pytest.mark.interop, pytest.mark.spark]

METADATA = {"hoodie.metadata.enable": "true"}
GLOBAL = {
    **METADATA,
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "3",
    "hoodie.metadata.record.index.max.filegroup.count": "3",
}
BY_PARTITION = {
    **METADATA,
    "hoodie.metadata.index.column.stats.enable": "false",  # beside which Hudi's own upserts fail, on its own tables too
    "hoodie.metadata.record.level.index.enable": "true",
}
MOVES = {"hoodie.record.index.update.partition.path": "true"}
CASES = {
    "moving-v8": ({**GLOBAL, "hoodie.index.type": "RECORD_INDEX", **MOVES}, Layout("complex", "plain", "event", 8)),
    "moving": ({**GLOBAL, "hoodie.index.type": "RECORD_INDEX", **MOVES}, Layout("simple", "hive", "commit")),
    "by-partition": ({**BY_PARTITION, "hoodie.index.type": "RECORD_LEVEL_INDEX"}, Layout("simple", "plain", "event")),
    "staying": ({**GLOBAL, "hoodie.index.type": "RECORD_INDEX"}, Layout("simple", "plain", "event")),
}


def in_one_place(batch: pa.Table) -> pa.Table:
    """A batch without the rows of a key in other partitions than its first one's.

    Hudi 1.2 joins what it finds in a record index by partition to the batch by record key alone
    (HoodieIndexUtils.tagGlobalLocationBackToRecords): a key that comes for two partitions at once lands in one.
    """
    first: dict[str, str] = {}
    kept = [first.setdefault(row["uuid"], row["city"]) == row["city"] for row in batch.to_pylist()]
    return batch.filter(pa.array(kept))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    "pudi_first", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["pudi-begins", "hudi-begins"]
)
def test_eight_rounds(spark: Any, tmp_path: Path, rounds: Callable[[int], int], case: str, pudi_first: bool) -> None:
    options, layout = CASES[case]
    over_all = "hoodie.metadata.global.record.level.index.enable" in options
    model: Any = layout.model()
    if over_all:
        described = layout.key_fields, layout.partition_fields, layout.ordering, layout.folders == "hive"
        model = GlobalModel(*described, moves="hoodie.record.index.update.partition.path" in options)
    mine = PudiTable(LocalEngine(), tmp_path / "trips", options)
    hudi = HudiTable(spark, mine.path, layout.hudi_options("trips") | options)
    if pudi_first:
        PudiTable.create(LocalEngine(), mine.path, SCHEMA, layout)
    for number, step in enumerate(steps(83 + pudi_first, rounds(8), ("insert", "upsert", "upsert", "delete"))):
        by_pudi = (number % 2 == 0) == pudi_first
        model.by_hudi = not by_pudi
        if over_all:
            model.restamps = not by_pudi
        writer: PudiTable | HudiTable = mine if by_pudi else hudi
        data = step.data if over_all or by_pudi else in_one_place(step.data)
        getattr(model, step.verb)(from_arrow(data), *writer.write(step.verb, data))
        about = f"round {number}: after {step.verb} by {'pudi' if by_pudi else 'Hudi'}"
        assert_same(mine.snapshot(), model.snapshot(), PLACE_FIELDS, about)
        assert len(hudi.snapshot()) == len(mine.snapshot()), about
        assert_record_index(mine.path, partitioned=not over_all)
    assert_hudi_finds_no_difference(spark, mine.path)
    assert_hudi_reads_the_record_index(spark, mine.path)


@pytest.mark.slow
def test_hudi_continues_a_table_with_repeated_keys(spark: Any, tmp_path: Path) -> None:
    """Hudi reads it and writes to it, and leaves the mark by which pudi's reads find each copy."""
    layout = Layout("simple", "plain", "event")
    options = {**GLOBAL, "hoodie.index.type": "SIMPLE"}
    mine = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, layout, options)
    hudi = HudiTable(spark, mine.path, layout.hudi_options("trips") | options)
    mine.write("bulk_insert", table(trip(n, 10) for n in range(4)))
    mine.write("upsert", table([trip(1, 20, city="rome")]))
    writers: tuple[PudiTable | HudiTable, ...] = (hudi, mine, hudi)
    for number, writer in enumerate(writers):
        writer.write("upsert", table([trip(2, 30 + number), trip(3, 30)]))
        assert len(hudi.snapshot()) == len(mine.snapshot()) == 5
        found = mine.table.scan(where="uuid = 'k0001'")
        assert sorted(found.to_arrow()["city"].to_pylist()) == ["rome", CITIES[1]]
        assert "record_index not used" in found.explain()
