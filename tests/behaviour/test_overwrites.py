"""Overwrites and deletes of partitions on both engines, against the dict model."""

from __future__ import annotations

from pathlib import Path

import pytest

import pudi
from pudi.client import MetaClient
from pudi.format import Action, State, decode_commit_metadata, decode_requested_replace_metadata
from support.disk import tree
from support.engines import Engine, per_engine
from support.layouts import FEW, Layout
from support.pair import NINE, Pair
from support.pudi_table import PudiTable
from support.rows import PLACE_FIELDS, assert_same, from_arrow
from support.trips import REPLACING, SCHEMA, steps, table, trip

pytestmark = pytest.mark.metadata_by_default


@pytest.fixture
def pair(engine: Engine, tmp_path: Path) -> Pair:
    return Pair(engine, tmp_path / "trips", Layout())


@pytest.fixture
def any_pair(engine: Engine, tmp_path: Path, layout: Layout) -> Pair:
    return Pair(engine, tmp_path / "trips", layout)


in_layouts = pytest.mark.parametrize(("engine", "layout"), per_engine(FEW, FEW[1:2]), indirect=["engine"], ids=str)


@in_layouts
def test_overwrite_replaces_the_partitions_touched(any_pair: Pair) -> None:
    any_pair.write("bulk_insert", NINE)
    any_pair.write("insert_overwrite", [trip(100, 1), trip(3, 1, "older, and stays")])
    any_pair.check()
    any_pair.write("upsert", [trip(3, 20, "newer"), trip(4, 20), trip(101, 20)])
    any_pair.check()


@in_layouts
def test_overwrite_of_the_table(any_pair: Pair) -> None:
    any_pair.write("bulk_insert", NINE)
    any_pair.write("insert_overwrite_table", [trip(100, 1)])
    assert len(any_pair.check()) == 1
    any_pair.write("insert", NINE)
    any_pair.check()


@in_layouts
def test_time_travel_sees_what_was_replaced(any_pair: Pair) -> None:
    before = any_pair.write("bulk_insert", NINE)
    middle = any_pair.write("insert_overwrite", [trip(0, 20), trip(1, 20)])
    any_pair.write("insert_overwrite_table", [trip(5, 30)])
    any_pair.write("upsert", [trip(6, 40)])
    for instant in (before, middle):
        assert_same(any_pair.pudi.as_of(instant), any_pair.model.as_of(instant), PLACE_FIELDS, "as of")
    since = any_pair.model.commits[0].completion
    assert_same(any_pair.pudi.changes(since), any_pair.model.changes(since), PLACE_FIELDS, "changes")


def test_delete_partitions(pair: Pair) -> None:
    pair.write("bulk_insert", NINE)
    pair.write("delete_partitions", [trip(0, 0, city="nyc")])
    pair.check()
    assert pair.pudi.table.partitions() == ["chennai", "sao_paulo"]
    pair.write("upsert", [trip(0, 1, "back")])
    pair.check()


def test_delete_partitions_by_predicate(pair: Pair) -> None:
    pair.write("insert", [*NINE, trip(20, 10) | {"city": None}])
    result = pair.pudi.table.delete_partitions(where="city LIKE 's%' OR city IS NULL")
    assert result is not None
    assert result.files_replaced == 2
    assert {row["city"] for row in pair.pudi.snapshot()} == {"nyc", "chennai"}


def test_delete_partitions_by_a_predicate_over_no_column(pair: Pair) -> None:
    pair.write("bulk_insert", NINE)
    assert pair.pudi.table.delete_partitions(where="1 > 2") is None
    assert pair.pudi.table.delete_partitions(where="1 < 2") is not None
    assert pair.pudi.snapshot() == []


def test_a_predicate_must_hold_for_all_of_a_partition(engine: Engine, tmp_path: Path) -> None:
    """Two texts of a column that can't be null share the folder of null."""
    city = SCHEMA.get_field_index("city")
    schema = SCHEMA.set(city, SCHEMA.field(city).with_nullable(False))
    written = PudiTable.create(engine, tmp_path / "trips", schema, Layout())
    rows = [*NINE, trip(20, 10, city="__HIVE_DEFAULT_PARTITION__"), trip(21, 10, city="")]
    written.write("bulk_insert", table(rows).cast(schema))
    before = written.snapshot()
    with pytest.raises(pudi.NotSupportedError, match="some records of partition"):
        written.table.delete_partitions(where="city = ''")
    assert written.snapshot() == before


def test_nothing_to_delete(pair: Pair) -> None:
    pair.write("bulk_insert", NINE)
    before = tree(pair.pudi.path)
    assert pair.pudi.table.delete_partitions(["oslo"]) is None
    assert pair.pudi.table.delete_partitions(where="city = 'oslo'") is None
    assert pair.pudi.table.insert_overwrite(pair.pudi.engine.frame(table([]))) is None
    assert tree(pair.pudi.path) == before


def test_overwriting_a_table_with_nothing_empties_it(pair: Pair) -> None:
    pair.write("bulk_insert", NINE)
    pair.write("insert_overwrite_table", [])
    assert pair.check() == []
    pair.write("upsert", NINE[:2])
    pair.check()


def test_static_overwrite(pair: Pair) -> None:
    pair.write("bulk_insert", NINE)
    frame = pair.pudi.engine.frame(table([trip(100, 1, city="nyc")]))
    with pytest.raises(pudi.InvalidArgumentError, match="nyc"):
        pair.pudi.table.insert_overwrite(frame, partitions=["chennai"])
    pair.check()
    assert pair.pudi.table.insert_overwrite(frame, partitions=["nyc", "chennai"]) is not None
    assert {row["uuid"] for row in pair.pudi.snapshot()} == {"k0001", "k0004", "k0007", "k0100"}
    options = {"hoodie.static.overwrite.partition.paths": "nyc,sao_paulo"}
    assert pair.pudi.table.insert_overwrite(frame, options=options) is not None
    assert {row["uuid"] for row in pair.pudi.snapshot()} == {"k0100"}


def test_static_mode_without_partitions_is_the_whole_table(pair: Pair) -> None:
    pair.write("bulk_insert", NINE)
    frame = pair.pudi.engine.frame(table([trip(100, 1, city="nyc")]))
    result = pair.pudi.table.insert_overwrite(frame, options={"hoodie.datasource.overwrite.mode": "static"})
    assert result is not None
    assert result.operation == "INSERT_OVERWRITE_TABLE"
    assert len(pair.pudi.snapshot()) == 1


def test_copies_in_an_overwrite(pair: Pair) -> None:
    twice = table([trip(0, 10, "older"), trip(0, 20, "newer"), trip(0, 15, "last")])
    pair.write("insert_overwrite", twice)
    assert len(pair.check()) == 3
    pair.pudi.table.insert_overwrite(pair.pudi.engine.frame(twice), options={"hoodie.combine.before.insert": "true"})
    assert [row["rider"] for row in pair.pudi.snapshot()] == ["newer"]


def test_the_timeline_says_what_hudi_says(pair: Pair) -> None:
    pair.write("insert", NINE)
    instants = [
        pair.write("insert_overwrite", [trip(0, 20), trip(3, 20)]),
        pair.write("delete_partitions", [trip(1, 0)]),
        pair.write("insert_overwrite_table", [trip(1, 20)]),
    ]
    store = MetaClient.open(str(pair.pudi.path), None, {}).store
    replaced = store.load().of(Action.REPLACECOMMIT)
    assert [i.requested for i in replaced] == instants
    overwritten, deleted, whole = replaced
    done = store.read_commit_metadata(overwritten)
    assert done.operation_type == "INSERT_OVERWRITE"
    assert {p: len(ids) for p, ids in (done.partition_to_replace_file_ids or {}).items()} == {"nyc": 1}
    inflight = decode_commit_metadata(store.read(overwritten, State.INFLIGHT))
    assert {p: [s.num_inserts for s in stats] for p, stats in inflight.partition_to_write_stats.items()} == {"nyc": [2]}
    plan = decode_requested_replace_metadata(store.read(deleted, State.REQUESTED))
    assert (plan.operation_type, plan.version) == ("DELETE_PARTITION", 1)
    assert store.read_commit_metadata(deleted).partition_to_write_stats == {}
    assert store.read_commit_metadata(whole).operation_type == "INSERT_OVERWRITE_TABLE"
    assert set(store.read_commit_metadata(whole).partition_to_replace_file_ids or {}) == {"nyc", "chennai", "sao_paulo"}


def test_refused(pair: Pair, tmp_path: Path) -> None:
    table_ = pair.pudi.table
    for arguments, why in (
        ({}, "either partition paths or where"),
        ({"partitions": ["nyc"], "where": "city = 'nyc'"}, "either partition paths or where"),
        ({"partitions": "nyc"}, "partitions is one text"),
        ({"partitions": ["../other"]}, "can't be a folder of the table"),
        ({"partitions": [".hoodie"]}, "can't be a folder of the table"),
        ({"partitions": [""]}, "can't be a folder of the table"),
    ):
        with pytest.raises(pudi.InvalidArgumentError, match=why):
            table_.delete_partitions(**arguments)
    with pytest.raises(
        pudi.InvalidArgumentError,
        match="'ts' is no partition column: the table is partitioned by city; to delete single records",
    ):
        table_.delete_partitions(where="ts > 1")
    flat = pudi.create(tmp_path / "flat", SCHEMA, record_key="uuid")
    with pytest.raises(pudi.InvalidArgumentError, match="partitioned"):
        flat.delete_partitions(["nyc"])


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("engine", "seed"), per_engine(range(8), range(1)), indirect=["engine"])
def test_random_sequences_with_overwrites(engine: Engine, tmp_path: Path, seed: int) -> None:
    layout = FEW[seed % 2]
    pair = Pair(engine, tmp_path / "trips", layout)
    for step in steps(seed, 8, ("insert", "upsert", "delete", *REPLACING)):
        if pair.model.is_idle(step.verb, from_arrow(step.data)):
            continue
        pair.write(step.verb, step.data)
        pair.check(f"after {step.verb}")
    for commit in pair.model.commits:
        assert_same(pair.pudi.as_of(commit.instant), pair.model.as_of(commit.instant), PLACE_FIELDS, "as of")
        assert_same(
            pair.pudi.changes(commit.completion), pair.model.changes(commit.completion), PLACE_FIELDS, "changes"
        )
