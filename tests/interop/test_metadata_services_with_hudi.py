"""The metadata table's services by turns: each side archives, compacts and cleans what the other one wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from interop.test_metadata_turns import NO_COMPACTION, assert_hudi_finds_no_difference, through_metadata
from pudi.client import MetaClient
from pudi.format import Action
from pudi.metadata_write.client import open_metadata
from support.engines import LocalEngine
from support.hudi import HudiTable
from support.layouts import Layout
from support.metadata import assert_listing, metadata_partitions
from support.pudi_table import PudiTable
from support.rows import assert_same
from support.trips import SCHEMA, table, trip

pytestmark = [pytest.mark.interop, pytest.mark.spark]

OFTEN = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.compact.max.delta.commits": "6",
    "hoodie.metadata.log.compaction.enable": "true",
    "hoodie.metadata.log.compaction.blocks.threshold": "3",
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
}
CLEANING = {"hoodie.clean.commits.retained": "1", "hoodie.cleaner.commits.retained": "1"}


def archived_by_hudi(spark: Any, path: Path) -> list[str]:
    """The completed instants that Hudi finds in a table's archive, each with what it holds."""
    jvm = spark._jvm
    conf = jvm.org.apache.hudi.storage.hadoop.HadoopStorageConfiguration(spark._jsc.hadoopConfiguration())
    client = jvm.org.apache.hudi.common.table.HoodieTableMetaClient.builder()
    timeline = client.setBasePath(str(path)).setConf(conf).build().getArchivedTimeline()
    timeline.loadCompletedInstantDetailsInMemory()
    found = []
    for instant in timeline.filterCompletedInstants().getInstants():
        if instant.getAction() in {"commit", "deltacommit"}:
            assert timeline.readCommitMetadata(instant).getOperationType().name()
        found.append(str(instant.requestedTime()))
    return found


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "layout", [Layout("simple", "plain", "event", v, k) for v, k in ((9, "mor"), (6, "cow"))], ids=str
)
def test_services_by_turns(spark: Any, tmp_path: Path, layout: Layout) -> None:
    path = tmp_path / "trips"
    logs = {} if layout.version > 6 else {"hoodie.metadata.log.compaction.enable": "false"}  # where Hudi's own fails
    mine = PudiTable.create(LocalEngine(), path, SCHEMA, layout, OFTEN | logs)
    hudi = HudiTable(spark, path, layout.hudi_options("trips") | NO_COMPACTION | OFTEN | CLEANING | logs)
    for number in range(14):
        rows = table([trip(number, number), trip(0, number)])
        (hudi if number % 4 == 3 else mine).write("upsert", rows)
        assert_listing(path)
        if number % 4 == 3 or number == 13:
            assert_same(through_metadata(hudi), mine.snapshot(), about=f"round {number}")
    assert_hudi_finds_no_difference(spark, path)
    store = open_metadata(MetaClient.open(str(path), None, {})).store
    archived = [i.requested for i in store.archived() if i.action in {Action.COMMIT, Action.DELTACOMMIT}]
    assert len(archived) > 4
    read = [each for each in archived_by_hudi(spark, path / ".hoodie" / "metadata") if each in set(archived)]
    assert sorted(set(read)) == sorted(archived)
    for where in ("fare > 25", "ts >= 3", "uuid < 'k0010'"):
        wanted = pudi.Table(path).scan(where=where).to_arrow().num_rows
        assert len(through_metadata(hudi, where)) == wanted


@pytest.mark.slow
def test_new_columns_in_the_statistics(spark: Any, tmp_path: Path) -> None:
    path, layout = tmp_path / "trips", Layout("simple", "plain", "event", 9, "cow")
    mine = PudiTable.create(LocalEngine(), path, SCHEMA, layout, OFTEN)
    hudi = HudiTable(spark, path, layout.hudi_options("trips") | OFTEN)
    rows = table([trip(number, number) for number in range(20)])
    mine.write("upsert", rows)
    mine.write("upsert", rows.slice(0, 5).append_column("tip", pa.array(range(5), pa.int64())))
    ours = _defined(path)
    assert ours[-1] == "tip"
    assert len(through_metadata(hudi, "tip >= 3")) == 2
    assert len(through_metadata(hudi, "tip is null")) == 15
    wider = rows.slice(0, 9).append_column("tip", pa.array(range(9), pa.int64()))
    hudi.write("upsert", wider.append_column("more", pa.array(range(9), pa.int32())))
    assert _defined(path) == [*ours, "more"]
    mine.write(
        "upsert",
        rows.slice(0, 2).append_column("tip", pa.array([50, 51])).append_column("more", pa.array([7, 8], pa.int32())),
    )
    assert "column_stats" in metadata_partitions(path)
    assert _defined(path) == [*ours, "more"]
    assert len(through_metadata(hudi, "more >= 7")) == 4
    assert pudi.Table(path).scan(where="more >= 7").to_arrow().num_rows == 4


def _defined(path: Path) -> list[str]:
    content = json.loads((path / ".hoodie" / ".index_defs" / "index.json").read_text())
    found: list[str] = content["indexDefinitions"]["column_stats"]["sourceFields"]
    return found
