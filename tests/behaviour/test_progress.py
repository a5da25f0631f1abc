"""Actions tell how far they are: in the log, to a receiver, and in what they return."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

import pudi
from support.engines import THREE_WAYS, Engine
from support.trips import SCHEMA, table, trip


@dataclass
class Told:
    """A receiver that notes what it's told."""

    events: list[tuple[object, ...]] = field(default_factory=list)

    def start(self, table: str, action: str, phase: str) -> None:
        self.events.append(("start", action, phase))

    def advance(self, done: int, total: int) -> None:
        self.events.append(("advance", done, total))

    def finish(self) -> None:
        self.events.append(("finish",))


class Broken(Told):
    """A receiver that fails when it's told that a phase is over."""

    def finish(self) -> None:
        super().finish()
        raise RuntimeError("no terminal")


def made(path: Path, kind: str = "cow") -> pudi.Table:
    pudi.create(path, SCHEMA, record_key="uuid", partition_by="city", ordering="ts", table_type=kind)
    return pudi.Table(path)


@THREE_WAYS
def test_a_receiver_is_told_of_phases_and_tasks(engine: Engine, tmp_path: Path) -> None:
    trips, told = made(tmp_path / "trips"), Told()
    with pudi.report_progress(told):
        trips.upsert(engine.frame(table(trip(number, 10) for number in range(9))))
    assert [each[1:] for each in told.events if each[0] == "start"][-2:] == [("upsert", "write"), ("upsert", "commit")]
    assert sum(each[0] == "start" for each in told.events) == sum(each[0] == "finish" for each in told.events)
    if engine.name == "local":
        done = [each[1:] for each in told.events if each[0] == "advance"]
        assert done[-1][0] == done[-1][1] == 3
    told.events.clear()
    trips.upsert(engine.frame(table([trip(1, 11)])))
    assert told.events == []


def test_a_failing_receiver_fails_no_commit(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    trips, broken = made(tmp_path / "trips"), Broken()
    with pudi.report_progress(broken):
        trips.upsert(table([trip(1, 10)]))
    assert trips.scan().to_arrow().num_rows == 1
    assert sum(each[0] == "finish" for each in broken.events) == 1
    assert sum("its receiver failed" in record.message for record in caplog.records) == 1


def test_a_phase_that_fails_is_over(tmp_path: Path) -> None:
    trips, told = made(tmp_path / "trips"), Told()
    with pudi.report_progress(told), pytest.raises(pudi.InvalidArgumentError):
        trips.upsert(table([{**trip(1, 10), "uuid": None}]))
    assert told.events[-1] == ("finish",)


def test_the_log_tells_phases_and_results(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    trips = made(tmp_path / "trips", "mor")
    with caplog.at_level(logging.INFO, logger="pudi"):
        done = trips.upsert(table(trip(number, 10) for number in range(9)))
        trips.upsert(table([trip(1, 11)]))
        compacted = trips.compact()
    assert done is not None
    assert compacted is not None
    said = [record.getMessage() for record in caplog.records if record.name.startswith("pudi.client")]
    assert f"table {trips.path}: {done}" in said
    assert f"table {trips.path}: {compacted}" in said
    assert any(": upsert: write took " in line for line in said)
    assert any(": compaction: write took " in line for line in said)


def test_a_result_prints_as_a_line(tmp_path: Path) -> None:
    trips = made(tmp_path / "trips")
    first = trips.upsert(table(trip(number, 10) for number in range(9)))
    assert first is not None
    assert str(first).startswith(f"UPSERT {first.instant}: 9 inserted, 3 files of ")
    timed = replace(first, duration=1.5, phases={"tag": 0.25, "write": 0.001, "commit": 0.5})
    assert str(timed).endswith("; 1.50 s (tag 0.25, commit 0.50)")
    gone = trips.delete(table([trip(0, 20), trip(1, 20)]))
    assert ": 2 deleted, 2 files of " in str(gone)
    replaced = trips.insert_overwrite(table([trip(3, 30)]))
    assert ": 1 inserted, 1 file group replaced, 1 file of " in str(replaced)
