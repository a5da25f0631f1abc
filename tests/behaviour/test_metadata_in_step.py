"""The metadata table of tables that pudi writes: after every verb it lists just the files that are there."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from pudi.expr import bind, evaluate, parse
from pudi.format import Action
from support.engines import LocalEngine
from support.layouts import Layout
from support.metadata import assert_listing, delta_commits, metadata_partitions, records, timeline_of
from support.pudi_table import PudiTable
from support.rows import PLACE_FIELDS, assert_same, from_arrow
from support.trips import REPLACING, SCHEMA, steps, table, trip

ON = {"hoodie.metadata.enable": "true"}
VERBS = ("insert", "upsert", "upsert", "delete", *REPLACING)

LAYOUTS = [Layout("simple", "plain", "event", version, kind) for version in (6, 8, 9) for kind in ("cow", "mor")] + [
    Layout("simple", "flat", "event", 9),
    Layout("complex", "hive", "commit", 6, "mor"),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_it_is_compacted_after_so_many_commits(tmp_path: Path, layout: Layout) -> None:
    options = {**ON, "hoodie.metadata.compact.max.delta.commits": "3"}
    made = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, layout, options)
    for number in range(9):
        made.write("upsert", table([trip(number, number), trip(0, number)]))
        assert_listing(made.path)
    own = timeline_of(made.path / ".hoodie" / "metadata")
    assert own.pending == ()
    assert [i.requested for i in own.commits if i.action is Action.COMMIT] != []
    assert len(own.of(Action.COMMIT)) == 4
    files = made.path / ".hoodie" / "metadata" / "files"
    assert len(list(files.glob("*.hfile"))) == 2, "of the five written, the newest two: the others were cleaned"
    assert len(made.snapshot()) == 9


@pytest.mark.parametrize("layout", [LAYOUTS[1], LAYOUTS[5]], ids=str)
def test_files_that_nobody_needs_are_deleted(tmp_path: Path, layout: Layout) -> None:
    options = {**ON, "hoodie.metadata.compact.max.delta.commits": "5"}
    made = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, layout, options)
    for number in range(40):
        made.write("upsert", table([trip(0, number)]))
    assert_listing(made.path)
    own = timeline_of(made.path / ".hoodie" / "metadata")
    assert own.pending == ()
    assert own.of(Action.CLEAN)
    files = made.path / ".hoodie" / "metadata" / "files"
    assert len(list(files.glob("*.hfile"))) <= 7
    assert len(list(files.glob(".files*"))) <= 33
    assert len(made.snapshot()) == 1


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_every_verb(tmp_path: Path, layout: Layout) -> None:
    made, model = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, layout, ON), layout.model()
    for step in steps(8 if layout.folders == "flat" else 7, 9, VERBS[:4] if layout.folders == "flat" else VERBS):
        getattr(model, step.verb)(from_arrow(step.data), *made.write(step.verb, step.data))
        assert metadata_partitions(made.path) == ["files"]
        assert_listing(made.path)
        assert_same(made.snapshot(), model.snapshot(), PLACE_FIELDS, f"after {step.verb}")
    assert delta_commits(made.path) == [commit.instant for commit in model.commits]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("early", [True, False], ids=["new", "old"])
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_statistics_are_made_and_kept(tmp_path: Path, layout: Layout, early: bool) -> None:
    """Made for a new table and for one with files: no read that skips files by them misses a row."""
    wanted = {**ON, "hoodie.metadata.index.column.stats.enable": "true"}
    made, model = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, layout, ON), layout.model()
    for number, step in enumerate(steps(8 if layout.folders == "flat" else 7, 7, VERBS[:4])):
        asking = PudiTable(made.engine, made.path, wanted if early or number >= 3 else ON)
        getattr(model, step.verb)(from_arrow(step.data), *asking.write(step.verb, step.data))
        assert_listing(made.path)
        rows = made.table.scan(meta_fields=False).to_arrow()
        for where in ("fare > 25", "ts >= 1300", "uuid < 'k0010'", "rider = 'bob'", "city = 'nyc' AND fare < 9"):
            found = made.table.scan(where=where, meta_fields=False).to_arrow()
            assert_same(from_arrow(found), from_arrow(filtered(rows, where)), about=f"{step.verb}, {where}")
    by_partition = layout.version >= 8 and layout.folders != "flat"
    kept = {"files", "column_stats", *(["partition_stats"] if by_partition else [])}
    assert set(metadata_partitions(made.path)) == kept
    if by_partition:
        assert records(made.path, "partition_stats")
    assert_same(made.snapshot(), model.snapshot(), PLACE_FIELDS)


def filtered(rows: pa.Table, where: str) -> pa.Table:
    return rows.filter(evaluate(bind(parse(where), rows.schema), rows))
