"""Archived commits before or beside those that savepoints keep active: Hudi reads such tables and continues them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import pudi
from pudi.client import MetaClient
from support.hudi import HudiTable, table_options
from support.rows import assert_same, from_arrow, from_spark
from support.trips import SCHEMA, table, trip

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.slow]

KEEP = {
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
    "hoodie.clean.commits.retained": "1",
    "hoodie.parquet.small.file.limit": "0",
}


TABLES = [(kind, version, lists) for kind in ("cow", "mor") for version in (6, 8, 9) for lists in ("true", "false")]


def _both(spark: Any, path: Path, kind: str, version: int, options: Mapping[str, str]) -> tuple[HudiTable, pudi.Table]:
    own = {**options, "hoodie.write.table.version": str(version)}
    named = "MERGE_ON_READ" if kind == "mor" else "COPY_ON_WRITE"
    of_table = table_options("trips", "uuid", "city", "ts", version=version)
    hudi = HudiTable(spark, path, of_table | own | {"hoodie.datasource.write.table.type": named})
    arguments: dict[str, Any] = {"record_key": "uuid", "partition_by": "city", "ordering": "ts", "table_type": kind}
    return hudi, pudi.create(path, SCHEMA, **arguments, options=own)


@pytest.mark.parametrize(("kind", "version", "metadata"), TABLES)
def test_nothing_is_missing(spark: Any, kind: str, version: int, metadata: str, tmp_path: Path) -> None:
    hudi, mine = _both(spark, tmp_path / "trips", kind, version, KEEP | {"hoodie.metadata.enable": metadata})
    for number in range(4):
        done = mine.upsert(table([trip(number, 10), trip(0, 10 + number)][: number + 1]))
    mine.savepoint(done.instant)
    expected = from_arrow(mine.scan().to_arrow())
    for number in range(4, 9):
        mine.upsert(table([trip(number, 10), trip(0, 10 + number)]))
        if kind == "mor" and number == 5:
            mine.compact()
    mine.archive()
    assert MetaClient.open(str(hudi.path), None, {}).store.archived()
    mine.restore(done.instant)
    assert [each.requested for each in mine.refresh().timeline.commits] == [done.instant]
    assert_same(from_arrow(mine.scan().to_arrow()), expected, about="restored, read by pudi")
    assert_same(hudi.snapshot(), expected, about="restored, read by Hudi")
    assert_same(from_spark(hudi.frame(**{"hoodie.metadata.enable": metadata})), expected, about="by the metadata table")
    hudi.write("upsert", table(trip(number, 20) for number in (1, 50)))
    assert_same(from_arrow(mine.refresh().scan().to_arrow()), hudi.snapshot(), about="Hudi went on")
    mine.upsert(table(trip(number, 30) for number in (2, 50, 51)))
    rows = from_arrow(mine.scan().to_arrow())
    assert_same(hudi.snapshot(), rows, about="pudi went on")
    assert len(rows) == 6


@pytest.mark.parametrize(("kind", "version", "metadata"), TABLES)
def test_without_the_savepoint_nothing_is_missing(
    spark: Any, kind: str, version: int, metadata: str, tmp_path: Path
) -> None:
    own = {"hoodie.metadata.enable": metadata, "hoodie.metadata.compact.max.delta.commits": "2"}
    own |= {
        "hoodie.archive.beyond.savepoint": "true",
        "hoodie.compact.inline.max.delta.commits": "1",
        "hoodie.compact.inline": "false",
    }
    hudi, mine = _both(spark, tmp_path / "trips", kind, version, KEEP | own)
    for number in range(10):
        done = mine.upsert(table([trip(number, 10)]))
        if number == 1:
            saved = mine.savepoint(done.instant).instant
        if kind == "mor":
            mine.compact()
    mine.archive()
    assert any(each.requested > saved for each in MetaClient.open(str(hudi.path), None, {}).store.archived())
    mine.delete_savepoint(saved)
    rows = from_arrow(mine.refresh().scan().to_arrow())
    assert len(rows) == 10
    assert_same(from_spark(hudi.frame(**{"hoodie.metadata.enable": metadata})), rows)
    hudi.write("upsert", table(trip(number, 20) for number in (3, 50)))
    assert_same(from_arrow(mine.refresh().scan().to_arrow()), hudi.snapshot(), about="Hudi went on")
