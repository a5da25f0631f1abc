"""What verbs take beside the usual: fields of structs, dates, `earliest`, types by name, CASE in an update."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest

import pudi
from support.engines import Engine

PLACE = pa.struct([("city", pa.string()), ("at", pa.struct([("x", pa.int32())]))])


@pytest.fixture
def places(engine: Engine, tmp_path: Path) -> pudi.Table:
    schema = pa.schema([("id", pa.int32()), ("place", PLACE), ("n", pa.int32())])
    table = pudi.create(tmp_path / "t", schema, record_key="id")
    rows = [
        {"id": 1, "place": {"city": "a", "at": {"x": 7}}, "n": -3},
        {"id": 2, "place": {"city": None, "at": None}, "n": None},
        {"id": 3, "place": None, "n": 0},
    ]
    table.insert(engine.frame(pa.Table.from_pylist(rows, schema)))
    return table


def test_fields_of_structs_as_columns(engine: Engine, places: pudi.Table) -> None:
    scan = places.scan(["place.at.x", "id", "place.city"], where="id <= 2 OR place.city IS NULL")
    assert engine.columns(scan) == ["place.at.x", "id", "place.city"]
    rows = sorted(engine.read(scan), key=lambda row: row["id"])
    assert rows == [
        {"place.at.x": 7, "id": 1, "place.city": "a"},
        {"place.at.x": None, "id": 2, "place.city": None},
        {"place.at.x": None, "id": 3, "place.city": None},
    ]
    assert scan.schema.field("place.at.x").type == pa.int32()


def test_a_field_that_is_not_there(places: pudi.Table) -> None:
    with pytest.raises(pudi.InvalidArgumentError, match=r"it has place\.city, place\.at"):
        places.scan(["place.town"])
    with pytest.raises(pudi.InvalidArgumentError, match="twice"):
        places.scan(["place.city", "place.city"])


def test_an_update_by_case(engine: Engine, places: pudi.Table) -> None:
    spark = getattr(engine, "spark", None)
    places.update(
        {"n": "CASE WHEN n IS NULL THEN coalesce(n, id) * 10 WHEN n < 0 THEN abs(n) ELSE n - 1 END"}, spark=spark
    )
    rows = engine.read(places.scan(["id", "n"]))
    assert sorted((row["id"], row["n"]) for row in rows) == [(1, 3), (2, 20), (3, -1)]


def test_a_branch_that_is_not_taken_raises_nothing(engine: Engine, places: pudi.Table) -> None:
    spark = getattr(engine, "spark", None)
    places.update({"n": "CASE WHEN n = 0 THEN 7 ELSE 12 % n END"}, where="n = 0", spark=spark)
    assert {row["n"] for row in engine.read(places.scan(["n"]))} == {-3, None, 7}
    with pytest.raises(pudi.PudiError, match=r"12 % |overflow or division"):
        places.update({"n": "12 % (n - n)"}, where="n = 7", spark=spark)


def test_moments_that_are_dates(tmp_path: Path) -> None:
    table = pudi.create(tmp_path / "t", {"id": "int"}, record_key="id")
    table.insert(pa.table({"id": pa.array([1], pa.int32())}))
    instant = table.scan().instant
    today = dt.date(int(instant[:4]), int(instant[4:6]), int(instant[6:8]))
    assert table.scan(as_of=today + dt.timedelta(days=1)).to_arrow().num_rows == 1
    assert table.scan(as_of=today).to_arrow().num_rows == 0
    assert table.changes(since=today).to_arrow().num_rows == 1
    assert table.changes(since="earliest").to_arrow().num_rows == 1


def test_types_by_name(tmp_path: Path) -> None:
    names = {
        "id": "bigint",
        "tiny": "TINYINT",
        "price": "decimal(12, 3)",
        "text": "varchar(10)",
        "tags": "array<string>",
        "facts": "map<string, double>",
        "place": "struct<x: int, `y_z`: struct<at: timestamp> COMMENT 'where'>",
    }
    table = pudi.create(tmp_path / "t", names, record_key="id")
    table.add_column("day", "date")
    table.change_type("tiny", "long")
    kinds = dict(zip(table.schema.names, table.schema.types, strict=True))
    assert kinds["id"] == kinds["tiny"] == pa.int64()
    assert kinds["price"] == pa.decimal128(12, 3)
    assert kinds["day"] == pa.date32()
    assert kinds["place"].field("y_z").type.field("at").type == pa.timestamp("us", tz="UTC")
    assert pa.types.is_map(kinds["facts"])


@pytest.mark.parametrize(
    "name", ["uuid", "decimal(39,0)", "decimal(2,3)", "array<int", "struct<>", "map<int,int>", "int int", ""]
)
def test_names_of_no_type(tmp_path: Path, name: str) -> None:
    with pytest.raises(pudi.SchemaError, match="column 'x'"):
        pudi.create(tmp_path / "t", {"x": name})
