"""Tables whose files leave out the partition columns: every verb and service, with their values taken from paths."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pudi
from support.engines import Engine, LocalEngine, per_engine
from support.layouts import Layout
from support.pudi_table import PudiTable
from support.rows import META_FIELDS, assert_same
from support.trips import SCHEMA, steps, table, trip

LEFT_OUT = {"hoodie.datasource.write.drop.partition.columns": "true"}
STATISTICS = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
}
VERBS = ("insert", "upsert", "upsert", "delete", "insert_overwrite", "delete_partitions")
LAYOUTS = [
    Layout(),
    Layout("complex", "hive", "commit", 6),
    Layout("simple", "hive", "event", 8),
    Layout("simple", "plain", "event", 9, "mor"),
    Layout("complex", "hive", "commit", 6, "mor"),
    Layout("simple", "hive", "event", 8, "mor"),
]


def made(engine: Engine, path: Path, layout: Layout, options: dict[str, str] | None = None, **more: str) -> PudiTable:
    """A new table of trips by city; `more` are options of its creation."""
    arguments = layout.create_arguments()
    pudi.create(str(path), SCHEMA, **arguments | {"options": {**arguments["options"], **LEFT_OUT, **more}})
    return PudiTable(engine, path, options or {})


def base_columns(path: Path) -> set[tuple[str, ...]]:
    """Columns of the base files that lie in a table's folders."""
    files = [each for each in path.rglob("*.parquet") if ".hoodie" not in each.parts]
    return {tuple(pq.read_schema(each).names) for each in files}


@pytest.mark.parametrize(("engine", "layout"), per_engine(LAYOUTS, LAYOUTS[2:4]), indirect=["engine"])
def test_verbs(engine: Engine, tmp_path: Path, layout: Layout) -> None:
    own, model = made(engine, tmp_path / "trips", layout), layout.model()
    for number, step in enumerate(steps(7, 7 if engine.name == "local" else 4, VERBS)):
        getattr(model, step.verb)(step.data.to_pylist(), *own.write(step.verb, step.data))
        assert_same(own.snapshot(), model.snapshot(), META_FIELDS, f"{number}: {step.verb}")
    rows = model.snapshot()
    if layout.kind == "mor":
        own.table.compact(options={"pudi.compaction.verify": "true"})
        assert_same(own.snapshot(), rows, META_FIELDS, "compaction")
    on = {} if engine.name == "local" else {"spark": engine.spark}  # type: ignore[attr-defined]
    own.table.update({"fare": "0.0"}, where="leg = 1 AND city = 'nyc'", **on)
    own.table.delete(where="city = 'chennai'", **on)
    moved = [row | ({"fare": 0.0} if (row["leg"], row["city"]) == (1, "nyc") else {}) for row in rows]
    expected = [row for row in moved if row["city"] != "chennai"]
    assert expected != rows
    assert_same(own.snapshot(), expected, META_FIELDS, "update and delete by predicate")
    own.table.cluster()
    assert_same(own.snapshot(), expected, META_FIELDS, "clustering")
    last = model.commits[-1]
    assert_same(own.as_of(last.instant), last.rows, META_FIELDS, "the state before the updates")
    assert own.table.check().ok
    assert base_columns(own.path) == {(*META_FIELDS, *(name for name in SCHEMA.names if name != "city"))}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("layout", [Layout(version=6), Layout("simple", "hive", "event", 9, "mor")], ids=str)
@pytest.mark.parametrize("base", ["PARQUET", "ORC", "HFILE"])
def test_indexes_and_other_base_files(tmp_path: Path, base: str, layout: Layout) -> None:
    more = {"hoodie.table.base.file.format": base}
    own, model = made(LocalEngine(), tmp_path / "trips", layout, STATISTICS, **more), layout.model()
    for step in steps(11, 5, VERBS):
        getattr(model, step.verb)(step.data.to_pylist(), *own.write(step.verb, step.data))
        assert_same(own.snapshot(), model.snapshot(), META_FIELDS, step.verb)
    for city in ("nyc", "chennai"):
        found = own.engine.read(own.table.scan(where=f"city = '{city}' AND fare >= 0"))
        assert_same(found, [row for row in model.snapshot() if row["city"] == city], META_FIELDS)
    assert own.engine.read(own.table.scan(columns=["city"])) != []
    assert own.table.check().ok


def test_changes(tmp_path: Path) -> None:
    own = made(LocalEngine(), tmp_path / "trips", Layout("simple", "hive", "event", 9, "mor"))
    first = own.table.upsert(table(trip(n, 10) for n in range(6)))
    own.table.upsert(table([trip(1, 20, "bob")]))
    changed = own.table.changes(since=first.completion_time).to_arrow().to_pylist()
    assert [(row["uuid"], row["rider"], row["city"]) for row in changed] == [("k0001", "bob", "sao_paulo")]
    images = own.table.changes(since=first.completion_time, format="cdc", images="struct").to_arrow().to_pylist()
    assert [(row["before"]["city"], row["after"]["city"]) for row in images] == [("sao_paulo", "sao_paulo")]


def test_several_columns_of_several_types(tmp_path: Path) -> None:
    """Readers, Hudi's too, get texts whatever the data's type, behind the other columns; null from its folder."""
    schema = pa.schema([("num", pa.int32()), ("id", pa.int64()), ("day", pa.date32()), ("name", pa.string())])
    partitions = ["num", "day"]
    own = pudi.create(tmp_path / "t", schema, record_key="id", partition_by=partitions, options=LEFT_OUT)
    assert own.schema.names == ["id", "name", "num", "day"]
    rows: list[dict[str, Any]] = [
        {"num": 7, "id": 1, "day": date(2024, 1, 2), "name": "a"},
        {"num": None, "id": 2, "day": None, "name": "b"},
    ]
    own.upsert(pa.Table.from_pylist(rows, schema=schema))
    own.upsert(pa.Table.from_pylist([rows[0] | {"name": "c"}], schema=schema))
    texts = [
        {"id": 1, "name": "c", "num": "7", "day": "2024-01-02"},
        {"id": 2, "name": "b", "num": None, "day": None},
    ]
    assert own.scan(meta_fields=False).to_arrow().sort_by("id").to_pylist() == texts
    own.delete(pa.Table.from_pylist([rows[0]], schema=schema).select(["id", "num", "day"]))
    assert own.scan(meta_fields=False).to_arrow().to_pylist() == texts[1:]
    assert own.scan(where="num IS NULL").to_arrow().num_rows == 1


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({}, pa.bool_(), "'part' of type bool"),
        ({}, pa.timestamp("us", "UTC"), "'part' of type timestamp"),
        ({"hoodie.populate.meta.fields": "false"}, pa.string(), "together with hoodie.populate.meta.fields=false"),
        ({"hoodie.table.cdc.enabled": "true"}, pa.string(), "together with hoodie.table.cdc.enabled=true"),
        (
            {
                "hoodie.table.keygenerator.type": "TIMESTAMP",
                "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
                "hoodie.keygen.timebased.output.dateformat": "yyyy",
            },
            pa.int64(),
            "folders are named by time",
        ),
    ],
)
def test_refused_at_creation(tmp_path: Path, options: dict[str, str], kind: pa.DataType, message: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("part", kind)])
    with pytest.raises(pudi.NotSupportedError, match=message):
        pudi.create(tmp_path / "t", schema, record_key="id", partition_by="part", options={**options, **LEFT_OUT})
    assert not (tmp_path / "t").exists() or not any((tmp_path / "t").rglob("hoodie.properties"))


def test_a_path_that_does_not_tell(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("a", pa.string()), ("b", pa.string())])
    own = pudi.create(tmp_path / "t", schema, record_key="id", partition_by=["a", "b"], options=LEFT_OUT)
    with pytest.raises(pudi.NotSupportedError, match="'x/y/z'"):
        own.upsert(pa.table({"id": [1], "a": ["x/y"], "b": ["z"]}))
    assert own.scan().to_arrow().num_rows == 0
    with pytest.raises(pudi.NotSupportedError, match="leave out the partition columns"):
        own.add_column("more", pa.int64())
