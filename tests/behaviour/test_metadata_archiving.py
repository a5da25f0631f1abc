"""The metadata table's timeline stays short: what no reader needs moves to its archive, and nothing is lost by it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import pudi
from pudi.client import MetaClient
from pudi.client.snapshot import TableSnapshot
from pudi.context import Context
from pudi.filegroup import SliceFiles
from pudi.format import Action
from pudi.metadata_write.client import open_metadata
from pudi.storage import open_storage
from pudi.testing import FaultStorage, SimulatedCrash
from support.archiving import archive
from support.engines import LocalEngine
from support.layouts import Layout
from support.metadata import assert_listing, metadata_partitions, timeline_of
from support.pudi_table import PudiTable
from support.trips import SCHEMA, table, trip

OFTEN = {
    "hoodie.archive.automatic": "false",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.compact.max.delta.commits": "3",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "4",
}
LAYOUTS = [Layout("simple", "plain", "event", version, kind) for version in (9, 6, 8) for kind in ("cow", "mor")]


def metadata_of(path: Path) -> MetaClient:
    return open_metadata(MetaClient.open(str(path), None, {}))


def written(path: Path, layout: Layout, rounds: int = 11, options: dict[str, str] = OFTEN) -> PudiTable:
    """A table on whose own timeline only the newest commits are, as Hudi leaves it."""
    made = PudiTable.create(LocalEngine(), path, SCHEMA, layout, options)
    for number in range(rounds):
        made.write("upsert", table([trip(number, number), trip(0, number)]))
    return made


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_what_the_table_archived_its_metadata_table_archives(tmp_path: Path, layout: Layout) -> None:
    made = written(tmp_path / "trips", layout)
    before = {i.requested for i in timeline_of(made.path / ".hoodie" / "metadata").instants}
    made.write("upsert", table([trip(20, 20)]))
    only = {i for i in before if i.startswith("0000")}
    gone = before - {i.requested for i in timeline_of(made.path / ".hoodie" / "metadata").instants}
    assert gone <= only, "what is on the table's own timeline stays"
    archive(made.path, 11)
    for number in range(4):
        made.write("upsert", table([trip(20, 21 + number)]))
    own = timeline_of(made.path / ".hoodie" / "metadata")
    assert len(own.commits) <= 9, "those on the table's timeline, compactions, and the newest"
    archived = metadata_of(made.path).store.archived()
    left = {i.requested for i in own.instants}
    assert {i.requested for i in archived} >= before - left
    assert not {i.requested for i in archived} & left
    meta = metadata_of(made.path)
    for instant in archived:
        if instant.action is Action.DELTACOMMIT and not instant.requested.startswith("0000"):
            assert meta.store.read_commit_metadata(instant).partition_to_write_stats.keys() == {"files"}
    assert_listing(made.path)
    assert len(made.snapshot()) == 12
    made.table.upsert(table([trip(30, 30)]), options={"hoodie.metadata.index.column.stats.enable": "true"})
    assert "column_stats" in metadata_partitions(made.path)
    for number in range(4):
        made.write("upsert", table([trip(31, number)]))
    assert_listing(made.path)
    assert len(made.snapshot()) == 14
    assert made.table.check().differences == ()


@pytest.mark.parametrize("version", [9, 8, 6])
def test_a_savepoint_keeps_its_state_of_the_metadata_table(tmp_path: Path, version: int) -> None:
    """Hudi restores a table to a savepoint only if the metadata table has a base file and a compaction as old as it."""
    layout = Layout("simple", "plain", "event", version, "mor")
    made = written(tmp_path / "trips", layout, 6, OFTEN | {"hoodie.archive.automatic": "true"})
    saved = made.table.savepoint().instant
    before = timeline_of(made.path / ".hoodie" / "metadata")
    compaction = [each for each in before.of(Action.COMMIT) if each.requested <= saved][-1]
    needed = {each.requested for each in before.commits if before.order(each) >= compaction.requested}
    for number in range(12):
        made.write("upsert", table([trip(20, 20 + number)]))
    own = timeline_of(made.path / ".hoodie" / "metadata")
    assert sum(each.requested > saved for each in own.of(Action.COMMIT)) > 2, "later slices of each file group"
    assert {each.requested for each in own.commits} >= needed | {compaction.requested}
    assert own.of(Action.COMMIT)[0].requested <= saved, "otherwise Hudi's restore deletes the metadata table"
    assert [each.instant for each in slices_of_files(made.path) if each.instant <= saved] == [compaction.requested]
    made.table.delete_savepoint(saved)
    for number in range(8):
        made.write("upsert", table([trip(20, 40 + number)]))
    assert all(each.instant > saved for each in slices_of_files(made.path))
    assert timeline_of(made.path / ".hoodie" / "metadata").of(Action.COMMIT)[0].requested > saved
    assert_listing(made.path)


def slices_of_files(path: Path) -> list[SliceFiles]:
    """The slices of the partition files of the metadata table, newest first."""
    meta = metadata_of(path)
    [group] = TableSnapshot.load(meta).view().groups_of(["files"])
    return list(group.slices)


@pytest.mark.parametrize("layout", [LAYOUTS[1]], ids=str)
def test_log_files_are_merged_among_themselves(tmp_path: Path, layout: Layout) -> None:
    options = {
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.index.column.stats.enable": "true",
        "hoodie.metadata.compact.max.delta.commits": "12",
        "hoodie.metadata.log.compaction.enable": "true",
        "hoodie.metadata.log.compaction.blocks.threshold": "3",
    }
    made = written(tmp_path / "trips", layout, rounds=8, options=options)
    store = metadata_of(made.path).store
    deltas = [store.read_commit_metadata(i) for i in store.load().of(Action.DELTACOMMIT)]
    folded = [each for each in deltas if each.operation_type == "LOG_COMPACT"]
    assert len(folded) >= 2
    assert {"files", "column_stats", "partition_stats"} == set(folded[-1].partition_to_write_stats)
    assert store.load().pending == ()
    assert_listing(made.path)
    assert made.table.check().differences == ()
    for where in ("fare > 25", "uuid = 'k0003'", "ts < 4"):
        rows = made.table.scan(where=where).to_arrow().num_rows
        plain = pudi.Table(made.path, options={"hoodie.metadata.enable": "false"})
        assert rows == plain.scan(where=where).to_arrow().num_rows
    made.write("upsert", table([trip(0, 50)]))
    assert len(made.snapshot()) == 8


def test_files_of_the_archive_are_merged_and_old_ones_deleted(tmp_path: Path) -> None:
    few = {"hoodie.keep.min.commits": "1", "hoodie.keep.max.commits": "2"}
    options = {**OFTEN, "hoodie.metadata.compact.max.delta.commits": "1", **few}
    made = written(tmp_path / "trips", LAYOUTS[0], rounds=3, options=options)
    history = made.path / ".hoodie" / "metadata" / ".hoodie" / "timeline" / "history"
    requested = {i.requested for i in timeline_of(made.path / ".hoodie" / "metadata").instants}
    for number in range(26):
        made.write("upsert", table([trip(0, number)]))
        shutil.rmtree(made.path / ".hoodie" / "timeline" / "history", ignore_errors=True)  # made anew by the next line
        archive(made.path, 1)
        requested |= {i.requested for i in timeline_of(made.path / ".hoodie" / "metadata").instants}
    version = int((history / "_version_").read_text())
    live = [entry["fileName"] for entry in json.loads((history / f"manifest_{version}").read_text())["files"]]
    assert any(name.endswith("_1.parquet") for name in live)
    assert len(list(history.glob("manifest_*"))) <= 4
    assert len(live) <= len(list(history.glob("*.parquet"))) <= len(live) + 12
    own = timeline_of(made.path / ".hoodie" / "metadata")
    archived = [i.requested for i in metadata_of(made.path).store.archived()]
    assert len(archived) == len(set(archived))
    assert {*archived, *(i.requested for i in own.instants)} - {"0" * 17} == requested - {"0" * 17}
    assert len(own.instants) < 15
    schema = pq.ParquetFile(history / live[0]).schema
    assert schema.column(5).name == "version" and schema.column(5).max_definition_level == 0


@pytest.mark.sampled(1)
@pytest.mark.parametrize("version", [9, 6])
def test_a_crash_while_archiving_loses_nothing(tmp_path: Path, version: int) -> None:
    whole = written(tmp_path / "whole", Layout("simple", "plain", "event", version, "cow")).path
    archive(whole, 9)
    every = {i.requested for i in timeline_of(whole / ".hoodie" / "metadata").instants}

    def run(path: Path, **fault: object) -> int:
        storage = FaultStorage(open_storage(str(path)), **fault)  # type: ignore[arg-type]
        pudi.Table.of(MetaClient.open(str(path), None, {}, Context(), storage), dict(OFTEN)).upsert(
            table([trip(0, 40)])
        )
        return storage.calls

    calls = run(Path(shutil.copytree(whole, tmp_path / "copy")))
    for number in range(calls, 0, -2):
        path = Path(shutil.copytree(whole, tmp_path / str(number)))
        with pytest.raises(SimulatedCrash):
            run(path, fail_at=number, mode="crash", crash_after=True)
        if len(timeline_of(path).commits) == 2:
            break  # the write itself didn't come to its end
        for again in range(2):
            run(path)
            archived = [i.requested for i in metadata_of(path).store.archived()]
            assert len(archived) == len(set(archived)), f"call {number}, after {again + 1} more"
        left = timeline_of(path / ".hoodie" / "metadata")
        assert every <= {*archived, *(i.requested for i in left.instants)}
        assert_listing(path)
        shutil.rmtree(path)
    assert number < calls, "at least one call crashed after the write had committed"
