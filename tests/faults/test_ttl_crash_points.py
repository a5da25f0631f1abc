"""A partition TTL that dies at any storage call deletes all that is due or nothing, and whoever comes next goes on."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import pudi
from pudi.client import MetaClient
from pudi.context import Context
from pudi.context.clock import ManualClock
from pudi.format import Action
from pudi.storage import open_storage
from pudi.testing import FaultStorage, SimulatedCrash
from support.layouts import Layout
from support.rows import Row, from_arrow
from support.trips import SCHEMA, table, trip

pytestmark = pytest.mark.metadata_by_default

START, DAY = 1_700_000_000_000, 24 * 3600
OPTIONS = {
    "hoodie.partition.ttl.strategy.days.retain": "5",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.table.services.enabled": "false",
    "hoodie.clean.failed.writes.policy": "EAGER",
}
FAULTS = [("crash", False), ("crash", True), ("error", False), ("lost_answer", False)]


def on(path: Path, day: float, storage: object = None) -> pudi.Table:
    clock = ManualClock(START + round(day * DAY * 1000))
    client = MetaClient.open(str(path), None, OPTIONS, Context(clock=clock), storage or open_storage(str(path)))  # type: ignore[arg-type]
    return pudi.Table.of(client, OPTIONS)


def rows(path: Path) -> list[Row]:
    return sorted(from_arrow(pudi.Table(path).scan().to_arrow()), key=str)


@pytest.fixture(scope="module", params=[(6, "mor"), (8, "cow"), (9, "mor")], ids=str)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    version, kind = request.param
    path = tmp_path_factory.mktemp("written") / "trips"
    pudi.create(path, SCHEMA, **Layout(version=version, kind=kind).create_arguments())
    on(path, 0).upsert(table(trip(number, 1, city="nyc" if number % 2 else "chennai") for number in range(4)))
    on(path, 8).upsert(table([trip(9, 1, city="sao_paulo")]))
    return path


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("mode", "after"), FAULTS)
def test_every_call(
    written: Path, tmp_path: Path, some_of: Callable[[Sequence[int]], list[int]], mode: str, after: bool
) -> None:
    def expire(path: Path, **fault: object) -> int:
        storage = FaultStorage(open_storage(str(path)), **fault)  # type: ignore[arg-type]
        on(path, 10, storage).run_ttl()
        return storage.calls

    whole = Path(shutil.copytree(written, tmp_path / "whole"))
    old = rows(whole)
    calls = expire(whole)
    new = rows(whole)
    assert {row["city"] for row in new} == {"sao_paulo"}
    for number in some_of(range(1, calls + 1)):
        path = Path(shutil.copytree(written, tmp_path / str(number)))
        with contextlib.suppress(pudi.PudiError, SimulatedCrash):
            expire(path, fail_at=number, mode=mode, crash_after=after)
        assert rows(path) in (old, new), f"call {number}"
        on(path, 10.5).run_ttl()
        assert rows(path) == new, f"call {number}"
        mine = on(path, 11)
        assert len(mine.timeline.of(Action.REPLACECOMMIT)) == 1, f"call {number}"
        assert mine.timeline.pending == ()
        assert mine.check().ok, f"call {number}"
        shutil.rmtree(path)
