"""Hudi and pudi take turns on tables of versions 6 and 8, and neither upgrades them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pudi
from pudi.format import decode_table_properties
from support.disk import base_files
from support.engines import Engine, LocalEngine
from support.hudi import HudiTable, hudi_rs_snapshot
from support.layouts import Layout, pairwise
from support.pudi_table import PudiTable
from support.rows import PLACE_FIELDS, assert_same, from_arrow
from support.trips import SCHEMA, Step, steps, table, trip

pytestmark = [pytest.mark.interop, pytest.mark.spark]

BLOOM = {"hoodie.index.type": "BLOOM", "hoodie.index.bloom.num_entries": "1000"}

LAYOUTS = [
    Layout("simple", "plain", "event", 6),
    Layout("complex", "hive", "commit", 6),
    Layout("simple", "flat", "event", 8),
]
PRODUCT = [
    Layout(*values)
    for values in pairwise(["simple", "complex"], ["plain", "hive", "flat"], ["event", "commit"], [6, 8])
]


def _properties(path: Path) -> dict[str, str]:
    return decode_table_properties((path / ".hoodie" / "hoodie.properties").read_bytes())


def _take_turns(
    spark: Any, engine: Engine, path: Path, layout: Layout, *, seed: int, pudi_first: bool, rounds: int
) -> None:
    model = layout.model()
    mine = PudiTable(engine, path, BLOOM)
    hudi = HudiTable(spark, path, layout.hudi_options("trips") | BLOOM)
    if pudi_first:
        PudiTable.create(engine, path, SCHEMA, layout)
    for number, step in enumerate(steps(seed, rounds)):
        is_mine = (number % 2 == 0) == pudi_first
        writer: PudiTable | HudiTable = mine if is_mine else hudi
        getattr(model, step.verb)(from_arrow(step.data), *writer.write(step.verb, step.data))
        about = f"round {number}: after {step.verb} by {'pudi' if is_mine else 'Hudi'}, as read by"
        rows = mine.snapshot()
        assert_same(rows, model.snapshot(), PLACE_FIELDS, f"{about} pudi")
        assert_same(hudi.snapshot(), rows, about=f"{about} Hudi")
        assert _properties(path)["hoodie.table.version"] == str(layout.version)
    if layout.version == 6:
        assert not list((path / ".hoodie").glob("timeline/*commit*"))
    assert_same(hudi_rs_snapshot(path), mine.snapshot(), about="hudi-rs")
    for commit in model.commits[1::2]:
        assert_same(mine.as_of(commit.instant), model.as_of(commit.instant), PLACE_FIELDS, "as of")
        assert_same(hudi.as_of(commit.instant), mine.as_of(commit.instant), about="as of, Hudi")
        assert_same(mine.changes(commit.completion), model.changes(commit.completion), PLACE_FIELDS, "changes")
        assert_same(hudi.changes(commit.completion), mine.changes(commit.completion), about="changes, Hudi")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("pudi_first", [True, False], ids=["pudi-begins", "hudi-begins"])
def test_five_rounds(spark: Any, tmp_path: Path, layout: Layout, pudi_first: bool) -> None:
    _take_turns(spark, LocalEngine(), tmp_path / "trips", layout, seed=61 + pudi_first, pudi_first=pudi_first, rounds=5)


@pytest.mark.slow
@pytest.mark.parametrize("layout", PRODUCT, ids=str)
@pytest.mark.parametrize("pudi_first", [True, False], ids=["pudi-begins", "hudi-begins"])
def test_ten_rounds_of_each_version(
    spark: Any, engine: Engine, tmp_path: Path, layout: Layout, pudi_first: bool
) -> None:
    _take_turns(spark, engine, tmp_path / "trips", layout, seed=7, pudi_first=pudi_first, rounds=10)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("ordering", ["ts", None])
@pytest.mark.parametrize("folders", ["plain", "flat"])
def test_properties_are_those_that_hudi_gives(
    spark: Any, tmp_path: Path, version: int, ordering: str | None, folders: str
) -> None:
    layout = Layout("simple", folders, "event" if ordering else "commit", version)
    HudiTable(spark, tmp_path / "hudi" / "trips", layout.hudi_options("trips")).write("upsert", table([trip(1, 1)]))
    PudiTable.create(LocalEngine(), tmp_path / "pudi" / "trips", SCHEMA, layout)
    theirs, ours = _properties(tmp_path / "hudi" / "trips"), _properties(tmp_path / "pudi" / "trips")
    chosen = {"hoodie.table.timeline.timezone", "hoodie.table.create.schema"}
    """pudi writes UTC and the schema."""
    older = {"hoodie.table.precombine.field"} if ordering and version < 9 else set()
    older |= {"hoodie.table.keygenerator.class"} if version == 6 else set()
    assert ours.keys() - theirs.keys() - chosen == older, (
        "names that Hudi 1.2 doesn't write, and releases of the version know"
    )
    chosen |= older
    assert {k: v for k, v in ours.items() if k not in chosen} == {k: v for k, v in theirs.items() if k not in chosen}


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("version", [6, 8])
def test_replacecommits_and_clustering_of_hudi(spark: Any, engine: Engine, tmp_path: Path, version: int) -> None:
    """What Hudi replaces and clusters is read right, and written over."""
    layout = Layout("simple", "plain", "event", version)
    hudi = HudiTable(spark, tmp_path / "trips", layout.hudi_options("trips") | {"hoodie.parquet.small.file.limit": "0"})
    mine = PudiTable(engine, hudi.path, {"hoodie.metadata.enable": "false"})  # the procedure switches it on
    hudi.write("bulk_insert", table(trip(number, 10) for number in range(30)))
    hudi.write("insert_overwrite", table(trip(number, 20, "again") for number in range(0, 30, 3)))
    assert_same(mine.snapshot(), hudi.snapshot(), about="insert_overwrite")
    mine.write("upsert", table(trip(number, 30, "pudi") for number in range(8)))
    assert_same(hudi.snapshot(), mine.snapshot(), about="pudi's upsert")
    spark.sql(f"call run_clustering(path => '{hudi.path}', op => 'scheduleAndExecute')")
    assert any(file.name.endswith(".replacecommit") for file in (hudi.path / ".hoodie").rglob("*"))
    assert_same(mine.snapshot(), hudi.snapshot(), about="clustering")
    mine.write("delete", table([trip(1, 0), trip(4, 0)]))
    hudi.write("upsert", table([trip(2, 40, "Hudi")]))
    assert_same(hudi.snapshot(), mine.snapshot(), about="writes after clustering")
    assert_same(hudi.changes(), mine.changes(), about="changes")


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("version", [6, 8, 9])
def test_each_rolls_back_what_the_other_left(spark: Any, tmp_path: Path, version: int) -> None:
    """A write of pudi that died is rolled back by Hudi, and one of Hudi by pudi."""
    layout = Layout("simple", "plain", "event", version)
    mine = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, layout)
    hudi = HudiTable(spark, mine.path, layout.hudi_options("trips"))
    mine.write("insert", table(trip(number, 10) for number in range(12)))
    before = mine.snapshot()
    for writer in (mine, hudi):
        instant, _ = writer.write("upsert", table(trip(number, 20, "lost") for number in range(6)))
        _undo_completion(mine.path, instant)
        assert_same(mine.snapshot(), before, about="a write without its completed file")
        (mine.path / ".hoodie" / ".temp" / instant).mkdir(parents=True, exist_ok=True)
        other: PudiTable | HudiTable = hudi if writer is mine else mine
        for file in base_files(mine.path):
            if instant in file.name:
                marker = mine.path / ".hoodie" / ".temp" / instant / file.parent.name / f"{file.name}.marker.MERGE"
                marker.parent.mkdir(exist_ok=True)
                marker.touch()
        if other is mine:
            table_now = pudi.Table(str(mine.path), options={"hoodie.clean.failed.writes.policy": "EAGER"})
            table_now.upsert(table([trip(50, 30)]))
        else:
            hudi.write("upsert", table([trip(50, 30)]))
        assert not list((mine.path / ".hoodie").rglob(f"{instant}*.commit*")), "still on the timeline"
        assert not [f for f in base_files(mine.path) if instant in f.name]
        assert list((mine.path / ".hoodie").rglob("*.rollback"))
        assert_same(hudi.snapshot(), mine.snapshot(), about="after the rollback")
        before = mine.snapshot()


def _undo_completion(path: Path, instant: str) -> None:
    """Make a write look as if it died just before it completed."""
    for file in (path / ".hoodie").rglob(f"{instant}*.commit"):
        file.unlink()


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("version", [6, 9])
def test_history_that_hudi_archived(spark: Any, tmp_path: Path, version: int) -> None:
    """Nothing was cleaned: every moment and every range of archived commits is there, as the model has it."""
    layout = Layout("simple", "plain", "event", version)
    keep = {
        "hoodie.clean.automatic": "false",
        "hoodie.archive.automatic": "true",
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
        "hoodie.commits.archival.batch": "1",
        "hoodie.timeline.compaction.batch.size": "3",
    }
    hudi = HudiTable(spark, tmp_path / "trips", layout.hudi_options("trips") | BLOOM)
    hudi.options = {**hudi.options, **keep}
    model = layout.model()
    first = Step("bulk_insert", table(trip(number, 10) for number in range(12)))
    upserts = [Step("upsert", table([trip(n, 20 + n), trip(n + 1, 20 + n), trip(40 + n, 1)])) for n in range(8)]
    for step in [first, *upserts]:
        hudi_commits = _write_archiving(hudi, step)
        getattr(model, step.verb)(from_arrow(step.data), *hudi_commits)
    mine = PudiTable(LocalEngine(), hudi.path)
    active = {i.requested for i in mine.table.timeline.commits}
    assert len(active) <= 4 < len(model.commits), "Hudi has archived nothing"
    assert_same(mine.snapshot(), model.snapshot(), PLACE_FIELDS, "snapshot")
    for number, commit in enumerate(model.commits):
        assert_same(mine.as_of(commit.instant), model.as_of(commit.instant), PLACE_FIELDS, f"as of {number}")
        assert_same(mine.changes(commit.completion), model.changes(commit.completion), PLACE_FIELDS, f"since {number}")
        until = model.changes(None, commit.completion)
        assert_same(mine.changes(None, commit.completion), until, PLACE_FIELDS, f"until {number}")
    span = (model.commits[1].completion, model.commits[3].completion)
    assert_same(mine.changes(*span), model.changes(*span), PLACE_FIELDS, "a range within the archive")


def _write_archiving(hudi: HudiTable, step: Step) -> tuple[str, str]:
    """As `HudiTable.write`, which counts commits: archiving takes some away."""
    from support.hudi import SMALL, commits
    from support.spark import to_frame

    options = {**SMALL, **hudi.options, "hoodie.datasource.write.operation": step.verb}
    to_frame(hudi.spark, step.data).coalesce(1).write.format("hudi").options(**options).mode("append").save(
        str(hudi.path)
    )
    return commits(hudi.path)[-1]
