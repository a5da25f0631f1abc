"""Spark processes with a streaming sink and a streaming source, killed (kill -9) at random: each record comes once."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

import pudi

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3 * 3600)]


@pytest.mark.parametrize(("kills", "rows", "batch"), [(50, 1_000_000, 4_000)])
def test_each_number_comes_once(tmp_path: Path, kills: int, rows: int, batch: int) -> None:
    chance = random.Random(kills)
    command = [sys.executable, str(Path(__file__).with_name("stream_job.py")), str(tmp_path), str(batch), str(rows)]
    for number in range(kills + 1):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        if number == kills:
            process.communicate(timeout=3600)
            assert process.returncode == 0
            break
        first = process.stdout.readline()
        if chance.random() < 0.8:  # on a slow machine too, most processes live until they have committed something
            counts = None
            for line in process.stdout:
                counts, before = line, counts
                if before is not None and counts != before:
                    break
        assert first, "it failed before it was killed"
        time.sleep(chance.random() * 8)
        assert process.poll() is None, "it had all rows before it was killed"
        process.kill()
        process.communicate()
    for name in ("one", "two"):
        ids = pudi.Table(tmp_path / name).scan(["id"]).to_arrow()["id"]
        assert sorted(ids.to_pylist()) == list(range(rows)), f"table {name}"
