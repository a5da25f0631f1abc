"""Each verb on both engines, against the dict model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pudi
from support.disk import tree
from support.engines import Engine, per_engine
from support.layouts import FEW, MERGED, Layout
from support.pair import Pair
from support.rows import META_FIELDS, PLACE_FIELDS, assert_same, from_arrow
from support.trips import SCHEMA, steps, table, trip

pytestmark = pytest.mark.metadata_by_default


@pytest.fixture
def pair(engine: Engine, tmp_path: Path) -> Pair:
    return Pair(engine, tmp_path / "trips", Layout())


@pytest.fixture
def any_pair(engine: Engine, tmp_path: Path, layout: Layout) -> Pair:
    return Pair(engine, tmp_path / "trips", layout)


in_layouts = pytest.mark.parametrize(
    ("engine", "layout"), per_engine([*FEW, *MERGED], FEW[1:2]), indirect=["engine"], ids=str
)


def test_a_new_table_is_empty_and_has_its_schema(pair: Pair) -> None:
    scan = pair.pudi.table.scan()
    assert pair.pudi.engine.read(scan) == []
    assert pair.pudi.engine.columns(scan) == [*META_FIELDS, *SCHEMA.names]
    assert pair.pudi.engine.read(pair.pudi.table.changes()) == []


@in_layouts
def test_bulk_insert_keeps_every_row(any_pair: Pair) -> None:
    any_pair.write("bulk_insert", [trip(1, 10), trip(2, 10), trip(1, 20), trip(1, 20)])
    any_pair.check()


@in_layouts
def test_insert_adds_keys_that_are_there(any_pair: Pair) -> None:
    any_pair.write("bulk_insert", [trip(1, 10), trip(2, 10)])
    any_pair.write("insert", [trip(1, 10, "again"), trip(3, 10)])
    any_pair.check()


@in_layouts
def test_upsert_into_an_empty_table_inserts(any_pair: Pair) -> None:
    any_pair.write("upsert", [trip(number, 10) for number in range(9)])
    any_pair.check()


@in_layouts
def test_upsert_updates_and_inserts(any_pair: Pair) -> None:
    any_pair.write("bulk_insert", [trip(number, 10) for number in range(20)])
    any_pair.write("upsert", [trip(number, 20, "new") for number in range(15, 25)])
    rows = any_pair.check()
    assert sum(row["rider"] == "new" for row in rows) == 10


@in_layouts
def test_upsert_takes_the_best_of_a_batch(any_pair: Pair) -> None:
    any_pair.write("bulk_insert", [trip(1, 10), trip(2, 10)])
    any_pair.write("upsert", [trip(1, 30, "first"), trip(1, 20, "last"), trip(3, 5, "a"), trip(3, 5, "tie: the last")])
    any_pair.check()


@in_layouts
def test_late_events_lose_and_ties_go_to_the_newer(any_pair: Pair) -> None:
    any_pair.write("upsert", [trip(1, 10), trip(2, 10), trip(4, 10)])
    any_pair.write("upsert", [trip(1, 9, "late"), trip(2, 10, "tie"), trip(4, 11, "newer")])
    any_pair.check()


def test_an_upsert_of_late_events_only_changes_no_row(pair: Pair) -> None:
    pair.write("upsert", [trip(1, 10), trip(2, 10)])
    pair.write("upsert", [trip(1, 9, "late"), trip(2, 1, "late")])
    rows = pair.check()
    assert {row["_hoodie_commit_time"] for row in rows} == {pair.model.commits[0].instant}


def test_upsert_and_delete_reach_every_copy_of_a_key(pair: Pair) -> None:
    pair.write("bulk_insert", [trip(1, 10), trip(1, 20), trip(2, 10)])
    pair.write("insert", [trip(1, 30), trip(2, 5), trip(2, 5)])
    pair.write("upsert", [trip(1, 40, "newer than all")])
    assert {row["rider"] for row in pair.pudi.snapshot() if row["uuid"] == "k0001"} == {"newer than all"}
    result = pair.pudi.write("delete", table([trip(2, 0)]))
    assert {row["uuid"] for row in pair.pudi.as_of(result[0])} == {"k0001"}


def test_a_null_ordering_value_is_older_than_any(pair: Pair) -> None:
    """Hudi 1.2 takes it in, then fails when it compares it."""
    pair.write("bulk_insert", [trip(1, 10), trip(2, None), trip(3, None)])
    pair.write("upsert", [trip(1, None, "late"), trip(2, 1, "newer"), trip(3, None, "tie"), trip(4, None, "new")])
    rows = {row["uuid"]: row["rider"] for row in pair.check()}
    assert rows == {"k0001": "ann", "k0002": "newer", "k0003": "tie", "k0004": "new"}


@in_layouts
def test_delete_by_key(any_pair: Pair) -> None:
    any_pair.write("bulk_insert", [trip(number, 10) for number in range(12)])
    any_pair.write("delete", [trip(1, 0), trip(5, 99), trip(1, 0), trip(500, 0)])
    any_pair.check()
    any_pair.write("upsert", [trip(1, 1, "back, though older")])
    any_pair.check()


def test_delete_needs_only_keys_and_partition(pair: Pair) -> None:
    pair.write("bulk_insert", [trip(number, 10) for number in range(6)])
    data = table([trip(2, 0), trip(3, 0)])
    pair.model.delete(from_arrow(data), *pair.pudi.write("delete", data.select(["city", "uuid"])))
    pair.check()


@in_layouts
def test_delete_of_everything_leaves_an_empty_table(any_pair: Pair) -> None:
    data = [trip(number, 10) for number in range(6)]
    any_pair.write("bulk_insert", data)
    any_pair.write("delete", data)
    assert any_pair.check() == []
    any_pair.write("insert", data[:2])
    any_pair.check()


def test_delete_of_unknown_keys_is_no_error(pair: Pair) -> None:
    pair.write("bulk_insert", [trip(1, 10)])
    pair.pudi.table.delete(pair.pudi.engine.frame(table([trip(2, 0), trip(3, 0)])))
    pair.check()


@pytest.mark.parametrize(
    ("engine", "verb"),
    per_engine(["bulk_insert", "insert", "upsert", "delete"], ["bulk_insert", "upsert"]),
    indirect=["engine"],
)
def test_no_rows_no_commit(pair: Pair, verb: str) -> None:
    pair.write("bulk_insert", [trip(1, 10)])
    before = tree(pair.pudi.path)
    assert getattr(pair.pudi.table, verb)(pair.pudi.engine.frame(table([]))) is None
    assert tree(pair.pudi.path) == before


@in_layouts
def test_nulls_in_columns_come_back(any_pair: Pair) -> None:
    empty = {"rider": None, "fare": None}
    any_pair.write("bulk_insert", [trip(1, 10) | empty, trip(2, 10)])
    any_pair.write("upsert", [trip(2, 20) | empty, trip(3, 20) | empty])
    any_pair.check()


def test_null_and_nested_partitions(pair: Pair) -> None:
    pair.write("bulk_insert", [trip(1, 10) | {"city": None}, trip(2, 10, city="a/b"), trip(3, 10, city="a")])
    pair.write("upsert", [trip(1, 20, "new") | {"city": None}, trip(2, 20, "new", city="a/b")])
    pair.check()
    pair.write("delete", [trip(1, 0) | {"city": None}, trip(3, 0, city="a")])
    pair.check()


def test_a_key_in_another_partition_is_another_record(pair: Pair) -> None:
    pair.write("bulk_insert", [trip(1, 10, city="nyc")])
    pair.write("upsert", [trip(1, 20, city="chennai")])
    assert len(pair.check()) == 2
    pair.write("delete", [trip(1, 0, city="nyc")])
    assert [row["city"] for row in pair.check()] == ["chennai"]


def test_columns_of_the_input_may_come_in_any_order(pair: Pair) -> None:
    data = table([trip(1, 10), trip(2, 10)])
    pair.model.insert(from_arrow(data), *pair.pudi.write("insert", data.select(SCHEMA.names[::-1])))
    pair.check()


def test_results_count_what_was_done(pair: Pair) -> None:
    def counts(verb: str, numbers: range, ts: int) -> tuple[int, int, int]:
        result: Any = getattr(pair.pudi.table, verb)(pair.pudi.engine.frame(table(trip(n, ts) for n in numbers)))
        assert result.operation.lower() == verb
        assert result.instant < result.completion_time
        assert (result.files_written > 0) == (result.bytes_written > 0)
        return result.records_inserted, result.records_updated, result.records_deleted

    assert counts("bulk_insert", range(10), 10) == (10, 0, 0)
    assert counts("upsert", range(7, 12), 20) == (2, 3, 0)
    assert counts("delete", range(10, 14), 0) == (0, 0, 2)
    assert counts("insert", range(20, 23), 10) == (3, 0, 0)


@pytest.mark.parametrize(("engine", "layout"), per_engine(FEW, FEW[1:2]), indirect=["engine"], ids=str)
def test_meta_fields_say_where_a_row_is(any_pair: Pair) -> None:
    any_pair.write("bulk_insert", [trip(number, 10) for number in range(9)])
    any_pair.write("upsert", [trip(number, 20) for number in range(3)])
    rows = any_pair.check()
    for row in rows:
        file = any_pair.pudi.path / row["_hoodie_partition_path"] / row["_hoodie_file_name"]
        assert file.is_file()
        assert row["_hoodie_commit_seqno"].startswith(row["_hoodie_commit_time"] + "_")
    assert len({row["_hoodie_commit_seqno"] for row in rows}) == len(rows)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("engine", "seed"), per_engine(range(8), range(1), range(3, 4)), indirect=["engine"])
def test_random_sequences(engine: Engine, tmp_path: Path, seed: int) -> None:
    pair = Pair(engine, tmp_path / "trips", FEW[seed % len(FEW)])
    for step in steps(seed, count=6):
        pair.write(step.verb, step.data)
        pair.check(f"after {step.verb}")
    model = pair.model
    for commit in model.commits:
        assert_same(pair.pudi.as_of(commit.instant), model.as_of(commit.instant), PLACE_FIELDS, "as of")
        assert_same(pair.pudi.changes(commit.completion), model.changes(commit.completion), PLACE_FIELDS, "changes")
    since, until = model.commits[1].completion, model.commits[3].completion
    assert_same(pair.pudi.changes(since, until), model.changes(since, until), PLACE_FIELDS, "changes between")
    assert_same(pair.pudi.changes(), model.changes(), PLACE_FIELDS, "changes from the start")


def test_commit_time_ordering_can_be_asked_for_beside_an_ordering_field(engine: Engine, tmp_path: Path) -> None:
    options = {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}
    made = pudi.create(str(tmp_path / "t"), SCHEMA, record_key="uuid", ordering="ts", table_type="cow", options=options)
    made.upsert(engine.frame(table([trip(1, 10)])))
    made.upsert(engine.frame(table([trip(1, 5, "late but newer")])))
    assert [row["rider"] for row in engine.read(made.scan())] == ["late but newer"]
