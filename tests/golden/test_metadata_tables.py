"""Metadata tables of Hudi's own: what pudi reads of each partition is what the data files say."""

from __future__ import annotations

import datetime as dt
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import pudi
from pudi.client import MetaClient
from pudi.client.snapshot import TableSnapshot
from pudi.filegroup import StorageListing
from pudi.format import BloomFilter, parse_base_file
from pudi.format.layout import PARTITION_METADATA
from pudi.format.metadata_partitions import BLOOM_FILTERS, COLUMN_STATS, FILES, PARTITION_STATS, RECORD_INDEX
from pudi.format.parquet import BLOOM_FILTER
from pudi.metadata import MetadataTable, ValueType, partition_path, stats_of_records
from pudi.metadata.keys import (
    bloom_key,
    partition_stats_key,
    secondary_prefixes,
    split_secondary_keys,
)
from pudi.metadata.record_index import RecordShards
from pudi.metadata.stat_records import typed
from pudi.schema import FILE_NAME, PARTITION_PATH, RECORD_KEY
from support.golden import Golden, tables
from support.metadata import column_stats_key, metadata_partitions

TABLES = [*tables("cow_"), *tables("mor_")]


class Opened:
    """A golden table and its metadata table."""

    def __init__(self, golden: Golden, folder: Path) -> None:
        self.path = golden.unpack(folder)
        self.table = pudi.Table(str(self.path))
        self.meta: MetaClient = self.table._meta
        self.metadata: MetadataTable = TableSnapshot.load(self.meta).metadata_table()

    def rows(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.table.scan(meta_fields=True).to_arrow().to_pylist()
        return found


@pytest.fixture
def opened(request: pytest.FixtureRequest, golden_folder: Path) -> Iterator[Opened]:
    """The table that the test is about; reading it may not fall back to its folders."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield Opened(request.param, golden_folder)


def having(partition: str) -> Any:
    """Golden tables whose metadata table has a partition, by the folders in their archives."""
    found = []
    for each in TABLES:
        with zipfile.ZipFile(each.archive) as archive:
            if any(f"/.hoodie/metadata/{partition}" in name for name in archive.namelist()):
                found.append(pytest.param(each, id=each.name))
    return pytest.mark.parametrize("opened", found, indirect=True)


def test_there_are_tables_with_each_partition() -> None:
    counts = {
        partition: len(having(partition).args[1])
        for partition in (FILES, COLUMN_STATS, PARTITION_STATS, BLOOM_FILTERS, RECORD_INDEX, "secondary_", "expr_")
    }
    assert counts == {
        FILES: 64,
        COLUMN_STATS: 64,
        PARTITION_STATS: 56,
        BLOOM_FILTERS: 1,
        RECORD_INDEX: 2,
        "secondary_": 1,
        "expr_": 1,
    }


@having(FILES)
def test_files_are_those_in_the_folders(opened: Opened) -> None:
    assert set(metadata_partitions(opened.path)) == set(opened.metadata.partitions)
    listing = TableSnapshot.load(opened.meta).listing()
    folders = StorageListing(opened.meta.storage).all_files()
    expected = {
        partition: {
            info.path: info.size for info in files if not info.path.rpartition("/")[2].startswith(PARTITION_METADATA)
        }
        for partition, files in folders.items()
    }
    found = {partition: {info.path: info.size for info in files} for partition, files in listing.all_files().items()}
    assert found == expected
    assert list(listing.partitions()) == sorted(folders)
    for fresh in (listing, TableSnapshot.load(opened.meta).listing()):
        some = [*sorted(folders)[1:], "not/there"]
        assert {p: {i.path for i in files} for p, files in fresh.files_of(some).items()} == {
            partition: set(expected.get(partition, ())) for partition in some
        }
        assert {info.path for info in fresh.files(some[0])} == set(expected.get(some[0], ()))


def _stats(opened: Opened, partition: str) -> list[dict[str, Any]]:
    """Statistics with their values as Python has them."""
    records = opened.metadata.read(partition)
    stats = stats_of_records(records).combine_chunks()
    found = []
    for row, key in zip(stats.to_pylist(), records["key"].to_pylist(), strict=True):
        for side in ("min", "max"):
            held = pa.array([row[side]], pa.binary())
            values = typed(held, ValueType(row["type"]), row["info"])
            row[side] = None if values is None else values[0].as_py()
        found.append({**row, "key": key})
    return found


def _plain(value: Any) -> Any:
    """A value in a form that doesn't depend on how its type is called."""
    if isinstance(value, dt.datetime):
        value = value if value.tzinfo else value.replace(tzinfo=dt.timezone.utc)
        return (value - dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)) // dt.timedelta(microseconds=1)
    if isinstance(value, dt.date):
        return (value - dt.date(1970, 1, 1)).days
    return value


def _leaf(file: Path, column: str) -> pa.Array:
    found = pq.read_table(file, columns=[column.split(".", maxsplit=1)[0]]).column(0).combine_chunks()
    for name in column.split(".")[1:]:
        found = pc.struct_field(found, name)
    return found


@having(COLUMN_STATS)
def test_statistics_of_base_files_are_those_of_their_columns(opened: Opened) -> None:
    stats = _stats(opened, COLUMN_STATS)
    listing = TableSnapshot.load(opened.meta).listing().all_files()
    folder_of = {info.path.rpartition("/")[2]: partition for partition, files in listing.items() for info in files}
    assert {row["file"] for row in stats} <= set(folder_of)
    checked = 0
    for row in stats:
        partition = folder_of[row["file"]]
        assert row["key"] == column_stats_key(row["column"], partition, row["file"])
        if not row["file"].endswith(".parquet"):
            continue
        values = _leaf(opened.path / partition / row["file"], row["column"])
        assert (row["null_count"], row["value_count"]) == (values.null_count, len(values)), row
        if values.null_count == len(values) or pa.types.is_nested(values.type):
            continue
        ends = pc.min_max(values)
        for side in ("min", "max"):
            if row[side] is not None:
                assert _plain(row[side]) == _plain(ends[side].as_py()), row
        checked += row["min"] is not None
    assert checked or not any(row["file"].endswith(".parquet") for row in stats)


SPARSE = ("cow_v9_orc", "mor_v6_savepoint_restore", "mor_v9_types_avrolog", "mor_v9_types_parquetlog")
"""Tables in no partition of which all files have statistics."""


@having(PARTITION_STATS)
def test_statistics_of_partitions_hold_all_their_rows(opened: Opened) -> None:
    """Where all files of a partition have statistics: Hudi 1.2 leaves files out of a partition's that have none."""
    rows = opened.rows()
    stats = _stats(opened, PARTITION_STATS)
    known = {row["key"] for row in _stats(opened, COLUMN_STATS)}
    slices, checked = opened.table.file_slices(), 0
    for row in stats:
        partition = partition_path(row["file"])
        assert row["key"] == partition_stats_key(row["column"], partition)
        files = [
            file.name.name
            for each in slices
            if each.partition == partition
            for file in (*([] if each.base is None else [each.base]), *each.logs)
        ]
        every = {column_stats_key(row["column"], partition, file) for file in files}
        if not every <= known or not opened.meta.config.populate_meta_fields:
            continue
        values = [each.get(row["column"]) for each in rows if each[PARTITION_PATH] == partition]
        values = [_plain(value) for value in values if value is not None]
        if not values or row["min"] is None:
            continue
        assert _plain(row["min"]) <= min(values), row
        assert _plain(row["max"]) >= max(values), row
        checked += 1
    assert checked or opened.path.name in SPARSE or not opened.meta.config.populate_meta_fields


@having(BLOOM_FILTERS)
def test_bloom_filters_are_those_of_the_base_files(opened: Opened) -> None:
    records = {row["key"]: row["BloomFilterMetadata"] for row in opened.metadata.read(BLOOM_FILTERS).to_pylist()}
    listing = TableSnapshot.load(opened.meta).listing().all_files()
    files = [(p, info.path) for p, found in listing.items() for info in found if info.path.endswith(".parquet")]
    assert set(records) == {bloom_key(partition, path.rpartition("/")[2]) for partition, path in files}
    for partition, path in files:
        name = path.rpartition("/")[2]
        held = records[bloom_key(partition, name)]
        footer = pq.read_metadata(opened.path / path).metadata or {}
        assert held["bloomFilter"] == footer[BLOOM_FILTER]
        parsed = parse_base_file(name)
        assert parsed is not None
        assert held["timestamp"] == parsed.instant
        filter_ = BloomFilter.from_base64(held["bloomFilter"].decode(), held["type"])
        keys = pq.read_table(opened.path / path, columns=[RECORD_KEY]).column(0)
        assert pc.all(filter_.might_contain(keys)).as_py()
        one = opened.metadata.read(BLOOM_FILTERS, keys=[bloom_key(partition, name), "none"])
        assert one["key"].to_pylist() == [bloom_key(partition, name)]


def _located(opened: Opened) -> dict[tuple[str, str], str]:
    """By partition path and key the file group that a scan finds a record in."""
    return {(row[PARTITION_PATH], row[RECORD_KEY]): row[FILE_NAME].split("_")[0] for row in opened.rows()}


@having(RECORD_INDEX)
def test_the_record_index_is_a_scan_of_the_keys(opened: Opened) -> None:
    shards = opened.metadata.shards(RECORD_INDEX)
    index = RecordShards.of(opened.metadata.storage, shards.all, opened.metadata.scope, partitioned=shards.partitioned)
    expected = _located(opened)
    found = {
        (partition, key): file_id
        for number in range(len(index.slices))
        for key, partition, file_id in zip(*index.scan(number).to_pydict().values(), strict=True)
    }
    assert found == expected
    records = opened.metadata.read(RECORD_INDEX)
    assert sorted(records["key"].to_pylist()) == sorted(key for _, key in expected)
    for partition, key in expected:
        one = opened.metadata.read(RECORD_INDEX, keys=[key, "none"], owner=partition).to_pylist()
        assert [(row["key"], row["recordIndexMetadata"]["partitionName"]) for row in one] == [(key, partition)]


@having("secondary_")
def test_the_secondary_index_is_a_scan_of_column_and_key(opened: Opened) -> None:
    expected = sorted((row["rider"], row[RECORD_KEY]) for row in opened.rows())
    name = next(p for p in opened.metadata.partitions if p.startswith("secondary_"))
    pairs = split_secondary_keys(opened.metadata.read(name)["key"].combine_chunks())
    assert sorted(zip(*(part.to_pylist() for part in pairs), strict=True)) == expected
    for rider in {rider for rider, _ in expected}:
        prefix = secondary_prefixes(pa.array([rider])).to_pylist()
        keys = opened.metadata.read(name, prefixes=prefix)["key"].combine_chunks()
        assert sorted(split_secondary_keys(keys)[1].to_pylist()) == sorted(k for r, k in expected if r == rider)


@having("expr_")
def test_the_expression_index_is_of_the_columns_in_the_files(opened: Opened) -> None:
    name = next(p for p in opened.metadata.partitions if p.startswith("expr_"))
    stats = _stats(opened, name)
    listing = TableSnapshot.load(opened.meta).listing().all_files()
    folder_of = {info.path.rpartition("/")[2]: partition for partition, files in listing.items() for info in files}
    of_files = [row for row in stats if row["file"] in folder_of]
    assert any(row["file"].endswith(".parquet") for row in of_files)
    for row in of_files:
        if row["file"].endswith(".parquet"):
            days = pc.min_max(pc.divide(_leaf(opened.path / folder_of[row["file"]] / row["file"], "ts"), 86_400))
            for side in ("min", "max"):
                day = dt.date(1970, 1, 1) + dt.timedelta(days=days[side].as_py())
                assert row[side] == day.isoformat(), row
    partitions = {row["file"] for row in stats} - set(folder_of)
    assert partitions == set(listing)


@pytest.mark.sampled(21)
@having(COLUMN_STATS)
def test_skipping_files_loses_no_row(opened: Opened) -> None:
    """Every value of some columns is found by asking for it."""
    full = opened.table.scan().to_arrow()
    names = [name for name in full.column_names if pa.types.is_integer(full[name].type)][:2]
    for name in names:
        for value in pc.unique(full[name].drop_null()).to_pylist()[:6]:
            expected = pc.sum(pc.equal(full[name], pa.scalar(value, full[name].type))).as_py()
            found = opened.table.scan(columns=[name], where=f"{name} = {value}").to_arrow()
            assert found.num_rows == expected, f"{name} = {value}"


@having(RECORD_INDEX)
def test_a_record_is_looked_up_where_it_is(opened: Opened) -> None:
    rows = opened.rows()
    for row in [*rows[:3], *rows[-3:]]:
        scan = opened.table.scan(where=f"uuid = '{row['uuid']}'", meta_fields=True)
        assert scan.to_arrow().to_pylist() == [row]
        assert "index       record_index kept 1 of 3" in scan.explain()
    pair = opened.table.scan(where=f"uuid IN ('{rows[0]['uuid']}', 'nobody') AND n >= 0")
    assert [row["uuid"] for row in pair.to_arrow().to_pylist()] == [rows[0]["uuid"]]
    nobody = opened.table.scan(where="uuid = 'nobody' OR uuid = 'nothing'")
    assert nobody.to_arrow().num_rows == 0
    assert "index       record_index kept 0 of 3" in nobody.explain()
    before = opened.table.timeline.commits[0].requested
    assert "record_index" not in opened.table.scan(where="uuid = 'nobody'", as_of=before).explain()


@having("secondary_")
def test_records_are_looked_up_by_a_column_with_a_secondary_index(opened: Opened) -> None:
    rows = opened.rows()
    for rider in sorted({row["rider"] for row in rows})[:4]:
        scan = opened.table.scan(where=f"rider = '{rider}'", meta_fields=True)
        expected = [row for row in rows if row["rider"] == rider]
        assert sorted(scan.to_arrow().to_pylist(), key=str) == sorted(expected, key=str)
        assert (
            f"index       secondary_index_idx_rider kept {len({r[PARTITION_PATH] for r in expected})} of"
            in scan.explain()
        )
