"""What a one-row upsert costs where no other process writes: calls of the table's storage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import pudi
from pudi.client import MetaClient
from pudi.context import Context
from pudi.storage import open_storage
from pudi.testing import FaultStorage

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("v", pa.int64())])
TIMELINE, PROPERTIES = ".hoodie/timeline", ".hoodie/hoodie.properties"

FIRST = {("cow", True): 40, ("mor", True): 50, ("cow", False): 21, ("mor", False): 22}
"""Calls of a table's first upsert in a process, by table type and whether there is a metadata table."""
LATER = {("cow", True): 32, ("mor", True): 33, ("cow", False): 18, ("mor", False): 19}
"""Calls of a later one by the same `Table`, which knows its own commits and the metadata table's older files."""


def rows(first: int, count: int, value: int) -> pa.Table:
    return pa.table({"id": range(first, first + count), "p": ["a"] * count, "v": [value] * count}, schema=SCHEMA)


def upserts(path: Path, kind: str, *, metadata: bool) -> list[Counter[tuple[str, str]]]:
    """The calls of each of four one-row upserts by one `Table`, by kind and path."""
    options = {"hoodie.metadata.enable": str(metadata).lower()}
    made = pudi.create(path, SCHEMA, record_key="id", partition_by="p", table_type=kind, options=options)
    for value in range(3):
        made.upsert(rows(0, 10, value))
    storage = FaultStorage(open_storage(str(path)))
    opened = pudi.Table.of(MetaClient.open(str(path), None, options, Context(), storage), options)
    found = []
    for value in range(4):
        begun = storage.calls
        assert opened.upsert(rows(3, 1, 10 + value)) is not None
        found.append(Counter(storage.log[begun:]))
    assert opened.scan(where="id = 3").to_arrow()["v"].to_pylist() == [13]
    return found


@pytest.mark.sampled(4)
@pytest.mark.parametrize("metadata", [True, False])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_one_row_upsert_keeps_to_its_budget(tmp_path: Path, kind: str, metadata: bool) -> None:
    calls = upserts(tmp_path / "t", kind, metadata=metadata)
    assert calls[0].total() <= FIRST[kind, metadata]
    assert max(each.total() for each in calls[1:]) <= LATER[kind, metadata]


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_quiet_upsert_looks_at_the_table_once_before_and_once_under_each_lock(tmp_path: Path, kind: str) -> None:
    """The timeline before the work, at the request and at the completion; the properties first and last."""
    for calls in upserts(tmp_path / "t", kind, metadata=True):
        assert calls["list_dir", TIMELINE] == 3
        assert calls["read", PROPERTIES] == 2
        assert calls["list_dir", ".hoodie/metadata/.hoodie/timeline"] == 2  # the second one under the lock
        read = {path: count for (what, path), count in calls.items() if what in {"read", "read_ranges", "head"}}
        again = {path for path, count in read.items() if count > 1}
        assert again <= {PROPERTIES, ".hoodie/.index_defs/index.json"}  # whose columns others may have changed


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_without_a_metadata_table_nothing_is_asked_for_twice(tmp_path: Path, kind: str) -> None:
    """One listing of the timeline before the work, and one under each lock; a data file is opened once."""
    for calls in upserts(tmp_path / "t", kind, metadata=False):
        assert calls["list_dir", TIMELINE] == 3
        assert {call for call, count in calls.items() if count > 1} <= {("list_dir", TIMELINE), ("read", PROPERTIES)}


def test_a_write_that_was_prepared_for_long_looks_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others may have committed meanwhile: it begins from what they left, and doesn't lose to them."""
    path, options = tmp_path / "t", {"hoodie.metadata.enable": "false"}  # by which a write notices other commits itself
    made = pudi.create(path, SCHEMA, record_key="id", partition_by="p", options=options)
    made.upsert(rows(0, 10, 0))

    def slow(value: int) -> pa.RecordBatchReader:
        def batches() -> Iterator[pa.RecordBatch]:
            pudi.Table(path, options=options).upsert(rows(3, 1, value))
            yield from rows(4, 1, value).to_batches()

        return pa.RecordBatchReader.from_batches(SCHEMA, batches())

    with pytest.raises(pudi.ConflictError):
        made.upsert(slow(7))
    monkeypatch.setattr("pudi.writes.open_write.FRESH_SECONDS", 0.0)
    assert made.upsert(slow(8)) is not None
    assert made.scan(where="id IN (3, 4)").to_arrow()["v"].to_pylist() == [8, 8]
