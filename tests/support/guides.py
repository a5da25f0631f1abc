"""Run the examples of pages of docs/ as a reader does: in order, with the output that the page says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pudi.cli.app import app

DOCS = Path(__file__).parents[2] / "docs"
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(page: str, language: str) -> list[str]:
    """The page's blocks of one language."""
    return [block for kind, block in _FENCE.findall((DOCS / page).read_text(encoding="utf-8")) if kind == language]


def run_page(page: str, capsys: pytest.CaptureFixture[str], scope: dict[str, object]) -> None:
    """Run the blocks of a page.

    Blocks in `python` are executed, `text` is what was printed since the last one, `sh` has commands of pudi.
    Blocks in `py` need a cluster or a cloud: `tests/spark/test_guides.py` runs them.
    """
    found = _FENCE.findall((DOCS / page).read_text(encoding="utf-8"))
    assert any(language == "python" for language, _ in found)
    for language, block in found:
        if language == "python":
            exec(compile(block, f"docs/{page}", "exec"), scope)
        elif language == "text":
            printed = capsys.readouterr().out
            assert printed == block, f"docs/{page} says\n{block}\nand its example prints\n{printed}"
        elif language == "sh":
            for command in re.findall(r"^pudi (.*)$", block, re.MULTILINE):
                told = CliRunner().invoke(app, shlex.split(command, comments=True), input="y\n")
                assert told.exit_code == 0, f"pudi {command}: {told.output}"
