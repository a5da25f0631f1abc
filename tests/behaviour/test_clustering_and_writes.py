"""Writes to file groups of a pending clustering: both can't stand, and no update is lost, whoever gives way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import pudi
from pudi.cli.app import app
from pudi.client import MetaClient
from pudi.concurrency import ConflictCheck, Heartbeat
from pudi.config import ALLOW_UPDATES
from pudi.context import Context
from pudi.errors import BlockedError
from pudi.format import Action, State
from pudi.services.clustering_run import ClusteringRun
from pudi.upgrade.maintenance import Outcome
from pudi.writes.pending_clusterings import UpdateStrategy
from support.engines import Engine
from support.layouts import Layout
from support.pudi_table import PudiTable
from support.trips import SCHEMA, table, trip

pytestmark = pytest.mark.metadata_by_default

LAYOUTS = [Layout(version=version, kind=kind) for version in (6, 8, 9) for kind in ("cow", "mor")]
FEW = {"hoodie.parquet.small.file.limit": "0", "hoodie.metadata.record.index.enable": "true"}
ALLOW = FEW | {"hoodie.clustering.updates.strategy": ALLOW_UPDATES}
ROLL_BACK = ALLOW | {"hoodie.clustering.rollback.pending.replacecommit.on.conflict": "true"}
EXPIRE = FEW | {"hoodie.clustering.enable.expirations": "true", "hoodie.clustering.expiration.threshold.mins": "0"}
SORT = {"hoodie.clustering.plan.strategy.sort.columns": "fare"}


def planned(path: Path, layout: Layout) -> tuple[pudi.Table, str]:
    """A table whose file groups are all named by a pending clustering."""
    pudi.create(path, SCHEMA, **layout.create_arguments())
    mine = pudi.Table(path, FEW)
    mine.insert(table([trip(number, 1) for number in range(30)]))
    instant = mine.schedule("clustering", options=SORT)
    assert instant is not None
    return mine, instant


def riders(mine: pudi.Table) -> dict[str, str]:
    return {row["uuid"]: row["rider"] for row in pudi.Table(mine.path).scan().to_arrow().to_pylist()}


def actions(mine: pudi.Table, action: Action) -> list[State]:
    return [each.state for each in pudi.Table(mine.path).timeline.instants if each.action is action]


def meta_of(mine: pudi.Table) -> MetaClient:
    return MetaClient.open(mine.path, None, {})


@pytest.mark.sampled(2)
@pytest.mark.parametrize("options", [ALLOW, ROLL_BACK], ids=["allow", "roll back"])
@pytest.mark.parametrize("verb", ["upsert", "delete"])
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_a_plan_yields_to_a_write(
    engine: Engine, tmp_path: Path, layout: Layout, verb: str, options: dict[str, str]
) -> None:
    mine, _ = planned(tmp_path / "trips", layout)
    PudiTable(engine, tmp_path / "trips", options).write(verb, table([trip(3, 2, "written")]))
    expected = {f"k{number:04}": None for number in range(30)}
    if verb == "delete":
        del expected["k0003"]
    assert riders(mine).keys() == expected.keys()
    assert riders(mine).get("k0003") == (None if verb == "delete" else "written")
    assert not actions(mine, Action.CLUSTERING), "the plan is gone: whoever ran it would lose the write"
    assert actions(mine, Action.ROLLBACK) == ([State.COMPLETED] if options is ROLL_BACK else [])
    assert mine.run_pending() == []
    after = riders(mine)
    assert mine.cluster(order_by="fare") is not None
    assert riders(mine) == after
    assert mine.check().ok


@pytest.mark.parametrize("maintained", [False, True], ids=["run", "maintained"])
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_a_clustering_that_runs_gives_way_to_a_write(
    tmp_path: Path, layout: Layout, maintained: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write completes while the clustering has read its records and not yet completed."""
    mine, instant = planned(tmp_path / "trips", layout)
    verify, wrote = ClusteringRun.metadata, []

    def write_first(run: ClusteringRun, *stats: Any) -> Any:
        wrote.append(pudi.Table(mine.path, ROLL_BACK).upsert(table([trip(3, 2, "written")])))
        return verify(run, *stats)

    monkeypatch.setattr(ClusteringRun, "metadata", write_first)
    if maintained:
        steps = [each for each in mine.maintain(options=FEW).steps if each.name == "clustering" and each.instant]
        assert [(each.outcome, each.instant) for each in steps] == [(Outcome.LEFT, instant)]
        assert "was written to" in steps[0].reason
    else:
        with pytest.raises(pudi.ConflictError, match="nothing of the clustering is visible"):
            mine.run_pending()
    monkeypatch.undo()
    assert len(wrote) == 1
    assert riders(mine)["k0003"] == "written"
    assert actions(mine, Action.ROLLBACK) == [], f"the claim on {instant} was respected"
    assert mine.run_pending() == []
    assert actions(mine, Action.CLUSTERING) == actions(mine, Action.REPLACECOMMIT) == []
    assert mine.check().ok


def test_a_write_that_is_late_writes_again_over_the_clustered_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clustering completes first: the write has a conflict, and what it tells is to be done again."""
    mine, _ = planned(tmp_path / "trips", Layout())
    refuse, ran = UpdateStrategy.refuse, []

    def run_first(strategy: UpdateStrategy, *arguments: Any) -> None:
        refuse(strategy, *arguments)
        if not ran:
            ran.append(pudi.Table(mine.path, FEW).run_pending())

    monkeypatch.setattr(UpdateStrategy, "refuse", run_first)
    writer = pudi.Table(mine.path, ALLOW)
    with pytest.raises(pudi.ConflictError, match="completed meanwhile"):
        writer.upsert(table([trip(3, 2, "written")]))
    writer.upsert(table([trip(3, 2, "written")]))
    assert riders(mine)["k0003"] == "written"
    assert len(riders(mine)) == 30


@pytest.mark.parametrize("options", [ALLOW, ROLL_BACK, EXPIRE], ids=["allow", "roll back", "expire"])
def test_a_run_whose_process_may_not_look_again_is_not_written_over(tmp_path: Path, options: dict[str, str]) -> None:
    """Apache Hudi runs it: inflight, with no heartbeat or an empty one, which a default Hudi completes as it is."""
    mine, instant = planned(tmp_path / "trips", Layout())
    meta = meta_of(mine)
    meta.store.start(meta.store.load().of(Action.CLUSTERING, State.REQUESTED)[0])
    with pytest.raises(BlockedError, match=rf"clustering {instant} is pending on file group"):
        pudi.Table(mine.path, options).upsert(table([trip(3, 2)]))
    meta.storage.put(f".hoodie/.heartbeat/{instant}", b"")
    with pytest.raises(BlockedError, match=rf"clustering {instant} is pending on file group"):
        pudi.Table(mine.path, options).upsert(table([trip(3, 2)]))
    with pytest.raises(BlockedError, match="another process runs the clustering"):
        mine.rollback(instant)
    assert actions(mine, Action.CLUSTERING) == [State.INFLIGHT]


def test_a_write_is_refused_before_it_writes_files(tmp_path: Path) -> None:
    mine, instant = planned(tmp_path / "trips", Layout())
    before = set(tmp_path.rglob("*"))
    with pytest.raises(BlockedError, match=rf"clustering {instant} .* roll it back \(rollback\)"):
        mine.upsert(table([trip(3, 2)]))
    assert set(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_old_plans_expire(tmp_path: Path, layout: Layout) -> None:
    mine, _ = planned(tmp_path / "trips", layout)
    young = EXPIRE | {"hoodie.clustering.expiration.threshold.mins": "60"}
    with pytest.raises(BlockedError):
        pudi.Table(mine.path, young).upsert(table([trip(3, 2)]))
    pudi.Table(mine.path, EXPIRE).upsert(table([trip(3, 2, "written")]))
    assert riders(mine)["k0003"] == "written"
    assert actions(mine, Action.CLUSTERING) == []
    assert actions(mine, Action.ROLLBACK) == [State.COMPLETED]
    assert mine.check().ok


def test_a_plan_that_runs_does_not_expire(tmp_path: Path) -> None:
    mine, instant = planned(tmp_path / "trips", Layout())
    meta = meta_of(mine)
    meta.store.start(meta.store.load().of(Action.CLUSTERING, State.REQUESTED)[0])
    heart = Heartbeat(meta.storage, instant, Context(), 60_000)
    heart.start()
    try:
        pudi.Table(mine.path, EXPIRE).insert(table([trip(100, 1)]))
    finally:
        heart.stop()
    assert actions(mine, Action.CLUSTERING) == [State.INFLIGHT]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_a_plan_is_rolled_back_on_request(tmp_path: Path, layout: Layout) -> None:
    mine, instant = planned(tmp_path / "trips", layout)
    mine.insert(table([trip(number, 1) for number in range(100, 110)]))
    before = riders(mine)
    done = CliRunner().invoke(app, ["rollback", mine.path, instant, "--yes"])
    assert done.exit_code == 0, done.output
    assert riders(mine) == before
    assert actions(mine, Action.CLUSTERING) == []
    assert mine.run_pending() == []
    mine.upsert(table([trip(3, 2, "written")]))
    assert riders(mine)["k0003"] == "written"
    assert mine.check().ok
    with pytest.raises(pudi.NotFoundError):
        mine.rollback(instant)


@pytest.mark.parametrize("version", [6, 9])
def test_a_pending_compaction_is_rolled_back_while_nothing_builds_on_it(tmp_path: Path, version: int) -> None:
    pudi.create(tmp_path / "trips", SCHEMA, **Layout(version=version, kind="mor").create_arguments())
    mine = pudi.Table(tmp_path / "trips", FEW)
    for ts in (1, 2):
        mine.upsert(table([trip(3, ts)]))
    instant = mine.schedule("compaction")
    assert instant is not None
    mine.rollback(instant)
    assert actions(mine, Action.COMPACTION) == []
    instant = mine.schedule("compaction")
    assert instant is not None
    mine.upsert(table([trip(3, 3)]))
    if version == 6:  # its log files have the plan's instant in their names
        with pytest.raises(pudi.NotSupportedError, match="run it"):
            mine.rollback(instant)
        assert actions(mine, Action.COMPACTION) == [State.REQUESTED]
    else:
        mine.rollback(instant)
    assert [row["ts"] for row in mine.scan().to_arrow().to_pylist()] == [3]
    assert mine.check().ok


def test_a_write_whose_check_fails_leaves_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, _ = planned(tmp_path / "trips", Layout())

    def refuse(*_: object) -> None:
        raise pudi.ConflictError("no")

    monkeypatch.setattr(ConflictCheck, "check", refuse)
    with pytest.raises(pudi.ConflictError, match="no"):
        pudi.Table(mine.path, ALLOW).upsert(table([trip(3, 2)]))
    monkeypatch.undo()
    assert actions(mine, Action.CLUSTERING) == [State.REQUESTED]
    assert len(mine.run_pending()) == 1


def test_a_plan_that_another_process_drops_is_in_no_writes_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is on the timeline that the write was planned from, and its file is gone."""
    mine, instant = planned(tmp_path / "trips", Layout())
    refuse = UpdateStrategy.refuse

    def drop_first(strategy: UpdateStrategy, *given: Any) -> None:
        mine.rollback(instant)
        refuse(strategy, *given)

    monkeypatch.setattr(UpdateStrategy, "refuse", drop_first)
    pudi.Table(mine.path, FEW).upsert(table([trip(3, 2, "written")]))
    assert riders(mine)["k0003"] == "written"
