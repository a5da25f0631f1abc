"""A clustering that dies at any storage call changes no record, and whoever comes next runs its plan, once."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import pudi
from pudi.client import MetaClient
from pudi.config import ALLOW_UPDATES
from pudi.context import Context
from pudi.format import Action, State
from pudi.storage import open_storage
from pudi.testing import FaultStorage, SimulatedCrash
from support.layouts import Layout
from support.rows import Row, from_arrow
from support.trips import SCHEMA, table, trip

pytestmark = pytest.mark.metadata_by_default

OPTIONS = {
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.clustering.plan.strategy.sort.columns": "fare",
}
FAULTS = [("crash", False), ("crash", True), ("error", False), ("lost_answer", False)]
EAGER = OPTIONS | {"hoodie.clean.failed.writes.policy": "EAGER"}


def rows(path: Path) -> list[Row]:
    found = from_arrow(pudi.Table(path).scan().to_arrow())
    return sorted(({k: v for k, v in row.items() if k != "_hoodie_file_name"} for row in found), key=str)


def run(path: Path, verb: Callable[[pudi.Table], object], **fault: object) -> FaultStorage:
    storage = FaultStorage(open_storage(str(path)), **fault)  # type: ignore[arg-type]
    verb(pudi.Table.of(MetaClient.open(str(path), None, OPTIONS, Context(), storage), OPTIONS))
    return storage


def cluster(path: Path, **fault: object) -> FaultStorage:
    return run(path, lambda mine: mine.cluster(), **fault)


def orphans(path: Path) -> set[str]:
    """Base files on disk that no commit names."""
    meta = MetaClient.open(str(path), None, OPTIONS)
    done = [meta.store.read_commit_metadata(i).partition_to_write_stats for i in meta.store.load().commits]
    named = {stat.path for each in done for stats in each.values() for stat in stats}
    return {str(f.relative_to(path)) for f in path.rglob("*.parquet") if ".hoodie" not in f.parts} - named


@pytest.fixture(scope="module", params=[(6, "mor"), (9, "cow"), (9, "mor")], ids=str)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    version, kind = request.param
    path = tmp_path_factory.mktemp("written") / "trips"
    pudi.create(path, SCHEMA, **Layout(version=version, kind=kind).create_arguments())
    mine = pudi.Table(path, options=OPTIONS)
    mine.insert(table(trip(number, 1) for number in range(8)))
    mine.insert(table(trip(number, 1) for number in range(8, 12)))
    mine.upsert(table(trip(number, 2) for number in range(6)))
    return path


@pytest.mark.sampled(1)
@pytest.mark.parametrize("first", (1, 2, 3))
@pytest.mark.parametrize(("mode", "after"), FAULTS)
def test_every_call(
    written: Path, tmp_path: Path, some_of: Callable[[Sequence[int]], list[int]], mode: str, after: bool, first: int
) -> None:
    whole = Path(shutil.copytree(written, tmp_path / "whole"))
    old = rows(whole)
    calls = cluster(whole).calls
    assert len(pudi.Table(whole).file_slices()) == 3
    for number in some_of(range(first, calls + 1, 3)):
        path = Path(shutil.copytree(written, tmp_path / str(number)))
        with contextlib.suppress(pudi.PudiError, SimulatedCrash):
            cluster(path, fail_at=number, mode=mode, crash_after=after)
        assert rows(path) == old, f"call {number}"
        mine = pudi.Table(path, options=EAGER)
        mine.run_pending()
        if not mine.timeline.of(Action.REPLACECOMMIT):  # it died before its plan was there
            mine.cluster()
        assert rows(path) == old, f"call {number}, run again"
        assert len(mine.timeline.of(Action.REPLACECOMMIT)) == 1, f"call {number}"
        assert mine.timeline.pending == ()
        assert len(mine.file_slices()) == 3
        assert orphans(path) == set(), f"call {number}"
        assert mine.check().ok, f"call {number}: {mine.check()}"
        mine.upsert(table([trip(3, 9, "after")]))
        assert {row["uuid"]: row["rider"] for row in rows(path)}["k0003"] == "after"
        shutil.rmtree(path)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("first", (1, 2, 3))
@pytest.mark.parametrize(("mode", "after"), FAULTS)
def test_every_call_of_scheduling(
    written: Path, tmp_path: Path, some_of: Callable[[Sequence[int]], list[int]], mode: str, after: bool, first: int
) -> None:
    """A plan is there or not; a writer that comes next meets at most one, and the plan can be run or rolled back."""

    def schedule(mine: pudi.Table) -> None:
        mine.schedule("clustering")

    old = rows(written)
    calls = run(Path(shutil.copytree(written, tmp_path / "whole")), schedule).calls
    for number in some_of(range(first, calls + 1, 3)):
        path = Path(shutil.copytree(written, tmp_path / str(number)))
        with contextlib.suppress(pudi.PudiError, SimulatedCrash):
            run(path, schedule, fail_at=number, mode=mode, crash_after=after)
        mine = pudi.Table(path, options=EAGER)
        pending = mine.timeline.of(Action.CLUSTERING, State.REQUESTED)
        assert len(pending) <= 1, f"call {number}"
        if number % 2 and pending:
            mine.rollback(pending[0].requested)
            mine.upsert(table([trip(3, 9, "after")]))
        else:
            assert len(mine.run_pending()) == len(pending), f"call {number}"
            assert rows(path) == old, f"call {number}"
        assert mine.timeline.pending == ()
        assert mine.check().ok, f"call {number}: {mine.check()}"
        shutil.rmtree(path)


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "after"), FAULTS)
@pytest.mark.parametrize("rolls_back", [False, True])
def test_every_call_of_a_write_that_a_plan_yields_to(
    written: Path, tmp_path: Path, mode: str, after: bool, rolls_back: bool
) -> None:
    """The write is there as a whole or not at all, and no plan that would lose it is left when it is."""
    allow = {"hoodie.clustering.updates.strategy": ALLOW_UPDATES}
    allow["hoodie.clustering.rollback.pending.replacecommit.on.conflict"] = str(rolls_back).lower()

    def upsert(mine: pudi.Table) -> None:
        mine.upsert(table([trip(3, 9, "after")]), options=allow)

    planned = Path(shutil.copytree(written, tmp_path / "planned"))
    assert pudi.Table(planned, options=OPTIONS).schedule("clustering") is not None
    old = rows(planned)
    whole = Path(shutil.copytree(planned, tmp_path / "whole"))
    calls = run(whole, upsert).calls
    new = {row["uuid"]: row["rider"] for row in rows(whole)}
    assert new["k0003"] == "after"
    for number in range(1, calls + 1):
        path = Path(shutil.copytree(planned, tmp_path / str(number)))
        with contextlib.suppress(pudi.PudiError, SimulatedCrash):
            run(path, upsert, fail_at=number, mode=mode, crash_after=after)
        found = {row["uuid"]: row["rider"] for row in rows(path)}
        assert found == new or rows(path) == old, f"call {number}"
        mine = pudi.Table(path, options=EAGER)
        if found == new:
            assert not mine.timeline.pending_of(Action.CLUSTERING), f"call {number}"
        mine.run_pending()
        assert {row["uuid"]: row["rider"] for row in rows(path)} == found, f"call {number}, after the plan"
        mine.upsert(table([trip(3, 9, "after")]))
        assert {row["uuid"]: row["rider"] for row in rows(path)} == new, f"call {number}"
        mine.maintain()
        assert mine.timeline.pending == (), f"call {number}"
        assert mine.check().ok, f"call {number}: {mine.check()}"
        shutil.rmtree(path)
