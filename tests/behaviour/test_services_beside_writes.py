"""Services that run beside writes, in the writer's own process: Hudi's options for async services."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.client import MetaClient
from pudi.context.executor import ThreadExecutor
from pudi.format import Action, State
from pudi.services.failures import read_failure
from pudi.services.target import ServiceTarget
from support.engines import Engine, per_engine
from support.layouts import Layout
from support.trips import SCHEMA, table, trip

pytestmark = pytest.mark.metadata_by_default

COMPACTING = {
    "hoodie.datasource.compaction.async.enable": "true",
    "hoodie.compact.inline.max.delta.commits": "2",
}
CLUSTERING = {
    "hoodie.clustering.async.enabled": "true",
    "hoodie.clustering.async.max.commits": "2",
    "hoodie.clustering.plan.strategy.sort.columns": "fare",
}
CLEANING = {"hoodie.clean.async.enabled": "true", "hoodie.clean.commits.retained": "1"}
ARCHIVING = {"hoodie.archive.async": "true", "hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4"}
PENDING = (State.REQUESTED, State.INFLIGHT)


def made(path: Path, kind: str, version: int = 9, **more: Any) -> pudi.Table:
    pudi.create(path, SCHEMA, **Layout(version=version, kind=kind).create_arguments())
    return pudi.Table(path, options=more)


def batch(ts: int) -> pa.Table:
    return table(trip(number, ts) for number in range(9))


def rows(mine: pudi.Table) -> dict[str, int]:
    return {row["uuid"]: row["ts"] for row in pudi.Table(mine.path).scan().to_arrow().to_pylist()}


def expected(ts: int) -> dict[str, int]:
    return {f"k{number:04}": ts for number in range(9)}


class Gate:
    """Lets the jobs of services in the background begin when it's opened.

    Attributes:
        reached: set when the first one waits.
        most: the largest number that ran at a time.
    """

    def __init__(self) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()
        self.most = self._now = 0

    def run_jobs(self, target: ServiceTarget, *arguments: Any) -> Any:
        if threading.current_thread() is threading.main_thread() or target.is_metadata:
            return RUN_JOBS(target, *arguments)
        self._now += 1
        self.most = max(self.most, self._now)
        self.reached.set()
        try:
            assert self.opened.wait(60)
            return RUN_JOBS(target, *arguments)
        finally:
            self._now -= 1


RUN_JOBS = ServiceTarget.run_jobs


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    found = Gate()

    def run_jobs(target: ServiceTarget, *arguments: Any) -> Any:
        return found.run_jobs(target, *arguments)

    monkeypatch.setattr(ServiceTarget, "run_jobs", run_jobs)
    yield found
    found.opened.set()


def of_kind(path: Path, action: Action, *states: State) -> list[Any]:
    return list(pudi.Table(path).timeline.of(action, *states))


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("engine", "kind", "version"),
    per_engine(
        local=[("cow", 6), ("mor", 6), ("mor", 8), ("cow", 9), ("mor", 9)], spark=[("cow", 9), ("mor", 6), ("mor", 9)]
    ),
    indirect=["engine"],
)
def test_all_services_are_done_beside_writes(tmp_path: Path, engine: Engine, kind: str, version: int) -> None:
    options = {**CLEANING, **ARCHIVING, **(COMPACTING if kind == "mor" else CLUSTERING)}
    mine = made(tmp_path / "trips", kind, version, **options)
    for ts in range(8):
        done = mine.upsert(engine.frame(batch(ts)))
        assert done is not None
        assert not done.failed_services
        assert mine.wait_for_services().ok
    assert rows(mine) == expected(7)
    last = Action.COMMIT if kind == "mor" else Action.REPLACECOMMIT
    assert of_kind(tmp_path / "trips", last)
    assert of_kind(tmp_path / "trips", Action.CLEAN)
    assert len(pudi.Table(mine.path).timeline.commits) <= 6
    assert pudi.Table(mine.path).timeline.pending == ()
    assert mine.check().ok


@pytest.mark.parametrize("version", [6, 9])
def test_a_writer_goes_on_while_a_compaction_runs(tmp_path: Path, gate: Gate, version: int) -> None:
    mine = made(tmp_path / "trips", "mor", version, **COMPACTING)
    for ts in range(2):
        mine.upsert(batch(ts))
    assert gate.reached.wait(60)
    for ts in range(2, 6):
        done = mine.upsert(batch(ts))
        assert done is not None
        assert not done.failed_services
        assert rows(mine) == expected(ts)
    [running] = of_kind(tmp_path / "trips", Action.COMPACTION, *PENDING)
    assert running.state is State.INFLIGHT
    assert mine.wait_for_services(0).left[:1] == ("compaction",)
    assert not mine.wait_for_services(0.01).ok
    gate.opened.set()
    assert mine.wait_for_services().ok
    assert running.requested in {each.requested for each in of_kind(tmp_path / "trips", Action.COMMIT)}
    assert rows(mine) == expected(5)
    assert mine.check().ok


def test_another_writer_of_the_process_does_not_run_the_same_plan(tmp_path: Path, gate: Gate) -> None:
    mine = made(tmp_path / "trips", "mor", **COMPACTING)
    for ts in range(2):
        mine.upsert(batch(ts))
    assert gate.reached.wait(60)
    assert pudi.Table(mine.path).run_pending() == []
    pudi.Table(mine.path, options=COMPACTING).upsert(batch(2))
    gate.opened.set()
    assert pudi.Table(mine.path).wait_for_services().ok
    assert len(of_kind(tmp_path / "trips", Action.COMMIT)) == 1


def test_one_service_of_a_table_runs_at_a_time(tmp_path: Path, gate: Gate) -> None:
    mine = made(tmp_path / "trips", "mor", **COMPACTING, **CLUSTERING, **CLEANING)
    for ts in range(2):
        mine.upsert(batch(ts))
    assert gate.reached.wait(60)
    assert set(mine.wait_for_services(0).left) >= {"compaction", "clean"}
    gate.opened.set()
    assert mine.wait_for_services().ok
    assert gate.most == 1


def test_a_write_to_what_a_clustering_works_on_conflicts_and_others_go_on(tmp_path: Path, gate: Gate) -> None:
    mine = made(tmp_path / "trips", "cow", **CLUSTERING)
    for ts in range(2):
        mine.upsert(batch(ts))
    assert gate.reached.wait(60)
    with pytest.raises(pudi.ConflictError):
        mine.upsert(batch(2))
    mine.insert(table([trip(100, 2)]))
    gate.opened.set()
    assert mine.wait_for_services().ok
    assert rows(mine) == {**expected(1), "k0100": 2}
    mine.upsert(batch(3))
    assert rows(mine) == {**expected(3), "k0100": 2}


def test_a_service_that_fails_fails_no_commit_and_rests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: Any) -> Any:
        raise pudi.CorruptError("a file is broken")

    mine = made(tmp_path / "trips", "cow", **CLEANING)
    monkeypatch.setattr(ServiceTarget, "run_jobs", fails)
    for ts in range(4):
        done = mine.upsert(batch(ts))
        assert done is not None
        assert not done.failed_services
        report = mine.wait_for_services()
    assert not report.ok
    assert "a file is broken" in report.failed["clean"]
    assert "clean failed" in str(report)
    assert "clean" in str(mine.doctor())
    found = read_failure(MetaClient.open(mine.path, None, {}).storage, "clean")
    assert found is not None
    assert found.times == 2, "then it rests"
    monkeypatch.undo()
    mine.clean()
    mine.upsert(batch(4))
    assert mine.wait_for_services().ok
    assert rows(mine) == expected(4)


@pytest.mark.parametrize("key", ["hoodie.clean.async", "hoodie.archive.async", "hoodie.clustering.async.enabled"])
def test_services_beside_writes_are_refused_where_none_run(tmp_path: Path, key: str) -> None:
    mine = made(tmp_path / "trips", "cow", **{"hoodie.table.services.enabled": "false", key: "true"})
    with pytest.raises(pudi.InvalidArgumentError, match=f"{key}=true and hoodie.table.services.enabled=false"):
        mine.insert(batch(0))
    assert mine.timeline.commits == ()


def test_without_the_automatic_service_there_is_none_beside_writes(tmp_path: Path) -> None:
    off = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
    mine = made(tmp_path / "trips", "cow", **CLEANING, **ARCHIVING, **off)
    for ts in range(6):
        mine.upsert(batch(ts))
    assert mine.wait_for_services().ok
    assert len(mine.timeline.commits) == 6
    assert not of_kind(tmp_path / "trips", Action.CLEAN)


@pytest.mark.parametrize("inline", [True, False])
def test_an_inline_compaction_goes_before_one_beside(tmp_path: Path, gate: Gate, inline: bool) -> None:
    mine = made(tmp_path / "trips", "mor", **COMPACTING, **{"hoodie.compact.inline": str(inline).lower()})
    for ts in range(2):
        mine.upsert(batch(ts))
    assert bool(of_kind(tmp_path / "trips", Action.COMMIT)) is inline
    assert gate.reached.wait(0 if inline else 60) is not inline
    gate.opened.set()
    assert mine.wait_for_services().ok, "nothing goes on beside later tests"


SCRIPT = """
import os, sys, threading
import pyarrow as pa
import pudi
from pudi.services.target import ServiceTarget

sys.path.insert(0, {tests!r})
from support.trips import table, trip

run_jobs, reached = ServiceTarget.run_jobs, threading.Event()

def slow(target, *arguments):
    reached.set()
    {slow}
    return run_jobs(target, *arguments)

ServiceTarget.run_jobs = slow
mine = pudi.Table({path!r}, options={options!r})
for ts in range(2):
    mine.upsert(table(trip(number, ts) for number in range(9)))
assert {waits}
{then}
"""
FOREVER = "threading.Event().wait()"


def run_script(
    mine: pudi.Table, options: dict[str, str], slow: str, then: str = "", waits: str = "reached.wait(60)"
) -> int:
    tests = str(Path(__file__).parents[1])
    script = SCRIPT.format(tests=tests, path=mine.path, options=options, slow=slow, then=then, waits=waits)
    done = subprocess.run([sys.executable, "-c", script], timeout=120, check=False, capture_output=True, text=True)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode


def test_the_next_writer_takes_over_from_a_process_that_was_killed(tmp_path: Path) -> None:
    mine = made(tmp_path / "trips", "mor", **COMPACTING)
    assert run_script(mine, COMPACTING, FOREVER, "os.kill(os.getpid(), 9)") == -9
    [left] = of_kind(tmp_path / "trips", Action.COMPACTION, *PENDING)
    assert left.state is State.INFLIGHT
    mine.upsert(batch(2))
    assert mine.wait_for_services().ok
    assert left.requested in {each.requested for each in of_kind(tmp_path / "trips", Action.COMMIT)}
    assert rows(mine) == expected(2)
    assert mine.doctor().orphans == ()
    assert mine.check().ok


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_the_end_of_a_program_waits_for_its_services(tmp_path: Path, kind: str) -> None:
    options = {**(COMPACTING if kind == "mor" else CLUSTERING), **CLEANING}
    mine = made(tmp_path / "trips", kind)
    assert run_script(mine, options, "threading.main_thread().join(0.3)") == 0
    assert pudi.Table(mine.path).timeline.pending == ()
    last = Action.COMMIT if kind == "mor" else Action.REPLACECOMMIT
    assert of_kind(tmp_path / "trips", last)
    assert rows(mine) == expected(1)
    assert mine.check().ok


def test_what_is_written_at_the_end_of_a_program_has_its_services(tmp_path: Path) -> None:
    mine = made(tmp_path / "trips", "cow")
    options = {**CLEANING, "hoodie.parquet.small.file.limit": "0"}
    last = "import atexit; atexit.register(lambda: pudi.Table(mine.path, options=at_end)."
    last += "upsert(table(trip(number, 2) for number in range(9)))); at_end = " + repr(options)
    assert run_script(mine, {"hoodie.clean.automatic": "false"}, "pass", last, waits="True") == 0
    assert rows(mine) == expected(2)
    assert len(of_kind(tmp_path / "trips", Action.CLEAN)) == 1


@pytest.mark.parametrize("slow", [FOREVER, "threading.main_thread().join(2)"])
def test_the_end_of_a_program_waits_no_longer_than_it_is_told(tmp_path: Path, slow: str) -> None:
    options = {**COMPACTING, "pudi.services.async.exit.seconds": "0"}
    mine = made(tmp_path / "trips", "mor", **options)
    assert run_script(mine, options, slow) == 0
    [left] = of_kind(tmp_path / "trips", Action.COMPACTION, *PENDING)
    mine.upsert(batch(2))
    assert mine.wait_for_services().ok
    assert left.requested in {each.requested for each in of_kind(tmp_path / "trips", Action.COMMIT)}
    assert rows(mine) == expected(2)
    assert mine.doctor().orphans == ()


@pytest.mark.parametrize("before", [0, 1])
def test_the_next_write_begins_what_got_no_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int) -> None:
    """Whether or not a thread has run services of the table before."""
    mine = made(tmp_path / "t", "cow", **CLEANING)
    for ts in range(1, 3 + 2 * before):
        mine.upsert(batch(ts))
    assert mine.wait_for_services(60).ok
    cleans = len(of_kind(tmp_path / "t", Action.CLEAN))
    assert bool(cleans) == bool(before)

    def refused(*arguments: object, **named: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(ThreadExecutor, "begin", refused)
        result = mine.upsert(batch(7))
    assert "can't start new thread" in result.failed_services["clean"]
    assert mine.wait_for_services(60).left == ("clean",)
    mine.upsert(batch(8))
    assert mine.wait_for_services(60).ok
    assert len(of_kind(tmp_path / "t", Action.CLEAN)) > cleans
    assert rows(mine) == expected(8)
