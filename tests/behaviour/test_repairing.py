"""`table.repair()` and `pudi repair`: each damage is named and mended, and what can't be mended is left and said."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

import pudi
from pudi.cli.app import app
from pudi.client import MetaClient
from pudi.context import Context
from pudi.storage import open_storage
from pudi.testing import FaultStorage, SimulatedCrash
from support.damage import (
    DAMAGES,
    NAMED_DAMAGES,
    Damage,
    forget_a_file,
    lose_a_key,
    misplace_a_key,
    newest_base,
    newest_slice,
)
from support.metadata import assert_listing, metadata_partitions
from support.record_index import assert_record_index
from support.trips import SCHEMA, table, trip

ALL_INDEXES = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.global.record.level.index.min.filegroup.count": "2",
    "hoodie.metadata.global.record.level.index.max.filegroup.count": "2",
}
Copy = Callable[[], Path]


def made(path: Path, version: int = 9, kind: str = "mor") -> Path:
    """A table with base files, log files, and all the indexes that an option asks for."""
    options = {"hoodie.write.table.version": str(version)}
    begun = pudi.create(
        path, SCHEMA, record_key="uuid", partition_by="city", ordering="ts", table_type=kind, options=options
    )
    begun.insert(table([trip(number, 10) for number in range(12)]))
    pudi.Table(path, options=ALL_INDEXES).upsert(table([trip(number, 20) for number in range(3, 12)]))
    return path


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("repair") / "t")


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "t")
    return tmp_path / "t"


def _rows(path: Path) -> list[dict[str, object]]:
    return pudi.Table(path).scan().to_arrow().sort_by("uuid").to_pylist()


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda each: each.name)
def test_each_damage_is_named_and_mended(copy: Path, whole: Path, damage: Damage) -> None:
    partitions = metadata_partitions(copy)
    damage.do(copy)
    opened = pudi.Table(copy)
    found = opened.check().differences
    assert [each for each in found if each.index == damage.index and damage.told in each.what], list(map(str, found))
    done = opened.repair()
    assert done.ok, str(done)
    assert (done.done, done.dropped) == (True, ())
    assert damage.index in done.built or set(done.built) == set(partitions)
    assert metadata_partitions(copy) == partitions
    assert_listing(copy)
    assert_record_index(copy)
    assert _rows(copy) == _rows(whole)


@pytest.fixture(scope="module")
def named(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table with indexes of their own names too."""
    path = tmp_path_factory.mktemp("named") / "t"
    shutil.copytree(whole, path)
    begun = pudi.Table(path)
    begun.create_index("secondary_index", "rider")
    begun.create_index("column_stats", "rider", "upper", "upper")
    begun.create_index("bloom_filters", "rider", "lower", "lower")
    pudi.Table(path).upsert(table([trip(number, 30, "Zoe") for number in (3, 5)]))
    return path


@pytest.mark.sampled(2)
@pytest.mark.parametrize("damage", NAMED_DAMAGES, ids=lambda each: each.name)
def test_damage_of_an_index_with_a_name(named: Path, tmp_path: Path, damage: Damage) -> None:
    copy = tmp_path / "t"
    shutil.copytree(named, copy)
    opened = pudi.Table(copy)
    assert opened.check().ok
    damage.do(copy)
    found = opened.check().differences
    assert [each for each in found if each.index == damage.index and damage.told in each.what], list(map(str, found))
    assert {each.index for each in found} == {damage.index}
    done = opened.repair()
    assert (done.ok, done.built) == (True, (damage.index,)), str(done)
    assert {row["uuid"] for row in opened.scan(where="upper(rider) = 'ZOE'").to_arrow().to_pylist()} == {
        "k0003",
        "k0005",
    }


def test_only_what_is_wrong_is_made_anew(copy: Path) -> None:
    lose_a_key(copy)
    before = {file.name for file in (copy / ".hoodie" / "metadata" / "column_stats").iterdir()}
    done = pudi.Table(copy).repair()
    assert done.built == ("record_index",)
    assert {file.name for file in (copy / ".hoodie" / "metadata" / "column_stats").iterdir()} == before
    written = pudi.Table(copy, options=ALL_INDEXES).upsert(table([trip(40, 30), trip(2, 30)]))
    assert written is not None
    assert pudi.Table(copy).check().ok


@pytest.mark.parametrize("version", [6, 8])
def test_older_versions(tmp_path: Path, version: int) -> None:
    path = made(tmp_path / "t", version, "cow" if version == 6 else "mor")
    partitions = metadata_partitions(path)
    rows = _rows(path)
    shutil.rmtree(path / ".hoodie" / "metadata")
    done = pudi.Table(path).repair()
    assert done.ok, str(done)
    assert metadata_partitions(path) == partitions
    pudi.Table(path, options=ALL_INDEXES).upsert(table([trip(50, 30)]))
    assert pudi.Table(path).check().ok
    assert len(_rows(path)) == len(rows) + 1


def _times(path: Path) -> dict[str, int]:
    return {row["uuid"]: row["ts"] for row in pudi.Table(path).scan(columns=["uuid", "ts"]).to_arrow().to_pylist()}


def _die_before_a_compaction_of_the_metadata_table(path: Path) -> None:
    """A write plans a compaction of the metadata table, and dies before it runs it and commits."""

    class Dying(FaultStorage):
        def create(self, path: str, content: bytes, *, durable: bool = False) -> None:
            super().create(path, content, durable=durable)
            if path.startswith(".hoodie/metadata/.hoodie/") and path.endswith(".compaction.requested"):
                raise SimulatedCrash(path)

    storage = Dying(open_storage(str(path)))
    options = {"hoodie.metadata.enable": "true", "hoodie.metadata.compact.max.delta.commits": "1"}
    opened = pudi.Table.of(MetaClient.open(str(path), None, options, Context(), storage), options)
    with pytest.raises(SimulatedCrash):
        opened.upsert(table([trip(4, 25)]))


def test_a_planned_compaction_below_version_8(tmp_path: Path) -> None:
    """Log files of all partitions bear its instant since: it's refused to make one of them anew, not to make all."""
    path = made(tmp_path / "t", version=6)
    lose_a_key(path)
    _die_before_a_compaction_of_the_metadata_table(path)
    rows, partitions = _times(path), metadata_partitions(path)
    assert {each.index for each in pudi.Table(path).check().differences} == {"record_index"}
    other = Path(shutil.copytree(path, tmp_path / "other"))
    before = {file: file.stat().st_mtime_ns for file in path.rglob("*")}
    with pytest.raises(pudi.ConflictError, match="a compaction of the metadata table is planned"):
        pudi.Table(path).repair()
    assert {file: file.stat().st_mtime_ns for file in path.rglob("*")} == before
    pudi.Table(path).upsert(table([trip(4, 25)]))  # runs it first
    done = pudi.Table(path).repair()
    assert (done.ok, done.built) == (True, ("record_index",)), str(done)
    forget_a_file(other)
    done = pudi.Table(other).repair()
    assert done.ok, str(done)
    assert set(done.built) == set(partitions)
    for each, expected in ((path, rows | {"k0004": 25}), (other, rows)):
        assert metadata_partitions(each) == partitions
        assert _times(each) == expected
        pudi.Table(each, options=ALL_INDEXES).upsert(table([trip(50, 30)]))
        assert pudi.Table(each).check().ok


def test_nothing_is_done_that_is_not_wanted(copy: Path) -> None:
    misplace_a_key(copy)
    asked = []
    done = pudi.Table(copy).repair(confirm=lambda plan: bool(asked.append(plan)))
    assert (done.done, done.ok) == (False, False)
    assert asked[0].rebuilt == ("record_index",)
    assert not pudi.Table(copy).check().ok


def test_a_right_table_is_left_alone(copy: Path) -> None:
    before = {file: file.stat().st_mtime_ns for file in copy.rglob("*")}
    done = pudi.Table(copy).repair()
    assert (done.ok, done.done) == (True, False)
    assert {file: file.stat().st_mtime_ns for file in copy.rglob("*")} == before


def test_a_lost_file_is_named_and_the_list_that_tells_of_it_kept(copy: Path) -> None:
    log = newest_slice(copy).logs[-1]
    (copy / log.path).unlink()
    opened = pudi.Table(copy)
    found = {(each.index, each.path): each.what for each in opened.check().differences}
    assert "is gone, and its records with it" in found["data files", log.path]
    assert found["files", log.path] == "the file is listed, but missing"
    done = opened.repair()
    assert (done.ok, done.done, done.plan.rebuilt) == (False, False, ())
    assert {each.path for each in done.plan.left} >= {log.path}
    assert opened.check().differences


def test_a_damaged_file_is_named(copy: Path) -> None:
    base = newest_base(copy)
    file = copy / base.path
    file.write_bytes(file.read_bytes()[:-7] + b"rubbish")
    found = pudi.Table(copy).check().differences
    assert [each.path for each in found if each.index == "data files"] == [base.path]
    assert not [each for each in found if each.index == "record_index"]  # of its keys nothing is known
    assert not pudi.Table(copy).repair().done


def test_leftovers_of_dead_writers_go(copy: Path) -> None:
    base = newest_base(copy)
    later = f"{int(pudi.Table(copy).timeline.commits[-1].requested) + 5}"
    orphan = copy / base.path.replace(base.instant, later)
    shutil.copy(copy / base.path, orphan)
    markers = copy / ".hoodie" / ".temp" / later
    markers.mkdir(parents=True)
    (markers / "x.marker.CREATE").write_bytes(b"")
    dropped = copy / ".hoodie" / "metadata" / "bloom_filters"
    dropped.mkdir()
    (dropped / "old.hfile").write_bytes(b"")
    properties = copy / ".hoodie" / "hoodie.properties"
    shutil.copy(properties, copy / ".hoodie" / "hoodie.properties.backup")
    properties.unlink()
    opened = pudi.Table(copy)
    assert opened.check().ok
    done = opened.repair()
    assert done.ok
    assert done.built == ()
    told = dict(done.plan.orphans.describe())
    relative = [str(each.relative_to(copy)) for each in (orphan, markers, dropped)]
    assert set(told) == {*relative, ".hoodie/hoodie.properties.backup"}
    assert not orphan.exists()
    assert not list(dropped.glob("*"))
    assert not list(markers.glob("*"))
    assert properties.exists()
    assert not properties.with_name("hoodie.properties.backup").exists()


def test_a_dead_writer_is_rolled_back(copy: Path) -> None:
    rows = _rows(copy)
    dead = pudi.Table(copy)._meta.store.request(pudi.Table(copy)._meta.commit_action)
    timeline = copy / ".hoodie" / "timeline"
    for file in timeline.glob(f"{dead.requested}*"):
        os.utime(file, (1, 1))
    done = pudi.Table(copy).repair()
    assert done.plan.dead == (dead.requested,)
    assert done.ok
    assert not list(timeline.glob(f"{dead.requested}*"))
    assert _rows(copy) == rows


def test_from_a_shell(copy: Path) -> None:
    lose_a_key(copy)
    run = CliRunner().invoke
    said = run(app, ["check", str(copy), "--json"])
    assert said.exit_code == 2
    assert [each["index"] for each in json.loads(said.output)["differences"]] == ["record_index"]
    said = run(app, ["repair", str(copy), "--dry-run"])
    assert said.exit_code == 2
    assert "to be rebuilt in the metadata table: record_index" in said.output
    assert run(app, ["repair", str(copy)], input="n\n").exit_code == 2
    assert run(app, ["repair", str(copy), "--json"]).exit_code == 2
    assert run(app, ["check", str(copy)]).exit_code == 2
    said = run(app, ["repair", str(copy)], input="y\n")
    assert said.exit_code == 0, said.output
    assert "rebuilt: record_index" in said.output
    said = run(app, ["repair", str(copy), "--yes"])
    assert (said.exit_code, said.output) == (0, "nothing to repair\n")
    assert run(app, ["repair", str(copy.parent)]).exit_code == 1
