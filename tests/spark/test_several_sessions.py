"""Two Spark sessions and a streaming writer on one table: each change counts once, also where a driver is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from session_job import SCHEMA, increment, stream

import pudi

pytestmark = [pytest.mark.spark, pytest.mark.metadata_by_default, pytest.mark.timeout(900)]


def made(path: Path, table_type: str) -> Path:
    options = {"hoodie.write.concurrency.mode": "optimistic_concurrency_control"}
    table = pudi.create(
        path, SCHEMA, record_key="id", partition_by="part", table_type=table_type, name="t", options=options
    )
    table.insert(pa.table({"id": [0], "part": ["p0"], "n": [0]}, SCHEMA))
    return path


def check(path: Path, rows: int, least: int, most: int) -> None:
    """Record 0 was incremented from `least` to `most` times, the streamed rows are there once, and all files fit."""
    table = pudi.Table(path)
    found = table.scan(["id", "n"]).to_arrow().sort_by("id").to_pydict()
    assert found["id"] == list(range(rows + 1))
    assert least <= found["n"][0] <= most
    assert found["n"][1:] == list(range(rows))
    assert table.check().ok


def test_two_sessions_and_a_stream(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pudi.engine.spark.engine._DRIVER_RECORDS", 0)
    monkeypatch.setattr("pudi.engine.spark.engine._DRIVER_JOBS", 0)
    path = made(tmp_path / "t", "cow")
    with ThreadPoolExecutor() as threads:
        jobs = [threads.submit(increment, spark.newSession(), path, 2) for _ in range(2)]
        jobs.append(threads.submit(stream, spark.newSession(), path, 20))
        for each in jobs:
            each.result()
    check(path, 20, 4, 4)


@contextmanager
def running(path: Path, **work: int) -> Iterator[subprocess.Popen[str]]:
    """A Spark application with this role and count, which is killed at the end."""
    ((role, count),) = work.items()
    command = [sys.executable, str(Path(__file__).with_name("session_job.py")), str(path), role, str(count)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as job:
        try:
            yield job
        finally:
            if job.poll() is None:
                os.killpg(job.pid, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_two_drivers_and_a_stream_of_which_one_is_killed(tmp_path: Path, table_type: str) -> None:
    path = made(tmp_path / "t", table_type)
    with running(path, count=1000) as first, running(path, count=8) as second, running(path, stream=100) as streamed:
        assert first.stdout is not None
        lines = [first.stdout.readline() for _ in range(4)]
        assert lines == ["incremented\n"] * 4
        os.killpg(first.pid, signal.SIGKILL)
        counted = 4 + first.stdout.read().count("incremented")
        told, _ = second.communicate(timeout=600)
        counted += told.count("incremented")
        assert (second.returncode, streamed.wait(600)) == (0, 0)
    check(path, 100, counted, counted + 1)  # the last one of the killed driver may have completed unseen
