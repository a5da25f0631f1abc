"""The range of record keys in the footer of a base file, by which Hudi's bloom index passes files over."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pudi.filegroup import BaseFileWriter, ParquetOptions
from pudi.storage import open_storage


def key_range(keys: list[str], kind: pa.DataType) -> tuple[str, str] | None:
    """Least and greatest key that the footer of a file with these keys names."""
    storage = open_storage("memory://key-range")
    rows = pa.table({"_hoodie_record_key": pa.array(keys, kind)})
    BaseFileWriter(storage, "{}", ParquetOptions()).put("file", rows)
    footer = pq.read_metadata(io.BytesIO(storage.read("file"))).metadata
    storage.delete(["file"])
    bounds = [footer.get(name) for name in (b"hoodie_min_record_key", b"hoodie_max_record_key")]
    return None if bounds == [None, None] else (bounds[0].decode(), bounds[1].decode())


KINDS = [pa.string(), pa.large_string()]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("keys", [["b", "a", "c"], ["\uff61", "z", "é"], ["\ud7ff", "\ue000", "\uffff"], ["a"]])
def test_the_range_is_that_of_javas_order(keys: list[str], kind: pa.DataType) -> None:
    java = sorted(keys, key=lambda key: key.encode("utf-16-be"))
    assert key_range(keys, kind) == (java[0], java[-1])


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("keys", [["\uff61", "\U0001f600"], ["a", "b\U00010000"], ["\U0010ffff"]])
def test_no_range_where_javas_order_may_be_another(keys: list[str], kind: pa.DataType) -> None:
    """Hudi compares every key with such a file (MetadataNotFoundException in HoodieBloomIndex)."""
    assert key_range(keys, kind) is None


def test_no_range_without_rows() -> None:
    assert key_range([], pa.string()) is None
