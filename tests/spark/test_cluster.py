"""An executor is killed in the middle of a write: the commit has each record once and no file beside its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.spark

ROWS = 4000


CASES = {
    "test_bulk_insert": "bulk_insert",
    "test_upsert": "upsert",
    "test_upsert_that_is_spread_over_files": "spread",
    "test_an_input_that_is_not_deterministic_is_written_whole_or_not_at_all": "random",
    "test_the_first_bulk_insert_into_buckets": "buckets",
    "test_the_first_bulk_insert_into_buckets_of_such_an_input": "random_buckets",
    "test_a_bulk_insert_with_a_sort_mode_of_such_an_input": "random_sorted",
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> dict[str, Any]:
    """What the job saw; it runs in a process of its own, since a JVM holds one cluster.

    Each executor that is killed is a start of another one, which takes ten seconds and more.
    """
    cases = [CASES[item.name] for item in request.session.items if item.name in CASES and item.module is request.module]
    folder = tmp_path_factory.mktemp("cluster")
    script = Path(__file__).parent / "cluster_job.py"
    command = [sys.executable, str(script), str(folder), *cases]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


@pytest.mark.slow
def test_bulk_insert(answers: dict[str, Any]) -> None:
    assert answers["bulk_insert"] == {"rows": ROWS, "keys": ROWS, "notes": {"a": ROWS}, "strays": [], "killed": True}


@pytest.mark.slow
def test_upsert(answers: dict[str, Any]) -> None:
    half = ROWS // 2
    assert answers["upsert"] == {
        "rows": ROWS,
        "keys": ROWS,
        "notes": {"a": half, "b": half},
        "strays": [],
        "killed": True,
    }


def test_upsert_that_is_spread_over_files(answers: dict[str, Any]) -> None:
    quarter = ROWS // 4
    assert answers["spread"] == {
        "rows": ROWS,
        "keys": ROWS,
        "notes": {"a": 2 * quarter, "b": quarter, "d": quarter},
        "strays": [],
        "killed": True,
    }


@pytest.mark.slow
def test_an_input_that_is_not_deterministic_is_written_whole_or_not_at_all(answers: dict[str, Any]) -> None:
    random = answers["random"]
    assert random["killed"]
    assert random["strays"] == []
    assert random["rows"] == random["keys"] == ROWS + random["notes"].get("c", 0)
    if random["error"]:
        assert "c" not in random["notes"]
        assert "evaluated again" in random["error"]
    else:
        assert random["notes"]["c"] == ROWS


@pytest.mark.slow
def test_the_first_bulk_insert_into_buckets(answers: dict[str, Any]) -> None:
    found = answers["buckets"]
    assert (found["error"], found["killed"], found["strays"]) == (None, True, [])
    assert found["rows"] == found["keys"] == ROWS


@pytest.mark.slow
def test_the_first_bulk_insert_into_buckets_of_such_an_input(answers: dict[str, Any]) -> None:
    found = answers["random_buckets"]
    assert (found["error"], found["killed"], found["strays"]) == (None, True, [])  # it's done once more, counted
    assert found["rows"] == found["keys"] == ROWS


@pytest.mark.slow
def test_a_bulk_insert_with_a_sort_mode_of_such_an_input(answers: dict[str, Any]) -> None:
    found = answers["random_sorted"]
    assert found["killed"]
    assert found["rows"] == (0 if found["error"] else ROWS)
