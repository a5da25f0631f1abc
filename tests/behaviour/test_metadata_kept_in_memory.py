"""A table that stays open keeps what it decoded of its metadata table: other writers' commits and damage are seen."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pytest

import pudi

SCHEMA = pa.schema([("id", pa.string()), ("n", pa.int64()), ("part", pa.string())])

ON = {"hoodie.metadata.enable": "true"}


def rows(*numbers: int) -> pa.Table:
    return pa.Table.from_pylist([{"id": str(n), "n": n, "part": f"p{n % 2}"} for n in numbers], SCHEMA)


def held(table: pudi.Table) -> list[int]:
    found: list[int] = sorted(table.scan().to_arrow()["n"].to_pylist())
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    pudi.create(tmp_path / "t", SCHEMA, record_key="id", partition_by="part")
    return tmp_path / "t"


def test_two_writers_see_each_other(path: Path) -> None:
    options = {**ON, "hoodie.parquet.small.file.limit": "0", "hoodie.clean.commits.retained": "2"}
    writers = [pudi.Table(path, options=options) for _ in range(2)]
    for n in range(13):  # with cleans, and a compaction of the metadata table
        writers[n % 2].upsert(rows(n, n // 2))
        assert held(writers[(n + 1) % 2]) == list(range(n + 1))
    assert held(writers[0]) == held(writers[1]) == held(pudi.Table(path, options=ON))
    assert (path / ".hoodie" / "metadata" / "files").is_dir()
    assert pudi.Table(path, options=ON).check().differences == ()


def test_damage_to_a_block_that_is_known_is_found(path: Path) -> None:
    table = pudi.Table(path, options=ON)
    for n in range(3):
        table.upsert(rows(n))
        assert held(table) == list(range(n + 1))
    log = sorted((path / ".hoodie" / "metadata" / "files").glob(".*.log.*"))[-1]
    content = bytearray(log.read_bytes())
    content[content.index(b"DATABLK*") + 60] ^= 1
    log.write_bytes(bytes(content))
    table.refresh()  # the list itself is kept as long as nothing is committed
    with pytest.warns(UserWarning, match="folders are listed in its stead"):
        assert held(table) == [0, 1, 2]
    with pytest.warns(UserWarning), pytest.raises(pudi.CorruptError, match="metadata table"):
        table.upsert(rows(3))


@pytest.mark.parametrize("number", [-1, -2], ids=["written last", "read before"])
def test_a_write_finds_damage_to_a_log_that_is_in_memory(path: Path, number: int) -> None:
    table = pudi.Table(path, options=ON)
    for n in range(4):
        table.upsert(rows(n))
    log = sorted((path / ".hoodie" / "metadata" / "files").glob(".*.log.*"))[number]
    content = bytearray(log.read_bytes())
    content[content.index(b"DATABLK*") + 60] ^= 1
    time.sleep(0.02)  # times of files may lie some milliseconds back
    log.write_bytes(bytes(content))
    with pytest.warns(UserWarning), pytest.raises(pudi.CorruptError, match="metadata table"):
        table.upsert(rows(4))
    content[content.index(b"DATABLK*") + 60] ^= 1
    log.write_bytes(bytes(content))
    assert table.upsert(rows(4)) is not None


def test_a_metadata_table_that_another_process_made_anew_is_read(path: Path) -> None:
    table = pudi.Table(path, options=ON)
    table.upsert(rows(1, 2))
    assert held(table) == [1, 2]
    pudi.Table(path, options={"hoodie.metadata.enable": "false"}).upsert(rows(3))
    pudi.Table(path, options=ON).upsert(rows(4))
    assert held(table) == [1, 2, 3, 4]
    table.upsert(rows(5))
    assert held(pudi.Table(path, options=ON)) == [1, 2, 3, 4, 5]
