"""No job of the engine runs while a table's lock is held: other writers wait for a moment only, whatever the data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pudi
from pudi.context import Storage
from pudi.engine.local import LocalEngine as Local
from pudi.locks.table_lock import TableLock
from support.damage import misplace_a_key
from support.engines import Engine, SparkEngine, per_engine
from support.trips import SCHEMA, table, trip

INDEXES = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.index.secondary.enable": "true",
    "hoodie.metadata.index.secondary.column": "rider",
    "hoodie.metadata.index.expression.enable": "true",
    "hoodie.metadata.index.expression.column": "rider",
    "hoodie.metadata.index.expression.type": "column_stats",
    "hoodie.metadata.index.expression.options": "expr=upper",
}


class JobWatch:
    """Fails where a job starts while the lock is held; counts the jobs, so that a test sees that there were some."""

    def __init__(self, jobs: Callable[[], int]) -> None:
        self.jobs = jobs
        self.depth = 0
        self.seen = 0
        self.locked = 0

    def enter(self) -> None:
        self.depth += 1
        if self.depth == 1:
            self.seen = self.jobs()
            self.locked += 1

    def leave(self) -> None:
        if self.depth == 1:
            assert self.jobs() == self.seen, f"{self.jobs() - self.seen} jobs ran while the table's lock was held"
        self.depth -= 1


@pytest.fixture
def watch(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[JobWatch]:
    """Watches the jobs of one engine: those that Spark's scheduler has numbered, or the local engine's."""
    if isinstance(engine, SparkEngine):
        scheduler = engine.spark.sparkContext._jsc.sc().dagScheduler()
        found = JobWatch(lambda: int(scheduler.numTotalJobs()))
    else:
        calls = [0]
        run = Local._map

        def counted(self: Local, storage: Storage, function: Callable[..., Any], items: Any, *more: Any) -> list[Any]:
            items = list(items)
            calls[0] += len(items)
            return run(self, storage, function, items, *more)

        monkeypatch.setattr(Local, "_map", counted)
        found = JobWatch(lambda: calls[0])
    enter, leave = TableLock.__enter__, TableLock.__exit__

    def entered(self: TableLock) -> TableLock:
        held = enter(self)
        found.enter()
        return held

    def left(self: TableLock, *error: Any) -> None:
        try:
            found.leave()
        finally:
            leave(self, *error)

    monkeypatch.setattr(TableLock, "__enter__", entered)
    monkeypatch.setattr(TableLock, "__exit__", left)
    yield found
    assert found.locked
    assert found.jobs()


@pytest.mark.parametrize(
    ("engine", "kind", "version"),
    per_engine([("cow", "9"), ("mor", "9"), ("cow", "6"), ("mor", "6")], [("mor", "9")], [("cow", "9")]),
    indirect=["engine"],
)
def test_writes_services_and_indexes(engine: Engine, watch: JobWatch, tmp_path: Path, kind: str, version: str) -> None:
    options = {"hoodie.write.table.version": version, "hoodie.metadata.enable": "false"}
    path = tmp_path / "trips"
    pudi.create(path, SCHEMA, record_key="uuid", partition_by="city", ordering="ts", table_type=kind, options=options)
    plain = pudi.Table(path, options=options)
    plain.upsert(engine.frame(table(trip(n, 10) for n in range(20))))
    asked = dict(INDEXES)
    if version == "6":
        asked = {k: v for k, v in asked.items() if "secondary" not in k and "expression" not in k}
    trips = pudi.Table(path, options=asked)
    trips.upsert(engine.frame(table(trip(n, 20) for n in range(0, 30, 3))))  # makes the indexes, then writes to them
    assert {each.name for each in trips.indexes()} >= {"record_index", "bloom_filters"}
    trips.delete(engine.frame(table([trip(3, 30)])))
    trips.insert_overwrite(engine.frame(table(trip(n, 40) for n in range(6))))
    trips.create_index("column_stats", ["fare", "ts"])
    trips.upsert(engine.frame(table(trip(n, 50) for n in range(25, 40))))
    if kind == "mor":
        trips.upsert(engine.frame(table(trip(n, 60) for n in range(6))))
        assert trips.compact() is not None
    assert trips.check().ok


@pytest.mark.parametrize("engine", ["local"], indirect=True)
def test_a_repair(engine: Engine, watch: JobWatch, tmp_path: Path) -> None:
    path = tmp_path / "trips"
    pudi.create(path, SCHEMA, record_key="uuid", partition_by="city", ordering="ts")
    trips = pudi.Table(path, options=INDEXES)
    trips.upsert(engine.frame(table(trip(n, 10) for n in range(20))))
    misplace_a_key(path)
    assert not trips.check().ok
    assert "record_index" in trips.repair(confirm=lambda plan: True).built
    assert trips.check().ok
