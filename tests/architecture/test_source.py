"""Rules that the source itself must keep: sizes, file names in one place, state as values."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "pudi"
MODULES = sorted(SOURCE.rglob("*.py"))
NAMES = (SOURCE / "format" / "names.py", SOURCE / "format" / "layout.py")
"""Where stored names are spelled: those with parts that vary, and those that are fixed."""
EXAMPLES = SOURCE / "testing"
"""Contract tests, which make files up."""

MODULE_LINES = 600
FUNCTION_LINES = 80
STORED_NAMES = (".hoodie", ".requested", ".inflight")
VALUE_LAYERS = ("timeline", "filegroup", "plan")

# A key of an option or a property is no file name.
_OPTION_KEY = re.compile(r"(?:_\.?)?hoodie(\.[a-zA-Z0-9_\-*]+)+")


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


def layouts_by_number(tree: ast.Module) -> Iterator[int]:
    """Lines that compare a layout with a number."""
    for node in ast.walk(tree):
        sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
        names = {side.attr if isinstance(side, ast.Attribute) else getattr(side, "id", "") for side in sides}
        if "layout" in names and any(isinstance(side, ast.Constant) for side in sides):
            yield node.lineno


def _offenders(modules: Iterable[Path], rule: Callable[[ast.Module], Iterable[object]]) -> dict[str, list[object]]:
    """What a rule finds, by module."""
    return {_name(path): found for path in modules if (found := list(rule(_parse(path))))}


def test_layouts_are_told_apart_by_their_rules() -> None:
    others = [path for path in MODULES if path.relative_to(SOURCE).parts[0] not in KNOW_LAYOUTS]
    assert _offenders(others, layouts_by_number) == {}, "ask TimelineRules, which says what differs"


def test_modules_fit_the_eye() -> None:
    sizes = {_name(path): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    assert {name: size for name, size in sizes.items() if size > MODULE_LINES} == {}, "split it by what it holds"


def long_functions(tree: ast.Module) -> Iterator[str]:
    """Functions that don't fit a screen, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and _lines(node) > FUNCTION_LINES:
            yield f"{node.name}: {_lines(node)}"


def test_functions_fit_the_eye() -> None:
    assert _offenders(MODULES, long_functions) == {}


def _lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def test_names_of_stored_files_are_spelled_in_one_place() -> None:
    others = [path for path in MODULES if path not in NAMES and EXAMPLES not in path.parents]
    assert _offenders(others, stored_names) == {}, "take it from pudi.format"


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


PARQUET = SOURCE / "format" / "parquet.py"
"""Where Parquet is opened and written, with checksums."""
_OPENS_PARQUET = re.compile(r"\bpq\.(ParquetFile|ParquetDataset|ParquetWriter|read_table|write_table|read_pandas)\(")


def test_parquet_is_opened_in_one_place() -> None:
    others = [path for path in MODULES if path != PARQUET and EXAMPLES not in path.parents]
    assert [_name(path) for path in others if _OPENS_PARQUET.search(path.read_text(encoding="utf-8"))] == []


FITS_ROWS = {
    "schema/__init__.py",
    "schema/conform.py",
    "task/table_rows.py",  # base files
    "task/log_versions.py",  # log blocks, by the names that table_rows finds
    "task/find_records.py",
    "task/cdc_reader.py",
    "task/expression_values.py",  # in tables without schema on read only
    "task/rewrite.py",
    "task/append.py",  # what the task itself has just written
    "task/file_stats.py",
}
"""What may fit rows of a file to the table's columns by `conform_read`."""


def optional_histories(tree: ast.Module) -> Iterator[int]:
    """Lines that leave the schema history out, or make it depend on something: so verbs lost renamed columns."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            given = [word.value for word in node.keywords if word.arg == "history"]
            for value in given:
                if isinstance(value, ast.IfExp) or (isinstance(value, ast.Constant) and value.value is None):
                    yield node.lineno


def test_files_are_read_by_the_columns_of_the_table_and_their_history() -> None:
    fitting = {_name(path) for path in MODULES if "conform_read" in path.read_text(encoding="utf-8")}
    assert fitting - FITS_ROWS == set()
    assert _offenders(MODULES, optional_histories) == {}


def test_a_history_that_is_left_out_is_found() -> None:
    lines = ["plan(history=None)", "plan(history=found if logs else None)", "plan(history=found)"]
    assert list(optional_histories(ast.parse("\n".join(lines)))) == [1, 2]


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
    assert excused == ["cli/user_code.py"]  # imports the merger that a user names


@pytest.mark.parametrize("module", ["engine/local/engine.py", "context/progress.py"])
def test_whatever_is_not_deterministic_is_found(module: str) -> None:
    found = _banned(f"--stdin-filename=src/pudi/{module}", "-", source=FROM_CONTEXT + FROM_ANYWHERE)
    assert found == set(range(1, FROM_CONTEXT.count("\n") + 1))
