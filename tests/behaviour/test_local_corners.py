"""Corners of writing and reading on this machine: deletes in disguise, tasks without records, odd arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pudi
from pudi.filegroup import basefile
from support.disk import base_files

SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("v", pa.int64()), ("_hoodie_is_deleted", pa.bool_())])


def rows(*ids: str, deleted: bool | None = None) -> pa.Table:
    return pa.Table.from_pylist([{"id": i, "p": "a", "v": 1, "_hoodie_is_deleted": deleted} for i in ids], SCHEMA)


def ids(table: pudi.Table) -> list[str]:
    return sorted(table.scan(columns=["id"]).to_arrow()["id"].to_pylist())


@pytest.fixture
def table(tmp_path: Path) -> pudi.Table:
    return pudi.create(str(tmp_path / "t"), SCHEMA, record_key="id", partition_by="p")


def test_files_that_no_record_is_routed_to_are_not_written(table: pudi.Table) -> None:
    many = [f"{n:03}" for n in range(60)]
    options = {"hoodie.parquet.max.file.size": "1", "hoodie.parquet.small.file.limit": "0"}
    done = table.upsert(rows(*many), options=options)
    assert done is not None
    assert 1 < done.files_written < 60
    assert ids(table) == many
    assert all(pq.read_metadata(file).num_rows for file in base_files(Path(table.path)))


@pytest.mark.parametrize("verb", ["insert", "bulk_insert"])
def test_records_marked_deleted_are_not_inserted(table: pudi.Table, verb: str) -> None:
    getattr(table, verb)(pa.concat_tables([rows("a"), rows("b", deleted=True), rows("c", deleted=False)]))
    assert ids(table) == ["a", "c"]
    getattr(table, verb)(pa.concat_tables([rows("d"), rows("e", deleted=True)]))
    assert ids(table) == ["a", "c", "d"]


@pytest.mark.parametrize("verb", ["insert", "bulk_insert", "upsert"])
def test_deletes_of_what_is_not_there_write_no_file(table: pudi.Table, verb: str) -> None:
    table.upsert(rows("a"))
    before = base_files(Path(table.path))
    getattr(table, verb)(rows("b", "c", deleted=True))
    assert base_files(Path(table.path)) == before
    assert ids(table) == ["a"]


def test_a_delete_of_the_last_record_still_writes_the_empty_file(table: pudi.Table) -> None:
    table.upsert(rows("a"))
    table.upsert(rows("a", deleted=True))
    assert ids(table) == []


@pytest.mark.parametrize(("where", "count"), [(None, 3), ("id <> 'b'", 2), ("id = 'x'", 0)])
def test_no_columns_keep_the_number_of_rows(table: pudi.Table, where: str | None, count: int) -> None:
    table.bulk_insert(rows("a", "b", "c"))
    scan = table.scan(columns=[], where=where)
    assert (scan.to_arrow().num_rows, scan.to_arrow().num_columns) == (count, 0)
    assert sum(batch.num_rows for batch in scan.to_batches()) == count


def test_columns_in_one_text_are_refused(table: pudi.Table) -> None:
    with pytest.raises(pudi.InvalidArgumentError, match=r"columns=\['id'\]"):
        table.scan(columns="id")


def test_only_statistics_of_filtered_columns_are_read(table: pudi.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    table.bulk_insert(rows("a", "b"))
    asked: list[str] = []
    real = basefile.column_statistics

    def noted(metadata: Any, name: str, *more: Any) -> Any:
        asked.append(name)
        return real(metadata, name, *more)

    monkeypatch.setattr(basefile, "column_statistics", noted)
    assert table.scan(where="v = 1").to_arrow().num_rows == 2
    assert asked == ["v"]
    asked.clear()
    assert table.changes(columns=["id"]).to_arrow().num_rows == 2
    assert asked == ["_hoodie_commit_time"]


@pytest.mark.parametrize(
    "kind",
    [pa.list_(pa.int64()), pa.struct([("x", pa.int32())]), pa.map_(pa.string(), pa.int64()), pa.binary()],
    ids=["list", "struct", "map", "binary"],
)
def test_ordering_by_what_has_no_order_is_refused(tmp_path: Path, kind: pa.DataType) -> None:
    schema = pa.schema([("id", pa.string()), ("o", kind)])
    with pytest.raises(pudi.SchemaError, match="ordering names 'o'"):
        pudi.create(str(tmp_path / "t"), schema, record_key="id", ordering="o")
    assert not (tmp_path / "t").exists()


def test_a_delete_mark_that_is_no_boolean_is_refused(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.string()), ("_hoodie_is_deleted", pa.string())])
    with pytest.raises(pudi.SchemaError, match="_hoodie_is_deleted is string"):
        pudi.create(str(tmp_path / "t"), schema, record_key="id")


def test_keys_to_delete_with_a_column_twice_are_refused(table: pudi.Table) -> None:
    table.bulk_insert(rows("a"))
    keys = pa.Table.from_arrays([pa.array(["a"])] * 3, names=["id", "id", "p"])
    with pytest.raises(pudi.SchemaError, match="more than once: id"):
        table.delete(keys)
    assert ids(table) == ["a"]


@pytest.mark.parametrize("verb", ["insert", "upsert"])
@pytest.mark.parametrize("lost", ["_hoodie_commit_time", "_hoodie_record_key"])
def test_a_base_file_without_its_meta_fields_is_corrupt(table: pudi.Table, verb: str, lost: str) -> None:
    table.bulk_insert(rows("a"))
    (file,) = base_files(Path(table.path))
    pq.write_table(pq.read_table(file, partitioning=None).drop_columns([lost]), file)
    with pytest.raises(pudi.CorruptError, match=f"no column {lost}|isn.t the one that was written"):
        getattr(table, verb)(rows("a"))


@pytest.mark.parametrize("verb", ["insert", "bulk_insert", "upsert", "merge"])
@pytest.mark.parametrize("read_before", [False, True])
def test_a_stream_with_empty_slices_is_written(table: pudi.Table, verb: str, read_before: bool) -> None:
    whole = rows("a", "b", "c", "d").combine_chunks().to_batches()[0]
    parts = [whole.slice(start, size) for start, size in [(0, 0), (0, 1), (1, 0), (1, 2), (3, 0), (3, 1), (4, 0)]]
    stream: Any = pa.RecordBatchReader.from_batches(SCHEMA, parts)
    if read_before:
        stream = pa.table(stream)
    if verb == "merge":
        table.merge(stream).when_not_matched_insert_all().execute()
    else:
        getattr(table, verb)(stream)
    assert ids(table) == ["a", "b", "c", "d"]
