"""More text than 32-bit offsets can count, in one column of a batch, of a file group or of a group of a clustering."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pudi
from pudi.format import parquet
from pudi.schema import arrays
from pudi.task import cluster

WORDS = pa.array([f"{number}-" + "w" * 98 for number in range(10)])
SMALL_FILES = {"hoodie.parquet.small.file.limit": "0", "hoodie.metadata.enable": "false"}
NESTED = pa.struct([pa.field("a", pa.string()), pa.field("n", pa.int64())])


def part(first: int, count: int) -> pa.Table:
    """Rows of a hundred bytes of text, which take a few bits in a file; `v` falls."""
    ids = np.arange(first, first + count)
    return pa.table({"id": ids, "v": -ids, "s": WORDS.take(pa.array(ids % 10))})


def nested(first: int, count: int) -> pa.Table:
    """Rows with text in a struct, a list and a map."""
    rows = part(first, count)
    texts, ends = rows["s"].chunk(0), pa.array(np.arange(count + 1, dtype=np.int32))
    rows = rows.append_column("r", pa.StructArray.from_arrays([texts, rows["id"].chunk(0)], fields=list(NESTED)))
    rows = rows.append_column("l", pa.ListArray.from_arrays(ends, texts))
    return rows.append_column("m", pa.MapArray.from_arrays(ends, texts, texts))


def assert_holds(table: pudi.Table, count: int) -> None:
    """All rows are there, each with its texts."""
    ids = []
    for batch in table.scan(meta_fields=False).to_batches():
        ids.append(np.asarray(batch["id"]))
        texts = WORDS.take(pa.array(ids[-1] % 10))
        for name in set(batch.schema.names) - {"id", "v"}:
            column = pa.concat_arrays([batch[name]])  # keys of a part of an array are those of the whole
            if name == "r":
                assert column.field("n").equals(batch["id"])
                column = column.field("a")
            elif name == "m":
                assert column.keys.equals(texts)
                column = column.items
            elif name == "l":
                column = column.flatten()
            assert column.equals(texts)
    assert np.array_equal(np.sort(np.concatenate(ids)), np.arange(count))


@pytest.fixture
def little_room(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An array has room for some rows' texts only; what joins more of them, and isn't cut, is refused."""
    monkeypatch.setattr(arrays, "_MOST", 1500)
    refused: list[str] = []
    real = arrays.NotSupportedError

    def raised(text: str) -> Exception:
        refused.append(text)
        return real(text)

    monkeypatch.setattr(arrays, "NotSupportedError", raised)
    yield
    assert not refused


@pytest.mark.parametrize(
    ("kind", "version", "block"), [("cow", 6, ""), ("cow", 9, ""), *product(["mor"], [6, 8, 9], ["avro", "parquet"])]
)
@pytest.mark.usefixtures("little_room")
def test_verbs_and_services_with_less_room_in_an_array(tmp_path: Path, kind: str, version: int, block: str) -> None:
    options = {**SMALL_FILES, "hoodie.write.table.version": str(version)}
    if block:
        options["hoodie.logfile.data.block.format"] = block
    table = pudi.create(
        tmp_path / "t", nested(0, 1).schema, record_key="id", ordering="v", table_type=kind, options=options
    )
    table.bulk_insert(pa.concat_tables([nested(0, 60), nested(60, 60)]))
    table.upsert(pa.concat_tables([nested(100, 40), nested(90, 40)]))
    table.insert(nested(140, 30))
    table.merge(nested(150, 40), on="id").when_matched_update_all().when_not_matched_insert_all().execute()
    assert_holds(table, 190)
    table.update({"s": "CASE WHEN v < 0 THEN s ELSE s END"}, where="id < 80")
    table.delete(nested(180, 10).select(["id"]))
    if kind == "mor":
        assert_holds(table, 180)
        assert table.compact()
    assert_holds(table, 180)
    table.cluster(order_by="v")
    assert_holds(table, 180)
    ordered = table.scan(["v"]).to_arrow()["v"].to_pylist()
    assert ordered == sorted(ordered)
    assert table.check().ok


def test_changes_with_less_room_in_an_array(tmp_path: Path, little_room: None) -> None:
    options = {**SMALL_FILES, "hoodie.table.cdc.enabled": "true"}
    table = pudi.create(tmp_path / "t", nested(0, 1).schema, record_key="id", options=options)
    first = table.insert(nested(0, 50))
    done = table.upsert(nested(10, 30).set_column(1, "v", pa.array(np.arange(30))))
    assert first is not None and done is not None
    changed = table.changes(since=first.completion_time, format="cdc").to_arrow()
    assert changed.num_rows == 30
    assert done.records_updated == 30


class Newer(pudi.RecordMerger):
    """The newer record stands."""

    strategy_id = "5a3e2c94-0d3f-4a5c-8f5e-1d2b7f3c6a10"

    def merge(self, older: pa.RecordBatch, newer: pa.RecordBatch, context: pudi.MergeContext) -> pa.RecordBatch:
        assert newer.num_rows <= 1500 // 100
        return newer


@pytest.mark.usefixtures("little_room")
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_merged_by_the_user_with_less_room_in_an_array(tmp_path: Path, kind: str) -> None:
    pudi.register_merger(Newer())
    options = {**SMALL_FILES, "hoodie.record.merge.strategy.id": Newer.strategy_id}
    table = pudi.create(tmp_path / "t", nested(0, 1).schema, record_key="id", table_type=kind, options=options)
    table.insert(nested(0, 60))
    table.upsert(nested(20, 60))
    table.upsert(nested(30, 60))
    if kind == "mor":
        assert_holds(table, 90)
        assert table.compact()
    assert_holds(table, 90)


def test_data_of_other_layouts(tmp_path: Path, little_room: None) -> None:
    rows = nested(0, 120)
    texts = rows["s"].chunk(0)
    for number, given in enumerate(
        [texts.cast(pa.large_string()), texts.cast(pa.string_view()), texts.dictionary_encode()]
    ):
        table = pudi.create(tmp_path / str(number), rows.schema, record_key="id", options=SMALL_FILES)
        lists = pa.LargeListArray.from_arrays(pa.array(np.arange(121)), texts.cast(pa.large_string()))
        table.insert(rows.set_column(2, "s", given).set_column(4, "l", lists))
        assert_holds(table, 120)


def test_row_groups_of_more_than_an_array_has_room_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(nested(0, 200), tmp_path / "f.parquet", row_group_size=150)
    real = pq.ParquetFile.iter_batches

    def none_at_once(*args: Any, **kwargs: Any) -> Any:
        raise pa.ArrowNotImplementedError("Nested data conversions not implemented for chunked array outputs")

    def few(file: pq.ParquetFile, rows: int, **kwargs: Any) -> Any:
        return real(file, rows, **kwargs) if rows < 100 else none_at_once()

    monkeypatch.setattr(pq.ParquetFile, "read_row_groups", none_at_once)
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", few)
    found = parquet.read_groups(parquet.open_parquet(tmp_path / "f.parquet"), [0, 1], ["r", "id"])
    assert found["r"].num_chunks > 1
    assert found["r"].combine_chunks().field("n").equals(found["id"].combine_chunks())
    assert found.num_rows == 200


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_clustering_of_files_that_swell(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spilled: list[Any] = []

    class Spill(cluster.SpillFile):
        def add(self, rows: pa.Table) -> tuple[int, int]:
            spilled.append(rows.nbytes)
            return super().add(rows)

    monkeypatch.setattr(cluster, "SpillFile", Spill)
    table = pudi.create(tmp_path / "t", part(0, 1).schema, record_key="id", table_type=kind, options=SMALL_FILES)
    for number in range(3):
        table.bulk_insert(part(number * 40_000, 40_000))
    assert sum(each.base.size for each in table.file_slices() if each.base) < 2 << 20
    options = {**SMALL_FILES, "hoodie.memory.compaction.max.size": str(16 << 20)}
    assert pudi.Table(table.path, options=options).cluster(order_by="v")
    assert sum(spilled) > 12 << 20
    assert_holds(table, 120_000)
    ordered = table.scan(["v"]).to_arrow()["v"].to_pylist()
    assert ordered == sorted(ordered)


LONG = pa.array([f"{number}-" + "w" * 9_998 for number in range(10)])


def long(first: int, count: int, *, inside: bool) -> pa.Table:
    """Rows of ten thousand bytes of text, perhaps in a struct; `v` falls."""
    ids = np.arange(first, first + count)
    texts = LONG.take(pa.array(ids % 10))
    return pa.table({"id": ids, "v": -ids, "s": pa.StructArray.from_arrays([texts], ["a"]) if inside else texts})


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "inside"), [("cow", False), ("mor", True)])
def test_more_than_two_gigabytes(tmp_path: Path, kind: str, inside: bool) -> None:
    """Of one batch, and of one file group: takes 11 GB of memory."""
    every, count = 10_000, 220_000
    rows = pa.concat_tables([long(first, every, inside=inside) for first in range(0, count, every)])
    assert rows["s"].nbytes > 1 << 31
    table = pudi.create(tmp_path / "t", rows.schema, record_key="id", table_type=kind, options=SMALL_FILES)
    table.bulk_insert(rows.slice(0, count - 1))
    assert table.cluster(order_by="v")
    assert len(table.file_slices()) == 1
    table.upsert(rows)
    del rows
    if kind == "mor":
        assert table.compact()
    ids = []
    for batch in table.scan(["id", "s"]).to_batches():
        ids.append(np.asarray(batch["id"]))
        texts = batch["s"].field("a") if inside else batch["s"]
        assert texts.equals(LONG.take(pa.array(ids[-1] % 10)))
    assert np.array_equal(np.sort(np.concatenate(ids)), np.arange(count))
