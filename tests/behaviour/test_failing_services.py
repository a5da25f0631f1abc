"""A service that always fails: it rests, doctor names it, and neither writers nor other services wait for it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from typer.testing import CliRunner

import pudi
from pudi.cli.app import app
from pudi.client import MetaClient
from pudi.context import Context, SystemClock
from pudi.format import SERVICE_FAILURES_DIR, service_failure_path
from pudi.services.failures import ServiceFailure
from pudi.upgrade.maintenance import MaintenanceStep, Outcome
from support.layouts import Layout
from support.trips import SCHEMA, table, trip

pytestmark = pytest.mark.metadata_by_default

COMPACTING = {
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "1",
    "hoodie.clean.commits.retained": "1",
    "hoodie.metadata.enable": "true",
}
MINUTE_MS = 60 * 1000


class Later(SystemClock):
    """The machine's clock, moved on."""

    ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


@dataclass
class Broken:
    """Plans of compactions of the table, which all fail until they're mended."""

    plan: Callable[..., object]
    attempts: int = 0
    mended: bool = field(default=False)

    def __call__(self, slices: object, *args: object, **kwargs: object) -> object:
        self.attempts += 1
        if not self.mended:
            raise pudi.CorruptError("the slices can't be told")
        return self.plan(slices, *args, **kwargs)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Broken:
    from pudi.services import compaction

    found = Broken(compaction.plan_compaction)
    monkeypatch.setattr(compaction, "plan_compaction", found)
    return found


def of_kind(path: Path, kind: str = "mor", version: int = 9) -> tuple[pudi.Table, Later]:
    pudi.create(path, SCHEMA, **Layout(version=version, kind=kind).create_arguments())
    clock = Later()
    options = COMPACTING | {"hoodie.metadata.compact.max.delta.commits": "1000"}
    options["hoodie.compact.inline"] = str(kind == "mor").lower()
    return pudi.Table.of(MetaClient.open(str(path), None, options, Context(clock=clock)), options), clock


def step(mine: pudi.Table, name: str = "compaction", *, dry_run: bool = False) -> MaintenanceStep:
    steps = mine.maintain(dry_run=dry_run).steps
    return next(each for each in reversed(steps) if (each.name, each.on) == (name, "table"))


@pytest.mark.parametrize("version", [6, 9])
def test_it_rests_and_writers_go_on(tmp_path: Path, broken: Broken, version: int) -> None:
    path = tmp_path / "trips"
    mine, clock = of_kind(path, version=version)
    failed = [mine.upsert(table([trip(0, ts)])).failed_services for ts in range(3)]  # type: ignore[union-attr]
    assert [list(each) for each in failed] == [["compaction"], ["compaction"], []]
    assert broken.attempts == 2, "the third commit doesn't try it"
    assert mine.scan(columns=["ts"]).to_arrow()["ts"].to_pylist() == [2]
    assert step(mine).outcome is Outcome.FAILED
    assert not mine.check().ok
    assert "failed 2 times in a row since 20" in step(mine).reason
    assert "the slices can't be told" in step(mine, dry_run=True).reason
    assert broken.attempts == 2

    clock.ahead_ms = MINUTE_MS + 1
    assert step(mine).outcome is Outcome.FAILED
    clock.ahead_ms += MINUTE_MS + 1
    assert step(mine).outcome is Outcome.FAILED, "after the third failure it rests for two minutes"
    assert broken.attempts == 3
    broken.mended = True
    clock.ahead_ms += MINUTE_MS
    assert step(mine).outcome is Outcome.DONE
    assert list((path / SERVICE_FAILURES_DIR).iterdir()) == []
    assert not any(each.logs for each in mine.file_slices())


def test_other_processes_see_it(tmp_path: Path, broken: Broken) -> None:
    path = tmp_path / "trips"
    mine, _ = of_kind(path)
    for ts in range(2):
        mine.upsert(table([trip(0, ts)]))
    told = subprocess.run(
        [sys.executable, "-m", "pudi.cli", "doctor", str(path), "--json"], capture_output=True, text=True, check=False
    )
    assert told.returncode == 2, told.stderr
    [failing] = json.loads(told.stdout)["failing"]
    assert (failing["service"], failing["on"], failing["times"]) == ("compaction", "table", 2)
    assert failing["error"].startswith("CorruptError: the slices can't be told")
    assert failing["since"] < failing["next_attempt"]
    said = CliRunner().invoke(app, ["doctor", str(path)]).output
    assert "the compaction of the table failed 2 times in a row since 20" in " ".join(said.split())
    command = [sys.executable, "-m", "pudi.cli", "maintain", str(path), "--json"]
    command += ["-o", "hoodie.compact.inline.max.delta.commits=1"]
    other = subprocess.run(command, capture_output=True, text=True, check=False)
    steps = [each for each in json.loads(other.stdout)["steps"] if each["name"] == "compaction"]
    assert [each["outcome"] for each in steps if each["on"] == "table"] == ["failed"]


def test_other_services_are_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pudi.services import clean

    monkeypatch.setattr(clean, "plan_clean", Broken(clean.plan_clean))
    mine, _ = of_kind(tmp_path / "trips", "cow")
    few = {"hoodie.keep.min.commits": "4", "hoodie.keep.max.commits": "5"}
    few["hoodie.metadata.compact.max.delta.commits"] = "2"
    failed = [mine.upsert(table([trip(0, ts)]), options=few).failed_services for ts in range(12)]  # type: ignore[union-attr]
    assert sum("clean" in each for each in failed) == 2
    assert len(mine.timeline.commits) <= 5, "commits are archived all the same"


def test_a_call_by_the_user_is_always_tried_and_ends_it(tmp_path: Path, broken: Broken) -> None:
    path = tmp_path / "trips"
    mine, _ = of_kind(path)
    for ts in range(3):
        mine.upsert(table([trip(0, ts)]))
    with pytest.raises(pudi.CorruptError, match="can't be told"):
        mine.compact()
    assert broken.attempts == 3
    assert len(mine.doctor().failing) == 1
    broken.mended = True
    assert mine.compact() is not None
    assert mine.doctor().failing == ()
    assert not mine.upsert(table([trip(0, 10)])).failed_services  # type: ignore[union-attr]


def test_a_service_that_is_not_due_any_more_is_forgotten(tmp_path: Path, broken: Broken) -> None:
    mine, clock = of_kind(tmp_path / "trips")
    for ts in range(2):
        mine.upsert(table([trip(0, ts)]))
    clock.ahead_ms = MINUTE_MS + 1
    seldom = {"hoodie.compact.inline.max.delta.commits": "100"}
    mine.maintain(options=seldom)
    assert mine.doctor(options=seldom).failing == ()


@pytest.mark.parametrize(
    "note",
    [
        b"",
        b"{}",
        b"[1",
        b'{"error": "x", "times": 2, "since_ms": 1, "last_ms": 1e300}',
        b'{"times": 2, "since_ms": 1, "last_ms": 2}',
    ],
)
def test_a_note_that_cannot_be_read_counts_for_nothing(tmp_path: Path, broken: Broken, note: bytes) -> None:
    mine, _ = of_kind(tmp_path / "trips")
    broken.mended = True
    mine._meta.storage.put(service_failure_path("compaction"), note)
    assert mine.doctor().failing == ()
    assert not mine.upsert(table([trip(0, 1)])).failed_services  # type: ignore[union-attr]
    assert broken.attempts == 1


def test_a_plan_that_cannot_be_read(tmp_path: Path) -> None:
    mine, clock = of_kind(tmp_path / "trips", "cow")
    for ts in range(3):
        mine.upsert(table([trip(0, ts)]), options={"hoodie.clean.automatic": "false"})
    assert mine.schedule("clean") is not None
    [plan] = (tmp_path / "trips").rglob("*.clean.requested")
    plan.write_bytes(b"no plan")
    for _ in range(2):
        assert step(mine, "clean").outcome is Outcome.FAILED
    assert [each.service for each in mine.doctor().failing] == ["clean"]
    left = step(mine, "clean")
    assert left.outcome is Outcome.FAILED
    assert left.instant is not None
    clock.ahead_ms = 2 * MINUTE_MS
    assert mine.upsert(table([trip(0, 9)])).failed_services.keys() == {"clean"}  # type: ignore[union-attr]


def test_rests_grow_to_an_hour() -> None:
    rests = [ServiceFailure("clean", "", times, 0, 0).rests_until_ms // 1000 for times in (1, 2, 3, 4, 8, 9, 1000)]
    assert rests == [0, 60, 120, 240, 3600, 3600, 3600]


def test_the_backlog_names_what_blocks_it(tmp_path: Path) -> None:
    path = tmp_path / "trips"
    mine, _ = of_kind(path)
    options = {"hoodie.table.services.enabled": "false"}
    mine.upsert(table([trip(0, 0)]), options=options)
    blocking = mine._meta.store.start(mine._meta.store.request(mine._meta.commit_action))
    (path / ".hoodie" / ".heartbeat").mkdir(exist_ok=True)
    (path / ".hoodie" / ".heartbeat" / blocking.requested).touch()  # as a writer of Hudi that is at work
    for ts in range(1, 40):
        mine.upsert(table([trip(0, ts)]), options=options)
    found = {(each.service, each.on): each for each in mine.doctor().backlog}
    assert (found["compaction", "table"].commits, found["compaction", "table"].blocked_by) == (40, None)
    assert (found["clean", "table"].commits, found["clean", "table"].blocked_by) == (39, blocking.requested)
    assert found["archive", "table"].blocked_by == blocking.requested
    assert found["archive", "table"].commits == 20
    reasons = {(each.name, each.on): each.reason for each in mine.maintain(dry_run=True).steps}
    assert f"39 commits wait for it, blocked by {blocking.requested}" in reasons["clean", "table"]
    assert "40 commits wait for it" in reasons["compaction", "table"]
    assert f"20 commits wait for it, blocked by {blocking.requested}" in reasons["archive", "table"]
    assert f"39 commits wait for the clean of the table, blocked by {blocking.requested}" in " ".join(
        each.text for each in mine.doctor().advice
    )
    said = " ".join(CliRunner().invoke(app, ["doctor", str(path)]).output.split())
    assert "what waits for services" in said


def test_a_pending_plan_blocks_the_compaction(tmp_path: Path) -> None:
    mine, _ = of_kind(tmp_path / "trips")
    off = {"hoodie.table.services.enabled": "false"}
    mine.upsert(table([trip(0, 0)]), options=off)
    mine.upsert(table([trip(0, 1)]), options=off)
    plan = mine.schedule("compaction")
    mine.upsert(table([trip(0, 2)]), options=off)
    [waits] = [each for each in mine.doctor().backlog if (each.service, each.on) == ("compaction", "table")]
    assert (waits.commits, waits.blocked_by) == (3, plan)


def test_a_clean_that_another_process_has_run_meanwhile_is_not_run_again(tmp_path: Path) -> None:
    from pudi.commit.lease import PlanTakenError
    from pudi.config import resolve
    from pudi.engine.local import LocalEngine
    from pudi.services import runner
    from pudi.services.registry import service_named
    from pudi.services.target import ServiceTarget

    mine, _ = of_kind(tmp_path / "trips", "cow")
    for ts in range(3):
        mine.upsert(table([trip(0, ts)]), options={"hoodie.clean.automatic": "false"})
    requested = mine.schedule("clean")
    assert requested is not None
    planned = mine.timeline.find(requested)
    assert planned is not None
    assert len(mine.run_pending()) == 1
    on = ServiceTarget.of_table(mine._meta, LocalEngine(), resolve(COMPACTING))
    with pytest.raises(PlanTakenError, match="or has run it"):
        runner.run_instant(service_named("clean", mine.path), on, planned)
    assert mine.timeline.pending == ()
    assert mine.check().ok
