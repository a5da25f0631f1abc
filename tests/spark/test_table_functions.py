"""Table-valued functions on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pudi

pytestmark = [pytest.mark.spark, pytest.mark.metadata_by_default]


def test_records_of_the_metadata_table(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "t"

    def rows(text: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in pudi.spark.sql(spark, text).collect()]

    rows(f"CREATE TABLE known_files (id INT, dt STRING) USING hudi PARTITIONED BY (dt) LOCATION '{path}'")
    rows("INSERT INTO known_files VALUES (1, 'x'), (2, 'y')")
    query = "SELECT key, filesystemMetadata['dt=y'].size FROM hudi_metadata('known_files') WHERE type = 1"
    assert rows(query) == [("__all_partitions__", 0)]
    least = (
        "SELECT ColumnStatsMetadata.minValue.member1.value FROM hudi_metadata('{}') WHERE type = 6 AND {} ORDER BY 1"
    )
    assert rows(least.format(path, "ColumnStatsMetadata.columnName = 'id'")) == [(1,), (2,)]
    assert rows("SELECT Partition_Path FROM hudi_filesystem_view('known_files', '*y')") == [("dt=y",)]
