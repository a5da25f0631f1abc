"""`Scan.to_files`, and the commands `pudi import` and `pudi export`."""

from __future__ import annotations

import csv
import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import pudi
from pudi.cli.app import app

ROWS = pa.table(
    {"id": [1, 2, 3], "city": ["nyc", "sf", None], "at": [dt.datetime(2024, 1, day) for day in (1, 2, 3)]},
    pa.schema([("id", pa.int64()), ("city", pa.string()), ("at", pa.timestamp("us"))]),
)


@pytest.fixture
def table(tmp_path: Path) -> pudi.Table:
    made = pudi.create(tmp_path / "t", ROWS.schema, record_key="id", table_type="mor")
    made.insert(ROWS)
    made.upsert(ROWS.slice(1, 1).set_column(1, "city", pa.array(["la"])))
    return made


def _rows(folder: Path, format: str) -> list[dict[str, Any]]:
    files = sorted(folder.glob(f"part-*.{format}"))
    assert {file.name for file in folder.iterdir()} == {"_SUCCESS", *(file.name for file in files)}
    if format == "parquet":
        found = pa.concat_tables(map(pq.read_table, files)).to_pylist()
    elif format == "orc":
        found = pa.concat_tables(map(orc.read_table, files)).to_pylist()
    elif format == "arrow":
        found = pa.concat_tables(pa.ipc.open_file(file).read_all() for file in files).to_pylist()
    elif format == "json":
        found = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    else:
        found = [row for file in files for row in csv.DictReader(file.read_text().splitlines())]
    return sorted(found, key=lambda row: str(row["id"]))


@pytest.mark.parametrize("format", ["parquet", "orc", "csv", "json", "arrow"])
def test_every_format_holds_the_merged_rows(table: pudi.Table, tmp_path: Path, format: str) -> None:
    done = table.scan(columns=["id", "city"], where="id < 3").to_files(tmp_path / "out", format=format)
    assert (done.rows, done.files) == (2, 1)
    plain = [(str(row["id"]), row["city"]) for row in _rows(tmp_path / "out", format)]
    assert plain == [("1", "nyc"), ("2", "la")]


def test_json_has_no_numbers_that_json_lacks(tmp_path: Path) -> None:
    kind = pa.struct([("deep", pa.list_(pa.float64()))])
    rows = pa.table({"id": ["a", "b", "c"], "x": [float("nan"), float("-inf"), 1.5]})
    rows = rows.append_column("s", pa.array([{"deep": [0.5, float("inf")]}, None, {"deep": None}], kind))
    table = pudi.create(tmp_path / "t", rows.schema, record_key="id")
    table.insert(rows)
    table.scan(columns=["id", "x", "s"]).to_files(tmp_path / "out", format="json")
    text = (tmp_path / "out" / "part-00000.json").read_text()
    found = [
        json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is no JSON")) for line in text.splitlines()
    ]
    assert sorted(found, key=lambda row: row["id"]) == [
        {"id": "a", "x": "NaN", "s": {"deep": [0.5, "Infinity"]}},
        {"id": "b", "x": "-Infinity", "s": None},
        {"id": "c", "x": 1.5, "s": {"deep": None}},
    ]


def test_no_rows_and_what_is_refused(table: pudi.Table, tmp_path: Path) -> None:
    done = table.scan(where="id > 9").to_files(tmp_path / "none")
    assert (done.rows, pq.read_table(tmp_path / "none" / "part-00000.parquet").num_rows) == (0, 0)
    with pytest.raises(pudi.InvalidArgumentError, match=r"_SUCCESS|part-00000"):
        table.scan().to_files(tmp_path / "none")
    with pytest.raises(pudi.InvalidArgumentError, match="parquet, csv"):
        table.scan().to_files(tmp_path / "other", format="xml")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("place", ["", "/out", "/.hoodie/out"])
def test_no_export_goes_into_its_table(table: pudi.Table, place: str) -> None:
    before = sorted(Path(table.path).rglob("*"))
    with pytest.raises(pudi.InvalidArgumentError, match="choose one outside of it"):
        table.scan().to_files(table.path + place)
    assert sorted(Path(table.path).rglob("*")) == before
    with pytest.raises(pudi.InvalidArgumentError):
        table.scan().to_files(1)  # type: ignore[arg-type]


def test_the_commands_bring_a_table_out_and_in_again(table: pudi.Table, tmp_path: Path) -> None:
    run = CliRunner().invoke
    first = table.timeline.commits[0].requested
    done = run(app, ["export", table.path, str(tmp_path / "out"), "--as-of", first, "-c", "id,city"])
    assert (done.exit_code, done.stdout) == (0, "wrote 3 rows to 1 file\n")
    done = run(app, ["import", str(tmp_path / "out"), str(tmp_path / "again"), "--record-key", "id"])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("imported 1 file by ")
    found = pudi.Table(tmp_path / "again").scan(meta_fields=False).to_arrow().sort_by("id").to_pylist()
    assert found == ROWS.select(["id", "city"]).to_pylist()
    done = run(app, ["import", str(tmp_path / "out"), str(tmp_path / "third"), "--record-key", "city"])
    assert done.exit_code == 1
    assert "is null or empty in 1 of 3 rows" in done.output
