"""A restore that dies at any storage call leaves the state of some commit, and the next restore completes it."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import pudi
from pudi.client import MetaClient
from pudi.context import Context
from pudi.format import Action
from pudi.storage import open_storage
from pudi.testing import FaultStorage, SimulatedCrash
from support.layouts import Layout
from support.rows import Row, from_arrow
from support.trips import SCHEMA, table, trip

pytestmark = pytest.mark.metadata_by_default

OPTIONS = {
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.metadata.index.column.stats.enable": "false",
}
Written = tuple[Path, dict[str, list[Row]]]
Thinned = Callable[[Sequence[int]], list[int]]
FAULTS = [("crash", False), ("crash", True), ("error", False), ("lost_answer", False)]


def rows(path: Path) -> list[Row]:
    found = from_arrow(pudi.Table(path).scan().to_arrow())
    return sorted(({k: v for k, v in row.items() if k != "_hoodie_file_name"} for row in found), key=str)


def restore(path: Path, to: str, **fault: object) -> FaultStorage:
    storage = FaultStorage(open_storage(str(path)), **fault)  # type: ignore[arg-type]
    pudi.Table.of(MetaClient.open(str(path), None, OPTIONS, Context(), storage), OPTIONS).restore(to)
    return storage


@pytest.fixture(scope="module", params=[(6, "mor"), (9, "cow"), (9, "mor")], ids=str)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Written:
    """A table whose indexes are newer than the commit that is restored, so that a restore rebuilds them."""
    return write(tmp_path_factory.mktemp("written") / "trips", *request.param, indexed_after=5)


@pytest.fixture(scope="module", params=[(8, "mor"), (9, "cow"), (9, "mor")], ids=str)
def followed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Written:
    """A table whose metadata table follows a restore, with a compaction of its own that it takes back."""
    return write(tmp_path_factory.mktemp("followed") / "trips", *request.param, indexed_after=1)


def write(path: Path, version: int, kind: str, indexed_after: int) -> Written:
    pudi.create(path, SCHEMA, **Layout(version=version, kind=kind).create_arguments())
    mine = pudi.Table(path, options=OPTIONS | {"hoodie.metadata.compact.max.delta.commits": "5"})
    states = {}
    for ts in range(1, 4):
        instant = mine.upsert(table(trip(number, ts) for number in range(3))).instant
        states[instant] = rows(path)
        if ts == indexed_after:
            index(mine, version)
    if kind == "mor":
        done = mine.compact()
        assert done is not None
        states[done.instant] = rows(path)
    done = mine.insert_overwrite(table([trip(0, 9)]))
    assert done is not None
    states[done.instant] = rows(path)
    if indexed_after > 3:
        index(mine, version)
    return path, states


def index(mine: pudi.Table, version: int) -> None:
    mine.create_index("record_index")
    if version >= 8:
        mine.create_index("secondary_index", columns=["rider"], name="rider")


def built(path: Path) -> list[str]:
    """When the metadata table was made."""
    return sorted(file.name for file in (path / ".hoodie/metadata/.hoodie/timeline").glob("000*.deltacommit"))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("first", (1, 2, 3))
@pytest.mark.parametrize(("mode", "after"), FAULTS)
def test_every_call(written: Written, tmp_path: Path, some_of: Thinned, mode: str, after: bool, first: int) -> None:
    fail_at_calls(written, tmp_path, mode, after, first, some_of)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("first", (1, 2, 3))
@pytest.mark.parametrize(("mode", "after"), FAULTS)
def test_every_call_where_the_metadata_table_follows(
    followed: Written, tmp_path: Path, some_of: Thinned, mode: str, after: bool, first: int
) -> None:
    whole = Path(shutil.copytree(followed[0], tmp_path / "followed"))
    restore(whole, list(followed[1])[1])
    assert built(whole) == built(followed[0])
    fail_at_calls(followed, tmp_path, mode, after, first, some_of)


def fail_at_calls(written: Written, tmp_path: Path, mode: str, after: bool, first: int, some_of: Thinned) -> None:
    source, states = written
    to = list(states)[1]
    whole = Path(shutil.copytree(source, tmp_path / "whole"))
    calls = restore(whole, to).calls
    assert rows(whole) == states[to]
    indexes = pudi.Table(source).config.metadata_partitions
    assert pudi.Table(whole).config.metadata_partitions == indexes
    for number in some_of(range(first, calls + 1, 3)):
        path = Path(shutil.copytree(source, tmp_path / str(number)))
        with contextlib.suppress(pudi.PudiError, SimulatedCrash):
            restore(path, to, fail_at=number, mode=mode, crash_after=after)
        assert rows(path) in states.values(), f"call {number}"
        mine = pudi.Table(path, options=OPTIONS)
        pending = any(each.action is Action.RESTORE for each in mine.timeline.pending)
        if pending or mine.timeline.commits[-1].requested != to:
            mine.restore(to)
        assert rows(path) == states[to], f"call {number}"
        mine.upsert(table([trip(0, 50)]), options={"hoodie.clean.failed.writes.policy": "EAGER"})
        assert len(rows(path)) == len(states[to]), f"call {number}"
        now = pudi.Table(path).config
        assert now.metadata_partitions == indexes, f"call {number}"
        assert now.metadata_partitions_to_rebuild == (), f"call {number}"
        assert mine.check().ok, f"call {number}: {mine.check()}"
        shutil.rmtree(path)


@pytest.mark.sampled(1)
def test_maintenance_or_another_restore_rebuilds_the_indexes(written: Written, tmp_path: Path) -> None:
    """Once the restore itself is over, a crash leaves indexes to rebuild."""
    source, states = written
    to = list(states)[1]
    whole = Path(shutil.copytree(source, tmp_path / "whole"))
    calls = restore(whole, to).calls
    indexes = pudi.Table(source).config.metadata_partitions
    left = 0
    for number in range(calls * 2 // 3, calls, max(calls // 15, 1)):
        path = Path(shutil.copytree(source, tmp_path / str(number)))
        with contextlib.suppress(SimulatedCrash):
            restore(path, to, fail_at=number, mode="crash")
        mine = pudi.Table(path, options=OPTIONS)
        if any(each.action is Action.RESTORE for each in mine.timeline.pending):
            continue
        left += bool(mine.config.metadata_partitions_to_rebuild)
        if left % 2:
            assert mine.maintain().ok, f"call {number}"
        else:
            mine.restore(to)
        now = pudi.Table(path).config
        assert now.metadata_partitions == indexes, f"call {number}"
        assert now.metadata_partitions_to_rebuild == (), f"call {number}"
        assert rows(path) == states[to], f"call {number}"
        assert mine.check().ok, f"call {number}: {mine.check()}"
    assert left, "some crash left an index to rebuild"
