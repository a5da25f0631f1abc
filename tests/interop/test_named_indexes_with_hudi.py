"""Secondary and expression indexes that both write: each finds by them what a full scan finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pudi
from support.engines import LocalEngine
from support.hudi import HudiTable
from support.layouts import Layout
from support.metadata import metadata_partitions, records
from support.pudi_table import PudiTable
from support.rows import assert_same, from_arrow, from_spark
from support.trips import SCHEMA, table, trip

pytestmark = [pytest.mark.interop, pytest.mark.spark]

ON = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.compact.inline": "false",
}
LAYOUTS = [Layout("simple", "plain", "event", version, kind) for version in (9, 8) for kind in ("mor", "cow")]
DAY = 86_400
WHERES = (
    "rider = 'bob'",
    "rider IN ('ann', 'cid')",
    "from_unixtime(ts, 'yyyy-MM-dd') = '1970-01-03'",
    "from_unixtime(ts, 'yyyy-MM-dd') = '1970-04-11'",
    "upper(rider) = 'CID'",
)


def assert_both_find(trips: pudi.Table, hudi: HudiTable, about: str) -> None:
    rows = pudi.Table(trips.path).scan().to_arrow()
    expected = sorted(f"{a}${b}" for a, b in zip(*(rows[n].to_pylist() for n in ("rider", "uuid")), strict=True))
    assert sorted(records(Path(trips.path), "secondary_index_rider")) == expected, about
    for where in WHERES:
        full = from_spark(hudi.frame().where(where))
        by_hudi = hudi.frame(**ON, **{"hoodie.enable.data.skipping": "true"}).where(where)
        assert_same(from_spark(by_hudi), full, about=f"{about}: {where} by Hudi")
        found = pudi.Table(trips.path).scan(where=where)
        assert_same(from_arrow(found.to_arrow()), full, about=f"{about}: {where} by pudi")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("hudi_makes", [True, False], ids=["hudis", "pudis"])
def test_both_write_and_read(spark: Any, tmp_path: Path, layout: Layout, hudi_makes: bool) -> None:
    path, name = tmp_path / "trips", f"named_{layout.kind}_{layout.version}_{hudi_makes}"
    PudiTable.create(LocalEngine(), path, SCHEMA, layout)
    trips, hudi = pudi.Table(path), HudiTable(spark, path, layout.hudi_options("trips") | ON)
    trips.bulk_insert(table(trip(n, (n % 3) * 100 * DAY + n // 3 * DAY) for n in range(30)))
    trips.create_index("record_index")
    spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    if hudi_makes:
        spark.sql(f"CREATE INDEX rider ON {name} (rider)")
        by_day = "expr='from_unixtime', format='yyyy-MM-dd'"
        spark.sql(f"CREATE INDEX by_day ON {name} USING column_stats(ts) OPTIONS({by_day})")
        spark.sql(f"CREATE INDEX by_rider ON {name} USING bloom_filters(rider) OPTIONS(expr='upper')")
    else:
        trips.create_index("secondary_index", "rider")
        trips.create_index("column_stats", "ts", "by_day", "from_unixtime", options={"format": "yyyy-MM-dd"})
        trips.create_index("bloom_filters", "rider", "by_rider", "upper")
    before = metadata_partitions(path)
    assert {"secondary_index_rider", "expr_index_by_day", "expr_index_by_rider"} <= set(before)
    assert_both_find(trips, hudi, "when they were made")
    trips.upsert(table(trip(n, 101 * DAY + n, "bob") for n in (0, 1, 5, 40)))
    assert_both_find(trips, hudi, "after pudi's upsert")
    hudi.write("upsert", table(trip(n, 500 * DAY + n, "cid") for n in (1, 3, 5, 41)))
    assert_both_find(trips, hudi, "after Hudi's")
    trips.delete(table(trip(n, 0) for n in (1, 2, 3)))
    assert_both_find(trips, hudi, "after pudi's delete")
    if layout.kind == "mor":
        trips.compact()
        assert_both_find(trips, hudi, "after pudi's compaction")
    assert metadata_partitions(path) == before
    spark.sql(f"DROP TABLE {name}")
