"""Random sequences of writes, services, savepoints and restores beside a plain model: every retained state stays."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import pudi
from pudi.format import Action
from pudi.upgrade.maintenance import Outcome
from support.engines import LocalEngine
from support.layouts import Layout
from support.model import Model
from support.pudi_table import PudiTable
from support.rows import PLACE_FIELDS, assert_same, from_arrow
from support.trips import REPLACING, SCHEMA, steps, table, trip

pytestmark = pytest.mark.metadata_by_default

LAYOUTS = [Layout(version=version, kind=kind) for version in (6, 8, 9) for kind in ("cow", "mor")]
OPTIONS = {
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.clean.commits.retained": "3",
    "hoodie.keep.min.commits": "5",
    "hoodie.keep.max.commits": "7",
    "hoodie.compact.inline.max.delta.commits": "2",
    "hoodie.metadata.compact.max.delta.commits": "3",
    "hoodie.parquet.small.file.limit": "0",
}
SERVICES = ("clean", "archive", "maintain", "cluster", "compact")
BACK = ("savepoint", "delete_savepoint", "restore", "rollback", "forget")


class _Run:
    """One table beside its model."""

    def __init__(self, path: Path, layout: Layout, seed: int) -> None:
        self.made = PudiTable.create(LocalEngine(), path, SCHEMA, layout, OPTIONS)
        self.layout, self.chance = layout, random.Random(seed)
        self.model: Model = layout.model()
        self.told: list[str] = []

    def write(self, verb: str, data: object) -> None:
        """Write, in the table and in the model."""
        getattr(self.model, verb)(from_arrow(data), *self.made.write(verb, data))  # type: ignore[arg-type]

    def serve(self, name: str) -> None:
        """Run a service, or take commits back; a refusal changes nothing."""
        mine = self.made.table
        saved = [each.instant for each in mine.savepoints()]
        there = [each.instant for each in self.model.commits]
        if name == "compact" and self.layout.kind == "cow":
            return
        try:
            if name == "delete_savepoint":
                if saved:
                    mine.delete_savepoint(self.chance.choice(saved))
            elif name == "savepoint":
                mine.savepoint(self.chance.choice(there[-3:]))
            elif name == "rollback":
                newest = max(mine.timeline.commits, key=mine.timeline.done).requested
                mine.rollback(newest)
                self.model.commits[:] = [each for each in self.model.commits if each.instant != newest]
            elif name == "forget":
                self.forget()
            elif name == "restore":
                to = self.chance.choice(there[-5:])
                mine.restore(to)
                del self.model.commits[there.index(to) + 1 :]
            elif name == "upgrade":
                mine.upgrade(self.chance.choice((6, 8, 9)))
            else:
                getattr(mine, name)()
        except (pudi.NotFoundError, pudi.InvalidArgumentError) as error:
            name = f"{name}: {error}"
        self.told.append(name)

    def forget(self) -> None:
        """Delete two records for good; only savepoints may keep them."""
        mine = self.made.table
        keys = self.chance.sample(sorted({row["uuid"] for row in self.model.snapshot()} | {"k0001", "k0002"}), 2)
        done = mine.forget(f"uuid in ('{keys[0]}', '{keys[1]}')")
        assert {each.instant for each in done.left if each.instant} <= {each.instant for each in mine.savepoints()}
        assert done.ok or any("savepoint" in each.reason for each in done.left), str(done)
        for step in done.steps:
            if (step.name, step.outcome) == ("delete", Outcome.DONE):
                commit = mine.timeline.commit(step.instant)
                assert commit is not None
                gone = [row for row in self.model.snapshot() if row["uuid"] in keys]
                self.model.delete(gone, commit.requested, commit.completion or commit.requested)

    def check(self) -> None:
        """Compare the table, and each state that is retained, with the model."""
        mine, story = self.made.table, "; ".join(self.told[-12:])
        assert_same(self.made.snapshot(), self.model.snapshot(), PLACE_FIELDS, story)
        cleans = mine.timeline.of(Action.CLEAN)
        retained = self.made.table._meta.store.decoded(cleans[-1])["earliestCommitToRetain"] if cleans else ""
        saved = {each.instant for each in mine.savepoints()}
        active = {each.requested for each in mine.timeline.commits}
        for commit in self.model.commits:
            if commit.instant in active and (commit.instant >= retained or commit.instant in saved):
                expected = self.model.as_of(commit.instant)
                assert_same(self.made.as_of(commit.instant), expected, PLACE_FIELDS, f"as of {commit.instant}; {story}")


def play(path: Path, layout: Layout, seed: int, count: int, more: tuple[str, ...] = ()) -> None:
    """Play a random sequence, of services that are named in `more` too."""
    run = _Run(path, layout, seed)
    for number, step in enumerate(steps(seed, count, ("insert", "upsert", "upsert", "delete", *REPLACING))):
        run.told.append(step.verb)
        if not run.model.is_idle(step.verb, from_arrow(step.data)):
            run.write(step.verb, step.data)
        if number:
            for _ in range(run.chance.randint(0, 2)):
                run.serve(run.chance.choice(SERVICES + BACK + more))
        run.check()
        if number % 6 == 5:
            found = run.made.table.check()
            assert found.ok, f"{found}; {'; '.join(run.told)}"
    run.write("upsert", table([trip(0, 99_999)]))
    run.made.table.maintain()
    run.check()
    assert run.made.table.check().ok


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_random_sequences(tmp_path: Path, layout: Layout, seed: int) -> None:
    play(tmp_path / "trips", layout, seed, 14)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_random_sequences_through_the_versions(tmp_path: Path, layout: Layout, seed: int) -> None:
    play(tmp_path / "trips", layout, seed, 14, ("upgrade", "upgrade"))
