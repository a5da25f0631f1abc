"""Every catalog keeps the contract."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.catalogs import CatalogColumn, CatalogPartition, CatalogPlace, CatalogTable, TableName, open_catalog
from pudi.catalogs.hive import HiveCatalog
from pudi.catalogs.sqlite import SqliteCatalog
from pudi.catalogs.thrift_client import (
    LIST,
    STRING,
    Connection,
    Field,
    Fields,
    Metastores,
    elements,
    text,
    texts,
    value,
)
from pudi.context import Context, ManualClock
from pudi.testing import CatalogTests, PlainCatalogTests
from support.polaris import PolarisServer, polaris_server
from support.s3 import S3Server


class TestHive(CatalogTests):
    @pytest.fixture
    def catalog(self, metastore: str) -> Iterator[pudi.Catalog]:
        with open_catalog(
            "hive", metastore.removeprefix("thrift://"), {"hoodie.datasource.hive_sync.batch_num": "100"}
        ) as catalog:
            yield catalog

    def test_a_change_that_the_metastore_does_not_allow_is_refused(
        self, catalog: pudi.Catalog, table: CatalogTable
    ) -> None:
        other = replace(table, columns=(CatalogColumn("id", "boolean"), *table.columns[1:]))
        with pytest.raises(pudi.RefusedError, match=rf"{table.name}: .*incompatible"):
            catalog.alter_table(other)
        assert catalog.table(table.name) == table

    def test_partitions_get_the_columns_of_their_table(self, catalog: HiveCatalog, table: CatalogTable) -> None:
        catalog.add_partitions(table, [CatalogPartition(("eu",), f"{table.location}/eu")])
        more = (*table.columns, CatalogColumn("fare", "double", "what it cost"))
        catalog.alter_table(replace(table, columns=more), cascade=True)
        at: list[Field] = [(1, STRING, table.name.database), (2, STRING, table.name.table)]
        found = catalog._call("get_partitions_by_names", table.name, [*at, (3, LIST, texts(["region=eu"]))])
        assert [text(each, 1) for each in elements(value(value(elements(found)[0], 6), 1))][-1] == "fare"


def test_a_metastore_is_asked_for_what_changed_alone(
    metastore: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    named: list[int] = []
    call = Connection.call

    def counted(self: Connection, method: str, arguments: Fields) -> dict[int, Any]:
        calls.append(method)
        if method == "get_partitions_by_names":
            named.append(len(elements(arguments[2][2])))
        return call(self, method, arguments)

    monkeypatch.setattr(Connection, "call", counted)
    table = pudi.create(tmp_path / "t", {"id": "long", "p": "string"}, record_key="id", partition_by="p")
    table.insert(pa.table({"id": range(120), "p": [f"p{n}" for n in range(120)]}))
    place = f"hive://{metastore.removeprefix('thrift://')}/budget.trips"
    table.sync(place)
    assert calls.count("add_partitions_req") == 2

    calls.clear()
    table.sync(place)
    assert calls == ["get_table_objects_by_name_req"]

    calls.clear()
    table.upsert(pa.table({"id": range(115, 125), "p": [f"p{n}" for n in range(115, 125)]}))
    assert table.sync(place).tables[0].added == 5
    wanted = {"get_table_objects_by_name_req": 2, "get_partitions_by_names": 1, "add_partitions_req": 1}
    assert Counter(calls) == wanted | {"alter_table_with_environment_context": 1}
    assert named == [10]


def test_a_metastore_that_does_not_answer_is_said() -> None:
    pytest.importorskip("thrift")
    context = Context(clock=ManualClock())
    catalog = HiveCatalog(Metastores((("127.0.0.1", 1),)), context)
    with pytest.raises(pudi.UnavailableError, match=r"127\.0\.0\.1:1 doesn't answer"):
        catalog.table(TableName("db", "t"))
    assert context.clock.now_ms() > ManualClock().now_ms()  # it asked again


def test_a_user_without_a_name_may_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("thrift")

    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 4711")

    monkeypatch.delenv("HADOOP_USER_NAME", raising=False)
    monkeypatch.setattr("pudi.catalogs.hive.getuser", nameless)
    assert str(open_catalog("hive", "host:9083")) == "hive://host:9083"


class TestGlue(CatalogTests):
    @pytest.fixture
    def settings(self, s3: S3Server) -> dict[str, str]:
        return {
            "hoodie.aws.glue.endpoint": s3.url,
            "hoodie.aws.access.key": "test",
            "hoodie.aws.secret.key": "test",
            "hoodie.datasource.meta.sync.glue.metadata_file_listing": "true",
        }

    @pytest.fixture
    def catalog(self, settings: dict[str, str]) -> Iterator[pudi.Catalog]:
        pytest.importorskip("boto3")
        with open_catalog("glue", "us-east-1", settings) as catalog:
            yield catalog

    def test_athena_lists_by_the_metadata_table(self, table: CatalogTable) -> None:
        assert table.properties["hudi.metadata-listing-enabled"] == "TRUE"

    def test_hadoops_schemes_become_athenas(self, catalog: pudi.Catalog, table: CatalogTable) -> None:
        catalog.alter_table(replace(table, location="s3a://bucket/trips"))
        catalog.add_partitions(table, [CatalogPartition(("eu",), "s3n://bucket/trips/eu")])
        now = catalog.table(table.name)
        assert now is not None
        assert now.location == "s3://bucket/trips"
        assert [each.location for each in catalog.partitions(now)] == ["s3://bucket/trips/eu"]

    def test_throttling_is_waited_for(self, s3: S3Server, catalog: pudi.Catalog, table: CatalogTable) -> None:
        s3.faults.extend([("POST", "/", 503)] * 2)
        assert catalog.table(table.name) == table

    def test_denied_requests_are_said(self, s3: S3Server, catalog: pudi.Catalog, table: CatalogTable) -> None:
        s3.faults.append(("POST", "/", 403))
        with pytest.raises(pudi.RefusedError, match=rf"glue:us-east-1 refused .*{table.name}: 403"):
            catalog.table(table.name)


class TestSqlite(CatalogTests):
    @pytest.fixture
    def catalog(self, tmp_path: Path) -> pudi.Catalog:
        return open_catalog("sqlite", str(tmp_path / "below" / "catalog.db"))

    def test_a_file_of_another_kind_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "text").write_text("no file of SQLite, but long enough to be looked at as one" * 20)
        with pytest.raises(pudi.CorruptError, match="no file of SQLite"):
            SqliteCatalog(str(tmp_path / "text")).create_database("db")

    def test_nothing_is_made_by_looking(self, tmp_path: Path) -> None:
        catalog = SqliteCatalog(str(tmp_path / "none.db"))
        assert catalog.table(TableName("db", "t")) is None
        assert list(tmp_path.iterdir()) == []


class TestPolaris(PlainCatalogTests):
    @pytest.fixture
    def served(self) -> Iterator[PolarisServer]:
        pytest.importorskip("requests")
        with polaris_server() as served:
            yield served

    @pytest.fixture
    def catalog(self, served: PolarisServer) -> Iterator[pudi.Catalog]:
        with open_catalog("polaris", "", served.options(), Context(clock=ManualClock())) as catalog:
            yield catalog

    def test_a_namespace_has_those_above_it(self, served: PolarisServer, catalog: pudi.Catalog) -> None:
        catalog.create_database("north.sea")
        catalog.create_database("north.sea.oil.rigs")
        assert list(served.namespaces) == ["north", "north.sea", "north.sea.oil", "north.sea.oil.rigs"]
        assert catalog.has_database("north.sea.oil")
        assert not catalog.has_database("oil")

    def test_a_generic_table_has_no_partitions(self, catalog: pudi.Catalog, table: CatalogTable) -> None:
        catalog.add_partitions(table, [])
        catalog.drop_partitions(table, [("eu",)])
        with pytest.raises(pudi.NotSupportedError, match=rf"{table.name} can't have partitions"):
            catalog.add_partitions(table, [CatalogPartition(("eu",), f"{table.location}/eu")])


class TestPolarisNested(TestPolaris):
    @pytest.fixture
    def database(self) -> str:
        return f"lake.contract{os.getpid()}.of three"  # each test has a server of its own


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "polaris:https://host:8181/api/catalog/lake/db.trips",
            CatalogPlace("polaris", "https://host:8181/api/catalog/lake", TableName("db", "trips")),
        ),
        ("hive://host:9083/db.trips", CatalogPlace("hive", "host:9083", TableName("db", "trips"))),
        ("hive://a:1,b:2/trips", CatalogPlace("hive", "a:1,b:2", TableName("default", "trips"))),
        ("glue:db.trips", CatalogPlace("glue", "", TableName("db", "trips"))),
        ("sqlite:/data/catalog.db/db.trips", CatalogPlace("sqlite", "/data/catalog.db", TableName("db", "trips"))),
        ("sqlite:///data/catalog.db/db.trips", CatalogPlace("sqlite", "/data/catalog.db", TableName("db", "trips"))),
        ("mine:x/y/db.trips", CatalogPlace("mine", "x/y", TableName("db", "trips"))),
    ],
)
def test_a_place_is_named_by_one_text(text: str, expected: CatalogPlace) -> None:
    assert CatalogPlace.parse(text) == expected


@pytest.mark.parametrize(
    "text", ["db.trips", "hive://host:9083", "glue:", "glue:a..c", "C:\\data\\db.trips", "glue:.t"]
)
def test_what_names_no_place_is_refused(text: str) -> None:
    with pytest.raises(pudi.InvalidArgumentError, match=r"names no table of a catalog"):
        CatalogPlace.parse(text)


def test_levels_of_a_database_are_refused_where_it_has_one(tmp_path: Path) -> None:
    place = f"sqlite:{tmp_path}/catalog.db"
    table = pudi.create(tmp_path / "t", {"id": "long"}, record_key="id")
    lake = pudi.catalog(place)
    for call in (
        lambda: table.sync(f"{place}/a.b.trips"),
        lambda: pudi.Table(f"{place}/a.b.trips"),
        lambda: lake.create_table("a.b.trips", str(tmp_path / "other"), {"id": "long"}, record_key="id"),
        lambda: lake.drop_table("a.b.trips"),
    ):
        with pytest.raises(pudi.InvalidArgumentError, match=rf"{place}: 'a\.b\.trips' names no table there"):
            call()
    assert not (tmp_path / "other").exists()


def test_a_user_registers_a_kind(tmp_path: Path) -> None:
    pudi.register_catalog("mine", lambda address, options: SqliteCatalog(f"{address}{options['suffix']}"))
    catalog = open_catalog("mine", str(tmp_path / "own"), {"suffix": ".db"})
    catalog.create_database("db")
    assert (tmp_path / "own.db").exists()


def test_unknown_and_lacking_kinds_are_refused_by_name() -> None:
    with pytest.raises(pudi.InvalidArgumentError, match=r"'hvie' is no kind of catalogs: use one of .*sqlite"):
        open_catalog("hvie", "host")
    with pytest.raises(pudi.NotSupportedError, match="'unity' are not supported yet"):
        open_catalog("unity", "host")
    with pytest.raises(pudi.NotSupportedError, match="BigQuery reads a manifest too: sync to manifest:absolute"):
        open_catalog("bigquery", "")
    with pytest.raises(pudi.InvalidArgumentError, match="a Hive Metastore's place begins with hive://"):
        open_catalog("thrift", "host:9083")
    with pytest.raises(pudi.InvalidArgumentError, match="the places manifest and manifest:absolute"):
        open_catalog("manifest", "")
    with pytest.raises(pudi.InvalidArgumentError, match="can't name a kind"):
        pudi.register_catalog("sqlite", lambda address, options: SqliteCatalog(address))
