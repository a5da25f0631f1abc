"""Commits are taken back: the table reads as it was, every commit that is left too, and writers go on."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.client import MetaClient
from pudi.context import Context
from pudi.format import Action
from pudi.storage import open_storage
from pudi.testing import FaultStorage, SimulatedCrash
from pudi.writes import write as write_module
from support.layouts import Layout
from support.rows import Row, assert_same, from_arrow
from support.trips import REPLACING, SCHEMA, steps, table, trip

pytestmark = pytest.mark.metadata_by_default

LAYOUTS = [Layout(version=version, kind=kind) for version in (6, 8, 9) for kind in ("cow", "mor")]
PLAIN = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
NO_METADATA = {"hoodie.metadata.enable": "false"}


def made(path: Path, layout: Layout, options: dict[str, str] | None = None) -> pudi.Table:
    arguments = layout.create_arguments()
    pudi.create(path, SCHEMA, **{**arguments, "options": {**arguments.get("options", {}), **(options or {})}})
    return pudi.Table(path, options=PLAIN | (options or {}))


def rows(mine: pudi.Table, **scan: Any) -> list[Row]:
    return from_arrow(pudi.Table(mine.path).scan(**scan).to_arrow())


def data_files(path: Path) -> set[str]:
    files = (file.relative_to(path) for file in path.rglob("*") if file.is_file())
    return {str(file) for file in files if ".hoodie" not in file.parts and not file.name.startswith(".hoodie")}


def written(mine: pudi.Table, layout: Layout, count: int = 12) -> dict[str, tuple[list[Row], set[str]]]:
    """Rows and data files after each commit, oldest first."""
    states: dict[str, tuple[list[Row], set[str]]] = {}
    for number, step in enumerate(steps(layout.version, count, ("insert", "upsert", "upsert", "delete", *REPLACING))):
        if step.verb == "delete_partitions":
            done = mine.delete_partitions(sorted(set(step.data["city"].to_pylist())))
        else:
            done = getattr(mine, step.verb)(step.data)
        if done is not None:
            states[done.instant] = rows(mine), data_files(Path(mine.path))
        if layout.kind == "mor" and number % 4 == 3:
            done = mine.compact()
            if done is not None:
                states[done.instant] = rows(mine), data_files(Path(mine.path))
    return states


@pytest.mark.sampled(8)
@pytest.mark.parametrize("metadata", ["true", "false"])
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_a_restore_brings_a_state_back(tmp_path: Path, layout: Layout, metadata: str) -> None:
    mine = made(tmp_path / "trips", layout, {"hoodie.metadata.enable": metadata})
    states = written(mine, layout)
    instants = list(states)
    for back in (2, 4):
        to = instants[-1 - back]
        done = mine.restore(to)
        assert set(done.rolled_back) == set(instants[-back:])
        assert done.files_deleted > 0
        instants = instants[:-back]
        expected, files = states[to]
        assert_same(rows(mine), expected, about=f"restored to {to}")
        if layout.version > 6:  # below, rollback blocks stay
            assert data_files(tmp_path / "trips") == files
        assert max(each.requested for each in mine.timeline.commits) == to
        assert mine.timeline.pending == ()
        assert mine.timeline.of(Action.ROLLBACK) == ()
        for instant in instants:
            assert_same(rows(mine, as_of=instant), states[instant][0], about=f"as of {instant}")
        assert mine.check().ok, mine.check()
    before = {row["_hoodie_record_key"] for row in rows(mine)}
    mine.upsert(table([trip(900, 9000), trip(901, 9000)]))
    assert len({row["_hoodie_record_key"] for row in rows(mine)} - before) == 2
    if layout.kind == "mor":
        mine.compact()
    assert mine.check().ok, mine.check()


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_the_newest_commit_is_rolled_back(tmp_path: Path, layout: Layout) -> None:
    mine = made(tmp_path / "trips", layout)
    states = written(mine, layout, 7)
    instants = list(states)
    with pytest.raises(pudi.InvalidArgumentError, match="completed after this one"):
        mine.rollback(instants[-3])
    while len(instants) > 2:
        done = mine.rollback(instants.pop())
        assert len(done.rolled_back) == 1
        assert_same(rows(mine), states[instants[-1]][0], about=f"rolled back to {instants[-1]}")
        assert mine.check().ok, mine.check()
    mine.upsert(table([trip(900, 9000)]))
    assert len(rows(mine)) == len(states[instants[-1]][0]) + 1


@pytest.mark.parametrize("layout", [LAYOUTS[1], LAYOUTS[4], LAYOUTS[5]], ids=str)
def test_indexes_are_right_afterwards(tmp_path: Path, layout: Layout) -> None:
    mine = made(tmp_path / "trips", layout)
    mine.bulk_insert(table(trip(number, 1) for number in range(30)))
    for kind in ("record_index", "bloom_filters"):
        mine.create_index(kind)
    mine.upsert(table(trip(number, 2) for number in range(10, 40)))
    to = mine.timeline.commits[-1].requested
    expected = rows(mine)
    for ts in (3, 4, 5):
        mine.upsert(table(trip(number, ts) for number in range(ts, 50, ts)))
    if layout.kind == "mor":
        mine.compact()
    mine.delete(table(trip(number, 9) for number in range(5)))
    mine.restore(to)
    assert_same(rows(mine), expected)
    for number in (3, 35, 45):
        found = rows(mine, where=f"uuid = 'k{number:04}'")
        assert_same(found, [row for row in expected if row["uuid"] == f"k{number:04}"])
    assert mine.check().ok, mine.check()
    mine.upsert(table([trip(45, 99), trip(3, 99)]))
    assert len(rows(mine)) == len(expected) + 1
    assert mine.check().ok


@pytest.mark.parametrize("version", ["8", "9"])
def test_a_savepoint_outlives_a_compaction_that_was_pending_when_it_was_made(tmp_path: Path, version: str) -> None:
    """The compaction was requested before the saved commit; its files are cleaned, those that it merged are kept."""
    mine = pudi.create(
        tmp_path / "trips", SCHEMA, record_key="uuid", partition_by="city", ordering="ts", table_type="mor",
        options={"hoodie.write.table.version": version},
    )  # fmt: skip
    for number in range(2):
        mine.upsert(table(trip(key, number) for key in range(4)))
    mine.schedule("compaction")
    mine.upsert(table([trip(1, 2)]))
    saved, state = mine.savepoint(), rows(mine)
    assert len(mine.run_pending()) == 1
    for number in range(3, 8):
        mine.upsert(table(trip(key, number) for key in range(4)))
        mine.compact()
    assert mine.clean(options={"hoodie.clean.commits.retained": "1"}) is not None
    assert_same(rows(mine, as_of=saved.instant), state)
    mine.restore(saved.instant)
    assert_same(rows(mine), state, ("_hoodie_file_name",))
    assert mine.check().ok


@pytest.mark.sampled(3)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_savepoints_outlive_cleans(tmp_path: Path, layout: Layout) -> None:
    mine = made(tmp_path / "trips", layout)
    for number in range(4):
        mine.upsert(table(trip(key, number) for key in range(6)))
        if layout.kind == "mor" and number % 2:
            mine.compact()
    made_at = mine.savepoint(comment="before the bad batch", user="ann")
    state = rows(mine)
    for number in range(4, 10):
        mine.upsert(table(trip(key, number) for key in range(8)))
        if layout.kind == "mor":
            mine.compact()
    assert mine.clean(options={"hoodie.clean.commits.retained": "1"}) is not None
    [found] = mine.savepoints()
    assert (found.instant, found.user, found.comment) == (made_at.instant, "ann", "before the bad batch")
    assert found.files == made_at.files > 0
    other = next(i.requested for i in mine.timeline.commits if i.requested > made_at.instant)
    with pytest.raises(pudi.NotFoundError, match="clean may have deleted"):
        mine.restore(other)
    with pytest.raises(pudi.NotFoundError, match="clean may have deleted"):
        mine.savepoint(other)
    assert_same(rows(mine, as_of=made_at.instant), state, about="time travel to the savepoint")
    with pytest.raises(pudi.NotFoundError):
        rows(mine, as_of=other)
    mine.restore(made_at.instant)
    assert_same(rows(mine), state)
    assert mine.check().ok, mine.check()
    mine.delete_savepoint(made_at.instant)
    assert mine.savepoints() == []
    with pytest.raises(pudi.NotFoundError, match="no savepoint"):
        mine.delete_savepoint(made_at.instant)


def test_what_has_a_savepoint_is_not_taken_back(tmp_path: Path) -> None:
    mine = made(tmp_path / "trips", LAYOUTS[4])
    first, second, third = (mine.upsert(table([trip(0, number)])).instant for number in range(3))
    mine.savepoint(second)
    with pytest.raises(pudi.InvalidArgumentError, match="has a savepoint already"):
        mine.savepoint(second)
    before = data_files(tmp_path / "trips")
    with pytest.raises(pudi.InvalidArgumentError, match="has a savepoint"):
        mine.restore(first)
    mine.rollback(third)
    with pytest.raises(pudi.InvalidArgumentError, match="has a savepoint"):
        mine.rollback(second)
    assert data_files(tmp_path / "trips") < before
    assert [row["ts"] for row in rows(mine)] == [1]
    assert mine.check().ok


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_what_replaced_cleaned_files_is_not_rolled_back(tmp_path: Path, layout: Layout) -> None:
    """The files before it are gone: without it nothing would be left of these rows."""
    mine = made(tmp_path / "trips", layout)
    mine.bulk_insert(table(trip(number, 1) for number in range(6)))
    mine.upsert(table(trip(number, 2) for number in range(6)))
    if layout.kind == "mor":
        mine.compact()
    last = max(mine.timeline.commits, key=mine.timeline.done).requested
    one = {"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": "1"}
    assert mine.clean(options=one) is not None
    before, files = rows(mine), data_files(tmp_path / "trips")
    with pytest.raises(pudi.NotFoundError, match="is gone"):
        mine.rollback(last)
    assert data_files(tmp_path / "trips") == files
    assert_same(rows(mine), before)
    assert mine.timeline.of(Action.ROLLBACK) == ()
    done = mine.upsert(table([trip(3, 9)]))
    mine.rollback(done.instant)
    assert_same(rows(mine), before, about="nothing that this one replaced was cleaned")
    assert mine.check().ok, mine.check()


@pytest.mark.parametrize("version", [6, 9])
def test_what_is_rolled_back_is_copied_if_asked_for(tmp_path: Path, version: int) -> None:
    mine = made(tmp_path / "trips", Layout(version=version, kind="cow"))
    first, second, third = (mine.upsert(table([trip(0, number)])).instant for number in range(3))
    backup = {"hoodie.rollback.instant.backup.enabled": "true"}
    for folder in ("/somewhere", "../..", "s3://bucket/copies"):
        with pytest.raises(pudi.NotSupportedError, match=r"below \.hoodie"):
            mine.rollback(third, options=backup | {"hoodie.rollback.instant.backup.dir": folder})
    mine.rollback(third, options=backup)
    mine.restore(first, options=backup | {"hoodie.rollback.instant.backup.dir": "kept/here"})
    for folder, instant in ((".rollback_backup", third), ("kept/here", second)):
        copies = sorted(file.name for file in (tmp_path / "trips/.hoodie" / folder).iterdir())
        assert [name.rpartition(".")[2] for name in copies if name.startswith(instant)].count("requested") == 1
        assert len(copies) == 3, copies
    assert [row["ts"] for row in rows(mine)] == [0]
    assert mine.check().ok, mine.check()


@pytest.mark.parametrize("options", [{}, NO_METADATA], ids=["metadata table", "no metadata table"])
def test_a_state_whose_files_are_gone_is_refused_untouched(tmp_path: Path, options: dict[str, str]) -> None:
    mine = made(tmp_path / "trips", LAYOUTS[4], options)
    first, _, third = (mine.upsert(table(trip(key, number) for key in range(4))).instant for number in range(3))
    next(file for file in (tmp_path / "trips").rglob(f"*_{first}.parquet")).unlink()
    before = data_files(tmp_path / "trips")
    with pytest.raises(pudi.NotFoundError):
        mine.restore(first)
    with pytest.raises(pudi.NotFoundError, match="no completed commit"):
        mine.restore("20200101000000000")
    assert data_files(tmp_path / "trips") == before
    assert mine.timeline.commits[-1].requested == third
    assert mine.timeline.of(Action.RESTORE) == ()
    assert len(rows(mine)) == 4


def test_a_writer_that_built_on_what_is_gone_does_not_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = made(tmp_path / "trips", LAYOUTS[4])
    first, second = (mine.upsert(table([trip(0, number)])).instant for number in range(2))
    original = write_module.commit_write

    def commit(*arguments: Any) -> Any:
        monkeypatch.setattr(write_module, "commit_write", original)
        pudi.Table(mine.path, options=PLAIN).restore(first)
        return original(*arguments)

    monkeypatch.setattr(write_module, "commit_write", commit)
    with pytest.raises((pudi.ConflictError, pudi.NotFoundError), match=second):
        mine.upsert(table([trip(0, 5)]))
    assert [row["ts"] for row in rows(mine)] == [0]
    mine.upsert(table([trip(0, 6)]))
    assert [row["ts"] for row in rows(mine)] == [6]
    assert mine.check().ok


@pytest.mark.parametrize("how", ["restore", "rollback"])
def test_hash_rings_of_what_is_taken_back_go(tmp_path: Path, how: str) -> None:
    """A ring with new file ids, valid by its marker, would send records to other buckets than those with their keys."""
    options = {
        "hoodie.index.type": "BUCKET",
        "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
        "hoodie.bucket.index.num.buckets": "2",
    }
    pudi.create(
        tmp_path / "trips",
        SCHEMA,
        record_key="uuid",
        ordering="ts",
        partition_by=["city"],
        table_type="mor",
        options=options,
    )
    mine = pudi.Table(tmp_path / "trips", options=PLAIN | options)
    to = mine.upsert(table(trip(number, 1) for number in range(12))).instant
    expected = rows(mine)
    done = mine.insert_overwrite(table(trip(number, 2) for number in range(6)))
    assert done is not None
    if how == "restore":
        mine.upsert(table(trip(number, 3) for number in range(6)))
        mine.restore(to)
    else:
        mine.rollback(done.instant)
    assert_same(rows(mine), expected)
    mine.upsert(table(trip(number, 4) for number in range(12)))
    assert [row["ts"] for row in rows(mine)] == [4] * 12
    assert mine.check().ok, mine.check()


@pytest.mark.parametrize("on_read", ["true", "false"])
@pytest.mark.parametrize("layout", [LAYOUTS[1], LAYOUTS[4], LAYOUTS[5]], ids=str)
def test_the_schema_comes_back_too(tmp_path: Path, layout: Layout, on_read: str) -> None:
    mine = made(tmp_path / "trips", layout, {"hoodie.schema.on.read.enable": on_read})
    to = mine.upsert(table(trip(number, 1) for number in range(6))).instant
    if on_read == "true":
        mine.add_column("note", pa.string())
    wider = table([trip(0, 2)]).append_column("note", pa.array(["new"]))
    mine.upsert(wider)
    assert "note" in mine.scan().to_arrow().column_names
    mine.restore(to)
    assert "note" not in pudi.Table(mine.path).scan().to_arrow().column_names
    pudi.Table(mine.path).upsert(table([trip(0, 3)]))
    assert "note" not in pudi.Table(mine.path).scan().to_arrow().column_names
    pudi.Table(mine.path, options={"hoodie.schema.on.read.enable": on_read}).upsert(
        wider.set_column(2, "ts", pa.array([9]))
    )
    notes = {row["uuid"]: row["note"] for row in pudi.Table(mine.path).scan().to_arrow().to_pylist()}
    assert notes == {f"k{number:04}": "new" if number == 0 else None for number in range(6)}
    assert mine.check().ok, mine.check()


def test_a_clean_that_was_planned_on_what_is_taken_back_goes_too(tmp_path: Path) -> None:
    mine = made(tmp_path / "trips", LAYOUTS[4])
    for number in range(3):
        mine.upsert(table(trip(key, number) for key in range(4)))
    to = mine.savepoint().instant
    state = rows(mine)
    mine.upsert(table(trip(key, 8) for key in range(4)))
    mine.upsert(table(trip(key, 9) for key in range(4)))
    assert mine.schedule("clean", options={"hoodie.clean.commits.retained": "1"}) is not None
    mine.restore(to)
    assert mine.timeline.pending == ()
    mine.delete_savepoint(to)
    mine.clean(options={"hoodie.clean.commits.retained": "1"})
    assert_same(rows(mine), state)
    assert mine.check().ok


@pytest.mark.parametrize("version", [6, 9])
def test_statistics_stay_where_a_column_goes(tmp_path: Path, version: int) -> None:
    pudi.create(tmp_path / "trips", SCHEMA, **Layout(version=version, kind="cow").create_arguments())
    mine = pudi.Table(tmp_path / "trips")
    first = mine.upsert(table([trip(0, 1)])).instant
    mine.upsert(table([trip(0, 2)]).append_column("extra", pa.array(["e"])))
    indexes = pudi.Table(tmp_path / "trips").config.metadata_partitions
    assert "column_stats" in indexes
    mine.restore(first)
    now = pudi.Table(tmp_path / "trips")
    assert now.config.metadata_partitions == indexes
    assert now.check().ok


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_planned_clustering_or_clean_is_not_in_the_way(tmp_path: Path, kind: str) -> None:
    """Below version 8, where the metadata table is rebuilt."""
    mine = made(tmp_path / "trips", Layout(version=6, kind=kind), {"hoodie.parquet.small.file.limit": "0"})
    for ts in range(1, 4):
        mine.upsert(table([trip(3 * ts + number, ts) for number in range(3)]))
    planned = mine.schedule("clustering")
    assert planned is not None
    state = mine.insert(table([trip(50, 9)]))
    assert state is not None
    before = rows(mine)
    mine.insert(table([trip(60, 9)]))
    assert mine.restore(state.instant).rolled_back
    assert_same(rows(mine), before)
    assert [each.requested for each in mine.timeline.pending] == [planned]
    assert mine.config.metadata_partitions, "rebuilt meanwhile"
    assert mine.run_pending()
    assert_same(rows(mine), before, ["_hoodie_file_name"])
    assert mine.check().ok, mine.check()


def test_a_planned_compaction_is_named_where_it_is_in_the_way(tmp_path: Path) -> None:
    mine = made(tmp_path / "trips", Layout(version=6, kind="mor"))
    for ts in range(1, 4):
        mine.upsert(table([trip(number, ts) for number in range(3)]))
    assert mine.schedule("compaction")
    state = mine.upsert(table([trip(1, 9)]))
    assert state is not None
    before = rows(mine)
    mine.upsert(table([trip(2, 10)]))
    with pytest.raises(pudi.BlockedError, match=r"a compaction is pending.*run it \(Table.run_pending\)"):
        mine.restore(state.instant)
    mine.run_pending()
    assert mine.restore(state.instant).rolled_back
    assert_same(rows(mine), before, ["_hoodie_file_name"])
    assert mine.check().ok, mine.check()


def dies(source: Path, tmp_path: Path, verb: str, instant: str, action: Action) -> pudi.Table:
    """A copy of a table where a verb died as soon as its instant was pending."""
    for number in range(1, 200):
        path = Path(shutil.copytree(source, tmp_path / str(number)))
        storage = FaultStorage(open_storage(str(path)), fail_at=number, mode="crash")
        options = PLAIN | NO_METADATA | {"hoodie.parquet.small.file.limit": "0"}
        with contextlib.suppress(SimulatedCrash):
            getattr(pudi.Table.of(MetaClient.open(str(path), None, options, Context(), storage), options), verb)(
                instant
            )
        mine = pudi.Table(path, options=options)
        if any(each.action is action for each in mine.timeline.pending):
            return mine
    raise AssertionError(f"no {action} was pending")


@pytest.mark.parametrize("layout", [LAYOUTS[0], LAYOUTS[5]], ids=str)
def test_no_plan_and_no_savepoint_builds_on_what_a_dead_rollback_takes_back(tmp_path: Path, layout: Layout) -> None:
    mine = made(tmp_path / "trips", layout, NO_METADATA | {"hoodie.parquet.small.file.limit": "0"})
    for ts in range(1, 4):
        mine.upsert(table([trip(3 * ts + number, ts) for number in range(3)]))
    before = rows(mine, as_of=mine.timeline.commits[1].requested)
    newest = mine.timeline.commits[-1].requested
    died = dies(tmp_path / "trips", tmp_path, "rollback", newest, Action.ROLLBACK)
    assert died.timeline.commit(newest) is not None, "hidden no sooner than the rollback is planned"
    assert died.schedule("clustering") is not None
    assert died.timeline.commit(newest) is None
    assert died.run_pending()
    assert_same(rows(died), before, ["_hoodie_file_name"])
    assert died.check().ok
    died = dies(tmp_path / "trips", tmp_path / "again", "rollback", newest, Action.ROLLBACK)
    with pytest.raises(pudi.NotFoundError, match="no completed commit of that time"):
        died.savepoint(newest)
    assert_same(rows(died), before)


def test_no_service_runs_while_a_restore_is_pending(tmp_path: Path) -> None:
    """A clean would retain commits that go, and delete files that the restored state needs."""
    mine = made(tmp_path / "trips", LAYOUTS[5], NO_METADATA | {"hoodie.parquet.small.file.limit": "0"})
    for ts in range(1, 8):
        mine.upsert(table([trip(number, ts) for number in range(3)]))
        mine.compact()
    to = mine.timeline.commits[2].requested
    state = rows(mine, as_of=to)
    died = dies(tmp_path / "trips", tmp_path, "restore", to, Action.RESTORE)
    few = {"hoodie.clean.commits.retained": "1", "hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4"}
    before = data_files(Path(died.path))
    for service in ("clean", "archive", "cluster", "compact"):
        with pytest.raises(pudi.BlockedError, match="a restore is pending"):
            getattr(died, service)(options=few)
    with pytest.raises(pudi.BlockedError, match="a restore is pending"):
        died.savepoint()
    assert data_files(Path(died.path)) == before
    died.restore()
    assert_same(rows(died), state)


def test_log_files_of_dead_writers_go_with_their_slice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Below version 8 the metadata table lists them since the rollback of the dead write."""
    mine = made(tmp_path / "trips", Layout(version=6, kind="mor"), {"hoodie.parquet.small.file.limit": "0"})
    mine.upsert(table([trip(0, 1)]))
    before = rows(mine)
    began = mine.upsert(table([trip(3, 1), trip(1, 1)]))
    assert began is not None

    def die(*_: object, **__: object) -> None:
        raise SimulatedCrash

    with monkeypatch.context() as patched:
        patched.setattr("pudi.commit.transaction.WriteTransaction.commit", die)
        with pytest.raises(SimulatedCrash):
            mine.upsert(table([trip(3, 2), trip(1, 2)]))
    assert mine.rollback(began.instant).rolled_back == (began.instant,)
    assert_same(rows(mine), before)
    assert mine.check().ok, mine.check()
    mine.upsert(table([trip(3, 3), trip(1, 3)]))
    assert len(rows(mine)) == 3


def test_the_last_commit_before_the_archive_stays(tmp_path: Path) -> None:
    """Without a commit on the active timeline readers would find no rows."""
    mine = made(tmp_path / "trips", Layout(), NO_METADATA)
    for ts in range(1, 5):
        mine.upsert(table([trip(ts, ts)]))
    few = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "hoodie.clean.commits.retained": "1"}
    assert mine.archive(options=few)
    left = [each.requested for each in mine.timeline.commits]
    for instant in left[:0:-1]:
        mine.rollback(instant)
    before = rows(mine)
    with pytest.raises(pudi.InvalidArgumentError, match="the last commit on the active timeline"):
        mine.rollback(left[0])
    assert_same(rows(mine), before)
    assert before


def test_a_clustering_whose_files_a_savepoint_names_is_not_rolled_back(tmp_path: Path) -> None:
    mine = made(tmp_path / "trips", Layout(), NO_METADATA | {"hoodie.parquet.small.file.limit": "0"})
    for ts in range(1, 4):
        mine.insert(table([trip(3 * ts, ts)]))
    planned = mine.schedule("clustering")
    assert planned is not None
    later = mine.insert(table([trip(100, 9)]))
    assert later is not None
    mine.run_pending()
    mine.savepoint(later.instant)
    with pytest.raises(pudi.InvalidArgumentError, match=f"savepoint {later.instant} keeps files"):
        mine.rollback(planned)
    mine.delete_savepoint(later.instant)
    assert mine.rollback(planned).rolled_back == (planned,)


@pytest.mark.parametrize("version", ["6", "8", "9"])
def test_a_write_without_a_metadata_table_follows_a_rollback_that_read_one(tmp_path: Path, version: str) -> None:
    """The write deletes the metadata table that the same object listed files by before."""
    schema = pa.schema([("id", pa.string()), ("ts", pa.int64())])
    options = {"hoodie.write.table.version": version, "hoodie.metadata.enable": "false"}
    pudi.create(tmp_path / "t", schema, record_key="id", ordering="ts", options=options)
    mine = pudi.Table(tmp_path / "t", {"hoodie.metadata.enable": "false", "hoodie.index.type": "BLOOM"})
    mine.insert(pa.table({"id": ["a"], "ts": [1]}, schema))
    mine.insert_overwrite(pa.table({"id": ["a", "b"], "ts": [2, 2]}, schema))
    mine.create_index("record_index")
    mine.rollback(max(mine.timeline.commits, key=mine.timeline.done).requested)
    mine.insert(pa.table({"id": ["c"], "ts": [3]}, schema))
    assert mine.scan(columns=["id", "ts"]).to_arrow().sort_by("id").to_pylist() == [
        {"id": "a", "ts": 1},
        {"id": "c", "ts": 3},
    ]
    assert mine.check().ok


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("verb", ["clean", "rollback"])
def test_a_savepoint_that_names_no_files_is_named(tmp_path: Path, version: int, verb: str) -> None:
    mine = made(tmp_path / "t", Layout(version=version))
    mine = pudi.Table(mine.path, options=NO_METADATA | {"hoodie.clean.commits.retained": "1"})
    for ts in range(1, 4):
        mine.upsert(table([trip(0, ts)]))
    saved = mine.savepoint().instant
    newest = mine.upsert(table([trip(0, 9)])).instant
    folder = Path(mine.path) / ".hoodie"
    savepoint = next(path for path in folder.rglob(f"{saved}*.savepoint"))
    shutil.copy(next(path for path in folder.rglob("*.clean")), savepoint)  # Avro, of another kind
    with pytest.raises(pudi.CorruptError, match="savepoint names no files") as raised:
        mine.clean() if verb == "clean" else mine.rollback(newest)
    assert raised.value.instant == saved
    mine.delete_savepoint(saved)
    mine.rollback(newest)
    assert [row["ts"] for row in rows(mine)] == [3]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("begun", [True, False])
@pytest.mark.parametrize("verb", ["rollback", "restore"])
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_a_clean_that_has_deleted_files_is_completed_first(
    tmp_path: Path, layout: Layout, verb: str, begun: bool
) -> None:
    """Were its plan dropped, readers of earlier states would take the files for lost."""
    mine = pudi.Table(made(tmp_path / "t", layout).path, options=PLAIN | {"hoodie.clean.commits.retained": "2"})
    commits, states = [], []
    for ts in range(1, 6):
        commits.append(mine.upsert(table(trip(number, ts) for number in range(3))).instant)
        states.append(rows(mine))
        if layout.kind == "mor" and ts < 4:
            mine.compact()
    clean = mine.schedule("clean")
    copy = Path(shutil.copytree(tmp_path / "t", tmp_path / "copy"))
    pudi.Table(copy).run_pending()
    gone = sorted(data_files(tmp_path / "t") - data_files(copy))
    assert gone
    if begun:
        (tmp_path / "t" / gone[0]).unlink()

    def take_back() -> None:
        mine.rollback(commits[-1]) if verb == "rollback" else mine.restore(commits[-2])

    if begun:
        with pytest.raises(pudi.BlockedError, match="complete it first") as raised:
            take_back()
        assert raised.value.instant == clean
        assert_same(rows(mine), states[-1])
        mine.run_pending()
        with pytest.raises(pudi.NotFoundError, match="cleaner has removed"):
            rows(mine, as_of=commits[0])
    take_back()
    assert_same(rows(mine), states[-2])
    assert mine.check().ok
    if not begun:
        assert_same(rows(mine, as_of=commits[0]), states[0])
