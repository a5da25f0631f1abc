"""The rarer options of cleaning: how far a clean goes, which partitions, cleans without files, and before writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pudi
from pudi.client import MetaClient
from pudi.context import Context
from pudi.context.clock import ManualClock
from pudi.format import Action
from pudi.storage import open_storage
from support.layouts import Layout
from support.rows import from_arrow
from support.trips import SCHEMA, table, trip

pytestmark = pytest.mark.metadata_by_default

LAYOUTS = [Layout(version=version, kind=kind) for version in (6, 9) for kind in ("cow", "mor")]
BY_HAND = {
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.clean.commits.retained": "2",
}
MOST, INCREMENTAL = "hoodie.clean.max.commits.to.clean", "hoodie.clean.incremental.enabled"
REGEX, SELECTED = "hoodie.clean.partition.filter.regex", "hoodie.clean.partition.filter.selected"
EMPTY, BEFORE = "hoodie.write.empty.clean.interval.hours", "hoodie.prewrite.cleaner.policy"
CITIES = ("chennai", "nyc", "sao_paulo")


def data_files(path: Path) -> set[str]:
    files = (file.relative_to(path) for file in path.rglob("*") if file.is_file())
    return {str(file) for file in files if ".hoodie" not in file.parts and not file.name.startswith(".hoodie")}


def made(path: Path, layout: Layout, writes: int) -> pudi.Table:
    pudi.create(path, SCHEMA, **layout.create_arguments())
    mine = pudi.Table(path, options=BY_HAND)
    for ts in range(writes):
        write(mine, ts)
    return mine


def write(mine: pudi.Table, ts: int) -> None:
    mine.upsert(table(trip(number, ts) for number in range(6)))
    if mine.config.table_type == "MERGE_ON_READ":
        mine.compact()


def cleans(mine: pudi.Table) -> list[dict[str, Any]]:
    meta = MetaClient.open(mine.path, None, {})
    return [meta.store.decoded(each) for each in meta.store.load().of(Action.CLEAN)]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_one_clean_goes_so_far(tmp_path: Path, layout: Layout) -> None:
    mine = made(tmp_path / "trips", layout, 4)
    whole = made(tmp_path / "whole" / "trips", layout, 4)
    for each in (mine, whole):
        assert each.clean() is not None
        for ts in range(4, 10):
            write(each, ts)
    commits = [each.requested for each in mine.timeline.commits]
    first = commits.index(cleans(mine)[-1]["earliestCommitToRetain"])
    for number in range(1, 3):
        assert mine.clean(options={MOST: "2"}) is not None
        assert cleans(mine)[-1]["earliestCommitToRetain"] == commits[first + 2 * number]
        kept = commits[first + 2 * number]
        assert mine.scan(as_of=kept).to_arrow().num_rows == 6
    while mine.clean(options={MOST: "2"}) is not None:
        assert mine.check().ok
    assert whole.clean() is not None
    assert len(data_files(Path(mine.path))) == len(data_files(Path(whole.path)))


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_only_some_partitions(tmp_path: Path, layout: Layout) -> None:
    path = tmp_path / "trips"
    mine = made(path, layout, 6)

    def cleaned(options: dict[str, str]) -> set[str]:
        before = data_files(path)
        mine.clean(options={INCREMENTAL: "false", **options})
        return {file.split("/")[0] for file in before - data_files(path)}

    assert cleaned({REGEX: "nowhere"}) == set()
    assert cleaned({SELECTED: "nyc,elsewhere", REGEX: ".*"}) == {"nyc"}, "the list goes first"
    assert cleaned({REGEX: "c.*"}) == {"chennai"}
    assert mine.check().ok
    before = data_files(path)
    assert mine.clean() is not None, "the next clean looks at all partitions, though it is incremental"
    assert {file.split("/")[0] for file in before - data_files(path)} == {"sao_paulo"}
    assert mine.clean() is None
    assert len(from_arrow(mine.scan().to_arrow())) == 6


def test_the_metadata_table_is_cleaned_whatever_partitions_are_chosen(tmp_path: Path) -> None:
    path = tmp_path / "trips"
    pudi.create(path, SCHEMA, **Layout().create_arguments())
    some = {SELECTED: "nyc", INCREMENTAL: "false", "hoodie.metadata.compact.max.delta.commits": "2"}
    mine = pudi.Table(path, options=some)
    for ts in range(12):
        done = mine.upsert(table(trip(number, ts) for number in range(3)))
        assert done is not None
        assert not done.failed_services
    meta = MetaClient.open(str(path / ".hoodie" / "metadata"), None, {})
    assert meta.store.load().of(Action.CLEAN)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_cleans_without_files(tmp_path: Path, layout: Layout) -> None:
    """Inserts leave nothing to delete: without such cleans each clean would look at all partitions."""
    path, clock = tmp_path / "trips", ManualClock()
    pudi.create(path, SCHEMA, **layout.create_arguments())
    options = {**BY_HAND, "hoodie.clean.automatic": "true", EMPTY: "24"}

    def insert(number: int) -> pudi.Table:
        client = MetaClient.open(str(path), None, options, Context(clock=clock), open_storage(str(path)))
        mine = pudi.Table.of(client, options)
        done = mine.bulk_insert(table([trip(number, 1)]))
        assert done is not None
        assert not done.failed_services
        clock.advance(60)
        return mine

    for number in range(2):
        assert cleans(insert(number)) == []
    mine = insert(2)
    (first,) = cleans(mine)
    assert (first["totalFilesDeleted"], first["partitionMetadata"]) == (0, {})
    assert first["earliestCommitToRetain"] == mine.timeline.commits[-2].requested
    assert len(cleans(insert(3))) == 1, "not yet"
    clock.advance(25 * 3600)
    mine = insert(4)
    assert [each["earliestCommitToRetain"] for each in cleans(mine)][1] == mine.timeline.commits[-2].requested
    assert mine.check().ok
    clock.advance(25 * 3600)
    retained = cleans(mine)[-1]["earliestCommitToRetain"]
    mine = pudi.Table.of(mine._meta, {**options, "hoodie.clean.commits.retained": "4"})
    clean = mine.clean()
    assert clean is not None
    assert clean.files_deleted == 0
    assert cleans(mine)[-1]["earliestCommitToRetain"] == retained, "it never goes back"
    assert mine.scan().to_arrow().num_rows == 5
    with pytest.raises(pudi.NotFoundError):
        mine.scan(as_of=mine.timeline.commits[0].requested).to_arrow()


def test_a_clean_before_a_write(tmp_path: Path) -> None:
    path = tmp_path / "trips"
    mine = made(path, Layout(), 5)
    assert not cleans(mine)
    mine.upsert(table([trip(0, 50)]), options={BEFORE: "ROLLBACK_FAILED_WRITES"})
    assert not cleans(mine)
    done = mine.upsert(table([trip(0, 51)]), options={BEFORE: "CLEAN"})
    assert done is not None
    clean, newest = mine.timeline.of(Action.CLEAN)[-1], mine.timeline.commits[-1]
    assert clean.requested < newest.requested
    mine.upsert(table([trip(0, 52)]), options={BEFORE: "CLEAN", "hoodie.table.services.enabled": "false"})
    assert len(cleans(mine)) == 1


def test_the_policy_follows_from_the_one_number_given(tmp_path: Path) -> None:
    mine = made(tmp_path / "trips", Layout(), 6)
    mine = pudi.Table(mine.path)
    mine.clean(options={"hoodie.clean.fileversions.retained": "2"})
    assert {policy["policy"] for policy in cleans(mine)[-1]["partitionMetadata"].values()} == {
        "KEEP_LATEST_FILE_VERSIONS"
    }
    assert len(data_files(Path(mine.path))) == 6, "two slices of three file groups"


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({SELECTED: "nyc"}, pudi.InvalidArgumentError, "incremental"),
        ({REGEX: "nyc"}, pudi.InvalidArgumentError, "incremental"),
        ({REGEX: "(", INCREMENTAL: "false"}, pudi.InvalidArgumentError, "regular expression"),
        ({MOST: "0"}, pudi.InvalidArgumentError, "at least 1"),
        ({"hoodie.clean.parallelism": "0"}, pudi.InvalidArgumentError, "at least 1"),
        ({"hoodie.clean.trigger.strategy": "TIME"}, pudi.InvalidArgumentError, "NUM_COMMITS"),
        ({"hoodie.clean.multiple.enabled": "true"}, pudi.NotSupportedError, "pending clean"),
        ({"hoodie.clean.comits.retained": "3"}, pudi.NotSupportedError, "no option of that name"),
        ({BEFORE: "SOMETIMES"}, pudi.InvalidArgumentError, "ROLLBACK_FAILED_WRITES"),
    ],
)
def test_what_is_refused(tmp_path: Path, options: dict[str, str], error: type[Exception], told: str) -> None:
    mine = made(tmp_path / "trips", Layout(), 3)
    before = data_files(tmp_path)
    for verb in (mine.clean, lambda **more: mine.upsert(table([trip(1, 90)]), **more)):
        with pytest.raises(error, match=told):
            verb(options=options)
    assert data_files(tmp_path) == before
