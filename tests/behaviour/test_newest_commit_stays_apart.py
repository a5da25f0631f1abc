"""The newest commit of a table is in log files of the metadata table alone: what is compacted can't be rolled back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pudi
from pudi.format import Action, parse_base_file
from support.layouts import Layout
from support.metadata import base_entries, timeline_of
from support.newest_commit import LAYOUTS, SMALL, commits
from support.trips import SCHEMA, table, trip

NEVER = SMALL | {"hoodie.metadata.compact.max.delta.commits": "1000"}
OFTEN = SMALL | {"hoodie.metadata.compact.max.delta.commits": "2"}
VALIDATED = {"hoodie.precommit.validators": "upsert beneath", "hoodie.write.num.retries.on.conflict.failures": "0"}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_no_compaction_holds_the_newest_commit(tmp_path: Path, layout: Layout) -> None:
    path = tmp_path / "trips"
    compactions = set()
    for number, newest in commits(path, layout):
        own = timeline_of(path / ".hoodie" / "metadata")
        delta = own.find(newest, Action.DELTACOMMIT)
        assert delta is not None
        assert delta.is_completed
        merged = [i.requested for i in own.instants if i.action in {Action.COMMIT, Action.COMPACTION}]
        assert all(at < own.order(delta) for at in merged), f"commit {number} is compacted"
        held = [name for base in _bases(path) for name in base_entries(base) if newest in name]
        assert not held, f"commit {number} is in a base file"
        compactions.update(merged)
    assert len(compactions) >= 4


@pytest.mark.parametrize("layout", LAYOUTS[::3], ids=str)
def test_a_maintenance_leaves_the_compaction_to_the_next_write(tmp_path: Path, layout: Layout) -> None:
    path = tmp_path / "trips"
    pudi.create(str(path), SCHEMA, **layout.create_arguments())
    for number in range(4):
        pudi.Table(path, options=NEVER).upsert(table([trip(number, number)]))
    trips = pudi.Table(path, options=OFTEN)
    [step] = [each for each in trips.maintain().steps if (each.name, each.on) == ("compaction", "metadata table")]
    assert (step.outcome.value, "next write" in step.reason) == ("left", True)
    assert not timeline_of(path / ".hoodie" / "metadata").of(Action.COMMIT)
    trips.upsert(table([trip(9, 9)]))
    own = timeline_of(path / ".hoodie" / "metadata")
    [compaction] = own.of(Action.COMMIT)
    assert [own.order(each) > compaction.requested for each in own.of(Action.DELTACOMMIT)][-2:] == [False, True]


def test_a_write_that_lost_to_another_compacts_nothing(tmp_path: Path) -> None:
    path = tmp_path / "trips"
    pudi.create(str(path), SCHEMA, **LAYOUTS[0].create_arguments())
    for number in range(4):
        pudi.Table(path, options=NEVER).upsert(table([trip(0, number)]))

    def upsert_beneath(before: Any, after: Any) -> None:
        pudi.Table(path, options=NEVER).upsert(table([trip(0, 7)]))

    pudi.register_validator("upsert beneath", upsert_beneath)
    with pytest.raises(pudi.ConflictError):
        pudi.Table(path, options=OFTEN | VALIDATED).upsert(table([trip(0, 8)]))
    assert not timeline_of(path / ".hoodie" / "metadata").of(Action.COMMIT)


def _bases(path: Path) -> list[Path]:
    files = (path / ".hoodie" / "metadata" / "files").iterdir()
    return [file for file in files if parse_base_file(file.name) is not None]
