"""Rows of the record index: made and read, as Hudi makes them, by file group, merged from base file and log blocks."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pudi.client.meta_client import MetaClient
from pudi.client.snapshot import TableSnapshot
from pudi.errors import CorruptError
from pudi.filegroup import BaseFile, FileSlice, LogFile, LogScope
from pudi.format import parse_base_file, parse_log_file
from pudi.format.hfile_read import open_bytes
from pudi.format.hfile_write import encode_hfile
from pudi.format.log_block import BlockKind, Header, decode_blocks, encode_block
from pudi.indexes.record_index.state import open_shards
from pudi.metadata.record_index import LOCATIONS, RecordShards, decode_locations, encode_location, read_shard, shard_id
from pudi.metadata.record_schema import RECORD_AVRO
from pudi.schema import RECORD_KEY
from pudi.storage import LocalStorage
from pudi.task.metadata_files import encode_delete_block
from support.record_index import scanned

GOLDEN = Path(__file__).parents[2] / "golden"
IDS = st.one_of(
    st.uuids().map(str),
    st.tuples(st.uuids(), st.integers(0, 10**9)).map(lambda pair: f"{pair[0]}-{pair[1]}"),
    st.sampled_from(["00000003-0000-0000-0000-000000000000-0", "A0000003-0000-0000-0000-000000000000-0"]),
    st.text(min_size=1, max_size=40),
)


@given(st.lists(st.tuples(st.text(max_size=9), IDS, st.integers(0, 2**42)), min_size=1, max_size=9))
@example([("", "4897361c-47d1-43c6-8f5c-5fc1fe126df4-007", 0)])
def test_locations_come_back(places: list[tuple[str, str, int]]) -> None:
    values = pa.array([encode_location(*place) for place in places], pa.binary())
    partitions, files = decode_locations(values, RECORD_AVRO, path="x")
    assert list(zip(partitions.to_pylist(), files.to_pylist(), strict=True)) == [place[:2] for place in places]


def test_what_is_no_location_is_refused() -> None:
    with pytest.raises(CorruptError):
        decode_locations(pa.array([b"\x01\x02"]), RECORD_AVRO, path="x")
    nothing = bytes(6) + b"\x0a" + bytes(5)
    with pytest.raises(CorruptError, match="without location"):
        decode_locations(pa.array([nothing]), RECORD_AVRO, path="x")


def _logged(table: str) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(GOLDEN / f"{table}.zip") as files:
        for name in files.namelist():
            if "/metadata/record_index/." in name and ".log." in name and not name.endswith(".crc"):
                for block in decode_blocks(files.read(name), path=name):
                    if block.kind is BlockKind.HFILE:
                        reader = open_bytes(block.content, path=name)
                        yield from ((reader.avro_schema, v) for v in reader.scan()["value"].to_pylist())


@pytest.mark.parametrize("table", ["mor_v9_rli", "mor_v9_partitioned_rli"])
def test_values_are_those_of_hudi(table: str) -> None:
    seen = set(_logged(table))
    assert len(seen) >= 3
    for schema, value in seen:
        assert schema == RECORD_AVRO
        partitions, files = decode_locations(pa.array([value]), schema, path=table)
        # the last but three bytes hold the moment: a union's branch and a number of six bytes, then what is constant
        millis = _zigzag(value[-9:-3])
        assert encode_location(partitions[0].as_py(), files[0].as_py(), millis) == value


def _zigzag(data: bytes) -> int:
    number = sum((byte & 0x7F) << (7 * place) for place, byte in enumerate(data))
    return (number >> 1) ^ -(number & 1)


@pytest.mark.parametrize("table", ["mor_v9_rli", "mor_v9_partitioned_rli"])
def test_index_of_hudi_is_what_a_scan_finds(tmp_path: Path, table: str) -> None:
    with zipfile.ZipFile(GOLDEN / f"{table}.zip") as files:
        files.extractall(tmp_path)
    meta = MetaClient.open(str(tmp_path / table), None, {})
    shards = open_shards(TableSnapshot.load(meta))
    assert shards is not None
    assert shards.partitioned == ("partitioned" in table)
    expected = scanned(tmp_path / table, partitioned=shards.partitioned)
    found = {}
    for number in range(len(shards.slices)):
        for key, partition, file_id in zip(*(c.to_pylist() for c in shards.scan(number).columns), strict=True):
            found[(partition, key) if shards.partitioned else key] = (partition, file_id)
            place = shards.shards_of(pa.array([key]), partition)
            assert place.tolist() == [number]
            assert shards.find(number, pa.array([key, "nowhere"])).num_rows == 1
    assert found == expected


@pytest.mark.parametrize("partition", [None, "", "nyc", "sao_paulo", "a/b=1", "2023-01-01", "0001", "x%y"])
@pytest.mark.parametrize("number", [0, 12, 10_000])
def test_names_of_file_groups(partition: str | None, number: int) -> None:
    slices = [FileSlice("record_index", shard_id(n, partition), None) for n in range(number + 1)]
    nowhere, scope = LocalStorage("/nowhere"), LogScope(frozenset())
    shards = RecordShards.of(nowhere, slices, scope, partitioned=partition is not None)
    assert shards.ranges == {partition: (0, number + 1)}


@pytest.mark.parametrize(("number", "digits"), [(0, "0000"), (12, "0012"), (10_000, "10000")])
def test_a_name_holds_its_partition_and_its_number(number: int, digits: str) -> None:
    assert shard_id(number) == f"record-index-{digits}-0"
    assert shard_id(number, "sao_paulo") == f"record-index-sao%5Fpaulo-{digits}-0"


def _slice(file_id: str) -> FileSlice:
    name = parse_log_file(f".{file_id}_20260101000000000.log.1_0-0-0")
    assert name is not None
    return FileSlice("record_index", file_id, None, (LogFile("record_index", name, 0),))


def test_indexes_of_the_other_kind_and_gaps_are_refused() -> None:
    storage, scope = LocalStorage("/nowhere"), LogScope(frozenset())
    with pytest.raises(CorruptError, match="none of a record index over"):
        RecordShards.of(storage, [_slice(shard_id(0)), _slice(shard_id(0, "x"))], scope, partitioned=False)
    with pytest.raises(CorruptError, match="lacks file groups"):
        RecordShards.of(storage, [_slice(shard_id(1))], scope, partitioned=False)
    with pytest.raises(CorruptError, match="no file group"):
        RecordShards.of(storage, [_slice("files-0000-0")], scope, partitioned=False)


def _base(folder: Path, keys: list[str], value: bytes) -> BaseFile:
    name = parse_base_file("record-index-0000-0_0-0-0_00000000000000001.hfile")
    assert name is not None
    columns = pa.array(sorted(keys, key=str.encode)).cast(pa.binary()), pa.array([value] * len(keys), pa.binary())
    content = encode_hfile(*columns, avro_schema=RECORD_AVRO)
    (folder / "record_index").mkdir(exist_ok=True)
    (folder / "record_index" / name.name).write_bytes(content)
    return BaseFile("record_index", name, len(content))


def _log(folder: Path, instant: str, rows: dict[str, bytes], gone: list[str]) -> LogFile:
    name = parse_log_file(f".record-index-0000-0_{instant}.log.1_0-0-0")
    assert name is not None
    keys = sorted(rows, key=str.encode)
    columns = pa.array(keys, pa.string()), pa.array([rows[key] for key in keys], pa.binary())
    headers = {Header.INSTANT_TIME: instant, Header.SCHEMA: RECORD_AVRO}
    content = encode_block(BlockKind.HFILE, headers, encode_hfile(*columns, avro_schema=RECORD_AVRO)) if rows else b""
    content += encode_delete_block(instant, pa.array(gone, pa.string()))
    (folder / "record_index" / name.name).write_bytes(content)
    return LogFile("record_index", name, len(content))


def test_newest_wins(tmp_path: Path) -> None:
    old, new = encode_location("p", "old", 1), encode_location("q", "new", 2)
    base = _base(tmp_path, ["a", "b", "c", "d"], old)
    instants = [f"2026010100000000{n}" for n in range(3)]
    logs = (
        _log(tmp_path, instants[0], {"b": new, "e": new}, ["a", "c"]),
        _log(tmp_path, instants[1], {"c": new}, ["e", "zz"]),
        _log(tmp_path, instants[2], {"d": new}, ["b"]),
    )
    file_slice = FileSlice("record_index", "record-index-0000-0", base, logs)
    storage = LocalStorage(str(tmp_path))
    seen = read_shard(storage, file_slice, LogScope(frozenset(instants[:2])))
    assert sorted(zip(*(c.to_pylist() for c in seen.columns), strict=True)) == [
        ("b", "q", "new"), ("c", "q", "new"), ("d", "p", "old"),
    ]  # fmt: skip
    some = read_shard(storage, file_slice, LogScope(frozenset(instants)), pa.array(["b", "d", "x"]))
    assert list(zip(*(c.to_pylist() for c in some.columns), strict=True)) == [("d", "q", "new")]
    nothing = read_shard(storage, FileSlice("record_index", "record-index-0000-0", None), LogScope(frozenset()))
    assert nothing.schema.equals(LOCATIONS)


@pytest.mark.slow
def test_a_million_random_keys(tmp_path: Path) -> None:
    chance = np.random.default_rng(3)
    keys = [f"{number:x}" for number in chance.integers(0, 2**62, 1_000_000).tolist()]
    old, new = encode_location("p", "old", 1), encode_location("q", "new", 2)
    unique = sorted(set(keys))
    base = _base(tmp_path, unique[:900_000], old)
    added, gone = unique[850_000:], unique[::7]
    log = _log(tmp_path, "20260101000000000", dict.fromkeys(added, new), [])
    later = _log(tmp_path, "20260101000000001", {}, gone)
    file_slice = FileSlice("record_index", "record-index-0000-0", base, (log, later))
    model = {**dict.fromkeys(unique[:900_000], "old"), **dict.fromkeys(added, "new")}
    for key in gone:
        del model[key]
    scope = LogScope(frozenset(["20260101000000000", "20260101000000001"]))
    storage = LocalStorage(str(tmp_path))
    whole = read_shard(storage, file_slice, scope)
    assert dict(zip(whole[RECORD_KEY].to_pylist(), whole.column(2).to_pylist(), strict=True)) == model
    wanted = chance.choice(unique, 100_000, replace=False).tolist()
    found = read_shard(storage, file_slice, scope, pa.array(wanted))
    expected = {key: model[key] for key in wanted if key in model}
    assert dict(zip(found[RECORD_KEY].to_pylist(), found.column(2).to_pylist(), strict=True)) == expected
