"""A bit that flips in a page of a Parquet file, or of a Parquet block, is an error that names file and column."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pudi
from support.disk import base_files
from support.engines import Engine
from support.golden import Golden

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("ts", pa.int64()),
        ("place", pa.string()),
        ("note", pa.string()),
        ("tags", pa.list_(pa.string())),
        ("point", pa.struct([("x", pa.float64()), ("y", pa.float64())])),
    ]
)


def rows(numbers: range, ts: int) -> pa.Table:
    return pa.table(
        [
            pa.array(list(numbers), pa.int64()),
            pa.array([ts] * len(numbers), pa.int64()),
            pa.array([f"p{n % 3}" for n in numbers]),
            pa.array([f"note {n} at {ts}" for n in numbers]),
            pa.array([[f"t{n}", "tag"] for n in numbers]),
            pa.array([{"x": n / 2, "y": float(ts)} for n in numbers], SCHEMA.field("point").type),
        ],
        schema=SCHEMA,
    )


class Spot(NamedTuple):
    """A byte in a page, and what it holds.

    Attributes:
        column: the top-level column.
        kind: `dictionary` or `data`.
        at: where the byte is in the file.
    """

    column: str
    kind: str
    at: int


def spots(file: Path) -> Iterator[Spot]:
    """The last byte of each column's dictionary and of its data.

    Args:
        file: a Parquet file, or a log file with one Parquet block.
    """
    content = file.read_bytes()
    start, end = content.index(b"PAR1"), content.rindex(b"PAR1") + 4
    footer = pq.read_metadata(pa.BufferReader(content[start:end]))
    for group in (footer.row_group(number) for number in range(footer.num_row_groups)):
        for chunk in (group.column(number) for number in range(group.num_columns)):
            column = chunk.path_in_schema.partition(".")[0]
            first = chunk.dictionary_page_offset or chunk.data_page_offset
            last = first + chunk.total_compressed_size - 1
            if chunk.dictionary_page_offset is not None:
                yield Spot(column, "dictionary", start + chunk.data_page_offset - 1)
            yield Spot(column, "data", start + last)


def flip(file: Path, at: int) -> None:
    """Flip one bit; again, and it's as it was."""
    with file.open("r+b") as opened:
        opened.seek(at)
        byte = opened.read(1)[0]
        opened.seek(at)
        opened.write(bytes([byte ^ 0x10]))


def make(path: Path, kind: str) -> pudi.Table:
    made = pudi.create(path, SCHEMA, record_key="id", ordering="ts", table_type=kind)
    made.bulk_insert(rows(range(500), 1))
    return made


def newest_file(made: pudi.Table, kind: str) -> Path:
    if kind == "cow":
        return base_files(Path(made.path))[-1]
    (log,) = Path(made.path).glob(".*.log.*")
    return log


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_flipped_bit_in_any_column(tmp_path: Path, kind: str) -> None:
    made = make(tmp_path / "t", kind)
    made.upsert(rows(range(100), 2))
    file = newest_file(made, kind)
    good = made.scan().to_arrow()
    found = list(spots(file))
    assert {spot.column for spot in found} >= set(SCHEMA.names)
    assert {spot.kind for spot in found} == {"dictionary", "data"}
    for column, _, at in found:
        flip(file, at)
        with pytest.raises(pudi.CorruptError, match=rf"column {column}\b") as told:
            pudi.Table(made.path).scan().to_arrow()
        assert told.value.path == file.name
        flip(file, at)
    assert pudi.Table(made.path).scan().to_arrow().equals(good)


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_no_verb_goes_on_with_a_flipped_bit(tmp_path: Path, kind: str) -> None:
    made = make(tmp_path / "t", kind)
    made.upsert(rows(range(100), 2))
    file = newest_file(made, kind)
    (spot,) = (spot for spot in spots(file) if spot.column == "note" and spot.kind == "data")
    flip(file, spot.at)
    with pytest.raises(pudi.CorruptError, match=file.name):
        made.compact() if kind == "mor" else made.upsert(rows(range(100, 200), 3))
    with pytest.raises(pudi.CorruptError, match=file.name):
        made.changes().to_arrow()
    assert made.scan(["id", "ts"]).to_arrow().num_rows == 500, "columns that aren't damaged are read"
    flip(file, spot.at)
    assert made.scan(where="ts = 2").to_arrow().num_rows == 100


def test_hudis_files_have_checksums_too(tmp_path: Path) -> None:
    path = Golden("cow_v9_basic").unpack(tmp_path)
    file = Path(path, pudi.Table(path).file_slices()[0].base.path)
    spot = next(spot for spot in spots(file) if spot.column not in {"_hoodie_commit_time", "_hoodie_file_name"})
    flip(file, spot.at)
    with pytest.raises(pudi.CorruptError, match=rf"column {spot.column}\b.*{file.name}"):
        pudi.Table(path).scan().to_arrow()


def test_files_without_checksums_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = pq.ParquetWriter
    with monkeypatch.context() as patched:
        patched.setattr(pq, "ParquetWriter", lambda *args, **kw: writer(*args, **kw | {"write_page_checksum": False}))
        made = make(tmp_path / "t", "cow")
    assert made.scan().to_arrow().num_rows == 500
    made.upsert(rows(range(100), 2))
    assert made.scan(where="ts = 2").to_arrow().num_rows == 100


@pytest.mark.spark
@pytest.mark.parametrize("engine", ["spark"], indirect=True)
def test_sparks_own_reader_verifies(tmp_path: Path, engine: Engine) -> None:
    made = make(tmp_path / "t", "cow")
    (file,) = base_files(tmp_path / "t")
    for column in ("note", "tags"):  # the second isn't of a kind that every Spark reads in columns
        (spot,) = (spot for spot in spots(file) if spot.column == column and spot.kind == "data")
        flip(file, spot.at)
        with pytest.raises(Exception, match=r"(?i)checksum|CRC"):
            engine.read(made.scan(["id", column]))
        flip(file, spot.at)
    assert len(engine.read(made.scan())) == 500


@pytest.mark.spark
@pytest.mark.parametrize("engine", ["spark", "spread"], indirect=True)
def test_writes_on_spark_name_the_file(tmp_path: Path, engine: Engine) -> None:
    made = make(tmp_path / "t", "cow")
    (file,) = base_files(tmp_path / "t")
    update = engine.frame(rows(range(10), 2))
    for column in ("note", "_hoodie_record_key"):  # read when the file is written anew; when keys are looked up
        (spot,) = (spot for spot in spots(file) if spot.column == column and spot.kind == "data")
        flip(file, spot.at)
        with pytest.raises(pudi.CorruptError, match=file.name):
            made.upsert(update)
        flip(file, spot.at)
    made.upsert(update)
    assert made.scan(where="ts = 2").to_arrow().num_rows == 10
