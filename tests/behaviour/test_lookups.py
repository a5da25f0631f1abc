"""Reads of single records by an index: the same rows as by a full scan, and no more listed than holds them."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.client import MetaClient
from pudi.config import ArchiveOptions, Options
from pudi.filegroup import FileSystemView
from pudi.format import (
    InstantInfo,
    RollbackMetadata,
    RollbackPartitionMetadata,
    encode_rollback_metadata,
    parse_base_file,
)
from pudi.metadata import validity
from pudi.metadata_write.client import open_metadata
from pudi.timeline.archiving import archive
from support.engines import LocalEngine
from support.layouts import Layout
from support.metadata import records
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
    monkeypatch.setattr("pudi.indexes.record_index.groups_of_keys", lambda *_: frozenset({("gone", "away")}))
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
    gone = sorted((path / ".hoodie" / "metadata" / index).glob("*.hfile"))
    assert gone
    for base in gone:
        base.unlink()
    built = parse_base_file(gone[0].name)
    assert built is not None
    timeline = path / ".hoodie" / "metadata" / ".hoodie" / "timeline"
    at = str(int(max(file.name.split("_")[1] for file in timeline.glob("*_*.*"))[:17]) + 1)
    deleted = RollbackPartitionMetadata(index, tuple(map(str, gone)))
    undone = (InstantInfo(built.instant, "deltacommit"),)
    done = RollbackMetadata(at, 1, len(gone), (built.instant,), {index: deleted}, instants_rollback=undone)
    for name in (f"{at}.rollback.requested", f"{at}.rollback.inflight"):
        (timeline / name).touch()
    (timeline / f"{at}_{at}.rollback").write_bytes(encode_rollback_metadata(done))


def _fill_somewhat(path: Path) -> None:
    """Write as Hudi does, which puts what it changes into such an index."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pudi.metadata.table.invalidated_partitions", lambda *_: frozenset())
        patch.setattr("pudi.metadata.table.ever_invalidated_partitions", lambda *_: frozenset())
        patch.setattr("pudi.metadata_write.index_logs.invalidated_partitions", lambda *_: frozenset())
        pudi.Table(path).upsert(table([trip(5, 15, "five"), trip(10, 10, "ten")]))


@pytest.mark.parametrize("filled", [False, True], ids=["empty", "filled"])
@pytest.mark.parametrize("layout", [Layout(), Layout(version=8, kind="mor")], ids=str)
def test_a_record_index_that_was_taken_back_is_not_asked_and_made_anew(
    tmp_path: Path, layout: Layout, filled: bool, caplog: pytest.LogCaptureFixture
) -> None:
    made = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, layout, OVER_ALL)
    pudi.Table(made.path).bulk_insert(table(trip(n, 10) for n in range(8)))
    pudi.Table(made.path).create_index("record_index")
    _take_back(made.path, "record_index")
    if filled:
        _fill_somewhat(made.path)
        assert 0 < len(records(made.path, "record_index")) < 8
    for n in range(8):
        found = pudi.Table(made.path).scan(where=f"uuid = 'k{n:04}'")
        assert found.to_arrow().num_rows == 1
        assert "record_index kept" not in found.explain()
    assert "rolled back what record_index held" in caplog.text
    assert "record_index" in str(pudi.Table(made.path).check())
    # small files have no room, so that places come from the look
    made.write("upsert", table([trip(3, 20), trip(9, 20)]))
    assert "rebuilt: record_index" in caplog.text
    assert pudi.Table(made.path).check().ok
    rows = made.table.scan().to_arrow()
    keys = [*range(8), 9, *([10] if filled else [])]
    times = sorted(zip(rows["uuid"].to_pylist(), rows["ts"].to_pylist(), strict=True))
    newer = {3: 20, 9: 20, **({5: 15} if filled else {})}
    assert times == [(f"k{n:04}", newer.get(n, 10)) for n in keys]
    assert len(records(made.path, "record_index")) == len(times)
    assert "index       record_index kept" in pudi.Table(made.path).scan(where="uuid = 'k0003'").explain()


@pytest.mark.parametrize("filled", [False, True], ids=["empty", "filled"])
@pytest.mark.parametrize("mends", ["upsert", "repair"])
def test_a_secondary_index_that_was_taken_back_is_not_asked_and_made_anew(
    tmp_path: Path, filled: bool, mends: str
) -> None:
    made = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, Layout(), {})
    made.table.bulk_insert(table(trip(n, 10, "one") for n in range(8)))
    made.table.create_index("record_index")
    made.table.create_index("secondary_index", "rider")
    _take_back(made.path, "secondary_index_rider")
    expected = {"one": set(range(8))}
    if filled:
        _fill_somewhat(made.path)
        expected = {"one": {0, 1, 2, 3, 4, 6, 7}, "five": {5}, "ten": {10}}
    for mended in (False, True):
        if mended and mends == "upsert":
            pudi.Table(made.path).upsert(table([trip(3, 20, "two"), trip(9, 20, "one")]))
            expected = {**expected, "one": expected["one"] - {3} | {9}, "two": {3}}
        elif mended:
            assert pudi.Table(made.path).repair().ok
        for rider, keys in expected.items():
            found = pudi.Table(made.path).scan(where=f"rider = '{rider}'")
            assert sorted(found.to_arrow()["uuid"].to_pylist()) == [f"k{n:04}" for n in sorted(keys)]
            assert ("secondary_index_rider kept" in found.explain()) == mended
    assert pudi.Table(made.path).check().ok


def test_an_index_that_was_taken_back_long_ago_is_found_out(tmp_path: Path) -> None:
    """The metadata table's active timeline tells nothing of it any more, its archive does."""
    made = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, Layout(), {})
    made.table.bulk_insert(table(trip(n, 10, "one") for n in range(8)))
    made.table.create_index("record_index")
    made.table.create_index("secondary_index", "rider")
    for index in ("record_index", "secondary_index_rider"):
        _take_back(made.path, index)
    _fill_somewhat(made.path)
    _archive_all_but_the_newest(made.path)
    opened = pudi.Table(made.path)
    assert opened.scan(where="uuid = 'k0003'").to_arrow().num_rows == 1
    assert opened.scan(where="rider = 'one'").to_arrow().num_rows == 7
    assert opened.scan(where="rider = 'five'").to_arrow().num_rows == 1
    assert {"record_index", "secondary_index_rider"} <= {each.index for each in opened.check().differences}
    made.write("upsert", table([trip(3, 20, "two")]))
    opened = pudi.Table(made.path)
    assert opened.check().ok
    assert "secondary_index_rider kept" in opened.scan(where="rider = 'one'").explain()
    assert opened.scan(where="rider = 'one'").to_arrow().num_rows == 6


def test_an_archive_that_cannot_be_read_leaves_a_look_up_to_the_files(tmp_path: Path) -> None:
    made = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, Layout(), {})
    made.table.bulk_insert(table(trip(n, 10, "one") for n in range(8)))
    made.table.create_index("record_index")
    made.table.upsert(table([trip(3, 20, "two")]))
    _archive_all_but_the_newest(made.path)
    history = made.path / ".hoodie" / "metadata" / ".hoodie" / "timeline" / "history"
    for file in history.glob("*.parquet"):
        file.write_bytes(b"no Parquet")
    opened = pudi.Table(made.path)
    assert opened.scan(where="uuid = 'k0003'").to_arrow().num_rows == 1
    assert opened.scan(where="uuid = 'nobody'").to_arrow().num_rows == 0
    assert "metadata table" in {each.index for each in opened.check().differences}
    assert opened.repair().ok


def _archive_all_but_the_newest(path: Path) -> None:
    """Archive instants of the metadata table as Hudi's writers do, and have this process know nothing of before."""
    opened = open_metadata(MetaClient.open(str(path), None, {}))
    timeline = opened.store.load()
    with opened.lock:
        archive(opened.store, timeline.instants[:-1], ArchiveOptions.of(Options()))
    assert len(opened.store.load().instants) == 1
    validity._seen_until.clear()


def test_statistics_that_were_taken_back_are_made_anew(tmp_path: Path) -> None:
    made = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, Layout(), {})
    made.table.bulk_insert(table(trip(n, 10 + n) for n in range(8)))
    made.table.create_index("column_stats")
    _take_back(made.path, "column_stats")
    _fill_somewhat(made.path)
    for n in (1, 3, 7):
        found = pudi.Table(made.path).scan(where=f"ts = {10 + n}")
        assert found.to_arrow().num_rows == 1
        assert "_stats kept" not in found.explain()
    made.table.upsert(table([trip(3, 50)]))
    assert pudi.Table(made.path).check().ok
    assert pudi.Table(made.path).scan(where="ts = 50").to_arrow().num_rows == 1


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
