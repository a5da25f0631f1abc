"""One call does all that a table needs, says why, and leaves nothing to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import pudi
from pudi.cli.app import app
from pudi.testing import SimulatedCrash
from pudi.upgrade.maintenance import Outcome
from support.engines import Engine
from support.layouts import Layout
from support.rows import assert_same, from_arrow
from support.trips import SCHEMA, table, trip

pytestmark = pytest.mark.metadata_by_default

BY_HAND = {"hoodie.table.services.enabled": "false", "hoodie.parquet.small.file.limit": "0"}
FEW = {
    "hoodie.clean.commits.retained": "2",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "6",
    "hoodie.compact.inline.max.delta.commits": "3",
    "hoodie.metadata.compact.max.delta.commits": "4",
    "hoodie.clean.failed.writes.policy": "EAGER",
}
LAYOUTS = [Layout(version=version, kind=kind) for version in (6, 8, 9) for kind in ("cow", "mor")]


def neglected(path: Path, layout: Layout) -> pudi.Table:
    """A table that was written without services, by writers of which one died."""
    pudi.create(path, SCHEMA, **layout.create_arguments())
    mine = pudi.Table(path, options=BY_HAND)
    for ts in range(12):
        mine.upsert(table(trip(number, ts) for number in range(6)))
    return mine


def files(path: Path) -> set[str]:
    return {str(each.relative_to(path)) for each in path.rglob("*") if each.is_file()}


def outcomes(done: Any) -> dict[tuple[str, str], Outcome]:
    return {(each.name, each.on): each.outcome for each in done.steps}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_a_neglected_table_becomes_healthy(
    engine: Engine, tmp_path: Path, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "trips"
    mine = neglected(path, layout)

    def dies(*_: object, **__: object) -> None:
        raise SimulatedCrash

    with monkeypatch.context() as patched:
        patched.setattr("pudi.commit.transaction.WriteTransaction.commit", dies)
        with pytest.raises(SimulatedCrash):
            mine.upsert(table([trip(0, 50)]))
    before, rows = files(path), from_arrow(mine.scan().to_arrow())
    spark = getattr(engine, "spark", None)
    planned = mine.maintain(dry_run=True, options=FEW)
    assert files(path) == before
    assert planned.dry_run
    due = {key for key, outcome in outcomes(planned).items() if outcome is Outcome.DUE}
    assert {("failed writes", "table"), ("clean", "table")} <= due
    assert (("compaction", "table") in due) is (layout.kind == "mor")
    done = mine.maintain(spark=spark, options=FEW)
    assert done.ok, str(done)
    reached = outcomes(done)
    assert reached["failed writes", "table"] is Outcome.DONE
    if layout.kind == "mor":
        assert reached["compaction", "table"] is Outcome.DONE
    assert reached["compaction", "metadata table"] is Outcome.LEFT
    assert all(each.reason for each in done.steps)
    assert_same(from_arrow(mine.scan().to_arrow()), rows, ignore=["_hoodie_file_name"])
    mine.upsert(table([trip(0, 60)]), options=FEW)  # compacts the metadata table first
    rows = from_arrow(mine.scan().to_arrow())
    mine.maintain(options=FEW)  # what waited for that
    assert len(mine.timeline.commits) <= 6
    assert {str(each) for each in files(path)} & before < before
    assert_same(from_arrow(mine.scan().to_arrow()), rows, ignore=["_hoodie_file_name"])
    after = files(path)
    again = mine.maintain(options=FEW)
    assert {each.outcome for each in again.steps} <= {Outcome.LEFT, Outcome.NOTHING}, str(again)
    assert files(path) == after
    assert mine.timeline.pending == ()
    assert mine.check().ok
    assert mine.doctor().orphans == ()


def test_a_step_that_fails_does_not_keep_the_others_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "trips"
    neglected(path, Layout(version=9, kind="mor"))

    def broken(*_: object, **__: object) -> None:
        raise pudi.CorruptError("the plan is damaged")

    monkeypatch.setattr("pudi.services.compaction.plan_compaction", broken)
    options = [part for key, value in FEW.items() for part in ("-o", f"{key}={value}")]
    result = CliRunner().invoke(app, ["maintain", str(path), "--json", *options])
    assert result.exit_code == 2
    found = json.loads(result.output)
    by_name = {(each["name"], each["on"]): each for each in found["steps"]}
    assert by_name["compaction", "table"]["outcome"] == "failed"
    assert "the plan is damaged" in by_name["compaction", "table"]["reason"]
    assert by_name["compaction", "metadata table"]["outcome"] == "left"
    assert ("archive", "table") in by_name
    assert not found["ok"]
    monkeypatch.undo()
    told = CliRunner().invoke(app, ["maintain", str(path), *options])
    assert told.exit_code == 0, told.output
    assert "done          compaction of the table" in told.output


def test_reasons_name_what_keeps_commits(tmp_path: Path) -> None:
    path = tmp_path / "trips"
    mine = neglected(path, Layout(version=9, kind="cow"))
    first = mine.timeline.commits[0].requested
    mine.savepoint(first)
    mine.maintain(options=FEW)
    [archive] = [each for each in mine.maintain(options=FEW).steps if (each.name, each.on) == ("archive", "table")]
    assert archive.outcome is Outcome.LEFT
    assert f"the savepoint {first} keeps what came after it" in archive.reason


def test_what_a_writer_left_that_died_after_its_commit_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is pending then, and no service may be due."""
    mine = neglected(tmp_path / "trips", Layout())
    assert mine.maintain(options=FEW).ok

    def dies(*_: object, **__: object) -> None:
        raise SimulatedCrash

    with monkeypatch.context() as patched:
        patched.setattr("pudi.filegroup.Markers.delete", dies)
        with pytest.raises(SimulatedCrash):
            mine.upsert(table([trip(0, 50)]))

    def left() -> set[str]:
        return {each for each in files(tmp_path / "trips") if "/.temp/" in each or "/.heartbeat/" in each}

    assert left()
    commit = mine.timeline.commits[-1].requested
    assert commit in mine.doctor(options=BY_HAND).finished
    planned = mine.maintain(dry_run=True, options=BY_HAND)
    step = next(each for each in planned.steps if each.name == "failed writes")
    assert (step.outcome, commit in step.reason) == (Outcome.DUE, True)
    assert left(), "nothing was changed"
    assert mine.maintain(options=BY_HAND).ok
    assert left() == set()
    assert mine.doctor(options=BY_HAND).finished == ()
    assert mine.timeline.commits[-1].requested == commit
