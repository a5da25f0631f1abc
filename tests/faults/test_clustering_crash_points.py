"""A clustering that dies at any storage call changes no record, and whoever comes next runs its plan, once."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import pytest

import pudi
from pudi.action import MetaClient
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
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.clustering.plan.strategy.sort.columns": "fare",
}
FAULTS = [("crash", False), ("crash", True), ("error", False), ("lost_answer", False)]
EAGER = OPTIONS | {"hoodie.clean.failed.writes.policy": "EAGER"}


def rows(path: Path) -> list[Row]:
    found = from_arrow(pudi.Table(path).scan().to_arrow())
    return sorted(({k: v for k, v in row.items() if k != "_hoodie_file_name"} for row in found), key=str)


def cluster(path: Path, **fault: object) -> FaultStorage:
    storage = FaultStorage(open_storage(str(path)), **fault)  # type: ignore[arg-type]
    pudi.Table.of(MetaClient.open(str(path), None, OPTIONS, Context(), storage), OPTIONS).cluster()
    return storage


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
@pytest.mark.parametrize(("mode", "after"), FAULTS)
def test_every_call(written: Path, tmp_path: Path, mode: str, after: bool) -> None:
    whole = Path(shutil.copytree(written, tmp_path / "whole"))
    old = rows(whole)
    calls = cluster(whole).calls
    assert len(pudi.Table(whole).file_slices()) == 3
    for number in range(1, calls + 1):
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
