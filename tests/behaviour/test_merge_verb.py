"""`merge` on both engines, against the dict model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pudi
from pudi.engine.local.engine import LocalEngine
from pudi.engine.spark.engine import SparkEngine
from pudi.plan.row_changes import MergeJoin
from pudi.table.merge_builder import MergeBuilder
from pudi.writes.merge_binding import MergeBinder
from support.disk import tree
from support.engines import Engine, per_engine
from support.layouts import FEW, Layout
from support.pair import NINE, Pair
from support.rows import PLACE_FIELDS, Row, assert_same, from_arrow
from support.trips import SCHEMA, table, trip

pytestmark = pytest.mark.metadata_by_default

Rows = list[dict[str, Any]]


class Merging(Pair):
    """A table of nine trips, and its model."""

    def __init__(self, engine: Engine, path: Path, layout: Layout) -> None:
        super().__init__(engine, path, layout)
        self.write("bulk_insert", NINE)

    def merge(self, source: pa.Table | Rows, **arguments: Any) -> MergeBuilder:
        data = source if isinstance(source, pa.Table) else table(source)
        return self.pudi.table.merge(self.pudi.engine.frame(data), **arguments)

    def follow(self, result: Any, new: Callable[[Row], Row | None], inserted: Rows = ()) -> Any:  # type: ignore[assignment]
        assert result is not None
        assert result.operation in {"UPSERT", "INSERT"}  # INSERT: only inserts, and no ordering column
        rows = [made for row in self.model.snapshot() if (made := self._stamped(row, new(row), result.instant))]
        rows += [self.model._stamped(row, result.instant) for row in from_arrow(table(inserted))]
        self.model._commit(rows, result.instant, result.completion_time)
        assert_same(self.pudi.snapshot(), self.model.snapshot(), PLACE_FIELDS)
        return result

    @staticmethod
    def _stamped(old: Row, new: Row | None, instant: str) -> Row | None:
        return new if new is None or new == old else {**new, "_hoodie_commit_time": instant}


@pytest.fixture
def pair(engine: Engine, tmp_path: Path) -> Merging:
    return Merging(engine, tmp_path / "trips", Layout())


@pytest.fixture
def any_pair(engine: Engine, tmp_path: Path, layout: Layout) -> Merging:
    return Merging(engine, tmp_path / "trips", layout)


in_layouts = pytest.mark.parametrize(("engine", "layout"), per_engine(FEW, FEW[1:2]), indirect=["engine"], ids=str)


@in_layouts
def test_the_usual_merge(any_pair: Merging) -> None:
    source = [trip(1, 20, "new"), trip(2, 20, "gone"), trip(30, 20, "in"), trip(31, 20, "gone")]
    result = (
        any_pair.merge(source)
        .when_matched_delete("source.rider = 'gone'")
        .when_matched_update()
        .when_not_matched_insert(condition="source.rider <> 'gone'")
        .execute()
    )
    changes = {"k0001": trip(1, 20, "new"), "k0002": None}
    any_pair.follow(
        result,
        lambda r: r if r["uuid"] not in changes else changes[r["uuid"]] and r | changes[r["uuid"]],  # type: ignore[operator]
        [trip(30, 20, "in")],
    )
    assert (result.records_inserted, result.records_updated, result.records_deleted) == (1, 1, 1)


@in_layouts
def test_expressions_of_both_sides(any_pair: Merging) -> None:
    source = pa.table({"id": ["k0003", "k0004", "k0099", None], "extra": [1.5, 2.5, 3.5, 4.5]})
    merge = any_pair.merge(source, on="t.uuid = s.id", source_alias="s", target_alias="t")
    result = merge.when_matched_update({"fare": "t.fare + extra", "rider": "s.id"}, condition="extra > 2").execute()
    any_pair.follow(result, lambda r: r | {"fare": r["fare"] + 2.5, "rider": "k0004"} if r["uuid"] == "k0004" else r)
    values = {"uuid": "id", "leg": 0, "city": "'nyc'", "fare": "extra * 2"}
    merge = any_pair.merge(source, on="target.uuid = source.id").when_not_matched_insert(values, "id IS NOT NULL")
    new = {"uuid": "k0099", "leg": 0, "ts": None, "rider": None, "fare": 7.0, "city": "nyc"}
    any_pair.follow(merge.execute(), lambda r: r, [new])


def test_the_first_clause_that_is_true_counts(pair: Merging) -> None:
    source = [trip(n, 20, "x") for n in range(6)]
    result = (
        pair.merge(source)
        .when_matched_update({"rider": "'a'"}, condition="target.fare < 2")
        .when_matched_delete("target.fare < 4")
        .when_matched_update({"rider": "'b'"}, condition="source.fare < 5")
        .execute()
    )
    became = {"k0000": "a", "k0001": "a", "k0004": "b"}
    pair.follow(
        result,
        lambda r: (
            r | {"rider": became[r["uuid"]]} if r["uuid"] in became else None if r["uuid"] in {"k0002", "k0003"} else r
        ),
    )


def test_a_late_source_row_changes_nothing(pair: Merging) -> None:
    result = pair.merge([trip(1, 5, "late"), trip(2, 10, "tie")]).when_matched_update().execute()
    pair.follow(result, lambda r: r | trip(2, 10, "tie") if r["uuid"] == "k0002" else r)


def test_a_matched_delete_ignores_ordering_values(pair: Merging) -> None:
    result = pair.merge([trip(1, 1)]).when_matched_delete().execute()
    pair.follow(result, lambda r: None if r["uuid"] == "k0001" else r)


def test_of_several_source_rows_the_newest_counts(pair: Merging) -> None:
    twice = [trip(1, 30, "b"), trip(1, 20, "a")]
    result = pair.merge(twice).when_matched_update().when_not_matched_insert().execute()
    pair.follow(result, lambda r: r | twice[0] if r["uuid"] == "k0001" else r)


def test_several_source_rows_without_an_order_are_an_error(engine: Engine, tmp_path: Path) -> None:
    made = pudi.create(tmp_path / "t", SCHEMA, record_key="uuid", partition_by="city")
    made.insert(engine.frame(table([trip(1, 10)])))
    before = tree(tmp_path / "t")
    twice = made.merge(engine.frame(table([trip(1, 20, "a"), trip(1, 30, "b")])), on="uuid")
    with pytest.raises(pudi.InvalidArgumentError, match="several source rows"):
        twice.when_matched_update().when_not_matched_insert().execute()
    assert tree(tmp_path / "t") == before


def test_unmatched_copies_in_the_source_are_combined(pair: Merging) -> None:
    twice = [trip(40, 20, "older"), trip(40, 30, "newer")]
    result = pair.merge(twice).when_not_matched_insert().execute()
    pair.follow(result, lambda r: r, twice[1:])


def test_no_key_is_added_twice(pair: Merging) -> None:
    """A source row that meets no row by other columns, but has a key that is there, is an upsert of it."""
    new = trip(1, 20, "other leg") | {"leg": 7}
    result = pair.merge([new], on=["leg"]).when_not_matched_insert().execute()
    pair.follow(result, lambda r: r | new if r["uuid"] == "k0001" else r)


def test_null_partitions_and_key_parts_are_the_same(engine: Engine, tmp_path: Path) -> None:
    pair = Merging(engine, tmp_path / "trips", FEW[1])
    nowhere = [trip(number, 10) | {"city": None, "leg": None} for number in (1, 2)]
    made = pudi.create(tmp_path / "nowhere", SCHEMA, record_key=["uuid", "leg"], partition_by="city")
    made.insert(pair.pudi.engine.frame(table([*nowhere, trip(3, 10)])))
    source = table([nowhere[0], trip(3, 10), trip(4, 10) | {"city": None}])
    result = made.merge(pair.pudi.engine.frame(source)).when_matched_delete().execute()
    assert result is not None
    assert result.records_deleted == 2
    assert made.scan().to_arrow()["uuid"].to_pylist() == ["k0002"]


@pytest.mark.parametrize("on", [["x"], "target.x = source.x", "target.x <=> source.x"], ids=str)
@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()], ids=str)
def test_zeros_and_nans_of_other_bits_are_equal(
    engine: Engine, tmp_path: Path, kind: pa.DataType, on: list[str] | str
) -> None:
    schema = pa.schema([("id", pa.string()), ("x", kind), ("v", pa.int64())])
    made = pudi.create(tmp_path / "t", schema, record_key="id")
    nan = np.array([0x7FF8 << 48, 0x7FF8 << 48 | 1 << 40], dtype=np.uint64).view(np.float64)  # two, of other bits

    def rows(xs: list[float], v: int) -> pa.Table:
        return pa.table([["a", "b", "c"], pa.array(xs, kind), [v] * 3], schema=schema)

    made.insert(engine.frame(rows([0.0, 1.5, nan[0]], 1)))
    merging = made.merge(engine.frame(rows([-0.0, 1.5, nan[1]], 2)), on=on)
    done = merging.when_matched_update({"v": "source.v"}).execute()
    assert done is not None
    assert done.records_updated == 3
    assert made.scan().to_arrow()["v"].to_pylist() == [2, 2, 2]


def test_nothing_to_do(pair: Merging) -> None:
    before = tree(pair.pudi.path)
    assert pair.merge([trip(50, 1)]).when_matched_update().execute() is None
    assert pair.merge([trip(1, 50)]).when_not_matched_insert().execute() is None
    assert pair.merge([]).when_matched_update().when_not_matched_insert().execute() is None
    assert pair.merge([trip(1, 50)]).when_matched_delete("source.ts < 0").execute() is None
    assert tree(pair.pudi.path) == before


def test_an_empty_table(engine: Engine, tmp_path: Path) -> None:
    made = pudi.create(tmp_path / "empty", SCHEMA, record_key="uuid", partition_by="city")
    result = made.merge(engine.frame(table([trip(1, 1)]))).when_matched_update().when_not_matched_insert().execute()
    assert result is not None
    assert result.records_inserted == 1


def test_other_columns_to_meet_on(pair: Merging) -> None:
    source = pa.table({"city": ["nyc"], "leg": pa.array([0], pa.int32()), "bonus": [5.0]})
    merge = pair.merge(source, on=["city", "leg"]).when_matched_update({"fare": "target.fare + source.bonus"})
    pair.follow(merge.execute(), lambda r: r | {"fare": r["fare"] + 5} if (r["city"], r["leg"]) == ("nyc", 0) else r)


def test_other_conditions_than_equalities(pair: Merging) -> None:
    source = pa.table({"id": ["k0001", "k0002", None], "low": [1.0, 9.0, None]})
    both = "target.uuid = source.id AND target.fare > source.low"
    result = pair.merge(source, on=both).when_matched_update({"rider": "'both'"}).execute()
    pair.follow(result, lambda r: r | {"rider": "both"} if r["uuid"] == "k0001" else r)
    either = "target.uuid = source.id OR target.fare > source.low AND target.fare < source.low + 0.5"
    found = pair.merge(source, on=either).when_matched_update({"rider": "'either'"})
    found = found.when_not_matched_insert({"uuid": "'new'", "leg": 0, "city": "'nyc'"})
    pair.follow(
        found.when_not_matched_by_source_delete("target.rider = 'both'").execute(),
        lambda r: r | {"rider": "either"} if r["uuid"] in {"k0001", "k0002"} else r,
        [dict.fromkeys(SCHEMA.names) | {"uuid": "new", "leg": 0, "city": "nyc"}],
    )
    with pytest.raises(pudi.InvalidArgumentError, match="several source rows"):
        pair.merge(source, on="target.fare > source.low - 10").when_matched_delete().execute()


def test_rows_are_not_moved(pair: Merging) -> None:
    before = tree(pair.pudi.path)
    moved = [trip(1, 20, city="oslo")]
    with pytest.raises(pudi.InvalidArgumentError, match="partition"):
        pair.merge(moved, on="uuid").when_matched_update().execute()
    with pytest.raises(pudi.InvalidArgumentError, match="partition"):
        pair.merge(moved, on="uuid").when_matched_update({"city": "source.city"}).execute()
    assert tree(pair.pudi.path) == before


SMALL = pa.table({"id": ["k0001"], "extra": [1.0]})


@pytest.mark.parametrize(
    ("merge", "error", "why"),
    [
        (lambda p: p.merge([trip(1, 1)]), pudi.InvalidArgumentError, "no clause"),
        (lambda p: p.merge([trip(1, 1)], on="nope").when_matched_delete(), pudi.InvalidArgumentError, "no column nope"),
        (lambda p: p.merge([trip(1, 1)], on=[]).when_matched_delete(), pudi.InvalidArgumentError, "on names no column"),
        (
            lambda p: p.merge([trip(1, 1)]).when_matched_update({"fare": "fare"}),
            pudi.InvalidArgumentError,
            "fare is a column of both sides",
        ),
        (
            lambda p: p.merge([trip(1, 1)]).when_matched_update({"nope": 1}),
            pudi.InvalidArgumentError,
            "no column 'nope'",
        ),
        (lambda p: p.merge(SMALL, on="uuid = id").when_matched_update(), pudi.SchemaError, "does not have: extra"),
        (lambda p: p.merge(SMALL, on="uuid = id").when_not_matched_insert(), pudi.SchemaError, "does not have: extra"),
        (
            lambda p: p.merge(SMALL, on="uuid = id").when_not_matched_insert({"fare": 1}),
            pudi.InvalidArgumentError,
            "must set column 'uuid'",
        ),
        (
            lambda p: p.merge(SMALL, on="uuid = id").when_not_matched_insert({"uuid": "target.uuid"}),
            pudi.InvalidArgumentError,
            "target.uuid is unknown",
        ),
        (
            lambda p: p.merge(SMALL, on="uuid = id AND fare > rand()").when_matched_delete(),
            pudi.NotSupportedError,
            "RAND",
        ),
        (
            lambda p: p.merge(SMALL, on="uuid = id AND fare").when_matched_delete(),
            pudi.InvalidArgumentError,
            "target.fare is of type DOUBLE",
        ),
        (lambda p: p.merge(SMALL, on="ts = id").when_matched_delete(), pudi.InvalidArgumentError, "can't compare"),
        (lambda p: p.merge(SMALL).when_matched_delete(), pudi.InvalidArgumentError, "the source has no column uuid"),
    ],
    ids=range(13),
)
def test_refused(pair: Merging, merge: Callable[[Merging], MergeBuilder], error: type[Exception], why: str) -> None:
    before = tree(pair.pudi.path)
    with pytest.raises(error, match=why):
        merge(pair).execute()
    assert tree(pair.pudi.path) == before


def test_another_writer_in_between_is_a_conflict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = pudi.create(tmp_path / "trips", SCHEMA, record_key="uuid", partition_by="city", ordering="ts")
    made.bulk_insert(table([trip(1, 10)]))
    join, others = MergeBinder.join, list[str]()

    def slow(self: MergeBinder) -> MergeJoin:
        monkeypatch.setattr(MergeBinder, "join", join)
        done = pudi.Table(made.path).upsert(table([trip(1, 20)]))
        assert done is not None
        others.append(done.instant)
        return join(self)

    once = {"hoodie.write.num.retries.on.conflict.failures": "0"}
    merge = made.merge(table([trip(1, 30)]), options=once).when_matched_update(condition="target.ts < 15")
    monkeypatch.setattr(MergeBinder, "join", slow)
    with pytest.raises(pudi.ConflictError) as caught:
        merge.execute()
    assert others[0] in str(caught.value)
    assert made.scan().to_arrow()["ts"].to_pylist() == [20]


def test_columns_of_nulls_alone_get_the_tables_type(tmp_path: Path) -> None:
    made = pudi.create(tmp_path / "t", SCHEMA, record_key="uuid")
    made.insert(table([trip(1, 1)]))
    source = table([trip(1, 2), trip(2, 2)]).set_column(3, "rider", pa.nulls(2))
    assert made.merge(source).when_matched_update().when_not_matched_insert().execute()
    found = made.head().sort_by("uuid")
    assert found.schema == SCHEMA
    assert found["rider"].to_pylist() == [None, None]
    assert found["ts"].to_pylist() == [2, 2]
    with pytest.raises(pudi.SchemaError, match="'extra' has type null"):
        made.merge(source.append_column("extra", pa.nulls(2))).when_matched_update().execute()


@in_layouts
def test_rows_that_the_source_lacks(any_pair: Merging) -> None:
    source = [trip(1, 20, "new"), trip(30, 20, "in")]
    result = (
        any_pair.merge(source)
        .when_matched_update()
        .when_not_matched_insert()
        .when_not_matched_by_source_delete("target.fare < 3")
        .when_not_matched_by_source_update({"fare": "fare + 100"}, "target.fare < 6")
        .execute()
    )

    def follow(row: Row) -> Row | None:
        if row["uuid"] == "k0001":
            return row | trip(1, 20, "new")
        if row["fare"] < 3:
            return None
        return row | {"fare": row["fare"] + 100} if row["fare"] < 6 else row

    any_pair.follow(result, follow, [trip(30, 20, "in")])


def test_an_empty_source_lacks_all_rows(pair: Merging) -> None:
    result = pair.merge(table([])).when_not_matched_by_source_delete("fare >= 4").execute()
    pair.follow(result, lambda r: r if r["fare"] < 4 else None)


def test_the_source_has_no_columns_where_it_has_no_row(pair: Merging) -> None:
    merge = pair.merge([trip(1, 20)]).when_not_matched_by_source_delete("source.fare > 1")
    with pytest.raises(pudi.InvalidArgumentError, match="rows of the table that match no row of the source"):
        merge.execute()


def test_values_by_case_and_functions(pair: Merging) -> None:
    source = [trip(1, 20, "new"), trip(2, 20, None), trip(3, 20, "x")]
    values = {
        "rider": "coalesce(source.rider, target.rider)",
        "fare": "CASE WHEN source.rider = 'x' THEN abs(target.fare - 100) ELSE length(target.uuid) END",
    }
    result = pair.merge(source).when_matched_update(values).execute()
    became = {"k0001": ("new", 5.0), "k0002": (None, 5.0), "k0003": ("x", None)}

    def follow(row: Row) -> Row:
        if row["uuid"] not in became:
            return row
        rider, fare = became[row["uuid"]]
        return row | {"rider": rider or row["rider"], "fare": fare or abs(row["fare"] - 100)}

    pair.follow(result, follow)


JOINED = "a merge was joined with the table"


@pytest.fixture
def without_join(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A merge that joins its source with the table fails."""

    def refuse(*_: Any) -> None:
        raise AssertionError(JOINED)

    monkeypatch.setattr(LocalEngine, "merge_rows", refuse)
    monkeypatch.setattr(SparkEngine, "merge_rows", refuse)
    return monkeypatch


@in_layouts
def test_an_upsert_needs_no_join(any_pair: Merging, without_join: pytest.MonkeyPatch) -> None:
    source = [trip(1, 20, "new"), trip(30, 20, "in")]
    result = any_pair.merge(source).when_matched_update().when_not_matched_insert().execute()
    changes = {"k0001": trip(1, 20, "new")}
    any_pair.follow(result, lambda r: r | changes.get(r["uuid"], {}), [trip(30, 20, "in")])


def test_one_clause_and_named_values_need_no_join(pair: Merging, without_join: pytest.MonkeyPatch) -> None:
    source = [trip(1, 20, "new"), trip(30, 20, "in")]
    result = pair.merge(source, on="uuid").when_matched_update().execute()
    pair.follow(result, lambda r: r | trip(1, 20, "new") if r["uuid"] == "k0001" else r)
    result = pair.merge(source, on="uuid").when_not_matched_insert().execute()
    pair.follow(result, lambda r: r, [trip(30, 20, "in")])
    named = {name: f"source.{name}" for name in SCHEMA.names} | {"fare": "source.fare + 1"}
    changed = {name: value for name, value in named.items() if name not in {"uuid", "city"}}
    source = [trip(1, 30, "a"), trip(31, 30, "b")]
    result = pair.merge(source, on="uuid").when_matched_update(changed).when_not_matched_insert(named).execute()
    old, new = (row | {"fare": row["fare"] + 1} for row in source)
    pair.follow(result, lambda r: r | old if r["uuid"] == "k0001" else r, [new])


def test_rows_of_a_source_that_a_join_must_decide(pair: Merging, without_join: pytest.MonkeyPatch) -> None:
    for source in ([trip(1, 20), trip(1, 30)], [trip(1, 20, city="oslo")]):
        with pytest.raises(AssertionError, match=JOINED):
            pair.merge(source, on="uuid").when_matched_update().when_not_matched_insert().execute()


def test_a_key_of_another_partition_is_new_where_the_condition_names_the_partition(pair: Merging) -> None:
    new = trip(1, 20, "elsewhere", city="oslo")
    result = pair.merge([new], on=["uuid", "city"]).when_matched_update().when_not_matched_insert().execute()
    pair.follow(result, lambda r: r, [new])


@pytest.mark.parametrize("kind", ["GLOBAL_SIMPLE", "RECORD_INDEX", "RECORD_LEVEL_INDEX", "BUCKET"])
def test_merges_by_other_indexes(kind: str, tmp_path: Path) -> None:
    options = {"hoodie.index.type": kind}
    if kind == "BUCKET":
        options["hoodie.bucket.index.num.buckets"] = "2"
    made = pudi.create(tmp_path / "t", SCHEMA, record_key="uuid", partition_by="city", ordering="ts", options=options)
    made.upsert(table([trip(n, 10) for n in range(4)]))
    merge = made.merge(table([trip(1, 20, "new"), trip(9, 20, "in")]), on="uuid")
    assert merge.when_matched_update().when_not_matched_insert().execute()
    found = {row["uuid"]: row["rider"] for row in made.scan().to_arrow().to_pylist()}
    assert len(found) == 5
    assert (found["k0001"], found["k0009"]) == ("new", "in")
    moving = made.merge(table([trip(1, 30, city="oslo")]), on="uuid").when_matched_update()
    if kind == "GLOBAL_SIMPLE":  # moves records by default
        moving.execute()
        assert made.scan(["city"], "uuid = 'k0001'").to_arrow().to_pylist() == [{"city": "oslo"}]
        return
    with pytest.raises(pudi.InvalidArgumentError, match="partition"):
        moving.execute()


def test_a_record_that_a_log_file_deleted_is_new(tmp_path: Path) -> None:
    made = pudi.create(tmp_path / "t", SCHEMA, record_key="uuid", table_type="MERGE_ON_READ")
    made.insert(table([trip(n, 10) for n in range(3)]))
    made.delete(table([trip(1, 10)]))
    assert made.merge(table([trip(1, 20, "again")])).when_matched_update().execute() is None
    assert made.merge(table([trip(1, 20, "again")])).when_not_matched_insert().execute()
    assert sorted(made.scan().to_arrow()["uuid"].to_pylist()) == ["k0000", "k0001", "k0002"]
