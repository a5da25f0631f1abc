"""The command `pudi compact`, as typed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import pudi
from support.golden import Golden

typer_testing = pytest.importorskip("typer.testing")
NO_METADATA = ["-o", "hoodie.metadata.enable=false"]


@pytest.fixture
def services(golden_folder: Path, tmp_path: Path) -> Path:
    shutil.copytree(Golden("mor_v9_services").unpack(golden_folder), tmp_path / "t")
    return tmp_path / "t"


@pytest.fixture
def call() -> Callable[..., tuple[int, str]]:
    from pudi.cli.app import app

    def run(*words: object) -> tuple[int, str]:
        result = typer_testing.CliRunner().invoke(app, [str(word) for word in words])
        return result.exit_code, result.output

    return run


def _logs(path: Path) -> int:
    return sum(len(file_slice.logs) for file_slice in pudi.Table(path).file_slices())


def test_compact(services: Path, call: Callable[..., tuple[int, str]]) -> None:
    assert _logs(services) > 0
    code, said = call("compact", services, *NO_METADATA, "--verify", "--strategy", "LogFileNumBased")
    assert (code, "COMPACT" in said) == (0, True), said
    assert _logs(services) == 0
    assert call("compact", services) == (0, "nothing to compact\n")


def test_plan_and_run(services: Path, call: Callable[..., tuple[int, str]]) -> None:
    code, said = call("compact", services, *NO_METADATA, "--plan-only")
    assert code == 0
    assert said.startswith("planned 20")
    code, said = call("compact", services, "--run-only")
    assert (code, "COMPACT" in said) == (0, True), said
    assert _logs(services) == 0
    assert call("compact", services, "--run-only") == (0, "nothing to compact\n")


def test_log(services: Path, call: Callable[..., tuple[int, str]]) -> None:
    before = _logs(services)
    threshold = ["-o", "hoodie.log.compaction.blocks.threshold=1"]
    code, said = call("compact", services, *NO_METADATA, *threshold, "--log")
    assert (code, "LOG_COMPACT" in said) == (0, True), said
    assert _logs(services) > before


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["nowhere"], 1, "TableNotFoundError"),
        ([".", "--strategy", "com.example.Mine"], 1, "never loaded"),
        ([".", "-o", "hoodie.compact.inlnie=true"], 1, "did you mean"),
        ([".", "-o", "hoodie.metadata.enable"], 2, "KEY=VALUE"),
        ([".", "--plan-only", "--run-only"], 2, "exclude"),
        ([".", "--merger", "nowhere"], 1, "module:Class"),
        ([".", "--merger", "no_such_module:Mine"], 1, "no_such_module"),
        ([".", "--merger", "pathlib:PurePath"], 1, "merger"),
    ],
)
def test_what_is_wrong_is_told_in_a_line(
    services: Path,
    call: Callable[..., tuple[int, str]],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    code: int,
    told: str,
) -> None:
    monkeypatch.chdir(services)
    found, said = call("compact", *words)
    assert found == code
    assert told in said
    assert "Traceback" not in said


def test_from_a_shell(services: Path) -> None:
    words = [sys.executable, "-m", "pudi.cli", "compact", str(services), *NO_METADATA]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "COMPACT" in done.stdout
    version = subprocess.run([*words[:3], "--version"], capture_output=True, text=True, timeout=60, check=False)
    assert version.stdout.strip() == pudi.__version__
