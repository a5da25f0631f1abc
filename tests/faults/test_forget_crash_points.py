"""A hard deletion that dies at any storage call loses no other record, and the next one completes it."""

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
from support.layouts import Layout
from support.rows import Row, from_arrow
from support.trips import SCHEMA, table, trip

pytestmark = pytest.mark.metadata_by_default

OPTIONS = {
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.clean.automatic": "false",
    "hoodie.clean.failed.writes.policy": "EAGER",
    "hoodie.metadata.record.index.enable": "true",
}
FAULTS = [("crash", False), ("crash", True), ("error", False), ("lost_answer", False)]
WHERE = "uuid = 'k0001'"
STEP = 31
"""Of the calls, which are hundreds, each run takes one in so many."""


def rows(path: Path) -> list[Row]:
    found = from_arrow(pudi.Table(path).scan().to_arrow())
    return sorted(({k: v for k, v in row.items() if k != "_hoodie_file_name"} for row in found), key=str)


def forget(path: Path, **fault: object) -> FaultStorage:
    storage = FaultStorage(open_storage(str(path)), **fault)  # type: ignore[arg-type]
    done = pudi.Table.of(MetaClient.open(str(path), None, OPTIONS, Context(), storage), OPTIONS).forget(WHERE)
    assert done.ok or any(step.outcome.value == "failed" for step in done.steps), str(done)
    return storage


@pytest.fixture(scope="module", params=[(6, "mor"), (8, "cow"), (9, "mor")], ids=str)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    version, kind = request.param
    path = tmp_path_factory.mktemp("written") / "trips"
    pudi.create(path, SCHEMA, **Layout(version=version, kind=kind).create_arguments())
    mine = pudi.Table(path, options=OPTIONS)
    for ts in range(1, 4):
        mine.upsert(table(trip(number, ts) for number in range(6)))
    return path


@pytest.mark.sampled(1)
@pytest.mark.parametrize("first", range(1, 6))
@pytest.mark.parametrize(("mode", "after"), FAULTS)
def test_every_call(
    written: Path, tmp_path: Path, some_of: Callable[[Sequence[int]], list[int]], mode: str, after: bool, first: int
) -> None:
    whole = Path(shutil.copytree(written, tmp_path / "whole"))
    old = rows(whole)
    calls = forget(whole).calls
    new = rows(whole)
    assert new == [row for row in old if row["uuid"] != "k0001"]
    for number in some_of(range(3 * first, calls + 1, STEP)):
        path = Path(shutil.copytree(written, tmp_path / str(number)))
        with contextlib.suppress(pudi.PudiError, SimulatedCrash):
            forget(path, fail_at=number, mode=mode, crash_after=after)
        assert rows(path) in (old, new), f"call {number}"
        mine = pudi.Table(path, options=OPTIONS)
        done = mine.forget(WHERE)
        assert done.ok, f"call {number}: {done}"
        assert rows(path) == new, f"call {number}"
        assert mine.timeline.pending == ()
        assert mine.check().ok, f"call {number}: {mine.check()}"
        shutil.rmtree(path)
