"""An upgrade that dies at any storage call leaves the table readable as it was, and the next one completes it."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import pudi
from pudi.client import MetaClient
from pudi.context import Context
from pudi.errors import BlockedError
from pudi.storage import open_storage
from pudi.testing import FaultStorage, SimulatedCrash
from support.golden import Golden
from support.layouts import Layout
from support.rows import Row, from_arrow
from support.trips import SCHEMA, table, trip

pytestmark = pytest.mark.metadata_by_default

OPTIONS = {
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.clean.commits.retained": "1",
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.clean.failed.writes.policy": "EAGER",
}
FAULTS = [("crash", False), ("crash", True), ("error", False), ("lost_answer", False)]


def rows(path: Path) -> list[Row]:
    found = from_arrow(pudi.Table(path).scan().to_arrow())
    return sorted(({k: v for k, v in row.items() if k != "_hoodie_file_name"} for row in found), key=str)


def commits(path: Path) -> set[str]:
    store = MetaClient.open(str(path), None, {}).store
    return {each.requested for each in (*store.archived(), *store.load().commits)}


def upgrade(path: Path, version: int, **fault: object) -> FaultStorage:
    storage = FaultStorage(open_storage(str(path)), **fault)  # type: ignore[arg-type]
    mine = pudi.Table.of(MetaClient.open(str(path), None, OPTIONS, Context(), storage), OPTIONS)
    mine.upgrade(version, accept_loss=True)
    return storage


@pytest.fixture(
    scope="module", params=[(6, "cow", 9), (6, "mor", 8), (9, "cow", 6), (9, "mor", 6), (9, "cow", 8)], ids=str
)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    old, kind, new = request.param
    path = tmp_path_factory.mktemp("written") / "trips"
    pudi.create(path, SCHEMA, **Layout(version=old, kind=kind).create_arguments())
    mine = pudi.Table(path, options=OPTIONS)
    for ts in range(1, 7):
        mine.upsert(table(trip(number, ts) for number in range(3)))
        if kind == "mor" and ts in (2, 4):
            mine.compact()
    mine.archive()
    if new == 8 and old == 9:
        mine.create_index("record_index")
        mine.create_index("secondary_index", columns=["rider"], name="rider")
    return path, new


@pytest.mark.sampled(1)
@pytest.mark.parametrize("first", (1, 2, 3))
@pytest.mark.parametrize(("mode", "after"), FAULTS)
def test_every_call(
    written: tuple[Path, int],
    tmp_path: Path,
    some_of: Callable[[Sequence[int]], list[int]],
    mode: str,
    after: bool,
    first: int,
) -> None:
    source, version = written
    before, known = rows(source), commits(source)
    whole = Path(shutil.copytree(source, tmp_path / "whole"))
    calls = upgrade(whole, version).calls
    indexes = set(pudi.Table(whole).config.metadata_partitions)
    assert rows(whole) == before
    for number in some_of(range(first, calls + 1, 3)):
        path = Path(shutil.copytree(source, tmp_path / str(number)))
        with contextlib.suppress(pudi.PudiError, SimulatedCrash):
            upgrade(path, version, fail_at=number, mode=mode, crash_after=after)
        assert rows(path) == before, f"call {number}"
        pudi.Table(path, options=OPTIONS).upgrade(version, accept_loss=True)
        mine = pudi.Table(path, options=OPTIONS)
        assert mine.config.version == version, f"call {number}"
        assert rows(path) == before, f"call {number}"
        assert commits(path) >= known, f"call {number}"
        assert set(mine.config.metadata_partitions) == indexes, f"call {number}"
        mine.upsert(table([trip(0, 50)]))
        assert len(rows(path)) == len(before), f"call {number}"
        assert mine.check().ok, f"call {number}: {mine.check()}"
        assert not (path / ".hoodie" / "upgrade.json").exists(), f"call {number}"
        shutil.rmtree(path)


@pytest.mark.sampled(1)
def test_maintenance_completes_it(written: tuple[Path, int], tmp_path: Path) -> None:
    source, version = written
    whole = Path(shutil.copytree(source, tmp_path / "whole"))
    calls = upgrade(whole, version).calls
    for number in range(calls // 2, calls + 1, max(calls // 20, 1)):
        path = Path(shutil.copytree(source, tmp_path / str(number)))
        with contextlib.suppress(pudi.PudiError, SimulatedCrash):
            upgrade(path, version, fail_at=number, mode="crash")
        pending = (path / ".hoodie" / "upgrade.json").exists()
        assert pudi.Table(path, options=OPTIONS).maintain().ok, f"call {number}"
        mine = pudi.Table(path, options=OPTIONS)
        assert not pending or mine.config.version == version, f"call {number}"
        assert not (path / ".hoodie" / "upgrade.json").exists(), f"call {number}"
        assert mine.check().ok, f"call {number}"
        shutil.rmtree(path)


def test_writers_wait_for_one_that_died(
    written: tuple[Path, int], tmp_path: Path, some_of: Callable[[Sequence[int]], list[int]]
) -> None:
    source, version = written
    whole = Path(shutil.copytree(source, tmp_path / "whole"))
    calls = upgrade(whole, version).calls
    refused = 0
    for number in some_of(range(1, calls + 1, 3)):
        path = Path(shutil.copytree(source, tmp_path / str(number)))
        with contextlib.suppress(pudi.PudiError, SimulatedCrash):
            upgrade(path, version, fail_at=number, mode="crash")
        moves = [each for each in (path / ".hoodie").rglob("moved") if each.parent.name in {".hoodie", "timeline"}]
        at_old = pudi.Table(path).config.version != version
        try:
            pudi.Table(path, options=OPTIONS).upsert(table([trip(0, 50)]))
        except BlockedError as error:
            assert "pudi upgrade" in error.message
            assert moves
            assert at_old
            refused += 1
        assert len(rows(path)) == 3
        shutil.rmtree(path)
    if version == 8 and pudi.Table(source).config.version == 9:
        assert refused == 0
    else:
        assert refused > 0


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("name", "target"),
    [("v5_mor_basic", 6), ("v3_mor_basic", 9), ("v5_mor_basic", 9), ("v5_cow_archived", 6), ("v4_mor_basic", 8)],
)
def test_a_table_of_old(
    golden_folder: Path, tmp_path: Path, some_of: Callable[[Sequence[int]], list[int]], name: str, target: int
) -> None:
    whole = Golden(name).unpack(golden_folder)
    expected = _plain(whole)
    counted = Path(shutil.copytree(whole, tmp_path / "counted"))
    calls = upgrade(counted, target).calls
    versions, indexes = set(), pudi.Table(counted).config.metadata_partitions
    for number in some_of(range(1, calls + 1)):
        path = Path(shutil.copytree(whole, tmp_path / str(number)))
        with contextlib.suppress(SimulatedCrash):
            upgrade(path, target, fail_at=number, mode="crash")
        versions.add(pudi.Table(path).config.version)
        assert _plain(path) == expected, number
        pudi.Table(path, options=OPTIONS).upgrade(target, accept_loss=True)
        upgraded = pudi.Table(path)
        assert (upgraded.config.version, upgraded.config.metadata_partitions) == (target, indexes), number
        assert _plain(path) == expected, number
        assert upgraded.check().ok, number
    assert versions <= {int(name[1]), 6, target}


def _plain(path: Path) -> list[Row]:
    found = from_arrow(pudi.Table(path).scan(meta_fields=False).to_arrow())
    return sorted(found, key=str)
