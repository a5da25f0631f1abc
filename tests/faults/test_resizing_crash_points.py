"""A resizing that dies at any storage call leaves the old or the new hash rings; whoever comes next runs its plan."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import pytest

import pudi
from behaviour.test_consistent_hashing import CONSISTENT, rings
from behaviour.test_resizing import SPLIT
from faults.test_clustering_crash_points import EAGER, FAULTS, orphans, rows
from pudi.client import MetaClient
from pudi.context import Context
from pudi.format import Action
from pudi.storage import open_storage
from pudi.testing import FaultStorage, SimulatedCrash
from support.layouts import Layout
from support.trips import SCHEMA, table, trip

pytestmark = pytest.mark.metadata_by_default

OPTIONS = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"} | SPLIT


def cluster(path: Path, **fault: object) -> FaultStorage:
    storage = FaultStorage(open_storage(str(path)), **fault)  # type: ignore[arg-type]
    pudi.Table.of(MetaClient.open(str(path), None, OPTIONS, Context(), storage), OPTIONS).cluster()
    return storage


@pytest.fixture(scope="module", params=[6, 9])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("written") / "trips"
    layout = Layout("simple", "flat", "event", request.param, "mor")
    buckets = CONSISTENT | {"hoodie.bucket.index.num.buckets": "2"}
    pudi.create(path, SCHEMA, **layout.create_arguments())
    mine = pudi.Table(path, options=OPTIONS | buckets)
    mine.upsert(table(trip(number, 1) for number in range(12)))
    mine.upsert(table(trip(number, 2) for number in range(6)))
    return path


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("first", range(len(FAULTS)))
def test_every_call(written: Path, tmp_path: Path, first: int) -> None:
    """Each kind of fault at another fourth of the calls."""
    mode, after = FAULTS[first]
    whole = Path(shutil.copytree(written, tmp_path / "whole"))
    old = rows(whole)
    calls = cluster(whole).calls
    assert len(rings(whole)[""]) == 4
    for number in range(1 + first, calls + 1, len(FAULTS)):
        path = Path(shutil.copytree(written, tmp_path / str(number)))
        with contextlib.suppress(pudi.PudiError, SimulatedCrash):
            cluster(path, fail_at=number, mode=mode, crash_after=after)
        assert rows(path) == old, f"call {number}"
        mine = pudi.Table(path, options=OPTIONS | EAGER)
        if number // len(FAULTS) % 2:  # a write comes first: it goes by the old ring, or by the new one, or is refused
            with contextlib.suppress(pudi.ConflictError):
                mine.upsert(table([trip(3, 9, "between")]))
            assert len({row["uuid"] for row in rows(path)}) == len(rows(path)) == 12, f"call {number}"
        mine.run_pending()
        if not mine.timeline.of(Action.REPLACECOMMIT):  # it died before its plan was there
            mine.cluster()
        assert len(mine.timeline.of(Action.REPLACECOMMIT)) == 1, f"call {number}"
        assert mine.timeline.pending == ()
        assert len(rings(path)[""]) == 4, f"call {number}"
        assert orphans(path) == set(), f"call {number}"
        mine.upsert(table([trip(3, 99, "after")]))
        found = {row["uuid"]: row["rider"] for row in rows(path)}
        assert (found["k0003"], len(found), len(rows(path))) == ("after", 12, 12)
        assert mine.check().ok, f"call {number}: {mine.check()}"
        shutil.rmtree(path)
