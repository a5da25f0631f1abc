"""Writes to merge-on-read tables on both engines, against the model: by version, block format, index and layout."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.client import MetaClient
from pudi.format.log_block import BlockKind, Header, decode_blocks
from support.engines import Engine, LocalEngine, per_engine
from support.layouts import Layout
from support.pudi_table import PudiTable
from support.rows import PLACE_FIELDS, assert_same, from_arrow
from support.trips import SCHEMA, steps, table, trip

pytestmark = pytest.mark.metadata_by_default

NO_FILLING = {"hoodie.parquet.small.file.limit": "0"}
AVRO = {"hoodie.logfile.data.block.format": "avro"}
BUCKET = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "4"}
BLOOM = {"hoodie.index.type": "BLOOM", "hoodie.index.bloom.num_entries": "1000"}


def mor(key: str, folders: str, merging: str, version: int = 9) -> Layout:
    return Layout(key, folders, merging, version, "mor")


LOCAL = [
    (NO_FILLING, mor("simple", "plain", "event")),
    (NO_FILLING | AVRO, mor("complex", "hive", "commit", 6)),
    ({}, mor("complex", "flat", "commit", 8)),
    (NO_FILLING | BLOOM, mor("simple", "hive", "event", 6)),
    (BUCKET, mor("simple", "plain", "event")),
    (BUCKET | AVRO, mor("complex", "hive", "commit", 6)),
    (BUCKET | {"hoodie.bucket.index.hash.field": "leg"}, mor("complex", "flat", "event", 8)),
]
SPARK = [LOCAL[0], LOCAL[5]]
SPREAD = [LOCAL[1], LOCAL[4]]


def logs(path: Path) -> list[Path]:
    return sorted(file for file in path.rglob(".*.log.*") if ".hoodie" not in file.relative_to(path).parts)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("engine", "options", "layout"), per_engine(LOCAL, SPARK, SPREAD), indirect=["engine"])
def test_random_writes(engine: Engine, tmp_path: Path, options: dict[str, str], layout: Layout) -> None:
    model = layout.model(logs_first="BUCKET" in options.values())
    trips = PudiTable.create(engine, tmp_path / "trips", SCHEMA, layout)
    trips.options = options
    verbs = ("insert", "upsert", "upsert", "delete")
    for number, step in enumerate(steps(41, 10 if engine.name == "local" else 6, verbs)):
        getattr(model, step.verb)(from_arrow(step.data), *trips.write(step.verb, step.data))
        assert_same(trips.snapshot(), model.snapshot(), PLACE_FIELDS, f"{number}: {step.verb}")
    assert logs(trips.path)
    for commit in model.commits[1 :: 3 if engine.name == "local" else 5]:
        assert_same(trips.as_of(commit.instant), model.as_of(commit.instant), PLACE_FIELDS, "as of")
        if layout.merging == "commit":  # incremental reads bring late events too
            changed = trips.changes(commit.completion)
            assert_same(changed, model.changes(commit.completion), PLACE_FIELDS, "changes")
    if "BUCKET" in options.values():
        trips.options = {}  # the files say what the index is
        data = table([trip(2, 99_999, "by files alone")])
        model.upsert(from_arrow(data), *trips.write("upsert", data))
        assert_same(trips.snapshot(), model.snapshot(), PLACE_FIELDS)


@pytest.mark.parametrize("version", [6, 9])
def test_what_goes_where(tmp_path: Path, version: int) -> None:
    """Updates and deletes to log files; inserts to the one small base file without log files, else to new ones."""
    trips = PudiTable.create(LocalEngine(), tmp_path / "t", SCHEMA, mor("simple", "flat", "event", version))
    trips.write("insert", table(trip(n, 10) for n in range(4)))
    trips.write("upsert", table(trip(n, 20) for n in range(2, 6)))  # fills the file, its updates go along
    assert [len(s.logs) for s in trips.table.file_slices()] == [0]
    trips.write("upsert", table([trip(0, 30)]))
    assert [len(s.logs) for s in trips.table.file_slices()] == [1]
    trips.write("upsert", table([trip(1, 30), trip(7, 30)]))
    assert sorted(len(s.logs) for s in trips.table.file_slices()) == [0, 2]
    trips.write("delete", table([trip(2, 0)]))
    slices = trips.table.file_slices()
    assert sorted(len(s.logs) for s in slices) == [0, 3]
    names = [log.name for s in slices for log in s.logs]
    if version == 6:
        assert len({name.instant for name in names}) == 1
        assert [name.version for name in names] == [1, 2, 3]
    else:
        assert len({name.instant for name in names}) == 3
        assert {name.version for name in names} == {1}


def test_marked_deletes_keep_their_ordering_values(tmp_path: Path) -> None:
    schema = SCHEMA.append(pa.field("_hoodie_is_deleted", pa.bool_()))
    made = pudi.create(tmp_path / "t", schema, record_key="uuid", ordering="ts", table_type="mor")

    def rows(*marked: tuple[int, int, bool]) -> Any:
        found = [trip(number, ts) | {"_hoodie_is_deleted": gone} for number, ts, gone in marked]
        return pa.Table.from_pylist(found, schema=schema)

    made.insert(rows(*((n, 10, False) for n in range(4))))
    result = made.upsert(rows((0, 20, True), (1, 5, True), (2, 10, True)))
    assert result is not None
    assert {row["uuid"] for row in made.scan().to_arrow().to_pylist()} == {"k0001", "k0003"}
    made.upsert(rows((0, 15, False), (2, 10, False)))  # older than its delete; as old, and later
    assert {row["uuid"] for row in made.scan().to_arrow().to_pylist()} == {"k0001", "k0002", "k0003"}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.spark)], indirect=True)
@pytest.mark.parametrize("version", [6, 9])
def test_rows_are_changed_by_predicate(engine: Engine, tmp_path: Path, version: int) -> None:
    layout = mor("complex", "plain", "commit", version)
    trips, model = PudiTable.create(engine, tmp_path / "t", SCHEMA, layout), layout.model()
    on = {"spark": engine.spark} if engine.name == "spark" else {}  # type: ignore[attr-defined]
    for verb, data in (("insert", [trip(n, 10) for n in range(9)]), ("upsert", [trip(n, 20, "bob") for n in range(4)])):
        getattr(model, verb)(from_arrow(table(data)), *trips.write(verb, table(data)))
    result: Any = trips.table.update({"fare": "fare + 100"}, "rider = 'bob' OR uuid = 'k0007'", **on)
    assert (result.records_updated, result.records_inserted) == (5, 0)
    model.change(
        result.instant,
        result.completion_time,
        lambda r: r | {"fare": r["fare"] + 100} if r["rider"] == "bob" or r["uuid"] == "k0007" else r,
    )
    assert_same(trips.snapshot(), model.snapshot(), PLACE_FIELDS)
    result = trips.table.delete(where="fare > 100 AND city = 'nyc'", **on)
    model.change(
        result.instant,
        result.completion_time,
        lambda r: None if r["fare"] > 100 and r["city"] == "nyc" else r,
    )
    assert_same(trips.snapshot(), model.snapshot(), PLACE_FIELDS)
    source = engine.frame(table([trip(1, 40, "merged"), trip(50, 40, "merged"), trip(5, 40, "gone")]))
    merge = trips.table.merge(source).when_matched_delete("source.rider = 'gone'").when_matched_update()
    merge.when_not_matched_insert().execute()
    riders = {row["uuid"]: row["rider"] for row in trips.snapshot()}
    assert (riders["k0001"], riders["k0050"]) == ("merged", "merged")
    assert "k0005" not in riders


@pytest.mark.sampled(3)
@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.spark)], indirect=True)
@pytest.mark.parametrize("version", [6, 9])
def test_file_groups_are_replaced(engine: Engine, tmp_path: Path, version: int) -> None:
    layout = mor("simple", "plain", "commit", version)
    trips, model = PudiTable.create(engine, tmp_path / "t", SCHEMA, layout), layout.model()
    writes: list[tuple[str, list[dict[str, Any]]]] = [
        ("bulk_insert", [trip(n, 10) for n in range(9)]),
        ("upsert", [trip(n, 20, "bob") for n in range(5)]),
        ("insert_overwrite", [trip(0, 30, "over"), trip(3, 30, "over")]),
        ("upsert", [trip(0, 40, "on"), trip(4, 40, "on")]),
        ("delete_partitions", [trip(1, 0)]),
        ("insert_overwrite_table", [trip(n, 50) for n in range(3)]),
        ("upsert", [trip(1, 60, "last")]),
    ]
    for verb, data in writes:
        getattr(model, verb)(from_arrow(table(data)), *trips.write(verb, table(data)))
        assert_same(trips.snapshot(), model.snapshot(), PLACE_FIELDS, verb)
    if version == 9:
        actions = {i.action.value for i in MetaClient.open(str(trips.path), None, {}).store.load().commits}
        assert actions == {"deltacommit", "replacecommit"}


def test_log_files_roll_over_and_blocks_are_split(tmp_path: Path) -> None:
    layout = mor("simple", "flat", "commit")
    trips = PudiTable.create(LocalEngine(), tmp_path / "t", SCHEMA, layout)
    trips.write("insert", table(trip(n, 10) for n in range(500)))
    trips.options = {"hoodie.logfile.max.size": "15000", "hoodie.logfile.data.block.max.size": "4000"}
    trips.write("upsert", table(trip(n, 20, "bob") for n in range(500)))
    files = logs(trips.path)
    assert len(files) > 1
    blocks = [block for file in files for block in decode_blocks(file.read_bytes())]
    assert len(blocks) > len(files)
    assert {block.kind for block in blocks} == {BlockKind.PARQUET}
    assert {block.headers[Header.INSTANT_TIME] for block in blocks} == {trips.table.file_slices()[0].logs[0].instant}
    assert {row["rider"] for row in trips.snapshot()} == {"bob"}


def test_a_moving_record_leaves_its_old_partition(tmp_path: Path) -> None:
    trips = PudiTable.create(LocalEngine(), tmp_path / "t", SCHEMA, mor("simple", "plain", "event"))
    trips.options = {"hoodie.index.type": "GLOBAL_SIMPLE"} | NO_FILLING
    trips.write("insert", table([trip(n, 10, city="nyc") for n in range(4)]))
    trips.write("upsert", table([trip(1, 50, "stays", "nyc")]))
    moved = [trip(0, 20, "moved", "sf"), trip(1, 20, "late", "sf"), trip(2, 20, "moved", "sf")]
    trips.write("upsert", table(moved))
    found = sorted((row["uuid"], row["city"], row["rider"]) for row in trips.snapshot())
    assert found == [
        ("k0000", "sf", "moved"), ("k0001", "nyc", "stays"), ("k0002", "sf", "moved"), ("k0003", "nyc", "ann"),
    ]  # fmt: skip


@pytest.mark.parametrize("version", [6, 9])
def test_commits_describe_appends_as_hudi_does(tmp_path: Path, version: int) -> None:
    trips = PudiTable.create(LocalEngine(), tmp_path / "t", SCHEMA, mor("simple", "flat", "event", version))
    first, _ = trips.write("insert", table(trip(n, 10) for n in range(4)))
    trips.write("upsert", table([trip(0, 30)]))
    instant, _ = trips.write("upsert", table([trip(1, 30), trip(2, 30)]))
    (file_slice,) = trips.table.file_slices()
    assert file_slice.base is not None
    meta = MetaClient.open(str(trips.path), None, {})
    commit = meta.store.load().commit(instant)
    assert commit is not None
    ((stat,),) = meta.store.read_commit_metadata(commit).partition_to_write_stats.values()
    names = tuple(log.name.name for log in file_slice.logs)
    assert (stat.path, stat.num_writes, stat.num_update_writes, stat.num_inserts) == (names[-1], 2, 2, 0)
    assert stat.total_write_bytes == stat.file_size_in_bytes == (trips.path / names[-1]).stat().st_size
    if version == 6:
        assert (stat.prev_commit, stat.base_file) == (first, file_slice.base.name.name)
        assert (stat.log_version, stat.log_files) == (2, names)
    else:
        assert (stat.prev_commit, stat.base_file) == (instant, "")
        assert (stat.log_version, stat.log_files) == (1, names[-1:])
    assert {row["_hoodie_file_name"] for row in trips.snapshot()} == {file_slice.base.name.name, file_slice.file_id}


def test_columns_are_added_and_renamed(tmp_path: Path) -> None:
    """Base files, log blocks of before and of after the change, each by its own schema."""
    trips = PudiTable.create(LocalEngine(), tmp_path / "t", SCHEMA, mor("simple", "flat", "event"))
    trips.write("insert", table(trip(n, 10) for n in range(4)))
    trips.write("upsert", table([trip(0, 20, "bob")]))
    wider = table([trip(1, 20, "cy")]).append_column("tip", pa.array([1.5]))
    trips.write("upsert", wider)
    found = {row["uuid"]: (row["rider"], row["tip"]) for row in trips.snapshot()}
    assert found == {"k0000": ("bob", None), "k0001": ("cy", 1.5), "k0002": ("ann", None), "k0003": ("ann", None)}
    trips.table.rename_column("rider", "driver")
    trips.table.update({"driver": "'dee'"}, "driver = 'cy' OR uuid = 'k0003'")
    found = {row["uuid"]: (row["driver"], row["tip"]) for row in trips.snapshot()}
    assert found == {"k0000": ("bob", None), "k0001": ("dee", 1.5), "k0002": ("ann", None), "k0003": ("dee", None)}
    trips.table.delete(where="driver = 'bob'")
    assert {row["uuid"] for row in trips.snapshot()} == {"k0001", "k0002", "k0003"}


def test_duplicates_are_not_looked_for_beside_log_files(tmp_path: Path) -> None:
    trips = PudiTable.create(LocalEngine(), tmp_path / "t", SCHEMA, mor("simple", "flat", "event"))
    trips.write("insert", table(trip(n, 10) for n in range(4)))
    options = {"hoodie.datasource.insert.dup.policy": "drop"}
    trips.table.insert(table([trip(0, 20), trip(4, 20)]), options=options)
    assert len(trips.snapshot()) == 5
    trips.write("delete", table([trip(0, 0)]))
    with pytest.raises(pudi.NotSupportedError, match="compact"):
        trips.table.insert(table([trip(0, 30)]), options=options)


@pytest.mark.parametrize("blocks", ["avro", "parquet"])
def test_values_of_every_type_come_back_from_log_files(tmp_path: Path, blocks: str) -> None:
    moment = dt.datetime(2024, 2, 29, 12, 30, 1, 7)
    values: dict[str, tuple[pa.DataType, Any]] = {
        "small": (pa.int32(), -(2**31)), "big": (pa.int64(), 2**63 - 1), "flag": (pa.bool_(), True),
        "thin": (pa.float32(), 1.5), "wide": (pa.float64(), -0.1), "text": (pa.string(), "é\0x"),
        "raw": (pa.binary(), b"\xff\0"), "day": (pa.date32(), dt.date(1850, 1, 1)),
        "at": (pa.timestamp("us", "UTC"), moment.replace(tzinfo=dt.timezone.utc)),
        "local": (pa.timestamp("us"), moment),
        "price": (pa.decimal128(20, 3), Decimal("-12345678901234567.891")),
        "many": (pa.list_(pa.string()), ["a", None, ""]), "named": (pa.map_(pa.string(), pa.int64()), [("k", 1)]),
        "inner": (pa.struct([("x", pa.int32()), ("y", pa.list_(pa.int32()))]), {"x": None, "y": [1]}),
    }  # fmt: skip
    schema = pa.schema([("key", pa.string()), *((name, kind) for name, (kind, _) in values.items())])
    filled = {name: value for name, (_, value) in values.items()}
    made = pudi.create(tmp_path / "t", schema, record_key="key", table_type="mor")
    made.insert(pa.Table.from_pylist([{"key": key} for key in "abc"], schema=schema))
    data = pa.Table.from_pylist([{"key": "a", **filled}, {"key": "b"}, {"key": "c", **filled}], schema=schema)
    result = made.upsert(data, options={"hoodie.logfile.data.block.format": blocks})
    assert result is not None
    assert result.records_updated == 3
    found = made.scan(columns=schema.names).to_arrow()
    assert found.sort_by("key").to_pylist() == data.to_pylist()
