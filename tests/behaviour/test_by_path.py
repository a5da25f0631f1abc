"""Tables by their path in one call: `pudi.write`, `pudi.read`, `pudi.exists`, and `pudi.create` of a frame."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import pudi
from support.engines import Engine

ROWS = pa.table({"id": [1, 2], "city": ["rome", "oslo"], "ts": [1, 1]})
NEWS = pa.table({"id": [2, 3], "city": ["oslo", "rome"], "ts": [2, 2]})


def ids(path: Path) -> list[tuple[int, int]]:
    rows = pudi.read(path, ["id", "ts"]).to_arrow().to_pylist()
    return sorted((row["id"], row["ts"]) for row in rows)


def test_a_first_write_makes_the_table(engine: Engine, tmp_path: Path) -> None:
    done = pudi.write(tmp_path / "t", engine.frame(ROWS), record_key="id", partition_by="city", ordering="ts")
    assert done is not None
    assert (done.operation, done.records_inserted) == ("BULK_INSERT", 2)
    config = pudi.Table(tmp_path / "t").config
    assert (config.record_key_fields, config.partition_fields, config.ordering_fields) == (("id",), ("city",), ("ts",))
    assert pudi.read(tmp_path / "t").schema.names == ["id", "city", "ts"]


@pytest.mark.parametrize(
    ("mode", "operation", "found"),
    [
        ("append", "INSERT", [(1, 1), (2, 1), (2, 2), (3, 2)]),
        ("upsert", "UPSERT", [(1, 1), (2, 2), (3, 2)]),
        ("overwrite", "INSERT_OVERWRITE_TABLE", [(2, 2), (3, 2)]),
    ],
)
def test_modes_write_to_a_table_that_is_there(
    engine: Engine, tmp_path: Path, mode: str, operation: str, found: list[tuple[int, int]]
) -> None:
    pudi.write(tmp_path / "t", ROWS, record_key="id", ordering="ts")
    done = pudi.write(tmp_path / "t", engine.frame(NEWS), mode=mode)
    assert done is not None
    assert done.operation == operation
    assert ids(tmp_path / "t") == found


def test_overwrite_keeps_the_properties_and_the_history(tmp_path: Path) -> None:
    pudi.write(tmp_path / "t", ROWS, record_key="id", options={"hoodie.populate.meta.fields": "false"})
    before = pudi.Table(tmp_path / "t").config
    pudi.write(tmp_path / "t", NEWS, mode="overwrite", record_key="id")
    assert pudi.Table(tmp_path / "t").config == before
    assert len(pudi.Table(tmp_path / "t").timeline.commits) == 2


@pytest.mark.parametrize("mode", ["append", "overwrite", "upsert", "error", "ignore"])
def test_each_mode_makes_a_table_where_there_is_none(tmp_path: Path, mode: str) -> None:
    done = pudi.write(tmp_path / "t", pa.concat_tables([ROWS, NEWS]), mode=mode, record_key="id", ordering="ts")
    assert done is not None
    assert done.records_inserted == (3 if mode == "upsert" else 4)


def test_error_and_ignore_leave_a_table_as_it_is(tmp_path: Path) -> None:
    pudi.write(tmp_path / "t", ROWS)
    assert pudi.write(tmp_path / "t", NEWS, mode="ignore") is None
    with pytest.raises(pudi.TableExistsError, match="use mode append, overwrite, upsert or ignore"):
        pudi.write(tmp_path / "t", NEWS, mode="error")
    assert ids(tmp_path / "t") == [(1, 1), (2, 1)]


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ({"record_key": "ts"}, "record_key is ts, the table's is id, and can't be changed"),
        ({"partition_by": ["city", "ts"]}, "partition_by is city, ts, the table's is city"),
        ({"ordering": "ts"}, "ordering is ts, the table's is none"),
    ],
)
@pytest.mark.parametrize("mode", ["append", "overwrite", "upsert"])
def test_roles_that_contradict_the_table_are_refused(
    tmp_path: Path, mode: str, roles: dict[str, Any], message: str
) -> None:
    pudi.write(tmp_path / "t", ROWS, record_key="id", partition_by="city")
    pudi.write(tmp_path / "t", NEWS, mode="upsert", record_key=["id"], partition_by="city")
    with pytest.raises(pudi.InvalidArgumentError, match=message):
        pudi.write(tmp_path / "t", NEWS, mode=mode, **roles)
    assert len(pudi.Table(tmp_path / "t").timeline.commits) == 2


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"mode": "replace"}, pudi.InvalidArgumentError, "mode='replace': it is one of append, overwrite"),
        ({"mode": None}, pudi.InvalidArgumentError, "mode=None"),
        ({"mode": "upsert"}, pudi.InvalidArgumentError, "give record_key for a new table"),
        ({"record_key": "key"}, pudi.SchemaError, "record_key names 'key'"),
        ({"record_key": 1}, pudi.InvalidArgumentError, "record_key is a text or a list of texts"),
        ({"options": {"hoodie.index.typ": "BLOOM"}}, pudi.InvalidArgumentError, "did you mean hoodie.index.type"),
        ({"data": [{"id": 1}]}, pudi.InvalidArgumentError, "the data is a list"),
        ({"data": None}, pudi.InvalidArgumentError, "the data is a NoneType"),
        ({"data": pa.table({})}, pudi.SchemaError, "no columns"),
        ({"data": pa.table([[1], [2]], names=["a", "a"])}, pudi.SchemaError, "a column name comes twice|repeat"),
        ({"data": pa.table({"a": pa.array([1], pa.uint64())})}, pudi.SchemaError, "column 'a' has type uint64"),
        ({"data": pa.table({"a": pa.nulls(1)})}, pudi.SchemaError, "column 'a' has type null"),
        ({"data": pd.DataFrame({"a": [1, "x"]})}, pudi.SchemaError, "column a"),
    ],
)
def test_wrong_input_makes_no_table(
    tmp_path: Path, given: dict[str, Any], error: type[Exception], message: str
) -> None:
    data = given.pop("data", ROWS) if "data" in given else ROWS
    with pytest.raises(error, match=message):
        pudi.write(tmp_path / "t", data, **given)
    assert not pudi.exists(tmp_path / "t")


def test_no_rows_make_an_empty_table(tmp_path: Path) -> None:
    assert pudi.write(tmp_path / "t", ROWS.slice(0, 0), record_key="id") is None
    assert pudi.read(tmp_path / "t").to_arrow().schema == ROWS.schema
    pudi.write(tmp_path / "t", ROWS)
    pudi.write(tmp_path / "t", ROWS.slice(0, 0), mode="overwrite")
    assert ids(tmp_path / "t") == []


def test_a_scan_and_a_stream_of_batches_are_data(tmp_path: Path) -> None:
    pudi.write(tmp_path / "t", ROWS.to_reader(), record_key="id")
    pudi.write(tmp_path / "u", pudi.Table(tmp_path / "t").scan(), record_key="id")
    assert pudi.Table(tmp_path / "u").schema == ROWS.schema
    assert ids(tmp_path / "u") == [(1, 1), (2, 1)]


def test_a_catalog_has_no_place_for_a_new_table(tmp_path: Path) -> None:
    place = f"sqlite:{tmp_path}/catalog.db/default.trips"
    assert not pudi.exists(place)
    with pytest.raises(pudi.TableNotFoundError, match="create_table"):
        pudi.write(place, ROWS)
    pudi.catalog(f"sqlite:{tmp_path}/catalog.db").create_table("trips", str(tmp_path / "t"), ROWS, record_key="id")
    assert pudi.exists(place)
    pudi.write(place, ROWS)
    assert ids(tmp_path / "t") == [(1, 1), (2, 1)]


def test_read_is_a_scan_of_the_table(tmp_path: Path) -> None:
    first = pudi.write(tmp_path / "t", ROWS, record_key="id")
    pudi.write(tmp_path / "t", NEWS, mode="upsert")
    assert first is not None
    assert pudi.read(tmp_path / "t", ["id"], "id > 1", as_of=first.instant).to_arrow().to_pydict() == {"id": [2]}
    assert pudi.read(tmp_path / "t", meta_fields=True).schema == pudi.Table(tmp_path / "t").scan().schema
    with pytest.raises(pudi.TableNotFoundError):
        pudi.read(tmp_path / "none")


def test_exists_looks_for_any_hudi_table(tmp_path: Path) -> None:
    assert not pudi.exists(tmp_path)
    assert not pudi.exists(str(tmp_path / "none"))
    pudi.write(tmp_path / "t", ROWS)
    assert pudi.exists(tmp_path / "t")
    (tmp_path / "t" / ".hoodie" / "hoodie.properties").write_bytes(b"\xff\xfe")
    assert pudi.exists(tmp_path / "t")
    with pytest.raises(pudi.InvalidArgumentError):
        pudi.exists(1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "given",
    [
        ROWS,
        ROWS.schema,
        ROWS.to_batches()[0],
        pl.DataFrame(ROWS),
        pl.DataFrame(ROWS).schema,
        ROWS.to_pandas(),
        ROWS.to_pandas(types_mapper=pd.ArrowDtype).set_index("id", drop=False),
        ROWS.append_column("_hoodie_commit_time", pa.array(["0", "0"])),
    ],
    ids=["table", "schema", "batch", "polars", "polars schema", "pandas", "arrow-backed", "meta fields"],
)
def test_create_takes_the_columns_of_data(tmp_path: Path, given: Any) -> None:
    made = pudi.create(tmp_path / "t", given, record_key="id")
    assert [(field.name, field.type) for field in made.schema] == [(field.name, field.type) for field in ROWS.schema]
    assert made.scan().to_arrow().num_rows == 0


def test_create_takes_the_columns_of_a_frame(engine: Engine, tmp_path: Path) -> None:
    made = pudi.create(tmp_path / "t", engine.frame(ROWS), record_key="id")
    assert made.schema.names == ROWS.column_names


def test_create_leaves_a_stream_to_be_read(tmp_path: Path) -> None:
    stream = ROWS.to_reader()
    pudi.create(tmp_path / "t", stream, record_key="id").insert(stream)
    assert ids(tmp_path / "t") == [(1, 1), (2, 1)]


@pytest.mark.parametrize("given", [None, 5, "id long", [("id", "long")]])
def test_create_refuses_what_has_no_columns(tmp_path: Path, given: Any) -> None:
    with pytest.raises(pudi.InvalidArgumentError, match="schema must be"):
        pudi.create(tmp_path / "t", given)
