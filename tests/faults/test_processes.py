"""Writers in processes of their own: at once, and killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest

import pudi
from support.trips import SCHEMA, table, trip

CONTEXT = multiprocessing.get_context("spawn")


def upsert(path: str, ts: int, keys: list[int], gate: multiprocessing.synchronize.Barrier, answers) -> None:  # type: ignore[no-untyped-def]
    data = table([trip(number, ts) for number in keys])
    opened = pudi.Table(path)
    gate.wait(300)
    try:
        result = opened.upsert(data)
    except pudi.ConflictError:
        answers.put((ts, "conflict"))
    else:
        answers.put((ts, "commit" if result else "nothing"))


def stall(path: str) -> None:
    """Write, and hang when the data files are there and the commit isn't."""
    from pudi.timeline import TimelineStore

    def hang(*_: object, **__: object) -> None:
        (Path(path).parent / "stalled").touch()
        time.sleep(600)

    TimelineStore.complete = hang  # type: ignore[method-assign, assignment]
    pudi.Table(path).upsert(table([trip(number, 99) for number in range(9)]))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "trips"
    pudi.create(path, SCHEMA, record_key="uuid", partition_by="city", ordering="ts").bulk_insert(
        table([trip(number, 1) for number in range(9)])
    )
    return path


def snapshot(path: Path) -> dict[str, int]:
    found = pudi.Table(path).scan(columns=["uuid", "ts"]).to_arrow()
    keys = found["uuid"].to_pylist()
    assert len(keys) == len(set(keys)), "a key is there twice"
    return dict(zip(keys, found["ts"].to_pylist(), strict=True))


@pytest.mark.parametrize("keys", [[0, 3, 6], [100, 103, 106]], ids=["updates", "new keys"])
def test_two_at_once_lose_no_update(path: Path, keys: list[int]) -> None:
    for attempt in range(3):
        gate, answers = CONTEXT.Barrier(2), CONTEXT.Queue()
        times = [10 + 2 * attempt, 11 + 2 * attempt]
        writers = [CONTEXT.Process(target=upsert, args=(str(path), ts, keys, gate, answers)) for ts in times]
        for writer in writers:
            writer.start()
        outcome = dict(answers.get(timeout=300) for _ in writers)
        for writer in writers:
            writer.join(60)
        committed = [ts for ts in times if outcome[ts] == "commit"]
        assert committed, outcome
        assert set(outcome.values()) <= {"commit", "conflict"}
        found = snapshot(path)
        assert {found[f"k{number:04}"] for number in keys} == {max(committed)}


def test_a_killed_writer_is_repaired_at_once(path: Path) -> None:
    writer = CONTEXT.Process(target=stall, args=(str(path),))
    writer.start()
    deadline = time.monotonic() + 300
    while not (path.parent / "stalled").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    before = snapshot(path)
    with_dead_files = set(path.rglob("*.parquet"))
    os.kill(writer.pid or 0, signal.SIGKILL)
    writer.join(60)
    assert pudi.Table(path).upsert(table([trip(50, 5)])) is not None
    assert snapshot(path) == {**before, "k0050": 5}
    assert len(with_dead_files - set(path.rglob("*.parquet"))) == 3, "the dead writer's files are gone"
    actions = [instant.action.value for instant in pudi.Table(path).timeline.instants]
    assert actions == ["commit", "rollback", "commit"]


def test_a_live_writer_is_left_alone(path: Path) -> None:
    writer = CONTEXT.Process(target=stall, args=(str(path),))
    writer.start()
    deadline = time.monotonic() + 300
    while not (path.parent / "stalled").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    try:
        assert pudi.Table(path).upsert(table([trip(50, 5)])) is not None
        assert len(pudi.Table(path).timeline.pending) == 1
    finally:
        writer.kill()
        writer.join(60)
