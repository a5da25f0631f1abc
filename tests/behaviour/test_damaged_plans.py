"""A pending plan that can't be read: nothing is lost, the error says what to do, and that helps."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pudi
from pudi.client import MetaClient
from pudi.context import Context
from pudi.format import Action
from pudi.storage import open_storage
from pudi.testing import FaultStorage, SimulatedCrash
from support.layouts import Layout
from support.rows import Row, from_arrow
from support.trips import SCHEMA, table, trip

pytestmark = pytest.mark.metadata_by_default

OPTIONS = {
    "hoodie.clean.automatic": "false",
    "hoodie.clean.commits.retained": "1",
    "hoodie.clean.failed.writes.policy": "EAGER",
    "hoodie.parquet.small.file.limit": "0",
}


def rows(path: Path) -> list[Row]:
    found = from_arrow(pudi.Table(path).scan().to_arrow())
    return sorted(({k: v for k, v in row.items() if not k.startswith("_hoodie")} for row in found), key=str)


def written(path: Path, layout: Layout) -> pudi.Table:
    pudi.create(path, SCHEMA, **layout.create_arguments())
    mine = pudi.Table(path, options=OPTIONS)
    for ts in range(1, 5):
        mine.upsert(table(trip(number, ts) for number in range(6)))
    return mine


def damaged(path: Path, action: Action, how: str) -> list[Path]:
    """Damage the plan of a pending action; return the action's files."""
    (instant,) = [each for each in pudi.Table(path).timeline.pending if each.action is action]
    files = sorted(file for file in (path / ".hoodie").rglob(f"{instant.requested}.*") if ".crc" not in file.name)
    files = [file for file in files if "metadata" not in file.parts]
    (plan,) = [file for file in files if file.name.endswith(".requested")]
    content = plan.read_bytes()
    plan.write_bytes({"half": content[: len(content) // 2], "other": b"PAR1 and so on"}[how])
    return files


@pytest.mark.parametrize("how", ["half", "other"])
@pytest.mark.parametrize(
    ("service", "layout"),
    [
        ("clean", Layout(version=6)),
        ("clean", Layout()),
        ("clustering", Layout(version=8, kind="mor")),
        ("compaction", Layout(kind="mor")),
        ("compaction", Layout(version=6, kind="mor")),
    ],
    ids=str,
)
def test_services(tmp_path: Path, service: str, layout: Layout, how: str) -> None:
    path = tmp_path / "trips"
    mine = written(path, layout)
    before = rows(path)
    planned = mine.schedule(service)
    assert planned is not None
    files = damaged(path, Action(service), how)
    assert rows(path) == before
    advice = "delete the files of the instant" if service == "clean" else "roll it back"
    assert any(planned in each.text and advice in each.text for each in mine.doctor().advice)
    with pytest.raises(pudi.CorruptError, match=advice):
        mine.run_pending()
    done = mine.maintain()
    assert not done.ok
    assert advice in str(done)
    assert rows(path) == before
    if service == "clustering":
        with pytest.raises(pudi.BlockedError, match="roll it back"):
            mine.upsert(table([trip(0, 50)]))
        mine.rollback(planned)
    elif service == "compaction":
        if layout.version == 6:  # the names of log files follow from the plan
            with pytest.raises(pudi.CorruptError, match="roll it back"):
                mine.upsert(table([trip(0, 5)]))
            assert rows(path) == before
        assert mine.rollback(planned).rolled_back == (planned,)
    else:
        mine.upsert(table([trip(0, 5)]))
        for file in files:
            file.unlink()
    mine = pudi.Table(path, options=OPTIONS)
    mine.upsert(table([trip(0, 50)]))
    assert mine.maintain().ok
    assert [row["ts"] for row in rows(path)] == [50, 4, 4, 4, 4, 4]
    assert mine.timeline.pending == ()
    assert mine.check().ok, mine.check()


@pytest.mark.parametrize("version", [6, 9])
def test_log_files_build_on_a_compaction(tmp_path: Path, version: int) -> None:
    """Below version 8 log files bear the compaction's time: readers need no plan, but nobody may delete it."""
    path = tmp_path / "trips"
    mine = written(path, Layout(version=version, kind="mor"))
    planned = mine.schedule("compaction")
    assert planned is not None
    written_on_it = mine.upsert(table([trip(0, 50)]))
    assert written_on_it is not None
    (plan,) = [each for each in (path / ".hoodie").rglob(f"{planned}.*requested") if "metadata" not in each.parts]
    whole = plan.read_bytes()
    damaged(path, Action.COMPACTION, "half")
    mine = pudi.Table(path, options=OPTIONS)
    assert [row["ts"] for row in rows(path)] == [50, 4, 4, 4, 4, 4]
    changed = from_arrow(mine.changes(since=mine.timeline.commits[0].requested).to_arrow())
    assert {row["ts"] for row in changed} >= {50}
    if version == 6:
        for change in (lambda: mine.upsert(table([trip(1, 60)])), mine.run_pending):
            with pytest.raises(pudi.CorruptError, match="put it back from a copy"):
                change()
        with pytest.raises(pudi.NotSupportedError, match="put that back from a copy"):
            mine.rollback(planned)
        assert [row["ts"] for row in rows(path)] == [50, 4, 4, 4, 4, 4]
        plan.write_bytes(whole)
        assert mine.run_pending()
    else:
        mine.upsert(table([trip(1, 60)]))
        mine.rollback(planned)
    mine.upsert(table([trip(1, 60)]))
    assert [row["ts"] for row in rows(path)] == [50, 60, 4, 4, 4, 4]
    assert mine.maintain().ok
    assert mine.check().ok, mine.check()


@pytest.mark.parametrize("how", ["half", "other"])
@pytest.mark.parametrize("layout", [Layout(version=6), Layout(kind="mor")], ids=str)
def test_a_rollback(tmp_path: Path, layout: Layout, how: str) -> None:
    """Of a rollback that died as it had begun; the next one plans it anew."""
    source = tmp_path / "source"
    mine = written(source, layout)
    newest = mine.timeline.commits[-1].requested
    before = rows(source)
    for number in range(1, 200):
        path = Path(shutil.copytree(source, tmp_path / str(number)))
        with contextlib.suppress(SimulatedCrash):
            storage = FaultStorage(open_storage(str(path)), fail_at=number, mode="crash")
            pudi.Table.of(MetaClient.open(str(path), None, OPTIONS, Context(), storage), OPTIONS).rollback(newest)
        if any(each.action is Action.ROLLBACK for each in pudi.Table(path).timeline.pending):
            break
    files = damaged(path, Action.ROLLBACK, how)
    mine = pudi.Table(path, options=OPTIONS)
    with pytest.raises(pudi.CorruptError, match="delete the files of the instant"):
        mine.upsert(table([trip(0, 50)]))
    for file in files:
        file.unlink()
    assert rows(path) == before
    mine = pudi.Table(path, options=OPTIONS)
    mine.rollback(newest)
    assert {row["ts"] for row in rows(path)} == {3}
    assert mine.maintain().ok
    assert mine.check().ok, mine.check()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("how", ["half", "other"])
@pytest.mark.parametrize("layout", [Layout(version=6), Layout(kind="mor")], ids=str)
@pytest.mark.parametrize("begun", [False, True], ids=["planned", "begun"])
def test_an_index(tmp_path: Path, layout: Layout, how: str, begun: bool) -> None:
    """Of an index that is planned, or whose build died after it was listed as inflight."""
    path, name = tmp_path / "trips", "record_index"
    mine = written(path, layout)
    if begun:
        die_in_a_build(path, name)
    else:
        mine.schedule(name)
    before, (instant,) = rows(path), mine.timeline.pending
    files = damaged(path, Action.INDEXING, how)
    advice = "delete the files of the instant, and create the index again"
    assert any(instant.requested in each.text and advice in each.text for each in mine.doctor().advice)
    for do in (mine.run_pending, lambda: mine.create_index(name), lambda: mine.drop_index(name)):
        with pytest.raises(pudi.CorruptError, match=advice):
            do()
    assert advice in str(mine.maintain())
    assert rows(path) == before
    for file in files:
        file.unlink()
    mine = pudi.Table(path, options=OPTIONS)
    mine.upsert(table([trip(0, 50)]))
    mine.create_index(name)
    mine.upsert(table([trip(1, 50)]))
    assert mine.maintain().ok
    assert name in mine.config.metadata_partitions
    assert mine.config.metadata_partitions_inflight == ()
    assert [row["ts"] for row in rows(path)] == [50, 50, 4, 4, 4, 4]
    assert (mine.timeline.pending, mine.doctor().orphans) == ((), ())
    assert mine.check().ok, mine.check()


def die_in_a_build(path: Path, name: str) -> None:
    """Begin to build an index, and die when the properties list it as inflight."""

    properties = path / ".hoodie" / "hoodie.properties"

    class Dying(FaultStorage):
        def _call(self, kind: str, path: str, do: Callable[[], Any]) -> Any:
            if properties.exists() and f"inflight={name}" in properties.read_text():
                self.fail_at, self.mode = self.calls + 1, "crash"
            return super()._call(kind, path, do)

    storage = Dying(open_storage(str(path)))
    with contextlib.suppress(SimulatedCrash):
        pudi.Table.of(MetaClient.open(str(path), None, OPTIONS, Context(), storage), OPTIONS).create_index(name)
    assert pudi.Table(path).config.metadata_partitions_inflight == (name,)


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_plan_whose_files_are_gone(tmp_path: Path, kind: str) -> None:
    """As a restore by Apache Hudi leaves it: it takes files back, and the plan that names them stays."""
    layout = Layout(version=9, kind=kind)
    pudi.create(tmp_path / "t", SCHEMA, **layout.create_arguments())
    mine = pudi.Table(tmp_path / "t", {"hoodie.parquet.small.file.limit": "0"})
    for number in range(2):
        mine.insert(table([trip(3 * number, 1)]))
    instant = mine.schedule("clustering")
    assert instant is not None
    [gone] = (tmp_path / "t").rglob(f"*_{mine.timeline.commits[-1].requested}.parquet")
    content = gone.read_bytes()
    gone.unlink()
    with pytest.raises(pudi.NotFoundError, match=rf"drop the plan by table.rollback\('{instant}'\)") as caught:
        mine.run_pending()
    assert gone.name in str(caught.value)
    mine.rollback(instant)
    gone.write_bytes(content)
    assert mine.scan().to_arrow().num_rows == 2
    assert mine.cluster() is not None
    assert mine.check().ok
