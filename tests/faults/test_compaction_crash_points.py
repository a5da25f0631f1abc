"""A compaction that dies at any storage call changes no record, and whoever comes next runs its plan, once."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import pudi
from pudi.action import MetaClient
from pudi.context import Context
from pudi.storage import open_storage
from pudi.testing import FaultStorage, SimulatedCrash
from support.golden import Golden
from support.rows import Row, from_arrow

OPTIONS = {"hoodie.metadata.enable": "false"}
TABLES = ["mor_v9_services", "mor_v6_services", "mor_v9_pending_compaction"]
VERBS: dict[str, Callable[[pudi.Table], object]] = {
    "schedule": lambda on: on.schedule("compaction"),
    "run": lambda on: on.run_pending(),
    "compact": lambda on: on.compact(),
}


def rows(path: Path) -> list[Row]:
    found = from_arrow(pudi.Table(path).scan().to_arrow())
    return sorted(({k: v for k, v in row.items() if k != "_hoodie_file_name"} for row in found), key=str)


def run(path: Path, verb: str, **fault: object) -> FaultStorage:
    storage = FaultStorage(open_storage(str(path)), **fault)  # type: ignore[arg-type]
    VERBS[verb](pudi.Table.of(MetaClient.open(str(path), None, OPTIONS, Context(), storage), OPTIONS))
    return storage


@pytest.fixture
def templates(golden_folder: Path, tmp_path: Path) -> Callable[[str, str], Path]:
    """A copy of a golden table without metadata table, with a plan already where `verb` needs one."""
    made: dict[tuple[str, str], Path] = {}

    def template(name: str, verb: str) -> Path:
        key = name, verb
        if key not in made:
            path = tmp_path / "templates" / f"{name}_{verb}"
            shutil.copytree(Golden(name).unpack(golden_folder), path)
            mine = pudi.Table(path, OPTIONS)
            if verb == "schedule":
                mine.run_pending()
            elif not mine.timeline.pending:
                assert mine.schedule("compaction") is not None
            if verb == "schedule":  # one whose files are all that's left to do
                mine._meta.reload()
            made[key] = path
        copy = tmp_path / "copies" / str(len(list((tmp_path / "copies").glob("*"))) if made else 0)
        shutil.copytree(made[key], copy)
        return copy

    (tmp_path / "copies").mkdir()
    return template


def assert_compacted(path: Path, old: list[Row]) -> None:
    """No log file is left to merge, no record differs, and every base file on disk is one that a commit names."""
    mine = pudi.Table(path, OPTIONS)
    mine.compact()
    assert rows(path) == old
    assert all(not file_slice.logs for file_slice in mine.file_slices())
    meta = MetaClient.open(str(path), None, OPTIONS)
    timeline = meta.store.load()
    assert timeline.pending == ()
    ours = [i for i in timeline.commits if meta.store.commit_metadata(i).operation_type == "COMPACT"]
    named = {
        stat.path
        for instant in ours
        for stats in meta.store.commit_metadata(instant).partition_to_write_stats.values()
        for stat in stats
    }
    newest = {i.requested for i in ours}
    on_disk = {str(file.relative_to(path)) for file in path.rglob("*.parquet") if ".hoodie" not in file.parts}
    assert {name for name in on_disk if name.rsplit("_", 1)[1].split(".")[0] in newest} <= named
    for leftovers in (".hoodie/.temp", ".hoodie/.heartbeat"):
        assert [file for file in (path / leftovers).rglob("*") if file.is_file()] == []


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("verb", list(VERBS))
@pytest.mark.parametrize("crash_after", [False, True], ids=["before", "after"])
def test_every_crash_point(templates: Callable[[str, str], Path], name: str, verb: str, crash_after: bool) -> None:
    whole = templates(name, verb)
    old = rows(whole)
    calls = run(whole, verb).calls
    assert rows(whole) == old
    for number in range(1, calls + 1):
        path = templates(name, verb)
        with pytest.raises(SimulatedCrash):
            run(path, verb, fail_at=number, mode="crash", crash_after=crash_after)
        assert rows(path) == old, f"crash at call {number}"
        assert_compacted(path, old)


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("mode", ["error", "lost_answer"])
def test_every_failing_call(templates: Callable[[str, str], Path], name: str, mode: str) -> None:
    whole = templates(name, "run")
    old = rows(whole)
    calls = run(whole, "run").calls
    for number in range(1, calls + 1):
        path = templates(name, "run")
        try:
            run(path, "run", fail_at=number, mode=mode)
        except pudi.PudiError:
            pass
        assert rows(path) == old
        assert_compacted(path, old)
