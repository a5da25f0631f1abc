"""What scans and changes take and give, on both engines."""

from __future__ import annotations

import datetime as dt
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from support.engines import Engine, LocalEngine, SparkEngine
from support.layouts import Layout
from support.model import Model
from support.pudi_table import PudiTable
from support.rows import META_FIELDS, PLACE_FIELDS, assert_same, from_arrow, only, without
from support.trips import SCHEMA, table, trip


@pytest.fixture(scope="module")
def table_and_model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Model]:
    """Three commits, for reading only: 12 trips, 4 of them updated and 2 new ones, 2 deleted."""
    made = PudiTable.create(LocalEngine(), tmp_path_factory.mktemp("reading") / "trips", SCHEMA, Layout())
    model = Layout().model()
    batches = [
        ("bulk_insert", [trip(number, 100 + number, None if number == 4 else "ann") for number in range(12)]),
        ("upsert", [trip(number, 200 + number, "bob") for number in range(8, 14)]),
        ("delete", [trip(0, 0), trip(13, 0)]),
    ]
    for verb, rows in batches:
        data = table(rows)
        getattr(model, verb)(from_arrow(data), *made.write(verb, data))
    return made.path, model


@pytest.fixture
def written(engine: Engine, table_and_model: tuple[Path, Model]) -> tuple[PudiTable, Model]:
    path, model = table_and_model
    return PudiTable(engine, path), model


Written = tuple[PudiTable, Model]


def test_columns_are_what_is_named_in_that_order(written: Written) -> None:
    made, model = written
    names = ["fare", "_hoodie_record_key", "city"]
    scan = made.table.scan(columns=names)
    assert made.engine.columns(scan) == names
    assert_same(made.engine.read(scan), only(model.snapshot(), names))
    assert scan.schema.names == names


def test_without_meta_fields(written: Written) -> None:
    made, model = written
    scan = made.table.scan(meta_fields=False)
    assert made.engine.columns(scan) == SCHEMA.names
    assert_same(made.engine.read(scan), only(model.snapshot(), SCHEMA.names))
    changes = made.table.changes(since=model.commits[0].completion, meta_fields=False)
    assert_same(made.engine.read(changes), only(model.changes(model.commits[0].completion), SCHEMA.names))


PREDICATES: list[tuple[str, Any]] = [
    ("city = 'nyc'", lambda row: row["city"] == "nyc"),
    ("city <> 'nyc' AND ts >= 110", lambda row: row["city"] != "nyc" and row["ts"] >= 110),
    ("rider IS NULL", lambda row: row["rider"] is None),
    ("rider <> 'bob'", lambda row: row["rider"] not in {None, "bob"}),
    (
        "NOT (rider = 'bob' OR ts BETWEEN 103 AND 105)",
        lambda row: row["rider"] == "ann" and not 103 <= row["ts"] <= 105,
    ),
    ("leg IN (0, 2) AND uuid LIKE 'k000%'", lambda row: row["leg"] in {0, 2} and row["uuid"].startswith("k000")),
    ("CAST(leg AS BIGINT) * 2 > ts - 105", lambda row: row["leg"] * 2 > row["ts"] - 105),
    ("fare > 1e9", lambda _row: False),
    ("_hoodie_record_key = 'k0003'", lambda row: row["uuid"] == "k0003"),
]


@pytest.mark.parametrize(("where", "holds"), PREDICATES, ids=[text for text, _ in PREDICATES])
def test_where(written: Written, where: str, holds: Any) -> None:
    made, model = written
    rows = [row for row in model.snapshot() if holds(row)]
    assert_same(made.engine.read(made.table.scan(where=where)), rows, PLACE_FIELDS, where)


def test_where_on_columns_that_are_not_asked_for(written: Written) -> None:
    made, model = written
    rows = [{"uuid": row["uuid"]} for row in model.snapshot() if row["rider"] == "bob"]
    assert_same(made.engine.read(made.table.scan(columns=["uuid"], where="rider = 'bob'")), rows)


def test_where_and_columns_of_changes(written: Written) -> None:
    made, model = written
    since = model.commits[0].completion
    rows = [{"uuid": row["uuid"], "ts": row["ts"]} for row in model.changes(since) if row["city"] == "nyc"]
    assert rows
    assert_same(made.engine.read(made.table.changes(since, columns=["uuid", "ts"], where="city = 'nyc'")), rows)


def test_time_travel_takes_instants_texts_and_datetimes(written: Written) -> None:
    made, model = written
    instant = model.commits[1].instant
    moment = dt.datetime.strptime(instant + "000", "%Y%m%d%H%M%S%f").replace(tzinfo=dt.timezone.utc)
    expected = model.as_of(instant)
    assert len(expected) == 14
    ahead = dt.timezone(dt.timedelta(hours=5, minutes=30))
    for when in (instant, moment, moment.astimezone(ahead), moment.isoformat(timespec="milliseconds")):
        assert_same(made.engine.read(made.table.scan(as_of=when)), expected, PLACE_FIELDS, f"as of {when!r}")


def test_time_travel_before_the_first_commit_shows_nothing(written: Written, caplog: pytest.LogCaptureFixture) -> None:
    made, _ = written
    assert made.engine.read(made.table.scan(as_of="20000101000000000")) == []
    assert made.engine.read(made.table.changes(until=dt.datetime(2000, 1, 1))) == []
    warned = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert [text.split(": ")[1].split()[:6] for text in warned] == [
        ["as_of='20000101000000000'", "lies", "before", "the", "table's", "first"],
        ["until='2000-01-01", "00:00:00'", "lies", "before", "the", "table's"],
    ]
    caplog.clear()
    assert made.engine.read(made.table.changes("20000101000000000"))
    assert not caplog.records


def test_a_window_of_changes(written: Written) -> None:
    made, model = written
    first, second, third = (commit.completion for commit in model.commits)
    assert_same(made.changes(None, first), model.changes(None, first), PLACE_FIELDS)
    assert_same(made.changes(first, second), model.changes(first, second), PLACE_FIELDS)
    assert made.changes(second, third) == []  # deletes don't show
    assert made.changes(third) == []


def test_a_scan_is_pinned_and_a_table_is_not(written: Written, tmp_path: Path) -> None:
    original, model = written
    made = PudiTable(original.engine, tmp_path / "trips")
    shutil.copytree(original.path, made.path)
    handle = made.table
    scan = handle.scan()
    handle.delete(made.engine.frame(table([trip(5, 0)])))
    assert_same(made.engine.read(scan), model.snapshot(), PLACE_FIELDS)
    assert len(made.engine.read(handle.scan())) == len(model.snapshot()) - 1


def test_unknown_columns_are_named(written: Written) -> None:
    made, _ = written
    with pytest.raises(pudi.InvalidArgumentError, match="fair"):
        made.table.scan(columns=["fair"])
    with pytest.raises(pudi.InvalidArgumentError, match=rf"'fair'.*the nearest is 'fare' \[table .*{made.path.name}"):
        made.engine.read(made.table.scan(where="fair > 1"))


@pytest.mark.parametrize("given", [{"as_of": "soon"}, {"since": "soon"}, {"since": "2026-01-01", "until": "soon"}])
def test_what_is_no_point_in_time_is_named_with_the_table(written: Written, given: dict[str, str]) -> None:
    made, _ = written
    with pytest.raises(pudi.InvalidArgumentError, match=rf"='soon' is no point in time.*\[table .*{made.path.name}"):
        made.table.scan(**given) if "as_of" in given else made.table.changes(**given)


@pytest.mark.parametrize("where", ["fare >", "uuid IN (SELECT uuid FROM t)", "reverse(city) = 'NYC'"])
def test_predicates_outside_the_subset_are_refused(written: Written, where: str) -> None:
    made, _ = written
    with pytest.raises((pudi.InvalidArgumentError, pudi.NotSupportedError)):
        made.engine.read(made.table.scan(where=where))


def test_the_ways_to_read_locally_agree(tmp_path: Path) -> None:
    made = pudi.create(str(tmp_path / "t"), SCHEMA, record_key="uuid", partition_by="city", table_type="cow")
    made.bulk_insert(table([trip(number, 10) for number in range(10)]))
    scan = made.scan()
    rows = from_arrow(scan.to_arrow())
    assert len(rows) == 10
    assert_same(from_arrow(scan.to_batches().read_all()), rows)
    assert_same(from_arrow(pa.table(scan)), rows, about="as an Arrow stream")
    assert scan.to_arrow().schema == scan.schema
    frame = pytest.importorskip("pandas") and scan.to_pandas()
    assert sorted(frame["uuid"]) == sorted(row["uuid"] for row in rows)
    assert frame.columns.to_list() == [*META_FIELDS, *SCHEMA.names]


@pytest.mark.spark
def test_both_engines_read_the_same(spark: Any, tmp_path: Path) -> None:
    local = PudiTable.create(LocalEngine(), tmp_path / "t", SCHEMA, Layout())
    local.write("bulk_insert", table([trip(number, 10) for number in range(10)]))
    on_spark = PudiTable(SparkEngine(spark), local.path)
    on_spark.write("upsert", table([trip(number, 20) for number in range(5, 15)]))
    assert_same(on_spark.snapshot(), local.snapshot())
    assert len(without(local.snapshot(), ())) == 15
