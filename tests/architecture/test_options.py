"""An option's key is spelled once, in its declaration; whoever means the option names that."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from pudi.config import ALL_OPTIONS

SOURCE = Path(__file__).parents[2] / "src" / "pudi"
CONFIG = SOURCE / "config"
OTHERS = sorted(path for path in SOURCE.rglob("*.py") if CONFIG not in path.parents)

KEYS = frozenset(key.removesuffix(".*") for option in ALL_OPTIONS for key in option.keys)
_KEY = re.compile(r"\b(?:hoodie|pudi)(?:\.[a-z0-9_-]+)+", re.IGNORECASE)


def literals(tree: ast.AST) -> Iterator[ast.Constant]:
    """Text that isn't a docstring, parts of f-strings included."""
    docs = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node


def spelled_keys(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of what names an option, or a part of a key from its beginning on."""
    for node in literals(tree):
        for found in _KEY.findall(node.value):
            is_package = (SOURCE.parent / found.replace(".", "/")).is_dir()
            if not is_package and any(
                key == found or key.startswith(f"{found}.") or found.startswith(f"{key}.") for key in KEYS
            ):
                yield node.lineno, found


def test_keys_are_spelled_in_config_alone() -> None:
    found = {str(path): list(spelled_keys(ast.parse(path.read_text(encoding="utf-8")))) for path in OTHERS}
    spelled = {path: keys for path, keys in found.items() if keys}
    assert spelled == {}, "name the option: f'{WriteOptions.max_file_size}' is its key in a message"


def test_a_key_is_spelled_once() -> None:
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in sorted(CONFIG.rglob("*.py"))]
    spelled = Counter(node.value for tree in trees for node in literals(tree))
    assert {key: spelled[key] for option in ALL_OPTIONS for key in option.keys if spelled[key] > 1} == {}


def test_the_rule_finds_what_it_looks_for() -> None:
    tree = ast.parse(
        '"""Docs may say hoodie.index.type."""\n'
        'A = "hoodie.index.type"\n'
        'B = f"write with hoodie.metadata.enable={A}"\n'
        'C = "hoodie.write.lock"\n'
        'D = "hoodie.metrics.on"\n'
        'E = "pudi.update.partial", "pudi.writes.write", "hoodie.properties"\n'
    )
    found = {text for _, text in spelled_keys(tree)}
    assert found == {
        "hoodie.index.type",
        "hoodie.metadata.enable",
        "hoodie.write.lock",
        "hoodie.metrics.on",
        "pudi.update.partial",
    }
