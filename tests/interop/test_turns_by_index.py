"""Hudi and pudi take turns on one table by the same index, and both say what the dict model says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pudi
from pudi.format import bucket_of_file_id
from support.engines import Engine, LocalEngine
from support.golden import tables
from support.hudi import HudiTable, hudi_rs_snapshot
from support.layouts import Layout
from support.model_global import GlobalModel
from support.pudi_table import PudiTable
from support.rows import PLACE_FIELDS, Row, assert_same, from_arrow
from support.trips import SCHEMA, steps, table, trip

pytestmark = [pytest.mark.interop, pytest.mark.spark]

BUCKET = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "3"}
BLOOM = {"hoodie.index.type": "BLOOM", "hoodie.index.bloom.num_entries": "1000"}
GLOBAL_SIMPLE = {"hoodie.index.type": "GLOBAL_SIMPLE"}
GLOBAL_BLOOM = {"hoodie.index.type": "GLOBAL_BLOOM", "hoodie.index.bloom.num_entries": "1000"}
CASES = {
    "bucket": (BUCKET, Layout()),
    "bucket-complex": (BUCKET, Layout("complex", "hive", "commit")),
    "bucket-one-field": (BUCKET | {"hoodie.bucket.index.hash.field": "leg"}, Layout("complex", "flat", "event")),
    "bloom": (BLOOM, Layout("complex", "hive", "event")),
    "global-simple": (GLOBAL_SIMPLE, Layout()),
    "global-simple-commit": (GLOBAL_SIMPLE, Layout("complex", "hive", "commit")),
    "global-simple-staying": (
        {**GLOBAL_SIMPLE, "hoodie.simple.index.update.partition.path": "false"},
        Layout("complex", "plain", "event"),
    ),
    "global-bloom": (GLOBAL_BLOOM, Layout("simple", "hive", "event")),
    "global-bloom-staying": (
        {**GLOBAL_BLOOM, "hoodie.bloom.index.update.partition.path": "false"},
        Layout("simple", "plain", "commit"),
    ),
}


def _model(layout: Layout, options: dict[str, str]) -> Any:
    if not options["hoodie.index.type"].startswith("GLOBAL"):
        return layout.model()
    moves = "false" not in options.values()
    return GlobalModel(
        layout.key_fields, layout.partition_fields, layout.ordering, layout.folders == "hive", moves=moves
    )


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("pudi_first", [True, False], ids=["pudi-begins", "hudi-begins"])
def test_ten_rounds(
    spark: Any, engine: Engine, tmp_path: Path, rounds: Callable[[int], int], case: str, pudi_first: bool
) -> None:
    options, layout = CASES[case]
    model = _model(layout, options)
    pudi_table = PudiTable(engine, tmp_path / "trips", options)
    hudi = HudiTable(spark, pudi_table.path, layout.hudi_options("trips") | options)
    if pudi_first:
        PudiTable.create(engine, pudi_table.path, SCHEMA, layout)
    verbs = ("insert", "upsert", "upsert", "delete")
    for number, step in enumerate(steps(71 + pudi_first, rounds(10), verbs)):
        mine = (number % 2 == 0) == pudi_first
        writer: PudiTable | HudiTable = pudi_table if mine else hudi
        if isinstance(model, GlobalModel):
            model.restamps = not mine
        getattr(model, step.verb)(from_arrow(step.data), *writer.write(step.verb, step.data))
        about = f"round {number}: after {step.verb} by {'pudi' if mine else 'Hudi'}, as read by"
        rows = pudi_table.snapshot()
        assert_same(rows, model.snapshot(), PLACE_FIELDS, f"{about} pudi")
        assert_same(hudi.snapshot(), [_as_hudi_shows(row, layout) for row in rows], about=f"{about} Hudi")
    if "false" not in options.values():
        assert_same(hudi_rs_snapshot(pudi_table.path), pudi_table.snapshot(), about="hudi-rs")


def _as_hudi_shows(row: Row, layout: Layout) -> Row:
    """Hudi's Spark reader takes partition columns from the folder: of records that stayed in an old one, the old value.

    pudi shows what is stored, as Hudi's own files have it.
    """
    folder = row["_hoodie_partition_path"].removeprefix("city=")
    return {**row, "city": folder} if layout.partition_fields else row


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "golden", [t for t in tables("cow_v9_") if t.name in {"cow_v9_bucket", "cow_v9_global", "cow_v9_global_bloom"}],
    ids=lambda t: t.name,
)  # fmt: skip
def test_pudi_writes_on_where_hudi_left_off(spark: Any, golden_folder: Path, golden: Any, tmp_path: Path) -> None:
    path = golden.unpack(tmp_path)
    options = {k: v for k, v in golden.expected()["options"].items() if "index" in k and "metadata" not in k}
    written = pudi.Table(str(path), options={**options, "hoodie.metadata.enable": "false"})
    before = written.scan(meta_fields=False).to_arrow()
    cities = sorted(set(before["city"].to_pylist()))
    moved = before.slice(0, 12).set_column(
        before.column_names.index("city"), before.schema.field("city"), [cities[:1] * 12]
    )
    newer = moved.set_column(moved.column_names.index("ts"), moved.schema.field("ts"), [[10**6] * 12])
    done = written.upsert(newer)
    assert done is not None
    after = written.scan(meta_fields=False).to_arrow()
    hudi = HudiTable(spark, path, {})
    assert_same(hudi.snapshot(), from_arrow(written.scan().to_arrow()), about="as Hudi reads it")
    if golden.name != "cow_v9_bucket":
        assert sorted(after["uuid"].to_pylist()) == sorted(before["uuid"].to_pylist())
        assert after["city"].to_pylist().count(cities[0]) >= 12
    else:
        slices = written.file_slices()
        assert len({(s.partition, bucket_of_file_id(s.file_id)) for s in slices}) == len(slices)


def test_hudi_rewrites_the_buckets_that_pudi_began(spark: Any, tmp_path: Path) -> None:
    layout = Layout("simple", "flat", "event")
    made = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, layout)
    made.options = BUCKET
    hudi = HudiTable(spark, made.path, layout.hudi_options("trips") | BUCKET)
    made.write("bulk_insert", table([trip(number, 10) for number in range(30)]))
    groups = {s.file_id for s in made.table.file_slices()}
    hudi.write("upsert", table([trip(number, 20, "Hudi") for number in range(20, 40)]))
    assert {s.file_id for s in made.table.file_slices()} == groups
    made.write("bulk_insert", table([trip(number, 30, "pudi") for number in range(40, 50)]))
    assert {s.file_id for s in made.table.file_slices()} == groups
    assert sorted(row["uuid"] for row in hudi.snapshot()) == [f"k{number:04}" for number in range(50)]
