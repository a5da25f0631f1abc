"""Rollbacks, savepoints, writes with hooks, and services of tables that log changes: each dies at any storage call."""

from __future__ import annotations

import contextlib
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pudi
from pudi.client import MetaClient
from pudi.context import Context
from pudi.storage import open_storage
from pudi.testing import FaultStorage, SimulatedCrash
from support.changes import LOGGED
from support.layouts import Layout
from support.rows import Row, from_arrow
from support.trips import SCHEMA, table, trip

pytestmark = pytest.mark.metadata_by_default

OPTIONS = {
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.clean.commits.retained": "1",
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.parquet.small.file.limit": "0",
}
EAGER = OPTIONS | {"hoodie.clean.failed.writes.policy": "EAGER"}
FAULTS = [("crash", False), ("crash", True), ("error", False), ("lost_answer", False)]
_EVERY = 18
"""A case dies at one call in so many; together the cases of one test die at each."""
LAYOUTS = [Layout(version=version, kind=kind) for version in (9, 8, 6) for kind in ("cow", "mor")]
Do = Callable[[pudi.Table], Any]


def rows(path: Path) -> list[Row]:
    found = from_arrow(pudi.Table(path).scan().to_arrow())
    return sorted(({k: v for k, v in row.items() if k != "_hoodie_file_name"} for row in found), key=str)


def run(path: Path, do: Do, options: dict[str, str] | None = None, **fault: Any) -> FaultStorage:
    storage, given = FaultStorage(open_storage(str(path)), **fault), OPTIONS | (options or {})
    do(pudi.Table.of(MetaClient.open(str(path), None, given, Context(), storage), given))
    return storage


def failed(
    source: Path, folder: Path, do: Do, fault: tuple[str, bool], first: int, options: dict[str, str] | None = None
) -> Iterator[tuple[Path, str]]:
    """Copies of a table, each after a run that died or failed at another call; one in `_EVERY`, from `first` on."""
    whole = Path(shutil.copytree(source, folder / "whole"))
    calls = run(whole, do, options).calls
    for number in range(first, calls + 1, _EVERY):
        path = Path(shutil.copytree(source, folder / str(number)))
        with contextlib.suppress(pudi.PudiError, SimulatedCrash):
            run(path, do, options, fail_at=number, mode=fault[0], crash_after=fault[1])
        yield path, f"{fault}, call {number}"
        shutil.rmtree(path)


def assert_whole(path: Path, expected: list[Row], about: str) -> None:
    """After one maintenance and another write all is there, and nothing else."""
    mine = pudi.Table(path, options=EAGER)
    done = mine.maintain()
    assert done.ok, f"{about}: {done}"
    assert rows(path) == expected, about
    assert (mine.timeline.pending, mine.doctor().orphans) == ((), ()), about
    mine.upsert(table([trip(0, 60)]))
    assert [row["ts"] for row in rows(path) if row["uuid"] == "k0000"] == [60], about
    now = pudi.Table(path).config
    assert (now.metadata_partitions_inflight, now.metadata_partitions_to_rebuild) == ((), ()), about
    assert mine.check().ok, f"{about}: {mine.check()}"


def written(path: Path, layout: Layout, options: dict[str, str] | None = None) -> pudi.Table:
    arguments = layout.create_arguments()
    arguments["options"] = {**arguments["options"], **(options or {})}
    pudi.create(path, SCHEMA, **arguments)
    mine = pudi.Table(path, options=OPTIONS | {"hoodie.metadata.compact.max.delta.commits": "5"})
    for ts in range(1, 4):
        mine.upsert(table(trip(number, ts) for number in range(6)))
    return mine


every_fault = pytest.mark.parametrize("fault", FAULTS, ids=str)
every_first = pytest.mark.parametrize("first", range(1, _EVERY + 1))
every_layout = pytest.mark.parametrize("layout", LAYOUTS, ids=str)


@pytest.mark.sampled(2)
@every_fault
@every_layout
@every_first
@pytest.mark.parametrize("compacted", [False, True], ids=["logs", "compacted"])
@pytest.mark.parametrize("verb", ["upsert", "insert_overwrite", "compact"])
def test_a_rollback(
    tmp_path: Path, layout: Layout, compacted: bool, verb: str, fault: tuple[str, bool], first: int
) -> None:
    """Its commit is there or not; the metadata table, which may have compacted it, follows."""
    source = tmp_path / "source"
    mine = written(source, layout)
    mine.create_index("record_index")
    if layout.version > 6:
        mine.create_index("secondary_index", columns=["rider"], name="rider")
    before, options = rows(source), {"hoodie.metadata.compact.max.delta.commits": "1" if compacted else "100"}
    if verb != "compact":
        done = getattr(mine, verb)(table(trip(number, 9) for number in (0, 3, 7)), options=options)
    elif layout.kind == "mor":
        done = mine.compact(options=options)
    else:
        done = mine.delete_partitions(["nyc"], options=options)
    instant, after, indexes = done.instant, rows(source), pudi.Table(source).config.metadata_partitions
    for path, about in failed(source, tmp_path, lambda on: on.rollback(instant), fault, first):
        assert rows(path) in (before, after), about
        mine = pudi.Table(path, options=EAGER)
        assert mine.maintain().ok, about
        assert rows(path) in (before, after), about
        if instant in {each.requested for each in mine.timeline.commits}:
            mine.rollback(instant)
        assert set(pudi.Table(path).config.metadata_partitions) == set(indexes), about
        assert_whole(path, before, about)


@pytest.mark.sampled(2)
@every_first
@every_layout
@every_fault
@pytest.mark.parametrize("deletes", [False, True], ids=["make", "delete"])
def test_a_savepoint(tmp_path: Path, layout: Layout, deletes: bool, fault: tuple[str, bool], first: int) -> None:
    """It is there or not, a second attempt succeeds, and cleans keep its files as long as it is there."""
    source = tmp_path / "source"
    mine = written(source, layout)
    instant, old = mine.timeline.commits[0].requested, rows(source)
    if layout.kind == "mor":
        mine.compact()
        old = rows(source)
    kept = from_arrow(mine.scan(as_of=instant).to_arrow())
    if deletes:
        mine.savepoint(instant)
    do: Do = (lambda on: on.delete_savepoint(instant)) if deletes else (lambda on: on.savepoint(instant))
    for path, about in failed(source, tmp_path, do, fault, first):
        mine = pudi.Table(path, options=EAGER)
        there = [each.instant for each in mine.savepoints()]
        assert there in ([], [instant]), about
        mine.clean()
        if there:
            assert from_arrow(mine.scan(as_of=instant).to_arrow()) == kept, about
        if there and deletes:
            mine.delete_savepoint(instant)
        elif not there and not deletes:
            with contextlib.suppress(pudi.NotFoundError):  # its files are cleaned
                mine.savepoint(instant)
        left = mine.savepoints()
        assert not (deletes and left), about
        assert_whole(path, old, about)


@pytest.mark.sampled(1)
@every_first
@every_layout
@every_fault
def test_hooks(tmp_path: Path, layout: Layout, fault: tuple[str, bool], first: int) -> None:
    """A callback hears of commits that are there; a validator that can't read refuses the write."""
    source, told = tmp_path / "source", list[pudi.CommitMessage]()
    written(source, layout)

    def validate(before: Any, after: Any) -> None:
        if after.to_arrow().num_rows < before.to_arrow().num_rows:
            raise ValueError("rows are lost")

    pudi.register_validator("no_row_less", validate)
    pudi.register_commit_callback("told_of_all", told.append)
    options = {
        "hoodie.precommit.validators": "no_row_less",
        "hoodie.write.commit.callback.on": "true",
        "hoodie.write.commit.callback.class": "told_of_all",
    }
    before, keys = rows(source), ["_hoodie_record_key", "ts"]
    plain = [[row[key] for key in keys] for row in before]
    new = sorted([*([each, ts] for each, ts in plain if each != "k0001"), ["k0001", 50], ["k0099", 50]])

    def write(on: pudi.Table) -> None:
        on.upsert(table([trip(1, 50), trip(99, 50)]))

    for path, about in failed(source, tmp_path, write, fault, first, options):
        found = sorted([row[key] for key in keys] for row in rows(path))
        assert found in (sorted(plain), new), about
        commits = {each.requested for each in pudi.Table(path).timeline.commits}
        heard = {each.commit_time for each in told if each.base_path == str(path)}
        assert heard <= commits, about
        assert not heard or found == new, about
        assert_whole(path, rows(path), about)


@pytest.mark.sampled(3)
@every_first
@every_layout
@every_fault
@pytest.mark.parametrize("service", ["compact", "clean", "rollback"])
def test_logged_changes(tmp_path: Path, layout: Layout, service: str, fault: tuple[str, bool], first: int) -> None:
    """The feed of changes is what it was before a service, or what it's to be; and no file of changes is left alone."""
    source = tmp_path / "source"
    mine = written(source, layout, LOGGED)
    if layout.kind == "mor" and service != "compact":
        mine.compact()
        mine.upsert(table(trip(number, 4) for number in range(6)))
        mine.compact()
    if service != "compact":
        assert any(source.rglob("*.cdc")) or layout.kind == "mor"
    newest = mine.timeline.commits[-1].requested
    do: Do = {
        "compact": lambda on: on.compact() if layout.kind == "mor" else on.cluster(),
        "clean": lambda on: on.clean(),
        "rollback": lambda on: on.rollback(newest),
    }[service]
    whole = Path(shutil.copytree(source, tmp_path / "whole one"))
    run(whole, do)
    kept = pudi.Table(whole).timeline.commits[-2]
    allowed = [(rows(each), changes(each, kept.completion or kept.requested)) for each in (source, whole)]
    logs = names(whole)
    for path, about in failed(source, tmp_path, do, fault, first):
        assert (rows(path), changes(path, kept.completion or kept.requested)) in allowed, about
        mine = pudi.Table(path, options=EAGER)
        assert mine.maintain().ok, about
        if service != "rollback" or newest in {each.requested for each in mine.timeline.commits}:
            do(mine)
        assert changes(path, kept.completion or kept.requested) == allowed[1][1], about
        assert names(path) == logs, about
        assert_whole(path, allowed[1][0], about)


def changes(path: Path, since: str) -> list[Row]:
    found = from_arrow(pudi.Table(path).changes(since, format="cdc", images="struct").to_arrow())
    return sorted(found, key=str)


def names(path: Path) -> Counter[str]:
    """The number of files with logged changes, by file group."""
    return Counter(file.name.partition("_")[0] for file in path.rglob("*.cdc"))
