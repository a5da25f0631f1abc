"""Scans and tables in the hand of a Python programmer: counted, iterated, pickled, with pandas' types."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import pudi
from pudi.client import MetaClient
from pudi.context import Context
from pudi.storage import CountingStorage, open_storage

ROWS = pa.table(
    {"id": range(8), "city": ["rome", "oslo"] * 4, "place": [{"x": n, "y": "b"} for n in range(8)], "ts": [1] * 8}
)
ORC, HFILE = ({"hoodie.table.base.file.format": name} for name in ("ORC", "HFILE"))


def made(path: Path, kind: str = "cow", options: Mapping[str, str] | None = None) -> pudi.Table:
    table = pudi.create(
        path, ROWS, record_key="id", partition_by="city", ordering="ts", table_type=kind, options=options
    )
    table.insert(ROWS)
    return table


def changed(table: pudi.Table) -> pudi.Table:
    table.upsert(pa.table({"id": [0, 10], "city": ["rome"] * 2, "place": [{"x": 9, "y": "a"}] * 2, "ts": [2, 2]}))
    table.delete(pa.table({"id": [2], "city": ["rome"]}))
    return table


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("options", [{}, ORC, HFILE, {"hoodie.populate.meta.fields": "false"}], ids=str)
def test_a_count_is_the_number_of_rows(tmp_path: Path, kind: str, options: dict[str, str]) -> None:
    table = changed(made(tmp_path / "t", kind, options))
    scans: dict[str, dict[str, Any]] = {
        "all": {},
        "one partition": {"where": "city = 'oslo'"},
        "a condition": {"where": "ts > 1"},
        "no row": {"where": "id > 100"},
        "keys": {"keys": pa.table({"id": [0, 1, 99]})},
        "limit": {"limit": 3},
        "limit beyond": {"limit": 100},
        "limit 0": {"limit": 0},
        "limit and condition": {"limit": 1, "where": "ts > 1"},
        "a field": {"columns": ["place.x"], "where": "id < 4"},
        "the past": {"as_of": table.timeline.commits[0].requested},
        "base files": {"read_optimized": True},
    }
    for name, arguments in scans.items():
        scan = table.scan(**arguments)
        assert scan.count() == scan.to_arrow().num_rows, name
    assert len(table) == 8
    if not options:
        changes = table.changes()
        assert changes.count() == changes.to_arrow().num_rows
        assert table.changes(format="cdc").count() == table.changes(format="cdc").to_arrow().num_rows


def test_a_table_without_rows_is_there(tmp_path: Path) -> None:
    table = pudi.create(tmp_path / "t", ROWS, record_key="id")
    assert len(table) == 0
    assert table
    assert table.scan().count() == 0


def test_a_count_reads_footers_alone(tmp_path: Path) -> None:
    rows = pa.table({"id": range(200_000), "text": [f"text {number}" for number in range(200_000)]})
    pudi.write(tmp_path / "t", rows, record_key="id")
    size = sum(path.stat().st_size for path in (tmp_path / "t").glob("*.parquet"))
    storage = CountingStorage(open_storage(str(tmp_path / "t")))
    scan = pudi.Table.of(MetaClient.open(str(tmp_path / "t"), None, {}, Context(), storage), {}).scan()
    assert scan.plan.slices
    for path in (tmp_path / "t").glob("*.parquet"):  # what isn't the footer is gone
        content = path.read_bytes()
        footer = int.from_bytes(content[-8:-4], "little") + 8
        path.write_bytes(bytes(len(content) - footer) + content[-footer:])
        assert footer < size / 10
    assert scan.count() == 200_000


def test_batches_are_iterated(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    scan = table.scan(["id"])
    assert sorted(number for batch in scan for number in batch["id"].to_pylist()) == list(range(8))
    assert [batch.num_rows for batch in scan] == [batch.num_rows for batch in scan.to_batches()]
    for frame in (pl.DataFrame(scan), pa.table(scan)):
        assert frame.shape == (8, 1)


def test_pandas_makes_no_row_of_a_batch(tmp_path: Path) -> None:
    scan = made(tmp_path / "t").scan()
    with pytest.raises(pudi.InvalidArgumentError, match="to_pandas"):
        pd.DataFrame(scan)
    assert pa.table(scan).num_rows == pl.DataFrame(scan).height == 8


def test_pandas_types_are_chosen(tmp_path: Path) -> None:
    scan = made(tmp_path / "t").scan(["id", "city"])
    arrow = scan.to_pandas(types_mapper=pd.ArrowDtype)
    assert list(arrow.dtypes) == [pd.ArrowDtype(pa.int64()), pd.ArrowDtype(pa.string())]
    nullable = scan.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
    assert nullable.dtypes["id"] == pd.Int64Dtype()
    assert scan.to_pandas().dtypes["id"] == "int64"


READ = """
import pickle, sys
for path in sys.argv[1:]:
    with open(path, "rb") as file:
        found = pickle.load(file)
    if hasattr(found, "scan"):
        found = found.scan()
    print(sorted(row["id"] for row in found.to_arrow().to_pylist()))
"""


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_tables_and_scans_go_to_another_process(tmp_path: Path, kind: str) -> None:
    options = {"hoodie.memory.merge.max.size": "100000000"}
    table = pudi.Table(made(tmp_path / "t", kind).path, options)
    first = table.timeline.commits[-1]
    changed(table)
    planned = table.scan(["id", "place.x"], "ts > 1")
    assert planned.plan.slices
    things = {
        "table": table,
        "scan": table.scan(),
        "planned": planned,
        "past": table.scan(as_of=first.requested),
        "changes": table.changes(first.completion, columns=["id"]),
    }
    for name, thing in things.items():
        (tmp_path / name).write_bytes(pickle.dumps(thing))
    table.insert(ROWS.slice(0, 1).set_column(0, "id", pa.array([77])))
    paths = [str(tmp_path / name) for name in things]
    done = subprocess.run([sys.executable, "-c", READ, *paths], capture_output=True, text=True, check=True)
    now = [0, 1, 3, 4, 5, 6, 7, 10]
    assert done.stdout.splitlines() == [str([*now, 77]), str(now), "[0, 10]", str(list(range(8))), "[0, 10]"]


def test_a_copy_of_a_table_writes(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    again = pickle.loads(pickle.dumps(table))
    assert (again.path, again.options) == (table.path, table.options)
    changed(again)
    assert len(table) == len(copy.deepcopy(table)) == len(copy.copy(table)) == 8
    assert pickle.loads(pickle.dumps(table.maintenance)).clean is not None
    feed = pickle.loads(pickle.dumps(table.changes(format="cdc")))
    assert feed.count() == table.changes(format="cdc").count()
    dataset = pickle.loads(pickle.dumps(table.scan(["id"]).to_dataset()))
    assert dataset.count_rows() == 8


def test_a_pickle_of_a_table_that_is_gone_says_so(tmp_path: Path) -> None:
    pickled = pickle.dumps(made(tmp_path / "t"))
    (tmp_path / "t").rename(tmp_path / "u")
    with pytest.raises(pudi.TableNotFoundError):
        pickle.loads(pickled)
