"""Folders whose names Spark, pyarrow, pandas or DuckDB has encoded are imported with the values that they stand for."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pudi
from support.engines import Engine

VALUES = ["São Paulo", "a b", "x+y", "50%", "a%20b", "日本", "plain", "k=v", None]


def by_pyarrow(folder: Path, data: pa.Table) -> None:
    pq.write_to_dataset(data, folder, partition_cols=["city"])


def by_duckdb(folder: Path, data: pa.Table) -> None:
    duckdb = pytest.importorskip("duckdb")
    duckdb.sql(f"COPY data TO '{folder}' (FORMAT parquet, PARTITION_BY (city))")


def by_spark(folder: Path, data: pa.Table) -> None:
    """Spark encodes a few characters of ASCII alone (ExternalCatalogUtils.escapePathName)."""
    for row in data.to_pylist():
        text = row["city"]
        special = "\"#%'*/:=?\\{[]^"
        name = "__HIVE_DEFAULT_PARTITION__"
        if text is not None:
            name = "".join(quote(char, "") if char in special else char for char in text)
        (folder / f"city={name}").mkdir(parents=True)
        pq.write_table(pa.table({"id": [row["id"]]}), folder / f"city={name}" / "part.parquet")


@pytest.mark.parametrize("write", [by_pyarrow, by_duckdb, by_spark], ids=["pyarrow", "duckdb", "spark"])
def test_values_of_encoded_folders(engine: Engine, tmp_path: Path, write: Callable[[Path, pa.Table], None]) -> None:
    data = pa.table({"id": list(range(len(VALUES))), "city": VALUES})
    write(tmp_path / "source", data)
    made = pudi.import_table(tmp_path / "source", tmp_path / "t", record_key="id", spark=getattr(engine, "spark", None))
    got = sorted(engine.read(made.scan(["id", "city"])), key=lambda row: row["id"])
    assert [row["city"] for row in got] == VALUES
    for number in (0, 1, 2):
        found = engine.read(made.scan(["id"], where=f"city = '{VALUES[number]}'"))
        assert [row["id"] for row in found] == [number]


@pytest.mark.metadata_by_default
@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("metadata", ["true", "false"])
def test_a_copy_of_a_partition_is_named_and_not_taken_in(tmp_path: Path, kind: str, metadata: str) -> None:
    options = {"hoodie.metadata.enable": metadata}
    made = pudi.create(
        tmp_path / "t",
        {"id": "int", "p": "string"},
        record_key="id",
        partition_by="p",
        table_type=kind,
        options=options,
    )
    rows = pa.table({"id": pa.array([1, 2], pa.int32()), "p": ["a", "b"]})
    made.insert(rows)
    made.upsert(rows)
    assert made.check().ok
    shutil.copytree(tmp_path / "t" / "a", tmp_path / "t" / "a_copy")
    found = pudi.Table(tmp_path / "t", options=options).check()
    (file_id,) = {each.file_id for each in made.file_slices() if each.partition == "a"}
    assert [each for each in found.differences if file_id in str(each) and "'a_copy'" in str(each)]
    done = pudi.Table(tmp_path / "t", options=options).repair()
    assert not done.ok
    assert done.built == ()
    if metadata == "true":
        assert pudi.Table(tmp_path / "t").scan().to_arrow().num_rows == 2
    shutil.rmtree(tmp_path / "t" / "a_copy")
    assert pudi.Table(tmp_path / "t", options=options).check().ok
