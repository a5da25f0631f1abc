"""`pudi services`: one process looks after many tables, tells what it did, and stops when it is told to."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest
from typer.testing import CliRunner

import pudi
from pudi.cli.app import app
from pudi.table.keeper import Keeper, ServiceAction
from support.layouts import Layout
from support.rows import from_arrow
from support.trips import SCHEMA, table, trip

pytestmark = pytest.mark.metadata_by_default

BY_HAND = {"hoodie.table.services.enabled": "false", "hoodie.parquet.small.file.limit": "0"}
FEW = {
    "hoodie.clean.commits.retained": "2",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "6",
    "hoodie.compact.inline.max.delta.commits": "3",
    "hoodie.metadata.compact.max.delta.commits": "4",
}
OPTIONS = [part for key, value in FEW.items() for part in ("-o", f"{key}={value}")]


def neglected(path: Path, kind: str = "mor", commits: int = 8) -> pudi.Table:
    """A table that was written without services."""
    pudi.create(path, SCHEMA, **Layout(version=9, kind=kind).create_arguments())
    mine = pudi.Table(path, options=BY_HAND)
    for ts in range(commits):
        mine.upsert(table(trip(number, ts) for number in range(6)))
    return mine


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line]


@contextmanager
def process(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The command in a process of its own, which is ended at the latest with the block."""
    command = [sys.executable, "-m", "pudi.cli", "services", *arguments]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield running
    finally:
        running.kill()
        running.wait()
        stdout = running.stdout
        if stdout is not None:
            stdout.close()


def handles(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a handler of its own for a signal."""
    (caught,) = re.findall(r"^SigCgt:\s*(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return bool(int(caught, 16) >> (number - 1) & 1)


def output(running: subprocess.Popen[str]) -> IO[str]:
    assert running.stdout is not None
    return running.stdout


def test_each_table_has_its_turn(tmp_path: Path) -> None:
    tables = [neglected(tmp_path / kind, kind) for kind in ("cow", "mor")]
    rows = [from_arrow(each.scan().to_arrow()) for each in tables]
    told = CliRunner().invoke(app, ["services", *(each.path for each in tables), *OPTIONS])
    assert told.exit_code == 0, told.output
    found = lines(told.stdout)
    done = {(Path(each["table"]).name, each["action"], each["on"]) for each in found if each["outcome"] == "done"}
    assert {("cow", "clean", "table"), ("mor", "compaction", "table"), ("cow", "archive", "table")} <= done
    assert {tuple(each) for each in found} == {
        ("time", "table", "action", "on", "outcome", "reason", "instant", "seconds")
    }
    assert all(isinstance(each["seconds"], float) for each in found)
    again = [lines(CliRunner().invoke(app, ["services", each.path, *OPTIONS]).stdout) for each in tables]
    assert [each for turn in again for each in turn if each["outcome"] == "failed"] == []
    keys = ["_hoodie_record_key", "ts"]
    for each, before in zip(tables, rows, strict=True):
        now = from_arrow(each.scan().to_arrow())
        assert [[row[key] for key in keys] for row in now] == [[row[key] for key in keys] for row in before]
        assert each.check().ok


def test_a_broken_table_does_not_stop_the_others(tmp_path: Path) -> None:
    whole, broken = neglected(tmp_path / "whole"), neglected(tmp_path / "broken", commits=1)
    (tmp_path / "broken" / ".hoodie" / "hoodie.properties").write_text("hoodie.table.name")
    missing = str(tmp_path / "missing")
    told = CliRunner().invoke(app, ["services", missing, broken.path, whole.path, "--max-at-once", "1", *OPTIONS])
    assert told.exit_code == 2, told.output
    outcomes = [(Path(each["table"]).name, each["action"], each["outcome"]) for each in lines(told.stdout)]
    assert outcomes[:2] == [("missing", "maintain", "failed"), ("broken", "maintain", "failed")]
    assert ("whole", "compaction", "done") in outcomes


def test_it_watches_beside_a_writer_until_it_is_told_to_stop(tmp_path: Path) -> None:
    """Two processes look after a table that is being written: each plan is run once, no row is lost."""
    path = tmp_path / "trips"
    mine = neglected(path, commits=1)
    arguments = [str(path), "--watch", "--interval", "0", *OPTIONS]
    with process(*arguments) as first, process(*arguments) as second:
        both, ts = [first, second], 0
        while ts < 20 or len(select.select([output(each) for each in both], [], [], 0)[0]) < 2:  # both are at work
            ts += 1
            mine.upsert(table(trip(number, ts) for number in range(6)))
        first.send_signal(signal.SIGTERM)
        second.send_signal(signal.SIGINT)
        found = [json.loads(line) for each in both for line in output(each)]
        assert [each.wait(120) for each in both] == [0, 0]
    assert [each for each in found if each["outcome"] == "failed"] == []
    planned = [each for each in found if each["instant"] is not None and each["outcome"] == "done"]
    assert len({(each["instant"], each["on"]) for each in planned}) == len(planned), "no plan was run twice"
    assert mine.timeline.pending == ()
    assert set(mine.scan(columns=["ts"]).to_arrow()["ts"].to_pylist()) == {ts}
    assert mine.maintain(options=FEW).ok
    assert mine.check().ok
    assert mine.doctor().orphans == ()


def test_killed_at_any_moment_the_next_one_takes_over(tmp_path: Path) -> None:
    path = tmp_path / "trips"
    mine = neglected(path, commits=1)
    for turn in range(6):
        for number in range(4):
            mine.upsert(table(trip(each, 10 * turn + number) for each in range(6)))
        before = sorted(each for each in path.rglob("*") if each.is_file())
        with process(str(path), *OPTIONS) as running:
            # another moment each turn: after so many files were made, or at the end
            while running.poll() is None:
                now = sorted(each for each in path.rglob("*") if each.is_file())
                if len(set(now) - set(before)) > 2 * turn:
                    break
            running.kill()
            running.wait()
        done = mine.maintain(options=FEW)
        assert done.ok, str(done)
        mine.maintain(options=FEW)
        assert mine.timeline.pending == ()
        assert mine.doctor().orphans == ()
        left = [each for name in (".temp", ".heartbeat") for each in (path / ".hoodie" / name).rglob("*")]
        assert [each for each in left if each.is_file()] == []
        assert set(mine.scan(columns=["ts"]).to_arrow()["ts"].to_pylist()) == {10 * turn + 3}
    assert mine.check().ok


def test_a_stop_ends_the_running_action_and_begins_no_other(tmp_path: Path) -> None:
    mine = neglected(tmp_path / "trips")
    plan = mine.schedule("compaction", options=FEW)
    told: list[ServiceAction] = []

    def report(action: ServiceAction) -> None:
        told.append(action)
        kept.stop()

    kept = Keeper([mine.path], lambda path: pudi.Table(path, options=FEW), _engine(), report)
    assert kept.run(again=True)
    assert [(each.action, each.instant) for each in told] == [("compaction", plan)]
    assert mine.timeline.pending == ()


def test_so_many_at_once(tmp_path: Path) -> None:
    paths = [neglected(tmp_path / str(number), commits=1).path for number in range(5)]
    inside, most, guard = set[str](), [0], threading.Lock()
    together = threading.Barrier(2, timeout=60)

    class Seen(pudi.Table):
        def _for_call(self, options: Any) -> Any:
            with guard:
                inside.add(self.path)
                most[0] = max(most[0], len(inside))
                number = paths.index(self.path)
            if number < 2:
                together.wait()  # the first two tables are worked on at the same time
            with guard:
                inside.discard(self.path)
            return super()._for_call(options)

    assert Keeper(paths, Seen, _engine(), lambda _: None, max_parallel=2).run(again=False)
    assert most == [2]


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    mine = neglected(tmp_path / "trips")
    script = (
        "import sys, time\n"
        "from pudi.commit.lease import PlanTransaction\n"
        "from pudi.cli.app import app\n"
        "def hang(*_, **__):\n"
        "    print('hangs', flush=True)\n"
        "    time.sleep(600)\n"
        "PlanTransaction.commit = hang\n"
        "app(sys.argv[1:])\n"
    )
    command = [sys.executable, "-c", script, "services", mine.path, "--watch", *OPTIONS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            assert running.stdout.readline() == "hangs\n"
            os.kill(running.pid, signal.SIGTERM)
            with pytest.raises(subprocess.TimeoutExpired):
                running.wait(1)  # it finishes its action
            until = time.monotonic() + 120
            while handles(running.pid, signal.SIGTERM) and time.monotonic() < until:
                time.sleep(0.05)  # two signals that come before the first is handled are one
            os.kill(running.pid, signal.SIGTERM)
            assert running.wait(60) == -signal.SIGTERM
        finally:
            running.kill()
    pending = mine.timeline.pending
    assert len(pending) == 1
    done = mine.maintain(options=FEW)
    assert done.ok, str(done)
    assert pending[0].requested in {each.instant for each in done.steps if each.outcome.value == "done"}
    assert mine.timeline.pending == ()


def _engine() -> Any:
    from pudi.engine.local import LocalEngine

    return LocalEngine()


def jobs_so_far(spark: Any) -> int:
    """How many jobs the session ran, whatever their group: Hudi leaves its own to the jobs that follow it."""
    return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())


@pytest.mark.spark
def test_the_work_runs_on_spark(tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pudi.engine.spark.engine._DRIVER_JOBS", 0)  # none is too small for tasks
    mine = neglected(tmp_path / "trips")
    before = jobs_so_far(spark)
    told = CliRunner().invoke(app, ["services", mine.path, "--spark", "--max-at-once", "1", *OPTIONS])
    assert told.exit_code == 0, told.output
    done = {(each["action"], each["on"]) for each in lines(told.stdout) if each["outcome"] == "done"}
    assert ("compaction", "table") in done
    assert jobs_so_far(spark) > before
    assert spark.range(3).count() == 3, "a session of somebody else's is left alone"
    assert set(mine.scan(columns=["ts"]).to_arrow()["ts"].to_pylist()) == {7}
