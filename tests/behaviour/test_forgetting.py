"""A hard deletion: no file that is left holds the records, found by reading all files by other means."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import pudi
from pudi.cli.app import app
from pudi.client import MetaClient
from pudi.commit.lease import lease
from pudi.config import WriteOptions, resolve
from pudi.filegroup import LogFile, read_blocks
from pudi.format.hfile_read import HFileReader, open_bytes
from pudi.format.log_block import BlockKind
from pudi.storage import StorageBelow, open_storage
from pudi.testing import SimulatedCrash
from pudi.upgrade.maintenance import Outcome
from support.changes import LOGGED, MODE
from support.engines import Engine
from support.layouts import Layout
from support.rows import from_arrow
from support.trips import SCHEMA, table, trip
from support.virtual import VIRTUAL

pytestmark = pytest.mark.metadata_by_default

LAYOUTS = [Layout(version=version, kind=kind) for version in (6, 8, 9) for kind in ("cow", "mor")]
MOR = [each for each in LAYOUTS if each.kind == "mor"]
OPTIONS = {
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.parquet.compression.codec": "uncompressed",
    "hoodie.parquet.dictionary.enabled": "false",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
}
NUMBERS = (4, 7)
WHERE = "uuid in ('k0004', 'k0007')"
SECRETS = (b"k0004", b"k0007", b"mallory")


def written(path: Path, layout: Layout, **options: str) -> pudi.Table:
    """Nine trips, written six times, two of them by mallory; one of these was deleted already."""
    arguments = layout.create_arguments()
    more = {**(arguments.pop("options", None) or {}), **OPTIONS, **options}
    pudi.create(path, SCHEMA, options=more, **arguments)
    mine = pudi.Table(path, options=OPTIONS | options)
    for ts in range(6):
        mine.upsert(table(trip(each, ts, "mallory" if each in NUMBERS else "ann") for each in range(9)))
    mine.delete(table([trip(7, 100)]))
    return mine


def contents(path: Path) -> dict[str, bytes]:
    """All that is stored, by path; HFiles, which are compressed, as their entries."""
    storage, found = open_storage(str(path)), {}
    for file in path.rglob("*"):
        name = str(file.relative_to(path))
        if not file.is_file() or file.suffix == ".crc":
            continue
        found[name] = file.read_bytes()
        if ".hoodie/metadata/" in name and ".log." in name:
            below, partition = StorageBelow(storage, ".hoodie/metadata"), file.parent.name
            info = next(each for each in below.list(partition) if each.path.endswith(file.name))
            log = LogFile.of(partition, info)
            assert log is not None
            for block in read_blocks(below, log):
                if block.kind is BlockKind.HFILE:
                    found[name] += _entries(open_bytes(block.content, path=name))
        elif file.suffix == ".hfile":
            data = file.read_bytes()
            opened = HFileReader.open(
                lambda offset, length, data=data: data[offset : offset + length], len(data), path=name
            )
            found[name] += _entries(opened)
    return found


def _entries(opened: HFileReader) -> bytes:
    rows = opened.scan().to_pylist()
    texts = (row["key"] if isinstance(row["key"], bytes) else row["key"].encode() for row in rows)
    return b"\0".join([*texts, *(row["value"] for row in rows)])


def holding(path: Path) -> set[str]:
    return {name for name, content in contents(path).items() if any(secret in content for secret in SECRETS)}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_no_file_holds_them(engine: Engine, tmp_path: Path, layout: Layout) -> None:
    path = tmp_path / "trips"
    mine = written(path, layout)
    before = holding(path)
    assert any(".hoodie/metadata" in name for name in before)
    earlier = [each.requested for each in mine.timeline.commits]
    planned = mine.forget(WHERE, dry_run=True)
    assert {each.path for each in planned.left} <= before
    assert holding(path) == before
    done = mine.forget(WHERE, spark=getattr(engine, "spark", None))
    assert done.ok, str(done)
    assert done.records == 2
    assert holding(path) == set()
    assert {row["uuid"] for row in from_arrow(mine.scan().to_arrow())} == {
        f"k{n:04}" for n in range(9) if n not in NUMBERS
    }
    assert mine.check().ok, mine.check()
    for instant in earlier:
        with pytest.raises(pudi.NotFoundError):
            mine.scan(as_of=instant).to_arrow()
    mine.upsert(table([trip(4, 50, "eve")]))
    assert len(from_arrow(mine.scan().to_arrow())) == 8
    assert mine.check().ok
    again = mine.forget("uuid = 'k9999'")
    assert (again.ok, again.records, [step.outcome for step in again.steps]) == (True, 0, [])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_versions_of_records_that_stay(tmp_path: Path, layout: Layout) -> None:
    """A record that once matched and doesn't any more stays; its old versions go."""
    path = tmp_path / "trips"
    mine = written(path, layout)
    mine.upsert(table([trip(4, 60, "bob")]))
    done = mine.forget("rider = 'mallory'")
    assert done.ok, str(done)
    assert done.records == 1, "the one that is gone from the table"
    found = {row["uuid"]: row["rider"] for row in from_arrow(mine.scan().to_arrow())}
    assert found["k0004"] == "bob"
    assert len(found) == 8
    stored = contents(path)
    assert not [name for name, content in stored.items() if b"mallory" in content or b"k0007" in content]
    assert mine.check().ok


@pytest.mark.parametrize("layout", [Layout("complex", kind="mor"), Layout("simple", "flat", version=6)], ids=str)
def test_without_meta_fields(tmp_path: Path, layout: Layout) -> None:
    """Record keys are computed, in base files and in log files."""
    path = tmp_path / "trips"
    mine = written(path, layout, **VIRTUAL, **{"hoodie.metadata.record.index.enable": "false"})
    mine.upsert(table([trip(4, 60, "bob")]))
    planned = mine.forget("rider = 'mallory'", dry_run=True)
    assert {each.path for each in planned.left if "metadata" not in each.path} <= holding(path)
    done = mine.forget("rider = 'mallory'")
    assert done.ok, str(done)
    assert done.records == 1, "the one that is gone from the table"
    assert not [name for name, content in contents(path).items() if b"mallory" in content or b"k0007" in content]
    done = mine.forget("uuid = 'k0004'")
    assert done.ok, str(done)
    assert done.records == 1
    assert holding(path) == set()
    assert len(from_arrow(mine.scan().to_arrow())) == 7
    assert mine.check().ok
    with pytest.raises(pudi.InvalidArgumentError, match="_hoodie_record_key"):
        mine.forget("_hoodie_record_key = 'k0001'")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_savepoints_keep_them_and_are_named(tmp_path: Path, layout: Layout) -> None:
    path = tmp_path / "trips"
    mine = written(path, layout)
    saved = mine.savepoint().instant
    mine.upsert(table([trip(4, 70, "mallory")]))
    rows = from_arrow(mine.scan(as_of=saved).to_arrow())
    done = mine.forget(WHERE)
    assert not done.ok
    assert {each.instant for each in done.left if "metadata" not in each.path} == {saved}
    assert all("savepoint" in each.reason for each in done.left if "metadata" not in each.path)
    assert holding(path) == {each.path for each in done.left}
    assert from_arrow(mine.scan(as_of=saved).to_arrow()) == rows, "the savepoint's state is whole"
    assert len(from_arrow(mine.scan().to_arrow())) == 7
    mine.delete_savepoint(saved)
    assert mine.forget(WHERE).ok
    assert holding(path) == set()
    assert mine.check().ok


@pytest.mark.parametrize("layout", MOR, ids=str)
def test_a_plan_that_another_process_runs_is_named(tmp_path: Path, layout: Layout) -> None:
    path = tmp_path / "trips"
    mine = written(path, layout)
    planned = mine.schedule("compaction")
    assert planned is not None
    options = OPTIONS | {"hoodie.clean.failed.writes.policy": "EAGER"}
    meta = MetaClient.open(str(path), None, options)
    instant = next(each for each in meta.store.load().pending if each.requested == planned)
    with lease(meta, instant, WriteOptions.of(resolve(options))):
        done = mine.forget(WHERE)
        data = [each for each in done.left if "metadata" not in each.path]
        assert data
        assert {each.instant for each in data} == {planned}
        assert all("compaction" in each.reason for each in data)
        assert len(from_arrow(mine.scan().to_arrow())) == 7, "readers don't see them"
    done = mine.forget(WHERE, options={"hoodie.clean.failed.writes.policy": "EAGER"})
    assert done.ok, str(done)
    assert holding(path) == set()
    assert mine.check().ok


def test_pending_plans_that_nobody_runs_are_run(tmp_path: Path) -> None:
    path = tmp_path / "trips"
    mine = written(path, Layout(kind="mor"))
    assert mine.schedule("clustering") is not None
    done = mine.forget(WHERE)
    assert done.ok, str(done)
    assert ("pending plans", Outcome.DONE) in {(each.name, each.outcome) for each in done.steps}
    assert holding(path) == set()
    assert mine.check().ok


@pytest.mark.sampled(3)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_replaced_file_groups(tmp_path: Path, layout: Layout) -> None:
    path = tmp_path / "trips"
    mine = written(path, layout)
    mine.cluster()
    mine.insert_overwrite(table(trip(each, 80, "mallory" if each == 4 else "ann") for each in range(1, 9, 3)))
    mine.delete_partitions(["nyc"])
    done = mine.forget(WHERE)
    assert done.ok, str(done)
    assert holding(path) == set()
    assert mine.check().ok


def test_files_of_dead_writers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "trips"
    mine = written(path, Layout())
    mine = pudi.Table(path, options=OPTIONS | {"hoodie.clean.failed.writes.policy": "EAGER"})

    def dies(*_: object, **__: object) -> None:
        raise SimulatedCrash

    with monkeypatch.context() as patched:
        patched.setattr("pudi.commit.transaction.WriteTransaction.commit", dies)
        with pytest.raises(SimulatedCrash):
            mine.upsert(table([trip(4, 90, "mallory", city="new")]))
    done = mine.forget(WHERE)
    assert done.ok, str(done)
    assert holding(path) == set()


def test_what_the_callers_policy_retains(tmp_path: Path) -> None:
    path = tmp_path / "trips"
    mine = written(path, Layout())
    before = mine.timeline.commits[-1].requested
    done = mine.forget(WHERE, options={"hoodie.clean.commits.retained": "2"})
    data = [each for each in done.left if "metadata" not in each.path]
    assert data
    assert all("KEEP_LATEST_COMMITS" in each.reason for each in data)
    assert {each.path for each in done.left} == holding(path)
    assert mine.scan(as_of=before).to_arrow().num_rows == 8


def test_a_secondary_index(tmp_path: Path) -> None:
    path = tmp_path / "trips"
    mine = written(path, Layout(kind="mor"))
    mine.create_index("secondary_index", columns=["rider"], name="by_rider")
    mine.upsert(table([trip(4, 70, "mallory")]))
    assert any("secondary_index" in name for name in holding(path))
    done = mine.forget("rider = 'mallory'")
    assert done.ok, str(done)
    assert holding(path) == set()
    assert mine.check().ok


CHANGES = [(Layout(), "data_before_after"), (Layout(version=6), "data_before"), (Layout(version=8), "op_key_only")]


@pytest.mark.parametrize(("layout", "mode"), CHANGES, ids=str)
def test_change_data(tmp_path: Path, layout: Layout, mode: str) -> None:
    """CDC files are read, those of the newest slices too: the delete logs what it deletes."""
    path = tmp_path / "trips"
    mine = written(path, layout, **LOGGED, **{MODE: mode})
    logged = {name for name in holding(path) if name.endswith(".cdc")}
    assert logged
    planned = mine.forget(WHERE, dry_run=True)
    assert {each.path for each in planned.left if each.path.endswith(".cdc")} == logged
    assert all(each.records for each in planned.left), "each file was read"
    saved = mine.savepoint().instant
    kept = mine.forget(WHERE)
    assert {each.path for each in kept.left} == holding(path)
    mine.delete_savepoint(saved)
    done = mine.forget(WHERE)
    assert done.ok, str(done)
    assert holding(path) == set()
    assert mine.check().ok, mine.check()
    with pytest.raises(pudi.NotFoundError, match="later commit"):
        mine.changes(format="cdc").to_arrow()
    newest = mine.timeline.commits[-1]
    mine.upsert(table([trip(5, 90, "eve")]))
    feed = mine.changes(newest.completion or newest.requested, format="cdc", images="struct").to_arrow()
    assert [row["after"]["rider"] for row in from_arrow(feed)] == ["eve"]


def test_change_data_of_records_that_stay(tmp_path: Path) -> None:
    """The images of a record before it changed count by their values, and go; change data of other records stays."""
    path = tmp_path / "trips"
    mine = written(path, Layout(), **LOGGED, **{MODE: "data_before_after"})
    mine.upsert(table([trip(4, 60, "bob"), trip(5, 60, "eve")]))
    done = mine.forget("rider = 'mallory'")
    assert done.ok, str(done)
    stored = contents(path)
    assert not [name for name, content in stored.items() if b"mallory" in content]
    assert any(name.endswith(".cdc") and b"eve" in content for name, content in stored.items())
    assert {row["rider"] for row in from_arrow(mine.scan().to_arrow())} == {"ann", "bob", "eve"}
    assert mine.check().ok


def test_a_record_that_moved(tmp_path: Path) -> None:
    """With a global index a key is one record, in whichever partition its versions are."""
    path = tmp_path / "trips"
    layout = Layout()
    pudi.create(path, SCHEMA, **layout.create_arguments())
    options = {**OPTIONS, "hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.simple.index.update.partition.path": "true"}
    mine = pudi.Table(path, options=options)
    mine.upsert(table([trip(4, 1, "ann", city="nyc"), trip(5, 1, city="nyc"), trip(6, 1, city="chennai")]))
    mine.upsert(table([trip(4, 2, "mallory", city="chennai")]))
    assert mine.forget("city = 'chennai' and rider = 'mallory'").ok
    assert holding(path) == set()
    assert {row["uuid"] for row in from_arrow(mine.scan().to_arrow())} == {"k0005", "k0006"}


def test_equal_keys_in_other_partitions_are_other_records(tmp_path: Path) -> None:
    path = tmp_path / "trips"
    pudi.create(path, SCHEMA, **Layout(kind="mor").create_arguments())
    mine = pudi.Table(path, options={"hoodie.parquet.small.file.limit": "0"})
    for ts in range(3):
        mine.upsert(table([trip(4, ts, city="nyc"), trip(4, ts, city="chennai")]))
    done = mine.forget("uuid = 'k0004' and city = 'nyc'")
    assert done.ok, str(done)
    assert {row["city"] for row in from_arrow(mine.scan().to_arrow())} == {"chennai"}
    assert mine.check().ok


def test_a_file_that_cant_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "trips"
    mine = written(path, Layout())
    newest = {each.base.path for each in mine.file_slices() if each.base is not None}
    old = next(each for each in sorted(path.rglob("*.parquet")) if str(each.relative_to(path)) not in newest)
    old.write_bytes(b"PAR1 nonsense PAR1")
    planned = mine.forget(WHERE, dry_run=True)
    (told,) = [each for each in planned.left if each.path == str(old.relative_to(path))]
    assert "can't be read" in told.reason
    assert mine.forget(WHERE).ok, "a clean deletes it like others"


def test_the_command(tmp_path: Path) -> None:
    path = tmp_path / "trips"
    mine = written(path, Layout(kind="mor"))
    run = CliRunner().invoke
    planned = run(app, ["forget", str(path), "--where", WHERE, "--dry-run"])
    assert (planned.exit_code, "2 records are in" in planned.stdout) == (0, True), planned.output
    assert run(app, ["forget", str(path), "--where", WHERE], input="n\n").exit_code == 1
    assert holding(path)
    saved = mine.savepoint().instant
    kept = run(app, ["forget", str(path), "--where", WHERE, "--yes", "--json"])
    assert kept.exit_code == 2
    assert json.loads(kept.stdout)["ok"] is False
    mine.delete_savepoint(saved)
    done = run(app, ["forget", str(path), "--where", WHERE, "--yes"])
    assert (done.exit_code, "no file holds any of them" in done.stdout) == (0, True), done.output
    assert holding(path) == set()


def test_what_is_refused(tmp_path: Path) -> None:
    mine = written(tmp_path / "trips", Layout())
    with pytest.raises(pudi.InvalidArgumentError, match="predicate"):
        mine.forget("")
    with pytest.raises(pudi.InvalidArgumentError, match="nowhere"):
        mine.forget("nowhere = 1")
    assert len(from_arrow(mine.scan().to_arrow())) == 8


def test_a_savepoint_is_named_that_keeps_what_completed_after_it_was_made(tmp_path: Path) -> None:
    """A clustering that was requested before its commit belongs to its state, though no savepoint names its files."""
    options = {"hoodie.parquet.small.file.limit": "0", "hoodie.metadata.enable": "false"}
    pudi.create(tmp_path / "t", SCHEMA, **Layout(folders="flat").create_arguments())
    mine = pudi.Table(tmp_path / "t", options=options)
    for first in (0, 4):
        mine.insert(table(trip(number, 1) for number in range(first, first + 4)))
    clustering = mine.schedule("clustering")
    mine.insert(table([trip(10, 2)]))
    saved = mine.savepoint().instant
    mine.run_pending()
    found = mine.forget("uuid = 'k0001'")
    assert len(found.left) == 2
    assert any(clustering in each.path for each in found.left)
    assert {each.instant for each in found.left} == {saved}
