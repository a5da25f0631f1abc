"""`update` and `delete(where=…)` on both engines, against a function on plain rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from support.disk import base_files, tree
from support.engines import Engine, per_engine
from support.layouts import FEW, Layout
from support.pair import NINE, Pair
from support.rows import PLACE_FIELDS, Row, assert_same, from_arrow
from support.trips import table, trip


class Changing(Pair):
    """A table of nine trips, and its model."""

    def __init__(self, engine: Engine, path: Path, layout: Layout) -> None:
        super().__init__(engine, path, layout)
        self.on = {"spark": engine.spark} if engine.name == "spark" else {}  # type: ignore[attr-defined]
        self.write("insert", NINE)

    def update(self, values: dict[str, Any], where: str | None, new: Callable[[Row], Row]) -> Any:
        result = self.pudi.table.update(values, where, **self.on)
        assert result is not None
        self._follow(result, new)
        return result

    def delete(self, where: str, gone: Callable[[Row], bool]) -> Any:
        result = self.pudi.table.delete(where=where, **self.on)
        assert result is not None
        self._follow(result, lambda row: None if gone(row) else row)
        return result

    def _follow(self, result: Any, new: Callable[[Row], Row | None]) -> None:
        self.model.change(result.instant, result.completion_time, new)
        assert_same(self.pudi.snapshot(), self.model.snapshot(), PLACE_FIELDS)
        for commit in self.model.commits:
            assert_same(self.pudi.as_of(commit.instant), self.model.as_of(commit.instant), PLACE_FIELDS, "as of")


@pytest.fixture
def pair(engine: Engine, tmp_path: Path) -> Changing:
    return Changing(engine, tmp_path / "trips", Layout())


@pytest.fixture
def any_pair(engine: Engine, tmp_path: Path, layout: Layout) -> Changing:
    return Changing(engine, tmp_path / "trips", layout)


in_layouts = pytest.mark.parametrize(("engine", "layout"), per_engine(FEW, FEW[1:2]), indirect=["engine"], ids=str)


@in_layouts
def test_update(any_pair: Changing) -> None:
    result = any_pair.update(
        {"fare": "fare * 2 + ts", "rider": "'cy'"},
        "fare > 3 AND rider = 'ann'",
        lambda r: r | {"fare": r["fare"] * 2 + r["ts"], "rider": "cy"} if r["fare"] > 3 else r,
    )
    assert (result.operation, result.records_updated, result.records_inserted) == ("UPSERT", 6, 0)
    any_pair.update({"rider": None, "fare": 0}, None, lambda r: r | {"rider": None, "fare": 0.0})


@in_layouts
def test_delete(any_pair: Changing) -> None:
    result = any_pair.delete(
        "uuid IN ('k0001', 'k0005') OR fare > 8", lambda r: r["uuid"] in {"k0001", "k0005", "k0008"}
    )
    assert (result.operation, result.records_deleted) == ("DELETE", 3)
    any_pair.delete("ts = 10", lambda _: True)


def test_only_files_that_match_are_written(pair: Changing) -> None:
    before = base_files(pair.pudi.path)
    result = pair.update({"ts": "ts + 1"}, "city = 'nyc'", lambda r: r | {"ts": 11} if r["city"] == "nyc" else r)
    assert result.files_written == 1
    assert [file.parent.name for file in base_files(pair.pudi.path) if file not in before] == ["nyc"]
    result = pair.update({"ts": "ts + 1"}, "uuid = 'k0001'", lambda r: r | {"ts": 11} if r["uuid"] == "k0001" else r)
    assert result.files_written == 1


def test_nothing_matches(pair: Changing) -> None:
    before = tree(pair.pudi.path)
    assert pair.pudi.table.update({"fare": 1}, "fare > 1000", **pair.on) is None
    assert pair.pudi.table.update({"fare": 1}, "city = 'oslo'", **pair.on) is None
    assert pair.pudi.table.delete(where="rider IS NULL", **pair.on) is None
    assert tree(pair.pudi.path) == before


def test_where_true_is_what_counts(pair: Changing) -> None:
    pair.update({"rider": None}, "uuid < 'k0003'", lambda r: r | {"rider": None} if r["uuid"] < "k0003" else r)
    pair.delete("NOT (rider = 'bob')", lambda r: r["rider"] is not None)  # null is neither true nor false


def test_values_come_from_the_old_row(pair: Changing) -> None:
    pair.update({"fare": "ts", "ts": "ts + leg"}, None, lambda r: r | {"fare": 10.0, "ts": 10 + r["leg"]})
    pair.update({"ts": "ts + 15 / fare"}, None, lambda r: r | {"ts": r["ts"] + 1})  # an integer loses the fraction


def test_a_lower_ordering_value_is_late(pair: Changing) -> None:
    assert pair.pudi.table.update({"ts": "ts - 1"}, **pair.on) is None
    pair.update({"ts": "ts - 5 + leg * 4"}, None, lambda r: r | {"ts": 5 + 4 * r["leg"]} if r["leg"] == 2 else r)


def test_copies_of_a_key_change_one_by_one(pair: Changing) -> None:
    data = table([trip(0, 10, "copy")])
    pair.model.insert(from_arrow(data), *pair.pudi.write("insert", data))
    pair.update({"fare": 7}, "rider = 'copy'", lambda r: r | {"fare": 7.0} if r["rider"] == "copy" else r)
    pair.delete("uuid = 'k0000' AND rider = 'ann'", lambda r: r["uuid"] == "k0000" and r["rider"] == "ann")


@pytest.mark.sampled(9)
@pytest.mark.parametrize(
    ("values", "error", "why"),
    [
        ({"uuid": "'x'"}, pudi.InvalidArgumentError, "'uuid' is part of the record key"),
        ({"city": "'x'"}, pudi.InvalidArgumentError, "'city' is part of .* a partition column"),
        ({"nope": 1}, pudi.InvalidArgumentError, "no column 'nope'"),
        ({"fare": "reverse(rider)"}, pudi.NotSupportedError, "REVERSE"),
        ({}, pudi.InvalidArgumentError, "no column to set"),
        ({"leg": "ts * 1000000000"}, pudi.InvalidArgumentError, "can't be computed for every row"),
        ({"leg": 3_000_000_000}, pudi.InvalidArgumentError, "can't be computed for every row"),
        ({"fare": ...}, pudi.InvalidArgumentError, "'fare': Ellipsis is no constant"),
        ({"fare": "fare +"}, pudi.InvalidArgumentError, "'fare': is not a SQL expression"),
    ],
    ids=str,
)
def test_refused(pair: Changing, values: dict[str, Any], error: type[Exception], why: str) -> None:
    before = tree(pair.pudi.path)
    with pytest.raises(error, match=why):
        pair.pudi.table.update(values, **pair.on)
    assert tree(pair.pudi.path) == before


def test_delete_takes_one_of_two(pair: Changing) -> None:
    with pytest.raises(pudi.InvalidArgumentError, match="either keys of records or where"):
        pair.pudi.table.delete()
    with pytest.raises(pudi.InvalidArgumentError, match="either keys of records or where"):
        pair.pudi.table.delete(pair.pudi.engine.frame(table([trip(0, 0)])), where="ts > 1")


TYPES = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("day", pa.date32()),
        pa.field("at", pa.timestamp("us", tz="UTC")),
        pa.field("price", pa.decimal128(10, 2)),
        pa.field("weight", pa.float32()),
        pa.field("flag", pa.bool_()),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("raw", pa.binary()),
    ]
)


def test_every_type_of_constant(engine: Engine, tmp_path: Path) -> None:
    made = pudi.create(tmp_path / "types", TYPES, record_key="id")
    row = {
        "id": 1,
        "day": None,
        "at": None,
        "price": None,
        "weight": None,
        "flag": None,
        "tags": ["a", None],
        "raw": None,
    }
    made.insert(engine.frame(pa.Table.from_pylist([row], schema=TYPES)))
    moment = dt.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=dt.timezone.utc)
    values = {
        "day": dt.date(2026, 1, 2),
        "at": moment,
        "price": Decimal("1.5"),
        "weight": 0.1,
        "flag": True,
        "raw": b"x",
    }
    on = {"spark": engine.spark} if engine.name == "spark" else {}  # type: ignore[attr-defined]
    made.update(values, **on)
    found = made.scan(meta_fields=False).to_arrow().to_pylist()[0]
    assert found == row | values | {"price": Decimal("1.50"), "weight": pytest.approx(0.1)}
    made.update(
        {
            "day": "'2026-03-04'",
            "price": "price * 2",
            "weight": "CAST(price AS DOUBLE)",
            "flag": "price > 1",
            "tags": None,
        },
        **on,
    )
    found = made.scan(meta_fields=False).to_arrow().to_pylist()[0]
    assert (found["day"], found["price"], found["weight"]) == (dt.date(2026, 3, 4), Decimal("3.00"), 1.5)
    assert (found["flag"], found["tags"]) == (True, None)
    with pytest.raises(pudi.InvalidArgumentError, match="id"):
        made.update({"id": None}, **on)
