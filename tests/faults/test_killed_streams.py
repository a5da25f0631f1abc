"""Streams whose process is killed (kill -9) at random: every change counts once, in a pipeline of three tables."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

import pudi
from faults.pipeline_process import KEEPS_ALL, ROWS, TOTALS

SCRIPT = Path(__file__).with_name("pipeline_process.py")


def _start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, str(SCRIPT), str(folder), *arguments], stdout=subprocess.PIPE, text=True)


def _change(raw: pudi.Table, chance: random.Random) -> None:
    rows = [
        {"id": each, "team": f"t{each % 3}", "points": chance.randrange(-2, 9)}
        for each in sorted(chance.sample(range(40), 8))
    ]
    raw.upsert(pa.Table.from_pylist(rows, ROWS))
    if chance.random() < 0.3:
        raw.delete(pa.table({"id": [chance.randrange(40)]}))


def _expected(raw: pudi.Table) -> dict[str, tuple[int, int]]:
    """The batch computation of what the pipeline has to have in its last table."""
    totals: dict[str, tuple[int, int]] = {}
    for row in raw.scan(ROWS.names).to_arrow().to_pylist():
        if row["points"] > 0:
            points, players = totals.get(row["team"], (0, 0))
            totals[row["team"]] = points + row["points"], players + 1
    return totals


@pytest.mark.parametrize(
    ("table_type", "kills"),
    [("mor", 4), *(pytest.param(kind, 50, marks=pytest.mark.slow) for kind in ("cow", "mor"))],
)
def test_a_pipeline_of_three_tables_counts_each_change_once(tmp_path: Path, table_type: str, kills: int) -> None:
    chance = random.Random(f"{table_type}{kills}")
    raw = pudi.create(tmp_path / "raw", ROWS, record_key="id", table_type=table_type)
    pudi.create(tmp_path / "cleaned", ROWS, record_key="id", table_type=table_type)
    pudi.create(tmp_path / "totals", TOTALS, record_key="team")
    raw = pudi.Table(raw.path, options=KEEPS_ALL)
    for _ in range(kills):
        process = _start(tmp_path)
        for _ in range(3):
            _change(raw, chance)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(chance.random() * 0.8)
        process.kill()
        process.communicate()
        assert process.returncode == -9, "it failed before it was killed"
    for _ in range(2):  # the second one has nothing to do
        process = _start(tmp_path, "now")
        process.communicate(timeout=300)
        assert process.returncode == 0
        found = pudi.Table(tmp_path / "totals").scan(TOTALS.names).to_arrow().to_pylist()
        totals = {row["team"]: (row["points"], row["players"]) for row in found if row["players"]}
        assert totals == _expected(raw)
    assert any((tmp_path / "checkpoint-raw" / "commits").iterdir())
