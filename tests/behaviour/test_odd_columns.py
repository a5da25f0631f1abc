"""Columns that a table can't take as they are: taken for what they mean, or refused with the column's name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import pudi
from support.engines import Engine

ONE = pa.array([1], pa.int32())


def made(path: Path, **more: Any) -> pudi.Table:
    return pudi.create(path / "t", {"id": "int", "c": "string"}, record_key="id", **more)


@pytest.mark.parametrize("kind", ["Categorical", "Enum"])
def test_categories_of_polars_are_texts(tmp_path: Path, kind: str) -> None:
    polars = pytest.importorskip("polars")
    dtype = polars.Categorical if kind == "Categorical" else polars.Enum(["x", "y"])
    data = polars.DataFrame({"id": [1, 2, 3], "c": ["y", None, "x"]}, schema={"id": polars.Int32, "c": dtype})
    table = made(tmp_path)
    table.insert(data)
    assert sorted(table.scan(["id", "c"]).to_arrow().to_pylist(), key=lambda row: row["id"]) == [
        {"id": 1, "c": "y"},
        {"id": 2, "c": None},
        {"id": 3, "c": "x"},
    ]


def of_marker(value: object) -> pa.Table:
    return pa.table({"id": ONE, "c": ["x"], "_hoodie_is_deleted": [value]})


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (lambda: of_marker("true"), "_hoodie_is_deleted"),
        (lambda: of_marker(1), "_hoodie_is_deleted"),
        (lambda: of_marker(1.0), "_hoodie_is_deleted"),
        (lambda: pa.table({"id": ONE, "c": ["x"], "_pudi_hash": [1]}), "_pudi_hash"),
    ],
    ids=["text", "number", "fraction", "internal"],
)
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_batch_is_refused_by_column(
    engine: Engine, tmp_path: Path, kind: str, data: Callable[[], Any], named: str
) -> None:
    table = made(tmp_path, table_type=kind)
    for verb in (table.upsert, table.insert, table.bulk_insert):
        with pytest.raises(pudi.SchemaError, match=named):
            verb(engine.frame(data()))
    assert len(table.timeline.commits) == 0


@pytest.mark.parametrize(
    ("frame", "named"),
    [
        (lambda: pd.DataFrame([[1, "a", "b"]], columns=["id", "c", "c"]), "more than once: c"),
        (lambda: pd.DataFrame({"id": [1, 2], "c": ["a", 1]}), "column c"),
        (lambda: pd.DataFrame({"id": pd.arrays.SparseArray([1, 0]), "c": ["a", "b"]}), "column id"),
    ],
    ids=["double", "mixed", "sparse"],
)
def test_a_frame_of_pandas_is_refused_by_column(tmp_path: Path, frame: Callable[[], Any], named: str) -> None:
    table = made(tmp_path)
    for verb in (table.upsert, table.bulk_insert):
        with pytest.raises(pudi.SchemaError, match=named):
            verb(frame())
    assert len(table.timeline.commits) == 0


def test_half_a_surrogate_is_refused(tmp_path: Path) -> None:
    table = made(tmp_path)
    with pytest.raises(pudi.SchemaError, match="half of a surrogate pair"):
        table.upsert(pd.DataFrame({"id": [1], "c": ["\ud800"]}))
    assert len(table.timeline.commits) == 0


NULLS = pa.schema(
    [
        ("n", pa.null()),
        ("items", pa.list_(pa.null())),
        ("place", pa.struct([("x", pa.null()), ("y", pa.int64())])),
        ("tags", pa.map_(pa.string(), pa.null())),
        ("deep", pa.list_(pa.struct([("z", pa.list_(pa.null()))]))),
    ]
)
TYPED = {
    "n": "double",
    "items": "array<int>",
    "place": "struct<x: string, y: bigint>",
    "tags": "map<string, date>",
    "deep": "array<struct<z: array<double>>>",
}
NOTHING = {"n": None, "items": [None, None], "place": {"x": None, "y": 5}, "tags": [("k", None)], "deep": [{"z": []}]}


SQL = {
    "n": "NULL",
    "items": "array(NULL, NULL)",
    "place": "named_struct('x', NULL, 'y', nullif(5L, 0L))",
    "tags": "map('k', NULL)",
    "deep": "array(CASE WHEN 1 = 1 THEN named_struct('z', CASE WHEN 1 = 1 THEN array() END) END)",  # null is possible
}


def of_nulls(engine: Engine, number: int, *names: str, **more: str) -> Any:
    """A row of columns whose types are null, or have null inside."""
    if engine.name != "local":  # Arrow can't cast them for a frame that the JVM holds
        columns = [f"{number} AS id", *(f"'{text}' AS {name}" for name, text in more.items())]
        return engine.spark.sql(  # type: ignore[attr-defined]
            f"SELECT {', '.join([*columns, *(f'{SQL[name]} AS {name}' for name in names)])}"
        )
    schema = pa.schema([("id", pa.int32()), *((name, pa.string()) for name in more), *map(NULLS.field, names)])
    return pa.Table.from_pylist([{"id": number, **more, **{name: NOTHING[name] for name in names}}], schema)


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_null_types_take_the_tables_type(engine: Engine, tmp_path: Path, kind: str) -> None:
    table = pudi.create(tmp_path / "t", {"id": "int", **TYPED}, record_key="id", table_type=kind)
    table.upsert(of_nulls(engine, 1, *NULLS.names))
    table.merge(of_nulls(engine, 2, *NULLS.names), on="id").when_not_matched_insert_all().execute()
    found = table.scan(["id", *TYPED]).to_arrow().sort_by("id")
    assert found.to_pylist() == [{"id": 1, **NOTHING}, {"id": 2, **NOTHING}]


@pytest.mark.parametrize("name", NULLS.names)
def test_null_types_of_new_columns_are_refused(engine: Engine, tmp_path: Path, name: str) -> None:
    rows, table = of_nulls(engine, 1, name, c="x"), made(tmp_path)
    for verb in (table.upsert, table.bulk_insert):
        with pytest.raises(pudi.SchemaError, match=f"column '{name}.*has type null"):
            verb(rows)
    with pytest.raises(pudi.SchemaError, match=f"column '{name}.*has type null"):
        pudi.create(tmp_path / "new", rows.schema, record_key="id")
    assert len(table.timeline.commits) == 0
    assert not (tmp_path / "new").exists()


def test_no_table_has_columns_of_internal_names(tmp_path: Path) -> None:
    with pytest.raises(pudi.SchemaError, match="_pudi_hash"):
        pudi.create(tmp_path / "t", {"id": "int", "_pudi_hash": "long"}, record_key="id")
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_batches_without_a_marker_follow_one_with_it(engine: Engine, tmp_path: Path, kind: str) -> None:
    table = made(tmp_path, table_type=kind)
    rows = pa.table({"id": pa.array([1, 2], pa.int32()), "c": ["a", "b"]})
    table.upsert(engine.frame(rows))
    table.upsert(engine.frame(pa.table({"id": ONE, "c": ["a"], "_hoodie_is_deleted": [True]})))
    assert [row["id"] for row in engine.read(table.scan(["id"]))] == [2]
    table.upsert(engine.frame(pa.table({"id": ONE, "c": ["z"]})))
    found = sorted(engine.read(table.scan(["id", "c"])), key=lambda row: row["id"])
    assert [(row["id"], row["c"]) for row in found] == [(1, "z"), (2, "b")]
