"""Indexes that pudi makes are seen, used, kept and dropped by Hudi; each builds what the other has planned."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import pudi
from pudi.client import MetaClient
from pudi.client.snapshot import TableSnapshot
from pudi.context import Context
from pudi.format import Action, State
from pudi.storage import open_storage
from pudi.testing import FaultStorage, SimulatedCrash
from support.engines import LocalEngine
from support.hudi import HudiTable
from support.layouts import Layout
from support.metadata import assert_listing, metadata_partitions, timeline_of
from support.pudi_table import PudiTable
from support.record_index import assert_record_index
from support.rows import assert_same, from_spark
from support.trips import SCHEMA, table, trip
from support.validation import assert_hudi_finds_no_difference

pytestmark = [pytest.mark.interop, pytest.mark.spark]

ON = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.compact.inline": "false",
}
LOCK = "org.apache.hudi.client.transaction.lock.InProcessLockProvider"
NO_OTHERS = {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "false"}
LAYOUTS = [Layout("simple", "plain", "event", version, kind) for version in (9, 6, 8) for kind in ("mor", "cow")]


def made(spark: Any, path: Path, layout: Layout, options: dict[str, str]) -> tuple[pudi.Table, HudiTable]:
    PudiTable.create(LocalEngine(), path, SCHEMA, layout)
    trips = pudi.Table(path)
    trips.bulk_insert(table(trip(n, 10) for n in range(20)))
    trips.upsert(table(trip(n, 11) for n in (0, 1, 5)))
    return trips, HudiTable(spark, path, layout.hudi_options("trips") | options)


def assert_all_agree(trips: pudi.Table, hudi: HudiTable, about: str) -> None:
    path = Path(trips.path)
    assert_listing(path)
    if "record_index" in metadata_partitions(path):
        assert_record_index(path)
    found = trips.check()
    assert found.ok, f"{about}: {found}"
    assert_hudi_finds_no_difference(hudi.spark, path)
    for where in ("fare > 25", "uuid = 'k0003'", "rider = 'bob'"):
        rows = from_spark(hudi.frame(**ON, **{"hoodie.enable.data.skipping": "true"}).where(where))
        assert_same(rows, from_spark(hudi.frame().where(where)), about=f"{about}: {where}")


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_hudi_uses_keeps_and_drops_them(spark: Any, tmp_path: Path, layout: Layout) -> None:
    path, name = tmp_path / "trips", f"indexed_{layout.kind}_{layout.version}"
    trips, hudi = made(spark, path, layout, ON)
    for kind in ("record_index", "column_stats", "bloom_filters"):
        trips.create_index(kind)
    before = metadata_partitions(path)
    hudi.write("upsert", table(trip(n, 12) for n in (0, 3, 30)))
    assert_all_agree(trips, hudi, "after Hudi's upsert")
    assert metadata_partitions(path) == before
    trips.upsert(table(trip(n, 13) for n in (1, 3, 31)))
    assert_all_agree(trips, hudi, "after pudi's")
    spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    shown = {row["index_name"] for row in spark.sql(f"SHOW INDEXES FROM {name}").collect()}
    assert {"record_index", "column_stats"} <= shown
    spark.sql(f"SET hoodie.write.lock.provider={LOCK}")
    spark.sql(f"DROP INDEX record_index ON {name}")
    spark.sql("RESET hoodie.write.lock.provider")
    spark.sql(f"DROP TABLE {name}")
    assert "record_index" not in {each.name for each in trips.indexes()}
    trips.upsert(table([trip(32, 14)]))
    trips.create_index("record_index")
    hudi.write("upsert", table([trip(33, 15)]))
    assert_all_agree(trips, hudi, "after it was made anew")


def client_of(spark: Any, trips: pudi.Table, layout: Layout) -> Any:
    """A write client of Hudi's that builds indexes by plan."""
    options = layout.hudi_options("trips") | ON | {
        "hoodie.metadata.index.async": "true",
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.write.lock.provider": LOCK,
        "hoodie.embed.timeline.server": "false",
    }  # fmt: skip
    schema = TableSnapshot(MetaClient.open(trips.path, None, {}), trips.timeline).schema.avro
    make = spark._jvm.org.apache.hudi.DataSourceUtils.createHoodieClient
    return make(spark._jsc, schema, trips.path, "trips", options)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", [LAYOUTS[0], LAYOUTS[3]], ids=str)
def test_hudi_builds_what_pudi_planned(spark: Any, tmp_path: Path, layout: Layout) -> None:
    trips, hudi = made(spark, tmp_path / "trips", layout, NO_OTHERS)
    planned = trips.schedule("record_index")
    trips.upsert(table([trip(2, 12), trip(40, 12)]))
    client = client_of(spark, trips, layout)
    try:
        assert client.index(planned).isPresent()
    finally:
        client.close()
    done = timeline_of(tmp_path / "trips").of(Action.INDEXING)
    assert [instant.requested for instant in done] == [planned]
    trips.upsert(table([trip(3, 13), trip(41, 13)]))
    assert_all_agree(trips, hudi, "after Hudi built it")


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", [LAYOUTS[1], LAYOUTS[2]], ids=str)
def test_pudi_builds_what_hudi_planned(spark: Any, tmp_path: Path, layout: Layout) -> None:
    trips, hudi = made(spark, tmp_path / "trips", layout, NO_OTHERS)
    trips.upsert(table([trip(2, 12)]), options={"hoodie.metadata.enable": "true"})
    client = client_of(spark, trips, layout)
    try:
        kinds = spark._jvm.java.util.ArrayList()
        kinds.add(spark._jvm.org.apache.hudi.metadata.MetadataPartitionType.RECORD_INDEX)
        planned = client.scheduleIndexing(kinds, spark._jvm.java.util.ArrayList()).get()
    finally:
        client.close()
    assert [(each.name, each.state) for each in trips.indexes()] == [("record_index", "planned")]
    trips.upsert(table([trip(40, 13)]))
    assert [each.instant for each in trips.run_pending()] == [planned]
    # no bloom filters: Hudi makes none of files without one in their footers, which check() names
    own = layout.hudi_options("trips") | ON | {"hoodie.metadata.index.bloom.filter.enable": "false"}
    hudi = HudiTable(spark, hudi.path, own)
    hudi.write("upsert", table([trip(3, 14), trip(41, 14)]))
    assert_all_agree(trips, hudi, "after pudi built it")


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", [LAYOUTS[0], LAYOUTS[3]], ids=str)
def test_hudi_writes_beside_one_that_died(spark: Any, tmp_path: Path, layout: Layout) -> None:
    """What pudi had begun to build hurts nobody, and is built by the next one that comes."""
    whole = tmp_path / "trips"
    made(spark, whole, layout, NO_OTHERS)
    path = whole
    for number in range(30, 200, 3):  # a copy for each, until one dies in the midst of building
        path = Path(shutil.copytree(whole, tmp_path / f"trips{number}"))
        dying = FaultStorage(open_storage(str(path)), fail_at=number, mode="crash")
        with pytest.raises(SimulatedCrash):
            pudi.Table.of(MetaClient.open(str(path), None, {}, Context(), dying), {}).create_index("record_index")
        if "record_index" in pudi.Table(path).config.metadata_partitions_inflight:
            break
    trips, hudi = pudi.Table(path), HudiTable(spark, path, layout.hudi_options("trips") | NO_OTHERS)
    assert [i.state for i in trips.timeline.of(Action.INDEXING, State.INFLIGHT)] == [State.INFLIGHT]
    hudi.write("upsert", table([trip(3, 14), trip(41, 14)]))
    assert_same(from_spark(hudi.frame(**ON)), from_spark(hudi.frame()), about="beside what was left")
    trips.upsert(table([trip(42, 15)]))
    assert len(trips.run_pending()) == 1
    assert_all_agree(trips, hudi, "after the next one built it")
