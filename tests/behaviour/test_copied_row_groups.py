"""Upserts and deletes in files of many row groups: what stays is copied as it's stored, and every row is right."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import pudi
from pudi.filegroup import basefile, basefile_copies
from support.disk import base_files
from support.hudi import HudiTable

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("ts", pa.int64()),
        ("word", pa.string()),
        ("x", pa.float64()),
        ("tags", pa.list_(pa.string())),
    ]
)
ROWS = 25_000
SMALL_GROUPS = {"hoodie.parquet.block.size": "400000", "hoodie.metadata.enable": "false"}


def records(numbers: Iterable[int], ts: int, word: str | None = None) -> pa.Table:
    """Records of some numbers; some reals are zeros, whose sign goes by `ts`."""
    numbers = list(numbers)
    columns = [
        pa.array([f"k{number:06}" for number in numbers]),
        pa.array([ts] * len(numbers)),
        pa.array([word or ("a", "b", None)[number % 3] for number in numbers], pa.string()),
        pa.array([number / 7 if number % 11 else (0.0, -0.0)[ts % 2] for number in numbers]),
        pa.array([[str(number % 5)] * (number % 4) for number in numbers], SCHEMA.field("tags").type),
    ]
    return pa.table(columns, schema=SCHEMA)


def made(path: Path, **more: str) -> pudi.Table:
    options = SMALL_GROUPS | more
    pudi.create(str(path), SCHEMA, record_key="id", ordering="ts", options=options)
    table = pudi.Table(str(path), options=options)
    table.bulk_insert(records(range(ROWS), 1))
    return table


def stored(table: pudi.Table) -> pa.Table:
    return table.scan(SCHEMA.names).to_arrow().sort_by("id")


def newest(path: Path) -> Path:
    return max(base_files(path), key=lambda file: file.stem.rpartition("_")[2])


def pages(file: Path, column: str) -> list[bytes]:
    """What is stored of a column, row group by row group."""
    content, metadata, found = file.read_bytes(), pq.read_metadata(file), []
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for chunk in map(group.column, range(group.num_columns)):
            if chunk.path_in_schema.partition(".")[0] == column:
                start = chunk.dictionary_page_offset or chunk.data_page_offset
                found.append(content[start : start + chunk.total_compressed_size])
    return found


def over(before: pa.Table, newer: pa.Table) -> pa.Table:
    """What an upsert makes of a table."""
    kept = before.filter(pc.invert(pc.is_in(before["id"], newer["id"])))
    return pa.concat_tables([kept, newer]).sort_by("id")


def same_bits(left: pa.Table, right: pa.Table) -> bool:
    """Equal rows, zeros of either sign told apart."""
    bits = [np.asarray(rows["x"]).view(np.int64) for rows in (left, right)]
    return bool(left.equals(right)) and np.array_equal(*bits)


def test_groups_without_a_change_are_copied(tmp_path: Path) -> None:
    table = made(tmp_path)
    (first,) = base_files(tmp_path)
    before = {name: pages(first, name) for name in [*SCHEMA.names, "_hoodie_record_key", "_hoodie_commit_seqno"]}
    count = len(before["id"])
    assert count > 5
    newer = records(range(ROWS - 300, ROWS), 2, "new")
    result = table.upsert(newer)
    assert same_bits(stored(table), over(records(range(ROWS), 1), newer))
    file = newest(tmp_path)
    for name, chunks in before.items():
        assert pages(file, name)[: count - 1] == chunks[: count - 1], name
    assert pages(file, "word")[-1] != before["word"][-1]
    assert pages(file, "id") == before["id"], "keys are the same, and copied in every row group"
    rows = pq.read_table(file)
    assert set(rows["_hoodie_file_name"].to_pylist()) == {file.name}
    assert pc.sum(pc.equal(rows["_hoodie_commit_time"], result.instant)).as_py() == 300
    assert len(set(rows["_hoodie_commit_seqno"].to_pylist())) == ROWS
    assert (result.records_updated, result.records_inserted) == (300, 0)


@pytest.mark.parametrize("index", ["SIMPLE", "BLOOM"])
def test_writes_of_all_kinds_after_each_other(tmp_path: Path, index: str) -> None:
    table = made(tmp_path, **{"hoodie.index.type": index, "hoodie.index.bloom.num_entries": "30000"})
    expected = records(range(ROWS), 1)
    chance = np.random.default_rng(5)
    for ts in range(2, 9):
        if ts % 3 == 0:
            gone = records(chance.choice(ROWS, 200, replace=False), ts)["id"]
            table.delete(pa.table({"id": gone}))
            expected = expected.filter(pc.invert(pc.is_in(expected["id"], gone)))
        else:
            known = chance.choice(ROWS, 50, replace=False) if ts % 2 else range(3_000, 3_400)
            newer = records([*sorted(known), *range(ROWS + ts * 100, ROWS + ts * 100 + 40)], ts, "x" * ts)
            table.upsert(newer)
            expected = over(expected, newer)
        assert same_bits(stored(table), expected), f"after write {ts}"
        rows, footer = pq.read_table(newest(tmp_path)), pq.read_metadata(newest(tmp_path)).metadata
        keys = rows["_hoodie_record_key"].to_pylist()
        assert (footer[b"hoodie_min_record_key"].decode(), footer[b"hoodie_max_record_key"].decode()) == (
            min(keys),
            max(keys),
        )
        assert (b"org.apache.hudi.bloomfilter" in footer) == (index == "BLOOM")
    old = records(range(100, 200), 0, "too old")
    table.upsert(old.filter(pc.is_in(old["id"], expected["id"])))
    assert same_bits(stored(table), expected), "an older version loses"


def test_a_bloom_filter_goes_along(tmp_path: Path) -> None:
    table = made(tmp_path, **{"hoodie.index.type": "BLOOM"})
    (first,) = base_files(tmp_path)
    table.upsert(records(range(10), 2))
    key = b"org.apache.hudi.bloomfilter"
    assert pq.read_metadata(newest(tmp_path)).metadata[key] == pq.read_metadata(first).metadata[key]
    assert pages(newest(tmp_path), "x")[1:] == pages(first, "x")[1:]


def test_nan_is_said_of_the_whole_file(tmp_path: Path) -> None:
    table = made(tmp_path)
    nan = records([7], 2).set_column(3, SCHEMA.field("x"), pa.array([float("nan")]))
    table.upsert(nan)
    table.upsert(records([ROWS - 1], 3))
    assert table.scan(["id"], where="x > 1e300").to_arrow()["id"].to_pylist() == ["k000007"], "NaN is above all numbers"
    table.upsert(records([7], 4))
    assert table.scan(["id"], where="x > 1e300").to_arrow().num_rows == 0


def test_statistics_of_the_metadata_table_are_those_of_all_rows(tmp_path: Path) -> None:
    table = made(tmp_path, **{"hoodie.metadata.enable": "true"})
    table.upsert(records(range(20_000, 20_100), 9, "zzz"))
    assert table.scan(["id"], where="word = 'zzz'").to_arrow().num_rows == 100
    assert table.scan(["id"], where="ts = 9").to_arrow().num_rows == 100
    assert table.check().differences == ()


def test_values_that_come_and_go_leave_no_trace_in_dictionaries(tmp_path: Path) -> None:
    table = made(tmp_path / "worn")
    for ts in range(2, 12):
        table.upsert(records(range(100), ts, f"word of round {ts}"))
    first = pages(newest(tmp_path / "worn"), "word")[0]
    made(tmp_path / "fresh").upsert(records(range(100), 2, "word of round 2"))
    assert len(first) < len(pages(newest(tmp_path / "fresh"), "word")[0]) + 50


def test_a_file_in_another_codec_is_written_anew(tmp_path: Path) -> None:
    table = made(tmp_path)
    newer = records(range(50), 2, "new")
    table.upsert(newer, options={"hoodie.parquet.compression.codec": "snappy"})
    footer = pq.read_metadata(newest(tmp_path))
    assert {footer.row_group(0).column(n).compression for n in range(footer.num_columns)} == {"SNAPPY"}
    assert same_bits(stored(table), over(records(range(ROWS), 1), newer))


def without_rows_between(rows: pa.Table, footer: Any, **options: Any) -> pa.Buffer:
    """A file with a row group of no rows, as pyarrow makes one."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, rows.schema, compression="zstd", **options) as writer:
        for part in (rows.slice(0, 9_000), rows.slice(0, 0), rows.slice(9_000)):
            writer.write_table(part)
        writer.add_key_value_metadata(dict(footer(None)))
    return sink.getvalue()


def test_a_file_with_a_row_group_without_rows_is_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(basefile, "encode_base_file", lambda rows, _, footer: without_rows_between(rows, footer))
        table = made(tmp_path)
    assert pq.read_metadata(newest(tmp_path)).row_group(1).num_rows == 0
    newer = records(range(50), 2, "new")
    table.upsert(newer)
    assert same_bits(stored(table), over(records(range(ROWS), 1), newer))
    footer = pq.read_metadata(newest(tmp_path))
    assert all(footer.row_group(number).num_rows for number in range(footer.num_row_groups))


@pytest.mark.parametrize("writer", ["DuckDB version", "parquet-cpp-velox version", "parquet-cpp-arrow version 1."])
def test_a_file_of_another_writer_is_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: str) -> None:
    def renamed(rows: pa.Table, footer: Any) -> pa.Buffer:
        content = without_rows_between(rows, footer, use_dictionary=False).to_pybytes()
        place = content.rindex(b"parquet-cpp-arrow version")
        length = content[place - 1]
        return pa.py_buffer(content[:place] + writer.encode().ljust(length)[:length] + content[place + length :])

    with monkeypatch.context() as patch:
        patch.setattr(basefile, "encode_base_file", lambda rows, _, footer: renamed(rows, footer))
        table = made(tmp_path)
    assert pq.read_metadata(newest(tmp_path)).created_by.startswith(writer)
    monkeypatch.setattr(basefile_copies, "assemble", None)  # nothing is copied
    newer = records(range(50), 2, "new")
    table.upsert(newer)
    assert same_bits(stored(table), over(records(range(ROWS), 1), newer))


def test_a_new_column_is_in_every_row_group(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.upsert(records(range(50), 2).append_column("more", pa.array([7] * 50)))
    rows = table.scan(["id", "more"]).to_arrow()
    assert rows.num_rows == ROWS
    assert rows["more"].null_count == ROWS - 50


@pytest.mark.parametrize("column", ["x", "tags", "_hoodie_record_key", "_hoodie_commit_seqno"])
def test_damage_in_what_is_copied_is_an_error(tmp_path: Path, column: str) -> None:
    table = made(tmp_path)
    (file,) = base_files(tmp_path)
    chunk = pages(file, column)[2]
    content = bytearray(file.read_bytes())
    content[content.index(chunk) + len(chunk) - 1] ^= 1
    file.write_bytes(content)
    with pytest.raises(pudi.CorruptError, match=column) as told:
        table.upsert(records(range(ROWS - 10, ROWS), 2))
    assert told.value.path == file.name
    assert base_files(tmp_path) == [file]


@pytest.mark.spark
@pytest.mark.interop
def test_hudi_reads_and_rewrites_what_was_copied(spark: Any, tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    newer = records([*range(0, ROWS, 1_000), *range(ROWS, ROWS + 30)], 2, "new")
    table.upsert(newer)
    expected = over(records(range(ROWS), 1), newer)
    plain = spark.read.parquet(str(newest(tmp_path / "t"))).select(*SCHEMA.names).orderBy("id").collect()
    assert [row.asDict() for row in plain] == expected.to_pylist()
    hudi = HudiTable(spark, tmp_path / "t")
    assert len(hudi.snapshot()) == expected.num_rows
    again = records(range(ROWS - 5, ROWS + 5), 3, "again")
    hudi.write("upsert", again)
    expected = over(expected, again)
    assert same_bits(stored(table), expected)
    last = records(range(100), 4, "last")
    table.upsert(last)
    assert same_bits(stored(table), over(expected, last))
