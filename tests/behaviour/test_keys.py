"""Keys of every kind on both engines: what a user sees of key generators, generated keys and delete markers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from support.engines import Engine
from support.rows import Row

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("city", pa.string()),
        ("ts", pa.int64()),
        ("op", pa.string()),
        ("a", pa.struct([("b", pa.string()), ("n", pa.int32())])),
    ]
)
BY_TIME = {
    "hoodie.table.keygenerator.type": "TIMESTAMP",
    "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
    "hoodie.keygen.timebased.output.dateformat": "yyyy/MM",
}
NOVEMBER, DECEMBER = 1_700_000_000_000, 1_702_000_000_000


def rows(*records: tuple[Any, ...]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, record, strict=True)) for record in records], SCHEMA)


def one(number: int, city: str | None = "nyc", ts: int | None = NOVEMBER, op: str | None = "I") -> tuple[Any, ...]:
    return (f"k{number}", city, ts, op, {"b": f"b{number}", "n": number})


class Held:
    """A table and the engine that writes and reads it."""

    def __init__(self, engine: Engine, path: Path, **arguments: Any) -> None:
        self.engine = engine
        self.table = pudi.create(str(path), SCHEMA, table_type="cow", **arguments)

    def write(self, verb: str, *records: tuple[Any, ...], **options: str) -> Any:
        return getattr(self.table, verb)(self.engine.frame(rows(*records)), options=options)

    def read(self, where: str | None = None) -> list[Row]:
        return self.engine.read(self.table.scan(where=where))

    def keys(self) -> list[tuple[str, str]]:
        return sorted((row["_hoodie_record_key"], row["_hoodie_partition_path"]) for row in self.read())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("verb", ["upsert", "insert", "bulk_insert"])
def test_folders_named_by_time(engine: Engine, tmp_path: Path, verb: str) -> None:
    held = Held(engine, tmp_path / "t", record_key="id", partition_by="ts", options=BY_TIME)
    held.write(verb, one(1), one(2, ts=DECEMBER), one(3, ts=None))
    assert held.keys() == [("k1", "2023/11"), ("k2", "2023/12"), ("k3", "1970/01")]
    held.write("upsert", one(2, "new", DECEMBER + 1))
    assert [row["city"] for row in held.read("ts > 1702000000000")] == ["new"]
    assert [row["id"] for row in held.read("ts is null")] == ["k3"]
    held.write("delete", one(3, ts=None), one(1))
    assert held.keys() == [("k2", "2023/12")]


def test_custom_folders(engine: Engine, tmp_path: Path) -> None:
    options = {
        **BY_TIME,
        "hoodie.table.keygenerator.type": "CUSTOM",
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.datasource.write.partitionpath.urlencode": "true",
    }
    held = Held(engine, tmp_path / "t", record_key="id", partition_by=["city:SIMPLE", "ts:TIMESTAMP"], options=options)
    held.write("upsert", one(1, "a/b"), one(2, None, DECEMBER))
    assert held.keys() == [
        ("k1", "city=a%2Fb/ts=2023%2F11"),
        ("k2", "city=__HIVE_DEFAULT_PARTITION__/ts=2023%2F12"),
    ]
    assert [row["id"] for row in held.read("city = 'a/b'")] == ["k1"]
    assert [row["id"] for row in held.read(f"ts = {DECEMBER}")] == ["k2"]
    held.write("upsert", one(1, "a/b", NOVEMBER, "again"))
    assert sorted(row["op"] for row in held.read()) == ["I", "again"]


def test_keys_inside_structs(engine: Engine, tmp_path: Path) -> None:
    held = Held(engine, tmp_path / "t", record_key=["id", "a.b"], partition_by="a.n")
    held.write("bulk_insert", one(1), one(2))
    assert held.keys() == [("id:k1,a.b:b1", "1"), ("id:k2,a.b:b2", "2")]
    held.write("upsert", one(2, "new"))
    held.write("delete", one(1))
    assert [(row["id"], row["city"]) for row in held.read("city = 'new' and id = 'k2'")] == [("k2", "new")]
    assert len(held.read()) == 1
    with pytest.raises(pudi.InvalidArgumentError, match="struct that is null"):
        held.write("upsert", ("k9", "nyc", 1, "I", None))
    with pytest.raises(pudi.SchemaError, match=r"a\.gone"):
        pudi.create(str(tmp_path / "u"), SCHEMA, record_key="id", partition_by="a.gone")


@pytest.mark.parametrize("by", ["city", "ts"])
def test_generated_keys(engine: Engine, tmp_path: Path, by: str) -> None:
    held = Held(engine, tmp_path / "t", partition_by=by, options=BY_TIME if by == "ts" else {})
    written = [held.write(verb, one(1), one(1), one(2, "sf")) for verb in ("insert", "bulk_insert", "insert")]
    found = held.read()
    keys = {row["_hoodie_record_key"] for row in found}
    assert len(keys) == len(found) == 9
    assert all(re.fullmatch(r"\d{17}_\d+_\d+", key) for key in keys)
    assert {key.split("_")[0] for key in keys} == {result.instant for result in written}
    assert all(row["_hoodie_record_key"].startswith(row["_hoodie_commit_time"]) for row in found)
    for verb in ("upsert", "delete"):
        with pytest.raises(pudi.NotSupportedError, match="record key"):
            held.write(verb, one(1))
    with pytest.raises(pudi.InvalidArgumentError, match="combine"):
        held.write("insert", one(1), **{"hoodie.combine.before.insert": "true"})
    assert len(held.read()) == 9


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_rows_with_generated_keys_are_deleted_as_they_were_read(engine: Engine, tmp_path: Path, kind: str) -> None:
    table = pudi.create(tmp_path / "t", {"id": "long", "city": "string"}, table_type=kind)
    table.insert(engine.frame(pa.table({"id": [1, 1, 2], "city": ["rome", "rome", "oslo"]})))
    read = table.scan(where="id = 1").to_arrow()
    done = table.delete(engine.frame(read.slice(0, 1)))
    assert done is not None
    assert done.records_deleted == 1
    assert sorted(table.scan(["id"]).to_arrow()["id"].to_pylist()) == [1, 2]


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_changes_of_records_with_generated_keys(engine: Engine, tmp_path: Path, kind: str) -> None:
    table = pudi.create(tmp_path / "t", SCHEMA, partition_by="city", table_type=kind)
    table.insert(engine.frame(rows(one(1), one(1), one(2, "sf"))))
    key = "_hoodie_record_key"

    def stored() -> list[tuple[Any, ...]]:
        names = ("id", "city", "op", key)
        return sorted(tuple(row[name] for name in names) for row in table.scan(names).to_arrow().to_pylist())

    first, second, third = (row[3] for row in stored())
    source = engine.frame(rows(one(1, ts=9, op="m"), one(2, ts=1, op="m"), one(7, ts=9, op="m")))
    merging = table.merge(source, on="target.id = source.id AND source.ts > 5").when_not_matched_insert()
    result = merging.when_matched_update({"op": "source.op"}).execute()
    assert result is not None
    *kept, new, last = stored()[:2] + stored()[3:] + stored()[2:3]
    assert kept == [("k1", "nyc", "m", first), ("k1", "nyc", "m", second), ("k2", "sf", "I", third)]
    assert (new[:3], last[:3]) == (("k7", "nyc", "m"), ("k2", "nyc", "m"))
    assert all(re.fullmatch(rf"{result.instant}_\d+_\d+", row[3]) for row in (new, last))
    read = table.scan([key, *SCHEMA.names], where=f"{key} = '{first}'").to_arrow()
    again = engine.frame(read.set_column(read.column_names.index("op"), "op", pa.array(["u"])))
    table.upsert(again)
    assert stored()[:2] == sorted([("k1", "nyc", "u", first), ("k1", "nyc", "m", second)])
    table.delete(again)
    assert stored() == sorted([*kept[1:], new, last])


def test_encoded_folders(engine: Engine, tmp_path: Path) -> None:
    encoded = {"hoodie.datasource.write.partitionpath.urlencode": "true"}
    held = Held(engine, tmp_path / "t", record_key="id", partition_by="city", options=encoded)
    cities = {"a/b:c": "a%2Fb%3Ac", "100%": "100%25", "[x]^{y}\\": "%5Bx%5D%5E%7By}%5C", "zażółć": "zażółć",
              "q'\"#*=?": "q%27%22%23%2A%3D%3F"}  # fmt: skip
    held.write("upsert", *(one(n, city) for n, city in enumerate(cities)))
    assert {row["city"]: row["_hoodie_partition_path"] for row in held.read()} == cities
    for city in cities:
        quoted = city.replace("\\", "\\\\").replace("'", "''")
        assert [row["city"] for row in held.read(f"city = '{quoted}'")] == [city]


@pytest.mark.parametrize("ordering", [None, "ts"])
def test_delete_markers(engine: Engine, tmp_path: Path, ordering: str | None) -> None:
    marker = {"hoodie.payload.delete.field": "op", "hoodie.payload.delete.marker": "D"}
    held = Held(engine, tmp_path / "t", record_key="id", ordering=ordering, options=marker)
    held.write("upsert", one(1, ts=5), one(2, ts=5, op="D"), one(3, ts=5, op=None), one(4, ts=5, op="d"))
    assert [row["id"] for row in sorted(held.read(), key=str)] == ["k1", "k3", "k4"]
    held.write("upsert", one(1, ts=5, op="D"), one(3, ts=4, op="D"), one(9, ts=1, op="D"))
    assert sorted(row["id"] for row in held.read()) == (["k3", "k4"] if ordering else ["k4"])
    held.write("insert", one(5, ts=1, op="D"), one(6, ts=1))
    assert "k5" not in {row["id"] for row in held.read()}
    with pytest.raises(pudi.InvalidArgumentError, match="contradicts"):
        held.write("upsert", one(1), **{"hoodie.payload.delete.marker": "X"})


def test_half_a_delete_marker(tmp_path: Path) -> None:
    with pytest.raises(pudi.NotSupportedError, match="marker"):
        pudi.create(str(tmp_path / "t"), SCHEMA, record_key="id", options={"hoodie.payload.delete.field": "op"})
    marker = {"hoodie.payload.delete.field": "nope", "hoodie.payload.delete.marker": "D"}
    with pytest.raises(pudi.SchemaError, match="nope"):
        pudi.create(str(tmp_path / "t"), SCHEMA, record_key="id", options=marker)
