"""Tables with an expression index: after every verb it says what each file's rows give, and reads leave files out."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pudi
from pudi.format import BloomFilter
from pudi.metadata.keys import bloom_key
from support.engines import Engine, LocalEngine, per_engine
from support.layouts import Layout
from support.metadata import column_stats_key, metadata_partitions, records
from support.pudi_table import PudiTable
from support.trips import CITIES, SCHEMA, steps, table, trip

METADATA = {"hoodie.metadata.enable": "true"}
DAY = 86_400


def _of(column: str, options: str, method: str = "column_stats") -> dict[str, str]:
    prefix = "hoodie.metadata.index.expression"
    return {
        **METADATA,
        f"{prefix}.enable": "true",
        f"{prefix}.column": column,
        f"{prefix}.name": "idx",
        f"{prefix}.type": method,
        f"{prefix}.options": options,
    }


def _day(ts: int | None) -> str | None:
    return None if ts is None else (dt.datetime(1970, 1, 1) + dt.timedelta(seconds=ts)).date().isoformat()


def _upper(text: str | None) -> str | None:
    return None if text is None else text.upper()


BY_DAY = ("ts", "expr=from_unixtime,format=yyyy-MM-dd", _day)
BY_UPPER = ("rider", "expr=upper", _upper)
LAYOUTS = [Layout("simple", "plain", "event", version, kind) for version in (9, 8) for kind in ("mor", "cow")]


def _spread(data: pa.Table) -> pa.Table:
    """Trips of different days."""
    days = pa.array([None if ts is None else ts * DAY // 100 for ts in data["ts"].to_pylist()], pa.int64())
    return data.set_column(data.schema.get_field_index("ts"), "ts", days)


def _text(value: dict[str, Any] | None) -> Any:
    return None if value is None else value["value"]


def assert_statistics(path: Path, column: str, expected: Callable[[Any], Any]) -> None:
    """Each base file's row is what its rows give, each partition's what all its rows give."""
    found = records(path, "expr_index_idx")
    checked = 0
    for file in pudi.Table(str(path)).file_slices():
        if file.base is None:
            continue
        values = list(map(expected, pq.read_table(path / file.base.path)[column].to_pylist()))
        known = sorted(value for value in values if value is not None)
        stats = found[column_stats_key(column, file.partition, file.base.name.name)]["ColumnStatsMetadata"]
        assert (stats["nullCount"], stats["valueCount"]) == (len(values) - len(known), len(known))
        assert _text(stats["minValue"]) == (known[0] if known else None)
        assert _text(stats["maxValue"]) == (known[-1] if known else None)
        checked += 1
        for log in file.logs:
            assert column_stats_key(column, file.partition, log.name.name) in found
    assert checked
    of_partitions = {each["ColumnStatsMetadata"]["fileName"]: each for each in found.values() if each["type"] == 6}
    rows = pudi.Table(str(path)).scan().to_arrow()
    for partition in set(rows["_hoodie_partition_path"].to_pylist()):
        stats = of_partitions[partition]["ColumnStatsMetadata"]
        inside = pa.compute.equal(rows["_hoodie_partition_path"], partition)
        values = [expected(value) for value in rows.filter(inside)[column].to_pylist()]
        known = [value for value in values if value is not None]
        if not stats["isDeleted"] and known:
            assert stats["isTightBound"]
            assert _text(stats["minValue"]) <= min(known)
            assert _text(stats["maxValue"]) >= max(known)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("engine", "layout", "index"),
    per_engine(
        [(LAYOUTS[0], BY_DAY), (LAYOUTS[1], BY_UPPER), (LAYOUTS[2], BY_UPPER), (LAYOUTS[3], BY_DAY)],
        [(LAYOUTS[0], BY_DAY)],
        [],
    ),
    indirect=["engine"],
)
def test_every_verb_keeps_statistics(
    engine: Engine, tmp_path: Path, layout: Layout, index: tuple[str, str, Callable[[Any], Any]]
) -> None:
    column, options, expected = index
    made = PudiTable.create(engine, tmp_path / "trips", SCHEMA, layout, _of(column, options))
    for number, step in enumerate(steps(19, 7 if engine.name == "local" else 3, ("upsert", "delete", "upsert"))):
        made.write(step.verb, _spread(step.data))
        if layout.kind == "mor" and number == 4:
            made.table.compact()
        assert metadata_partitions(made.path) == ["expr_index_idx", "files"]
        assert_statistics(made.path, column, expected)


def _by_city(path: Path, options: dict[str, str]) -> pudi.Table:
    """A table with a trip a day for ten days in each city, a hundred days apart."""
    made = PudiTable.create(LocalEngine(), path, SCHEMA, LAYOUTS[0], options)
    trips = [
        {**trip(n, ((n % 3) * 100 + n // 3) * DAY + 60, f"{'ABC'[n % 3]}nn-{n}"), "city": CITIES[n % 3]}
        for n in range(30)
    ]
    made.write("upsert", table(trips))
    return made.table


WHERES = {
    "from_unixtime(ts, 'yyyy-MM-dd') = '1970-01-03'": (1, 1),
    "from_unixtime(ts, 'yyyy-MM-dd') IN ('1970-01-03', '1970-04-13')": (2, 2),
    "from_unixtime(ts, 'yyyy-MM-dd') BETWEEN '1970-04-01' AND '1970-05-01'": (1, 10),
    "from_unixtime(ts, 'yyyy-MM-dd') > '1999'": (0, 0),
    "from_unixtime(ts, 'yyyy-MM-dd') < '1970-01-12' AND rider IS NOT NULL": (1, 10),
}


@pytest.mark.parametrize("where", WHERES)
def test_reads_leave_files_out_by_statistics(tmp_path: Path, where: str) -> None:
    by_day = _by_city(tmp_path / "t", _of("ts", "expr=from_unixtime,format=yyyy-MM-dd"))
    files, rows = WHERES[where]
    scan = by_day.scan(where=where)
    assert scan.to_arrow().num_rows == rows
    assert f"index       expr_index_idx kept {files} of 3" in scan.explain()


OF_MOMENTS = {
    "expr=to_date": "to_date(at) = DATE '2020-07-01'",
    "expr=year": "year(at) = 2020 AND to_date(at) > DATE '2020-06-01'",
    "expr=date_format,format=yyyy-MM-dd": "date_format(at, 'yyyy-MM-dd') = '2020-07-01'",
    "expr=from_unixtime,format=yyyy-MM-dd": "from_unixtime(seconds, 'yyyy-MM-dd') = '2020-07-01'",
}


@pytest.mark.parametrize("options", OF_MOMENTS)
def test_reads_by_ordered_functions_of_points_in_time(tmp_path: Path, options: str) -> None:
    """Bounds of results are widened, since Hudi doesn't store the time zone that its session had."""
    moments = [dt.datetime(2010 + year, 7, 1, hour, tzinfo=dt.timezone.utc) for year in range(12) for hour in (0, 23)]
    seconds = [int(each.timestamp()) for each in moments]
    rows = pa.table(
        {"id": range(24), "part": [str(n // 2) for n in range(24)], "at": moments, "seconds": seconds},
        pa.schema(
            [("id", pa.int64()), ("part", pa.string()), ("at", pa.timestamp("us", "UTC")), ("seconds", pa.int64())]
        ),
    )
    index = _of("seconds" if "unixtime" in options else "at", options)
    made = pudi.create(tmp_path / "t", rows.schema, record_key="id", partition_by="part", options=index)
    made.insert(rows, options=index)
    scan = made.scan(where=OF_MOMENTS[options])
    assert sorted(scan.to_arrow()["id"].to_pylist()) == [20, 21]
    assert "expr_index_idx kept" in scan.explain()


def test_what_isnt_the_index_expression_isnt_asked(tmp_path: Path) -> None:
    by_day = _by_city(tmp_path / "t", _of("ts", "expr=from_unixtime,format=yyyy-MM-dd"))
    for where in ("from_unixtime(ts, 'yyyy-MM') = '1970-01'", "lower(rider) = 'ann-0'", "ts = 60"):
        scan = by_day.scan(where=where)
        assert "expr_index_idx" not in scan.explain()
        plain = pudi.Table(tmp_path / "t", options={"hoodie.enable.data.skipping": "false"}).scan(where=where)
        assert scan.to_arrow().num_rows == plain.to_arrow().num_rows


def test_reads_leave_files_out_by_bloom_filters(tmp_path: Path) -> None:
    options = _of("rider", "expr=lower,numentries=100", "bloom_filters")
    lowered = _by_city(tmp_path / "t", options)
    found = records(tmp_path / "t", "expr_index_idx")
    for file in lowered.file_slices():
        assert file.base is not None
        held = found[bloom_key(file.partition, file.base.name.name)]["BloomFilterMetadata"]
        riders = pq.read_table(tmp_path / "t" / file.base.path)["rider"].to_pylist()
        filter_ = BloomFilter.from_base64(held["bloomFilter"].decode(), held["type"])
        assert all(filter_.might_contain(pa.array([rider.lower() for rider in riders])).to_pylist())
    scan = lowered.scan(where="lower(rider) = 'ann-0'")
    assert scan.to_arrow()["rider"].to_pylist() == ["Ann-0"]
    assert "index       expr_index_idx kept 1 of 3" in scan.explain()
    assert lowered.scan(where="lower(rider) <> 'ann-0'").to_arrow().num_rows == 29
    lowered.upsert(table([{**trip(0, 70, "Zed"), "city": CITIES[0]}]), options=options)
    moved = lowered.scan(where="lower(rider) = 'zed'")
    assert moved.to_arrow()["rider"].to_pylist() == ["Zed"]
    assert "kept 1 of 3" in moved.explain()


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_empty_texts_are_in_no_bloom_filter_and_found(tmp_path: Path, layout: Layout) -> None:
    """Hudi's hash refuses them."""
    options = _of("rider", "expr=lower", "bloom_filters")
    made = PudiTable.create(LocalEngine(), tmp_path / "t", SCHEMA, layout, options)
    for ts in (1, 2):
        made.write("upsert", table([trip(0, ts, ""), trip(1, ts, "Ann"), trip(2, ts, None)]))
    assert made.table.scan(where="lower(rider) = ''").to_arrow()["uuid"].to_pylist() == [trip(0, 1)["uuid"]]
    assert made.table.scan(where="lower(rider) = 'bob'").to_arrow().num_rows == 0
    assert made.table.check().ok


def test_an_expression_that_pudi_doesnt_know_is_written_beside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    by_day = _by_city(tmp_path / "t", _of("ts", "expr=from_unixtime,format=yyyy-MM-dd"))
    defined = tmp_path / "t" / ".hoodie" / ".index_defs" / "index.json"
    defined.write_text(defined.read_text().replace("from_unixtime", "some_day").replace("yyyy-MM-dd", "E"))
    by_day.upsert(table([{**trip(0, 70, "Zed"), "city": CITIES[0]}]))
    assert "gets no entries for new files" in caplog.text
    told = {
        each["ColumnStatsMetadata"]["fileName"]: each["ColumnStatsMetadata"]["isDeleted"]
        for each in records(tmp_path / "t", "expr_index_idx").values()
        if each["type"] == 6
    }
    assert told.get("") or told[CITIES[0]]
    assert by_day.scan(where="from_unixtime(ts, 'yyyy-MM-dd') = '1970-01-01'").to_arrow().num_rows == 1


@pytest.mark.parametrize(
    ("column", "options", "message"),
    [
        ("nothing", "expr=lower", "no column 'nothing'"),
        ("rider", "expr=year", "year over column 'rider'"),
        ("ts", "expr=from_unixtime,format=EEE", "format=EEE"),
        ("rider", "expr=soundex", "soundex"),
        ("rider", "lower", "no name=value"),
    ],
)
def test_what_cant_be_made_is_refused_before_anything_is_written(
    tmp_path: Path, column: str, options: str, message: str
) -> None:
    made = PudiTable.create(LocalEngine(), tmp_path / "t", SCHEMA, LAYOUTS[0], METADATA)
    made.write("upsert", table([trip(1, 1)]))
    with pytest.raises(pudi.PudiError, match=message):
        made.table.upsert(table([trip(1, 2)]), options=_of(column, options))
    assert metadata_partitions(made.path) == ["files"]
