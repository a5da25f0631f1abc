"""What another process does to indexes after a write wrote its log files, and before it takes the lock."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pudi
from pudi.commit import commit_hook
from support.layouts import Layout
from support.record_index import assert_record_index
from support.rows import from_arrow
from support.trips import SCHEMA, table, trip

GLOBAL = {"hoodie.metadata.global.record.level.index.enable": "true"}
BY_PARTITION = {"hoodie.metadata.record.level.index.enable": "true"}
LAYOUTS = [Layout("simple", "plain", "event", version, kind) for version in (6, 9) for kind in ("cow", "mor")]


def made(path: Path, layout: Layout, options: dict[str, str]) -> pudi.Table:
    version = {"hoodie.write.table.version": str(layout.version)}
    pudi.create(
        path, SCHEMA, record_key="uuid", partition_by="city", ordering="ts", table_type=layout.kind, options=version
    )
    trips = pudi.Table(path, options={"hoodie.metadata.enable": "true", **options})
    trips.upsert(table(trip(n, 10) for n in range(20)))
    return trips


def meanwhile(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], Any]) -> None:
    """Have something happen, once, when the next write has written the log files of its indexes."""
    write = commit_hook.write_index_logs

    def then(*arguments: Any) -> Any:
        monkeypatch.setattr(commit_hook, "write_index_logs", write)
        done = write(*arguments)
        happens()
        return done

    monkeypatch.setattr(commit_hook, "write_index_logs", then)


def assert_whole(trips: pudi.Table, numbers: set[int]) -> None:
    assert {row["uuid"] for row in from_arrow(trips.scan().to_arrow())} == {f"k{n:04}" for n in numbers}
    found = trips.check()
    assert found.ok, str(found)
    left = list((Path(trips.path) / ".hoodie/metadata/.hoodie").glob(".heartbeat/*"))
    assert left == []


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_another_write_to_the_same_file_group_of_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: Layout
) -> None:
    one_group = {
        "hoodie.metadata.global.record.level.index.min.filegroup.count": "1",
        "hoodie.metadata.global.record.level.index.max.filegroup.count": "1",
    }
    trips = made(tmp_path / "trips", layout, {**GLOBAL, **one_group, "hoodie.index.type": "RECORD_INDEX"})
    beside = pudi.Table(tmp_path / "trips", options=trips._options)
    meanwhile(monkeypatch, lambda: beside.insert(table([{**trip(50, 10), "city": "paris"}])))
    trips.insert(table([{**trip(60, 10), "city": "rome"}]))
    assert_whole(trips, {*range(20), 50, 60})
    assert_record_index(tmp_path / "trips")


@pytest.mark.parametrize(
    ("layout", "options"),
    [*((layout, GLOBAL) for layout in LAYOUTS), *((layout, BY_PARTITION) for layout in LAYOUTS[2:])],
    ids=str,
)
def test_the_index_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: Layout, options: dict[str, str]
) -> None:
    trips = made(tmp_path / "trips", layout, options)
    beside = pudi.Table(tmp_path / "trips")
    meanwhile(monkeypatch, lambda: beside.drop_index("record_index"))
    beside.insert(table([trip(60, 10)]))
    assert "record_index" not in {each.name for each in trips.indexes()}
    assert_whole(trips, {*range(20), 60})


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("groups", ["2", "7"])
def test_the_index_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: Layout, groups: str) -> None:
    options = {"hoodie.metadata.global.record.level.index.min.filegroup.count": "2"}
    trips = made(tmp_path / "trips", layout, {**GLOBAL, **options})
    size = {
        "hoodie.metadata.global.record.level.index.min.filegroup.count": groups,
        "hoodie.metadata.global.record.level.index.max.filegroup.count": groups,
    }
    beside = pudi.Table(tmp_path / "trips", options=size)

    def anew() -> None:
        beside.drop_index("record_index")
        beside.create_index("record_index")

    meanwhile(monkeypatch, anew)
    trips.insert(table([trip(60, 10)]))
    assert_whole(trips, {*range(20), 60})
    assert_record_index(tmp_path / "trips")


@pytest.mark.parametrize("layout", [each for each in LAYOUTS if each.version == 9], ids=str)
def test_another_index_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: Layout) -> None:
    trips = made(tmp_path / "trips", layout, GLOBAL)
    beside = pudi.Table(tmp_path / "trips")
    meanwhile(monkeypatch, lambda: beside.create_index("secondary_index", "rider"))
    trips.upsert(table([trip(3, 20, "eve"), trip(60, 10, "eve")]))
    assert_whole(trips, {*range(20), 60})
    found = trips.scan(where="rider = 'eve'").to_arrow()
    assert found.num_rows == 2


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_the_metadata_table_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: Layout) -> None:
    made(tmp_path / "trips", layout, GLOBAL)
    beside = pudi.Table(tmp_path / "trips", options={"hoodie.metadata.enable": "false"})
    meanwhile(monkeypatch, lambda: beside.upsert(table([{**trip(50, 10), "city": "paris"}])))
    pudi.Table(tmp_path / "trips").insert(table([{**trip(60, 10), "city": "rome"}]))
    after = pudi.Table(tmp_path / "trips")
    assert_whole(after, {*range(20), 50, 60})
    assert after.indexes() == []
    assert not (tmp_path / "trips/.hoodie/metadata").exists()


@pytest.mark.parametrize("layout", [each for each in LAYOUTS if each.version == 9], ids=str)
def test_the_metadata_table_is_compacted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: Layout) -> None:
    trips = made(tmp_path / "trips", layout, GLOBAL)
    beside = pudi.Table(tmp_path / "trips", options={"hoodie.metadata.compact.max.delta.commits": "1"})
    meanwhile(monkeypatch, lambda: beside.insert(table([{**trip(50, 10), "city": "paris"}])))
    trips.insert(table([{**trip(60, 10), "city": "rome"}]))
    folder = tmp_path / "trips/.hoodie/metadata/record_index"
    assert any(each.suffix == ".hfile" and "_0_" not in each.name for each in folder.iterdir())
    assert_whole(trips, {*range(20), 50, 60})
    assert_record_index(tmp_path / "trips")
