"""Hudi and pudi take turns on merge-on-read tables, and roll back each other's failed writes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.engines import Engine, LocalEngine
from support.hudi import HudiTable, hudi_rs_snapshot
from support.layouts import Layout
from support.pudi_table import PudiTable
from support.rows import PLACE_FIELDS, assert_same, from_arrow
from support.trips import SCHEMA, steps, table, trip

pytestmark = [pytest.mark.interop, pytest.mark.spark]

NO_FILLING = {"hoodie.parquet.small.file.limit": "0"}
BUCKET = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "3"}
BLOCKS = "hoodie.logfile.data.block.format"

TURNS = {
    "v6-event-avro": (Layout("simple", "hive", "event", 6, "mor"), NO_FILLING | {BLOCKS: "avro"}),
    "v9-event-parquet": (Layout("simple", "plain", "event", 9, "mor"), NO_FILLING | {BLOCKS: "parquet"}),
    "v6-commit-parquet": (Layout("complex", "plain", "commit", 6, "mor"), NO_FILLING | {BLOCKS: "parquet"}),
    "v8-commit-avro": (Layout("complex", "flat", "commit", 8, "mor"), NO_FILLING | {BLOCKS: "avro"}),
    "v6-bucket-parquet": (Layout("complex", "hive", "event", 6, "mor"), BUCKET | {BLOCKS: "parquet"}),
    "v9-bucket-avro": (Layout("simple", "plain", "event", 9, "mor"), BUCKET | {BLOCKS: "avro"}),
    "v8-bucket-parquet": (Layout("complex", "flat", "commit", 8, "mor"), BUCKET | {BLOCKS: "parquet"}),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("named", list(TURNS))
def test_turns(spark: Any, tmp_path: Path, rounds: Callable[[int], int], named: str) -> None:
    layout, options = TURNS[named]
    model = layout.model(logs_first="BUCKET" in options.values())
    pudi = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, layout, options)
    # Hudi's batch writer compacts inline unless told otherwise
    hudi = HudiTable(spark, pudi.path, layout.hudi_options("trips") | options | {"hoodie.compact.inline": "false"})
    for number, step in enumerate(steps(51, rounds(7), ("upsert", "upsert", "insert", "delete"))):
        writer: PudiTable | HudiTable = hudi if number % 2 else pudi
        model.by_hudi = writer is hudi
        getattr(model, step.verb)(from_arrow(step.data), *writer.write(step.verb, step.data))
        about = f"round {number}: after {step.verb} by {'Hudi' if number % 2 else 'pudi'}, as read by"
        rows = pudi.snapshot()
        assert_same(rows, model.snapshot(), PLACE_FIELDS, f"{about} pudi")
        assert_same(hudi.snapshot(), rows, about=f"{about} Hudi")
    assert list(pudi.path.rglob(".*.log.*"))
    commit = model.commits[3]
    assert_same(hudi.as_of(commit.instant), pudi.as_of(commit.instant), about="as of, Hudi")
    assert_same(hudi.changes(commit.completion), pudi.changes(commit.completion), about="changes, Hudi")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("version", [9, 6])
def test_hudi_reads_every_verb(spark: Any, engine: Engine, tmp_path: Path, version: int) -> None:
    layout = Layout("simple", "plain", "commit", version, "mor")
    pudi = PudiTable.create(engine, tmp_path / "trips", SCHEMA, layout, {BLOCKS: "avro"})
    hudi = HudiTable(spark, pudi.path, layout.hudi_options("trips"))
    on = {"spark": spark} if engine.name != "local" else {}
    pudi.write("bulk_insert", table(trip(n, 10) for n in range(12)))
    pudi.write("upsert", table(trip(n, 20, "bob") for n in range(6)))
    pudi.table.update({"fare": "fare + 100"}, "rider = 'bob'", **on)
    pudi.table.delete(where="uuid = 'k0002' OR uuid = 'k0009'", **on)
    assert_same(hudi.snapshot(), pudi.snapshot(), about="update and delete")
    pudi.write("insert_overwrite", table([trip(0, 30, "over")]))
    pudi.write("delete_partitions", table([trip(1, 0)]))
    pudi.write("upsert", table([trip(0, 40, "on"), trip(5, 40, "on"), trip(60, 40, "new")]))
    assert_same(hudi.snapshot(), pudi.snapshot(), about="overwrites")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("version", [6, 9])
def test_each_rolls_back_the_others_failed_write(spark: Any, tmp_path: Path, version: int) -> None:
    layout = Layout("simple", "flat", "event", version, "mor")
    pudi, model = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, layout, NO_FILLING), layout.model()
    hudi = HudiTable(spark, pudi.path, layout.hudi_options("trips") | NO_FILLING)
    eager = PudiTable(LocalEngine(), pudi.path, NO_FILLING | {"hoodie.clean.failed.writes.policy": "EAGER"})
    timeline = pudi.path / ".hoodie" / ("timeline" if version > 6 else "")
    data = table(trip(number, 10) for number in range(5))
    model.insert(from_arrow(data), *pudi.write("insert", data))
    data = table(trip(number, 15, "seen") for number in range(2))
    model.upsert(from_arrow(data), *pudi.write("upsert", data))
    for round_number, (dying, next_one) in enumerate([(pudi, hudi), (hudi, eager)]):
        before = {file for file in pudi.path.rglob(".*.log.*") if file.suffix != ".crc"}
        instant, _ = dying.write("upsert", table(trip(number, 100, "lost") for number in range(5)))
        (completed,) = [f for f in timeline.iterdir() if f.name.startswith(instant) and f.name.endswith("deltacommit")]
        completed.unlink()
        lost = {file for file in pudi.path.rglob(".*.log.*") if file.suffix != ".crc"} - before
        assert lost
        markers = pudi.path / ".hoodie" / ".temp" / instant
        shutil.rmtree(markers, ignore_errors=True)
        markers.mkdir(parents=True)
        for file in lost:
            (markers / f"{file.name}.marker.{'APPEND' if version == 6 else 'CREATE'}").touch()
        assert_same(pudi.snapshot(), model.snapshot(), PLACE_FIELDS, "while it's pending")
        data = table(trip(number, 30 + round_number, "next") for number in range(3, 7))
        model.upsert(from_arrow(data), *next_one.write("upsert", data))
        assert_same(pudi.snapshot(), model.snapshot(), PLACE_FIELDS, "afterwards")
        assert_same(hudi.snapshot(), pudi.snapshot(), about="afterwards, Hudi")
        assert not [f for f in timeline.iterdir() if f.name.startswith(instant)]
        assert all(file.exists() == (version == 6) for file in lost)


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("blocks", ["avro", "parquet"])
def test_hudi_rs_reads_them(tmp_path: Path, version: int, blocks: str) -> None:
    layout = Layout("simple", "plain", "event", version, "mor")
    pudi = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, layout, NO_FILLING | {BLOCKS: blocks})
    pudi.write("insert", table(trip(n, 10) for n in range(8)))
    pudi.write("upsert", table([*(trip(n, 20, "bob") for n in range(5, 10)), trip(1, 5, "late")]))
    pudi.write("delete", table([trip(6, 0), trip(2, 0)]))
    assert_same(hudi_rs_snapshot(pudi.path), pudi.snapshot())
