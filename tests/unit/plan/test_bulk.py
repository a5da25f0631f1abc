"""A local bulk insert of much data makes several files a partition."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import pudi
from pudi.config import MergeMode
from pudi.context import Context
from pudi.engine.local import LocalEngine
from pudi.engine.local.records import LocalRecords
from pudi.filegroup import FileOptions
from pudi.merge import MergeRule
from pudi.plan import Operation, WriteSpec
from pudi.schema import PARTITION_PATH, RECORD_KEY, TableSchema, arrow_to_avro
from pudi.storage import open_storage
from pudi.task import bulk


def test_many_records_make_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "FILE_BYTES", 4000)
    data = pa.table({"id": [f"{n:08}" for n in range(10_000)], "v": list(range(10_000))})
    made = pudi.create(tmp_path / "t", data.schema, record_key="id")
    result = made.bulk_insert(data)
    assert result is not None
    assert result.files_written > 3
    assert len(made.file_slices()) == result.files_written
    assert sorted(made.scan(columns=["v"]).to_arrow()["v"].to_pylist()) == list(range(10_000))


def test_a_smaller_largest_file_size_makes_more_files() -> None:
    schema = pa.schema([("v", pa.int64())])
    keys = pa.array([f"{n * 7919 % 1000003:012}" for n in range(10_000)])
    rows = pa.table([keys, pa.array([""] * 10_000), pa.array(range(10_000))], names=[RECORD_KEY, PARTITION_PATH, "v"])
    spec = WriteSpec(
        instant="20240101000000000",
        operation=Operation.BULK_INSERT,
        schema=TableSchema(arrow_to_avro(schema, "t")),
        rule=MergeRule(MergeMode.COMMIT_TIME),
        deduplicate=False,
        files=FileOptions(),
        max_file_bytes=20_000,
        history=None,
    )
    storage = open_storage("memory://bulk-sizes")
    results = LocalEngine().bulk_write(LocalRecords(rows, schema), storage, spec, Context())
    sizes = [r.stat.file_size_in_bytes or 0 for r in results if r.stat is not None]
    assert len(sizes) > 1
    assert max(sizes) <= 22_000
    assert sum(r.received for r in results) == 10_000


def test_rows_of_each_partition_in_order_by_name() -> None:
    names = pa.array(["b", "a", "b", "é", "a", "b"]).dictionary_encode()
    rows = pa.table({PARTITION_PATH: pa.chunked_array([names.slice(0, 2), names.slice(2)])})
    found = [(name, places.to_pylist()) for name, places in bulk.split_by_partition(rows)]
    assert found == [("a", [1, 4]), ("b", [0, 2, 5]), ("é", [3])]
    assert [name for name, _ in bulk.split_by_partition(rows.slice(0, 2))] == ["a", "b"]
    assert list(bulk.split_by_partition(rows.slice(0, 0))) == []
