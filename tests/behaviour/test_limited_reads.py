"""`limit` of scans, `Table.head` and `pudi head`: few rows are read from few files, and shown as they are."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import pudi
from pudi.cli.app import app
from support.engines import Engine
from support.golden import Golden
from support.layouts import Layout
from support.pudi_table import PudiTable
from support.rows import text, without
from support.trips import SCHEMA, table, trip

MOMENT = dt.datetime(2024, 2, 3, 4, 5, 6, 7, dt.timezone.utc)
LAYOUTS = [Layout(version=v, kind=k) for v in (6, 8, 9) for k in ("cow", "mor")]


def run(*words: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(each) for each in words])
    assert result.exit_code == code, result.output
    return result.output


@pytest.mark.sampled(6)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_a_limit_is_of_the_rows_that_pass_the_filter(tmp_path: Path, engine: Engine, layout: Layout) -> None:
    made = PudiTable.create(engine, tmp_path / "t", SCHEMA, layout)
    made.write("upsert", table([trip(number, 1) for number in range(30)]))
    made.write("upsert", table([trip(number, 2, "bob") for number in range(0, 30, 2)]))
    whole = {text(row) for row in made.snapshot()}
    for limit in (0, 1, 12, 29, 30, 31):
        rows = made.engine.read(made.table.scan(limit=limit))
        assert len(rows) == min(limit, 30)
        assert {text(row) for row in rows} <= whole
    bobs = made.engine.read(made.table.scan(where="rider = 'bob'", limit=9))
    assert [row["rider"] for row in bobs] == ["bob"] * 9
    assert len(made.engine.read(made.table.scan(where="rider = 'bob' AND city = 'nyc'", limit=9))) == 5
    scan = made.table.scan([], limit=7)
    assert scan.to_arrow().num_rows == 7 if engine.name == "local" else scan.to_spark(engine.spark).count() == 7
    assert "limit       7" in scan.explain()


def test_a_negative_limit_is_refused(tmp_path: Path) -> None:
    trips = pudi.create(tmp_path / "t", SCHEMA, record_key="uuid")
    with pytest.raises(pudi.InvalidArgumentError, match="limit=-1: it is a whole number, 0 or more"):
        trips.scan(limit=-1)
    with pytest.raises(pudi.InvalidArgumentError, match="there is no column 'none'"):
        trips.head(columns=["none"])
    assert trips.head().num_rows == 0
    assert trips.head().schema.names == SCHEMA.names


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_no_file_is_read_beyond_the_rows(tmp_path: Path, layout: Layout) -> None:
    pudi.create(tmp_path / "t", SCHEMA, **layout.create_arguments())
    trips = pudi.Table(tmp_path / "t")
    trips.upsert(table([trip(number, 1) for number in range(30)]))
    trips.upsert(table([trip(number, 2, "bob") for number in range(30)]))
    first, *others = trips.files()
    for each in others:
        for path in (each.base_file, *each.log_files):
            file = tmp_path / "t" / str(path)
            file.write_bytes(b"\0" * file.stat().st_size)
    found = trips.head(3)
    assert found["rider"].to_pylist() == ["bob"] * 3
    assert found["city"].unique().to_pylist() == [first.partition]
    assert trips.head(10, where=f"city = '{first.partition}'").num_rows == 10
    with pytest.raises(pudi.CorruptError):
        trips.head(11)


@pytest.mark.parametrize("name", ["cow_v6_basic", "mor_v6_services", "mor_v8_basic", "cow_v9_types", "mor_v9_services"])
def test_tables_of_hudi(golden_folder: Path, name: str) -> None:
    path = Golden(name).unpack(golden_folder)
    whole = pudi.Table(path).scan(meta_fields=False).to_arrow()
    assert len(json.loads(run("head", path, "-n", 3, "--json"))) == 3
    every = json.loads(run("head", path, "-n", 1000, "--json"))
    assert [list(row) for row in every] == [whole.column_names] * whole.num_rows
    assert run("head", path)


def test_the_past(tmp_path: Path) -> None:
    trips = pudi.create(tmp_path / "t", SCHEMA, record_key="uuid", ordering="ts")
    first = trips.insert(table([trip(1, 1)]))
    trips.upsert(table([trip(1, 2, "bob")]))
    assert first
    assert trips.head(as_of=first.instant)["rider"].to_pylist() == ["ann"]
    assert "ann" in run("head", tmp_path / "t", "--as-of", first.instant)
    assert without(trips.head(meta_fields=True).to_pylist(), pudi.Table(tmp_path / "t").schema.names)
    assert "_hoodie_record_key" in run("head", tmp_path / "t", "--meta-fields")


def test_values_as_json(tmp_path: Path) -> None:
    values = {
        "id": (pa.int64(), 2**60, 2**60),
        "at": (pa.timestamp("us", "UTC"), MOMENT, "2024-02-03T04:05:06.000007+00:00"),
        "day": (pa.date32(), dt.date(2024, 2, 3), "2024-02-03"),
        "price": (pa.decimal128(10, 2), decimal.Decimal("12.50"), "12.50"),
        "blob": (pa.binary(), b"\x00\xff", "AP8="),
        "ratio": (pa.float64(), float("nan"), "nan"),
        "tags": (pa.map_(pa.string(), pa.int64()), [("a", 1)], {"a": 1}),
        "place": (pa.struct([("x", pa.float64())]), {"x": float("inf")}, {"x": "inf"}),
        "names": (pa.list_(pa.string()), ["ü", None], ["ü", None]),
        "none": (pa.bool_(), None, None),
    }  # fmt: skip
    schema = pa.schema({name: kind for name, (kind, _, _) in values.items()})
    made = pudi.create(tmp_path / "t", schema, record_key="id")
    made.insert(pa.Table.from_pylist([{name: value for name, (_, value, _) in values.items()}], schema=schema))
    assert json.loads(run("head", made.path, "--json")) == [{name: told for name, (_, _, told) in values.items()}]
    said = run("head", made.path)
    for told in ("0x00ff", "2024-02-03 04:05:06.000007+00:00", '["ü", null]', "null"):
        assert told in said
    assert json.loads(run("head", made.path, "--json", "-c", "day, id", "--columns", "none")) == [
        {"day": "2024-02-03", "id": 2**60, "none": None}
    ]


def test_a_time_beyond_those_of_python(tmp_path: Path) -> None:
    schema = pa.schema({"id": pa.int64(), "at": pa.timestamp("us", "UTC")})
    made = pudi.create(tmp_path / "t", schema, record_key="id")
    made.insert(pa.table([[1], pa.array([10**18], pa.timestamp("us", "UTC"))], schema=schema))
    assert "33658-09-27" in run("head", made.path)
    assert json.loads(run("head", made.path, "--json"))[0]["at"].startswith("33658-09-27")


def test_nothing_of_a_value_controls_the_terminal(tmp_path: Path) -> None:
    made = pudi.create(tmp_path / "t", SCHEMA, record_key="uuid")
    evil = "\x1b[2J\x07[red]x[/]\u202e\n"
    made.insert(table([trip(1, 1, evil), trip(2, 1, "x" * 100)]))
    for words in ((), ("-c", "rider")):
        said = run("head", made.path, *words)
        assert "\\x1b[2J\\x07[red]x[/]\\u202e\\n" in said
        assert all(character.isprintable() for character in said.replace("\n", ""))
    assert json.loads(run("head", made.path, "--json", "-c", "rider"))[0] == {"rider": evil}
    assert "…" in run("head", made.path, "-c", "rider")


def test_wide_rows_are_printed_one_by_one(tmp_path: Path) -> None:
    schema = pa.schema({f"column_{number:02}": pa.string() for number in range(30)})
    made = pudi.create(tmp_path / "t", schema, record_key="column_00")
    made.insert(pa.table([[f"value {number}" * 5] for number in range(30)], schema=schema))
    lines = run("head", made.path).splitlines()
    assert lines[3] == f"column_03  {'value 3' * 5}"
    assert len(lines) == 30


def test_what_is_wrong_is_told_in_a_line(tmp_path: Path) -> None:
    made = pudi.create(tmp_path / "t", SCHEMA, record_key="uuid")
    made.insert(table([trip(1, 1)]))
    assert "TableNotFoundError" in run("head", tmp_path / "none", code=1)
    assert "\\x1b[2J" in run("head", tmp_path / "\x1b[2J", code=1)
    assert "there is no column 'x'" in run("head", made.path, "-c", "x", code=1)
    assert "InvalidArgumentError" in run("head", made.path, "--as-of", "yesterday", code=1)
    assert "InvalidArgumentError" in run("head", made.path, "--where", "x = ", code=1)
    assert "Invalid value" in run("head", made.path, "-n", "-1", code=2)
    assert run("head", made.path, "--where", "ts > 5") == "no rows\n"
    assert run("head", made.path, "--where", "ts > 5", "--json") == "[]\n"
