"""Spark processes with a streaming sink and a streaming source, killed (kill -9) at random: each record comes once."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import pudi
from support.connect import free_port, has_connect, start_server

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3 * 3600)]


@pytest.mark.parametrize(("kills", "rows", "batch"), [(50, 1_000_000, 4_000)])
def test_each_number_comes_once(tmp_path: Path, kills: int, rows: int, batch: int) -> None:
    chance = random.Random(kills)
    for process in _killed_jobs(kills, chance, [tmp_path, batch, rows]):
        process.kill()
        process.communicate()
    _check(tmp_path, rows)


@pytest.mark.skipif(not has_connect(), reason="this pyspark has no Connect server, or grpc is missing")
@pytest.mark.parametrize(("kills", "rows", "batch"), [(50, 1_000_000, 1_600)])
def test_each_number_comes_once_over_connect(tmp_path: Path, kills: int, rows: int, batch: int) -> None:
    """The client is killed, or its server, or both; a server without its client goes on with the query.

    That is why its batches are smaller: there must be some left after the last kill.
    """
    chance, port = random.Random(kills), free_port()
    server = start_server(tmp_path / "server", port)
    try:
        for process in _killed_jobs(kills, chance, [tmp_path, batch, rows, f"sc://localhost:{port}"]):
            victims = chance.choice(("client", "server", "both"))
            if victims != "client":
                server.kill()
                server.wait()
            if victims == "both":
                process.kill()
            if victims != "client":
                server = start_server(tmp_path / "server", port)
            process.kill()
            process.communicate()
    finally:
        server.kill()
        server.wait()
    _check(tmp_path, rows)


def _killed_jobs(kills: int, chance: random.Random, arguments: list[object]) -> Iterator[subprocess.Popen[str]]:
    """Yield processes of the job when it is time to kill them; the last one runs to its end."""
    command = [sys.executable, str(Path(__file__).with_name("stream_job.py")), *map(str, arguments)]
    log = Path(command[2]) / "errors.log"
    for _ in range(kills):
        process = _started(command, log)
        assert process.stdout is not None
        if chance.random() < 0.8:  # on a slow machine too, most processes live until they have committed something
            counts = None
            for line in process.stdout:
                counts, before = line, counts
                if before is not None and counts != before:
                    break
        time.sleep(chance.random() * 8)
        assert process.poll() is None, f"it had all rows before it was killed, or failed: {_end_of(log)}"
        yield process
    process = _started(command, log)
    process.communicate(timeout=3600)
    assert process.returncode == 0, _end_of(log)


def _started(command: list[str], log: Path) -> subprocess.Popen[str]:
    """Return a process of the job that has begun.

    A Connect server gives the worker of a query ten seconds to start, which a busy machine may exceed: then the job
    ends before it has done anything, and is started again.
    """
    while True:
        with log.open("w", encoding="utf-8") as errors:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert process.stdout is not None
        if process.stdout.readline():
            return process
        process.communicate()
        assert "Python worker failed to connect back" in _end_of(log), f"it failed before it was killed: {_end_of(log)}"


def _end_of(log: Path) -> str:
    return log.read_text(encoding="utf-8")[-8000:]


def _check(folder: Path, rows: int) -> None:
    for name in ("one", "two"):
        ids = pudi.Table(folder / name).scan(["id"]).to_arrow()["id"]
        assert sorted(ids.to_pylist()) == list(range(rows)), f"table {name}"
