"""The table's own timeline stays short, and what moved to its archive is read as before."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.client import MetaClient
from pudi.format import Action
from pudi.timeline import Instant
from support.engines import Engine
from support.layouts import Layout
from support.pudi_table import PudiTable
from support.rows import assert_same
from support.savepoints import savepoint
from support.trips import REPLACING, SCHEMA, steps, table, trip

pytestmark = pytest.mark.metadata_by_default

LAYOUTS = [Layout(version=version, kind=kind) for version in (6, 8, 9) for kind in ("cow", "mor")]
SHORT = {
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "5",
    "hoodie.clean.commits.retained": "1",
    "hoodie.compact.inline.max.delta.commits": "2",
    "hoodie.metadata.compact.max.delta.commits": "2",
    "hoodie.clean.automatic": "false",
}
OFF = {"hoodie.archive.automatic": "false"}


def archived(path: Path) -> tuple[Instant, ...]:
    return MetaClient.open(str(path), None, {}).store.archived()


def timeline_folder(path: Path) -> Path:
    return path / ".hoodie" if not (path / ".hoodie" / "timeline").exists() else path / ".hoodie" / "timeline"


def times(instants: Any) -> list[str]:
    return [each.requested for each in instants]


CHECKED = {"delete": "uuid", "delete_partitions": "city"}


def has_some(made: PudiTable, column: str, data: pa.Table) -> bool:
    """Whether the table has a row that equals one of these in a column."""
    return bool(set(data[column].to_pylist()) & {row[column] for row in made.snapshot()})


@pytest.mark.sampled(3)
@pytest.mark.parametrize("metadata", ["true", "false"])
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_every_state_and_change_reads_as_before(engine: Engine, tmp_path: Path, layout: Layout, metadata: str) -> None:
    options = {**SHORT, "hoodie.metadata.enable": metadata}
    made = PudiTable.create(engine, tmp_path / "trips", SCHEMA, layout, options)
    states, written = {}, []
    for number, step in enumerate(steps(layout.version, 14, ("insert", "upsert", "upsert", "delete", *REPLACING))):
        if step.verb in CHECKED and not has_some(made, CHECKED[step.verb], step.data):
            continue  # there is nothing to delete, which makes no commit
        instant, _ = made.write(step.verb, step.data)
        written.append(instant)
        states[instant] = made.snapshot()
        if layout.kind == "mor" and number % 5 == 4:
            made.table.compact()
    own = made.table.timeline
    moved = archived(made.path)
    replaced = [each for each in (*own.commits, *moved) if each.action is Action.REPLACECOMMIT]
    assert moved or replaced[0].requested <= written[3], "archived as far as file groups have been replaced"
    assert not set(times(moved)) & set(times(own.instants))
    assert set(written) <= {*times(moved), *times(own.commits)}
    for instant, state in states.items():
        assert_same(made.as_of(instant), state, about=f"as of {instant}")
    everything = made.table.changes(since="0").to_arrow()
    assert_same(everything.to_pylist(), made.table.scan().to_arrow().to_pylist())
    assert made.table.check().ok


@pytest.mark.parametrize("layout", [LAYOUTS[0], LAYOUTS[5]], ids=str)
def test_a_timeline_stays_short_for_ever(tmp_path: Path, layout: Layout) -> None:
    pudi.create(tmp_path / "trips", SCHEMA, **layout.create_arguments())
    mine = pudi.Table(tmp_path / "trips", options=SHORT | {"hoodie.clean.automatic": "true"})
    inline, lengths = str(layout.kind == "mor").lower(), []
    for number in range(30):
        mine.upsert(table([trip(number % 4, number)]), options={"hoodie.compact.inline": inline})
        lengths.append(len(mine.timeline.instants))
    assert max(lengths[-10:]) <= 14
    assert max(lengths[-10:]) <= max(lengths[10:20])
    assert len(archived(Path(mine.path))) > 12
    assert mine.scan().to_arrow().num_rows == 4
    assert mine.check().ok


def test_instants_with_uncleaned_replaced_file_groups_stay(tmp_path: Path) -> None:
    pudi.create(tmp_path / "trips", SCHEMA, **Layout(version=9, kind="cow").create_arguments())
    mine = pudi.Table(tmp_path / "trips", options=SHORT)
    mine.upsert(table(trip(number, 1) for number in range(6)))
    done = mine.insert_overwrite(table(trip(number, 2) for number in range(6)))
    assert done is not None
    for number in range(10):
        mine.upsert(table([trip(0, 3 + number)]))
    assert times(mine.timeline.commits)[0] == done.instant
    mine.clean()
    mine.upsert(table([trip(0, 20)]))
    assert mine.timeline.commits[0].requested > done.instant
    assert mine.scan().to_arrow().num_rows == 6
    assert mine.check().ok


@pytest.mark.parametrize("beyond", [False, True])
def test_savepoints_keep_what_came_after_them(tmp_path: Path, beyond: bool) -> None:
    pudi.create(tmp_path / "trips", SCHEMA, **Layout(version=9, kind="cow").create_arguments())
    mine = pudi.Table(tmp_path / "trips", options=SHORT | {"hoodie.archive.beyond.savepoint": str(beyond).lower()})
    written = [mine.upsert(table([trip(0, number)])).instant for number in range(4)]
    commit = mine.timeline.commits[2]
    names = [each.name for each in (tmp_path / "trips").rglob(f"*_{commit.requested}.parquet")]
    savepoint(tmp_path / "trips", commit.requested, str(int(commit.completion or "") + 1), {"nyc": names})
    written += [mine.upsert(table([trip(0, 4 + number)])).instant for number in range(8)]
    left = times(mine.timeline.commits)
    assert written[2] in left
    assert (written[3] in left) is not beyond
    assert_same(mine.scan(as_of=written[2]).to_arrow().to_pylist(), [_row(mine, written[2])])


def _row(mine: pudi.Table, instant: str) -> dict[str, Any]:
    (row,) = pudi.Table(mine.path).scan(as_of=instant).to_arrow().to_pylist()
    assert row["_hoodie_commit_time"] == instant
    return row


def test_pending_instants_keep_what_they_may_need(tmp_path: Path) -> None:
    pudi.create(tmp_path / "trips", SCHEMA, **Layout(version=9, kind="mor").create_arguments())
    mine = pudi.Table(tmp_path / "trips", options=SHORT)
    for number in range(3):
        mine.upsert(table([trip(0, number)]))
    planned = mine.schedule("compaction")
    assert planned is not None
    for number in range(8):
        mine.upsert(table([trip(0, 10 + number)]))
    assert min(times(mine.timeline.commits)) < planned, "the last commit before it stays"
    mine.run_pending()
    for number in range(4):
        mine.upsert(table([trip(0, 30 + number)]))
    assert min(times(mine.timeline.commits)) >= planned
    (row,) = mine.scan().to_arrow().to_pylist()
    assert row["ts"] == 33


def test_commits_that_the_metadata_table_has_not_compacted_stay(tmp_path: Path) -> None:
    pudi.create(tmp_path / "trips", SCHEMA, **Layout(version=9, kind="cow").create_arguments())
    mine = pudi.Table(tmp_path / "trips", options=SHORT | {"hoodie.metadata.compact.max.delta.commits": "30"})
    for number in range(12):
        mine.upsert(table([trip(0, number)]))
    assert archived(tmp_path / "trips") == ()
    assert len(mine.timeline.commits) == 12


def test_files_of_unknown_instants_are_never_taken_for_archived(tmp_path: Path) -> None:
    """Without a metadata table, a data file older than the timeline counts as one that an archived commit wrote."""
    path = tmp_path / "trips"
    pudi.create(path, SCHEMA, **Layout(version=9, kind="cow").create_arguments())
    options = SHORT | {"hoodie.metadata.enable": "false"}
    mine = pudi.Table(path, options=options)
    for number in range(3):
        mine.upsert(table([trip(0, number)]))
    file = next(each for each in path.rglob("*.parquet") if mine.timeline.commits[-1].requested in each.name)
    stray = str(int(mine.timeline.commits[-1].requested) + 1)
    name = file.name.replace(mine.timeline.commits[-1].requested, stray)
    shutil.copy(file, file.with_name("00000000-0000-0000-0000-000000000009-0_0-0-0_" + name.rpartition("_")[2]))
    for number in range(9):
        mine.upsert(table([trip(0, 10 + number)]))
    assert mine.scan().to_arrow().num_rows == 1
    assert times(mine.timeline.commits)[0] <= stray
    mine.repair()
    mine.upsert(table([trip(0, 30)]))
    assert times(mine.timeline.commits)[0] > stray
    assert mine.scan().to_arrow().num_rows == 1


def test_markers_of_archived_commits_go(tmp_path: Path) -> None:
    path = tmp_path / "trips"
    pudi.create(path, SCHEMA, **Layout(version=9, kind="cow").create_arguments())
    mine = pudi.Table(path, options=SHORT)
    first = mine.upsert(table([trip(0, 0)])).instant
    left = path / ".hoodie" / ".temp" / first / "nyc"
    left.mkdir(parents=True)
    (left / "x.parquet.marker.CREATE").touch()
    for number in range(9):
        mine.upsert(table([trip(0, 1 + number)]))
    assert first in times(archived(path))
    assert not left.parent.exists()


@pytest.mark.parametrize("version", [6, 8, 9])
def test_what_a_rollback_and_a_clean_say_is_read_from_the_archive(tmp_path: Path, version: int) -> None:
    layout = Layout(version=version, kind="cow")
    pudi.create(tmp_path / "trips", SCHEMA, **layout.create_arguments())
    mine = pudi.Table(tmp_path / "trips", options=SHORT | OFF)
    undone = [mine.upsert(table([trip(0, ts)])).instant for ts in range(3)][-1]
    undoing = mine.rollback(undone).instant
    for ts in range(3, 6):
        mine.upsert(table([trip(0, ts)]))
    done = mine.clean()
    assert done is not None
    cleaning = done.instant
    for ts in range(6, 12):
        mine.upsert(table([trip(0, ts)]))
    contents = [mine.refresh().instant_content(each) for each in (undoing, cleaning)]
    assert undone in contents[0]["commitsRollback"]
    mine.archive()
    assert {undoing, cleaning} <= {each.requested for each in archived(tmp_path / "trips")}
    assert [pudi.Table(mine.path).instant_content(each) for each in (undoing, cleaning)] == contents


def test_wrong_numbers_are_told_before_anything_is_written(tmp_path: Path) -> None:
    pudi.create(tmp_path / "trips", SCHEMA, **Layout().create_arguments())
    wrong = {"hoodie.keep.min.commits": "9", "hoodie.keep.max.commits": "9"}
    with pytest.raises(pudi.InvalidArgumentError, match=r"hoodie.keep.min.commits \(9\) must be less"):
        pudi.Table(tmp_path / "trips", options=wrong).upsert(table([trip(0, 0)]))
    assert pudi.Table(tmp_path / "trips").timeline.instants == ()


def test_cleaning_that_retains_more_raises_both_numbers(tmp_path: Path) -> None:
    pudi.create(tmp_path / "trips", SCHEMA, **Layout(version=9, kind="cow").create_arguments())
    mine = pudi.Table(tmp_path / "trips", options=SHORT | {"hoodie.clean.commits.retained": "6"})
    for number in range(20):
        mine.upsert(table([trip(0, number)]))
        assert len(mine.timeline.commits) <= 9
    assert len(mine.timeline.commits) >= 7
    assert archived(tmp_path / "trips")


@pytest.mark.parametrize("version", [8, 9])
def test_files_of_the_archive_are_merged_by_the_options(tmp_path: Path, version: int) -> None:
    pudi.create(tmp_path / "trips", SCHEMA, **Layout(version=version, kind="cow").create_arguments())
    options = SHORT | {"hoodie.timeline.compaction.batch.size": "2", "hoodie.timeline.manifest.retained.versions": "1"}
    mine = pudi.Table(tmp_path / "trips", options=options)
    for number in range(25):
        mine.upsert(table([trip(0, number)]))
    folder = timeline_folder(tmp_path / "trips") / "history"
    version_text = (folder / "_version_").read_text()
    names = [each["fileName"] for each in json.loads((folder / f"manifest_{version_text}").read_text())["files"]]
    assert any(not name.endswith("_0.parquet") for name in names)
    assert len(names) <= 4
    assert len(list(folder.glob("manifest_*"))) <= 3
    assert len(set(times(archived(tmp_path / "trips")))) == len(archived(tmp_path / "trips")) >= 18


@pytest.mark.parametrize("layout", [LAYOUTS[1], LAYOUTS[4]], ids=str)
def test_readers_go_on_while_their_instants_are_archived(tmp_path: Path, layout: Layout) -> None:
    pudi.create(tmp_path / "trips", SCHEMA, **layout.create_arguments())
    mine = pudi.Table(tmp_path / "trips", options=SHORT | OFF)
    written = [mine.upsert(table([trip(number % 3, number)])).instant for number in range(8)]
    reader = pudi.Table(tmp_path / "trips")

    def queries() -> list[Any]:
        past = reader.scan(as_of=written[3])
        return [reader.scan(), past, reader.changes(since="0"), reader.changes(since=written[2])]

    expected = [each.to_arrow().to_pylist() for each in queries()]
    planned = queries()
    assert [each.instant for each in planned[:2]] == [written[-1], written[3]], "they're planned"
    assert mine.archive() >= 4
    for query, rows in zip(planned, expected, strict=True):
        assert_same(query.to_arrow().to_pylist(), rows)
