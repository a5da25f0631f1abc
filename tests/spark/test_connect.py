"""The engine over Spark Connect, with a server of its own: another kind of DataFrame, no JVM at hand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.connect import has_connect

pytestmark = pytest.mark.spark


@pytest.mark.skipif(not has_connect(), reason="this pyspark has no Connect server, or grpc is missing")
def test_every_verb_works(tmp_path: Path) -> None:
    script = Path(__file__).parent / "connect_job.py"
    command = [sys.executable, str(script), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    answers = json.loads(done.stdout.strip().splitlines()[-1])
    assert answers.pop("class").startswith("pyspark.sql.connect.")
    assert "null or empty" in answers.pop("null_key")
    assert answers == {
        "bulk_insert": 100,
        "upsert": [5, 5],
        "insert": 3,
        "delete": 4,
        "notes": {"a": 94, "b": 10},
        "filtered": 2,
        "save": 100,
        "read-modify-write": [1, "ChangedSinceError", [1050, "c"]],
        "log files": 2,
        "merged": {"a": 90, "b": 6},
        "compacted": "COMPACT",
        "read-optimized": 96,
        "beside": ["no service failed, none is left", 0],
        "streams": [[10, 10], True],
        "sql": [[1, "2.02", "rome"], [3, "3.56", "oslo"], [9, "9.00", None]],
    }
