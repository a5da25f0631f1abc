"""Spark removes the base rows that log files replace, whether sizes tell the base files apart or only names do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("id", pa.int64()), ("place", pa.string()), ("ts", pa.int64())])


def _rows(place: str, ids: range, ts: int) -> pa.Table:
    return pa.table([list(ids), [place] * len(ids), [ts] * len(ids)], schema=SCHEMA)


def _two_base_files(path: Path, first_of_q: int, distinct_sizes: int) -> pudi.Table:
    """Return a table of two base files; their random file ids compress to sizes a few bytes apart, so draw again."""
    for draw in range(50):
        table = pudi.create(
            path / str(draw), SCHEMA, record_key="id", partition_by="place", ordering="ts", table_type="mor"
        )
        table.bulk_insert(
            pa.concat_tables([_rows("p", range(1000, 1300), 1), _rows("q", range(1000, first_of_q + 300), 1)])
        )
        sizes = [file_slice.base.size for file_slice in table.file_slices() if file_slice.base is not None]
        assert len(sizes) == 2
        if len(set(sizes)) == distinct_sizes:
            return table
    raise AssertionError(f"none of 50 tables has {distinct_sizes} distinct sizes of base files")


@pytest.mark.parametrize(
    ("first_of_q", "distinct_sizes"), [(1000, 1), (1500, 2)], ids=["equal sizes", "different sizes"]
)
def test_logs_replace_rows_of_their_own_base_file_only(
    tmp_path: Path, spark: Any, first_of_q: int, distinct_sizes: int
) -> None:
    table = _two_base_files(tmp_path, first_of_q, distinct_sizes)
    table.upsert(pa.concat_tables([_rows("p", range(1100, 1170), 2), _rows("q", range(1020, 1060), 2)]))
    table.delete(_rows("q", range(1290, 1295), 3))
    expected = table.scan().to_arrow().sort_by([("place", "ascending"), ("id", "ascending")])
    found = table.scan().to_spark(spark).orderBy("place", "id").collect()
    assert [row.asDict() for row in found] == expected.to_pylist()
    assert len(found) == 300 + first_of_q - 1000 + 300 - 5
