"""An archiving that dies at any storage call loses no instant, brings none twice, and the next one finishes it."""

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
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.clean.automatic": "false",
    "hoodie.clean.commits.retained": "1",
    "hoodie.compact.inline.max.delta.commits": "1",
    "hoodie.metadata.compact.max.delta.commits": "2",
    "hoodie.timeline.compaction.batch.size": "2",
    "hoodie.timeline.manifest.retained.versions": "1",
}
FAULTS = [("crash", False), ("crash", True), ("error", False), ("lost_answer", False)]


def archive(path: Path, **fault: object) -> FaultStorage:
    storage = FaultStorage(open_storage(str(path)), **fault)  # type: ignore[arg-type]
    pudi.Table.of(MetaClient.open(str(path), None, OPTIONS, Context(), storage), OPTIONS).archive()
    return storage


def state(path: Path) -> tuple[list[list[Row]], list[str]]:
    """Some of the states that were written, and the changes since the beginning."""
    mine = pudi.Table(path)
    timeline = mine.timeline.with_archived(MetaClient.open(str(path), None, {}).store.archived())
    states = [from_arrow(mine.scan(as_of=each.requested).to_arrow()) for each in timeline.commits[1:8:3]]
    return [sorted(each, key=str) for each in states], sorted(map(str, mine.changes(since="0").to_arrow().to_pylist()))


@pytest.fixture(scope="module", params=[(6, "mor"), (9, "cow"), (9, "mor")], ids=str)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    version, kind = request.param
    path = tmp_path_factory.mktemp("written") / "trips"
    pudi.create(path, SCHEMA, **Layout(version=version, kind=kind).create_arguments())
    mine = pudi.Table(path, options=OPTIONS)
    for ts in range(1, 6):
        mine.upsert(table(trip(number, ts) for number in range(4)))
        if ts % 2 and kind == "mor":
            mine.compact()
    assert mine.archive() >= 1
    for ts in range(6, 9):
        mine.upsert(table(trip(number, ts) for number in range(4)), options={"hoodie.archive.automatic": "false"})
    return path


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("mode", "after"), FAULTS)
def test_every_call(
    written: Path, tmp_path: Path, some_of: Callable[[Sequence[int]], list[int]], mode: str, after: bool
) -> None:
    whole = Path(shutil.copytree(written, tmp_path / "whole"))
    before = state(whole)
    calls = archive(whole).calls
    left = [each.requested for each in pudi.Table(whole).timeline.instants]
    assert len(left) < len(pudi.Table(written).timeline.instants)
    assert state(whole) == before
    for number in some_of(range(1, calls + 1)):
        path = Path(shutil.copytree(written, tmp_path / str(number)))
        with contextlib.suppress(pudi.PudiError, SimulatedCrash):
            archive(path, fail_at=number, mode=mode, crash_after=after)
        assert state(path) == before, f"call {number}"
        mine = pudi.Table(path, options=OPTIONS)
        mine.archive()
        assert state(path) == before, f"call {number}"
        for ts in range(9, 11):
            mine.upsert(table(trip(number, ts) for number in range(4)))
        archived = [(i.requested, i.action) for i in MetaClient.open(str(path), None, {}).store.archived()]
        active = [(i.requested, i.action) for i in mine.timeline.instants]
        assert len({*archived, *active}) == len(archived) + len(active), f"call {number}"
        assert mine.timeline.pending == (), f"call {number}"
        assert mine.check().ok, f"call {number}"
        shutil.rmtree(path)
