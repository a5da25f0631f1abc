"""Reads of single records by an index: the same rows as by a full scan, and no more listed than holds them."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.filegroup import FileSystemView
from support.engines import LocalEngine
from support.layouts import Layout
from support.pudi_table import PudiTable
from support.trips import SCHEMA, steps, table, trip

OVER_ALL = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.record.index.update.partition.path": "true",
    "hoodie.parquet.small.file.limit": "0",
}
BY_PARTITION = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.record.level.index.enable": "true",
    "hoodie.index.type": "RECORD_LEVEL_INDEX",
    "hoodie.parquet.small.file.limit": "0",
}
CASES = [
    (OVER_ALL, Layout("simple", "plain", "event", 9, "mor")),
    (OVER_ALL, Layout("simple", "hive", "event", 6, "mor")),
    (OVER_ALL, Layout("complex", "plain", "commit", 8, "cow")),
    (BY_PARTITION, Layout("simple", "plain", "event", 9, "mor")),
    (BY_PARTITION, Layout("simple", "flat", "event", 9, "cow")),
]


def forbid_listing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody look at all file groups of a table."""

    def refuse(_: FileSystemView) -> Any:
        raise AssertionError("all file groups were listed")

    monkeypatch.setattr(FileSystemView, "all_slices", refuse)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("options", "layout"), CASES, ids=str)
def test_every_record_is_found_without_a_listing_of_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, str], layout: Layout
) -> None:
    made = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, layout, options)
    for step in steps(23, 5):
        made.write(step.verb, step.data)
        rows = made.table.scan().to_arrow().to_pylist()
        with monkeypatch.context() as patch:
            forbid_listing(patch)
            for row in rows[:: max(1, len(rows) // 5)]:
                where = f"_hoodie_record_key = '{row['_hoodie_record_key']}'"
                found = made.table.scan(where=where).to_arrow().to_pylist()
                assert found == [each for each in rows if each["_hoodie_record_key"] == row["_hoodie_record_key"]]
                elsewhere = made.table.scan(where=f"{where} AND city = 'nowhere'")
                assert elsewhere.to_arrow().num_rows == 0
            assert made.table.scan(where="_hoodie_record_key = 'nobody'").to_arrow().num_rows == 0
    held = len({(each["_hoodie_partition_path"], each["_hoodie_file_name"].split("_")[0]) for each in found})
    groups, told = len(made.table.file_slices()), made.table.scan(where=where).explain()
    assert f"files       {held} of {groups} " in told
    assert f"index       record_index kept {held} of {groups}" in told


def test_a_file_group_that_the_index_names_and_nobody_sees_makes_it_look_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an index says of a group that's gone tells nothing of where the record is now."""
    made = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, Layout(), OVER_ALL)
    made.write("upsert", table(trip(n, 10) for n in range(8)))
    where = f"uuid = '{trip(3, 10)['uuid']}'"
    expected = made.table.scan(where=where).to_arrow()
    assert expected.num_rows == 1
    monkeypatch.setattr("pudi.scan.lookup._groups", lambda *_: frozenset({("gone", "away")}))
    assert made.table.scan(where=where).to_arrow() == expected


@pytest.mark.parametrize("emptied", ["record_index", "secondary_index_rider"])
def test_an_index_whose_entries_were_taken_back_makes_it_look_at_all(tmp_path: Path, emptied: str) -> None:
    """Hudi's CREATE INDEX, right behind another's building, rolls that back: what is left is said to be ready."""
    made = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, Layout(), {})
    made.table.bulk_insert(table(trip(n, 10) for n in range(8)))
    made.table.create_index("record_index")
    made.table.create_index("secondary_index", "rider")
    where = {"record_index": "uuid = 'k0003'", "secondary_index_rider": f"rider = '{trip(3, 10)['rider']}'"}[emptied]
    expected = made.table.scan(where=where).to_arrow()
    assert expected.num_rows > 0
    bases = list((tmp_path / "trips" / ".hoodie" / "metadata" / emptied).glob("*.hfile"))
    assert bases
    for base in bases:
        base.unlink()
    assert made.table.scan(where=where).to_arrow() == expected
    assert made.table.repair().ok
    assert "kept" in made.table.scan(where=where).explain()
    assert made.table.scan(where=where).to_arrow() == expected


def _take_back(path: Path, index: str) -> None:
    """Leave an index as Hudi's CREATE INDEX does: named as ready, its entries rolled back."""
    for base in (path / ".hoodie" / "metadata" / index).glob("*.hfile"):
        base.unlink()
    timeline = path / ".hoodie" / "metadata" / ".hoodie" / "timeline"
    at = max(file.name for file in timeline.glob("*.deltacommit"))[:17]
    for name in (f"{at}.rollback.requested", f"{at}.rollback.inflight", f"{at}_{at}.rollback"):
        (timeline / name).touch()


def test_writes_pass_over_a_record_index_whose_entries_were_taken_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Keys are looked for in files, and none is put into the index, of which one with a few would pass for whole."""
    made = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, Layout(), OVER_ALL)
    pudi.Table(made.path).bulk_insert(table(trip(n, 10) for n in range(8)))
    pudi.Table(made.path).create_index("record_index")
    _take_back(made.path, "record_index")
    # small files have no room, so that places come from the look
    made.write("upsert", table([trip(3, 20), trip(9, 20)]))
    pudi.Table(made.path).upsert(table([trip(4, 20)]))
    assert "`pudi repair` makes it anew" in caplog.text
    rows = made.table.scan().to_arrow()
    times = sorted(zip(rows["uuid"].to_pylist(), rows["ts"].to_pylist(), strict=True))
    assert times == [(f"k{n:04}", 20 if n in {3, 4, 9} else 10) for n in (*range(8), 9)]
    for n in (0, 3, 9):
        assert made.table.scan(where=f"uuid = 'k{n:04}'").to_arrow().num_rows == 1
    assert made.table.repair().ok
    assert made.table.scan(where="uuid = 'k0003'").to_arrow()["ts"].to_pylist() == [20]


def test_writes_pass_over_a_secondary_index_whose_entries_were_taken_back(tmp_path: Path) -> None:
    made = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, Layout(), {})
    made.table.bulk_insert(table(trip(n, 10, "one") for n in range(8)))
    made.table.create_index("record_index")
    made.table.create_index("secondary_index", "rider")
    _take_back(made.path, "secondary_index_rider")
    made.table.upsert(table([trip(3, 20, "two"), trip(9, 20, "one")]))
    for _ in range(2):
        for rider, keys in {"one": [0, 1, 2, 4, 5, 6, 7, 9], "two": [3]}.items():
            found = made.table.scan(where=f"rider = '{rider}'").to_arrow()["uuid"].to_pylist()
            assert sorted(found) == [f"k{n:04}" for n in keys]
        assert made.table.repair().ok


def test_base_files_alone_are_read_without_what_only_logs_say(tmp_path: Path) -> None:
    """A record that was deleted in a log file is still in the base file, and in no index."""
    made = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, CASES[0][1], OVER_ALL)
    made.write("bulk_insert", table(trip(n, 10) for n in range(8)))
    made.write("delete", table([trip(3, 11)]))
    where = f"uuid = '{trip(3, 10)['uuid']}'"
    assert made.table.scan(where=where).to_arrow().num_rows == 0
    assert made.table.scan(where=where, read_optimized=True).to_arrow().num_rows == 1


DAY, MOMENT = dt.date(2026, 11, 22), dt.datetime(2026, 11, 22, 7, 30, 0, 125, dt.timezone.utc)
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "day": (pa.date32(), [DAY, DAY.replace(year=1905), None]),
    "moment": (pa.timestamp("us", "UTC"), [MOMENT, MOMENT.replace(year=1931), None]),
    "wide": (pa.float64(), [0.0, -0.0, 1.5, -12.34, 1234567.0, 2e23, 0.1 + 0.2, float("nan"), None]),
    "narrow": (pa.float32(), [0.0, 1.5, -0.1, 16777216.0, None]),
    "number": (pa.int32(), [7, -7, None]),
}
ASKED = [
    ("day", "day = DATE '2026-11-22'", 1),
    ("day", "day IN ('1905-11-22', '2026-11-22')", 2),
    ("moment", "moment = '2026-11-22 07:30:00.000125'", 1),
    ("moment", "moment = TIMESTAMP '1931-11-22 08:30:00.000125+01:00'", 1),
    ("wide", "wide = 0", 2),
    ("wide", "wide = 1.5", 1),
    ("wide", "wide IN (-12.34, 1234567)", 2),
    ("narrow", "narrow = 1.5", 1),
    ("narrow", "narrow = 0", 1),
    ("number", "number = -7", 1),
    (None, "wide = 2e23", 1),
    (None, "wide = 0.30000000000000004", 1),
    (None, "wide = CAST('NaN' AS DOUBLE)", 1),
    (None, "wide = CAST('NaN' AS DOUBLE) AND wide = CAST('NaN' AS DOUBLE)", 1),
    (None, "narrow = 16777216", 1),
    (None, "narrow = -0.1", 0),
]


def test_values_of_every_type_that_a_secondary_index_is_made_over(tmp_path: Path) -> None:
    """Where it's not sure by which text an index knows a value, it isn't asked, and the rows are found all the same."""
    schema = pa.schema([("id", pa.int64()), *((name, kind) for name, (kind, _) in VALUES.items())])
    made = pudi.create(tmp_path / "values", schema, record_key="id")
    length = max(len(values) for _, values in VALUES.values())
    columns = [pa.array(values + [None] * (length - len(values)), kind) for kind, values in VALUES.values()]
    made.bulk_insert(pa.Table.from_arrays([pa.array(range(length), pa.int64()), *columns], schema=schema))
    made.create_index("record_index")
    for name in VALUES:
        made.create_index("secondary_index", name)
    for name, where, count in ASKED:
        scan = made.scan(where=where)
        assert scan.to_arrow().num_rows == count, where
        assert ("secondary_index" in scan.explain()) == (name is not None), where
        if name is not None:
            assert f"index       secondary_index_{name} kept 1 of 1" in scan.explain()
