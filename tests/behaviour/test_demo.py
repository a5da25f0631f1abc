"""The demo: what the README's first command runs, without Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[2] / "examples" / "flights" / "run.py"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_its_tables_equal_the_recomputation(tmp_path: Path, kind: str) -> None:
    command = [sys.executable, str(DEMO), "--engine", "local", "--type", kind]
    done = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
