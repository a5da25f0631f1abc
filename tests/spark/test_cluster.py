"""An executor is killed in the middle of a write, or a task has two attempts that run side by side (speculation):
the commit has each record once and no file beside its own.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
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
    return run(tmp_path_factory.mktemp("cluster"), cases)


def run(folder: Path, cases: list[str], **environment: str) -> dict[str, Any]:
    """Run these cases of cluster_job.py."""
    script = Path(__file__).parent / "cluster_job.py"
    command = [sys.executable, str(script), str(folder), *cases]
    variables = os.environ | environment
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False, env=variables)
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


@pytest.mark.slow
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


@pytest.fixture
def two_hosts(tmp_path: Path) -> Iterator[str]:
    """Address of a standalone cluster of two workers on two addresses: Spark repeats no task on its own host."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    spark_class = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    deploy, master = "org.apache.spark.deploy", f"spark://127.0.0.1:{port}"
    options = ["--webui-port", "0", "--host"]
    commands = [[f"{deploy}.master.Master", *options, "127.0.0.1", "--port", str(port)]]
    worker = [f"{deploy}.worker.Worker", "--cores", "1", "--memory", "1g", "--work-dir", str(tmp_path / "work")]
    commands += [[*worker, *options, host, master] for host in ("127.0.0.1", "127.0.0.2")]
    with (tmp_path / "cluster.log").open("w") as log:
        running = [subprocess.Popen([spark_class, *each], stdout=log, stderr=log) for each in commands]
        try:
            yield master
        finally:
            for each in running:
                each.kill()
                each.wait()


@pytest.mark.slow
def test_two_attempts_at_a_task_run_side_by_side(tmp_path: Path, two_hosts: str) -> None:
    found = run(tmp_path, ["speculation"], PUDI_TEST_MASTER=two_hosts)["speculation"]
    assert found["stopped"] == [True, True]
    assert found["rows"] == found["keys"] == ROWS
    assert (found["strays"], found["check"]) == ([], "True")
