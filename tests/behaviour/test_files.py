"""`Table.files` and `pudi files`: slices, sizes and records as they are on disk, and holders as the clean sees them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import pudi
from pudi.cli.app import app
from pudi.format import parse_data_file
from support.golden import Golden, tables
from support.layouts import Layout
from support.trips import SCHEMA, table, trip

COMMITS = {"hoodie.clean.policy": "KEEP_LATEST_COMMITS", "hoodie.clean.commits.retained": "2"}
VERSIONS = {"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": "2"}
HOURS = {"hoodie.clean.policy": "KEEP_LATEST_BY_HOURS", "hoodie.clean.hours.retained": "24"}
PLAIN = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    assert result.exit_code == 0, result.output
    return result.output


def made(path: Path, layout: Layout, **options: str) -> pudi.Table:
    pudi.create(path, SCHEMA, **layout.create_arguments())
    return pudi.Table(path, options=PLAIN | options)


def on_disk(path: Path) -> set[str]:
    files = (each for each in path.rglob("*") if ".hoodie" not in each.parts and parse_data_file(each.name))
    return {each.relative_to(path).as_posix() for each in files}


def named(slices: list) -> set[str]:
    return {file for each in slices for file in (each.base_file, *each.log_files, *each.cdc_files) if file}


def grown(path: Path, layout: Layout) -> pudi.Table:
    """A table with old slices in all ways: a savepoint, a replaced partition, and a pending plan in another one."""
    trips = made(path, layout)
    for ts in range(1, 4):
        trips.upsert(table([trip(number, ts) for number in range(6)]))
        if layout.kind == "mor":
            trips.compact()
    trips.savepoint(user="ann")
    trips.delete_partitions([trips.partitions()[0]])
    for ts in range(4, 8):
        trips.upsert(table([trip(number, ts) for number in (1, 2, 4, 5)]))
        if layout.kind == "mor" and ts < 7:
            trips.compact()
    return trips


@pytest.mark.parametrize("policy", [COMMITS, VERSIONS, HOURS], ids=lambda policy: policy["hoodie.clean.policy"])
@pytest.mark.parametrize("layout", [Layout(version=v, kind=k) for v in (6, 8, 9) for k in ("cow", "mor")], ids=str)
def test_a_clean_deletes_exactly_the_slices_that_nothing_holds(
    tmp_path: Path, layout: Layout, policy: dict[str, str]
) -> None:
    trips = grown(tmp_path / "t", layout)
    if layout.kind == "mor":
        assert trips.schedule("compaction", options={"hoodie.compact.inline.max.delta.commits": "1"})
    slices = trips.files(everything=True, options=policy)
    before = on_disk(tmp_path / "t")
    assert named(slices) == before
    for each in slices:
        for path in (each.base_file, *each.log_files):
            assert path is None or (tmp_path / "t" / path).exists()
        sizes = [(tmp_path / "t" / path).stat().st_size for path in each.log_files]
        assert sum(sizes) == each.log_bytes
        assert each.base_file is None or (tmp_path / "t" / each.base_file).stat().st_size == each.base_bytes
    current = [each for each in slices if each.current]
    assert named(current) == named(trips.files())
    assert {each.held_by[0].kind for each in current} == {"newest"}
    kinds = {holder.kind for each in slices for holder in each.held_by}
    assert "savepoint" in kinds
    assert ("pending plan" in kinds) == (layout.kind == "mor")
    assert {each.replaced_by is not None for each in slices} == {True, False}
    assert not any(each.current and each.replaced_by for each in slices)
    trips.clean(options=policy)
    assert before - on_disk(tmp_path / "t") == named([each for each in slices if not each.held_by])


def test_each_holder_is_named(tmp_path: Path) -> None:
    trips = made(tmp_path / "t", Layout(folders="flat"))
    instants = []
    for ts in range(1, 7):
        done = trips.upsert(table([trip(0, ts)]))
        assert done
        instants.append(done.instant)
    trips.savepoint(instants[1])
    found = trips.files(everything=True, options=COMMITS)
    assert [each.instant for each in found] == instants[::-1]
    assert [[(holder.kind, holder.instant) for holder in each.held_by] for each in found] == [
        [("newest", None)],
        [("policy", instants[4])],
        [("policy", instants[4])],  # what readers at the commit retained first saw
        [],
        [("savepoint", instants[1])],
        [],
    ]
    said = run("files", tmp_path / "t", "--all", "-o", "hoodie.clean.commits.retained=2")
    assert said.count("nothing: the next clean deletes it") == 2
    assert f"the savepoint {instants[1]}" in said
    everything = trips.files(everything=True)
    assert [each.held_by[0].reason for each in everything[1:]] == ["the policy retains all commits that there are"] * 5
    assert [holder.kind for holder in everything[4].held_by] == ["policy", "savepoint"]


@pytest.mark.parametrize("layout", [Layout(version=v, kind=k) for v in (6, 9) for k in ("cow", "mor")], ids=str)
def test_slices_of_the_past(tmp_path: Path, layout: Layout) -> None:
    trips = made(tmp_path / "t", layout)
    states = {}
    for ts in range(1, 5):
        done = trips.upsert(table([trip(number, ts) for number in range(3)]))
        assert done
        states[done.instant] = named(trips.files())
    instants = list(states)
    for instant, files in states.items():
        found = trips.files(as_of=instant)
        if layout.version == 6 and layout.kind == "mor":  # only their blocks tell which of the log files count
            assert named(found) == states[instants[-1]] >= files
        else:
            assert named(found) == files
            assert all(each.current == (instant == instants[-1]) for each in found)
        assert all(each.held_by for each in found)
    with pytest.raises(pudi.InvalidArgumentError, match="everything or as_of"):
        trips.files(everything=True, as_of=instants[0])
    with pytest.raises(pudi.InvalidArgumentError, match="no point in time"):
        trips.files(as_of="yesterday")
    partition = trips.partitions()[0]
    chosen = [each for each in trips.files() if each.partition == partition]
    assert trips.files(partitions=partition) == trips.files(partitions=[partition]) == chosen != []
    assert trips.files(partitions="nowhere") == []
    if layout.kind == "cow":
        trips.clean(options={"hoodie.clean.commits.retained": "1"})
        with pytest.raises(pudi.NotFoundError, match="cleaner"):
            trips.files(as_of=instants[0])


@pytest.mark.metadata_by_default
@pytest.mark.parametrize("version", [6, 9])
def test_column_statistics_tell_the_records_of_files_of_archived_commits(tmp_path: Path, version: int) -> None:
    statistics = {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "true"}
    trips = made(tmp_path / "t", Layout(version=version), **statistics)
    trips.insert(table([trip(number, 1, rider=None if number % 3 else "ann") for number in range(30)]))
    for ts in range(2, 9):
        trips.upsert(table([trip(number, ts) for number in (0, 30 + 3 * ts)]))
    keep = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "hoodie.clean.commits.retained": "1"}
    assert trips.archive(options=keep) > 0
    slices = trips.files()
    active = {instant.requested for instant in trips.timeline.commits}
    assert {each.instant in active for each in slices} == {True, False}
    for each in slices:
        assert each.base_file
        assert each.rows == pq.read_metadata(tmp_path / "t" / each.base_file).num_rows
    without = pudi.Table(tmp_path / "t", options={"hoodie.metadata.enable": "false"}).files()
    assert [each.rows for each in without] == [each.rows if each.instant in active else None for each in slices]


@pytest.mark.parametrize("golden", tables(""), ids=lambda golden: golden.name)
def test_golden_tables(golden_folder: Path, golden: Golden) -> None:
    path = golden.unpack(golden_folder)
    trips = pudi.Table(path)
    now, everything = trips.files(), trips.files(everything=True)
    assert [each.current for each in now] == [True] * len(now)
    assert named(now) <= named(everything) <= on_disk(path)
    for each in everything:
        if each.base_file and each.base_file.endswith(".parquet"):
            rows = pq.read_metadata(path / each.base_file).num_rows
            assert each.rows in ({rows, None} if "archived" in golden.name else {rows})
            assert each.base_bytes == (path / each.base_file).stat().st_size
    told = json.loads(run("files", path, "--all", "--json"))
    assert [each["instant"] for each in told] == [each.instant for each in everything]
    assert len(run("files", path).splitlines()) >= len(now) + 3


def test_a_savepoint_that_cant_be_read_is_an_error(tmp_path: Path) -> None:
    trips = made(tmp_path / "t", Layout())
    done = trips.upsert(table([trip(0, 1)]))
    assert done
    trips.savepoint()
    [file] = (tmp_path / "t" / ".hoodie" / "timeline").glob("*.savepoint")
    file.write_bytes(b"Obj\x01 no savepoint")
    assert len(trips.files()) == 1
    failed = CliRunner().invoke(app, ["files", str(tmp_path / "t"), "--all"])
    assert failed.exit_code == 1
    assert "CorruptError" in failed.output
    assert file.name in failed.output.replace("\n", "")
    assert run("files", made(tmp_path / "empty", Layout()).path) == "no files\n"
