"""Hive Metastores of later releases keep the contract of catalogs, and take a table's sync."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import pudi
from pudi.catalogs import TableName, open_catalog
from pudi.testing import CatalogTests
from support.hive_releases import RELEASES, jars_of, serve_release

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=sorted(RELEASES))
def address(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pytest.importorskip("thrift")
    jars = jars_of(request.param)
    if jars is None:
        pytest.skip(f"the jars of Hive Metastore {request.param} can't be had: that needs mvn and Maven Central")
    with serve_release(request.param, jars, tmp_path_factory.mktemp("hive")) as served:
        yield served


class TestHiveReleases(CatalogTests):
    @pytest.fixture
    def catalog(self, address: str) -> Iterator[pudi.Catalog]:
        with open_catalog("hive", address, {"hoodie.datasource.hive_sync.batch_num": "100"}) as catalog:
            yield catalog


@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_a_table_follows_its_syncs(address: str, tmp_path: Path, table_type: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("day", pa.string())])
    table = pudi.create(tmp_path / "t", schema, record_key="id", partition_by="day", table_type=table_type)
    with open_catalog("hive", address) as catalog:
        for number in range(2):
            table.upsert(pa.table({"id": [number], "day": [f"d{number}"]}, schema))
            assert table.sync(catalog, f"synced.{table_type}").tables
            entry = catalog.table(TableName("synced", table_type))
            assert entry is not None
            assert len(catalog.partition_values(entry)) == number + 1
        table.add_column("fare", "double")
        table.upsert(pa.table({"id": [5], "day": ["d0"], "fare": [1.5]}))
        table.delete_partitions(["d1"])
        table.sync(catalog, f"synced.{table_type}")
        entry = catalog.table(TableName("synced", table_type))
        assert entry is not None
        assert entry.columns[-1].name == "fare"
        assert catalog.partition_values(entry) == [("d0",)]
    assert pudi.Table(f"hive://{address}/synced.{table_type}").scan(["id"]).to_arrow().num_rows == 2
