"""A clean that dies at any storage call loses no record, and whoever comes next finishes it."""

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
    "hoodie.clean.commits.retained": "1",
    "hoodie.parquet.small.file.limit": "0",
}
FAULTS = [("crash", False), ("crash", True), ("error", False), ("lost_answer", False)]
EAGER = OPTIONS | {"hoodie.clean.failed.writes.policy": "EAGER"}


def rows(path: Path) -> list[Row]:
    found = from_arrow(pudi.Table(path).scan().to_arrow())
    return sorted(({k: v for k, v in row.items() if k != "_hoodie_file_name"} for row in found), key=str)


def data_files(path: Path) -> set[str]:
    files = (file.relative_to(path) for file in path.rglob("*") if file.is_file())
    return {str(file) for file in files if ".hoodie" not in file.parts and not file.name.startswith(".hoodie")}


def clean(path: Path, **fault: object) -> FaultStorage:
    storage = FaultStorage(open_storage(str(path)), **fault)  # type: ignore[arg-type]
    pudi.Table.of(MetaClient.open(str(path), None, OPTIONS, Context(), storage), OPTIONS).clean()
    return storage


@pytest.fixture(scope="module", params=[(6, "mor"), (9, "cow"), (9, "mor")], ids=str)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    version, kind = request.param
    path = tmp_path_factory.mktemp("written") / "trips"
    pudi.create(path, SCHEMA, **Layout(version=version, kind=kind).create_arguments())
    mine = pudi.Table(path, options=OPTIONS)
    for ts in range(1, 5):
        mine.upsert(table(trip(number, ts) for number in range(6)))
        if kind == "mor":
            mine.compact()
    return path


@pytest.mark.sampled(2)
@pytest.mark.parametrize("first", (1, 2, 3))
@pytest.mark.parametrize(("mode", "after"), FAULTS)
def test_every_call(
    written: Path, tmp_path: Path, some_of: Callable[[Sequence[int]], list[int]], mode: str, after: bool, first: int
) -> None:
    whole = Path(shutil.copytree(written, tmp_path / "whole"))
    old = rows(whole)
    calls = clean(whole).calls
    left = data_files(whole)
    assert left < data_files(written)
    for number in some_of(range(first, calls + 1, 3)):
        path = Path(shutil.copytree(written, tmp_path / str(number)))
        with contextlib.suppress(pudi.PudiError, SimulatedCrash):
            clean(path, fail_at=number, mode=mode, crash_after=after)
        assert rows(path) == old, f"call {number}"
        mine = pudi.Table(path, options=EAGER)
        mine.clean()
        assert (data_files(path), rows(path)) == (left, old), f"call {number}"
        assert mine.timeline.pending == ()
        assert len(mine.timeline.of(Action.CLEAN)) == 1
        assert mine.check().ok, f"call {number}"
        shutil.rmtree(path)
