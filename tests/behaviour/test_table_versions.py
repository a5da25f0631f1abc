"""Tables of versions 6, 8 and 9: written as asked, read alike, never upgraded unasked, their archive readable."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import pudi
from pudi.format import decode_table_properties
from support.archiving import archive
from support.disk import base_files, tree
from support.engines import Engine, LocalEngine, per_engine
from support.layouts import Layout
from support.model import Model
from support.pudi_table import PudiTable
from support.rows import PLACE_FIELDS, assert_same, from_arrow
from support.trips import SCHEMA, steps, table, trip

LAYOUTS = [
    Layout("simple", "plain", "event", 6),
    Layout("complex", "hive", "commit", 8),
    Layout("simple", "flat", "event", 6),
]


def _properties(path: Path) -> dict[str, str]:
    return decode_table_properties((path / ".hoodie" / "hoodie.properties").read_bytes())


def _written(engine: Engine, path: Path, layout: Layout, count: int, seed: int = 3) -> tuple[PudiTable, Model]:
    made, model = PudiTable.create(engine, path, SCHEMA, layout), layout.model()
    for step in steps(seed, count):
        getattr(model, step.verb)(from_arrow(step.data), *made.write(step.verb, step.data))
        assert_same(made.snapshot(), model.snapshot(), PLACE_FIELDS, f"after {step.verb}")
    return made, model


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("engine", "layout"), per_engine(LAYOUTS, LAYOUTS[:2]), indirect=["engine"], ids=str)
def test_every_verb_and_query(engine: Engine, tmp_path: Path, layout: Layout) -> None:
    made, model = _written(engine, tmp_path / "trips", layout, 6)
    for commit in model.commits:
        assert_same(made.as_of(commit.instant), model.as_of(commit.instant), PLACE_FIELDS, "as of")
        assert_same(made.changes(commit.completion), model.changes(commit.completion), PLACE_FIELDS, "changes")
    span = (model.commits[1].completion, model.commits[3].completion)
    assert_same(made.changes(*span), model.changes(*span), PLACE_FIELDS, "changes between")
    assert _properties(made.path)["hoodie.table.version"] == str(layout.version)
    assert made.table.config.version == layout.version


def test_version_6_lies_as_layout_1_wants_it(tmp_path: Path) -> None:
    made, model = _written(LocalEngine(), tmp_path / "trips", Layout(version=6), 2)
    names = {file.name for file in (made.path / ".hoodie").iterdir() if file.is_file()}
    wanted = {f"{c.instant}{s}" for c in model.commits for s in (".commit.requested", ".inflight", ".commit")}
    assert names == {"hoodie.properties", *wanted}
    assert not (made.path / ".hoodie" / "timeline").exists()
    content = (made.path / ".hoodie" / f"{model.commits[0].instant}.commit").read_text()
    assert content.startswith('{\n  "partitionToWriteStats" : {\n')
    assert json.loads(content)["operationType"] == "BULK_INSERT"
    instant = made.table.timeline.commits[0]
    assert instant.completion is not None and instant.completion >= instant.requested
    properties = _properties(made.path)
    assert properties["hoodie.timeline.layout.version"] == "1"
    assert properties["hoodie.compaction.payload.class"].endswith("DefaultHoodieRecordPayload")
    assert {"hoodie.record.merge.mode", "hoodie.table.initial.version"}.isdisjoint(properties)


def test_the_older_name_of_the_ordering_field_is_read(tmp_path: Path) -> None:
    made, _ = _written(LocalEngine(), tmp_path / "trips", Layout(version=6), 1)
    file = made.path / ".hoodie" / "hoodie.properties"
    file.write_text(file.read_text().replace("hoodie.table.ordering.fields", "hoodie.table.precombine.field"))
    assert made.table.config.ordering_fields == ("ts",)
    made.write("upsert", table([trip(1, 1, "late")]))
    assert "late" not in {row["rider"] for row in made.snapshot()}


@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_failed_write_leaves_nothing_and_a_dead_one_is_rolled_back(tmp_path: Path, version: int) -> None:
    made, model = _written(LocalEngine(), tmp_path / "trips", Layout(version=version), 2)
    before = tree(made.path)
    bad = table([trip(1, 5)]).set_column(0, "uuid", [[None]])
    with pytest.raises(pudi.PudiError):
        made.table.upsert(bad)
    assert tree(made.path) == before
    instant = made.write("upsert", table([trip(1, 9_000)]))[0]
    markers = made.path / ".hoodie" / ".temp" / instant
    for file in base_files(made.path):
        if instant in file.name:
            (markers / file.parent.name).mkdir(parents=True)
            (markers / file.parent.name / f"{file.name}.marker.MERGE").touch()
    next((made.path / ".hoodie").rglob(f"{instant}*.commit")).unlink()
    assert_same(made.snapshot(), model.snapshot(), PLACE_FIELDS, "a dead write is not seen")
    made.options = {"hoodie.clean.failed.writes.policy": "EAGER"}
    rows = table([trip(2, 9_000)])
    model.upsert(from_arrow(rows), *made.write("upsert", rows))
    assert_same(made.snapshot(), model.snapshot(), PLACE_FIELDS, "after the rollback")
    assert not list((made.path / ".hoodie").rglob(f"{instant}*"))
    assert len(list((made.path / ".hoodie").rglob("*.rollback"))) == 1


@pytest.mark.parametrize("version", [1, 5, 7, 10])
def test_other_versions_are_refused_by_name(tmp_path: Path, version: int) -> None:
    with pytest.raises(pudi.NotSupportedError, match=f"version={version}"):
        pudi.create(
            str(tmp_path / "t"), SCHEMA, record_key="uuid", options={"hoodie.write.table.version": str(version)}
        )
    assert not (tmp_path / "t" / ".hoodie").exists()
    made, _ = _written(LocalEngine(), tmp_path / "trips", Layout(), 1)
    file = made.path / ".hoodie" / "hoodie.properties"
    file.write_text(file.read_text().replace("hoodie.table.version=9", f"hoodie.table.version={version}"))
    wrong = "version=10" if version > 9 else r"layout\.version=2"  # which versions below 8 never have
    with pytest.raises(pudi.NotSupportedError, match=rf"hoodie\.\w+\.{wrong}"):
        made.table.scan()


def test_a_table_is_never_upgraded_unasked(tmp_path: Path) -> None:
    made, _ = _written(LocalEngine(), tmp_path / "trips", Layout(version=6), 1)
    before = tree(made.path)
    made.options = {"hoodie.write.table.version": "9"}
    expected = r"hoodie\.write\.table\.version=9 contradicts the table, which has 6"
    with pytest.raises(pudi.InvalidArgumentError, match=expected):
        made.write("upsert", table([trip(1, 5)]))
    assert tree(made.path) == before


@pytest.mark.parametrize(
    "options",
    [
        {"hoodie.write.table.version": "6", "hoodie.timeline.layout.version": "2"},
        {"hoodie.timeline.layout.version": "1"},
        {"hoodie.write.table.version": "8", "hoodie.table.initial.version": "9"},
    ],
)
def test_versions_that_contradict_each_other_make_no_table(tmp_path: Path, options: dict[str, str]) -> None:
    with pytest.raises(pudi.InvalidArgumentError, match="a new table of version"):
        pudi.create(str(tmp_path / "t"), SCHEMA, record_key="uuid", options=options)


def test_bootstrap_tables_are_refused(tmp_path: Path) -> None:
    made, _ = _written(LocalEngine(), tmp_path / "trips", Layout(version=6), 1)
    file = made.path / ".hoodie" / "hoodie.properties"
    file.write_text(file.read_text() + "hoodie.bootstrap.base.path=/elsewhere\n")
    with pytest.raises(pudi.NotSupportedError, match=r"hoodie\.bootstrap\.base\.path"):
        made.table.scan()


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("engine", "version"), per_engine([6, 8, 9], [6, 9]), indirect=["engine"])
def test_archived_history_answers_as_if_it_were_active(engine: Engine, tmp_path: Path, version: int) -> None:
    made, model = _written(engine, tmp_path / "trips", Layout(version=version), 8)
    archive(made.path, 5)
    assert len(made.table.timeline.commits) == 3
    assert_same(made.snapshot(), model.snapshot(), PLACE_FIELDS, "snapshot")
    assert_same(made.changes(), model.changes(), PLACE_FIELDS, "all changes")
    for number, commit in enumerate(model.commits):
        assert_same(made.as_of(commit.instant), model.as_of(commit.instant), PLACE_FIELDS, f"as of {number}")
        since, until = model.changes(commit.completion), model.changes(None, commit.completion)
        assert_same(made.changes(commit.completion), since, PLACE_FIELDS, f"since {number}")
        assert_same(made.changes(None, commit.completion), until, PLACE_FIELDS, f"until {number}")
    for first, last in ((0, 2), (1, 4), (2, 6)):
        span = (model.commits[first].completion, model.commits[last].completion)
        assert_same(made.changes(*span), model.changes(*span), PLACE_FIELDS, f"between {first} and {last}")
    rows = table([trip(number, 10_000) for number in range(4)])
    model.upsert(from_arrow(rows), *made.write("upsert", rows))
    assert_same(made.snapshot(), model.snapshot(), PLACE_FIELDS, "written over archived history")


@pytest.mark.parametrize("version", [6, 9])
def test_files_of_archived_history_that_are_gone_are_an_error(tmp_path: Path, version: int) -> None:
    made, model = _written(LocalEngine(), tmp_path / "trips", Layout(version=version), 8)
    archive(made.path, 5)
    gone = model.commits[2]
    for file in base_files(made.path):
        if file.stem.rpartition("_")[2] <= gone.instant:
            file.unlink()
    assert_same(made.snapshot(), model.snapshot(), PLACE_FIELDS, "snapshot")
    for ask in (
        lambda: made.changes(None, gone.completion),
        lambda: made.changes(model.commits[0].completion, gone.completion),
        lambda: made.as_of(gone.instant),
    ):
        with pytest.raises(pudi.NotFoundError):
            ask()


def test_damaged_archives_are_an_error_when_they_are_needed(tmp_path: Path) -> None:
    for version in (6, 9):
        made, model = _written(LocalEngine(), tmp_path / f"v{version}" / "trips", Layout(version=version), 5)
        archive(made.path, 3)
        for file in (made.path / ".hoodie").rglob("*"):
            if file.name.startswith(".commits_") or file.suffix == ".parquet":
                file.write_bytes(file.read_bytes()[:-40])
        assert_same(made.snapshot(), model.snapshot(), PLACE_FIELDS, "snapshot")
        with pytest.raises(pudi.CorruptError, match="archived timeline"):
            made.changes(model.commits[0].completion)
