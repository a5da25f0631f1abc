"""Two processes look after a table beside a writer, all killed (kill -9) again and again: no row is lost or doubled."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

import pudi
from pudi.config import ALLOW_UPDATES, ClusteringOptions
from pudi.format import parse_data_file
from pudi.format.names import BaseFileName
from pudi.table.base import engine_of
from pudi.table.keeper import Keeper
from support.layouts import Layout
from support.trips import SCHEMA, table, trip

pytestmark = [pytest.mark.metadata_by_default, pytest.mark.timeout(900)]

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["pudi.table.keeper", "pudi.upgrade.maintenance", "support.trips"])

OPTIONS = {
    "hoodie.clean.commits.retained": "3",
    "hoodie.keep.min.commits": "5",
    "hoodie.keep.max.commits": "8",
    "hoodie.compact.inline.max.delta.commits": "2",
    "hoodie.clustering.inline": "true",
    "hoodie.clustering.inline.max.commits": "3",
    ClusteringOptions.updates.key: ALLOW_UPDATES,
    "hoodie.metadata.compact.max.delta.commits": "4",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.timeline.compaction.batch.size": "3",
}
LOG_COMPACTION = {"hoodie.log.compaction.inline": "true", "hoodie.log.compaction.blocks.threshold": "2"}
"""From version 8 on."""
BY_HAND = OPTIONS | {"hoodie.table.services.enabled": "false"}
KEYS = 24
Rows = dict[str, int]


def batch(seed: int, number: int) -> tuple[str, list[int]]:
    """The verb and the keys of a batch, whose records have its number as ordering value."""
    chance = random.Random(f"{seed} {number}")
    verb = chance.choice(["upsert", "upsert", "delete"])
    return verb, chance.sample(range(KEYS), chance.randint(1, 6))


def after(seed: int, number: int) -> Rows:
    """The model: what is in the table after a batch."""
    rows = {f"k{key:04}": 0 for key in range(KEYS)}
    for each in range(1, number + 1):
        verb, keys = batch(seed, each)
        for key in keys:
            rows.pop(f"k{key:04}", None) if verb == "delete" else rows.update({f"k{key:04}": each})
    return rows


def beside_its_parent(work: Callable[..., None], arguments: tuple[object, ...]) -> None:
    """Do some work, and die with the process that asked for it."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
    work(*arguments)


def options_of(path: str | Path) -> dict[str, str]:
    """The options of the services of a table."""
    return OPTIONS | (LOG_COMPACTION if pudi.Table(path).config.version >= 8 else {})


def write_batches(path: str, told: str, seed: int, number: int) -> None:
    """Write from a batch on, and tell which are in."""
    mine = pudi.Table(path, options=BY_HAND)
    Path(told).open("a").close()
    while True:
        verb, keys = batch(seed, number)
        try:
            getattr(mine, verb)(table(trip(key, number) for key in keys))
        except pudi.ConflictError:  # a service was faster
            continue
        with Path(told).open("a") as file:
            file.write(f"{number}\n")
        number += 1


def maintain_again(path: str, told: str) -> None:
    """Maintain the table over and over; tell what failed."""
    mine = pudi.Table(path, options=options_of(path))
    while True:
        try:
            steps = mine.maintain().steps
        except pudi.ConflictError:
            continue
        for step in steps:
            _tell(told, "maintain", step.name, step.on, step.outcome.value, step.reason, step.instant)


def keep(path: str, told: str) -> None:
    """What `pudi services --watch` runs."""
    Keeper(
        [path],
        lambda path: pudi.Table(path, options=options_of(path)),
        engine_of(None, None),
        lambda did: _tell(told, "services", did.action, did.on, did.outcome, did.reason, did.instant),
        interval_s=0.0,
    ).run(again=True)


def _tell(told: str, *said: str | None) -> None:
    with Path(told).open("a") as file:
        file.write(json.dumps(said) + "\n")


WORK: dict[str, Callable[..., None]] = {"writer": write_batches, "maintain": maintain_again, "services": keep}


@dataclass
class Killed:
    """A table, the processes at work on it, and what they told."""

    path: Path
    seed: int
    chance: random.Random
    batches: int = 0
    processes: dict[str, tuple[BaseProcess, int]] = field(default_factory=dict)
    pace: float = 0.2

    def run(self, kills: int) -> None:
        """Let all work, and kill one after the other at random moments, so often and until a batch is in."""
        for name in WORK:
            self.start(name)
        while kills > 0 or not self.batches:
            time.sleep(0.01)
            for name, (process, due) in list(self.processes.items()):
                assert process.is_alive(), f"the process {name} died by itself"
                if self.lines(name) >= due:
                    time.sleep(self.chance.uniform(0, self.pace))
                    self.kill(name)
                    self.start(name)
                    kills -= 1
        for name in WORK:
            self.kill(name)

    def start(self, name: str) -> None:
        """Start a process that is killed a moment after its next so many lines."""
        told = str(self.path.parent / name)
        arguments = (str(self.path), told, *((self.seed, self.batches + 1) if name == "writer" else ()))
        process = CONTEXT.Process(target=beside_its_parent, args=(WORK[name], arguments), daemon=True)
        process.start()
        self.processes[name] = process, self.lines(name) + self.chance.randint(1, 8 if name == "maintain" else 3)

    def lines(self, name: str) -> int:
        """How much a process and its predecessors told."""
        told = self.path.parent / name
        return told.read_text().count("\n") if told.exists() else 0

    def kill(self, name: str) -> None:
        """Kill a process; after a writer, see how far it got."""
        process, _ = self.processes.pop(name)
        assert process.is_alive(), f"the process {name} died by itself"
        os.kill(process.pid or 0, signal.SIGKILL)
        process.join(60)
        if name == "writer":
            told = (self.path.parent / name).read_text().split()
            # a writer that was killed before it told of a batch leaves that to be seen
            in_it, found = max(self.batches, int(told[-1]) if told else 0), self.state()
            assert found in (after(self.seed, in_it), after(self.seed, in_it + 1)), f"seed {self.seed}, batch {in_it}"
            self.batches = in_it + (found != after(self.seed, in_it))

    def state(self) -> Rows:
        """The table as it is; a clean may be faster than a reader."""
        for _ in range(5):
            with contextlib.suppress(pudi.NotFoundError):
                found = pudi.Table(self.path).scan(["uuid", "ts"]).to_arrow().to_pydict()
                assert len(set(found["uuid"])) == len(found["uuid"]), "a key is there twice"
                return dict(zip(found["uuid"], found["ts"], strict=True))
        raise AssertionError("no reader is as fast as the cleans")

    def said(self) -> list[list[str | None]]:
        """What the services did and what failed."""
        logs = [self.path.parent / name for name in ("maintain", "services")]
        return [json.loads(line) for log in logs if log.exists() for line in log.read_text().splitlines()]


def yields(said: list[str | None]) -> bool:
    """Whether a clustering yielded to a write, as the option says."""
    return said[1] == "clustering" and "its plan will be dropped" in str(said[4])


def look(killed: Killed) -> None:
    """One maintenance later, the table is whole."""
    path, said = killed.path, killed.said()
    assert killed.batches
    expected = after(killed.seed, killed.batches)
    assert killed.state() == expected
    assert [each for each in said if "failed" in each and not yields(each)] == []
    done = [(each[-1], each[1], each[2]) for each in said if "done" in each and each[-1]]
    assert len(set(done)) == len(done), "a plan was run twice"
    mine = pudi.Table(path, options=options_of(path))
    done = mine.maintain()
    assert done.ok, str(done)
    assert killed.state() == expected
    assert mine.timeline.pending == ()
    assert mine.doctor().orphans == ()
    left = [each for name in (".temp", ".heartbeat") for each in (path / ".hoodie" / name).rglob("*")]
    assert [each for each in left if each.is_file()] == []
    assert mine.check().ok, str(mine.check())
    files = [parse_data_file(each.name) for each in path.rglob("*.parquet") if ".hoodie" not in each.parts]
    slices = [(each.file_id, each.instant) for each in files if isinstance(each, BaseFileName)]
    assert len(slices) == len(set(slices)), "a file was written twice"
    for commit in mine.timeline.commits:
        with contextlib.suppress(pudi.NotFoundError):  # older ones are cleaned
            found = mine.scan(["uuid"], as_of=commit.requested).to_arrow()["uuid"].to_pylist()
            assert len(found) == len(set(found)), "a key is there twice"


def killed(tmp_path: Path, kind: str, version: int, seed: int) -> Killed:
    path = tmp_path / "trips"
    pudi.create(path, SCHEMA, **Layout(version=version, kind=kind).create_arguments())
    mine = pudi.Table(path, options=BY_HAND)
    mine.bulk_insert(table(trip(key, 0) for key in range(KEYS)))
    mine.create_index("record_index")
    return Killed(path, seed, random.Random(seed))


def test_killed_beside_a_writer(tmp_path: Path) -> None:
    mine = killed(tmp_path, "mor", 9, 1)
    mine.run(kills=4)
    look(mine)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("version", [9, 8, 6])
@pytest.mark.parametrize("kind", ["mor", "cow"])
def test_killed_sixty_times(tmp_path: Path, kind: str, version: int, seed: int) -> None:
    mine = killed(tmp_path, kind, version, seed)
    for _ in range(3):
        mine.run(kills=20)
        look(mine)
