"""Damaged files of every kind: the right answer, or an error that names the file.

Of each kind of file of each table every run takes one case in `EVERY` of damage and verb, neighbours another one each.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from support.matrix.damages import kinds
from support.matrix.judge import cases, judge
from support.matrix.limits import LIMITS, limit_of, still_open
from support.matrix.tables import SCRIPTS, Made, make

pytestmark = [
    pytest.mark.metadata_by_default,
    # a damaged metadata table is told by a warning where the files answer instead
    pytest.mark.filterwarnings("ignore"),
]

EVERY = 72
PROMISES = Path(__file__).parents[2] / "docs" / "promises.md"


@pytest.fixture(scope="session")
def made_once() -> Iterator[object]:
    """Makes a table by name, once in a run."""
    with tempfile.TemporaryDirectory() as folder:

        @cache
        def made(name: str) -> Made:
            path = Path(folder, name)
            path.mkdir()
            return make(path, name)

        yield made


@pytest.mark.parametrize("name", SCRIPTS)
def test_what_isnt_damaged_is_right(made_once, tmp_path: Path, name: str) -> None:  # type: ignore[no-untyped-def]
    made = made_once(name)
    whole = made.path / ".hoodie" / "hoodie.properties"
    by_verb = {case.verb: case for case, _, _ in cases(made, name, "properties")}
    for verb, case in by_verb.items():
        assert judge(made, case, whole, lambda data: data, tmp_path) is None, verb


@pytest.mark.parametrize("part", range(3))
@pytest.mark.parametrize("name", SCRIPTS)
def test_damaged_files(made_once, tmp_path: Path, name: str, part: int) -> None:  # type: ignore[no-untyped-def]
    try_cases(made_once(name), tmp_path, name, part, EVERY)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(3))
@pytest.mark.parametrize("name", SCRIPTS)
def test_all_damaged_files(made_once, tmp_path: Path, name: str, part: int) -> None:  # type: ignore[no-untyped-def]
    try_cases(made_once(name), tmp_path, name, part, 1)


def try_cases(made: Made, tmp_path: Path, name: str, part: int, every: int) -> None:
    """Try one case in so many of a third of a table's kinds of files."""
    before = _state(made.path)
    wrong, better, count = [], [], 0
    for kind in sorted(kinds(made.path))[part::3]:
        for case, file, damage in cases(made, name, kind, every):
            count += 1
            found = judge(made, case, file, damage, tmp_path)
            known = still_open(case)
            if found is None and known:
                better.append(str(case))
            elif found is not None and not known and limit_of(case, found) is None:
                wrong.append(f"{case} -> {type(found).__name__}: {found}")
    assert count or every > 1, "a table with files"
    assert wrong == [], "\n".join(wrong)
    assert better == [], "take these off the list of open cases, which only gets shorter"
    assert _state(made.path) == before, "cases share files with the table, and change none of them"


def _state(path: Path) -> dict[str, tuple[int, int]]:
    return {str(f): (f.stat().st_size, f.stat().st_mtime_ns) for f in path.rglob("*") if f.is_file()}


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.reason[:40])
def test_limits_stand_among_what_cant_be_detected(limit) -> None:  # type: ignore[no-untyped-def]
    text = " ".join(PROMISES.read_text("utf-8").partition("## What can't be detected")[2].split())
    assert limit.promise in text
