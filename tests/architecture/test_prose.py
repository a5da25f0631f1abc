"""Docstrings say at first sight what a thing is or does: they begin with a verb or with the thing itself."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "pudi"

RIDDLES = frozenset(("As", "By", "For", "How", "That", "Those", "What", "Where", "Which", "Whoever"))
"""First words that promise an answer further down: the reader has to guess the subject."""


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and text of strings that stand alone as statements: docstrings, of attributes too."""
    for node in ast.walk(tree):
        for each in getattr(node, "body", None) or () if not isinstance(node, ast.Lambda | ast.IfExp) else ():
            if (
                isinstance(each, ast.Expr)
                and isinstance(each.value, ast.Constant)
                and isinstance(each.value.value, str)
            ):
                yield each.lineno, each.value.value


def riddles(text: str) -> list[str]:
    """The lines of a module whose docstrings begin with a riddle."""
    found = ((line, doc.strip()) for line, doc in docstrings(ast.parse(text)))
    return [f"{line}: {doc.splitlines()[0]}" for line, doc in found if re.split(r"\W", doc, maxsplit=1)[0] in RIDDLES]


def test_docstrings_begin_with_a_verb_or_the_thing_itself() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{each}"
        for path in sorted(SOURCE.rglob("*.py"))
        for each in riddles(path.read_text(encoding="utf-8"))
    ]
    assert not found, "begin with a verb or a noun:\n" + "\n".join(found)


def test_riddles_are_seen() -> None:
    text = (
        '"""What it is."""\nA = 1\n"""Those of it."""\n\ndef f():\n    """Return it."""\n\nclass C:\n    """How."""\n'
    )
    assert riddles(text) == ["1: What it is.", "3: Those of it.", "9: How."]
