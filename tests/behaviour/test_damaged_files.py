"""Base and log files that are gone, or not those that were written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from support.engines import Engine
from support.pudi_table import PudiTable

SCHEMA = pa.schema([("k", pa.int64()), ("p", pa.string()), ("ts", pa.int64()), ("v", pa.string())])
OPTIONS = {"hoodie.metadata.enable": "false"}


def rows(value: str, *keys: int) -> pa.Table:
    data = [{"k": k, "p": "pq"[k % 2], "ts": 1, "v": value * (k + 1)} for k in keys]
    return pa.Table.from_pylist(data, schema=SCHEMA)


def make(path: Path, kind: str, version: int, *, metadata: bool = False) -> tuple[Any, list[str]]:
    """A table of three commits: two new file groups, two more, and an upsert of one record; their requested times."""
    listed = {"hoodie.metadata.enable": str(metadata).lower()}
    options = listed | {"hoodie.write.table.version": str(version)}
    table = pudi.create(path, SCHEMA, record_key="k", partition_by="p", ordering="ts", table_type=kind, options=options)
    table = pudi.Table(path, options=listed)
    done = [table.bulk_insert(rows("first", 0, 1)), table.bulk_insert(rows("second", 2, 3))]
    done.append(table.upsert(rows("third", 0)))
    return pudi.Table(path, options=listed), [result.instant for result in done]


def base_of(path: Path, instant: str, partition: str) -> Path:
    (found,) = (path / partition).glob(f"*_{instant}.parquet")
    return found


def reads(table: Any, instants: list[str]) -> dict[str, Callable[[], object]]:
    """What reads all that the first two commits wrote to partition q."""
    return {
        "scan": lambda: table.scan().to_arrow(),
        "as of the second": lambda: table.scan(as_of=instants[1]).to_arrow(),
        "as of the third": lambda: table.scan(as_of=instants[2]).to_arrow(),
        "by key": lambda: table.scan(where="k = 1 and p = 'q'").to_arrow(),
        "upsert": lambda: table.upsert(rows("new", 1)),
        "delete": lambda: table.delete(rows("new", 1)),
        "update": lambda: table.update({"v": "'new'"}, where="k = 1"),
    }


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize(
    "read", ["scan", "as of the second", "as of the third", "by key", "upsert", "delete", "update"]
)
def test_a_base_file_is_gone(tmp_path: Path, kind: str, version: int, read: str) -> None:
    """Of a commit that isn't the newest, in a file group that none wrote to again."""
    table, instants = make(tmp_path / "t", kind, version)
    gone = base_of(tmp_path / "t", instants[0], "q")
    gone.unlink()
    with pytest.raises(pudi.PudiError, match=gone.name):
        reads(table, instants)[read]()


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize(
    "read", ["scan", "as of the second", "as of the third", "by key", "upsert", "delete", "update"]
)
def test_a_base_file_is_another(tmp_path: Path, kind: str, version: int, read: str) -> None:
    table, instants = make(tmp_path / "t", kind, version)
    other = base_of(tmp_path / "t", instants[0], "q")
    other.write_bytes(base_of(tmp_path / "t", instants[1], "q").read_bytes())
    with pytest.raises(pudi.CorruptError, match=other.name):
        reads(table, instants)[read]()


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("version", [6, 9])
def test_a_base_file_is_another_than_the_metadata_table_lists(tmp_path: Path, kind: str, version: int) -> None:
    table, instants = make(tmp_path / "t", kind, version, metadata=True)
    other = base_of(tmp_path / "t", instants[0], "q")
    other.write_bytes(base_of(tmp_path / "t", instants[1], "q").read_bytes())
    for what, read in reads(table, instants).items():
        with pytest.raises(pudi.CorruptError) as caught:
            read()
        assert other.name in str(caught.value), what


@pytest.mark.parametrize("version", [6, 9])
def test_a_log_file_is_gone(tmp_path: Path, version: int) -> None:
    table, _ = make(tmp_path / "t", "mor", version)
    (gone,) = (tmp_path / "t" / "p").glob(".*.log.*")
    table.upsert(rows("fourth", 1))
    gone.unlink()
    for read in (lambda: table.scan().to_arrow(), table.compact, lambda: table.upsert(rows("new", 0))):
        with pytest.raises(pudi.PudiError, match=gone.name):
            read()


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("version", [6, 9])
def test_what_was_superseded_may_be_gone(tmp_path: Path, kind: str, version: int) -> None:
    """Cleaners take away base files and log files that later base files took in, and replaced file groups."""
    table, instants = make(tmp_path / "t", kind, version)
    if kind == "mor":
        table.compact()
    table.insert_overwrite(rows("other", 5))
    for old in (tmp_path / "t").glob("p/*"):
        if kind == "mor" and ".log." in old.name:
            old.unlink()
    base_of(tmp_path / "t", instants[0], "p").unlink()
    base_of(tmp_path / "t", instants[0], "q").unlink()
    base_of(tmp_path / "t", instants[1], "q").unlink()
    found = pudi.Table(table.path, options=OPTIONS)
    assert sorted(found.scan().to_arrow()["k"].to_pylist()) == [0, 2, 5]
    assert found.upsert(rows("new", 0, 2, 5)) is not None


@pytest.mark.parametrize("version", [6, 9])
def test_a_partition_that_is_not_listed(tmp_path: Path, version: int) -> None:
    table, _ = make(tmp_path / "t", "cow", version)
    (tmp_path / "t" / "q" / ".hoodie_partition_metadata").unlink()
    with pytest.raises(pudi.CorruptError, match=r"q/\.hoodie_partition_metadata"):
        table.scan().to_arrow()


def test_a_read_optimized_scan_misses_base_files_too(tmp_path: Path) -> None:
    table, instants = make(tmp_path / "t", "mor", 6)
    gone = base_of(tmp_path / "t", instants[0], "q")
    gone.unlink()
    with pytest.raises(pudi.PudiError, match=gone.name):
        table.scan(read_optimized=True).to_arrow()


@pytest.mark.spark
@pytest.mark.parametrize("engine", ["spark"], indirect=True)
def test_spark_reads_no_other_base_file(tmp_path: Path, engine: Engine) -> None:
    _, instants = make(tmp_path / "t", "cow", 9, metadata=True)
    other = base_of(tmp_path / "t", instants[0], "q")
    other.write_bytes(base_of(tmp_path / "t", instants[1], "q").read_bytes())
    with pytest.raises(pudi.CorruptError, match=other.name):
        PudiTable(engine, tmp_path / "t").snapshot()
