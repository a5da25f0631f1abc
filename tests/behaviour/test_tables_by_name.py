"""Tables are found, created and dropped by their names in a catalog, and other sessions see it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import pudi
from pudi.catalogs import CatalogTable, TableName
from pudi.catalogs.sqlite import SqliteCatalog

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string())])
KINDS = pytest.mark.parametrize("kind", ["cow", "mor"])


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"sqlite:{tmp_path}/catalog.db"


def rows(*cities: str) -> pa.Table:
    return pa.table({"id": range(len(cities)), "city": cities}, schema=SCHEMA)


def created(address: str, path: Path, kind: str = "cow", name: str = "rides.trips") -> pudi.Table:
    with pudi.catalog(address) as catalog:
        return catalog.create_table(
            name, str(path / "t"), SCHEMA, record_key="id", partition_by="city", table_type=kind
        )


@KINDS
def test_a_table_is_created_opened_and_dropped_by_name(tmp_path: Path, address: str, kind: str) -> None:
    table = created(address, tmp_path, kind)
    table.insert(rows("rome"))
    names = ["trips"] if kind == "cow" else ["trips", "trips_ro", "trips_rt"]
    with pudi.catalog("sqlite", uri=f"{tmp_path}/catalog.db") as again:
        assert str(again) == address
        assert again.tables("rides") == names
        assert again.tables() == []
        assert again.table("rides.trips").scan(["id", "city"]).to_arrow() == rows("rome")
        assert again.table("rides.trips").config.table_name == "trips"
        assert again.drop_table("rides.trips")
        assert again.tables("rides") == []
        assert not again.drop_table("rides.trips")
    assert pudi.Table(table.path).scan().to_arrow().num_rows == 1


def test_a_table_with_two_views_alone_is_dropped_by_its_name(tmp_path: Path, address: str) -> None:
    options = {
        "hoodie.datasource.hive_sync.table.strategy": "ALL",
        "hoodie.meta.sync.sync_snapshot_with_table_name": "false",
    }
    with pudi.catalog(address, options=options) as catalog:
        catalog.create_table("rides.trips", str(tmp_path / "t"), SCHEMA, record_key="id", table_type="mor")
        catalog.create_table("rides.cabs_ro", str(tmp_path / "c"), SCHEMA, record_key="id")
        assert catalog.tables("rides") == ["cabs_ro", "trips_ro", "trips_rt"]
        assert catalog.drop_table("rides.trips")
        assert not catalog.drop_table("rides.cabs")
        assert catalog.tables("rides") == ["cabs_ro"]


def test_options_of_the_catalog_are_those_of_its_tables(tmp_path: Path, address: str) -> None:
    created(address, tmp_path)
    options = {"hoodie.parquet.max.file.size": "1000000", "hoodie.datasource.write.operation": "insert"}
    with pudi.catalog(address, options=options) as catalog:
        found = catalog.table("rides.trips", {"hoodie.datasource.write.operation": "upsert"})
    assert found.options == {**options, "hoodie.datasource.write.operation": "upsert"}


def test_a_taken_name_is_refused_before_anything_is_written(tmp_path: Path, address: str) -> None:
    created(address, tmp_path)
    with pytest.raises(pudi.TableExistsError, match=r"sqlite:.*there is a table rides\.trips already: drop it"):
        created(address, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_tables_of_other_formats_are_no_tables(tmp_path: Path, address: str) -> None:
    created(address, tmp_path)
    inner = SqliteCatalog(f"{tmp_path}/catalog.db")
    inner.create_table(CatalogTable(TableName("rides", "notes"), "file:/notes", ()))
    with pudi.catalog(inner) as catalog:
        assert catalog.tables("rides") == ["trips"]
        with pytest.raises(pudi.TableNotFoundError, match=r"rides\.notes is a table of another format"):
            catalog.table("rides.notes")
        with pytest.raises(pudi.TableNotFoundError, match=r"rides\.notes is a table of another format"):
            catalog.drop_table("rides.notes")
        with pytest.raises(pudi.TableNotFoundError, match=r"no table rides\.gone; register it: pudi sync PATH --to sq"):
            catalog.table("rides.gone")
    assert inner.table_names("rides") == ["notes", "trips"]


def test_a_view_is_opened_by_the_name_of_its_table(tmp_path: Path, address: str) -> None:
    created(address, tmp_path, "mor")
    with pudi.catalog(address) as catalog:
        assert catalog.table("rides.trips_rt").path == catalog.table("rides.trips").path
        with pytest.raises(pudi.InvalidArgumentError, match=r"rides\.trips_ro is the read-optimised view"):
            catalog.table("rides.trips_ro")


@pytest.mark.parametrize(
    ("kind", "uri", "said"),
    [
        ("hvie", "host:1", "'hvie' is no kind of catalogs"),
        ("hive://host:1", "host:2", "has an address already"),
        ("C:\\data", None, "names no catalog: write"),
        ("sqlite", None, "needs a file"),
        ("hive", None, "needs an address: write hive://host:9083"),
        ("hive://host:9083/rides", None, "hive://host:9083/rides is no metastore: write hive://host:9083, and a table"),
    ],
)
def test_wrong_addresses_are_refused(kind: str, uri: str | None, said: str) -> None:
    with pytest.raises(pudi.InvalidArgumentError, match=said):
        pudi.catalog(kind, uri)


@pytest.mark.parametrize("uri", ["thrift://host:9083", "host:9083"])
def test_a_metastore_is_named_by_its_uri(uri: str) -> None:
    pytest.importorskip("thrift")
    assert str(pudi.catalog("hive", uri=uri)) == str(pudi.catalog("hive://host:9083")) == "hive://host:9083"
