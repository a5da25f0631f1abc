"""Tables are registered as generic tables of Apache Polaris, and found there; what its server answers is said."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import pudi
from pudi.catalogs import CatalogColumn, CatalogTable, TableName
from pudi.cli.app import app
from pudi.context import Context, ManualClock
from pudi.statement import local
from support.polaris import CREDENTIAL, PolarisServer, polaris_server

pytest.importorskip("requests")
from pudi.catalogs.polaris import PolarisCatalog

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string())])
NAME = TableName("rides", "trips")
KEY = "pudi.polaris."


@pytest.fixture
def served() -> Iterator[PolarisServer]:
    with polaris_server() as served:
        yield served


def opened(served: PolarisServer, **changed: str) -> PolarisCatalog:
    options = {**served.options(), **{f"{KEY}{key}": value for key, value in changed.items()}}
    return PolarisCatalog("", options, Context(clock=ManualClock()))


@pytest.fixture
def catalog(served: PolarisServer) -> Iterator[PolarisCatalog]:
    with opened(served) as catalog:
        yield catalog


def rows(*cities: str) -> pa.Table:
    return pa.table({"id": range(len(cities)), "city": cities}, schema=SCHEMA)


def created(path: Path, kind: str = "cow", version: int = 9) -> pudi.Table:
    options = {"hoodie.write.table.version": str(version)}
    table = pudi.create(str(path / "t"), SCHEMA, record_key="id", partition_by="city", table_type=kind, options=options)
    table.insert(rows("rome", "oslo"))
    return table


def entry(location: str = "file:/lake/trips", **properties: str) -> CatalogTable:
    return CatalogTable(NAME, location, (), properties={"spark.sql.sources.provider": "hudi", **properties})


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_table_is_one_entry_and_opens_by_its_name(
    tmp_path: Path, served: PolarisServer, kind: str, version: int
) -> None:
    table = created(tmp_path, kind, version)
    options = served.options()
    done = table.sync("polaris:rides.trips", options=options)
    assert [str(each) for each in done.tables] == ["rides.trips: created"]
    location = f"file:{table.path}"
    assert served.namespaces["rides"] == {  # as Polaris's Spark plugin registers one, and reads it
        "trips": {
            "name": "trips",
            "format": "hudi",
            "base-location": location,
            "properties": {"provider": "hudi", "location": location},
        }
    }
    assert sorted(pudi.Table("polaris:rides.trips", options).scan(["id"]).to_arrow()["id"].to_pylist()) == [0, 1]
    whole = pudi.Table(f"polaris:{served.url}/lake/rides.trips", {f"{KEY}token": served.static})
    assert whole.path == table.path


def test_a_later_sync_leaves_the_entry(tmp_path: Path, served: PolarisServer, catalog: PolarisCatalog) -> None:
    table = created(tmp_path)
    table.sync(catalog, "rides.trips")
    before = json.dumps(served.namespaces)
    table.insert(rows("bonn"))
    table.add_column("fare", "double")
    served.requests.clear()
    assert [str(each) for each in table.sync(catalog, "rides.trips").tables] == ["rides.trips: nothing to change"]
    assert [each.partition(" ")[0] for each in served.requests] == ["GET"]
    assert json.dumps(served.namespaces) == before


def test_an_entry_that_spark_made_is_taken_as_it_is(
    tmp_path: Path, served: PolarisServer, catalog: PolarisCatalog
) -> None:
    table = created(tmp_path)
    properties = {"provider": "hudi", "location": table.path, "owner": "ada", "primaryKey": "id", "path": table.path}
    made = {"name": "trips", "format": "HUDI", "base-location": table.path, "properties": properties}
    served.namespaces["rides"] = {"trips": {**made}}
    found = catalog.table(NAME)
    assert found is not None
    assert (found.location, found.owner, found.properties["primaryKey"]) == (table.path, "ada", "id")
    assert pudi.Table("polaris:rides.trips", served.options()).path == table.path
    if table.path.startswith("/"):
        made["base-location"] = properties["location"] = f"file://{table.path}"
        served.namespaces["rides"] = {"trips": {**made}}
    assert [str(each) for each in table.sync(catalog, "rides.trips").tables] == ["rides.trips: nothing to change"]
    assert served.namespaces["rides"]["trips"] == made


def test_what_is_not_the_table_keeps_its_name(tmp_path: Path, served: PolarisServer, catalog: PolarisCatalog) -> None:
    table = created(tmp_path)
    served.namespaces["rides"] = {"trips": {"name": "trips", "format": "delta", "base-location": f"file:{table.path}"}}
    with pytest.raises(pudi.TableExistsError, match=r"polaris:.*/lake: rides\.trips is no Hudi table but one of delta"):
        table.sync(catalog, "rides.trips")
    served.namespaces["rides"]["trips"] = {"name": "trips", "format": "hudi", "base-location": "file:/elsewhere"}
    with pytest.raises(pudi.TableExistsError, match="the table at file:/elsewhere, not the one at"):
        table.sync(catalog, "rides.trips")
    served.namespaces["rides"].clear()
    served.icebergs.add(("rides", "trips"))
    with pytest.raises(pudi.TableExistsError, match=r"rides\.trips is the name of an Iceberg table or a view"):
        table.sync(catalog, "rides.trips")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.datasource.hive_sync.table.strategy", "RO"),
        ("hoodie.datasource.hive_sync.create_managed_table", "true"),
    ],
)
def test_what_an_entry_cannot_be_is_refused(tmp_path: Path, served: PolarisServer, key: str, value: str) -> None:
    table = created(tmp_path, "mor")
    with pytest.raises(pudi.NotSupportedError, match=f"{key}={value}: .*one entry"):
        table.sync("polaris:rides.trips", options={**served.options(), key: value})
    assert served.namespaces == {}


def test_a_missing_namespace_is_created_or_said(tmp_path: Path, served: PolarisServer, catalog: PolarisCatalog) -> None:
    table = created(tmp_path)
    with pytest.raises(pudi.NotFoundError, match="no database 'rides'"):
        table.sync(catalog, "rides.trips", options={"hoodie.datasource.hive_sync.auto_create_database": "false"})
    with pytest.raises(pudi.NotFoundError, match=r"no table rides\.trips, or no namespace of it"):
        catalog.create_table(entry())
    table.sync(catalog, "rides.trips")
    assert list(served.namespaces) == ["rides"]


def test_a_write_registers_and_doctor_compares(tmp_path: Path, served: PolarisServer) -> None:
    path, options = created(tmp_path).path, served.options()
    options |= {
        "hoodie.datasource.meta.sync.enable": "true",
        "hoodie.meta.sync.client.tool.class": "polaris:rides.trips",
    }
    table = pudi.Table(path, options)
    assert table.doctor().catalogs[0].differences == ("it isn't registered",)
    served.faults.append(("POST", "/generic-tables", 403))
    failed = table.insert(rows("bonn"))
    assert failed is not None
    assert "403" in failed.failed_services["sync polaris:rides.trips"]
    done = table.insert(rows("lima"))
    assert done is not None
    assert done.failed_services == {}
    state = table.doctor().catalogs[0]
    assert (state.name, state.differences, state.problem) == ("rides.trips", (), "")
    served.namespaces["rides"]["trips"]["base-location"] = "file:/elsewhere"
    assert table.doctor().catalogs[0].differences == ("it is the table at file:/elsewhere",)


def test_tables_are_made_listed_and_dropped_by_name(tmp_path: Path, served: PolarisServer) -> None:
    options = {key: value for key, value in served.options().items() if not key.endswith(".uri")}
    with pudi.catalog("polaris", uri=served.url, options=options) as lake:
        for name in ("trips", "riders", "cars"):
            lake.create_table(f"rides.{name}", str(tmp_path / name), SCHEMA, record_key="id")
        served.namespaces["rides"]["other"] = {"name": "other", "format": "csv"}
        assert lake.tables("rides") == ["cars", "riders", "trips"]  # in several pages
        lake.table("rides.cars").insert(rows("rome"))
        assert lake.drop_table("rides.cars")
        assert not lake.drop_table("rides.cars")
        with pytest.raises(pudi.TableNotFoundError, match=r"rides\.other is a table of another format"):
            lake.table("rides.other")
    assert sorted(served.namespaces["rides"]) == ["other", "riders", "trips"]
    assert pudi.Table(str(tmp_path / "cars")).scan().to_arrow().num_rows == 1


def test_sql_finds_and_makes_tables(tmp_path: Path, served: PolarisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for key, value in served.options().items():
        monkeypatch.setenv(key.upper().replace(".", "_"), value)
    pytest.importorskip("duckdb")
    monkeypatch.setattr(local, "_SETTINGS", local._Settings())
    pudi.sql(f"ATTACH 'polaris:{served.url}/lake' AS lake")
    pudi.sql(
        "CREATE TABLE lake.rides.trips (id BIGINT COMMENT 'the key', city STRING) USING hudi COMMENT 'all trips' "
        f"TBLPROPERTIES (primaryKey = 'id', type = 'mor') LOCATION '{tmp_path}/trips'"
    )
    pudi.sql("INSERT INTO lake.rides.trips VALUES (1, 'rome')")
    pudi.sql("ALTER TABLE lake.rides.trips ADD COLUMNS (fare DOUBLE)")
    assert pudi.sql("SELECT id, city FROM lake.rides.trips").to_pylist() == [{"id": 1, "city": "rome"}]
    described = pudi.sql("DESCRIBE TABLE lake.rides.trips").to_pylist()
    assert "the key" in {each["comment"] for each in described}
    assert list(served.namespaces["rides"]) == ["trips"]
    assert served.namespaces["rides"]["trips"]["doc"] == "all trips"
    pudi.sql("DROP TABLE lake.rides.trips")
    assert served.namespaces["rides"] == {}


def test_a_namespace_of_several_levels_is_a_database(
    tmp_path: Path, served: PolarisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, place = served.options(), "polaris:rides.north.2026.trips"
    created(tmp_path).sync(place, options=options)
    assert list(served.namespaces) == ["rides", "rides.north", "rides.north.2026"]
    assert pudi.Table(place, options).scan(["id"]).to_arrow().num_rows == 2
    with pudi.catalog("polaris", options=options) as lake:
        lake.create_table("rides.south.riders", str(tmp_path / "r"), {"id": "long"}, record_key="id")
        assert lake.tables("rides.south") == ["riders"]
        assert lake.table("rides.north.2026.trips").path == str(tmp_path / "t")
        assert lake.drop_table("rides.south.riders")
    for key, value in options.items():
        monkeypatch.setenv(key.upper().replace(".", "_"), value)
    pytest.importorskip("duckdb")
    monkeypatch.setattr(local, "_SETTINGS", local._Settings())
    pudi.sql(f"ATTACH 'polaris:{served.url}/lake' AS lake")
    assert pudi.sql("SELECT count(*) AS n FROM lake.rides.north.`2026`.trips").to_pylist() == [{"n": 2}]
    pudi.sql(f"CREATE TABLE lake.a.b.c (id BIGINT) USING hudi LOCATION '{tmp_path}/c'")
    assert list(served.namespaces["a.b"]) == ["c"]


def test_the_example_of_the_page_runs(
    served: PolarisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "catalogs.md").read_text(encoding="utf-8")
    page = page.split("## Apache Polaris")[1]
    code = page.split("```py\n")[1].split("```")[0]
    monkeypatch.chdir(tmp_path)
    said = [line.partition(")  # ")[2] for line in code.splitlines() if line.startswith("print(")]
    code = code.replace("http://localhost:8181/api/catalog", served.url)
    exec(code.replace("client-id:client-secret", ":".join(CREDENTIAL)), {})
    assert capsys.readouterr().out.splitlines() == said
    for key, value in served.options().items():
        monkeypatch.setenv(key.upper().replace(".", "_"), value)
    told = CliRunner().invoke(app, page.split("`pudi ")[1].split("`")[0].split())
    assert told.exit_code == 0, told.output
    assert "travel.rides: nothing to change" in told.output


def registered(served: PolarisServer, catalog: PolarisCatalog, **properties: str) -> dict[str, Any]:
    """Register the table anew; returns the entry as it is then."""
    served.namespaces["rides"] = {}
    catalog.create_table(entry(**properties))
    served.requests.clear()
    return dict(served.namespaces["rides"]["trips"])


def test_a_change_is_a_drop_and_a_new_entry(served: PolarisServer, catalog: PolarisCatalog) -> None:
    registered(served, catalog, a="1")
    catalog.alter_table(entry(a="1"))
    assert [each.partition(" ")[0] for each in served.requests] == ["GET"]
    catalog.alter_table(replace(entry(a="2"), columns=(CatalogColumn("id", "bigint", "the key"),)))
    found = catalog.table(NAME)
    assert found is not None
    assert (found.properties["a"], found.columns[0].comment) == ("2", "the key")


def test_the_old_entry_comes_back_where_the_new_one_is_refused(served: PolarisServer, catalog: PolarisCatalog) -> None:
    before = registered(served, catalog, a="1")
    served.faults.append(("POST", "/generic-tables", 403))
    with pytest.raises(pudi.RefusedError, match=r"refused POST of the table rides\.trips .*The entry .* is as it was"):
        catalog.alter_table(entry(a="2"))
    assert served.namespaces["rides"]["trips"] == before


def test_an_entry_that_cannot_come_back_is_said(served: PolarisServer, catalog: PolarisCatalog) -> None:
    registered(served, catalog, a="1")
    served.faults += [("POST", "/generic-tables", 403)] * 2
    with pytest.raises(pudi.RefusedError, match=r"Nothing is registered by the name rides\.trips now; .* sync again"):
        catalog.alter_table(entry(a="2"))
    assert served.namespaces["rides"] == {}


def test_another_that_registers_meanwhile_keeps_its_entry(
    served: PolarisServer, catalog: PolarisCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered(served, catalog, a="1")
    drop = catalog.drop_table

    def drop_and_lose(name: TableName) -> bool:
        done = drop(name)
        with opened(served) as other:
            other.create_table(entry(a="3"))
        return done

    monkeypatch.setattr(catalog, "drop_table", drop_and_lose)
    with pytest.raises(pudi.UnavailableError, match=r"another process registered rides\.trips meanwhile; sync again"):
        catalog.alter_table(entry(a="2"))
    assert served.namespaces["rides"]["trips"]["properties"]["a"] == "3"


@pytest.mark.parametrize("status", [429, 500, 503])
def test_what_passes_is_waited_for(served: PolarisServer, catalog: PolarisCatalog, status: int) -> None:
    registered(served, catalog)
    served.faults += [("GET", "/trips", status)] * 3
    assert catalog.table(NAME) is not None
    served.faults += [("GET", "/trips", status)] * 9
    with pytest.raises(pudi.UnavailableError, match=rf"failed in GET of the table rides\.trips \({status}: a fault"):
        catalog.table(NAME)
    assert len(served.faults) == 5  # four attempts


@pytest.mark.parametrize(
    ("said", "seconds"),
    [("20", 20), ("Tue, 14 Nov 2023 22:13:40 GMT", 20), ("Tue, 14 Nov 2023 22:13:00 GMT", 0), ("soon", 0), ("", 0)],
)
@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("path", ["/trips", "/tokens"])
def test_a_wait_that_the_service_asks_for_is_kept(
    served: PolarisServer, catalog: PolarisCatalog, said: str, seconds: int, status: int, path: str
) -> None:
    served.namespaces["rides"], served.retry_after = {}, said
    served.faults.append(("POST" if path == "/tokens" else "GET", path, status))
    before = catalog._context.clock.now_ms()
    assert catalog.table(NAME) is None
    assert seconds * 1000 <= catalog._context.clock.now_ms() - before < seconds * 1000 + 1000


def test_a_longer_wait_is_left_to_the_caller(served: PolarisServer, catalog: PolarisCatalog) -> None:
    served.namespaces["rides"], served.retry_after = {}, "3600"
    served.faults.append(("GET", "/trips", 429))
    with pytest.raises(pudi.UnavailableError, match=r"\(429: a fault of 429\); try again in 3600 s") as raised:
        catalog.table(NAME)
    assert raised.value.retry_after_s == 3600


def test_a_lost_answer_is_no_failure(served: PolarisServer, catalog: PolarisCatalog) -> None:
    served.namespaces["rides"] = {}
    served.lost.append("POST")
    catalog.create_table(entry())
    served.lost.append("DELETE")
    assert catalog.drop_table(NAME)
    assert not catalog.drop_table(NAME)
    assert served.lost == []


def test_a_server_that_is_down_is_said(served: PolarisServer) -> None:
    catalog = opened(served, uri="http://127.0.0.1:1/api/catalog")
    with pytest.raises(pudi.UnavailableError, match=r"polaris:http://127\.0\.0\.1:1/api/catalog/lake doesn't answer"):
        catalog.table(NAME)


def test_missing_rights_are_said(served: PolarisServer, catalog: PolarisCatalog) -> None:
    served.namespaces["rides"] = {}
    served.faults.append(("POST", "/generic-tables", 403))
    with pytest.raises(pudi.RefusedError, match=r"refused POST of the table rides\.trips \(403: .*grant the right"):
        catalog.create_table(entry())


def test_tokens_are_asked_for_once_and_again_before_they_expire(served: PolarisServer, catalog: PolarisCatalog) -> None:
    for _ in range(3):
        catalog.table(NAME)
    assert [each["client_secret"] for each in served.asked] == [CREDENTIAL[1]]
    served.tokens.clear()  # the server forgets them
    catalog.table(NAME)
    assert len(served.asked) == 2
    catalog._context.clock.sleep(3590)
    catalog.table(NAME)
    assert len(served.asked) == 3


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"credential": "reader:wrong"}, "gives no token for the credential .401.*check pudi.polaris.credential"),
        ({"scope": "x"}, "invalid_scope.*pudi.polaris.scope"),
        ({"credential": "", "token": "old"}, "401: the token is none.; give a valid pudi.polaris.credential or"),
        ({"warehouse": "swamp"}, "no catalog 'swamp'.*Unable to find warehouse"),
        ({"uri": "URL/more"}, "more/v1/oauth/tokens gives no token .*check pudi.polaris.uri"),
    ],
)
def test_a_wrong_setting_is_said(served: PolarisServer, changed: dict[str, str], message: str) -> None:
    changed = {key: value.replace("URL", served.url.removesuffix("/api/catalog")) for key, value in changed.items()}
    with opened(served, **changed) as catalog:
        for call in (
            lambda: catalog.has_database("rides"),
            lambda: catalog.table(NAME),
            lambda: catalog.drop_table(NAME),
        ):
            with pytest.raises(pudi.PudiError, match=message) as raised:
                call()
    assert isinstance(raised.value, (pudi.NotFoundError, pudi.RefusedError))
    assert CREDENTIAL[1] not in str(raised.value)


def test_a_server_without_generic_tables_is_refused(served: PolarisServer, catalog: PolarisCatalog) -> None:
    served.routes = ["GET /v1/{prefix}/namespaces"]
    with pytest.raises(pudi.NotSupportedError, match="has no generic tables"):
        catalog.table(NAME)


@pytest.mark.parametrize(
    ("address", "options", "message"),
    [
        ("", {}, "the address of the service is missing: set pudi.polaris.uri"),
        ("https://host/api/catalog", {}, "the name of the catalog is missing: set pudi.polaris.warehouse"),
        ("lake", {"pudi.polaris.uri": "host:8181"}, "'host:8181' is no URL of http or https"),
        ("lake", {"pudi.polaris.uri": "https://me:pw@host"}, "'host' is no URL"),
        (
            "lake",
            {"pudi.polaris.uri": "https://host", "pudi.polaris.token.uri": "https://me:pw@host/t"},
            "'host/t' has a user",
        ),
        ("https://host/api/catalog/lake", {"pudi.polaris.credential": "reader"}, "not of the form client-id:client-"),
    ],
)
def test_a_wrong_address_is_refused_at_once(address: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(pudi.InvalidArgumentError, match=message):
        PolarisCatalog(address, options)


def test_the_realm_and_the_environment_are_heeded(served: PolarisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUDI_POLARIS_URI", served.url)
    monkeypatch.setenv("PUDI_POLARIS_TOKEN", served.static)
    monkeypatch.setenv("PUDI_POLARIS_REALM", "south")
    with PolarisCatalog("lake") as catalog:
        assert not catalog.has_database("rides")
    assert served.realms == {"south"}
