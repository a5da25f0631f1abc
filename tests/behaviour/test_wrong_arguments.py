"""Arguments that no read can take are errors that say so, before anything is read or written."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi

WEST = dt.timezone(dt.timedelta(hours=-5))
CASES: dict[str, Callable[[pudi.Table], Any]] = {
    "half": lambda table: table.scan(where="s = '\ud800'"),
    "delete": lambda table: table.delete(where="s = '\ud800'"),
    "update": lambda table: table.update({"s": "'\ud800'"}),
    "large limit": lambda table: table.scan(limit=1 << 70),
    "limit of a fraction": lambda table: table.scan(limit=1.5),  # type: ignore[arg-type]
    "head": lambda table: table.head(1 << 70),
    "history": lambda table: table.history(limit=1.5),  # type: ignore[arg-type]
    "columns": lambda table: table.scan([1]),  # type: ignore[list-item]
    "columns that are no list": lambda table: table.scan(1),  # type: ignore[arg-type]
    "columns of changes": lambda table: table.changes(columns=[1], format="cdc"),  # type: ignore[list-item]
    "late": lambda table: table.scan(as_of=dt.datetime.max.replace(tzinfo=WEST)),
    "changes": lambda table: table.changes(dt.datetime.max.replace(tzinfo=WEST)),
    "options that are no mapping": lambda table: table.upsert(table.head(1), options=["a"]),  # type: ignore[arg-type]
    "many": lambda table: table.scan(where=" AND ".join(f"id <> {number}" for number in range(3_000))),
}

HALF = "\ud800"
WRONG: dict[str, Callable[[pudi.Table, Path], Any]] = {
    "place": lambda table, folder: pudi.Table(f"{folder}/{HALF}"),
    "place with a zero": lambda table, folder: pudi.sql(f"SELECT * FROM hudi.`{folder}/a\0`"),
    "no place": lambda table, folder: pudi.Table(None),  # type: ignore[arg-type]
    "new place": lambda table, folder: pudi.create(folder / HALF, {"id": "int"}, record_key="id"),
    "name": lambda table, folder: pudi.create(folder / "u", {"id": "int"}, record_key="id", name=HALF),
    "key": lambda table, folder: pudi.create(folder / "u", {"id": "int"}, record_key=1),  # type: ignore[arg-type]
    "parts": lambda table, folder: pudi.create(folder / "u", {"id": "int"}, record_key="id", partition_by=[1]),  # type: ignore[list-item]
    "options": lambda table, folder: pudi.Table(table.path, options="a=b"),  # type: ignore[arg-type]
    "option": lambda table, folder: pudi.Table(table.path, options={None: "1"}),  # type: ignore[dict-item]
    "added": lambda table, folder: table.add_column(HALF, "int"),
    "renamed": lambda table, folder: table.rename_column("v", HALF),
    "renamed to none": lambda table, folder: table.rename_column("v", None),  # type: ignore[arg-type]
    "dropped": lambda table, folder: table.drop_column(0),  # type: ignore[arg-type]
    "partition": lambda table, folder: table.delete_partitions([HALF]),
    "number": lambda table, folder: table.delete_partitions([2021]),  # type: ignore[list-item]
    "added partition": lambda table, folder: table.add_partitions([HALF]),
    "partition path": lambda table, folder: table.partition_path({"p": HALF}),
    "set": lambda table, folder: table.update("v = v + 1"),  # type: ignore[arg-type]
    "moment": lambda table, folder: table.update({"t": dt.datetime.max.replace(tzinfo=WEST)}),
    "clause": lambda table, folder: table.merge(pa.table({"id": ["a"]})).when_matched_update("v = 1"),  # type: ignore[arg-type]
    "on": lambda table, folder: table.merge(pa.table({"id": ["a"]}), on=[1]),  # type: ignore[list-item]
    "comment": lambda table, folder: table.savepoint(comment=HALF),
    "instant": lambda table, folder: table.restore(["1"]),  # type: ignore[arg-type]
    "order": lambda table, folder: table.cluster(order_by=[1]),  # type: ignore[list-item]
    "service": lambda table, folder: table.schedule(None),  # type: ignore[arg-type]
    "index": lambda table, folder: table.create_index("secondary_index", [1]),  # type: ignore[list-item]
    "name of an index": lambda table, folder: table.create_index("secondary_index", "v", name=1),  # type: ignore[arg-type]
    "function": lambda table, folder: table.create_index("column_stats", "v", name="n", expr=1),  # type: ignore[arg-type]
    "options of an index": lambda table, folder: table.create_index("column_stats", options="a=b"),  # type: ignore[arg-type]
    "options of a clustering": lambda table, folder: table.cluster(options="a=b"),  # type: ignore[arg-type]
    "text to delete": lambda table, folder: table.delete("v = 1"),
    "seconds": lambda table, folder: table.wait_for_services("1"),  # type: ignore[arg-type]
    "negative seconds": lambda table, folder: table.wait_for_services(-1),
    "plans": lambda table, folder: table.run_pending(instants=1),  # type: ignore[arg-type]
    "pending service": lambda table, folder: table.run_pending(service=1),  # type: ignore[arg-type]
    "confirm": lambda table, folder: table.repair(confirm="yes"),  # type: ignore[arg-type]
    "session": lambda table, folder: table.clean(spark="local[2]"),
    "partitions": lambda table, folder: table.insert_overwrite(table.head(1), partitions=1),  # type: ignore[arg-type]
    "deleted partitions": lambda table, folder: table.delete_partitions(1),  # type: ignore[arg-type]
    "added partitions": lambda table, folder: table.add_partitions(1),  # type: ignore[arg-type]
    "listed partitions": lambda table, folder: table.files(partitions=1),  # type: ignore[arg-type]
    "catalog": lambda table, folder: table.sync(None),  # type: ignore[arg-type]
    "more metadata": lambda table, folder: table.write(table.head(1), "upsert", extra_metadata={"k": 1}),  # type: ignore[dict-item]
    "metadata": lambda table, folder: table.write(table.head(1), "upsert", extra_metadata="k=1"),  # type: ignore[arg-type]
    "metadata of a delete": lambda table, folder: table.delete_partitions(["x"], extra_metadata={"k": None}),  # type: ignore[dict-item]
    "alias": lambda table, folder: table.merge(pa.table({"id": ["a"]}), source_alias=1),  # type: ignore[arg-type]
    "storage": lambda table, folder: pudi.Table(table.path, storage_options="a=b"),  # type: ignore[arg-type]
    "schema": lambda table, folder: pudi.create(folder / "u", {1: "int"}),
    "imported": lambda table, folder: pudi.import_table(folder, 1),  # type: ignore[arg-type]
    "kind of catalogs": lambda table, folder: pudi.catalog(1),  # type: ignore[arg-type]
    "address": lambda table, folder: pudi.catalog("hive", uri=1),  # type: ignore[arg-type]
    "options of a catalog": lambda table, folder: pudi.catalog(f"sqlite:{folder}/c", options="a=b"),  # type: ignore[arg-type]
    "batches": lambda table, folder: pudi.catalog("hive://h:1", options={"hoodie.datasource.hive_sync.batch_num": "x"}),
    "registered kind": lambda table, folder: pudi.register_catalog(1, print),  # type: ignore[arg-type]
    "table of a catalog": lambda table, folder: pudi.catalog(f"sqlite:{folder}/c").table(1),  # type: ignore[arg-type]
    "database": lambda table, folder: pudi.catalog(f"sqlite:{folder}/c").tables(1),  # type: ignore[arg-type]
}


@pytest.fixture(scope="module")
def trips(tmp_path_factory: pytest.TempPathFactory) -> pudi.Table:
    columns = {"id": "string", "v": "int", "t": "timestamp", "p": "string"}
    made = pudi.create(tmp_path_factory.mktemp("wrong") / "t", columns, record_key="id", partition_by="p")
    made.insert(
        pa.table({"id": ["a"], "v": pa.array([1], pa.int32()), "t": [dt.datetime(2024, 1, 1, tzinfo=WEST)], "p": ["x"]})
    )
    return made


@pytest.mark.parametrize("case", WRONG)
def test_no_verb_takes_it(case: str, trips: pudi.Table, tmp_path: Path) -> None:
    done = [each.requested for each in trips.timeline.commits]
    with pytest.raises(pudi.InvalidArgumentError):
        WRONG[case](trips, tmp_path)
    assert [each.requested for each in trips.refresh().timeline.commits] == done
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("case", CASES)
def test_it_is_refused(case: str, tmp_path: Path) -> None:
    table = pudi.create(tmp_path / "t", {"id": "long", "s": "string"}, record_key="id")
    table.insert(pa.table({"id": [1], "s": ["a"]}))
    with pytest.raises(pudi.InvalidArgumentError):
        CASES[case](table)
    assert table.scan(["id"]).to_arrow().num_rows == 1


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        (" OR ".join(f"id = {number}" for number in range(2, 12_000)), [5]),
        ("id = 1 OR id = NULL OR id = 7", [1]),
        ("NOT (id = 7 OR id = NULL OR id = 8)", []),
        ("NOT (id = 7 OR id = 5 OR s = 'c')", [1]),
        ("id = 1 OR s = 'b' OR id = 9 OR s = 'd'", [1, 5]),
    ],
)
def test_equalities_are_one_set(where: str, ids: list[int], tmp_path: Path) -> None:
    table = pudi.create(tmp_path / "t", {"id": "long", "s": "string"}, record_key="id")
    table.insert(pa.table({"id": [1, 5], "s": ["a", "b"]}))
    assert sorted(table.scan(["id"], where).to_arrow()["id"].to_pylist()) == ids
