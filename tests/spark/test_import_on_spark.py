"""`pudi.import_table(spark=…)`: jobs on a session do what threads do, and say what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pudi

pytestmark = pytest.mark.spark


def rows_of(first: int, count: int = 40) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {"id": [f"k{n}" for n in numbers], "n": pa.array(numbers), "city": ["a" if n % 3 else "b" for n in numbers]}
    )


def test_tasks_copy_rewrite_and_refuse(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    for number in range(3):
        pq.write_table(rows_of(number * 40), tmp_path / "src" / f"{number}.parquet", compression="snappy")
    whole = rows_of(0, 120).sort_by("n")
    copied = pudi.import_table(tmp_path / "src", tmp_path / "copied", record_key="id", ordering="n", spark=spark)
    assert copied.scan(["id", "n", "city"]).to_arrow().sort_by("n") == whole
    rewritten = pudi.import_table(
        tmp_path / "src", tmp_path / "rewritten", record_key="id", partition_by="city", table_type="mor", spark=spark
    )
    assert rewritten.scan(["id", "n", "city"]).to_arrow().sort_by("n") == whole
    assert rewritten.partitions() == ["a", "b"]
    assert copied.check().ok
    assert rewritten.check().ok
    pq.write_table(rows_of(7, 1), tmp_path / "src" / "twice.parquet")
    with pytest.raises(pudi.InvalidArgumentError, match=r"'k7' 2 times.*0\.parquet, twice\.parquet"):
        pudi.import_table(tmp_path / "src", tmp_path / "refused", record_key="id", spark=spark)
    assert not list((tmp_path / "refused").rglob("*.parquet"))
