"""Statements find, create, change and drop tables in attached catalogs; other sessions see it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.catalogs import CatalogTable, TableName
from pudi.catalogs.sqlite import SqliteCatalog
from pudi.statement import local

Sql = Callable[..., list[tuple[Any, ...]]]
CREATE = "CREATE TABLE {} (id BIGINT, at TIMESTAMP, city STRING) USING hudi PARTITIONED BY (city) {}"
ROWS = "VALUES ({}, TIMESTAMP '2024-01-01 00:00:00', '{}')"
KEY = "TBLPROPERTIES (primaryKey = 'id'{})"
TIMESTAMPS = "hoodie.datasource.hive_sync.support_timestamp"


@pytest.fixture
def inner(tmp_path: Path) -> SqliteCatalog:
    return SqliteCatalog(f"{tmp_path}/catalog.db")


BOTH = pytest.mark.parametrize("sql", ["local", pytest.param("spark", marks=pytest.mark.spark)], indirect=True)


@pytest.fixture
def sql(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run statements in a session to which the catalog is attached as `lake`."""
    engine = getattr(request, "param", "local")
    if engine == "local":
        pytest.importorskip("duckdb")
        monkeypatch.setattr(local, "_SETTINGS", local._Settings())
    spark = None if engine == "local" else request.getfixturevalue("spark").newSession()

    def run(text: str, **tables: Any) -> list[tuple[Any, ...]]:
        if spark is not None:
            return [tuple(row) for row in pudi.spark.sql(spark, text).collect()]
        return [tuple(row.values()) for row in pudi.sql(text, **tables).to_pylist()]

    run(f"ATTACH 'sqlite:{tmp_path}/catalog.db' AS lake")
    run(f"SET pudi.sql.warehouse = {tmp_path}/wh")
    return run


def cities(catalog: SqliteCatalog, name: str, database: str = "rides") -> list[str]:
    table = catalog.table(TableName(database, name))
    assert table is not None
    return sorted(each.values[0] for each in catalog.partitions(table))


def forget(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Begin another session, with the catalog attached by an option."""
    monkeypatch.setattr(local, "_SETTINGS", local._Settings())
    pudi.sql(f"SET pudi.sql.catalog.other = sqlite:{tmp_path}/catalog.db")


@BOTH
@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_table_lives_in_the_catalog(
    sql: Sql, inner: SqliteCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    pytest.importorskip("duckdb")
    kept, own = ", 'hoodie.keep.max.commits' = '40'", sql("SHOW TABLES")  # of a session that tests share
    sql(CREATE.format("rides.trips", KEY.format(f", type = '{kind}', '{TIMESTAMPS}' = 'true'{kept}")))
    names = ["trips"] if kind == "cow" else ["trips", "trips_ro", "trips_rt"]
    assert inner.table_names("rides") == names
    sql("INSERT INTO rides.trips " + ROWS.format(1, "rome"))
    assert all(cities(inner, name) == ["rome"] for name in names)
    sql("UPDATE lake.rides.trips SET at = at WHERE city = 'rome'")
    with pytest.raises(pudi.TableExistsError, match=r"there is a table rides\.trips already"):
        sql(CREATE.format("rides.trips", KEY.format("")))
    sql(CREATE.replace("TABLE", "TABLE IF NOT EXISTS").format("rides.trips", KEY.format("")))
    assert sql("SHOW TABLES IN rides") == [("rides", name, False) for name in names]
    assert sql("SHOW TABLES IN lake.rides LIKE '*s'") == [("rides", "trips", False)]
    assert sql("SHOW TABLES") == own, "they are in the catalog alone"

    forget(monkeypatch, tmp_path)  # another session sees it, and its properties
    assert pudi.sql("SELECT id, city FROM other.rides.trips").to_pylist() == [{"id": 1, "city": "rome"}]
    shown = dict(tuple(row.values()) for row in pudi.sql("SHOW TBLPROPERTIES rides.trips").to_pylist())
    assert shown["hoodie.keep.max.commits"] == "40"
    pudi.sql("ALTER TABLE rides.trips ADD COLUMNS (tip DOUBLE)")
    entry = inner.table(TableName("rides", "trips"))
    assert entry is not None
    assert [(each.name, each.type) for each in entry.columns[-3:]] == [
        ("id", "bigint"), ("at", "timestamp"), ("tip", "double"),
    ]  # fmt: skip
    pudi.sql("ALTER TABLE rides.trips SET TBLPROPERTIES ('team' = 'rides')")
    pudi.sql("ALTER TABLE rides.trips UNSET TBLPROPERTIES ('hoodie.keep.max.commits')")

    told = dict(sql("SHOW TBLPROPERTIES rides.trips"))
    assert told["team"] == "rides"
    assert "hoodie.keep.max.commits" not in told
    sql("DROP TABLE rides.trips")
    assert inner.table_names("rides") == []
    with pytest.raises(pudi.TableNotFoundError, match=r"there is no table rides\.trips"):
        sql("DELETE FROM rides.trips")


def test_views_of_a_table_are_read_and_not_changed(tmp_path: Path, inner: SqliteCatalog, sql: Sql) -> None:
    sql(CREATE.format("trips", KEY.format(", type = 'mor'") + f" LOCATION '{tmp_path}/t'"))
    sql("INSERT INTO trips " + ROWS.format(1, "rome"))
    sql("UPDATE trips SET at = NULL")
    assert sql("SELECT at IS NULL FROM trips_rt") == [(True,)]
    assert sql("SELECT at IS NULL FROM trips_ro") == [(False,)]
    with pytest.raises(pudi.NotSupportedError, match="trips_ro shows the read-optimized view"):
        sql("DELETE FROM trips_ro WHERE id = 1")
    with pytest.raises(pudi.InvalidArgumentError, match="trips_ro is one more name"):
        sql("DROP TABLE trips_ro PURGE")
    sql("INSERT INTO trips_rt " + ROWS.format(2, "oslo"))
    sql("DROP TABLE trips_ro")
    assert inner.table_names("default") == ["trips", "trips_rt"]
    assert sql("SELECT count(*) FROM trips") == [(2,)]


def test_a_table_that_others_registered_stays_as_they_did(tmp_path: Path, inner: SqliteCatalog, sql: Sql) -> None:
    sync = "hoodie.datasource.hive_sync."
    options = {TIMESTAMPS: "true", f"{sync}omit_metadata_fields": "true", f"{sync}table.strategy": "RT"}
    columns = {"id": "long", "at": "timestamp", "city": "string"}
    table = pudi.create(f"{tmp_path}/t", columns, record_key="id", partition_by="city", table_type="mor")
    table.sync(inner, "rides.trips", options=options)
    before = inner.table(TableName("rides", "trips"))
    sql("INSERT INTO rides.trips " + ROWS.format(1, "rome"))
    after = inner.table(TableName("rides", "trips"))
    assert before is not None
    assert after is not None
    assert (after.columns, after.format, after.kind) == (before.columns, before.format, before.kind)
    assert inner.table_names("rides") == ["trips"]
    assert cities(inner, "trips") == ["rome"]


@BOTH
def test_what_the_session_knows_comes_first(request: pytest.FixtureRequest, sql: Sql) -> None:
    sql(CREATE.format("trips", KEY.format("")))
    if "spark" in request.keywords:
        sql("CREATE TEMPORARY VIEW trips AS SELECT 7 AS id")
    assert sql("SELECT id FROM trips", trips=pa.table({"id": [7]})) == [(7,)]
    assert sql("WITH trips AS (SELECT 8 AS id) SELECT id FROM trips") == [(8,)]


def test_a_name_of_two_catalogs_says_which(tmp_path: Path, inner: SqliteCatalog, sql: Sql) -> None:
    sql(CREATE.format("rides.trips", KEY.format("")))
    sql(f"ATTACH 'sqlite:{tmp_path}/second.db' AS pond")
    with pytest.raises(pudi.InvalidArgumentError, match=r"say in which .* lake\.rides\.other or pond\.rides\.other"):
        sql(CREATE.format("rides.other", KEY.format("")))
    assert sql("SELECT count(*) FROM rides.trips") == [(0,)]
    sql(CREATE.format("pond.rides.trips", KEY.format("") + f" LOCATION '{tmp_path}/second'"))
    with pytest.raises(pudi.InvalidArgumentError, match=r"say which, lake\.rides\.trips or pond\.rides\.trips"):
        sql("SELECT count(*) FROM rides.trips")
    assert sql("SELECT count(*) FROM pond.rides.trips") == [(0,)]
    sql("DETACH pond")
    assert sql("SELECT count(*) FROM rides.trips") == [(0,)]


def test_dropping_a_name_leaves_a_table_with_a_location(tmp_path: Path, inner: SqliteCatalog, sql: Sql) -> None:
    sql(CREATE.format("kept", KEY.format("") + f" LOCATION '{tmp_path}/kept'"))
    sql(CREATE.format("gone", KEY.format("")))
    with pytest.raises(pudi.NotSupportedError, match="doesn't rename tables: CREATE TABLE other USING hudi LOCATION"):
        sql("ALTER TABLE kept RENAME TO other")
    sql("DROP TABLE kept")
    sql("DROP TABLE gone")
    sql("DROP TABLE IF EXISTS gone")
    assert inner.table_names("default") == []
    assert (tmp_path / "kept" / ".hoodie").exists()
    assert not (tmp_path / "wh" / "gone").exists()


def test_dropping_a_table_that_a_sync_registered_leaves_its_files(
    tmp_path: Path, inner: SqliteCatalog, sql: Sql
) -> None:
    """Even where CREATE TABLE without LOCATION would put it: a job wrote it, and a statement drops the name alone."""
    table = pudi.create(f"{tmp_path}/wh/rides.db/trips", {"id": "long"}, record_key="id")
    table.sync(inner, "rides.trips")
    sql("DROP TABLE rides.trips")
    assert inner.table_names("rides") == []
    assert (tmp_path / "wh" / "rides.db" / "trips" / ".hoodie").exists()


def test_a_catalog_that_fails_leaves_a_table_that_can_be_registered(
    tmp_path: Path, inner: SqliteCatalog, sql: Sql
) -> None:
    no_database = ", 'hoodie.datasource.hive_sync.auto_create_database' = 'false'"
    with pytest.raises(pudi.NotFoundError, match=r"no database 'new'.* is there: CREATE TABLE again registers it"):
        sql(CREATE.format("new.trips", KEY.format(no_database)))
    inner.create_database("new")
    sql(CREATE.format("new.trips", KEY.format(no_database)))
    assert inner.table_names("new") == ["trips"]


def test_wrong_statements_are_refused(tmp_path: Path, inner: SqliteCatalog, sql: Sql) -> None:
    inner.create_database("rides")
    inner.create_table(CatalogTable(TableName("rides", "notes"), "file:/notes", ()))
    for text, said in {
        "ATTACH 'hvie://host' AS x": "line 1, column 8.*'hvie' is no kind of catalogs",
        "ATTACH 'unity:x' AS x": "'unity' are not supported yet",
        "ATTACH sqlite AS x": "the address of a catalog in quotes",
        "ATTACH 'sqlite:/elsewhere.db' AS LAKE": "lake is the catalog sqlite:.*DETACH lake first",
        "SELECT * FROM lake.rides.gone": "there is no table lake.rides.gone",
        "SELECT * FROM nowhere.gone": "there is no table nowhere.gone: .*ATTACH the catalog that has it",
        "DETACH pond": "no catalog pond is attached; lake is",
        "DELETE FROM rides.notes": "notes is a table of another format, at file:/notes",
    }.items():
        with pytest.raises(pudi.PudiError, match=said):
            sql(text)
