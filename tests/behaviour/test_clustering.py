"""Clustering changes no record, whatever the table: it only brings records in order and files to size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import pudi
from pudi.cli.app import app
from pudi.client import MetaClient
from pudi.config import ClusteringOptions, resolve
from pudi.format import TIMELINE_DIR, Action, State
from pudi.format.plans import SORT_AND_SIZE, decode_clustering_plan, encode_clustering_plan
from pudi.services.clustering_plan import chosen_partitions
from support.engines import Engine
from support.layouts import Layout
from support.pudi_table import PudiTable
from support.rows import Row, assert_same
from support.trips import SCHEMA, table, trip

pytestmark = pytest.mark.metadata_by_default

LAYOUTS = [Layout(version=version, kind=kind) for version in (6, 8, 9) for kind in ("cow", "mor")]
FEW = {"hoodie.parquet.small.file.limit": "0"}
PREFIX = "hoodie.clustering.plan.strategy."
LEAST = {f"hoodie.clean.{name}.retained": "1" for name in ("commits", "hours", "fileversions")}
TARGET = f"{PREFIX}target.file.max.bytes"


def made(path: Path, layout: Layout, **options: str) -> pudi.Table:
    pudi.create(path, SCHEMA, **layout.create_arguments())
    return pudi.Table(path, options=FEW | options)


def rows(mine: pudi.Table, **scan: Any) -> list[Row]:
    found = pudi.Table(mine.path).scan(**scan).to_arrow().to_pylist()
    return sorted(({k: v for k, v in row.items() if k != "_hoodie_file_name"} for row in found), key=str)


def files(mine: pudi.Table) -> set[str]:
    return {each.base.name.name for each in mine.file_slices() if each.base}


def pending_plan(mine: pudi.Table) -> Any:
    store = MetaClient.open(mine.path, None, {}).store
    instant = store.load().pending_of(Action.CLUSTERING)[-1]
    return decode_clustering_plan(store.read(instant, State.REQUESTED))


def spark_of(engine: Engine) -> Any:
    return getattr(engine, "spark", None)


def bounds(mine: pudi.Table, column: str) -> list[tuple[Any, Any]]:
    """The least and the greatest value of each file, in order."""
    by_file = mine.scan(columns=[column, "_hoodie_file_name"]).to_arrow().group_by("_hoodie_file_name")
    found = by_file.aggregate([(column, "min"), (column, "max")])
    return sorted(zip(found[f"{column}_min"].to_pylist(), found[f"{column}_max"].to_pylist(), strict=True))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("order", [(), ("fare",), ("rider", "fare"), ("ts", "fare", "rider", "leg")])
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_no_record_changes(engine: Engine, tmp_path: Path, layout: Layout, order: Sequence[str]) -> None:
    mine = made(tmp_path / "trips", layout)
    writer = PudiTable(engine, tmp_path / "trips", FEW)
    for verb, numbers, ts in (("insert", range(40), 1), ("upsert", range(10, 50), 2), ("upsert", range(0, 60, 7), 3)):
        writer.write(verb, table([trip(number, ts, f"rider {number % 4}") for number in numbers]))
    mine.delete(table([trip(number, 4) for number in range(5, 9)]))
    mine.create_index("record_index")
    before, old, last = rows(mine), files(mine), mine.timeline.commits[-1].requested
    shape = "hilbert" if len(order) == 2 else "zorder"
    done = mine.cluster(order_by=order, layout=shape, spark=spark_of(engine), options={TARGET: "9000"})
    assert done is not None
    assert done.operation == "CLUSTER"
    assert_same(rows(mine), before, about="clustered")
    assert_same(rows(mine, read_optimized=True), before, about="read-optimized")
    assert_same(rows(mine, as_of=last), before, about="before the clustering")
    assert not order or not files(mine) & old, "without an order, a file of its own stays"
    assert all(not each.logs for each in mine.file_slices())
    names = {row["_hoodie_file_name"] for row in mine.scan(columns=["_hoodie_file_name"]).to_arrow().to_pylist()}
    assert names <= files(mine)
    assert mine.changes(since=done.instant).to_arrow().num_rows == 0, "a clustering brings no changes"
    assert mine.check().ok, mine.check()
    writer.write("upsert", table([trip(0, 9000, "after"), trip(99, 9000, "new")]))
    found = {row["uuid"]: row["rider"] for row in rows(mine)}
    assert (found["k0000"], found["k0099"]) == ("after", "new")
    assert mine.check().ok, mine.check()


@pytest.mark.parametrize("outputs", [1, 3])
def test_files_follow_each_other_in_linear_order(tmp_path: Path, outputs: int) -> None:
    mine = made(tmp_path / "trips", Layout(folders="flat"))
    for first in range(4):
        mine.insert(table([trip(number, 1000) for number in range(first, 400, 4)]))
    size = sum(each.base_file.size for each in mine.file_slices() if each.base_file)
    assert mine.cluster(order_by="fare", options={TARGET: str(-(-size // outputs))}) is not None
    found = bounds(mine, "fare")
    assert len(found) == outputs
    assert all(before[1] <= after[0] for before, after in pairwise(found))
    whole = mine.scan(columns=["fare"]).to_arrow()["fare"]
    assert pc.count_distinct(whole).as_py() == 400


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("order", [(), ("fare", "rider")])
def test_a_group_that_does_not_fit_in_memory_goes_through_a_file(
    tmp_path: Path, order: Sequence[str], kind: str
) -> None:
    shapes = {}
    for memory in ("1073741824", "1048576"):
        mine = made(tmp_path / memory, Layout(folders="flat", kind=kind))
        mine.insert(table([trip(number, 1, f"r{number % 7}") for number in range(300)]))
        mine.insert(table([trip(number, 1, f"r{number % 7}") for number in range(300, 400)]))
        mine.upsert(table([trip(number, 2, f"s{number % 7}") for number in range(0, 400, 9)]))
        before = rows(mine)
        size = sum(each.base.size for each in mine.file_slices() if each.base)
        options = {TARGET: str(-(-size // 3)), "hoodie.memory.compaction.max.size": memory}
        assert mine.cluster(order_by=order, layout="zorder", options=options) is not None
        assert_same(rows(mine), before, about=f"clustered in {memory} bytes")
        assert mine.check().ok
        by_name = [(each.base.name.file_id[-1], each.base) for each in mine.file_slices() if each.base]
        names = [base.name.name for _, base in sorted(by_name, key=lambda each: each[0])]
        found = mine.scan(columns=["_hoodie_file_name", "uuid"]).to_arrow().to_pylist()
        shapes[memory] = [[row["uuid"] for row in found if row["_hoodie_file_name"] == name] for name in names]
    one, other = shapes.values()
    assert len(one) == 3
    assert one == other, "the same records are in the same files, in the same order"


@pytest.mark.parametrize("bloom", ["false", "true"])
def test_files_are_put_together_by_copied_row_groups(tmp_path: Path, bloom: str) -> None:
    count = 12_000
    mine = made(tmp_path / "trips", Layout(folders="flat"), **{"hoodie.parquet.bloom.filter.enabled": bloom})
    for first in range(3):
        mine.bulk_insert(table(trip(number, 1) for number in range(first * count, (first + 1) * count)))
    before = rows(mine)
    stored = [chunks(tmp_path / "trips" / name) for name in files(mine)]
    done = mine.cluster()
    assert done is not None
    assert (done.files_replaced, done.files_written) == (3, 1)
    assert_same(rows(mine), before, about="copied")
    [name] = files(mine)
    assert {row["_hoodie_file_name"] for row in mine.scan(columns=["_hoodie_file_name"]).to_arrow().to_pylist()} == {
        name
    }
    copied = chunks(tmp_path / "trips" / name)
    assert copied.keys() == {"uuid", "fare", "_hoodie_record_key"}
    for column, pages in copied.items():
        assert sorted(pages) == sorted(page for each in stored for page in each[column]), column
    assert mine.check().ok, mine.check()
    assert len(mine.scan(where=f"fare < {count // 2}").plan.slices) == 1
    mine.upsert(table([trip(5, 9, "after"), trip(5 * count, 9, "new")]))
    found = {row["uuid"]: row["rider"] for row in rows(mine)}
    assert (len(found), found["k0005"]) == (3 * count + 1, "after")


def chunks(path: Path) -> dict[str, list[bytes]]:
    """The stored bytes of some columns, row group by row group."""
    content, footer = path.read_bytes(), pq.read_metadata(path)
    found: dict[str, list[bytes]] = {}
    for group in range(footer.num_row_groups):
        for number in range(footer.num_columns):
            chunk = footer.row_group(group).column(number)
            if chunk.path_in_schema in {"uuid", "fare", "_hoodie_record_key"}:
                start = chunk.dictionary_page_offset or chunk.data_page_offset
                pages = content[start : start + chunk.total_compressed_size]
                found.setdefault(chunk.path_in_schema, []).append(pages)
    return found


def test_a_damaged_file_is_not_copied(tmp_path: Path) -> None:
    mine = made(tmp_path / "trips", Layout(folders="flat"))
    for first in range(2):
        mine.bulk_insert(table(trip(number, 1) for number in range(first * 12_000, (first + 1) * 12_000)))
    name = min(files(mine))
    path = tmp_path / "trips" / name
    chunk = pq.read_metadata(path).row_group(0).column(9)
    damaged = bytearray(path.read_bytes())
    damaged[chunk.data_page_offset + chunk.total_compressed_size // 2] ^= 0xFF
    path.write_bytes(bytes(damaged))
    with pytest.raises(pudi.CorruptError, match=name):
        mine.cluster()
    assert len(files(mine)) == 2
    assert [each.state for each in mine.timeline.pending] == [State.REQUESTED]


def test_a_curve_makes_filters_over_each_column_read_fewer_files(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("x", pa.int64()), ("y", pa.int64())])
    pudi.create(tmp_path / "points", schema, record_key="id")
    mine = pudi.Table(tmp_path / "points", FEW)
    values = range(4096)
    mine.insert(pa.table({"id": values, "x": [n % 64 for n in values], "y": [n // 64 for n in values]}, schema=schema))
    size = sum(each.base_file.size for each in mine.file_slices() if each.base_file)
    for shape in ("zorder", "hilbert"):
        mine.cluster(order_by=["x", "y"], layout=shape, options={TARGET: str(-(-size // 16))})
        assert len(files(mine)) >= 16
        for where in ("x < 6", "y < 6"):
            read = len(mine.scan(where=where).plan.slices)
            assert read <= len(files(mine)) / 2, f"{shape}: {where} reads {read} of {len(files(mine))} files"
            assert mine.scan(where=where).to_arrow().num_rows == 6 * 64
        size = sum(each.base_file.size for each in mine.file_slices() if each.base_file)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_a_write_to_a_file_group_of_a_plan_is_refused_and_other_writes_go_on(tmp_path: Path, layout: Layout) -> None:
    mine = made(tmp_path / "trips", layout)
    mine.insert(table([trip(number, 1) for number in range(30)]))
    instant = mine.schedule("clustering", options={f"{PREFIX}sort.columns": "fare"})
    assert instant is not None
    plan = pending_plan(mine)
    assert (plan.execution, dict(plan.params)) == (SORT_AND_SIZE, {f"{PREFIX}sort.columns": "fare"})
    named = {each.file_id for each in plan.slices}
    assert named == {each.file_id for each in mine.file_slices()}
    with pytest.raises(pudi.ConflictError, match=rf"clustering {instant} is pending on file group ") as refused:
        mine.upsert(table([trip(3, 2)]))
    assert any(file_id in str(refused.value) for file_id in named)
    small = pudi.Table(mine.path, {"hoodie.parquet.small.file.limit": "100000000"})
    small.insert(table([trip(number, 1) for number in range(100, 110)]))
    assert {each.file_id for each in mine.file_slices()} > named, "inserts go to other file groups"
    assert mine.schedule("clustering", options={f"{PREFIX}single.group.clustering.enabled": "false"}) is None
    before = rows(mine)
    assert [each.instant for each in mine.run_pending()] == [instant]
    assert_same(rows(mine), before, about="the plan run")
    assert named.isdisjoint(each.file_id for each in mine.file_slices())
    mine.upsert(table([trip(3, 2, "later")]))
    assert {row["uuid"]: row["rider"] for row in rows(mine)}["k0003"] == "later"
    assert mine.check().ok


@pytest.mark.parametrize(
    ("options", "taken"),
    [
        ({}, {"chennai", "nyc", "sao_paulo"}),
        ({f"{PREFIX}partition.selected": "nyc,chennai"}, {"chennai", "nyc"}),
        ({f"{PREFIX}partition.regex.pattern": "n.*"}, {"nyc"}),
        ({"hoodie.clustering.plan.partition.filter.mode": "RECENT_DAYS"}, {"nyc", "sao_paulo"}),
        (
            {
                "hoodie.clustering.plan.partition.filter.mode": "RECENT_DAYS",
                f"{PREFIX}daybased.skipfromlatest.partitions": "1",
            },
            {"chennai", "nyc"},
        ),
        (
            {
                "hoodie.clustering.plan.partition.filter.mode": "SELECTED_PARTITIONS",
                f"{PREFIX}cluster.begin.partition": "d",
                f"{PREFIX}cluster.end.partition": "o",
            },
            {"nyc"},
        ),
        ({f"{PREFIX}max.num.groups": "1"}, {"chennai"}),
        ({f"{PREFIX}single.group.clustering.enabled": "false"}, {"chennai", "nyc", "sao_paulo"}),
        ({f"{PREFIX}single.group.clustering.enabled": "false", f"{PREFIX}sort.columns": ""}, set()),
        ({f"{PREFIX}small.file.limit": "1"}, set()),
    ],
)
def test_options_choose_what_is_clustered(tmp_path: Path, options: dict[str, str], taken: set[str]) -> None:
    mine = made(tmp_path / "trips", Layout())
    mine.insert(table([trip(number, 1) for number in range(30)]))
    done = mine.schedule("clustering", options={f"{PREFIX}sort.columns": "fare"} | options)
    assert (done is not None) == bool(taken)
    if taken:
        assert {each.partition_path for each in pending_plan(mine).slices} == taken


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.clustering.plan.strategy.sort.column", "fare"),
        ("hoodie.clustering.fail.on.pending.ingestion.during.conflict.resolution", "true"),
        (f"{PREFIX}file.slices.sort.by", "SIZE,NAME"),
        ("hoodie.keep.min.commit", "3"),
        ("hoodie.archive.limit.instants", "3"),
        ("hoodie.clean.commit.retained", "3"),
    ],
)
def test_an_option_without_effect_is_refused(tmp_path: Path, key: str, value: str) -> None:
    mine = made(tmp_path / "trips", Layout())
    with pytest.raises((pudi.InvalidArgumentError, pudi.NotSupportedError), match=key.replace(".", r"\.")):
        mine.cluster(options={key: value})


def test_each_hour_has_another_share_of_the_partitions(tmp_path: Path) -> None:
    """DAY_ROLLING: each partition once a day, by the hour of this machine, as in Hudi."""
    mine = made(tmp_path / "trips", Layout())
    mine.insert(table([trip(number, 1, city=f"c{number:02}") for number in range(30)]))
    mode = {"hoodie.clustering.plan.partition.filter.mode": "DAY_ROLLING", f"{PREFIX}sort.columns": "fare"}
    options = ClusteringOptions.of(resolve(mode))
    shares = [chosen_partitions([f"c{number:02}" for number in range(30)], options, hour) for hour in range(24)]
    assert sorted(each for share in shares for each in share) == [f"c{number:02}" for number in range(30)]
    assert shares[5] == ["c05", "c29"]
    before, planned, after = datetime.now().hour, mine.schedule("clustering", options=mode), datetime.now().hour
    assert planned is not None
    taken = sorted(each.partition_path for each in pending_plan(mine).slices)
    assert taken in (shares[before], shares[after])


@pytest.mark.parametrize(("order", "first"), [("SIZE", 1), ("INSTANT_TIME", 0), ("instant_time, size", 0)])
def test_what_is_put_into_a_group_first(tmp_path: Path, order: str, first: int) -> None:
    mine = made(tmp_path / "trips", Layout())
    mine.insert(table([trip(0, 1, city="nyc")]))
    mine.insert(table([trip(number, 2, city="nyc") for number in range(1, 200)]))
    files = sorted(each.file_id for each in mine.file_slices())
    by_age = sorted(mine.file_slices(), key=lambda each: each.instant)
    options = {
        f"{PREFIX}sort.columns": "fare",
        f"{PREFIX}max.bytes.per.group": "1",
        f"{PREFIX}file.slices.sort.by": order,
    }
    assert mine.schedule("clustering", options=options)
    taken = [each.file_id for each in pending_plan(mine).slices]
    assert sorted(taken) == files
    assert taken[0] == by_age[first].file_id


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", [Layout(), Layout(kind="mor"), Layout(version=8, kind="mor")], ids=str)
def test_all_indexes_are_in_step(tmp_path: Path, layout: Layout) -> None:
    mine = made(tmp_path / "trips", layout)
    mine.insert(table([trip(number, 1, f"Rider {number % 5}") for number in range(60)]))
    for kind, more in (("record_index", {}), ("bloom_filters", {}), ("secondary_index", {"columns": "rider"}),
                       ("column_stats", {"columns": "rider", "expr": "lower"})):  # fmt: skip
        mine.create_index(kind, **more)
    mine.upsert(table([trip(number, 2, f"Rider {number % 4}") for number in range(40, 80)]))
    mine.delete(table([trip(number, 3) for number in range(3)]))
    before = rows(mine)
    assert mine.cluster(order_by=["rider", "ts"], layout="hilbert", options={TARGET: "9000"}) is not None
    assert mine.check().ok, mine.check()
    for where in ("uuid = 'k0050'", "rider = 'Rider 3'", "lower(rider) = 'rider 3'", "fare < 9"):
        found = pudi.Table(mine.path).scan(where=where).to_arrow().num_rows
        whole = mine.scan().to_arrow().to_pylist()
        assert found == sum(CHOSEN[where](row) for row in whole) > 0, where
    assert_same(rows(mine), before, about="clustered")


CHOSEN = {
    "uuid = 'k0050'": lambda row: row["uuid"] == "k0050",
    "rider = 'Rider 3'": lambda row: row["rider"] == "Rider 3",
    "lower(rider) = 'rider 3'": lambda row: row["rider"].lower() == "rider 3",
    "fare < 9": lambda row: row["fare"] < 9,
}


def test_a_predicate_chooses_partitions(tmp_path: Path) -> None:
    mine = made(tmp_path / "trips", Layout())
    mine.insert(table([trip(number, 1) for number in range(30)]))
    old, before = {each.partition: each.file_id for each in mine.file_slices()}, rows(mine)
    assert mine.cluster(order_by="fare", where="city < 'd' OR city = 'sao_paulo'") is not None
    new = {each.partition: each.file_id for each in mine.file_slices()}
    assert {partition for partition in old if old[partition] != new[partition]} == {"chennai", "sao_paulo"}
    assert_same(rows(mine), before, about="clustered")
    assert mine.cluster(order_by="fare", where="city = 'rome'") is None
    with pytest.raises(
        pudi.InvalidArgumentError, match="'fare' is no partition column: the table is partitioned by city; partitions"
    ):
        mine.cluster(where="fare > 3")
    with pytest.raises(pudi.InvalidArgumentError, match="either"):
        mine.cluster(where="city = 'nyc'", partitions="nyc")


def test_groups_are_packed_by_size_and_divided_among_files(tmp_path: Path) -> None:
    mine = made(tmp_path / "trips", Layout(folders="flat"))
    for first in range(5):
        mine.insert(table([trip(number, 1) for number in range(first * 100, first * 100 + 40 + 10 * first)]))
    sizes = {each.file_id: each.base_file.size for each in mine.file_slices() if each.base_file}
    most = 2 * max(sizes.values())
    mine.schedule("clustering", options={f"{PREFIX}max.bytes.per.group": str(most), TARGET: str(most // 3)})
    groups = pending_plan(mine).groups
    found = [[sizes[each.file_id] for each in group.slices] for group in groups]
    assert [size for group in found for size in group] == sorted(sizes.values(), reverse=True)
    assert all(sum(group) <= most for group in found)
    assert [group.outputs for group in groups] == [-(-sum(group) // (most // 3)) for group in found]


@pytest.mark.parametrize("layout", [Layout(), Layout(kind="mor"), Layout(version=6)], ids=str)
def test_clusterings_run_after_commits_when_due(tmp_path: Path, layout: Layout) -> None:
    options = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "3"}
    mine = made(tmp_path / "trips", layout, **options, **{f"{PREFIX}sort.columns": "fare"})
    seen = []
    for ts in range(1, 8):
        done = mine.upsert(table([trip(number, ts) for number in range(9)]))
        assert done is not None
        assert not done.failed_services
        seen.append(sum(each.action is Action.REPLACECOMMIT for each in pudi.Table(mine.path).timeline.commits))
    assert seen == [0, 0, 1, 1, 1, 2, 2]


def test_a_plan_is_scheduled_after_commits_for_another_process(tmp_path: Path) -> None:
    options = {"hoodie.clustering.schedule.inline": "true", "hoodie.clustering.async.max.commits": "2"}
    mine = made(tmp_path / "trips", Layout(), **options)
    mine.insert(table([trip(0, 1)]))
    assert not pudi.Table(mine.path).timeline.of(Action.CLUSTERING, State.REQUESTED)
    mine.insert(table([trip(3, 1)]))
    assert len(pudi.Table(mine.path).timeline.of(Action.CLUSTERING, State.REQUESTED)) == 1
    assert len(pudi.Table(mine.path).run_pending()) == 1
    assert len(files(mine)) == 1


@pytest.mark.parametrize("policy", ["KEEP_LATEST_COMMITS", "KEEP_LATEST_BY_HOURS", "KEEP_LATEST_FILE_VERSIONS"])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_cleans_keep_what_a_pending_clustering_reads(tmp_path: Path, kind: str, policy: str) -> None:
    mine = made(tmp_path / "trips", Layout(kind=kind))
    for ts in range(1, 5):
        mine.upsert(table([trip(number, ts) for number in range(9)]))
    assert mine.schedule("clustering", options={f"{PREFIX}sort.columns": "fare"}) is not None
    for ts in range(1, 5):
        mine.insert(table([trip(100 + number + 9 * ts, ts) for number in range(9)]))
    before = rows(mine)
    mine.clean(options=LEAST | {"hoodie.clean.policy": policy})
    assert len(mine.run_pending()) == 1
    assert_same(rows(mine), before, about="clustered after a clean")


@pytest.mark.parametrize("policy", ["KEEP_LATEST_COMMITS", "KEEP_LATEST_FILE_VERSIONS"])
def test_cleans_keep_what_a_plan_names_even_if_a_writer_ignored_it(tmp_path: Path, policy: str) -> None:
    mine = made(tmp_path / "trips", Layout(folders="flat"))
    mine.insert(table([trip(number, 1) for number in range(9)]))
    instant = mine.schedule("clustering", options={f"{PREFIX}sort.columns": "fare"})
    requested = tmp_path / "trips" / TIMELINE_DIR / f"{instant}.clustering.requested"
    plan = requested.read_bytes()
    requested.unlink()
    for ts in range(2, 6):
        mine.upsert(table([trip(number, ts) for number in range(9)]))
    requested.write_bytes(plan)
    (named,) = decode_clustering_plan(plan).slices
    assert mine.clean(options=LEAST | {"hoodie.clean.policy": policy}) is None
    assert (tmp_path / "trips" / str(named.base_file)).exists()
    before = rows(mine)
    assert mine.run_pending() == [], "what it names is not the latest state any more: it is dropped"
    assert_same(rows(mine), before, about="an outdated plan")
    assert not pudi.Table(mine.path).timeline.pending


def test_a_plan_that_hudi_runs_otherwise_is_left_to_it(tmp_path: Path) -> None:
    mine = made(tmp_path / "trips", Layout())
    mine.insert(table([trip(number, 1) for number in range(9)]))
    instant = mine.schedule("clustering", options={f"{PREFIX}sort.columns": "fare"})
    requested = tmp_path / "trips" / TIMELINE_DIR / f"{instant}.clustering.requested"
    other = replace(decode_clustering_plan(requested.read_bytes()), execution="com.example.SparkBuckets")
    requested.write_bytes(encode_clustering_plan(other, mine.path))
    before = rows(mine)
    with pytest.raises(pudi.NotSupportedError, match=r"com\.example\.SparkBuckets"):
        mine.run_pending()
    assert_same(rows(mine), before, about="refused")
    assert [each.state for each in pudi.Table(mine.path).timeline.pending] == [State.REQUESTED]


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_damaged_plan_is_named_and_changes_nothing(tmp_path: Path, kind: str) -> None:
    mine = made(tmp_path / "trips", Layout(kind=kind))
    mine.insert(table([trip(number, 1) for number in range(9)]))
    instant = mine.schedule("clustering", options={f"{PREFIX}sort.columns": "fare"})
    requested = tmp_path / "trips" / TIMELINE_DIR / f"{instant}.clustering.requested"
    whole, before = requested.read_bytes(), rows(mine)
    for damaged in (whole[: len(whole) // 2], b"Obj"):
        requested.write_bytes(damaged)
        with pytest.raises(pudi.CorruptError):
            mine.run_pending()
        with pytest.raises(pudi.PudiError):
            mine.upsert(table([trip(0, 2)]))
        assert_same(rows(mine), before, about="with a damaged plan")
    requested.write_bytes(whole)
    assert len(mine.run_pending()) == 1
    assert_same(rows(mine), before, about="run")


def test_the_command_line(tmp_path: Path) -> None:
    mine = made(tmp_path / "trips", Layout())
    for first in (0, 1):
        mine.insert(table([trip(number, 1) for number in range(first, 30, 2)]))
    ran = CliRunner().invoke(app, ["cluster", mine.path, "--order-by", "fare", "--order-by", "ts", "--layout", "zorder",
                                   "--partition", "nyc"])  # fmt: skip
    assert ran.exit_code == 0, ran.output
    assert "CLUSTER" in ran.output
    assert sorted(each.partition for each in mine.file_slices()).count("nyc") == 1
    assert len(files(mine)) == 5
    ran = CliRunner().invoke(app, ["cluster", mine.path, "--partition", "nyc"])
    assert "nothing to cluster" in ran.output


def test_what_cannot_be_clustered_is_refused_by_name(tmp_path: Path) -> None:
    mine = made(tmp_path / "trips", Layout())
    mine.insert(table([trip(0, 1)]))
    with pytest.raises(pudi.SchemaError, match="no column 'none'"):
        mine.cluster(order_by="none")
    with pytest.raises(pudi.InvalidArgumentError, match="LINEAR"):
        mine.cluster(order_by="fare", layout="spiral")
    run = "org.apache.hudi.client.clustering.run.strategy.SparkConsistentBucketClusteringExecutionStrategy"
    with pytest.raises(pudi.InvalidArgumentError, match="SparkConsistentBucket"):  # for tables with consistent hashing
        mine.cluster(options={"hoodie.clustering.execution.strategy.class": run})
    with pytest.raises(pudi.NotSupportedError, match="never loaded by name"):
        mine.cluster(options={f"{PREFIX}class": "com.example.Mine"})
    pudi.create(tmp_path / "buckets", SCHEMA, record_key="uuid", options={
        "hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"})  # fmt: skip
    buckets = pudi.Table(tmp_path / "buckets", {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"})
    buckets.insert(table([trip(0, 1)]))
    with pytest.raises(pudi.NotSupportedError, match="fixed number of buckets"):
        buckets.cluster(order_by="fare")
    assert [each.action for each in mine.timeline.pending] == []
