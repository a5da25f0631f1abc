"""Spark drivers that are killed (kill -9) in mid-action: the old or the new state, and nothing left behind."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

import pudi
from pudi.format import Action

pytestmark = [pytest.mark.spark, pytest.mark.metadata_by_default, pytest.mark.timeout(600)]

ACTIONS = ("upsert", "compact", "cluster", "clean", "restore")
OPTIONS = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false", "hoodie.clean.commits.retained": "1"}
SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.int64()), ("part", pa.string())])
Rows = dict[int, int]


def some(ids: range, ts: int) -> pa.Table:
    return pa.table({"id": ids, "ts": [ts] * len(ids), "part": [f"p{n % 4}" for n in ids]}, SCHEMA)


def state(path: Path) -> Rows:
    found = pudi.Table(path).scan(["id", "ts"]).to_arrow()
    ids = found["id"].to_pylist()
    assert len(ids) == len(set(ids)), "a key is there twice"
    return dict(zip(ids, found["ts"].to_pylist(), strict=True))


def written(path: Path, action: str) -> tuple[str, list[Rows]]:
    """A table and its states; the target of a restore, which goes back over a compaction and a record index."""
    kind = "cow" if action in {"cluster", "clean"} else "mor"
    pudi.create(path, SCHEMA, record_key="id", ordering="ts", partition_by="part", table_type=kind)
    mine = pudi.Table(path, options=OPTIONS)
    mine.bulk_insert(some(range(300), 1))
    mine.create_index("record_index")
    to = mine.upsert(some(range(0, 300, 3), 2)).instant
    states = [state(path)]
    for ts in (3, 4):
        mine.upsert(some(range(ts, 300, ts), ts))
        states.append(state(path))
        if kind == "mor" and ts == 3:
            mine.compact()
    return to, states


def kill_in(path: Path, action: str, to: str, delay: float) -> None:
    """Kill the driver and its JVM some time after the action began."""
    command = [sys.executable, str(Path(__file__).with_name("killed_job.py")), str(path), action, to]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        time.sleep(delay)
        os.killpg(process.pid, signal.SIGKILL)


def check_killed(path: Path, action: str, delay: float) -> None:
    to, states = written(path, action)
    kill_in(path, action, to, delay)
    found = state(path)
    new = dict.fromkeys(range(0, 400, 2), 99) if action == "upsert" else {}
    allowed = {"upsert": [states[-1], {**states[-1], **new}], "restore": states}.get(action, states[-1:])
    assert found in allowed
    mine = pudi.Table(path, options=OPTIONS)
    if mine.timeline.pending_of(Action.RESTORE):
        mine.restore()
        found = state(path)
        assert found == states[0]
    mine.upsert(some(range(5), 500))
    expected = {**found, **dict.fromkeys(range(5), 500)}
    assert state(path) == expected
    assert mine.maintain().ok
    assert state(path) == expected
    assert mine.doctor().orphans == ()
    assert mine.timeline.pending == ()
    assert mine.check().ok, mine.check()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("action", ACTIONS)
def test_a_killed_driver_leaves_a_whole_table(tmp_path: Path, action: str, number: int) -> None:
    delay = random.Random(f"{action} {number}").uniform(0, 0.4 if action in {"clean", "restore"} else 2)
    check_killed(tmp_path / "table", action, delay)
