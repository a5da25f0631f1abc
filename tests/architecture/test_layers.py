"""The layer contract."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_layers_import_downwards_only() -> None:
    pytest.importorskip("importlinter", reason="the layer contract is checked in the main environment")
    command = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([command, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Layers import downwards only KEPT" in done.stdout
