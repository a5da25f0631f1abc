"""Rules that the source itself must keep: sizes, file names in one place, state as values."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "pudi"
MODULES = sorted(SOURCE.rglob("*.py"))
NAMES = (SOURCE / "format" / "names.py", SOURCE / "format" / "layout.py")
"""Where stored names are spelled: those with parts that vary, and those that are fixed."""
EXAMPLES = SOURCE / "testing"
"""Contract tests, which make files up."""

MODULE_LINES = 400
FUNCTION_LINES = 80
STORED_NAMES = (".hoodie", ".requested", ".inflight")
VALUE_LAYERS = ("timeline", "filegroup", "plan")

# A key of an option or a property is no file name.
_OPTION_KEY = re.compile(r"hoodie(\.[a-zA-Z0-9_\-*]+)+")


def _name(path: Path) -> str:
    return str(path.relative_to(SOURCE))


@cache
def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _docstrings(tree: ast.Module) -> set[int]:
    """The ids of nodes that are docstrings: strings that stand alone as statements."""
    return {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def stored_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and text of literals that hold part of a stored file's name; messages, which have blanks, are none."""
    docs = _docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            text = node.value
            is_name = not re.search(r"\s", text) and not _OPTION_KEY.fullmatch(text)
            if is_name and any(part in text for part in STORED_NAMES):
                yield node.lineno, text


def loose_dataclasses(tree: ast.Module) -> Iterator[str]:
    """Names of dataclasses that are not frozen with slots."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for decorator in node.decorator_list:
                call = decorator.func if isinstance(decorator, ast.Call) else decorator
                if ast.unparse(call) in {"dataclass", "dataclasses.dataclass"}:
                    keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
                    given = {word.arg for word in keywords if getattr(word.value, "value", None) is True}
                    if not {"frozen", "slots"} <= given:
                        yield node.name


KNOW_LAYOUTS = ("format", "timeline", "config")


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_layouts_are_told_apart_by_their_rules(path: Path) -> None:
    if path.relative_to(SOURCE).parts[0] in KNOW_LAYOUTS:
        return
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
        names = {side.attr if isinstance(side, ast.Attribute) else getattr(side, "id", "") for side in sides}
        by_number = "layout" in names and any(isinstance(side, ast.Constant) for side in sides)
        assert not by_number, f"line {node.lineno}: ask TimelineRules, which says what differs"


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_modules_and_functions_fit_the_eye(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= MODULE_LINES, f"{lines} lines: split it by what it holds"
    functions = (node for node in ast.walk(_parse(path)) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    long = [f"{node.name}: {size}" for node in functions if (size := _lines(node)) > FUNCTION_LINES]
    assert long == []


def _lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_names_of_stored_files_are_spelled_in_one_place(path: Path) -> None:
    if path not in NAMES and EXAMPLES not in path.parents:
        assert list(stored_names(_parse(path))) == [], "take it from pudi.format"


@pytest.mark.parametrize("layer", VALUE_LAYERS)
def test_state_is_a_value(layer: str) -> None:
    modules = sorted((SOURCE / layer).rglob("*.py"))
    assert modules
    loose = {_name(path): found for path in modules if (found := list(loose_dataclasses(_parse(path))))}
    assert loose == {}


def test_the_rules_find_what_they_look_for() -> None:
    tree = ast.parse(
        '"""Docs may say .hoodie."""\n'
        "from dataclasses import dataclass\n"
        'KEY = "hoodie.table.metadata.partitions.inflight"\n'
        'MESSAGE = "the folder .hoodie is missing"\n'
        'def f(root): return f"{root}/.hoodie/x", ".requested"\n'
        "@dataclass(frozen=True)\nclass Loose: pass\n"
        "@dataclass(frozen=True, slots=True)\nclass Firm: pass\n"
    )
    assert {text for _, text in stored_names(tree)} == {"/.hoodie/x", ".requested"}
    assert list(loose_dataclasses(tree)) == ["Loose"]


PAGES = SOURCE / "format" / "parquet_pages.py"
"""Where Parquet is opened and written, with checksums."""
_OPENS_PARQUET = re.compile(r"\bpq\.(ParquetFile|ParquetDataset|ParquetWriter|read_table|write_table|read_pandas)\(")


@pytest.mark.parametrize("path", [m for m in MODULES if m != PAGES and EXAMPLES not in m.parents], ids=_name)
def test_parquet_is_opened_in_one_place(path: Path) -> None:
    assert _OPENS_PARQUET.findall(path.read_text(encoding="utf-8")) == []


FROM_CONTEXT = """\
import time; time.sleep(1)
import time; time.perf_counter()
from time import time
from datetime import datetime; datetime.now()
from uuid import uuid4
import random
import numpy as np; np.random.default_rng()
import threading; threading.Thread()
from threading import Timer
import concurrent.futures
from concurrent.futures import ThreadPoolExecutor
import multiprocessing
"""
"""What only `pudi.context` may use (and contract tests). The whole list are the banned names in pyproject.toml."""
FROM_ANYWHERE = """\
import threading; threading.Lock()
from datetime import datetime, timezone; datetime.fromtimestamp(0, timezone.utc)
from uuid import UUID
"""
"""What guards memory, and what follows from its arguments."""


def _banned(*arguments: str, source: str | None = None) -> set[int]:
    """Lines where ruff finds uses of banned names."""
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--select=TID251", "--output-format=json"]
    root = SOURCE.parents[1]
    done = subprocess.run([*command, *arguments], input=source, capture_output=True, text=True, check=False, cwd=root)
    return {found["location"]["row"] for found in json.loads(done.stdout)}


def test_time_ids_chance_and_threads_come_from_the_context() -> None:
    assert _banned("src/pudi") == set()
    excused = [_name(path) for path in MODULES if "noqa: TID251" in path.read_text(encoding="utf-8")]
    assert excused == ["cli/mergers.py"]  # imports the merger that a user names


@pytest.mark.parametrize("module", ["engine/local/engine.py", "context/progress.py"])
def test_whatever_is_not_deterministic_is_found(module: str) -> None:
    found = _banned(f"--stdin-filename=src/pudi/{module}", "-", source=FROM_CONTEXT + FROM_ANYWHERE)
    assert found == set(range(1, FROM_CONTEXT.count("\n") + 1))
