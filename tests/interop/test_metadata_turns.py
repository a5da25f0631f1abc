"""Hudi and pudi take turns on a table with a metadata table: Hudi reads and plans through what pudi wrote of it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import pudi as pudi_module
from pudi.client import MetaClient
from pudi.context import Context
from pudi.storage import open_storage
from pudi.testing import FaultStorage, SimulatedCrash
from support.engines import LocalEngine
from support.hudi import HudiTable
from support.layouts import Layout
from support.metadata import assert_listing, metadata_partitions, timeline_of
from support.pudi_table import PudiTable
from support.rows import PLACE_FIELDS, assert_same, from_arrow, from_spark
from support.trips import SCHEMA, steps, table, trip
from support.validation import assert_hudi_finds_no_difference

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.metadata_by_default]

ON = {"hoodie.metadata.enable": "true"}
ALL_KINDS = ("insert", "upsert", "upsert", "delete", "insert_overwrite", "delete_partitions")

LAYOUTS = [Layout("simple", "plain", "event", version, kind) for version in (9, 8, 6) for kind in ("cow", "mor")]


NO_NEW_INDEX = {"hoodie.metadata.index.column.stats.enable": "false"}
NO_COMPACTION = {"hoodie.compact.inline": "false"}
"""Hudi's batches to merge-on-read tables else end with a compaction, a commit more."""


def through_metadata(hudi: HudiTable, where: str | None = None) -> list[Any]:
    """What Hudi reads with its metadata table on, skipping files by its statistics."""
    frame = hudi.frame(**ON, **{"hoodie.enable.data.skipping": "true"})
    return from_spark(frame if where is None else frame.where(where))


def take_turns(
    spark: Any, path: Path, layout: Layout, seed: int, *, rounds: int = 4, verbs: Sequence[str] = ALL_KINDS,
    options: dict[str, str] | None = None, begins: str = "pudi",
) -> None:  # fmt: skip
    model = layout.model()
    pudi = PudiTable(LocalEngine(), path, {**ON, **(options or {})})
    hudi = HudiTable(spark, path, layout.hudi_options("trips") | NO_COMPACTION | ON | (options or {}))
    PudiTable.create(LocalEngine(), path, SCHEMA, layout)
    for number, step in enumerate(steps(seed, rounds, verbs)):
        mine = (number % 2 == 0) == (begins == "pudi")
        model.by_hudi = not mine
        getattr(model, step.verb)(from_arrow(step.data), *(pudi if mine else hudi).write(step.verb, step.data))
        about = f"round {number}: after {step.verb} by {'pudi' if mine else 'Hudi'}, as read by"
        assert_listing(path)
        rows = pudi.snapshot()
        assert_same(rows, model.snapshot(), PLACE_FIELDS, f"{about} pudi")
        assert_same(through_metadata(hudi), rows, about=f"{about} Hudi")
        for where in ("fare > 25", "ts >= 1300", "uuid < 'k0010'", "rider = 'bob'", "city = 'nyc' AND fare < 9"):
            wanted = pudi_module.Table(path).scan(where=where).to_arrow()
            assert_same(through_metadata(hudi, where), from_arrow(wanted), about=f"{about} Hudi where {where}")
        assert_hudi_finds_no_difference(spark, path)
    assert set(metadata_partitions(path)) >= {"files", "column_stats"}


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_turns(spark: Any, tmp_path: Path, layout: Layout) -> None:
    take_turns(spark, tmp_path / "trips", layout, seed=31)


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", [each for each in LAYOUTS if each.version != 8], ids=str)
def test_hudi_writes_first_to_what_pudi_made(spark: Any, tmp_path: Path, layout: Layout) -> None:
    """The metadata table that a table was made with, whose statistics have no base files, is one to Hudi too."""
    take_turns(spark, tmp_path / "trips", layout, seed=5, rounds=4, begins="Hudi")


def left_between(path: Path) -> bool:
    """Whether a write of the table's is pending that its metadata table has completed."""
    pending = {instant.requested for instant in timeline_of(path).pending}
    return bool(pending & {i.requested for i in timeline_of(path / ".hoodie" / "metadata").commits})


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", [each for each in LAYOUTS if each.version != 8], ids=str)
def test_hudi_repairs_a_write_that_died_between_both_commits(spark: Any, tmp_path: Path, layout: Layout) -> None:
    whole = tmp_path / "trips"
    PudiTable.create(LocalEngine(), whole, SCHEMA, layout)
    pudi = PudiTable(LocalEngine(), whole, ON)
    pudi.write("bulk_insert", table([trip(number, 10) for number in range(20)]))
    before = pudi.snapshot()
    lost = table([trip(number, 20, "lost") for number in range(5, 25)])
    path = whole
    for number in range(200):  # a table of its own for each, or the repair of the one before would move the place
        path = Path(shutil.copytree(whole, tmp_path / f"trips{number}"))
        dying = FaultStorage(open_storage(str(path)), fail_at=number + 1, mode="crash", crash_after=True)
        with pytest.raises(SimulatedCrash):
            pudi_module.Table.of(MetaClient.open(str(path), None, {}, Context(), dying), dict(ON)).upsert(lost)
        if left_between(path):
            break
    assert left_between(path)
    pudi = PudiTable(LocalEngine(), path, ON)
    # where Hudi has an index to make, it doesn't tell the metadata table of version 6 of its rollback (docs/indexes.md)
    its_options = layout.hudi_options("trips") | NO_COMPACTION | ON | NO_NEW_INDEX
    hudi = HudiTable(spark, path, its_options)
    assert_same(pudi.snapshot(), before, about="pudi, after the crash")
    assert_same(through_metadata(hudi), before, about="Hudi, after the crash")
    hudi.write("upsert", table([trip(number, 30, "Hudi") for number in range(3)]))
    assert_same(through_metadata(hudi), pudi.snapshot(), about="Hudi, after its repair")
    assert not any(row["rider"] == "lost" for row in pudi.snapshot())
    assert_hudi_finds_no_difference(spark, path)
    pudi.write("upsert", table([trip(number, 40, "pudi") for number in range(4)]))
    assert_same(through_metadata(hudi), pudi.snapshot(), about="Hudi, in the end")
