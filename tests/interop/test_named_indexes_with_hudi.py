"""A secondary index that both write: each finds by it what a full scan finds.

None of expressions: beside statistics of one, Hudi's own upserts fail on tables that it alone wrote (docs/indexes.md).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pudi
from interop.test_pruning_by_hudi import SEVERAL_WRITERS
from support.engines import LocalEngine
from support.hudi import HudiTable
from support.layouts import Layout
from support.metadata import metadata_partitions, records
from support.pudi_table import PudiTable
from support.rows import assert_same, from_arrow, from_spark
from support.trips import SCHEMA, table, trip
from support.validation import assert_hudi_finds_no_difference

pytestmark = [pytest.mark.interop, pytest.mark.spark]

ON = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.compact.inline": "false",
}
LAYOUTS = [Layout("simple", "plain", "event", version, kind) for version in (9, 8) for kind in ("mor", "cow")]
SLOW = pytest.mark.slow


def create_index_by_hudi(spark: Any, path: Path, index: str, column: str) -> None:
    """Hudi's CREATE INDEX, for which a table must be in the catalog and have a lock provider."""
    spark.sql(f"CREATE TABLE to_index USING hudi LOCATION '{path}'")
    try:
        for option, value in SEVERAL_WRITERS.items():
            spark.sql(f"SET {option}={value}")
        spark.sql(f"CREATE INDEX {index} ON to_index ({column})")
    finally:
        for option in SEVERAL_WRITERS:
            spark.sql(f"RESET {option}")
        spark.sql("DROP TABLE to_index")


def assert_both_find(hudi: HudiTable, about: str) -> None:
    rows = pudi.Table(hudi.path).scan().to_arrow()
    pairs = sorted(f"{a}${b}" for a, b in zip(*(rows[n].to_pylist() for n in ("rider", "uuid")), strict=True))
    assert sorted(records(hudi.path, "secondary_index_rider")) == pairs, about
    for where in ("rider = 'bob'", "rider IN ('ann', 'cid')"):
        full = from_spark(hudi.frame().where(where))
        by_hudi = hudi.frame(**ON, **{"hoodie.enable.data.skipping": "true"}).where(where)
        assert_same(from_spark(by_hudi), full, about=f"{about}: {where} by Hudi")
        found = pudi.Table(hudi.path).scan(where=where)
        assert_same(from_arrow(found.to_arrow()), full, about=f"{about}: {where} by pudi")


@pytest.mark.slow
@pytest.mark.parametrize("layout", [LAYOUTS[0], *(pytest.param(each, marks=SLOW) for each in LAYOUTS[1:])], ids=str)
@pytest.mark.parametrize("hudi_makes", [False, pytest.param(True, marks=SLOW)], ids=["pudis", "hudis"])
def test_both_write_and_read(spark: Any, tmp_path: Path, layout: Layout, hudi_makes: bool) -> None:
    path = tmp_path / "trips"
    PudiTable.create(LocalEngine(), path, SCHEMA, layout)
    trips, hudi = pudi.Table(path), HudiTable(spark, path, layout.hudi_options("trips") | ON)
    trips.bulk_insert(table(trip(n, n) for n in range(30)))
    trips.create_index("record_index")
    if hudi_makes:
        # right behind another index's, Hudi's CREATE INDEX would take it back (docs/indexes.md)
        trips.upsert(table([trip(0, 50)]))
        create_index_by_hudi(spark, path, "rider", "rider")
    else:
        trips.create_index("secondary_index", "rider")
    before = metadata_partitions(path)
    assert "secondary_index_rider" in before
    assert len(records(path, "secondary_index_rider")) == 30
    assert len(records(path, "record_index")) == 30
    trips.upsert(table(trip(n, 100 + n, "bob") for n in (0, 1, 5, 40)))
    assert_both_find(hudi, "after pudi's upsert")
    hudi.write("upsert", table(trip(n, 200 + n, "cid") for n in (1, 3, 5, 41)))
    assert_both_find(hudi, "after Hudi's")
    trips.delete(table(trip(n, 0) for n in (1, 2, 3)))
    hudi.write("upsert", table(trip(n, 300 + n, "ann") for n in (3, 42)))
    assert_both_find(hudi, "after pudi's delete and Hudi's second upsert")
    if layout.kind == "mor":
        trips.compact()
        assert_both_find(hudi, "after pudi's compaction")
    assert metadata_partitions(path) == before
    assert_hudi_finds_no_difference(spark, path)
