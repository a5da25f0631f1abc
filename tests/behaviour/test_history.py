"""`Table.history` and `pudi history` against tables whose history is known."""

from __future__ import annotations

import json
import shutil
import tracemalloc
from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import pudi
from pudi.cli.app import app
from pudi.format import CommitMetadata, WriteStat, encode_commit_metadata
from pudi.plan import Operation
from support.golden import Golden, tables
from support.layouts import Layout
from support.trips import SCHEMA, table, trip

LAYOUTS = [Layout(version=version, kind=kind) for version in (6, 8, 9) for kind in ("cow", "mor")]


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    assert result.exit_code == 0, result.output
    return result.output


def made(path: Path, layout: Layout, **options: str) -> pudi.Table:
    pudi.create(path, SCHEMA, **layout.create_arguments())
    return pudi.Table(path, options={"hoodie.clean.automatic": "false", **options})


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_each_commit_is_told_with_what_it_did(tmp_path: Path, layout: Layout) -> None:
    trips = made(tmp_path / "t", layout)
    assert trips.history() == []
    inserted = trips.insert(table([trip(number, 1) for number in range(6)]))
    updated = trips.write(
        table([trip(0, 2), trip(9, 2)]), Operation.UPSERT, extra_metadata={"pipeline": "feeds", "batch": "17"}
    )
    deleted = trips.delete(table([trip(1, 3)]))
    replaced = trips.delete_partitions([trips.partitions()[0]])
    assert inserted
    assert updated
    assert deleted
    assert replaced
    entries = trips.history()
    assert [entry.instant for entry in entries] == [each.instant for each in (replaced, deleted, updated, inserted)]
    for entry, result in zip(entries, (replaced, deleted, updated, inserted), strict=True):
        assert entry.operation == result.operation
        assert (entry.state, entry.archived, entry.problem) == ("completed", False, "")
        assert entry.records_inserted == result.records_inserted
        assert entry.records_updated == result.records_updated
        assert entry.records_deleted == result.records_deleted
        assert (entry.files_written, entry.bytes_written) == (result.files_written, result.bytes_written)
        assert entry.files_replaced == result.files_replaced
        assert entry.requested == datetime.strptime(result.instant + "000", "%Y%m%d%H%M%S%f").replace(
            tzinfo=timezone.utc
        )
        assert entry.completed is None or entry.completed >= entry.requested
    assert entries[2].extra_metadata == {"pipeline": "feeds", "batch": "17"}
    assert (entries[0].action, entries[0].files_replaced, entries[0].partitions) == ("replacecommit", 1, 1)
    if layout.version > 6:
        assert entries[-1].completed is not None
        assert entries[-1].seconds == (entries[-1].completed - entries[-1].requested).total_seconds()  # type: ignore[operator]
    assert trips.history(2) == entries[:2]


@pytest.mark.parametrize("layout", [Layout(version=6), Layout(kind="mor")], ids=str)
def test_cleans_savepoints_and_rollbacks_say_what_they_did(tmp_path: Path, layout: Layout) -> None:
    trips = made(tmp_path / "t", layout)
    first = trips.upsert(table([trip(0, 1)]))
    assert first
    trips.savepoint(user="ann", comment="before the feed")
    second = trips.upsert(table([trip(0, 2)]))
    assert second
    trips.rollback(second.instant)
    rollback, savepoint, commit = trips.history()
    assert (rollback.action, rollback.note, rollback.files_deleted) == ("rollback", f"of {second.instant}", 1)
    assert (savepoint.action, savepoint.instant) == ("savepoint", first.instant)
    assert savepoint.note == "keeps 1 files, by ann: before the feed"
    assert commit.instant == first.instant
    trips.delete_savepoint(first.instant)
    for ts in range(3, 6):
        trips.upsert(table([trip(0, ts)]))
        if layout.kind == "mor":
            trips.compact()
    trips.clean(options={"hoodie.clean.commits.retained": "1"})
    clean = trips.history(1)[0]
    assert clean.action == "clean"
    assert clean.files_deleted
    assert clean.note.startswith("retained the commits from 20")


def test_pending_instants_are_shown_as_pending(golden_folder: Path, tmp_path: Path) -> None:
    path = Golden("mor_v9_pending_compaction").unpack(golden_folder)
    [pending] = [entry for entry in pudi.Table(path).history() if entry.state != "completed"]
    assert (pending.action, pending.state, pending.completed, pending.partitions) == (
        "compaction",
        "requested",
        None,
        3,
    )
    assert pending.note == "a plan over 3 file slices"
    told = [line for line in run("history", path).splitlines() if pending.instant in line]
    assert ["pending, requested" in line for line in told] == [True]
    trips = made(tmp_path / "t", Layout())
    done = trips.upsert(table([trip(0, 1)]))
    assert done
    [file] = (tmp_path / "t" / ".hoodie" / "timeline").glob(f"{done.instant}_*.commit")
    file.unlink()  # as if the writer had died before its last step
    [entry] = pudi.Table(tmp_path / "t").history()
    assert (entry.state, entry.operation, entry.records_inserted) == ("inflight", "", None)


@pytest.mark.parametrize("name", ["cow_v6_archived", "cow_v9_archived", "mor_v9_services"])
def test_a_limit_reaches_into_the_archive(golden_folder: Path, name: str) -> None:
    trips = pudi.Table(Golden(name).unpack(golden_folder))
    active = trips.history()
    everything = trips.history(archived=True)
    assert not any(entry.archived for entry in active)
    assert everything[: len(active)] == active
    older = everything[len(active) :]
    assert older
    assert all(entry.archived and entry.state == "completed" and not entry.problem for entry in older)
    instants = [entry.instant for entry in everything]
    assert instants == sorted(instants, reverse=True)
    assert (everything[-1].operation, everything[-1].records_inserted) == ("BULK_INSERT", 30)
    assert {entry.files_deleted for entry in older if entry.action == "clean"} <= {3, 9}
    for limit in (1, len(active), len(active) + 1, len(everything) - 1, len(everything) + 5):
        assert trips.history(limit) == everything[:limit]


def test_the_archive_of_pudi_itself(tmp_path: Path) -> None:
    for version in (6, 9):
        path = tmp_path / str(version)
        trips = made(path, Layout(version=version), **{"hoodie.archive.automatic": "false"})
        for ts in range(1, 10):
            trips.upsert(table([trip(0, ts)]))
        trips.savepoint(trips.history()[-1].instant, user="ann")
        before = trips.history()
        keep = {"hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4", "hoodie.clean.commits.retained": "2",
                "hoodie.archive.beyond.savepoint": "true"}  # fmt: skip
        assert trips.archive(options=keep) > 0
        after = trips.history(archived=True)
        assert [(e.instant, e.action, e.records_updated) for e in after] == [
            (e.instant, e.action, e.records_updated) for e in before
        ]
        # the commit with a savepoint stays on the active timeline: nothing younger is passed over for it
        assert [e.instant for e in trips.history(6)] == [e.instant for e in before[:6]]


@pytest.mark.slow
def test_memory_stays_bounded_over_a_long_archive(tmp_path: Path) -> None:
    trips = made(tmp_path / "t", Layout())
    trips.upsert(table([trip(0, 1)]))
    folder = tmp_path / "t" / ".hoodie" / "timeline" / "history"
    folder.mkdir(exist_ok=True)
    stats = tuple(WriteStat(file_id=f"{n:036}", path=f"{n:036}.parquet", num_inserts=1) for n in range(40))
    content = encode_commit_metadata(CommitMetadata({"": stats}, operation_type="INSERT"))
    files, of_each = [], 1000
    for number in range(10):
        times = [f"2024{number + 1:02}01{n // 3600:02}{n // 60 % 60:02}{n % 60:02}000" for n in range(of_each)]
        rows = pa.table(
            {
                "instantTime": times,
                "completionTime": [time[:-3] + "500" for time in times],
                "action": ["commit"] * of_each,
                "metadata": [content] * of_each,
                "plan": pa.nulls(of_each, pa.binary()),
                "version": pa.array([1] * of_each, pa.int32()),
            }
        )
        name = f"{times[0]}_{times[-1]}_0.parquet"
        pq.write_table(rows, folder / name, data_page_size=64 << 10, use_dictionary=False)
        files.append({"fileName": name, "fileLen": (folder / name).stat().st_size})
    (folder / "manifest_1").write_text(json.dumps({"files": files}))
    (folder / "_version_").write_text("1")
    trips.history(1)  # modules are loaded
    pool = pa.default_memory_pool()
    arrow = pool.max_memory()
    tracemalloc.start()
    found = trips.history(1100)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [entry.instant[:8] for entry in found] == [found[0].instant[:8]] + ["20241001"] * 1000 + ["20240901"] * 99
    assert {(entry.records_inserted, entry.files_written, entry.seconds) for entry in found[1:]} == {(40, 40, 0.5)}
    assert len(content) * of_each > 6 << 20  # what one file's instants say
    assert peak < 4 << 20
    assert pool.max_memory() - arrow < 8 << 20
    assert len(trips.history(archived=True)) == 10_001


def test_what_cant_be_read_is_named_on_its_line(tmp_path: Path) -> None:
    trips = made(tmp_path / "t", Layout())
    first, second = trips.upsert(table([trip(0, 1)])), trips.upsert(table([trip(0, 2)]))
    assert first
    assert second
    [file] = (tmp_path / "t" / ".hoodie" / "timeline").glob(f"{first.instant}_*.commit")
    file.write_bytes(b"")
    newer, older = pudi.Table(tmp_path / "t").history()
    assert (newer.problem, newer.records_updated) == ("", 1)
    assert "empty" in older.problem
    assert file.name in older.problem
    assert older.records_inserted is None
    assert "empty" in run("history", tmp_path / "t")


@pytest.mark.parametrize("golden", tables(""), ids=lambda golden: golden.name)
def test_every_golden_table_has_a_history(golden_folder: Path, golden: Golden) -> None:
    path = golden.unpack(golden_folder)
    entries = json.loads(run("history", path, "--archived", "--json"))
    assert [entry["problem"] for entry in entries] == [""] * len(entries)
    assert len(entries) >= len(pudi.Table(path).timeline.instants) > 0


def test_wrong_arguments_and_tables(tmp_path: Path) -> None:
    trips = made(tmp_path / "t", Layout())
    with pytest.raises(pudi.InvalidArgumentError, match="limit=0"):
        trips.history(0)
    assert run("history", tmp_path / "t") == "nothing has happened to this table\n"
    missing = CliRunner().invoke(app, ["history", str(tmp_path / "none")])
    assert missing.exit_code == 1
    assert "TableNotFoundError" in missing.output


def test_a_damaged_archive_is_an_error(golden_folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "t"
    shutil.copytree(Golden("cow_v9_archived").unpack(golden_folder), path)
    folder = path / ".hoodie" / "timeline" / "history"
    file = folder / json.loads((folder / "manifest_8").read_text())["files"][0]["fileName"]
    file.write_bytes(file.read_bytes()[:-20])
    trips = pudi.Table(path)
    assert trips.history()
    with pytest.raises(pudi.CorruptError, match="archived timeline") as raised:
        trips.history(archived=True)
    assert raised.value.path == f".hoodie/timeline/history/{file.name}"


def test_texts_of_a_writer_are_no_markup_and_no_escapes(tmp_path: Path) -> None:
    trips = made(tmp_path / "t", Layout())
    trips.write(table([trip(0, 1)]), Operation.UPSERT, extra_metadata={"by": "[red]me\x1b[31m"})
    assert "by=[red]me\\x1b[31m" in run("history", tmp_path / "t").replace("\n", "")
