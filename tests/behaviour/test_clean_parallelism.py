"""How many jobs delete the files of a clean at a time, on both engines, and what becomes of them in a busy store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pudi
from pudi.client import MetaClient
from pudi.context import Context, ManualClock
from pudi.context.protocols import Storage
from pudi.format import Action
from pudi.storage import StorageWrapper, open_storage
from support.s3 import S3Server, serve_s3
from support.trips import SCHEMA, table, trip

OPTIONS = {
    "hoodie.clean.automatic": "false",
    "hoodie.clean.commits.retained": "1",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.metadata.enable": "false",
}
PARALLELISM = "hoodie.clean.parallelism"


@pytest.fixture(autouse=True)
def one_file_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pudi.services.clean._FILES", 1)


@pytest.fixture
def server() -> Iterator[S3Server]:
    with serve_s3() as served:
        yield served


def made(path: str, storage_options: dict[str, str] | None = None) -> pudi.Table:
    """A table of which a clean deletes 12 files."""
    pudi.create(path, SCHEMA, record_key="uuid", partition_by="city", ordering="ts", storage_options=storage_options)
    mine = pudi.Table(path, storage_options=storage_options, options=OPTIONS)
    for ts in range(6):
        mine.upsert(table(trip(number, ts) for number in range(3)))
    return mine


def through(mine: pudi.Table, storage: Storage, storage_options: dict[str, str] | None = None) -> pudi.Table:
    return pudi.Table.of(MetaClient.open(mine.path, storage_options, OPTIONS, Context(), storage), OPTIONS)


class OnDelete(StorageWrapper):
    """A storage that calls a function instead of each deletion of a base file."""

    def __init__(self, inner: Storage, do: Callable[[Callable[[], Any]], Any]) -> None:
        super().__init__(inner)
        self.instead = do

    def _call(self, kind: str, path: str, do: Callable[[], Any]) -> Any:
        return self.instead(do) if kind == "delete" and path.endswith(".parquet") else do()


@pytest.mark.parametrize(("parallelism", "expected"), [("1", 1), ("3", 3), ("200", 12)])
def test_jobs_in_threads(tmp_path: Path, parallelism: str, expected: int) -> None:
    mine = made(str(tmp_path / "trips"))
    guard, running, most = threading.Lock(), 0, 0
    together = threading.Barrier(expected, timeout=60)

    def count(do: Callable[[], Any]) -> Any:
        nonlocal running, most
        with guard:
            running += 1
            most = max(most, running)
        together.wait()
        with guard:
            running -= 1
        return do()

    done = through(mine, OnDelete(open_storage(mine.path), count)).clean(options={PARALLELISM: parallelism})
    assert done is not None
    assert most == expected
    assert len(list(Path(mine.path).rglob("*.parquet"))) == 6


@pytest.mark.spark
def test_jobs_as_tasks(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pudi.engine.spark.engine._DRIVER_JOBS", 0)  # none is too small for tasks
    mine, tracker = made(str(tmp_path / "trips")), spark.sparkContext.statusTracker()
    spark.sparkContext.setJobGroup("cleaning", "")
    try:
        mine.clean(spark=spark, options={PARALLELISM: "3"})
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()  # the tracker learns of jobs by events
        stages = [tracker.getJobInfo(job).stageIds for job in tracker.getJobIdsForGroup("cleaning")]
        assert [tracker.getStageInfo(stage).numTasks for (stage,) in stages] == [3]
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    assert len(list(Path(mine.path).rglob("*.parquet"))) == 6


def test_a_store_that_is_too_busy(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that it was too busy for are tried again; after too many failures whoever comes next deletes the rest."""
    mine = made(server.new_root(), server.options())
    names = {info.path for info in open_storage(mine.path, server.options()).list() if info.path.endswith(".parquet")}
    storage = open_storage(mine.path, server.options(), context=Context(ManualClock(), seed=1))
    monkeypatch.setattr("pudi.task.jobs._AT_A_TIME", 1)
    deletions = 0

    def busy(do: Callable[[], Any]) -> Any:
        nonlocal deletions
        deletions += 1
        server.faults += [("POST", "", code) for code in ["SlowDown", 503] * (3 if deletions == 4 else 1)]
        try:
            return do()
        finally:
            server.faults.clear()

    with pytest.raises(pudi.UnavailableError):
        through(mine, OnDelete(storage, busy), server.options()).clean(options={PARALLELISM: "1"})
    left = {info.path for info in storage.list() if info.path.endswith(".parquet")}
    assert len(names) - len(left) == 3, "what was deleted before"
    assert [each.action for each in mine.timeline.pending] == [Action.CLEAN]
    assert set(mine.scan().to_arrow()["ts"].to_pylist()) == {5}
    assert mine.maintain().ok
    assert len([1 for info in storage.list() if info.path.endswith(".parquet")]) == 6
    assert mine.timeline.pending == ()
    assert len(mine.timeline.of(Action.CLEAN)) == 1
