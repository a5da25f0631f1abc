"""Event times of written records in commits and in the history."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.client import MetaClient
from support.engines import Engine

FIELD = "hoodie.payload.event.time.field"
LONG = pa.int64()
TRACKS = {"hoodie.write.track.event.time.watermark": "true", FIELD: "at"}


def made(path: Path, kind: pa.DataType = LONG, *, ordering: str | None = "ts", table_type: str = "cow") -> Any:
    schema = pa.schema([("id", pa.int64()), ("ts", pa.int64()), ("at", kind), ("part", pa.string())])
    pudi.create(path, schema, record_key="id", ordering=ordering, partition_by="part", table_type=table_type)
    return pudi.Table(path, options=TRACKS), schema


def rows(schema: pa.Schema, *values: Any, part: str = "a", first: int = 0) -> pa.Table:
    columns = [[*range(first, first + len(values))], [1] * len(values), list(values), [part] * len(values)]
    return pa.table(columns, schema=schema)


def ranges(path: Path, instant: str) -> dict[str, tuple[int | None, int | None]]:
    meta = MetaClient.open(str(path), None, {})
    [commit] = [each for each in meta.store.load().commits if each.requested == instant]
    by_partition = meta.store.read_commit_metadata(commit).partition_to_write_stats
    return {p: (stat.min_event_time, stat.max_event_time) for p, stats in by_partition.items() for stat in stats}


@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_of_each_file_and_commit(engine: Engine, tmp_path: Path, table_type: str) -> None:
    mine, schema = made(tmp_path / "t", table_type=table_type)
    both = [rows(schema, 1_700_000_000, 1_600_000_000_500), rows(schema, 1_500_000_000, part="b", first=5)]
    done = mine.insert(engine.frame(pa.concat_tables(both)))
    assert ranges(tmp_path / "t", done.instant) == {
        "a": (1_600_000_000_500, 1_700_000_000_000),
        "b": (1_500_000_000_000, 1_500_000_000_000),
    }
    done = mine.upsert(engine.frame(rows(schema, 1_650_000_000)))
    assert ranges(tmp_path / "t", done.instant) == {"a": (1_650_000_000_000, 1_650_000_000_000)}
    newest, first = mine.history()
    assert newest.min_event_time == newest.max_event_time == datetime(2022, 4, 15, 5, 20, tzinfo=timezone.utc)
    assert first.to_dict()["min_event_time"] == "2017-07-14T02:40:00.000+00:00"
    assert mine.check().ok


@pytest.mark.parametrize(
    ("kind", "values", "found"),
    [
        (pa.int64(), [17, 170_000_000_000], (None, None)),
        (pa.int64(), [None, -100_000_000_000, -170_000_000], (-170_000_000_000, -100_000_000_000)),
        (pa.string(), ["1700000000", "1600000000500", "yesterday", "2026-01-01"], (1600000000500, 1700000000000)),
        (pa.timestamp("us", "UTC"), [datetime(2020, 1, 1, tzinfo=timezone.utc)], (1577836800000, 1577836800000)),
    ],
)
def test_values(tmp_path: Path, kind: pa.DataType, values: list[Any], found: tuple[int | None, int | None]) -> None:
    mine, schema = made(tmp_path / "t", kind)
    done = mine.insert(rows(schema, *values))
    assert ranges(tmp_path / "t", done.instant) == {"a": found}


def test_of_an_update(tmp_path: Path) -> None:
    mine, schema = made(tmp_path / "t")
    mine.insert(rows(schema, 1_700_000_000, 1_600_000_000))
    done = mine.update({"at": "1650000000"}, where="id = 0")
    assert ranges(tmp_path / "t", done.instant) == {"a": (1_650_000_000_000, 1_650_000_000_000)}


def test_not_of_tables_with_commit_time_ordering(tmp_path: Path) -> None:
    mine, schema = made(tmp_path / "t", ordering=None)
    done = mine.insert(rows(schema, 1_700_000_000))
    assert ranges(tmp_path / "t", done.instant) == {"a": (None, None)}


@pytest.mark.parametrize(("field", "said"), [("nowhere", "there is no such column"), ("part2", "no such")])
def test_a_wrong_column_is_refused_before_anything_is_written(tmp_path: Path, field: str, said: str) -> None:
    mine, schema = made(tmp_path / "t")
    with pytest.raises(pudi.InvalidArgumentError, match=f"{FIELD}={field}: .*{said}"):
        mine.insert(rows(schema, 1_700_000_000), options={FIELD: field})
    assert mine.timeline.instants == ()


def test_a_wrong_type_is_refused(tmp_path: Path) -> None:
    mine, schema = made(tmp_path / "t", pa.float64())
    with pytest.raises(pudi.InvalidArgumentError, match="it is of type double"):
        mine.insert(rows(schema, 1.0))


def test_the_command_shows_them(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from pudi.cli.app import app

    mine, schema = made(tmp_path / "t")
    mine.insert(rows(schema, 1_700_000_000))
    said = CliRunner().invoke(app, ["history", str(tmp_path / "t"), "--json"])
    assert '"2023-11-14T22:13:20.000+00:00"' in said.output
