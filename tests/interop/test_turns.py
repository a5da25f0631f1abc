"""Hudi and pudi take turns on one table: ten rounds of random writes, and both say what the dict model says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.disk import base_files
from support.engines import Engine, LocalEngine
from support.hudi import HudiTable, hudi_rs_snapshot
from support.layouts import ALL, FEW, Layout
from support.pudi_table import PudiTable
from support.rows import PLACE_FIELDS, assert_same, from_arrow
from support.trips import SCHEMA, steps, table, trip

pytestmark = [pytest.mark.interop, pytest.mark.spark]

BLOOM = {"hoodie.index.type": "BLOOM", "hoodie.index.bloom.num_entries": "1000"}
"""Both look up keys by bloom filters: Hudi's index fails on files that have none, so pudi is told to write them."""


def _take_turns(
    spark: Any, engine: Engine, path: Path, layout: Layout, *, seed: int, pudi_first: bool, rounds: int = 10
) -> None:
    model = layout.model()
    pudi = PudiTable(engine, path, BLOOM)
    hudi = HudiTable(spark, path, layout.hudi_options(path.name) | BLOOM)
    if pudi_first:
        PudiTable.create(engine, path, SCHEMA, layout)
    for number, step in enumerate(steps(seed, rounds)):
        mine = (number % 2 == 0) == pudi_first
        writer: PudiTable | HudiTable = pudi if mine else hudi
        getattr(model, step.verb)(from_arrow(step.data), *writer.write(step.verb, step.data))
        about = f"round {number}: after {step.verb} by {'pudi' if mine else 'Hudi'}, as read by"
        rows = pudi.snapshot()
        assert_same(rows, model.snapshot(), PLACE_FIELDS, f"{about} pudi")
        assert_same(hudi.snapshot(), rows, about=f"{about} Hudi")
    assert_same(hudi_rs_snapshot(path), pudi.snapshot(), about="hudi-rs")
    for commit in model.commits[1::4]:
        assert_same(pudi.as_of(commit.instant), model.as_of(commit.instant), PLACE_FIELDS, "as of")
        assert_same(hudi.as_of(commit.instant), pudi.as_of(commit.instant), about="as of, Hudi")
        assert_same(pudi.changes(commit.completion), model.changes(commit.completion), PLACE_FIELDS, "changes")
        assert_same(hudi.changes(commit.completion), pudi.changes(commit.completion), about="changes, Hudi")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("pudi_first", [True, False], ids=["pudi-begins", "hudi-begins"])
def test_ten_rounds(spark: Any, engine: Engine, tmp_path: Path, rounds: Callable[[int], int], pudi_first: bool) -> None:
    layout = FEW[0] if pudi_first else FEW[1]
    _take_turns(
        spark, engine, tmp_path / "trips", layout, seed=21 + pudi_first, pudi_first=pudi_first, rounds=rounds(10)
    )


@pytest.mark.slow
@pytest.mark.parametrize("layout", ALL, ids=str)
@pytest.mark.parametrize("pudi_first", [True, False], ids=["pudi-begins", "hudi-begins"])
def test_ten_rounds_in_every_layout(
    spark: Any, engine: Engine, tmp_path: Path, layout: Layout, pudi_first: bool
) -> None:
    for seed in range(3):
        path = tmp_path / f"trips{seed}"
        _take_turns(spark, engine, path, layout, seed=seed, pudi_first=pudi_first)


def test_hudi_fills_and_rewrites_pudis_files(spark: Any, tmp_path: Path) -> None:
    """One file group through both hands: each finds the other's keys and none makes a second file group."""
    layout = Layout("simple", "flat", "event")
    pudi = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, layout, BLOOM)
    hudi = HudiTable(spark, pudi.path, layout.hudi_options("trips") | BLOOM)
    pudi.write("insert", table([trip(number, 10) for number in range(10)]))
    hudi.write("upsert", table([trip(number, 20, "Hudi") for number in range(5, 15)]))
    pudi.write("upsert", table([trip(number, 30, "pudi") for number in range(12, 20)]))
    hudi.write("insert", table([trip(number, 30, "Hudi") for number in range(20, 22)]))
    assert len({file.name.split("_")[0] for file in base_files(pudi.path)}) == 1
    assert {row["uuid"]: row["rider"] for row in pudi.snapshot()} == {
        f"k{number:04}": "ann" if number < 5 else "Hudi" if number < 12 or number >= 20 else "pudi"
        for number in range(22)
    }


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("index", ["SIMPLE", "BLOOM", "GLOBAL_SIMPLE"])
def test_hudi_upserts_by_each_index(spark: Any, tmp_path: Path, index: str) -> None:
    layout = Layout("complex", "hive", "event")
    options = BLOOM if index == "BLOOM" else {}
    pudi, model = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, layout, options), layout.model()
    hudi = HudiTable(spark, pudi.path, layout.hudi_options("trips") | {"hoodie.index.type": index})
    data = table([trip(number, 10) for number in range(20)])
    model.bulk_insert(from_arrow(data), *pudi.write("bulk_insert", data))
    for verb in ("upsert", "delete"):
        data = table([trip(number, 20, "Hudi") for number in range(15, 25)])
        getattr(model, verb)(from_arrow(data), *hudi.write(verb, data))
        assert_same(pudi.snapshot(), model.snapshot(), PLACE_FIELDS, f"{verb} by {index}")


@pytest.mark.slow
def test_a_metadata_table_is_taken_away_on_request(spark: Any, tmp_path: Path) -> None:
    """Hudi's defaults build a metadata table; pudi takes it away when told to, and Hudi builds it anew."""
    layout = Layout()
    pudi, model = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, layout), layout.model()
    hudi = HudiTable(spark, pudi.path, layout.hudi_options("trips") | {"hoodie.metadata.enable": "true"})
    with_metadata = HudiTable(spark, pudi.path)
    data = table([trip(number, 10) for number in range(20)])
    model.bulk_insert(from_arrow(data), *pudi.write("bulk_insert", data))
    data = table([trip(number, 20, "Hudi") for number in range(15, 25)])
    model.upsert(from_arrow(data), *hudi.write("upsert", data))
    assert_same(pudi.snapshot(), model.snapshot(), PLACE_FIELDS)
    data = table([trip(number, 30, "pudi") for number in range(20, 30)])
    off = {"hoodie.metadata.enable": "false"}
    result: Any = pudi.table.upsert(data, options=off)
    model.upsert(from_arrow(data), result.instant, result.completion_time)
    data = table([trip(number, 40, "pudi") for number in range(28, 32)])
    model.upsert(from_arrow(data), *pudi.write("upsert", data))  # once off, it stays off
    assert pudi.table.config.metadata_partitions == ()
    assert_same(pudi.snapshot(), model.snapshot(), PLACE_FIELDS)
    frame = spark.read.format("hudi").option("hoodie.metadata.enable", "true").load(str(pudi.path))
    assert frame.count() == len(model.snapshot())
    data = table([trip(number, 50, "Hudi again") for number in range(4)])
    model.upsert(from_arrow(data), *hudi.write("upsert", data))  # builds it anew, from pudi's files
    assert_same(with_metadata.snapshot(), model.snapshot(), PLACE_FIELDS)
    assert spark.read.format("hudi").option("hoodie.metadata.enable", "true").load(str(pudi.path)).count() == len(
        model.snapshot()
    )


def test_hudi_rolls_back_a_write_of_pudis_that_died(spark: Any, tmp_path: Path) -> None:
    """What a killed pudi leaves behind doesn't keep Hudi from writing, and is gone afterwards."""
    layout = Layout("simple", "flat", "event")
    pudi, model = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, layout), layout.model()
    data = table([trip(number, 10) for number in range(5)])
    model.insert(from_arrow(data), *pudi.write("insert", data))
    instant, _ = pudi.write("upsert", table([trip(number, 20, "lost") for number in range(3, 8)]))
    timeline = pudi.path / ".hoodie" / "timeline"
    for file in timeline.glob(f"{instant}_*.commit"):
        file.unlink()  # as if killed just before the commit
    lost = base_files(pudi.path)[-1]
    markers = pudi.path / ".hoodie" / ".temp" / instant
    markers.mkdir(parents=True, exist_ok=True)
    (markers / f"{lost.name}.marker.MERGE").touch()
    hudi = HudiTable(spark, pudi.path, layout.hudi_options("trips"))
    data = table([trip(number, 30, "Hudi") for number in range(4, 9)])
    model.upsert(from_arrow(data), *hudi.write("upsert", data))
    assert_same(pudi.snapshot(), model.snapshot(), PLACE_FIELDS)
    assert not lost.exists()
    assert not list(timeline.glob(f"{instant}*"))
