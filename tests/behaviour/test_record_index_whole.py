"""A record index with many random keys: after every action it says of each key what a full scan finds, and no more."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pudi
from pudi.client import MetaClient
from pudi.client.snapshot import TableSnapshot
from pudi.indexes.record_index.state import open_shards
from pudi.metadata.record_index import FILE_ID

OPTIONS = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "4",
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.record.index.update.partition.path": "true",
    "hoodie.metadata.compact.max.delta.commits": "3",
}
SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("city", pa.string())])
PLACES = ("_hoodie_record_key", "_hoodie_partition_path", FILE_ID)


def rows(keys: pa.Array, ts: int, cities: int) -> pa.Table:
    """Rows with some keys; the city follows from a key's place, so that other `cities` move most of them."""
    names = pa.array([f"c{number}" for number in range(cities)]).take(pa.array(np.arange(len(keys)) % cities))
    return pa.table([keys, pa.array(np.full(len(keys), ts)), names], schema=SCHEMA)


def fresh(chance: np.random.Generator, count: int) -> pa.Array:
    """Random keys of as many characters as a UUID has without its signs."""
    digits = np.frombuffer(chance.bytes(16 * count).hex().encode(), dtype="S32")
    return pa.array(digits.astype(object), pa.binary()).cast(pa.string())


def scanned(path: Path) -> pa.Table:
    """Where each key is, by a full scan."""
    table = pudi.Table(path).scan(columns=["_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name"])
    found = table.to_arrow().combine_chunks()
    files = pc.list_element(pc.split_pattern(found["_hoodie_file_name"], "_", max_splits=1), 0)
    return pa.table([found["_hoodie_record_key"], found["_hoodie_partition_path"], files], names=PLACES)


def assert_index_is_the_scan(path: Path, chance: np.random.Generator) -> int:
    """Compare them key by key, read as a whole and looked up; the number of keys."""
    by_scan = scanned(path).sort_by("_hoodie_record_key").combine_chunks()
    meta = MetaClient.open(str(path), None, {})
    index = open_shards(TableSnapshot.load(meta))
    assert index is not None
    parts = [index.scan(number) for number in range(len(index.slices))]
    plain = pa.schema([(name, pa.string()) for name in PLACES])
    by_index = pa.concat_tables([part.cast(plain) for part in parts]).sort_by("_hoodie_record_key").combine_chunks()
    assert by_index.num_rows == by_scan.num_rows
    for name in PLACES:
        assert by_index[name].equals(by_scan[name].cast(pa.string())), name
    chosen = chance.choice(by_scan.num_rows, min(by_scan.num_rows, 50_000), replace=False)
    asked = pa.concat_arrays([by_scan["_hoodie_record_key"].combine_chunks().take(pa.array(chosen)), fresh(chance, 99)])
    numbers = index.shards_of(asked)
    found = [
        index.find(number, asked.filter(pa.array(numbers == number))).cast(plain) for number in range(len(index.slices))
    ]
    looked_up = pa.concat_tables(found).sort_by("_hoodie_record_key").combine_chunks()
    wanted = by_scan.take(pa.array(np.sort(chosen))).cast(plain)
    assert looked_up.equals(wanted.combine_chunks())
    return int(by_scan.num_rows)


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("count", [3_000, pytest.param(1_000_000, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])])
def test_index_is_the_scan_after_every_action(tmp_path: Path, kind: str, count: int) -> None:
    chance = np.random.default_rng(count)
    path = tmp_path / "table"
    pudi.create(path, SCHEMA, record_key="id", partition_by="city", ordering="ts", table_type=kind)
    table = pudi.Table(path, options=OPTIONS)
    keys, more = fresh(chance, count), fresh(chance, count // 10)
    some = keys.take(pa.array(chance.choice(count, count // 10, replace=False)))
    half = len(some) // 2
    table.bulk_insert(rows(keys, 1, 4))
    assert assert_index_is_the_scan(path, chance) == count
    table.upsert(pa.concat_tables([rows(some, 2, 4), rows(more, 2, 4)]))  # most of the known ones move
    assert assert_index_is_the_scan(path, chance) == count + len(more)
    table.upsert(rows(some, 3, 5))
    assert assert_index_is_the_scan(path, chance) == count + len(more)
    table.delete(rows(some.slice(0, half), 4, 5))
    left = count + len(more) - half
    assert assert_index_is_the_scan(path, chance) == left
    table.insert(rows(fresh(chance, 100), 5, 4))
    assert assert_index_is_the_scan(path, chance) == left + 100
    if kind == "mor":
        table.compact()
        assert assert_index_is_the_scan(path, chance) == left + 100
    table.upsert(rows(some.slice(0, half), 6, 4))  # deleted ones come back
    assert assert_index_is_the_scan(path, chance) == left + 100 + half
    table.delete_partitions(["c1"])
    assert_index_is_the_scan(path, chance)
    table.insert_overwrite(rows(fresh(chance, 200), 7, 1))
    assert_index_is_the_scan(path, chance)
    assert table.check().ok
