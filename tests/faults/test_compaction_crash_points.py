"""A compaction that dies at any storage call changes no record, and whoever comes next runs its plan, once."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import pudi
from pudi.client import MetaClient
from pudi.context import Context
from pudi.storage import open_storage
from pudi.testing import FaultStorage, SimulatedCrash
from support.golden import Golden
from support.rows import Row, from_arrow

OPTIONS = {"hoodie.metadata.enable": "false"}
LOGS = {"hoodie.log.compaction.blocks.threshold": "1"}
VERBS: dict[str, Callable[[pudi.Table], object]] = {
    "run": lambda on: on.run_pending(),
    "compact": lambda on: on.compact(),
    "log_compact": lambda on: on.compact(log_compaction=True, options=LOGS),
}


def rows(path: Path) -> list[Row]:
    found = from_arrow(pudi.Table(path).scan().to_arrow())
    return sorted(({k: v for k, v in row.items() if k != "_hoodie_file_name"} for row in found), key=str)


def run(path: Path, verb: str, **fault: object) -> FaultStorage:
    storage = FaultStorage(open_storage(str(path)), **fault)  # type: ignore[arg-type]
    VERBS[verb](pudi.Table.of(MetaClient.open(str(path), None, OPTIONS, Context(), storage), OPTIONS))
    return storage


@pytest.fixture
def copies(golden_folder: Path, tmp_path: Path) -> Callable[[str], Path]:
    """Copies of golden tables."""
    made: list[Path] = []

    def copy(name: str) -> Path:
        made.append(tmp_path / str(len(made)) / name)
        ignored = shutil.ignore_patterns("metadata", "history")
        shutil.copytree(Golden(name).unpack(golden_folder), made[-1], ignore=ignored)
        history = made[-1] / ".hoodie" / ("timeline/history" if "v9" in name else "history")
        source = golden_folder / name / history.relative_to(made[-1])
        if source.exists():
            shutil.copytree(source, history)
        return made[-1]

    return copy


def assert_compacted(path: Path, old: list[Row]) -> None:
    """No log file is left to merge, no record differs, and every base file on disk is one that a commit names."""
    mine = pudi.Table(path, OPTIONS)
    mine.compact()
    assert rows(path) == old
    assert all(not file_slice.logs for file_slice in mine.file_slices())
    meta = MetaClient.open(str(path), None, OPTIONS)
    timeline = meta.store.load()
    assert timeline.pending == ()
    ours = [i for i in timeline.commits if meta.store.read_commit_metadata(i).operation_type == "COMPACT"]
    named = {
        stat.path
        for instant in ours
        for stats in meta.store.read_commit_metadata(instant).partition_to_write_stats.values()
        for stat in stats
    }
    newest = {i.requested for i in ours}
    assert newest
    on_disk = {str(file.relative_to(path)) for file in path.rglob("*.parquet") if ".hoodie" not in file.parts}
    assert {name for name in on_disk if name.rsplit("_", 1)[1].split(".")[0] in newest} <= named
    for leftovers in (".hoodie/.temp", ".hoodie/.heartbeat"):
        assert [file for file in (path / leftovers).rglob("*") if file.is_file()] == []


CASES = [
    ("mor_v9_services", "compact", False),
    ("mor_v9_services", "log_compact", True),
    ("mor_v9_services", "compact", True),
    ("mor_v9_services", "log_compact", False),
    ("mor_v6_services", "compact", True),
    ("mor_v6_services", "compact", False),
    ("mor_v9_pending_compaction", "run", False),
    ("mor_v9_pending_compaction", "run", True),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "verb", "crash_after"), CASES)
def test_every_crash_point(
    copies: Callable[[str], Path],
    some_of: Callable[[Sequence[int]], list[int]],
    name: str,
    verb: str,
    crash_after: bool,
) -> None:
    whole = copies(name)
    old = rows(whole)
    calls = run(whole, verb).calls
    assert rows(whole) == old
    for number in some_of(range(1, calls + 1)):
        path = copies(name)
        with pytest.raises(SimulatedCrash):
            run(path, verb, fail_at=number, mode="crash", crash_after=crash_after)
        assert rows(path) == old, f"crash at call {number}"
        assert_compacted(path, old)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("name", "mode"),
    [("mor_v9_services", "error"), ("mor_v9_services", "lost_answer"), ("mor_v6_services", "error")],
)
def test_every_failing_call(
    copies: Callable[[str], Path], some_of: Callable[[Sequence[int]], list[int]], name: str, mode: str
) -> None:
    whole = copies(name)
    old = rows(whole)
    calls = run(whole, "compact").calls
    for number in some_of(range(1, calls + 1)):
        path = copies(name)
        with contextlib.suppress(pudi.PudiError):
            run(path, "compact", fail_at=number, mode=mode)
        assert rows(path) == old
        assert_compacted(path, old)
