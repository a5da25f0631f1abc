"""Two writers at one table at the same time, replayed: everything that's left to chance follows from a seed."""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import pudi
from pudi.client import MetaClient
from pudi.context import ThreadExecutor
from pudi.errors import ConflictError
from pudi.format import HEARTBEAT_DIR
from pudi.metadata import validity
from pudi.storage import delete_folder, open_storage
from pudi.testing import Simulation
from pudi.writes.create import create_table
from support.trips import SCHEMA, table, trip

pytestmark = pytest.mark.metadata_by_default

MEMORY = "memory://writers-by-a-seed/trips"
OPTIONS = {"hoodie.client.heartbeat.interval_in_ms": "50", "hoodie.table.timeline.timezone": "UTC"}

CLUSTERING = {
    "hoodie__clustering__inline": "true",
    "hoodie__clustering__inline__max__commits": "2",
    "hoodie__clustering__plan__strategy__sort__columns": "fare",
}


@dataclass(frozen=True)
class Outcome:
    """What two writers did."""

    steps: list[tuple[int | None, str, str]]
    refused: list[int]
    files: dict[str, str]
    rows: dict[str, int]
    differences: tuple[Any, ...]


def upserts(writer: pudi.Table, numbers: range, times: range) -> Callable[[], int]:
    """Upsert the trips once with each time; how often the other writer was in the way."""

    def run() -> int:
        refused = 0
        for ts in times:
            while True:
                try:
                    writer.upsert(table(trip(number, ts) for number in numbers))
                    break
                except ConflictError:
                    refused += 1
        return refused

    return run


def play(seed: int, kind: str, root: str = MEMORY, **more: str) -> Outcome:
    """Both upsert three times: of 30 trips in 3 partitions, 10 are for both."""
    simulation = Simulation(seed)
    contexts = [simulation.context() for _ in range(2)]
    options = OPTIONS | {key.replace("__", "."): value for key, value in more.items()}
    delete_folder(open_storage(root), "")
    validity._seen_until.clear()  # what this process knows of the table that was there before
    create_table(
        root,
        SCHEMA,
        record_key=["uuid"],
        partition_by=["city"],
        ordering=["ts"],
        table_type=kind,
        name="trips",
        options=options,
        storage_options=None,
        context=contexts[0],
    )
    writers = []
    for context in contexts:
        storage = simulation.storage(open_storage(root, context=context))
        writers.append(pudi.Table.of(MetaClient.open(root, None, options, context, storage), options))
    refused = simulation.run(
        upserts(writers[0], range(20), range(1, 7, 2)), upserts(writers[1], range(10, 30), range(2, 8, 2))
    )
    storage = open_storage(root)
    paths = sorted(info.path for info in storage.list())
    files = {path: hashlib.sha256(storage.read(path)).hexdigest() for path in paths}
    rows = {row["uuid"]: row["ts"] for row in writers[0].scan().to_arrow().to_pylist()}
    return Outcome(simulation.steps, refused, files, rows, writers[0].check().differences)


ASYNC = {
    "hoodie__datasource__compaction__async__enable": "true",
    "hoodie__compact__inline__max__delta__commits": "2",
    "hoodie__clean__async": "true",
    "hoodie__clean__commits__retained": "1",
    "hoodie__archive__async": "true",
    "hoodie__keep__min__commits": "3",
    "hoodie__keep__max__commits": "4",
}


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_seed_gives_the_same_schedule_and_the_same_bytes(kind: str) -> None:
    first, again = play(1, kind), play(1, kind)
    assert first.steps == again.steps
    assert first == again
    assert first.steps != play(2, kind).steps


@pytest.mark.parametrize("lock", ["StorageBasedLockProvider", "FileSystemBasedLockProvider"])
def test_locks_of_several_processes_follow_from_the_seed(lock: str) -> None:
    first = play(3, "mor", hoodie__write__lock__provider=lock)
    assert first == play(3, "mor", hoodie__write__lock__provider=lock)
    waits = [path for _, kind, path in first.steps if kind in {"create", "replace", "read_version"} and "lock" in path]
    assert len(waits) > 12


def test_a_local_disk_is_replayed_too(tmp_path: Path) -> None:
    root = str(tmp_path / "trips")
    first, again = play(4, "mor", root), play(4, "mor", root)
    assert first.files == again.files
    assert first.steps == again.steps


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(6))
def test_every_schedule_keeps_all_that_was_written(seed: int) -> None:
    found = play(seed, "mor" if seed % 2 else "cow")
    writers = [writer for writer, _, _ in found.steps if writer is not None]
    assert sum(one != next_one for one, next_one in pairwise(writers)) > 50
    beats = Counter(path for _, kind, path in found.steps if kind == "put" and path.startswith(HEARTBEAT_DIR))
    assert max(beats.values()) > 2
    assert found.rows == {f"k{number:04}": 6 if number >= 10 else 5 for number in range(30)}
    assert found.differences == ()


def test_a_thread_that_no_executor_knows_is_found() -> None:
    simulation = Simulation(seed=1)
    storage = simulation.storage(open_storage(MEMORY))
    simulation.run(lambda: storage.put("a", b""), lambda: storage.put("b", b""))
    together = threading.Barrier(2)

    def read(path: str) -> bytes:
        together.wait()  # else the writer's own thread may make both calls before the other one has begun
        return storage.read(path)

    with pytest.raises(RuntimeError, match=r"thread of its own.*Context\.executor"):
        simulation.run(lambda: ThreadExecutor().map(read, ["a", "b"]), lambda: [storage.read("a")])


@pytest.mark.parametrize("version", ["6", "9"])
def test_compactions_beside_writes_keep_all_that_was_written(version: str) -> None:
    compacting = {"hoodie__compact__inline": "true", "hoodie__compact__inline__max__delta__commits": "2"}
    found = play(7, "mor", hoodie__write__table__version=version, **compacting)
    assert any("compaction.inflight" in path for _, _, path in found.steps)
    assert found.rows == {f"k{number:04}": 6 if number >= 10 else 5 for number in range(30)}
    assert found.differences == ()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("version", "kind"), [("6", "mor"), ("9", "cow"), ("9", "mor")])
def test_clusterings_beside_writes_keep_all_that_was_written(version: str, kind: str, seed: int) -> None:
    found = play(seed, kind, hoodie__write__table__version=version, **CLUSTERING)
    assert any(path.endswith(".replacecommit") for _, _, path in found.steps)
    assert found.rows == {f"k{number:04}": 6 if number >= 10 else 5 for number in range(30)}
    assert found.differences == ()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("version", "kind"), [("6", "mor"), ("9", "cow"), ("9", "mor")])
def test_services_beside_writes_keep_all_that_was_written(version: str, kind: str, seed: int) -> None:
    found = play(seed, kind, hoodie__write__table__version=version, **ASYNC)
    assert {writer for writer, _, _ in found.steps if writer is not None} > {0, 1}
    assert any(path.endswith(".clean") for writer, _, path in found.steps if writer not in {None, 0, 1})
    assert found.rows == {f"k{number:04}": 6 if number >= 10 else 5 for number in range(30)}
    assert found.differences == ()
    if not seed:
        assert play(seed, kind, hoodie__write__table__version=version, **ASYNC).steps == found.steps
