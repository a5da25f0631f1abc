"""More text than 32-bit offsets can count, in one column of one batch or in one group of a clustering."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pudi
from pudi.schema import arrays
from pudi.task import cluster

WORDS = pa.array([f"{number}-" + "w" * 98 for number in range(10)])
SMALL_FILES = {"hoodie.parquet.small.file.limit": "0", "hoodie.metadata.enable": "false"}


def part(first: int, count: int) -> pa.Table:
    """Rows of a hundred bytes of text, which take a few bits in a file; `v` falls."""
    ids = np.arange(first, first + count)
    return pa.table({"id": ids, "v": -ids, "s": WORDS.take(pa.array(ids % 10))})


def assert_holds(table: pudi.Table, count: int) -> None:
    """All rows are there, each with its text."""
    rows = 0
    for batch in table.scan(["id", "s"]).to_batches():
        rows += batch.num_rows
        expected = WORDS.take(pa.array(np.asarray(batch["id"]) % 10))
        assert batch["s"].equals(expected)
    assert rows == count


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_verbs_with_less_room_in_an_array(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "_MOST", 1000)
    table = pudi.create(tmp_path / "t", part(0, 1).schema, record_key="id", table_type=kind, options=SMALL_FILES)
    table.bulk_insert(pa.concat_tables([part(0, 60), part(60, 60)]))
    table.upsert(pa.concat_tables([part(100, 40), part(90, 40)]))
    table.insert(part(140, 30))
    table.merge(part(150, 40), on="id").when_matched_update_all().when_not_matched_insert_all().execute()
    assert_holds(table, 190)
    table.delete(part(180, 10).select(["id"]))
    table.cluster(order_by="v")
    assert_holds(table, 180)
    assert table.check().ok


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


@pytest.mark.slow
def test_more_than_two_gigabytes(tmp_path: Path) -> None:
    million = 1_000_000
    table = pudi.create(tmp_path / "t", part(0, 1).schema, record_key="id", options=SMALL_FILES)
    table.bulk_insert(pa.concat_tables([part(number * million, million) for number in range(24)]))
    assert table.cluster(order_by="v")
    table.upsert(part(5, 1))
    assert_holds(table, 24 * million)
